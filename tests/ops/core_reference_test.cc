// Reference computes of core operations against values computed by hand.

#include <cmath>
#include <limits>
#include <random>

#include "core_node.h"

namespace sardonyx {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

std::vector<int64_t> Axes(std::initializer_list<int64_t> axes) { return axes; }

Tensor Apply(Fn fn, const std::vector<Datum>& inputs) {
  return Compute(core::Elementwise(fn), inputs);
}

template <typename T>
Tensor Vector(const std::vector<T>& values) {
  return MakeVector(values);
}

TEST(Elementwise, BroadcastsAndWraps) {
  ExpectTensor(Apply(Fn::kAdd, {Floats({2, 1}, {1, 2}), Floats({3}, {10, 20, 30})}), {2, 3},
               {11, 21, 31, 12, 22, 32});
  ExpectTensor(Apply(Fn::kAdd, {Vector<int8_t>({100, -128}), Vector<int8_t>({100, -1})}), {2},
               {-56, 127});
  ExpectTensor(Apply(Fn::kDiv, {Vector<int32_t>({7, -7, 5}), Vector<int32_t>({2, 2, 0})}), {3},
               {3, -3, 0});
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(ToInts(Apply(Fn::kDiv, {Ints({kLeast}), Ints({-1})}))[0], kLeast);
  ExpectTensor(Apply(Fn::kMod, {Vector<int32_t>({7, -7, 7, -7}), Vector<int32_t>({3, 3, -3, -3})}),
               {4}, {1, 2, -2, -1});
  ExpectTensor(Apply(Fn::kFMod, {Vector<int32_t>({7, -7}), Vector<int32_t>({3, 3})}), {2}, {1, -1});
  ExpectTensor(Apply(Fn::kMod, {Floats({2}, {-4.5f, 4.5f}), Floats({2}, {2, -2})}), {2},
               {1.5, -1.5});
  ExpectTensor(Apply(Fn::kShiftLeft, {Vector<uint8_t>({1, 255}), Vector<uint8_t>({3, 9})}), {2},
               {8, 0});
}

TEST(Elementwise, UnaryFunctions) {
  ExpectTensor(Apply(Fn::kRound, {Floats({7}, {0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 2.4f, -2.6f})}), {7},
               {0, 2, 2, 0, -2, 2, -3});
  ExpectTensor(Apply(Fn::kSign, {Vector<int32_t>({-5, 0, 9})}), {3}, {-1, 0, 1});
  ExpectTensor(Apply(Fn::kAbs, {Vector<int8_t>({-128, -3})}), {2}, {-128, 3});
  ExpectTensor(Apply(Fn::kSigmoid, {Floats({2}, {0, 2})}), {2}, {0.5, 1 / (1 + std::exp(-2.0))});
  ExpectTensor(Apply(Fn::kRelu, {Floats({3}, {-1, 2, NAN})}), {3}, {0, 2, kNaN});
  ExpectTensor(Apply(Fn::kMax, {Floats({2}, {1, NAN}), Floats({2}, {NAN, 1})}), {2}, {kNaN, kNaN});
  const Tensor half = Compute(core::Elementwise(Fn::kCast), {Floats({2}, {1.5f, -2})},
                              {{"to", static_cast<int64_t>(DType::kFloat16)}});
  ExpectTensor(Apply(Fn::kNeg, {half}), {2}, {-1.5, 2});
  EXPECT_TRUE(Apply(Fn::kIsInf, {Floats({1}, {-INFINITY})}).data<bool>()[0]);
}

TEST(Elementwise, PowWithAnotherExponentType) {
  ExpectTensor(Apply(Fn::kPow, {Floats({3}, {2, 3, 4}), Ints({3, 2, 0})}), {3}, {8, 9, 1});
  ExpectTensor(Apply(Fn::kPow, {Ints({2, -3, 10}), Ints({10, 3, -1})}), {3}, {1024, -27, 0});
}

TEST(Elementwise, StringsAndSelection) {
  const Tensor a = Vector<std::string>({"x", "y"}), b = Vector<std::string>({"x", "z"});
  const Tensor same = Apply(Fn::kEqual, {a, b});
  EXPECT_TRUE(same.data<bool>()[0]);
  EXPECT_FALSE(same.data<bool>()[1]);
  const Tensor chosen = Apply(Fn::kWhere, {same, a, Vector<std::string>({"no"})});
  EXPECT_EQ(chosen.data<std::string>()[0], "x");
  EXPECT_EQ(chosen.data<std::string>()[1], "no");
}

TEST(Elementwise, FusedIsItsParts) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  Tensor x(DType::kFloat32, {3, 1000}), y(DType::kFloat32, {1000});
  for (int64_t i = 0; i < x.size(); ++i) x.data<float>()[i] = normal(random);
  for (int64_t i = 0; i < y.size(); ++i) y.data<float>()[i] = normal(random);
  const Tensor fused =
      Compute(core::fused, {x, y},
              {{"expression", Expression::Parse("(float, float; 2:float) mul(0,2):float "
                                                "add(3,1):float tanh(4):float")}});
  const Tensor parts =
      Apply(Fn::kTanh, {Apply(Fn::kAdd, {Apply(Fn::kMul, {x, MakeScalar(2.0f)}), y})});
  EXPECT_TRUE(BitEqual(fused, parts));
}

