// The text form of graphs: what is printed reads back as the same graph.

#include "ir/text.h"

#include <gtest/gtest.h>

#include <limits>

namespace sardonyx {
namespace {

// Operations of a graph that only says what it is: outputs are like input 0, or a float.
void InferLikeInput(InferContext& context) {
  for (size_t i = 0; i < context.output_count(); ++i) {
    if (context.has(0)) {
      context.Set(i, context.dtype(0), context.input(0).shape);
    } else {
      context.Set(i, DType::kFloat32, Dims{});
    }
  }
}
const CoreOp kAny = {.name = "any", .inputs = "v*", .infer = InferLikeInput, .reference = nullptr};
const CoreOp kBody = {.name = "if_", .inputs = "v*", .infer = InferLikeInput, .reference = nullptr};

const CoreOp* FindOp(std::string_view name) {
  return name == "any" ? &kAny : name == "if_" ? &kBody : nullptr;
}
std::unique_ptr<Graph> Parse(std::string_view text) { return ParseGraph(text, FindOp); }

void ExpectRoundTrip(const std::string& text) {
  const std::string printed = PrintGraph(*Parse(text));
  EXPECT_EQ(PrintGraph(*Parse(printed)), printed);
}

TEST(Text, PrintsWhatItRead) {
  const std::string text = R"(graph main
input x: float[batch,3,?]
input i: int64
const w: float[2] = {0.1, -2}
y = any(x, _, w) {axes=[0,-1], axis=-1, epsilon=1e-05, kind="sum"}  # float[batch,3,?1]
a, b = any(y, i)  # float[batch,3,?1], float[batch,3,?1]
output b
output y
)";
  // The symbol of "?" gets a number.
  std::string expected = text;
  expected.replace(expected.find("3,?]"), 4, "3,?1]");
  EXPECT_EQ(PrintGraph(*Parse(text)), expected);
  ExpectRoundTrip(text);
}

TEST(Text, AttributesOfEveryKindReadBack) {
  Graph graph;
  Value* x = graph.AddInput("x", Fact::Of(MakeScalar<float>(0)));
  x->fact.constant = Tensor();
  Attributes attributes{{"int", int64_t{-7}},
                        {"float", 2.0},
                        {"large", 1e300},
                        {"infinite", -std::numeric_limits<double>::infinity()},
                        {"string", std::string("say \"#1\" \\ {\nend}")},
                        {"ints", std::vector<int64_t>{1, -2}},
                        {"none", std::vector<int64_t>{}},
                        {"floats", std::vector<double>{0.5, 3}},
                        {"strings", std::vector<std::string>{"a,b", "", "c]"}},
                        {"tensor", MakeVector<int32_t>({4, 5})},
                        {"scalar", MakeScalar<float>(0.1F)},
                        {"expression", Expression::Parse("(float; 2:float) mul(0,1):float")}};
  graph.outputs.push_back(
      graph.Append(graph.MakeNode(kAny, {x}, attributes, 1, nullptr))->output());
  const auto again = Parse(PrintGraph(graph));
  EXPECT_TRUE(again->nodes()[0]->attributes == attributes) << PrintGraph(*again);
}

TEST(Text, ConstantsOfEveryTypeReadBack) {
  const int64_t large = std::numeric_limits<int64_t>::max();
  Tensor halves = MakeFilled(DType::kFloat16, {2}, 0.333);
  Tensor brains = MakeFilled(DType::kBFloat16, {1, 1}, -1.5);
  for (const Tensor& tensor :
       {MakeVector<int64_t>({large, -large}), MakeVector<float>({0.1F, 1e-38F, 16777217.0F}),
        MakeVector<double>({0.1, 1e300}), MakeVector<std::string>({"", "a \"b\" # c", "x\\\ny"}),
        MakeScalar<bool>(true), MakeVector<uint8_t>({255, 0}), halves, brains,
        MakeVector<uint64_t>({std::numeric_limits<uint64_t>::max()}),
        Tensor(DType::kInt32, {0, 3})}) {
    Graph graph;
    graph.outputs.push_back(graph.AddConstant(tensor, "c"));
    const auto again = Parse(PrintGraph(graph));
    EXPECT_TRUE(BitEqual(again->outputs[0]->fact.constant, tensor)) << PrintGraph(graph);
  }
}

TEST(Text, NamesOfAnyKindReadBack) {
  Graph graph;
  Value* last = nullptr;
  for (const char* name :
       {"input", "output", "const", "graph", "_", "a b", "a#b", "x:0", "\"", "7"}) {
    Fact fact;
    fact.type = DType::kFloat32;
    last = last == nullptr
               ? graph.AddInput(name, fact)
               : graph.Append(graph.MakeNode(kAny, {last, nullptr}, {}, 1, nullptr))->output();
    last->name = name;
  }
  graph.outputs.push_back(last);
  const auto again = Parse(PrintGraph(graph));
  EXPECT_EQ(PrintGraph(*again), PrintGraph(graph));
  EXPECT_EQ(again->outputs[0]->name, "7");
  EXPECT_EQ(again->inputs[0]->name, "input");
  EXPECT_EQ(again->nodes()[3]->output()->name, "_");
}

TEST(Text, ValuesWithoutNameAreNumbered) {
  const auto graph = Parse("graph g\ninput x: float[2]\n@7 = any(x)\n@3 = any(@7)\noutput @3\n");
  EXPECT_EQ(graph->outputs[0]->name, "");
  EXPECT_EQ(PrintGraph(*graph),
            "graph g\ninput x: float[2]\n@0 = any(x)  # float[2]\n@1 = any(@0)  # float[2]\n"
            "output @1\n");
}

TEST(Text, KindsOfValuesOtherThanTensors) {
  const auto graph = Parse(R"(graph g
input s: seq(tensor(float))
input o: optional(seq(tensor(int64)))
input m: map(string,tensor(float))
output s
)");
  EXPECT_EQ(Print(graph->inputs[0]->fact.type), "seq(tensor(float))");
  EXPECT_EQ(Print(graph->inputs[1]->fact.type), "optional(seq(tensor(int64)))");
  EXPECT_EQ(Print(graph->inputs[2]->fact.type), "map(string,tensor(float))");
  EXPECT_EQ(PrintGraph(*Parse(PrintGraph(*graph))), PrintGraph(*graph));
}

TEST(Text, BodiesWithinBodies) {
  const std::string text = R"(graph g
input c: bool[]
input x: float[n]
y = if_(c, x) {axis=1}
  else_branch = {
    graph other
    input a: float[n]
    const k: float[] = {2}
    b = any(a, k)
    output b
  }
  then_branch = {
    graph then
    input a: float[(n*2)]
    b = if_(a)
      body = {
        graph inner
        input q: float
        output q
      }
    output b
  }
z = any(y)
output z
)";
  const auto graph = Parse(text);
  ASSERT_EQ(graph->nodes().size(), 2);
  const auto then = graph->nodes()[0]->attributes.Body("then_branch");
  EXPECT_EQ(then->nodes()[0]->attributes.Body("body")->name, "inner");
  EXPECT_EQ(then->inputs[0]->fact.rank(), 1);
  ExpectRoundTrip(text);
}

TEST(Text, ErrorsNameTheLine) {
  const auto error = [](std::string_view text) -> std::string {
    try {
      Parse(text);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(error("graph g\ny = any(x)\n"), "line 2: 'x' is not defined");
  EXPECT_EQ(error("y = other()"), "line 1: there is no core operation 'other'");
  EXPECT_EQ(error("input x: flat"), "line 1: there is no element type 'flat'");
  EXPECT_EQ(error("const c: int64[2] = {1,2,3}"), "line 1: 3 elements for shape [2]");
  EXPECT_EQ(error("const c: int64[1] = {1.5}"), "line 1: '1.5' is no integer");
  EXPECT_EQ(error("const c: float[9] = ..."), "line 1: expected '{' before '...'");
  EXPECT_EQ(error("input x: float[2] more"), "line 1: 'more' is too much");
  EXPECT_EQ(error("input x: float\ninput x: float"), "line 2: 'x' is defined twice");
  EXPECT_EQ(error("input x: float\ny = any(x)\n  body = {\n"), "line 3: a body is not closed");
  EXPECT_EQ(error("input \"x: float"), "line 1: a quoted name is not closed");
}

}  // namespace
}  // namespace sardonyx
