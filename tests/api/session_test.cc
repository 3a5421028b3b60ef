// The session: outputs by name, inputs with defaults, checks of inputs, profiles, explanations,
// inspection.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "../onnx/model_builder.h"
#include "ir/tensor.h"
#include "sardonyx/sardonyx.hpp"

namespace sardonyx {
namespace {

using onnx::ExpectError;

onnx::ValueInfoProto Float(std::string_view name, const std::vector<std::string_view>& dims,
                           DType dtype = DType::kFloat32) {
  onnx::ValueInfoProto value = onnx::MakeValue(name);
  onnx::TypeProto& type = value.type.emplace();
  onnx::TypeProto::Tensor& tensor = type.tensor_type.emplace();
  tensor.elem_type = static_cast<int32_t>(dtype);
  onnx::TensorShapeProto& shape = tensor.shape.emplace();
  for (const std::string_view dim : dims) {
    onnx::TensorShapeProto::Dimension& dimension = shape.dim.emplace_back();
    if (std::isdigit(static_cast<unsigned char>(dim[0])) != 0) {
      dimension.dim_value = std::stoll(std::string(dim));
    } else {
      dimension.dim_param = dim;
    }
  }
  return value;
}

onnx::TensorProto Initializer(std::string_view name, const std::vector<int64_t>& dims,
                              const std::vector<float>& values) {
  onnx::TensorProto tensor;
  tensor.name = name;
  tensor.dims = dims;
  tensor.data_type = static_cast<int32_t>(DType::kFloat32);
  tensor.float_data = values;
  return tensor;
}

// h = x W; s = h + b; y = relu(s); z = x + x2. b is an input with a default, W is not.
onnx::ModelProto Model() {
  onnx::ModelProto model =
      onnx::MakeModel(onnx::MakeGraph({}, {"y", "z"},
                                      {onnx::MakeNode("MatMul", {"x", "W"}, {"h"}, "product"),
                                       onnx::MakeNode("Add", {"h", "b"}, {"s"}, "bias"),
                                       onnx::MakeNode("Relu", {"s"}, {"y"}, "activation"),
                                       onnx::MakeNode("Add", {"x", "x2"}, {"z"}, "sum")}));
  model.graph->name = "small";
  model.graph->input = {Float("x", {"n", "2"}), Float("x2", {"n", "2"}), Float("b", {"3"})};
  model.graph->initializer = {Initializer("W", {2, 3}, {1, 2, 3, 4, 5, 6}),
                              Initializer("b", {3}, {-10, 0, 10})};
  model.producer_name = "tests";
  return model;
}

Session Load(const Options& options = {}) {
  auto bytes = std::make_shared<const std::string>(onnx::Serialize(Model()));
  return Session(std::string_view(*bytes), bytes, options);
}

Tensor Floats(std::vector<int64_t> dims, const std::vector<float>& values) {
  return MakeVector(values).Reshaped(std::move(dims));
}

std::vector<float> Values(const Datum& datum) {
  const Tensor& tensor = *datum.tensor();
  return {tensor.data<float>(), tensor.data<float>() + tensor.size()};
}

NamedData Inputs() { return {{"x", Floats({1, 2}, {1, 2})}, {"x2", Floats({1, 2}, {10, 20})}}; }

TEST(Session, DescribesItself) {
  const Session session = Load({.threads = 2});
  ASSERT_EQ(session.inputs().size(), 2);
  EXPECT_EQ(session.inputs()[0].name, "x");
  EXPECT_EQ(session.inputs()[0].type, "tensor(float)");
  ASSERT_EQ(session.inputs()[0].shape.size(), 2);
  EXPECT_EQ(session.inputs()[0].shape[0].symbol, "n");
  EXPECT_EQ(session.inputs()[0].shape[1].value, 2);
  ASSERT_EQ(session.outputs().size(), 2);
  EXPECT_EQ(session.outputs()[1].name, "z");
  EXPECT_EQ(session.metadata().at("producer_name"), "tests");
  EXPECT_EQ(session.metadata().at("graph_name"), "small");
  EXPECT_EQ(session.options().threads, 2);
  EXPECT_GE(Load().options().threads, 1);
}

TEST(Session, Runs) {
  Session session = Load();
  const std::vector<Datum> outputs = session.Run(Inputs());
  ASSERT_EQ(outputs.size(), 2);
  EXPECT_EQ(Values(outputs[0]), (std::vector<float>{0, 12, 25}));
  EXPECT_EQ(Values(outputs[1]), (std::vector<float>{11, 22}));
}

TEST(Session, AnyValueByName) {
  Session session = Load();
  // Values that fusion swallowed, outputs of the model, an input, a weight; in any order.
  const std::vector<Datum> outputs = session.Run(Inputs(), {"s", "z", "h", "x", "W", "y", "s"});
  ASSERT_EQ(outputs.size(), 7);
  EXPECT_EQ(Values(outputs[0]), (std::vector<float>{-1, 12, 25}));
  EXPECT_EQ(Values(outputs[1]), (std::vector<float>{11, 22}));
  EXPECT_EQ(Values(outputs[2]), (std::vector<float>{9, 12, 15}));
  EXPECT_EQ(Values(outputs[3]), (std::vector<float>{1, 2}));
  EXPECT_EQ(Values(outputs[4]), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Values(outputs[5]), (std::vector<float>{0, 12, 25}));
  EXPECT_EQ(Values(outputs[6]), Values(outputs[0]));
  // The model's own are as before.
  EXPECT_EQ(session.Run(Inputs()).size(), 2);
  EXPECT_EQ(Values(session.Run(Inputs(), {"z"})[0]), (std::vector<float>{11, 22}));
  ExpectError(ErrorCode::kInvalidArgument, {"no value 'nothing'"},
              [&] { session.Run(Inputs(), {"nothing"}); });
}

TEST(Session, DefaultsCanBeOverridden) {
  Session session = Load();
  NamedData inputs = Inputs();
  inputs.emplace_back("b", Floats({3}, {0, -100, 0}));
  EXPECT_EQ(Values(session.Run(inputs)[0]), (std::vector<float>{9, 0, 15}));
  EXPECT_EQ(Values(session.Run(inputs, {"s"})[0]), (std::vector<float>{9, -88, 15}));
  EXPECT_EQ(Values(session.Run(Inputs())[0]), (std::vector<float>{0, 12, 25}));
  inputs.back().second = Floats({2}, {1, 2});
  ExpectError(ErrorCode::kInvalidArgument, {"input 'b' must have shape [3], has [2]"},
              [&] { session.Run(inputs); });
  // A weight that is no input is none.
  inputs.back() = {"W", Floats({2, 3}, {1, 2, 3, 4, 5, 6})};
  ExpectError(ErrorCode::kInvalidArgument, {"no input 'W'", "x, x2"}, [&] { session.Run(inputs); });
}

TEST(Session, InputsAreChecked) {
  Session session = Load();
  const auto expect = [&](const NamedData& inputs, const std::string& message) {
    ExpectError(ErrorCode::kInvalidArgument, {message}, [&] { session.Run(inputs); });
  };
  const Tensor x = Floats({1, 2}, {1, 2});
  expect({{"x", x}}, "input 'x2' is missing");
  expect({{"x", x}, {"x2", x}, {"q", x}}, "no input 'q'; its inputs are x, x2");
  expect({{"x", x}, {"x2", x}, {"x", x}}, "input 'x' is given twice");
  expect({{"x", MakeVector<int64_t>({1})}, {"x2", x}},
         "input 'x' must be tensor(float), is tensor(int64)");
  expect({{"x", Floats({2}, {1, 2})}, {"x2", x}},
         "input 'x' must have rank 2 ([n,2]), has shape [2]");
  expect({{"x", Floats({2, 1}, {1, 2})}, {"x2", x}}, "input 'x' must have shape [n,2], has [2,1]");
  expect({{"x", Datum()}, {"x2", x}}, "input 'x' must be a tensor(float)");
  expect({{"x", std::make_shared<const Sequence>()}, {"x2", x}},
         "input 'x' must be a tensor(float)");
  // The session survives all that.
  EXPECT_EQ(session.Run(Inputs()).size(), 2);
}

// Sizes that a model calls by one name, wrongly: what runs, runs.
TEST(Session, OneNameOfTwoSizes) {
  Session session = Load();
  const Tensor x = Floats({1, 2}, {1, 2}), x2 = Floats({2, 2}, {1, 2, 3, 4});
  for (int run = 0; run < 2; ++run) {
    EXPECT_EQ(Values(session.Run({{"x", x}, {"x2", x2}})[1]), (std::vector<float>{2, 4, 4, 6}));
    EXPECT_EQ(Values(session.Run({{"x2", x2}, {"x", x}}, {"z"})[0]),
              (std::vector<float>{2, 4, 4, 6}));
    EXPECT_EQ(Values(session.Run(Inputs())[0]), (std::vector<float>{0, 12, 25}));
    ExpectError(ErrorCode::kInvalidArgument,
                {"dimension 'n' is 3 in input 'x' and 2 in input 'x2'", "'sum'", "[3,2]"},
                [&] { session.Run({{"x", Floats({3, 2}, {1, 2, 3, 4, 5, 6})}, {"x2", x2}}); });
  }
  // What is planned ahead is for sizes that fit.
  ExpectError(ErrorCode::kInvalidArgument, {"one name is one size"},
              [&] { (void)session.Explain({{"x", {1, 2}}, {"x2", {2, 2}}}); });
}

TEST(Session, OptionsAreChecked) {
  ExpectError(ErrorCode::kInvalidArgument, {"threads"}, [] { Load({.threads = -1}); });
  ExpectError(ErrorCode::kInvalidArgument, {"no pass 'nothing'", "fuse_epilogues"},
              [] { Load({.disabled_passes = {"nothing"}}); });
  ExpectError(ErrorCode::kNotFound, {"/no/such/model.onnx"},
              [] { Session("/no/such/model.onnx"); });
}

TEST(Session, PassesCanBeSwitchedOffAndTraced) {
  std::vector<std::string> all;
  for (const auto& [name, reason] : PassNames()) {
    all.push_back(name);
    EXPECT_FALSE(reason.empty());
  }
  Session plain = Load({.disabled_passes = all});
  EXPECT_NE(plain.GraphText().find("relu("), std::string::npos) << plain.GraphText();
  EXPECT_EQ(Values(plain.Run(Inputs())[0]), (std::vector<float>{0, 12, 25}));
  std::vector<std::string> told;
  std::string last;
  Session traced = Load({.trace_passes = [&](std::string_view pass, const std::string& text) {
    told.emplace_back(pass);
    last = text;
  }});
  ASSERT_GE(told.size(), 2);
  EXPECT_EQ(told[0], "");
  for (size_t i = 1; i < told.size(); ++i) {
    EXPECT_NE(std::find(all.begin(), all.end(), told[i]), all.end()) << told[i];
  }
  EXPECT_EQ(last, traced.GraphText());
  EXPECT_NE(last.find("epilogue="), std::string::npos) << last;
}

TEST(Session, Profiles) {
  Session session = Load();
  EXPECT_TRUE(session.ProfileSteps().empty());
  EXPECT_TRUE(nlohmann::json::parse(session.ProfileTrace())["traceEvents"].empty());
  session.Run(Inputs());
  session.StartProfile();
  session.Run(Inputs());
  session.Run(Inputs());
  session.StopProfile();
  session.Run(Inputs());
  std::set<std::string> nodes;
  for (const Session::StepTime& step : session.ProfileSteps()) {
    nodes.insert(step.node);
    EXPECT_FALSE(step.implementation.empty());
    EXPECT_NE(step.implementation, "reference") << step.node;
    EXPECT_GE(step.duration_ns, 0);
  }
  EXPECT_EQ(nodes,
            (std::set<std::string>{"product", "sum"}));  // the rest is the product's epilogue
  EXPECT_EQ(session.ProfileSteps().size(), 4);
  EXPECT_EQ(nlohmann::json::parse(session.ProfileTrace())["traceEvents"].size(), 4);
  EXPECT_NE(session.ProfileSummary().find("MatMul"), std::string::npos);
  session.StartProfile();
  EXPECT_TRUE(session.ProfileSteps().empty());
}

TEST(Session, Explains) {
  const Session session = Load();
  const std::string text = session.Explain({{"x", {4, 2}}, {"x2", {4, 2}}});
  EXPECT_NE(text.find("product"), std::string::npos) << text;
  EXPECT_NE(text.find("[4,3]"), std::string::npos) << text;
  EXPECT_NE(text.find("pass fuse_epilogues: "), std::string::npos) << text;
  const auto expect = [&](const std::vector<std::pair<std::string, std::vector<int64_t>>>& shapes,
                          const std::string& message) {
    ExpectError(ErrorCode::kInvalidArgument, {message}, [&] { (void)session.Explain(shapes); });
  };
  expect({{"x", {4, 2}}}, "the shape of input 'x2' is not fixed: give one");
  expect({{"q", {4}}}, "no input 'q'");
  expect({{"x", {4}}}, "input 'x' must have rank 2");
  expect({{"x", {4, 3}}}, "input 'x' must have shape [n,2], has [4,3]");
  expect({{"x", {4, 2}}, {"x2", {5, 2}}}, "dimension 'n'");
}

TEST(Session, CopiesShareTheModelAndThreadsRunIt) {
  Session session = Load({.threads = 2});
  session.StartProfile();
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([copy = session, t, &wrong]() mutable {
      for (int run = 0; run < 10; ++run) {
        NamedData inputs = Inputs();
        if (t % 2 == 1) inputs.emplace_back("b", Floats({3}, {0, -100, 0}));
        const std::vector<std::string> names =
            t % 3 == 0 ? std::vector<std::string>{"s"} : std::vector<std::string>{};
        const float last = Values(copy.Run(inputs, names)[0])[2];
        wrong += last == (t % 2 == 1 ? 15.0F : 25.0F) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Session, UnknownRanksAndManyShapes) {
  onnx::ModelProto model = onnx::MakeModel(
      onnx::MakeGraph({}, {"y"}, {onnx::MakeNode("Softmax", {"x"}, {"y"}, "soft")}));
  onnx::ValueInfoProto x = onnx::MakeValue("x");
  x.type.emplace().tensor_type.emplace().elem_type = static_cast<int32_t>(DType::kFloat32);
  model.graph->input = {x};
  auto bytes = std::make_shared<const std::string>(onnx::Serialize(model));
  Session session(std::string_view(*bytes), bytes, {.max_plans = 2});
  EXPECT_FALSE(session.inputs()[0].has_shape);
  for (const std::vector<int64_t>& dims : {std::vector<int64_t>{2}, {2, 2}, {1, 3, 2}, {2}}) {
    const Tensor y = *session.Run({{"x", MakeFilled(DType::kFloat32, dims, 1)}})[0].tensor();
    EXPECT_EQ(y.dims(), dims);
    EXPECT_FLOAT_EQ(y.data<float>()[0], 0.5F);
  }
}

TEST(Inspect, SaysWhatAModelIs) {
  onnx::ModelProto model = Model();
  model.graph->node.push_back(onnx::MakeNode("Nonsense", {"x"}, {"q"}, "strange"));
  const onnx::TemporaryFolder folder;
  onnx::WriteModel(model, folder / "model.onnx");
  const ModelSummary summary = Inspect(folder / "model.onnx");
  EXPECT_EQ(summary.ir_version, 10);
  EXPECT_EQ(summary.opsets.at("ai.onnx"), 21);
  EXPECT_EQ(summary.operators.at("Add"), 2);
  EXPECT_EQ(summary.operators.at("MatMul"), 1);
  EXPECT_EQ(summary.parameters, 9);
  EXPECT_EQ(summary.parameter_bytes, 36);
  ASSERT_EQ(summary.inputs.size(), 2);
  EXPECT_EQ(summary.outputs.size(), 2);
  ASSERT_EQ(summary.unsupported.size(), 1);
  EXPECT_NE(summary.unsupported[0].find("Nonsense"), std::string::npos);
  EXPECT_NE(summary.unsupported[0].find("strange"), std::string::npos);
  ExpectError(ErrorCode::kNotFound, {"missing.onnx"}, [&] { Inspect(folder / "missing.onnx"); });
}

TEST(Supports, OperatorsByNameDomainAndOpset) {
  EXPECT_TRUE(Supports("Conv"));
  EXPECT_TRUE(Supports("Conv", "ai.onnx", 11));
  EXPECT_FALSE(Supports("Nonsense"));
  EXPECT_FALSE(Supports("Conv", "some.where"));
  EXPECT_FALSE(Supports("Gelu", "", 13));  // since 20
  EXPECT_TRUE(Supports("Gelu", "", 20));
  EXPECT_FALSE(Supports("Upsample", "", 10));  // deprecated then
  EXPECT_TRUE(Supports("Conv", "", 11, {"float16", "tensor(float16)", ""}));
  EXPECT_FALSE(Supports("Conv", "", 11, {"float", "double"}));
  EXPECT_FALSE(Supports("Conv", "", 11, {"int32"}));
}

TEST(Library, NamesItself) {
  EXPECT_FALSE(Version().empty());
  EXPECT_FALSE(TargetName().empty());
  EXPECT_EQ(DTypeName(DType::kFloat32), "float");
  EXPECT_EQ(DTypeByName("int64"), DType::kInt64);
  EXPECT_EQ(DTypeByName("nothing"), DType::kUndefined);
}

}  // namespace
}  // namespace sardonyx
