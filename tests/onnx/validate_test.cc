#include "onnx/validate.h"

#include "model_builder.h"
#include "onnx/node_order.h"
#include "onnx/schema.h"

namespace sardonyx::onnx {
namespace {

void ExpectInvalid(const ModelProto& model, std::vector<std::string> parts,
                   ErrorCode code = ErrorCode::kInvalidModel, const ValidateOptions& options = {}) {
  parts.push_back("model.onnx: ");
  ExpectError(code, parts, [&] { ValidateModel(model, "model.onnx", options); });
}

NodeProto MakeIf(std::string_view condition, std::string_view output, GraphProto then_branch,
                 GraphProto else_branch) {
  NodeProto node = MakeNode("If", {condition}, {output}, "if");
  node.attribute.push_back(MakeGraphAttribute("then_branch", std::move(then_branch)));
  node.attribute.push_back(MakeGraphAttribute("else_branch", std::move(else_branch)));
  return node;
}

FunctionProto MakeFunction(std::string_view name, std::vector<NodeProto> nodes) {
  FunctionProto function;
  function.name = name;
  function.domain = "local";
  function.input = {"a"};
  function.output = {"b"};
  function.opset_import = {MakeImport("", 21), MakeImport("local", 1)};
  function.node = std::move(nodes);
  return function;
}

NodeProto MakeCall(std::string_view name, std::string_view input, std::string_view output) {
  NodeProto node = MakeNode(name, {input}, {output});
  node.domain = "local";
  return node;
}

TEST(ValidateModel, AcceptsAGoodModel) {
  EXPECT_NO_THROW(ValidateModel(MakeReluModel(), "m"));
  // Without nodes, an input can be an output.
  EXPECT_NO_THROW(ValidateModel(MakeModel(MakeGraph({"x"}, {"x"}, {})), "m"));
}

TEST(ValidateModel, ChecksVersions) {
  ModelProto model = MakeReluModel();
  model.ir_version.reset();
  ExpectInvalid(model, {"no IR version"});
  model.ir_version = 15;
  ExpectInvalid(model, {"IR version 15", "newest known is 14"}, ErrorCode::kUnsupported);
  model = MakeReluModel();
  model.opset_import.clear();
  ExpectInvalid(model, {"no opset_import"});
  model.opset_import = {MakeImport("", 29)};
  ExpectInvalid(model, {"opset 29", "ai.onnx", "newest known is 28"}, ErrorCode::kUnsupported);
  model.opset_import = {MakeImport("", 21), MakeImport("ai.onnx.ml", 6)};
  ExpectInvalid(model, {"opset 6 of the domain 'ai.onnx.ml'", "newest known is 5"},
                ErrorCode::kUnsupported);
  model.opset_import = {MakeImport("", 21), MakeImport("ai.onnx", 20)};
  ExpectInvalid(model, {"two versions", "21 and 20"});
  model.opset_import = {MakeImport("", 0)};
  ExpectInvalid(model, {"version 0"});
  // Imports of foreign domains are no fault as long as nothing uses them.
  model.opset_import = {MakeImport("", 21), MakeImport("com.example", 99)};
  EXPECT_NO_THROW(ValidateModel(model, "m"));
}

TEST(ValidateModel, KnowsModelsBeforeOpsets) {
  ModelProto model = MakeReluModel();
  model.opset_import.clear();
  model.ir_version = 2;
  EXPECT_EQ(ImportedOpset(model, "ai.onnx"), 1);
  EXPECT_NO_THROW(ValidateModel(model, "m"));
}

TEST(ValidateModel, ReportsAllUnknownOperatorsTogether) {
  ModelProto model = MakeModel(MakeGraph({"x", "c"}, {"y"}, {}), 13);
  NodeProto foreign = MakeNode("Fuse", {"x"}, {"d"}, "fuse");
  foreign.domain = "com.example";
  NodeProto forest = MakeNode("Normalizer", {"x"}, {"e"}, "norm");
  forest.domain = "ai.onnx.ml";
  model.graph->node = {
      MakeNode("Rleu", {"x"}, {"a"}, "typo"), MakeNode("Gelu", {"a"}, {"b"}), foreign, forest,
      MakeIf("c", "y", MakeGraph({}, {"t"}, {MakeNode("Rleu", {"x"}, {"t"}, "inner")}),
             MakeGraph({}, {"u"}, {MakeNode("Identity", {"x"}, {"u"})}))};
  ExpectInvalid(model,
                {"4 operators cannot run", "Rleu (opset 13): not in the ONNX standard",
                 "node 'typo' (Rleu)", "node 'inner' (Rleu)", "Gelu (opset 13): added in opset 20",
                 "node that makes 'b'", "com.example::Fuse: the domain is not of the ONNX standard",
                 "ai.onnx.ml::Normalizer: the domain is missing from opset_import"},
                ErrorCode::kUnsupported);
  const auto unknown = FindUnknownOperators(model);
  ASSERT_EQ(unknown.size(), 4u);
  EXPECT_EQ(unknown[1].name, "Rleu");
  EXPECT_EQ(unknown[1].nodes.size(), 2u);
}

TEST(ValidateModel, SuggestsAnOperatorOfMuchTheSameName) {
  const auto refusal = [](std::string_view domain, std::string_view name) {
    NodeProto node = MakeNode(name, {"x"}, {"y"});
    node.domain = domain;
    return FindUnknownOperators(MakeModel(MakeGraph({"x"}, {"y"}, {node}))).at(0).reason;
  };
  EXPECT_EQ(refusal("", "Rleu"), "not in the ONNX standard; is Relu meant?");
  EXPECT_EQ(refusal("", "conv"), "not in the ONNX standard; is Conv meant?");
  EXPECT_EQ(refusal("", "BatchNormalisation"),
            "not in the ONNX standard; is BatchNormalization meant?");
  EXPECT_EQ(refusal("", "Normalizer"),
            "not in the ONNX standard; is ai.onnx.ml::Normalizer meant?");
  EXPECT_EQ(refusal("ai.onnx.ml", "Attention"), "not in the ONNX standard; is Attention meant?");
  for (const std::string& name :
       {std::string("Frobnicate"), std::string("Q"), std::string(9000, 'e')}) {
    EXPECT_EQ(refusal("", name), "not in the ONNX standard");
  }
  // What ONNX Runtime saves for one machine.
  EXPECT_TRUE(refusal("com.microsoft.nchwc", "Conv").ends_with("or take the original model"));
}

TEST(ValidateModel, AsksWhatIsSupported) {
  NodeProto custom = MakeNode("Fuse", {"x"}, {"y"});
  custom.domain = "com.example";
  const ModelProto model = MakeModel(MakeGraph({"x"}, {"y"}, {custom}));
  ValidateOptions options;
  options.supported = [](std::string_view domain, std::string_view name) {
    return domain == "com.example" && name == "Fuse";
  };
  EXPECT_NO_THROW(ValidateModel(model, "m", options));
  ExpectInvalid(MakeReluModel(), {"Relu (opset 21): not implemented"}, ErrorCode::kUnsupported,
                options);
  EXPECT_TRUE(FindUnknownOperators(MakeReluModel(), options)[0].in_standard);
}

TEST(ValidateModel, ReportsAllFaultyNodes) {
  ModelProto model = MakeReluModel();
  model.graph->node[0].attribute.push_back(MakeInt("alpha", 1));
  ExpectInvalid(model, {"node 'relu' (Relu-14): the attribute 'alpha' is unknown"});
  model.graph->node.push_back(MakeNode("MatMul", {"y"}, {"z"}, "mm"));
  ExpectInvalid(model, {"2 nodes", "node 'relu' (Relu-14)", "node 'mm' (MatMul-13)"});
}

TEST(ValidateModel, FindsUndefinedValues) {
  ExpectInvalid(MakeModel(MakeGraph({"x"}, {"y"}, {MakeNode("Relu", {"q"}, {"y"}, "r")})),
                {"node 'r' (Relu)", "input 'q' is undefined"});
  ExpectInvalid(MakeModel(MakeGraph({"x"}, {"z"}, {MakeNode("Relu", {"x"}, {"y"})})),
                {"output 'z'", "output of no node"});
}

TEST(ValidateModel, FindsCycles) {
  ExpectInvalid(MakeModel(MakeGraph({"x"}, {"b"},
                                    {MakeNode("Add", {"x", "c"}, {"a"}, "first"),
                                     MakeNode("Relu", {"a"}, {"b"}, "second"),
                                     MakeNode("Relu", {"b"}, {"c"}, "third")})),
                {"cycle: ",
                 "node 'first' (Add) -> node 'second' (Relu) -> node 'third' (Relu) -> "
                 "node 'first' (Add)"});
  ExpectInvalid(MakeModel(MakeGraph({"x"}, {"a"}, {MakeNode("Add", {"x", "a"}, {"a"}, "self")})),
                {"cycle: node 'self' (Add) -> node 'self' (Add)"});
  // Over a value that a subgraph reads.
  ExpectInvalid(
      MakeModel(MakeGraph({"c"}, {"y"},
                          {MakeIf("c", "y", MakeGraph({}, {"t"}, {MakeNode("Relu", {"z"}, {"t"})}),
                                  MakeGraph({}, {"u"}, {MakeNode("Relu", {"c"}, {"u"})})),
                           MakeNode("Relu", {"y"}, {"z"}, "later")})),
      {"cycle: ", "node 'if' (If) -> node 'later' (Relu)"});
}

using Names = std::vector<std::string_view>;
Names NamesOf(const std::vector<NodeProto>& nodes) {
  Names names;
  for (const NodeProto& node : nodes) names.push_back(node.name.Get());
  return names;
}

TEST(ValidateModel, TellsWrongOrderFromCycles) {
  EXPECT_TRUE(ValidateModel(MakeReluModel(), "m"));
  ModelProto model = MakeModel(MakeGraph(
      {"x"}, {"c", "d"},
      {MakeNode("Add", {"a", "b"}, {"c"}, "sum"), MakeNode("Relu", {"x"}, {"d"}, "other"),
       MakeNode("Abs", {"a"}, {"b"}, "second"), MakeNode("Relu", {"x"}, {"a"}, "first")}));
  EXPECT_FALSE(ValidateModel(model, "m"));
  SortNodes(model);
  EXPECT_EQ(NamesOf(model.graph->node), (Names{"first", "second", "sum", "other"}));
  EXPECT_TRUE(ValidateModel(model, "m"));
  // A value that is nowhere made is missing all the same.
  ExpectInvalid(MakeModel(MakeGraph({"x"}, {"b"},
                                    {MakeNode("Relu", {"a"}, {"b"}, "early"),
                                     MakeNode("Add", {"x", "z"}, {"a"}, "late")})),
                {"node 'late' (Add)", "'z' is undefined"});
}

TEST(ValidateModel, SortsInsideOfGraphsAndFunctions) {
  // A branch reads what stands behind the If, and is in disorder itself.
  GraphProto branch = MakeGraph({}, {"t"},
                                {MakeNode("Relu", {"u"}, {"t"}, "inner last"),
                                 MakeNode("Relu", {"z"}, {"u"}, "inner first")});
  GraphProto other = MakeGraph({}, {"v"}, {MakeNode("Relu", {"x"}, {"v"})});
  ModelProto model = MakeModel(MakeGraph({"c", "x"}, {"y"},
                                         {MakeIf("c", "y", std::move(branch), std::move(other)),
                                          MakeNode("Relu", {"x"}, {"z"}, "outer")}));
  EXPECT_FALSE(ValidateModel(model, "m"));
  SortNodes(model);
  EXPECT_EQ(NamesOf(model.graph->node), (Names{"outer", "if"}));
  EXPECT_EQ(NamesOf(model.graph->node[1].attribute[0].g->node),
            (Names{"inner first", "inner last"}));
  EXPECT_TRUE(ValidateModel(model, "m"));

  model = MakeModel(MakeGraph({"x"}, {"y"}, {MakeCall("F", "x", "y")}));
  model.opset_import.push_back(MakeImport("local", 1));
  model.functions = {MakeFunction(
      "F", {MakeNode("Relu", {"m"}, {"b"}, "last"), MakeNode("Relu", {"a"}, {"m"}, "first")})};
  EXPECT_FALSE(ValidateModel(model, "m"));
  SortNodes(model);
  EXPECT_EQ(NamesOf(model.functions[0].node), (Names{"first", "last"}));
  EXPECT_TRUE(ValidateModel(model, "m"));
}

TEST(ValidateModel, FindsDuplicateNames) {
  ExpectInvalid(MakeModel(MakeGraph(
                    {"x"}, {"y"},
                    {MakeNode("Relu", {"x"}, {"y"}, "one"), MakeNode("Abs", {"x"}, {"y"}, "two")})),
                {"node 'two' (Abs)", "'y' is already an output of node 'one' (Relu)"});
  ExpectInvalid(MakeModel(MakeGraph({"x"}, {"x"}, {MakeNode("Relu", {"x"}, {"x"}, "one")})),
                {"node 'one' (Relu)", "already an input or initializer"});
  ExpectInvalid(MakeModel(MakeGraph({"x"}, {"y"}, {MakeNode("Split", {"x"}, {"y", "y"}, "s")})),
                {"node 's' (Split)", "two outputs named 'y'"});
  ExpectInvalid(MakeModel(MakeGraph({"x", "x"}, {"x"}, {})), {"graph input 'x' is given twice"});
  ModelProto model = MakeReluModel();
  TensorProto weight;
  weight.name = "w";
  model.graph->initializer = {weight, weight};
  ExpectInvalid(model, {"initializer 'w' is given twice"});
  model.graph->initializer = {TensorProto()};
  ExpectInvalid(model, {"initializer has no name"});
  // An initializer of an input's name is its default value.
  weight.name = "x";
  model.graph->initializer = {weight};
  EXPECT_NO_THROW(ValidateModel(model, "m"));
}

TEST(ValidateModel, LetsSubgraphsSeeOuterValues) {
  const auto branch = [](std::string_view input, std::string_view output) {
    return MakeGraph({}, {output}, {MakeNode("Relu", {input}, {output}, "inner")});
  };
  // Both branches may use the same names; they read the outer 'a'.
  EXPECT_NO_THROW(ValidateModel(
      MakeModel(MakeGraph(
          {"x", "c"}, {"y"},
          {MakeNode("Abs", {"x"}, {"a"}), MakeIf("c", "y", branch("a", "t"), branch("a", "t"))})),
      "m"));
  // But an inner value is unknown outside.
  ExpectInvalid(MakeModel(MakeGraph({"x", "c"}, {"t"},
                                    {MakeIf("c", "y", branch("x", "t"), branch("x", "t"))})),
                {"output 't'"});
  // And a branch cannot read a sibling's.
  ExpectInvalid(MakeModel(MakeGraph({"x", "c"}, {"y"},
                                    {MakeIf("c", "y", branch("x", "t"), branch("t", "u"))})),
                {"node 'inner' (Relu)", "input 't' is undefined"});
}

TEST(ValidateModel, BoundsNesting) {
  GraphProto graph = MakeGraph({}, {"c"}, {});
  for (int i = 0; i < 70; ++i) {
    graph = MakeGraph({}, {"y"}, {MakeIf("c", "y", std::move(graph), MakeGraph({}, {"c"}, {}))});
  }
  graph.input.push_back(MakeValue("c"));
  ExpectInvalid(MakeModel(std::move(graph)), {"nest deeper", "64"}, ErrorCode::kLimitExceeded);
}

TEST(ValidateModel, KnowsModelLocalFunctions) {
  ModelProto model = MakeModel(MakeGraph({"x"}, {"y"}, {MakeCall("Outer", "x", "y")}));
  model.functions = {MakeFunction("Inner", {MakeNode("Relu", {"a"}, {"b"})}),
                     MakeFunction("Outer", {MakeCall("Inner", "a", "b")})};
  EXPECT_NO_THROW(ValidateModel(model, "m"));
  EXPECT_EQ(FindFunction(model, model.graph->node[0]), &model.functions[1]);
  // The overload is part of the name.
  model.graph->node[0].overload = "f16";
  ExpectInvalid(model, {"local::Outer"}, ErrorCode::kUnsupported);
  model.functions[1].overload = "f16";
  EXPECT_NO_THROW(ValidateModel(model, "m"));
  // Faults within functions that are called count.
  model.functions[0].node[0].op_type = "Rleu";
  ExpectInvalid(model, {"Rleu"}, ErrorCode::kUnsupported);
  model.functions[0].node[0] = MakeNode("Relu", {"q"}, {"b"}, "r");
  ExpectInvalid(model, {"function local::Inner", "node 'r' (Relu)", "'q' is undefined"});
  model.functions[0].node[0] = MakeNode("Relu", {"a", "a"}, {"b"}, "r");
  ExpectInvalid(model, {"function local::Inner", "node 'r' (Relu-14)", "has 2 inputs"});
}

TEST(ValidateModel, RefusesRecursiveAndRepeatedFunctions) {
  ModelProto model = MakeModel(MakeGraph({"x"}, {"y"}, {MakeCall("Ping", "x", "y")}));
  model.functions = {MakeFunction("Ping", {MakeCall("Pong", "a", "b")}),
                     MakeFunction("Pong", {MakeCall("Ping", "a", "b")})};
  ExpectInvalid(model, {"call themselves", "local::Ping", "local::Pong"});
  model.functions = {MakeFunction("Ping", {MakeNode("Relu", {"a"}, {"b"})}),
                     MakeFunction("Ping", {MakeNode("Relu", {"a"}, {"b"})})};
  ExpectInvalid(model, {"function local::Ping is defined twice"});
}

}  // namespace
}  // namespace sardonyx::onnx