TEST(Elementwise, EveryFunctionIsInTheTable) {
  for (int i = 0; i < kFnCount; ++i) {
    const CoreOp* op = core::Find(Name(static_cast<Fn>(i)));
    ASSERT_NE(op, nullptr);
    Fn fn{};
    EXPECT_TRUE(core::IsElementwise(*op, &fn));
    EXPECT_EQ(fn, static_cast<Fn>(i));
  }
  Fn fn{};
  EXPECT_FALSE(core::IsElementwise(core::matmul, &fn));
}

TEST(IntegerProducts, SubtractZeroPoints) {
  const auto matrix = [](auto values, std::vector<int64_t> dims) {
    return MakeVector(values).Reshaped(std::move(dims));
  };
  const Tensor a = matrix(std::vector<uint8_t>{255, 0, 3, 200}, {2, 2});
  const Tensor b = matrix(std::vector<int8_t>{-128, 1, 127, 2}, {2, 2});
  const Tensor a_zero = matrix(std::vector<uint8_t>{100}, {});
  const Tensor b_zeros = Vector<int8_t>({1, -1});
  ExpectTensor(Compute(core::integer_matmul, {a, b}), {2, 2}, {-32640, 255, 25016, 403});
  ExpectTensor(
      Compute(core::integer_matmul, {a, b, a_zero, b_zeros}), {2, 2},
      {-155 * 129 - 100 * 126, 155 * 2 - 100 * 3, 97 * 129 + 100 * 126, -97 * 2 + 100 * 3});
  // Padding counts as the zero point: only one product of each sum is not 0.
  const Tensor x = matrix(std::vector<uint8_t>{101, 103}, {1, 2, 1});
  const Tensor w = matrix(std::vector<int8_t>{5, 6, 7}, {1, 1, 3});
  ExpectTensor(Compute(core::integer_conv, {x, w, a_zero},
                       {{"pads", Axes({1, 1})},
                        {"epilogue", Expression::Parse("(int32; 2:int32) mul(0,1):int32")}}),
               {1, 2, 1}, {2 * (6 + 3 * 7), 2 * (5 + 3 * 6)});
}

TEST(Matmul, ByHand) {
  const Tensor a = Floats({2, 3}, {1, 2, 3, 4, 5, 6}), b = Floats({3, 2}, {7, 8, 9, 10, 11, 12});
  ExpectTensor(Compute(core::matmul, {a, b}), {2, 2}, {58, 64, 139, 154});
  ExpectTensor(Compute(core::matmul, {a, a}, {{"trans_b", int64_t{1}}}), {2, 2}, {14, 32, 32, 77});
  ExpectTensor(Compute(core::matmul, {a, a}, {{"trans_a", int64_t{1}}}), {3, 3},
               {17, 22, 27, 22, 29, 36, 27, 36, 45});
  const Attributes bias_relu{
      {"epilogue", Expression::Parse("(float, float) add(0,1):float relu(2):float")}};
  ExpectTensor(Compute(core::matmul, {a, b, Floats({2}, {-100, 1})}, bias_relu), {2, 2},
               {0, 65, 39, 155});
  // Batches broadcast.
  ExpectTensor(Compute(core::matmul, {Counting({2, 1, 1, 2}), Counting({2, 2, 1})}), {2, 2, 1, 1},
               {1, 3, 3, 13});
  ExpectTensor(Compute(core::matmul, {Floats({2, 0}, {}), Floats({0, 1}, {})}), {2, 1}, {0, 0});
}

