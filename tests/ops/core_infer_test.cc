// Shape inference of core operations: symbols flow, and what is wrong is said.

#include "core_node.h"

namespace sardonyx {
namespace {

const std::vector<int64_t> kNoAxes;

std::vector<int64_t> Axes(std::initializer_list<int64_t> axes) { return axes; }

TEST(Infer, MatmulBroadcastsBatches) {
  Facts f;
  EXPECT_EQ(f.Infer(core::matmul, {f.Input({"batch", "12", "seq", "64"}), f.Input({"64", "n"})}),
            "float[batch,12,seq,n]");
  EXPECT_EQ(f.Infer(core::matmul, {f.Input({"b", "s", "64"}), f.Input({"b", "t", "64"})},
                    {{"trans_b", int64_t{1}}}),
            "float[b,s,t]");
  EXPECT_EQ(f.Infer(core::matmul, {f.Unranked(DType::kFloat32), f.Input({"64", "n"})}), "float[*]");
}

TEST(Infer, MatmulNamesWhatDiffers) {
  Facts f;
  EXPECT_EQ(
      f.Error(core::matmul, {f.Input({"2", "12", "128", "64"}), f.Input({"2", "12", "32", "128"})}),
      "cannot multiply [2,12,128,64] by [2,12,32,128]: inner dimensions 64 and 32 differ");
  EXPECT_EQ(f.Error(core::matmul, {f.Input({"2", "3"}), f.Input(DType::kInt64, {"3", "4"})}),
            "cannot multiply float by int64: the element types must be the same");
}

TEST(Infer, IntegerProductsSumBytes) {
  Facts f;
  Value* a = f.Input(DType::kUInt8, {"n", "4"});
  Value* b = f.Input(DType::kInt8, {"4", "8"});
  Value* zero = f.Input(DType::kUInt8, {});
  EXPECT_EQ(f.Infer(core::integer_matmul, {a, b}), "int32[n,8]");
  EXPECT_EQ(f.Infer(core::integer_matmul, {a, b, zero, f.Input(DType::kInt8, {"8"})},
                    {{"epilogue", Expression::Parse("(int32) cast(0):float")}}),
            "float[n,8]");
  EXPECT_EQ(f.Error(core::integer_matmul, {a, f.Input({"4", "8"})}),
            "operand 1 of an integer product is float, not int8 or uint8");
  EXPECT_EQ(f.Error(core::integer_matmul, {a, b, nullptr, zero}),
            "the zero point of operand 1 is uint8, not int8");
  EXPECT_EQ(f.Infer(core::integer_conv,
                    {f.Input(DType::kInt8, {"n", "h", "w", "3"}),
                     f.Input(DType::kUInt8, {"16", "3", "3", "3"})},
                    {{"pads", Axes({1, 1, 1, 1})}}),
            "int32[n,h,w,16]");
}

TEST(Infer, EpilogueMustFit) {
  Facts f;
  const Expression bias = Expression::Parse("(float, float) add(0,1):float");
  EXPECT_EQ(f.Infer(core::matmul, {f.Input({"n", "4"}), f.Input({"4", "8"}), f.Input({"8"})},
                    {{"epilogue", bias}}),
            "float[n,8]");
  EXPECT_EQ(f.Error(core::matmul, {f.Input({"2", "4"}), f.Input({"4", "8"}), f.Input({"7"})},
                    {{"epilogue", bias}}),
            "cannot broadcast [7] with [2,8]: sizes 8 and 7 differ and neither is 1");
  EXPECT_NE(f.Error(core::matmul, {f.Input({"1", "4"}), f.Input({"4", "8"}), f.Input({"3", "8"})},
                    {{"epilogue", bias}}),
            "");
}

TEST(Infer, ConvKeepsSymbols) {
  Facts f;
  Value* x = f.Input({"n", "h", "w", "3"});
  Value* w = f.Input({"16", "3", "3", "3"});
  EXPECT_EQ(f.Infer(core::conv, {x, w}, {{"pads", Axes({1, 1, 1, 1})}}), "float[n,h,w,16]");
  EXPECT_EQ(
      f.Infer(core::conv, {f.Input({"n", "3", "9", "8"}), w}, {{"perm_x", Axes({0, 2, 3, 1})}}),
      "float[n,7,6,16]");
  EXPECT_EQ(f.Error(core::conv, {x, w}, {{"perm_x", Axes({0, 2, 1})}}),
            "perm_x has 3 axes for a tensor of rank 4");
  EXPECT_EQ(f.Infer(core::conv, {x, w},
                    {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Axes({2, 2})}}),
            "float[n,(h^/2),(w^/2),16]");
  EXPECT_EQ(f.Infer(core::conv, {x, w}, {{"pads", Axes({1, 1, 1, 1})}, {"strides", Axes({2, 2})}}),
            "float[n,((h+1)/2),((w+1)/2),16]");
  EXPECT_EQ(
      f.Infer(core::conv, {f.Input({"2", "224", "224", "3"}), w}, {{"strides", Axes({2, 2})}}),
      "float[2,111,111,16]");
  EXPECT_EQ(
      f.Error(core::conv, {f.Input({"1", "8", "8", "4"}), w}),
      "cannot convolve an input [1,8,8,4] (channels last) with weights [16,3,3,3] in 1 groups: "
      "4 input channels, but the weights take 3");
  EXPECT_EQ(f.Error(core::conv, {f.Input({"1", "2", "8", "3"}), w}),
            "a window of 3 (kernel 3, dilation 1) does not fit into 2 padded by 0 and 0");
}

TEST(Infer, ConvTransposeAndPools) {
  Facts f;
  EXPECT_EQ(
      f.Infer(core::conv_transpose, {f.Input({"n", "h", "5", "8"}), f.Input({"8", "4", "2", "2"})},
              {{"strides", Axes({2, 2})}}),
      "float[n,(h*2),10,4]");
  EXPECT_EQ(
      f.Infer(core::max_pool, {f.Input({"n", "112", "w", "64"})},
              {{"kernel", Axes({3, 3})}, {"strides", Axes({2, 2})}, {"pads", Axes({1, 1, 1, 1})}}),
      "float[n,56,((w+1)/2),64]");
  EXPECT_EQ(
      f.Infer(core::average_pool, {f.Input({"n", "7", "7", "64"})},
              {{"kernel", Axes({2, 2})}, {"strides", Axes({2, 2})}, {"ceil_mode", int64_t{1}}}),
      "float[n,4,4,64]");
}

TEST(Infer, Rotary) {
  Facts f;
  Value* x = f.Input({"n", "8", "s", "64"});
  Value* angles = f.Input({"n", "1", "t", "16"});
  const Attributes part{{"turned", int64_t{32}}};
  EXPECT_EQ(f.Infer(core::rotary, {x, angles, angles}, part), "float[n,8,s,64]");
  EXPECT_EQ(f.Error(core::rotary, {x, angles, angles}, {{"turned", int64_t{66}}}),
            "[n,8,s,64] has no 66 features to turn");
  EXPECT_EQ(f.Error(core::rotary, {x, angles, angles}, {{"turned", int64_t{3}}}),
            "3 features cannot be turned in pairs");
  EXPECT_EQ(f.Error(core::rotary, {x, f.Input({"n", "2", "s", "16"}), angles}, part),
            "cosines [n,2,s,16] do not fit [n,8,s,64] with 32 features to turn");
}

TEST(Infer, ReshapeOfComputedShapes) {
  Facts f;
  Value* x = f.Input({"batch", "seq", "768"});
  EXPECT_EQ(f.Infer(core::reshape, {x, f.Constant({0, 0, 12, 64})}), "float[batch,seq,12,64]");
  EXPECT_EQ(f.Infer(core::reshape, {x, f.Constant({0, -1, 12, 64})}), "float[batch,seq,12,64]");
  EXPECT_EQ(f.Infer(core::reshape, {x, f.Constant({-1, 768})}), "float[(batch*seq),768]");
  // shape -> gather -> unsqueeze -> concat -> reshape, as exporters write it.
  Value* shape = f.Make(core::shape, {x});
  EXPECT_EQ(f.Print(shape), "int64[3]{batch,seq,768}");
  Value* batch = f.Make(core::gather, {shape, f.Constant(MakeScalar<int64_t>(0))});
  EXPECT_EQ(f.Print(batch), "int64[]{batch}");
  Value* column = f.Make(core::unsqueeze, {batch}, {{"axes", Axes({0})}});
  Value* target = f.Make(core::concat, {column, f.Constant({-1, 12, 64})}, {{"axis", int64_t{0}}});
  EXPECT_EQ(f.Print(target), "int64[4]{batch,-1,12,64}");
  EXPECT_EQ(f.Infer(core::reshape, {x, target}), "float[batch,seq,12,64]");
  EXPECT_EQ(f.Infer(core::reshape, {x, f.Input(DType::kInt64, {"2"})}).substr(0, 7), "float[?");
  EXPECT_EQ(f.Infer(core::reshape, {x, f.Input(DType::kInt64, {"k"})}), "float[*]");
  EXPECT_EQ(f.Error(core::reshape, {f.Input({"2", "3"}), f.Constant({4, -1})}),
            "cannot reshape [2,3] to [4,-1]: the numbers of elements differ");
  EXPECT_EQ(f.Error(core::reshape, {x, f.Constant({-1, -1})}),
            "cannot reshape to [-1,-1]: more than one -1");
}

TEST(Infer, ArithmeticOfElements) {
  Facts f;
  Value* shape = f.Make(core::shape, {f.Input({"n", "c", "6"})});
  const auto apply = [&](Fn fn, Value* a, Value* b) {
    return f.Infer(core::Elementwise(fn), {a, b});
  };
  EXPECT_EQ(apply(Fn::kMul, shape, f.Constant({2})), "int64[3]{(n*2),(c*2),12}");
  EXPECT_EQ(apply(Fn::kDiv, shape, f.Constant({2})), "int64[3]{(n/2),(c/2),3}");
  EXPECT_EQ(apply(Fn::kAdd, shape, f.Constant(MakeScalar<int64_t>(1))), "int64[3]{(n+1),(c+1),7}");
  EXPECT_EQ(apply(Fn::kEqual, shape, f.Constant({-1})), "bool[3]{0,0,0}");
  EXPECT_EQ(apply(Fn::kEqual, shape, f.Constant({4})), "bool[3]");
  // where(shape == -1, ones, shape)
  Value* is_free = f.Make(core::Elementwise(Fn::kEqual), {shape, f.Constant({-1, -1, 6})});
  EXPECT_EQ(f.Infer(core::Elementwise(Fn::kWhere), {is_free, f.Constant({1, 1, 1}), shape}),
            "int64[3]{n,c,1}");
  EXPECT_EQ(
      f.Infer(core::reduce, {shape}, {{"kind", std::string("prod")}, {"keepdims", int64_t{0}}}),
      "int64[]{((n*c)*6)}");
  EXPECT_EQ(
      f.Infer(core::Elementwise(Fn::kCast), {shape}, {{"to", static_cast<int64_t>(DType::kInt32)}}),
      "int32[3]{n,c,6}");
  EXPECT_EQ(f.Infer(core::Elementwise(Fn::kCast), {shape},
                    {{"to", static_cast<int64_t>(DType::kFloat32)}}),
            "float[3]");
  EXPECT_EQ(f.Infer(core::slice, {shape, f.Constant({0}), f.Constant({2})}), "int64[2]{n,c}");
  EXPECT_EQ(f.Infer(core::slice,
                    {shape, f.Constant({-1}), f.Constant({-4}), f.Constant({0}), f.Constant({-1})}),
            "int64[3]{6,c,n}");
}

TEST(Infer, ShapesFromElements) {
  Facts f;
  Value* shape = f.Make(core::shape, {f.Input({"n", "s"})});
  EXPECT_EQ(f.Infer(core::constant_of_shape, {shape}), "float[n,s]");
  EXPECT_EQ(f.Infer(core::expand, {f.Input({"1", "s"}), shape}), "float[n,s]");
  EXPECT_EQ(f.Infer(core::expand, {f.Input({"4"}), f.Constant({3, 1})}), "float[3,4]");
  Value* s = f.Make(core::gather, {shape, f.Constant(MakeScalar<int64_t>(1))});
  Value* zero = f.Constant(MakeScalar<int64_t>(0));
  Value* one = f.Constant(MakeScalar<int64_t>(1));
  EXPECT_EQ(f.Infer(core::range, {zero, s, one}), "int64[s]");
  EXPECT_EQ(f.Infer(core::range,
                    {zero, f.Constant(MakeScalar<int64_t>(5)), f.Constant(MakeScalar<int64_t>(2))}),
            "int64[3]{0,2,4}");
  EXPECT_EQ(f.Infer(core::tile, {f.Input({"a", "2"}), shape}), "float[(n*a),(s*2)]");
  EXPECT_EQ(f.Infer(core::pad, {f.Input({"a", "2"}), f.Constant({1, 0, 1, 3})}), "float[(a+2),5]");
  EXPECT_EQ(f.Infer(core::size, {f.Input({"n", "3"})}), "int64[]{(n*3)}");
}

TEST(Infer, Slices) {
  Facts f;
  Value* x = f.Input({"n", "10"});
  const auto slice = [&](std::vector<int64_t> s, std::vector<int64_t> e, int64_t axis,
                         int64_t step = 1) {
    return f.Infer(core::slice,
                   {x, f.Constant(s), f.Constant(e), f.Constant({axis}), f.Constant({step})});
  };
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(slice({0}, {kEnd}, 0), "float[n,10]");
  EXPECT_EQ(slice({0}, {-1}, 0), "float[((n+-1)max0),10]");
  EXPECT_EQ(slice({-1}, {kEnd}, 0), "float[(nmin1),10]");
  EXPECT_EQ(slice({0}, {kEnd}, 0, 2), "float[(n^/2),10]");
  EXPECT_EQ(slice({-1}, {-kEnd}, 0, -1), "float[n,10]");
  EXPECT_EQ(slice({2}, {100}, 1, 3), "float[n,3]");
  EXPECT_EQ(slice({8}, {2}, 1, -4), "float[n,2]");
  EXPECT_EQ(slice({5}, {2}, 1), "float[n,0]");
  EXPECT_EQ(f.Error(core::slice, {x, f.Constant({0}), f.Constant({1}), f.Constant({2})}),
            "axis 2 is outside [-2,1] of a tensor of rank 2");
  EXPECT_EQ(f.Error(core::slice, {x, f.Constant({0}), f.Constant({1, 2})}),
            "starts, ends, axes and steps of a slice have 1 and 2 elements");
}

TEST(Infer, SplitConcatTransposeViews) {
  Facts f;
  Value* x = f.Input({"n", "7", "4"});
  const auto parts = f.MakeAll(core::split, {x}, {{"axis", int64_t{1}}}, 3);
  EXPECT_EQ(f.Print(parts[0]), "float[n,3,4]");
  EXPECT_EQ(f.Print(parts[2]), "float[n,1,4]");
  EXPECT_EQ(f.Infer(core::concat, {parts[0], parts[2]}, {{"axis", int64_t{-2}}}), "float[n,4,4]");
  EXPECT_EQ(f.Infer(core::concat, {x, f.Input({"m", "7", "4"})}, {{"axis", int64_t{0}}}),
            "float[(n+m),7,4]");
  EXPECT_EQ(f.Error(core::concat, {x, f.Input({"n", "8", "4"})}, {{"axis", int64_t{0}}}),
            "cannot concatenate [n,7,4] and [n,8,4] along axis 0: other dimensions differ");
  EXPECT_EQ(f.Infer(core::transpose, {x}, {{"perm", Axes({2, 0, 1})}}), "float[4,n,7]");
  EXPECT_EQ(f.Error(core::transpose, {x}, {{"perm", Axes({0, 0, 1})}}),
            "cannot transpose [n,7,4] by [0,0,1]: that is no permutation of its axes");
  EXPECT_EQ(f.Infer(core::flatten, {x}, {{"axis", int64_t{2}}}), "float[(n*7),4]");
  EXPECT_EQ(f.Infer(core::squeeze, {f.Input({"n", "1", "4"})}, {{"axes", Axes({1})}}),
            "float[n,4]");
  EXPECT_EQ(f.Infer(core::squeeze, {f.Input({"n", "1", "4"})}), "float[*]");
  EXPECT_EQ(f.Error(core::squeeze, {x}, {{"axes", Axes({1})}}),
            "cannot squeeze axis 1 of [n,7,4]: its size is not 1");
  EXPECT_EQ(f.Infer(core::unsqueeze, {x}, {{"axes", Axes({0, -1})}}), "float[1,n,7,4,1]");
}

TEST(Infer, DataDependentSizesAreFresh) {
  Facts f;
  EXPECT_EQ(f.Infer(core::nonzero, {f.Input({"n", "3"})}).substr(0, 9), "int64[2,?");
  EXPECT_EQ(f.Infer(core::compress, {f.Input({"n", "3"}), f.Input(DType::kBool, {"n"})},
                    {{"axis", int64_t{0}}})
                .substr(0, 7),
            "float[?");
  EXPECT_EQ(f.Infer(core::topk, {f.Input({"n", "9"}), f.Constant({4})}), "float[n,4]");
  EXPECT_EQ(f.Error(core::topk, {f.Input({"n", "3"}), f.Constant({4})}),
            "cannot take the top 4 of axis 1 of [n,3]");
}

TEST(Infer, Attention) {
  Facts f;
  Value* q = f.Input({"b", "s", "12", "64"});
  Value* k = f.Input({"b", "4", "t", "64"});
  const std::vector<int64_t> heads_first = Axes({0, 2, 1, 3});
  EXPECT_EQ(f.Infer(core::attention, {q, k, k, f.Input(DType::kBool, {"s", "t"})},
                    {{"perm_q", heads_first}, {"perm_y", heads_first}}),
            "float[b,s,12,64]");
  EXPECT_EQ(f.Infer(core::attention,
                    {f.Input({"2", "5", "8"}), f.Input({"2", "7", "8"}), f.Input({"2", "7", "3"})}),
            "float[2,5,3]");
  EXPECT_EQ(f.Error(core::attention, {q, k, k}, {{"perm_q", Axes({0, 1})}}),
            "perm_q has 2 axes for a tensor of rank 4");
  EXPECT_EQ(f.Error(core::attention, {f.Input({"2", "5"}), k, k}),
            "attention takes tensors of rank 3 and more, not [2,5]");
  EXPECT_EQ(f.Error(core::attention,
                    {f.Input({"6", "5", "8"}), f.Input({"4", "7", "8"}), f.Input({"4", "7", "3"})}),
            "6 query heads cannot share 4 key heads");
  EXPECT_EQ(f.Error(core::attention,
                    {f.Input({"2", "5", "8"}), f.Input({"2", "7", "8"}), f.Input({"2", "6", "3"})}),
            "keys and values have lengths of 7 and of 6");
  EXPECT_EQ(f.Error(core::attention, {f.Input({"2", "5", "8"}), f.Input({"2", "7", "8"}),
                                      f.Input({"2", "7", "3"}), f.Input({"4", "7"})}),
            "a mask [4,7] does not broadcast to scores [2,5,7]");
}

TEST(Infer, RecurrentAndResize) {
  Facts f;
  EXPECT_EQ(
      f.Infer(core::lstm,
              {f.Input({"t", "b", "5"}), f.Input({"1", "12", "5"}), f.Input({"1", "12", "3"})},
              {{"hidden_size", int64_t{3}}}),
      "float[t,1,b,3]");
  EXPECT_EQ(f.Error(core::gru,
                    {f.Input({"t", "b", "5"}), f.Input({"1", "9", "4"}), f.Input({"1", "9", "3"})}),
            "gru: input W is [1,9,4], expected [1,9,5]");
  EXPECT_EQ(f.Infer(core::resize, {f.Input({"n", "c", "h", "8"}), nullptr,
                                   f.Constant(Floats({4}, {1, 1, 2, 1.5f}))}),
            "float[n,c,(h*2),12]");
}

TEST(Infer, ReduceAndOthers) {
  Facts f;
  Value* x = f.Input({"n", "s", "8"});
  EXPECT_EQ(f.Infer(core::reduce, {x}, {{"kind", std::string("mean")}, {"axes", Axes({-1})}}),
            "float[n,s,1]");
  EXPECT_EQ(f.Infer(core::reduce, {f.Input(DType::kInt8, {"n", "8"})},
                    {{"kind", std::string("byte_sum")}, {"axes", Axes({1})}}),
            "int32[n,1]");
  EXPECT_EQ(f.Infer(core::reduce, {x}, {{"kind", std::string("mean")}, {"axes", kNoAxes}}),
            "float[n,s,8]");
  EXPECT_EQ(f.Infer(core::gather, {f.Input({"30522", "64"}), f.Input(DType::kInt64, {"n", "s"})}),
            "float[n,s,64]");
  EXPECT_EQ(f.Infer(core::gather_nd, {x, f.Input(DType::kInt64, {"k", "2"})}), "float[k,8]");
  EXPECT_EQ(f.Error(core::softmax, {x}, {{"axis", int64_t{3}}}),
            "axis 3 is outside [-3,2] of a tensor of rank 3");
  Value* image = f.Input({"n", "h", "w", "6"});
  EXPECT_EQ(f.Infer(core::group_moments, {image}, {{"groups", int64_t{3}}}), "float[n,1,1,6]");
  EXPECT_EQ(f.Error(core::group_moments, {image}, {{"groups", int64_t{4}}}),
            "6 channels cannot be cut into 4 groups");
  EXPECT_EQ(f.Error(core::group_moments, {image}), "group_moments of 0 groups");
  EXPECT_EQ(f.Error(core::group_moments, {image, f.Input({"3"})}, {{"groups", int64_t{3}}}),
            "a scale [3] is not one of [n,h,w,6]");
  EXPECT_EQ(f.Error(core::Elementwise(Fn::kAdd), {x, f.Input(DType::kInt64, {"8"})}),
            "add of float and int64: the element types must be the same");
  EXPECT_EQ(f.Error(core::Elementwise(Fn::kExp), {f.Input(DType::kInt64, {"8"})}),
            "exp: element type int64 is not supported");
}

}  // namespace
}  // namespace sardonyx
