// Lowerings, older versions above all: a graph of one ONNX node is made and run on the reference
// computes.

#include "ops/lowering.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/evaluate.h"

namespace sardonyx::ops {
namespace {

struct Input {
  Tensor value;
  bool known = false;  // to the lowering, as an initializer is
};

template <typename T>
Tensor Make(std::vector<int64_t> dims, const std::vector<T>& values) {
  return MakeVector(values).Reshaped(std::move(dims));
}
Input In(std::vector<int64_t> dims, const std::vector<float>& values) {
  return {Make(std::move(dims), values)};
}
Input Known(Tensor value) { return {std::move(value), true}; }
Input Ints(const std::vector<int64_t>& values) { return Known(MakeVector(values)); }
Input Absent() { return {}; }

// 0, 1, 2, ...
std::vector<float> Count(int count) {
  std::vector<float> values(count);
  for (int i = 0; i < count; ++i) values[i] = static_cast<float>(i);
  return values;
}

std::vector<Tensor> RunNode(const std::string& op_type, int version, Attributes attributes,
                            const std::vector<Input>& inputs, int output_count = 1) {
  Graph graph;
  Builder builder(graph);
  std::vector<Val> values;
  std::vector<Datum> data;
  for (const Input& input : inputs) {
    if (!input.value.defined()) {
      values.push_back(Val{});
    } else if (input.known) {
      values.push_back(builder.Constant(input.value));
    } else {
      Fact fact = Fact::Of(input.value);
      fact.constant = Tensor();
      fact.elements.reset();
      values.push_back(builder.Wrap(graph.AddInput("", std::move(fact))));
      data.push_back(input.value);
    }
  }
  Lowering op(builder, "", op_type, version, std::move(attributes), values,
              std::vector<bool>(output_count, true));
  for (const Val& output : Lower(op, {}, false)) {
    if (output) graph.outputs.push_back(output.value);
  }
  std::vector<Tensor> results;
  for (const Datum& datum : Evaluate(graph, data)) results.push_back(*datum.tensor());
  return results;
}

void ExpectNear(const Tensor& actual, const std::vector<int64_t>& dims,
                const std::vector<double>& expected, double tolerance = 1e-5) {
  ASSERT_EQ(actual.dims(), dims);
  const std::vector<double> values = ToDoubles(actual);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(values[i], expected[i], tolerance) << "at " << i;
  }
}

TEST(Lowering, OldBroadcastStartsAtAxis) {
  const Input a = In({2, 3, 2}, Count(12)), b = In({3}, {10, 20, 30});
  const Tensor sum =
      RunNode("Add", 1, {{"broadcast", int64_t{1}}, {"axis", int64_t{1}}}, {a, b})[0];
  ExpectNear(sum, {2, 3, 2}, {10, 11, 22, 23, 34, 35, 16, 17, 28, 29, 40, 41});
  const Tensor suffix = RunNode("Mul", 6, {{"broadcast", int64_t{1}}}, {a, In({2}, {1, 10})})[0];
  ExpectNear(suffix, {2, 3, 2}, {0, 10, 2, 30, 4, 50, 6, 70, 8, 90, 10, 110});
}

TEST(Lowering, PowKeepsTheTypeOfTheBase) {
  const Tensor integers =
      RunNode("Pow", 15, {}, {{Make<int32_t>({3}, {1, 4, 9})}, In({}, {0.5f})})[0];
  EXPECT_EQ(integers.dtype(), DType::kInt32);
  ExpectNear(integers, {3}, {1, 2, 3});
  const Tensor reals = RunNode("Pow", 15, {}, {In({2}, {2, 3}), {Make<int64_t>({2}, {3, 2})}})[0];
  EXPECT_EQ(reals.dtype(), DType::kFloat32);
  ExpectNear(reals, {2}, {8, 9});
}

TEST(Lowering, ModFollowsFmod) {
  const Input a{Make<int32_t>({4}, {-4, 7, 5, -7})}, b{Make<int32_t>({4}, {3, -3, 3, 3})};
  ExpectNear(RunNode("Mod", 13, {{"fmod", int64_t{0}}}, {a, b})[0], {4}, {2, -2, 2, 2});
  ExpectNear(RunNode("Mod", 13, {{"fmod", int64_t{1}}}, {a, b})[0], {4}, {-1, 1, 2, -1});
}

TEST(Lowering, ClipBoundsWereAttributes) {
  const Input x = In({4}, {-2, 0, 2, 9});
  ExpectNear(RunNode("Clip", 6, {{"min", -1.0}, {"max", 3.0}}, {x})[0], {4}, {-1, 0, 2, 3});
  ExpectNear(RunNode("Clip", 13, {}, {x, Absent(), In({}, {1})})[0], {4}, {-2, 0, 1, 1});
  ExpectNear(RunNode("Clip", 13, {}, {x, In({1}, {1})})[0], {4}, {1, 1, 2, 9});
}

TEST(Lowering, AttributesThatBecameInputs) {
  const Input x = In({1, 2, 3}, Count(6));
  const std::vector<int64_t> first = {0};
  EXPECT_EQ(RunNode("Squeeze", 1, {{"axes", first}}, {x})[0].dims(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(RunNode("Unsqueeze", 1, {{"axes", first}}, {x})[0].dims(),
            (std::vector<int64_t>{1, 1, 2, 3}));
  ExpectNear(RunNode("Reshape", 1, {{"shape", std::vector<int64_t>{3, -1}}}, {x})[0], {3, 2},
             {0, 1, 2, 3, 4, 5});
  ExpectNear(RunNode("ReduceSum", 1, {{"axes", std::vector<int64_t>{2}}, {"keepdims", int64_t{0}}},
                     {x})[0],
             {1, 2}, {3, 12});
  ExpectNear(RunNode("Slice", 1,
                     {{"starts", std::vector<int64_t>{1}},
                      {"ends", std::vector<int64_t>{1000}},
                      {"axes", std::vector<int64_t>{2}}},
                     {x})[0],
             {1, 2, 2}, {1, 2, 4, 5});
  ExpectNear(RunNode("Pad", 2,
                     {{"mode", std::string("constant")},
                      {"pads", std::vector<int64_t>{0, 0, 1, 0, 0, 0}},
                      {"value", 7.0}},
                     {x})[0],
             {1, 2, 4}, {7, 0, 1, 2, 7, 3, 4, 5});
  const auto parts =
      RunNode("Split", 2, {{"split", std::vector<int64_t>{1, 2}}, {"axis", int64_t{2}}}, {x}, 2);
  ExpectNear(parts[1], {1, 2, 2}, {1, 2, 4, 5});
  ExpectNear(RunNode("Tile", 1, {}, {x, Known(MakeScalar(2.0f)), Known(MakeScalar(1.0f))})[0],
             {1, 4, 3}, {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5});
  ExpectNear(RunNode("TopK", 1, {{"k", int64_t{2}}, {"axis", int64_t{2}}}, {x}, 2)[1], {1, 2, 2},
             {2, 1, 2, 1});
}

TEST(Lowering, CastOneNamesItsType) {
  const Tensor y = RunNode("Cast", 1, {{"to", std::string("INT64")}}, {In({2}, {1.7f, -1.7f})})[0];
  EXPECT_EQ(y.dtype(), DType::kInt64);
  ExpectNear(y, {2}, {1, -1});
}

TEST(Lowering, EmptySetOfAxes) {
  const Input x = In({2, 2}, {1, 2, 3, 4});
  ExpectNear(RunNode("ReduceSumSquare", 18, {}, {x, Ints({})})[0], {1, 1}, {30});
  ExpectNear(RunNode("ReduceSumSquare", 18, {{"noop_with_empty_axes", int64_t{1}}}, {x})[0], {2, 2},
             {1, 4, 9, 16});
}

TEST(Lowering, MatMulOfVectors) {
  const Input v = In({3}, {1, 2, 3}), m = In({3, 2}, Count(6)), t = In({2, 3}, Count(6));
  ExpectNear(RunNode("MatMul", 13, {}, {v, v})[0], {}, {14});
  ExpectNear(RunNode("MatMul", 13, {}, {v, m})[0], {2}, {16, 22});
  ExpectNear(RunNode("MatMul", 13, {}, {t, v})[0], {2}, {8, 26});
}

TEST(Lowering, SoftmaxFlattenedUntilTwelve) {
  const Input x = In({1, 2, 2}, {0, 0, 0, std::log(5.0f)});
  ExpectNear(RunNode("Softmax", 11, {{"axis", int64_t{1}}}, {x})[0], {1, 2, 2},
             {0.125, 0.125, 0.125, 0.625});
  ExpectNear(RunNode("Softmax", 13, {{"axis", int64_t{1}}}, {x})[0], {1, 2, 2},
             {0.5, 1.0 / 6, 0.5, 5.0 / 6});
  ExpectNear(RunNode("Hardmax", 11, {{"axis", int64_t{1}}}, {x})[0], {1, 2, 2}, {0, 0, 0, 1});
  ExpectNear(RunNode("Hardmax", 13, {{"axis", int64_t{1}}}, {x})[0], {1, 2, 2}, {1, 0, 0, 1});
}

TEST(Lowering, BatchNormalization) {
  const Input x = In({2, 2, 1}, {1, 10, 3, 30});
  const Input scale = Known(MakeVector<float>({1, 2})), bias = Known(MakeVector<float>({0, 5}));
  const Input mean = Known(MakeVector<float>({1, 10})),
              variance = Known(MakeVector<float>({4, 100}));
  const Attributes exact{{"epsilon", 0.0}, {"momentum", 0.5}};
  const std::vector<Input> inputs = {x, scale, bias, mean, variance};
  ExpectNear(RunNode("BatchNormalization", 9, exact, inputs)[0], {2, 2, 1}, {0, 5, 1, 9});
  Attributes training = exact;
  training.Set("training_mode", int64_t{1});
  const auto trained = RunNode("BatchNormalization", 15, training, inputs, 3);
  ExpectNear(trained[0], {2, 2, 1}, {-1, 3, 1, 7});
  ExpectNear(trained[1], {2}, {1.5, 15});
  ExpectNear(trained[2], {2}, {2.5, 100});
  Attributes each = exact;
  each.Set("spatial", int64_t{0});
  const auto column = [](std::vector<float> values) { return Known(Make<float>({2, 1}, values)); };
  ExpectNear(RunNode("BatchNormalization", 7, each,
                     {x, column({1, 2}), column({0, 5}), column({1, 10}), column({4, 100})})[0],
             {2, 2, 1}, {0, 5, 1, 9});
}

TEST(Lowering, PReluSlopesWereOfChannels) {
  const Input x = In({1, 2, 2}, {-1, -2, -3, 4}), slope = In({2}, {10, 100});
  ExpectNear(RunNode("PRelu", 6, {}, {x, slope})[0], {1, 2, 2}, {-10, -20, -300, 4});
  ExpectNear(RunNode("PRelu", 16, {}, {x, slope})[0], {1, 2, 2}, {-10, -200, -30, 4});
}

TEST(Lowering, GroupScalesBecameChannelScales) {
  const Input x = In({1, 4, 1}, {1, 3, 10, 30});
  const Attributes attributes{{"num_groups", int64_t{2}}, {"epsilon", 0.0}};
  ExpectNear(
      RunNode("GroupNormalization", 18, attributes, {x, In({2}, {1, 2}), In({2}, {0, 100})})[0],
      {1, 4, 1}, {-1, 1, 98, 102});
  ExpectNear(RunNode("GroupNormalization", 21, attributes,
                     {x, In({4}, {1, 2, 3, 4}), In({4}, {0, 0, 0, 0})})[0],
             {1, 4, 1}, {-1, 2, -3, 4});
  ExpectNear(RunNode("InstanceNormalization", 6, {{"epsilon", 0.0}},
                     {In({1, 2, 2}, {1, 3, 10, 30}), In({2}, {1, 2}), In({2}, {0, 5})})[0],
             {1, 2, 2}, {-1, 1, 3, 7});
}

TEST(Lowering, UpsampleAndFirstResize) {
  const Input x = In({1, 1, 2, 2}, {1, 2, 3, 4});
  const std::vector<double> twice = {1, 1, 1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4};
  const std::vector<double> doubled(twice.begin() + 2, twice.end());
  const Attributes nearest{{"mode", std::string("nearest")}};
  Attributes one = nearest, seven = nearest;
  one.Set("height_scale", 2.0);
  one.Set("width_scale", 2.0);
  seven.Set("scales", std::vector<double>{1, 1, 2, 2});
  ExpectNear(RunNode("Upsample", 1, one, {x})[0], {1, 1, 4, 4}, doubled);
  ExpectNear(RunNode("Upsample", 7, seven, {x})[0], {1, 1, 4, 4}, doubled);
  const Input scales = Known(MakeVector<float>({1, 1, 2, 2}));
  ExpectNear(RunNode("Upsample", 9, nearest, {x, scales})[0], {1, 1, 4, 4}, doubled);
  const Input image = In({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  const Input smaller = Known(MakeVector<float>({1, 1, 0.6f, 0.6f}));
  ExpectNear(RunNode("Resize", 10, nearest, {image, smaller})[0], {1, 1, 1, 2}, {1, 3});
  const Input mixed = Known(MakeVector<float>({1, 1, 2, 0.6f}));
  ExpectNear(RunNode("Resize", 10, nearest, {image, mixed})[0], {1, 1, 4, 2},
             {1, 3, 1, 3, 5, 7, 5, 7});
}

TEST(Lowering, DropoutOfInference) {
  const auto y = RunNode("Dropout", 10, {{"ratio", 0.5}}, {In({2}, {1, 2})}, 2);
  ExpectNear(y[0], {2}, {1, 2});
  EXPECT_EQ(y[1].dtype(), DType::kBool);
  ExpectNear(y[1], {2}, {1, 1});
}

TEST(Lowering, Einsum) {
  const Input a = In({2, 3}, Count(6)), b = In({3, 2}, Count(6)), square = In({2, 2}, {1, 2, 3, 4});
  const auto einsum = [](const char* equation, const std::vector<Input>& inputs) {
    return RunNode("Einsum", 12, {{"equation", std::string(equation)}}, inputs)[0];
  };
  ExpectNear(einsum("ij,jk->ik", {a, b}), {2, 2}, {10, 13, 28, 40});
  ExpectNear(einsum("ij,jk", {a, b}), {2, 2}, {10, 13, 28, 40});
  ExpectNear(einsum("ij->ji", {a}), {3, 2}, {0, 3, 1, 4, 2, 5});
  ExpectNear(einsum("ii->i", {square}), {2}, {1, 4});
  ExpectNear(einsum("ii", {square}), {}, {5});
  ExpectNear(einsum("...ii->...i", {In({1, 2, 2}, {1, 2, 3, 4})}), {1, 2}, {1, 4});
  ExpectNear(einsum("i,j->ij", {In({2}, {1, 2}), In({2}, {3, 4})}), {2, 2}, {3, 4, 6, 8});
  ExpectNear(einsum("b...ij,...jk->b...ik", {In({1, 1, 2, 2}, {1, 2, 3, 4}), square}), {1, 1, 2, 2},
             {7, 10, 15, 22});
  ExpectNear(einsum("ij, ij ,ij -> i", {square, square, square}), {2}, {9, 91});
  ExpectNear(einsum("bij,bik->bjk", {In({1, 2, 2}, {1, 2, 3, 4}), In({1, 2, 1}, {1, 10})}),
             {1, 2, 1}, {31, 42});
  // An axis of one element repeats, be it summed or kept.
  const Input column = In({2, 1}, {1, 10}), wide = In({3, 2}, Count(6));
  ExpectNear(einsum("ij,jk->ik", {column, wide}), {2, 2}, {6, 9, 60, 90});
  ExpectNear(einsum("kj,ji->ki", {wide, In({1, 2}, {1, 10})}), {3, 2}, {1, 10, 5, 50, 9, 90});
  ExpectNear(einsum("bij,bjk->bik", {In({1, 1, 2}, {1, 2}), In({2, 2, 1}, {1, 2, 3, 4})}),
             {2, 1, 1}, {5, 11});
  ExpectNear(einsum("ij,ij->ij", {column, square}), {2, 2}, {1, 2, 30, 40});
  ExpectNear(einsum("ij,jk,jl->ikl", {column, wide, In({3, 1}, {1, 2, 3})}), {2, 2, 1},
             {16, 22, 160, 220});
}

TEST(Lowering, BlocksOfPixels) {
  const Input x = In({1, 4, 1, 2}, Count(8));
  ExpectNear(RunNode("DepthToSpace", 13, {{"blocksize", int64_t{2}}}, {x})[0], {1, 1, 2, 4},
             {0, 2, 1, 3, 4, 6, 5, 7});
  ExpectNear(RunNode("SpaceToDepth", 13, {{"blocksize", int64_t{2}}},
                     {In({1, 1, 2, 4}, {0, 2, 1, 3, 4, 6, 5, 7})})[0],
             {1, 4, 1, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
}

TEST(Lowering, ReverseSequence) {
  const Input x = In({2, 3}, Count(6));
  const Input lengths{MakeVector<int64_t>({2, 3})};
  ExpectNear(RunNode("ReverseSequence", 10, {{"time_axis", int64_t{1}}, {"batch_axis", int64_t{0}}},
                     {x, lengths})[0],
             {2, 3}, {1, 0, 2, 5, 4, 3});
  ExpectNear(RunNode("ReverseSequence", 10, {{"time_axis", int64_t{0}}, {"batch_axis", int64_t{1}}},
                     {x, {MakeVector<int64_t>({2, 1, 2})}})[0],
             {2, 3}, {3, 1, 5, 0, 4, 2});
}

TEST(Lowering, CenterCropPad) {
  ExpectNear(RunNode("CenterCropPad", 18, {}, {In({5, 2}, Count(10)), Ints({2, 3})})[0], {2, 3},
             {2, 3, 0, 4, 5, 0});
}

TEST(Lowering, TensorScatter) {
  const Input cache = In({2, 3, 1}, {0, 0, 0, 0, 0, 0}), update = In({2, 2, 1}, {1, 2, 3, 4});
  const Input where{MakeVector<int64_t>({1, 2})};
  ExpectNear(
      RunNode("TensorScatter", 24, {{"mode", std::string("circular")}}, {cache, update, where})[0],
      {2, 3, 1}, {0, 1, 2, 4, 0, 3});
}

TEST(Lowering, Losses) {
  const Input x = In({2, 2}, {-1, -2, -3, -4});
  const Input target{MakeVector<int64_t>({1, 0})}, weights = In({2}, {1, 3});
  ExpectNear(RunNode("NegativeLogLikelihoodLoss", 13, {}, {x, target})[0], {}, {2.5});
  ExpectNear(RunNode("NegativeLogLikelihoodLoss", 13, {}, {x, target, weights})[0], {}, {2.25});
  ExpectNear(
      RunNode("NegativeLogLikelihoodLoss", 13, {{"ignore_index", int64_t{1}}}, {x, target})[0], {},
      {3});
}

TEST(Lowering, LrnSlidesOverChannels) {
  const Attributes attributes{{"size", int64_t{3}}, {"alpha", 3.0}, {"beta", 0.5}, {"bias", 0.0}};
  ExpectNear(RunNode("LRN", 13, attributes, {In({1, 3, 1, 1}, {3, 4, 12})})[0], {1, 3, 1, 1},
             {0.6, 4.0 / 13, 12 / std::sqrt(160.0)});
}

TEST(Lowering, MaxUnpool) {
  const Input x = In({1, 1, 1, 2}, {1, 2});
  const Input indices{Make<int64_t>({1, 1, 1, 2}, {0, 6})};
  const Attributes window{{"kernel_shape", std::vector<int64_t>{2, 2}},
                          {"strides", std::vector<int64_t>{2, 2}}};
  ExpectNear(RunNode("MaxUnpool", 11, window, {x, indices})[0], {1, 1, 2, 4},
             {1, 0, 0, 0, 0, 0, 2, 0});
  ExpectNear(RunNode("MaxUnpool", 11, window, {x, indices, Ints({1, 1, 3, 4})})[0], {1, 1, 3, 4},
             {1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0});
}

TEST(Lowering, QuantizeAndBack) {
  const Input x = In({2, 2}, {-1, 0.5f, 300, 1.5f}), scale = In({2}, {1, 0.5f});
  const Input zero{MakeVector<uint8_t>({10, 1})};
  const Tensor y = RunNode("QuantizeLinear", 13, {{"axis", int64_t{0}}}, {x, scale, zero})[0];
  EXPECT_EQ(y.dtype(), DType::kUInt8);
  ExpectNear(y, {2, 2}, {9, 10, 255, 4});
  ExpectNear(RunNode("DequantizeLinear", 13, {{"axis", int64_t{0}}}, {{y}, scale, zero})[0], {2, 2},
             {-1, 0, 127, 1.5});
  const Attributes blocked{{"axis", int64_t{1}}, {"block_size", int64_t{2}}};
  ExpectNear(RunNode("DequantizeLinear", 21, blocked,
                     {{Make<int8_t>({1, 3}, {1, 2, 3})}, In({1, 2}, {1, 10})})[0],
             {1, 3}, {1, 2, 30});
  ExpectNear(RunNode("MatMulInteger", 10, {},
                     {{Make<uint8_t>({1, 2}, {11, 7})},
                      {Make<uint8_t>({2, 1}, {1, 4})},
                      {MakeScalar<uint8_t>(12)}})[0],
             {1, 1}, {-21});
}

TEST(Lowering, AttentionWithoutAnythingToSeeIsZero) {
  const Input q = In({1, 1, 2, 1}, {1, 1}), v = In({1, 1, 2, 1}, {2, 4});
  ExpectNear(RunNode("Attention", 23, {{"is_causal", int64_t{1}}}, {q, q, v})[0], {1, 1, 2, 1},
             {2, 3});
  const Input mask{Make<bool>({2, 2}, {false, false, false, true})};
  ExpectNear(RunNode("Attention", 23, {}, {q, q, v, mask})[0], {1, 1, 2, 1}, {0, 4});
}

TEST(Lowering, SamePaddingOfConvolution) {
  const Input x = In({1, 1, 4}, {1, 2, 3, 4}), w = In({1, 1, 2}, {1, 10});
  ExpectNear(RunNode("Conv", 11, {{"auto_pad", std::string("SAME_UPPER")}}, {x, w})[0], {1, 1, 4},
             {21, 32, 43, 4});
  ExpectNear(
      RunNode("Conv", 11, {{"auto_pad", std::string("SAME_LOWER")}}, {x, w, In({1}, {100})})[0],
      {1, 1, 4}, {110, 121, 132, 143});
}

TEST(Lowering, UnknownRankIsDeferred) {
  Graph graph;
  Builder builder(graph);
  Fact fact;
  fact.type = DType::kFloat32;
  const Val x = builder.Wrap(graph.AddInput("x", fact));
  Lowering op(builder, "", "GlobalAveragePool", 1, {}, {x}, {true});
  const std::vector<Val> y = Lower(op, {DType::kFloat32}, false);
  ASSERT_EQ(y.size(), 1u);
  EXPECT_EQ(y[0].value->producer->op, &core::deferred);
  EXPECT_EQ(y[0].dtype(), DType::kFloat32);
}

}  // namespace
}  // namespace sardonyx::ops