TEST(Conv, ByHand) {
  // 3x3 image, one channel, 2x2 kernel of ones.
  const Tensor x = Counting({1, 3, 3, 1}), ones = Floats({1, 1, 2, 2}, {1, 1, 1, 1});
  ExpectTensor(Compute(core::conv, {x, ones}), {1, 2, 2, 1}, {8, 12, 20, 24});
  ExpectTensor(Compute(core::conv, {x, ones}, {{"pads", Axes({1, 0, 0, 0})}}), {1, 3, 2, 1},
               {1, 3, 8, 12, 20, 24});
  ExpectTensor(Compute(core::conv, {x, ones}, {{"dilations", Axes({2, 2})}}), {1, 1, 1, 1}, {16});
  ExpectTensor(Compute(core::conv, {x, ones},
                       {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Axes({2, 2})}}),
               {1, 2, 2, 1}, {8, 7, 13, 8});
  ExpectTensor(Compute(core::conv, {x, ones},
                       {{"auto_pad", std::string("SAME_LOWER")}, {"strides", Axes({2, 2})}}),
               {1, 2, 2, 1}, {0, 3, 9, 24});
  // Two groups of one channel each, 1-D: weights 2 and 3.
  const Tensor line = Floats({1, 2, 2}, {1, 10, 2, 20});
  ExpectTensor(Compute(core::conv, {line, Floats({2, 1, 1}, {2, 3})}, {{"group", int64_t{2}}}),
               {1, 2, 2}, {2, 30, 4, 60});
}

TEST(Conv, TransposeIsTheAdjoint) {
  // <conv(x), y> = <x, conv_transpose(y)> for the same weights.
  const Attributes attributes{
      {"strides", Axes({2, 1})}, {"pads", Axes({1, 0, 0, 1})}, {"dilations", Axes({1, 2})}};
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const auto fill = [&](std::vector<int64_t> dims) {
    Tensor t(DType::kFloat32, std::move(dims));
    for (int64_t i = 0; i < t.size(); ++i) t.data<float>()[i] = normal(random);
    return t;
  };
  const Tensor x = fill({2, 6, 5, 3}), w = fill({4, 3, 3, 2});
  const Tensor y = Compute(core::conv, {x, w}, attributes), z = fill(y.dims());
  const Tensor back = Compute(core::conv_transpose, {z, w}, attributes);
  ASSERT_EQ(back.dims(), x.dims());
  double left = 0, right = 0;
  for (int64_t i = 0; i < y.size(); ++i) left += double{y.data<float>()[i]} * z.data<float>()[i];
  for (int64_t i = 0; i < x.size(); ++i)
    right += double{x.data<float>()[i]} * back.data<float>()[i];
  EXPECT_NEAR(left, right, 1e-3);
}

TEST(Conv, TransposeWithOutputShape) {
  const Tensor x = Floats({1, 3, 1}, {1, 2, 3}), w = Floats({1, 1, 3}, {1, 1, 1});
  ExpectTensor(Compute(core::conv_transpose, {x, w}, {{"strides", Axes({2})}}), {1, 7, 1},
               {1, 1, 3, 2, 5, 3, 3});
  ExpectTensor(
      Compute(core::conv_transpose, {x, w}, {{"strides", Axes({2})}, {"output_shape", Axes({8})}}),
      {1, 8, 1}, {1, 1, 3, 2, 5, 3, 3, 0});
  ExpectTensor(Compute(core::conv_transpose, {x, w},
                       {{"strides", Axes({2})}, {"auto_pad", std::string("SAME_UPPER")}}),
               {1, 6, 1}, {1, 1, 3, 2, 5, 3});
}

TEST(Pool, MaxWithIndices) {
  // [N,H,W,C] with two channels: the second is the first negated.
  Tensor x(DType::kFloat32, {1, 3, 3, 2});
  for (int i = 0; i < 9; ++i) {
    x.data<float>()[2 * i] = static_cast<float>(i);
    x.data<float>()[2 * i + 1] = static_cast<float>(-i);
  }
  auto outputs = RunAll(core::max_pool, {x}, {{"kernel", Axes({2, 2})}}, 2);
  ExpectTensor(*outputs[0].tensor(), {1, 2, 2, 2}, {4, 0, 5, -1, 7, -3, 8, -4});
  // Of the channels-first tensor.
  ExpectTensor(*outputs[1].tensor(), {1, 2, 2, 2}, {4, 9, 5, 10, 7, 12, 8, 13});
  outputs =
      RunAll(core::max_pool, {x}, {{"kernel", Axes({2, 2})}, {"storage_order", int64_t{1}}}, 2);
  ExpectTensor(*outputs[1].tensor(), {1, 2, 2, 2}, {4, 9, 7, 12, 5, 10, 8, 13});
}

TEST(Pool, AverageCountsPaddingOnlyWhenAsked) {
  const Tensor x = Floats({1, 3, 1}, {3, 6, 9});
  const Attributes plain{{"kernel", Axes({2})}, {"pads", Axes({1, 0})}};
  ExpectTensor(Compute(core::average_pool, {x}, plain), {1, 3, 1}, {3, 4.5, 7.5});
  Attributes counted = plain;
  counted.Set("count_include_pad", int64_t{1});
  ExpectTensor(Compute(core::average_pool, {x}, counted), {1, 3, 1}, {1.5, 4.5, 7.5});
  // With ceil_mode the last window reaches beyond the padding, and counts what is there.
  ExpectTensor(Compute(core::average_pool, {x},
                       {{"kernel", Axes({2})},
                        {"strides", Axes({2})},
                        {"ceil_mode", int64_t{1}},
                        {"count_include_pad", int64_t{1}}}),
               {1, 2, 1}, {4.5, 9});
  ExpectTensor(Compute(core::lp_pool, {Floats({1, 2, 1}, {3, -4})}, {{"kernel", Axes({2})}}),
               {1, 1, 1}, {5});
}

TEST(Reduce, SumOfBytes) {
  const Tensor bytes = Make<uint8_t>({2, 2}, {200, 100, 255, 255});
  ExpectTensor(
      Compute(core::reduce, {bytes}, {{"kind", std::string("byte_sum")}, {"axes", Axes({1})}}),
      {2, 1}, {300, 510});
}

TEST(Reduce, Kinds) {
  const Tensor x = Floats({2, 2}, {1, -2, 3, 4});
  const auto reduce = [&](const std::string& kind) {
    return Compute(core::reduce, {x},
                   {{"kind", kind}, {"axes", Axes({1})}, {"keepdims", int64_t{0}}});
  };
  ExpectTensor(reduce("sum"), {2}, {-1, 7});
  ExpectTensor(reduce("mean"), {2}, {-0.5, 3.5});
  ExpectTensor(reduce("max"), {2}, {1, 4});
  ExpectTensor(reduce("min"), {2}, {-2, 3});
  ExpectTensor(reduce("prod"), {2}, {-2, 12});
  ExpectTensor(reduce("l1"), {2}, {3, 7});
  ExpectTensor(reduce("l2"), {2}, {std::sqrt(5.0), 5});
  ExpectTensor(reduce("sum_square"), {2}, {5, 25});
  ExpectTensor(reduce("log_sum"), {2}, {kNaN, std::log(7.0)});
  ExpectTensor(reduce("log_sum_exp"), {2},
               {std::log(std::exp(1.0) + std::exp(-2.0)), std::log(std::exp(3.0) + std::exp(4.0))});
  ExpectTensor(
      Compute(core::reduce, {Floats({2}, {1000, 1000})}, {{"kind", std::string("log_sum_exp")}}),
      {1}, {1000 + std::log(2.0)}, 1e-3);
}

TEST(Reduce, EmptySets) {
  const Tensor x(DType::kFloat32, {2, 0});
  const auto reduce = [&](const std::string& kind) {
    return Compute(core::reduce, {x},
                   {{"kind", kind}, {"axes", Axes({1})}, {"keepdims", int64_t{0}}});
  };
  ExpectTensor(reduce("sum"), {2}, {0, 0});
  ExpectTensor(reduce("prod"), {2}, {1, 1});
  ExpectTensor(reduce("max"), {2}, {-kInf, -kInf});
  ExpectTensor(reduce("min"), {2}, {kInf, kInf});
  ExpectTensor(reduce("log_sum"), {2}, {-kInf, -kInf});
  ExpectTensor(reduce("log_sum_exp"), {2}, {-kInf, -kInf});
}

TEST(Normalisation, SoftmaxAndLayerNorm) {
  const Tensor y = Compute(core::softmax, {Floats({2, 2}, {0, std::log(3.0f), 1000, 1000})},
                           {{"axis", int64_t{1}}});
  ExpectTensor(y, {2, 2}, {0.25, 0.75, 0.5, 0.5});
  ExpectTensor(Compute(core::softmax, {Floats({2, 1}, {0, std::log(3.0f)})},
                       {{"axis", int64_t{0}}, {"log", int64_t{1}}}),
               {2, 1}, {std::log(0.25), std::log(0.75)});
  const auto outputs =
      RunAll(core::layer_norm, {Floats({1, 2}, {1, 3}), Floats({2}, {2, 2}), Floats({2}, {1, 0})},
             {{"epsilon", 0.0}}, 3);
  ExpectTensor(*outputs[0].tensor(), {1, 2}, {-1, 2});
  ExpectTensor(*outputs[1].tensor(), {1, 1}, {2});
  ExpectTensor(*outputs[2].tensor(), {1, 1}, {1});
  ExpectTensor(
      Compute(core::layer_norm, {Floats({1, 2}, {3, 4})}, {{"epsilon", 0.0}, {"rms", int64_t{1}}}),
      {1, 2}, {3 / std::sqrt(12.5), 4 / std::sqrt(12.5)});
  // Float16 has 11 bits of a number: 1.1313... and 0.8485...
  const Tensor half = Compute(core::layer_norm, {Floats({1, 2}, {4, 3})},
                              {{"epsilon", 0.0}, {"rms", int64_t{1}}, {"to", int64_t{10}}});
  ASSERT_EQ(half.dtype(), DType::kFloat16);
  ExpectTensor(half, {1, 2}, {0x1.21cp0, 0x1.b28p-1});
  EXPECT_THROW(Compute(core::layer_norm, {Floats({1, 2}, {4, 3})}, {{"to", int64_t{7}}}), Error);
}

TEST(Normalisation, GroupMoments) {
  // Of the first two channels of two pixels, and of the last two; the second image is all 5.
  const Tensor x = Floats({2, 2, 4}, {1, 3, 0, 8, 1, 3, 0, 8, 5, 5, 5, 5, 5, 5, 5, 5});
  const auto outputs = RunAll(core::group_moments, {x, Floats({4}, {1, 2, 4, 8})},
                              {{"groups", int64_t{2}}, {"epsilon", 0.25}}, 2);
  ExpectTensor(*outputs[0].tensor(), {2, 1, 4}, {2, 2, 4, 4, 5, 5, 5, 5});
  const double one = 1 / std::sqrt(1.25), two = 1 / std::sqrt(16.25);
  ExpectTensor(*outputs[1].tensor(), {2, 1, 4}, {one, 2 * one, 4 * two, 8 * two, 2, 4, 8, 16});
}

TEST(Normalisation, Rotary) {
  // A quarter of a turn for the first pair, none for the second; the last feature stays.
  const Tensor x = Floats({1, 1, 1, 5}, {1, 2, 3, 4, 5});
  const Tensor cosine = Floats({1, 1, 1, 2}, {0, 1}), sine = Floats({1, 1, 1, 2}, {1, 0});
  ExpectTensor(Compute(core::rotary, {x, cosine, sine}, {{"turned", int64_t{4}}}), {1, 1, 1, 5},
               {-3, 2, 1, 4, 5});
  ExpectTensor(Compute(core::rotary, {x, cosine, sine},
                       {{"turned", int64_t{4}}, {"interleaved", int64_t{1}}}),
               {1, 1, 1, 5}, {-2, 1, 3, 4, 5});
}

TEST(Copies, TransposeSliceExpandTile) {
  const Tensor x = Counting({2, 3});
  ExpectTensor(Compute(core::transpose, {x}, {{"perm", Axes({1, 0})}}), {3, 2}, {0, 3, 1, 4, 2, 5});
  ExpectTensor(
      Compute(core::slice, {x, Ints({2, 1}), Ints({-9, -9}), Ints({1, 0}), Ints({-2, -1})}), {2, 2},
      {5, 3, 2, 0});
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  ExpectTensor(Compute(core::slice, {x, Ints({1}), Ints({kLeast}), Ints({0}), Ints({kLeast})}),
               {1, 3}, {3, 4, 5});
  ExpectTensor(Compute(core::expand, {Counting({2, 1}), Ints({1, 2, 2})}), {1, 2, 2}, {0, 0, 1, 1});
  ExpectTensor(Compute(core::tile, {Counting({1, 2}), Ints({2, 2})}), {2, 4},
               {0, 1, 0, 1, 0, 1, 0, 1});
  const Tensor words = Compute(core::tile, {Vector<std::string>({"a", "b"}), Ints({2})});
  EXPECT_EQ(words.data<std::string>()[2], "a");
}

TEST(Copies, PackedTypesMoveBitwise) {
  const Tensor nibbles = Compute(core::Elementwise(Fn::kCast), {Counting({2, 3})},
                                 {{"to", static_cast<int64_t>(DType::kInt4)}});
  const Tensor turned = Compute(core::transpose, {nibbles});
  ExpectTensor(Compute(core::Elementwise(Fn::kCast), {turned},
                       {{"to", static_cast<int64_t>(DType::kFloat32)}}),
               {3, 2}, {0, 3, 1, 4, 2, 5});
}

TEST(Copies, PadModes) {
  const Tensor x = Floats({3}, {1, 2, 3});
  const auto pad = [&](const std::string& mode, std::vector<int64_t> pads) {
    return Compute(core::pad, {x, Ints(pads)}, {{"mode", mode}});
  };
  ExpectTensor(Compute(core::pad, {x, Ints({1, 2}), MakeScalar(9.0f)}), {6}, {9, 1, 2, 3, 9, 9});
  ExpectTensor(pad("constant", {-1, 1}), {3}, {2, 3, 0});
  ExpectTensor(pad("edge", {2, 1}), {6}, {1, 1, 1, 2, 3, 3});
  ExpectTensor(pad("reflect", {2, 2}), {7}, {3, 2, 1, 2, 3, 2, 1});
  ExpectTensor(pad("wrap", {2, 1}), {6}, {2, 3, 1, 2, 3, 1});
  ExpectTensor(Compute(core::pad, {Counting({2, 2}), Ints({1, 0}), Datum(), Ints({-1})}), {2, 3},
               {0, 0, 1, 0, 2, 3});
}

TEST(Copies, SplitUndoesConcat) {
  const Tensor a = Counting({2, 1, 2}), b = Counting({2, 3, 2});
  const Tensor both = Compute(core::concat, {a, b}, {{"axis", int64_t{1}}});
  ExpectTensor(both, {2, 4, 2}, {0, 1, 0, 1, 2, 3, 4, 5, 2, 3, 6, 7, 8, 9, 10, 11});
  const auto parts = RunAll(core::split, {both, Ints({1, 3})}, {{"axis", int64_t{1}}}, 2);
  EXPECT_TRUE(BitEqual(*parts[0].tensor(), a));
  EXPECT_TRUE(BitEqual(*parts[1].tensor(), b));
}

TEST(Makers, RangeEyeFill) {
  ExpectTensor(Compute(core::range, {MakeScalar(1.0f), MakeScalar(2.0f), MakeScalar(0.25f)}), {4},
               {1, 1.25, 1.5, 1.75});
  ExpectTensor(Compute(core::range,
                       {MakeScalar<int64_t>(5), MakeScalar<int64_t>(0), MakeScalar<int64_t>(-2)}),
               {3}, {5, 3, 1});
  ExpectTensor(Compute(core::eye_like, {Counting({2, 3})}, {{"k", int64_t{1}}}), {2, 3},
               {0, 1, 0, 0, 0, 1});
  ExpectTensor(Compute(core::constant_of_shape, {Ints({2})}, {{"value", Ints({7})}}), {2}, {7, 7});
  ExpectTensor(
      Compute(core::cumulative, {Floats({3}, {1, 2, 3})},
              {{"kind", std::string("sum")}, {"reverse", int64_t{1}}, {"exclusive", int64_t{1}}}),
      {3}, {5, 3, 0});
  ExpectTensor(Compute(core::cumulative, {Floats({3}, {1, 2, 3})}, {{"kind", std::string("prod")}}),
               {3}, {1, 2, 6});
}

TEST(Recurrent, OneStepByHand) {
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  const Tensor x = Floats({1, 1, 1}, {2});
  // W = [i, o, f, c]
  const auto lstm =
      RunAll(core::lstm,
             {x, Floats({1, 4, 1}, {0.1f, 0.2f, 0.3f, 0.4f}), Floats({1, 4, 1}, {0, 0, 0, 0}),
              Datum(), Datum(), Datum(), Floats({1, 1, 1}, {0.5f}), Floats({1, 3}, {1, 1, 1})},
             {{"hidden_size", int64_t{1}}}, 3);
  const double c = sigmoid(0.6 + 0.5) * 0.5 + sigmoid(0.2 + 0.5) * std::tanh(0.8);
  ExpectTensor(*lstm[2].tensor(), {1, 1, 1}, {c}, 1e-6);
  ExpectTensor(*lstm[0].tensor(), {1, 1, 1, 1}, {sigmoid(0.4 + c) * std::tanh(c)}, 1e-6);
  for (const int64_t linear : {0, 1}) {
    const Tensor gru =
        Compute(core::gru,
                {x, Floats({1, 3, 1}, {0.1f, 0.2f, 0.3f}), Floats({1, 3, 1}, {0.4f, 0.5f, 0.6f}),
                 Floats({1, 6}, {0, 0, 0.1f, 0, 0, 0.2f}), Datum(), Floats({1, 1, 1}, {0.7f})},
                {{"linear_before_reset", linear}});
    const double z = sigmoid(0.2 + 0.28), r = sigmoid(0.4 + 0.35);
    const double h = linear != 0 ? std::tanh(0.6 + r * (0.42 + 0.2) + 0.1)
                                 : std::tanh(0.6 + 0.6 * r * 0.7 + 0.3);
    ExpectTensor(gru, {1, 1, 1, 1}, {(1 - z) * h + z * 0.7}, 1e-6);
  }
}

TEST(Recurrent, LengthsDirectionsLayout) {
  // h' = relu(x + h): a running sum.
  const Attributes sum{{"activations", std::vector<std::string>{"Relu", "Relu"}},
                       {"direction", std::string("bidirectional")}};
  const Tensor ones = Floats({2, 1, 1}, {1, 1});
  const Tensor x = Floats({3, 2, 1}, {1, 10, 2, 20, 3, 30});
  const auto y = RunAll(core::rnn, {x, ones, ones, Datum(), Vector<int32_t>({3, 2})}, sum, 2);
  ExpectTensor(*y[0].tensor(), {3, 2, 2, 1}, {1, 10, 6, 30, 3, 30, 5, 20, 6, 0, 3, 0});
  ExpectTensor(*y[1].tensor(), {2, 2, 1}, {6, 30, 6, 30});
  Attributes batch_first = sum;
  batch_first.Set("layout", int64_t{1});
  const Tensor turned = Compute(core::transpose, {x}, {{"perm", Axes({1, 0, 2})}});
  const auto z =
      RunAll(core::rnn, {turned, ones, ones, Datum(), Vector<int32_t>({3, 2})}, batch_first, 2);
  ExpectTensor(*z[0].tensor(), {2, 3, 2, 1}, {1, 6, 3, 5, 6, 3, 10, 30, 30, 20, 0, 0});
  ExpectTensor(*z[1].tensor(), {2, 2, 1}, {6, 6, 30, 30});
}

TEST(Resize, Modes) {
  const Tensor x = Floats({4}, {1, 2, 3, 4});
  const auto resize = [&](float scale, Attributes attributes) {
    return Compute(core::resize, {x, Datum(), Floats({1}, {scale})}, std::move(attributes));
  };
  const std::string linear = "linear", nearest = "nearest", cubic = "cubic";
  ExpectTensor(resize(2, {{"mode", nearest}}), {8}, {1, 1, 2, 2, 3, 3, 4, 4});
  ExpectTensor(resize(2, {{"mode", linear}}), {8}, {1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4});
  ExpectTensor(resize(2, {{"mode", linear},
                          {"coordinate_transformation_mode", std::string("align_corners")}}),
               {8}, {1, 10 / 7.0, 13 / 7.0, 16 / 7.0, 19 / 7.0, 22 / 7.0, 25 / 7.0, 4});
  ExpectTensor(resize(0.6f, {{"mode", linear}}), {2}, {1.33333333, 3});
  // Values of the ONNX reference implementation.
  ExpectTensor(resize(0.8f, {{"mode", cubic}}), {3}, {1.09423827, 2.40429685, 3.70556637});
  ExpectTensor(resize(1.7f, {{"mode", cubic}, {"exclude_outside", int64_t{1}}}), {6},
               {0.88098236, 1.27108332, 1.95592277, 2.54432114, 3.21600958, 3.81652692});
  ExpectTensor(resize(0.5f, {{"mode", linear}, {"antialias", int64_t{1}}}), {2}, {1.625, 3.375});
  ExpectTensor(resize(0.6f, {{"mode", cubic}, {"antialias", int64_t{1}}}), {2},
               {1.30361443, 3.07142847});
  ExpectTensor(
      resize(0.6f, {{"mode", cubic}, {"antialias", int64_t{1}}, {"exclude_outside", int64_t{1}}}),
      {2}, {1.32142854, 3.10526307});
  ExpectTensor(
      resize(2.6f, {{"mode", nearest},
                    {"coordinate_transformation_mode", std::string("half_pixel_symmetric")}}),
      {10}, {1, 1, 2, 2, 2, 3, 3, 3, 4, 4});
  ExpectTensor(resize(2, {{"mode", nearest}, {"nearest_mode", std::string("ceil")}}), {8},
               {1, 2, 2, 3, 3, 4, 4, 4});
  ExpectTensor(Compute(core::resize, {x, Floats({2}, {0.2f, 1.3f}), Floats({1}, {2})},
                       {{"mode", linear},
                        {"coordinate_transformation_mode", std::string("tf_crop_and_resize")},
                        {"extrapolation_value", 9.0}}),
               {8}, {1.6, 2.07142857, 2.54285714, 3.01428571, 3.48571429, 3.95714286, 9, 9});
  ExpectTensor(
      Compute(core::resize, {x, Datum(), Datum(), Ints({2})},
              {{"mode", nearest}, {"coordinate_transformation_mode", std::string("asymmetric")}}),
      {2}, {1, 3});
  // Constant input stays constant under every kernel.
  for (const std::string& mode : {linear, cubic}) {
    const Tensor flat =
        Compute(core::resize, {Floats({5}, {3, 3, 3, 3, 3}), Datum(), Floats({1}, {0.7f})},
                {{"mode", mode}, {"antialias", int64_t{1}}, {"exclude_outside", int64_t{1}}});
    ExpectTensor(flat, {3}, {3, 3, 3}, 1e-6);
  }
}

TEST(Sequences, InsertEraseJoinCut) {
  const Datum sequence = RunAll(core::sequence, {Floats({1}, {1}), Floats({2}, {2, 3})})[0];
  const Datum longer =
      RunAll(core::sequence_insert, {sequence, Floats({1}, {9}), MakeScalar<int64_t>(-2)})[0];
  EXPECT_EQ(ToInts(Compute(core::sequence_length, {longer}))[0], 3);
  ExpectTensor(Compute(core::sequence_at, {longer, MakeScalar<int64_t>(0)}), {1}, {9});
  ExpectTensor(Compute(core::concat_from_sequence, {longer}, {{"axis", int64_t{0}}}), {4},
               {9, 1, 2, 3});
  const Datum shorter = RunAll(core::sequence_erase, {longer})[0];
  ExpectTensor(Compute(core::concat_from_sequence, {shorter},
                       {{"axis", int64_t{0}}, {"new_axis", int64_t{1}}}),
               {2, 1}, {9, 1});
  const Datum cut = RunAll(core::split_to_sequence, {Counting({5}), MakeScalar<int64_t>(2)})[0];
  ASSERT_EQ(cut.sequence()->size(), 3u);
  ExpectTensor(*(*cut.sequence())[2].tensor(), {1}, {4});
  EXPECT_THROW(Compute(core::sequence_at, {sequence, MakeScalar<int64_t>(2)}), Error);
  const Tensor matrix = Counting({4, 3});
  const Datum rows = RunAll(core::split_to_sequence, {matrix, Ints({1, 3})})[0];
  EXPECT_EQ((*rows.sequence())[1].tensor()->raw(), matrix.data<float>() + 3);  // a view
  const Datum columns = RunAll(core::split_to_sequence, {matrix},
                               {{"axis", int64_t{1}}, {"keepdims", int64_t{0}}})[0];
  ExpectTensor(*(*columns.sequence())[2].tensor(), {4}, {2, 5, 8, 11});
  ExpectTensor(Compute(core::concat_from_sequence, {columns},
                       {{"axis", int64_t{-1}}, {"new_axis", int64_t{1}}}),
               {4, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  EXPECT_THROW(Compute(core::concat_from_sequence, {columns},
                       {{"axis", int64_t{2}}, {"new_axis", int64_t{1}}}),
               Error);
}

TEST(Sequences, Optionals) {
  EXPECT_FALSE(Compute(core::optional_has, {Datum()}).data<bool>()[0]);
  EXPECT_TRUE(Compute(core::optional_has, {Counting({1})}).data<bool>()[0]);
  ExpectTensor(Compute(core::optional_get, {RunAll(core::optional, {Counting({2})})[0]}), {2},
               {0, 1});
}

TEST(Random, NumbersAreFloats) {
  const Tensor shape = MakeVector<int64_t>({4});
  for (const DType type : {DType::kUndefined, DType::kInt8, DType::kInt64, DType::kComplex64}) {
    EXPECT_THROW(Compute(core::random, {shape},
                         {{"kind", std::string("uniform")}, {"dtype", static_cast<int64_t>(type)}}),
                 Error)
        << Name(type);
  }
}

TEST(Types, TextReadsBack) {
  for (const char* text : {"tensor(float16)", "seq(tensor(int64))", "optional(seq(tensor(string)))",
                           "map(int64,tensor(float))", "seq(map(string,tensor(float)))"}) {
    EXPECT_EQ(Print(TypeFromText(text)), text);
  }
  for (const char* text : {"", "float", "tensor(flaot)", "seq(tensor(float)", "map(int64)"}) {
    EXPECT_THROW(TypeFromText(text), Error) << text;
  }
}

TEST(Copies, SplitWithoutSizes) {
  const auto parts = RunAll(core::split, {Counting({5})}, {{"axis", int64_t{0}}}, 4);
  ExpectTensor(*parts[0].tensor(), {2}, {0, 1});
  ExpectTensor(*parts[2].tensor(), {1}, {4});
  ExpectTensor(*parts[3].tensor(), {0}, {});
}

}  // namespace
}  // namespace sardonyx
