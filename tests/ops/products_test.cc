// Products of the reference computes against plain loops, in every type.

#include "base/cast.h"
#include "core_node.h"

namespace sardonyx {
namespace {

// Small whole numbers, some negative where the type has them: sums are exact in every type.
Tensor Whole(DType type, std::vector<int64_t> dims, int64_t seed) {
  Tensor wide(DType::kInt64, std::move(dims));
  for (int64_t i = 0; i < wide.size(); ++i) {
    const int64_t value = (i * 7 + seed) % 5;
    wide.data<int64_t>()[i] = type == DType::kUInt32 ? value : value - 2;
  }
  Tensor result(type, wide.dims());
  ConvertElements(DType::kInt64, wide.raw(), type, result.raw(), wide.size(), true);
  return result;
}

std::vector<double> Product(const Tensor& a, const Tensor& b, int64_t m, int64_t n, int64_t k) {
  const std::vector<double> left = ToDoubles(a), right = ToDoubles(b);
  std::vector<double> y(m * n);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t p = 0; p < k; ++p) y[i * n + j] += left[i * k + p] * right[p * n + j];
    }
  }
  return y;
}

TEST(Products, EveryTypeIsAPlainLoop) {
  for (const DType type : {DType::kInt16, DType::kInt32, DType::kUInt32, DType::kInt64,
                           DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    SCOPED_TRACE(Name(type));
    const Tensor a = Whole(type, {67, 37}, 1), b = Whole(type, {37, 9}, 3);
    const std::vector<double> y = Product(a, b, 67, 9, 37);
    ExpectTensor(Compute(core::matmul, {a, b}), {67, 9}, y);
    const Tensor a_turned = Compute(core::transpose, {a}, {{"perm", std::vector<int64_t>{1, 0}}});
    const Tensor b_turned = Compute(core::transpose, {b}, {{"perm", std::vector<int64_t>{1, 0}}});
    const Attributes turned{{"trans_a", int64_t{1}}, {"trans_b", int64_t{1}}};
    ExpectTensor(Compute(core::matmul, {a_turned, b_turned}, turned), {67, 9}, y);
    // A window that covers no more than a pixel is a product as well.
    const Tensor pixels = a.Reshaped({1, 67, 37}), weights = b_turned.Reshaped({9, 37, 1});
    ExpectTensor(Compute(core::conv, {pixels, weights}), {1, 67, 9}, y);
  }
}

TEST(Products, IntegersWrapAround) {
  const Tensor a = Make<int32_t>({1, 2}, {65536, 3}), b = Make<int32_t>({2, 1}, {65537, 5});
  ExpectTensor(Compute(core::matmul, {a, b}), {1, 1}, {65536 + 15});
  const Tensor least = Make<int32_t>({1, 2}, {-32767, -32767});
  ExpectTensor(Compute(core::matmul, {least, least.Reshaped({2, 1})}), {1, 1},
               {2.0 * 32767 * 32767});
  const Tensor many = Make<int32_t>({1, 3}, {32767, 32767, 32767});
  ExpectTensor(Compute(core::matmul, {many, many.Reshaped({3, 1})}), {1, 1},
               {3.0 * 32767 * 32767 - 4294967296.0});
}

TEST(Products, ConvolutionsInGroupsWithPadding) {
  const Attributes attributes{{"group", int64_t{2}},
                              {"strides", std::vector<int64_t>{2, 1}},
                              {"dilations", std::vector<int64_t>{1, 2}},
                              {"pads", std::vector<int64_t>{1, 0, 1, 2}},
                              {"auto_pad", std::string("NOTSET")}};
  const auto run = [&](DType type, const CoreOp& op, std::vector<int64_t> weights) {
    const Tensor x = Whole(type, {2, 9, 8, 6}, 1), w = Whole(type, std::move(weights), 4);
    return Compute(op, {x, w}, attributes);
  };
  for (const CoreOp* op : {&core::conv, &core::conv_transpose}) {
    const std::vector<int64_t> weights =
        op == &core::conv ? std::vector<int64_t>{4, 3, 3, 2} : std::vector<int64_t>{6, 2, 3, 2};
    const Tensor expected = run(DType::kFloat64, *op, weights);
    for (const DType type : {DType::kInt32, DType::kInt64, DType::kFloat16, DType::kFloat32}) {
      ExpectTensor(run(type, *op, weights), expected.dims(), ToDoubles(expected));
    }
  }
}

TEST(Infer, BitCastNeedsAsManyBits) {
  Facts f;
  const auto to = [](DType type) { return Attributes{{"to", static_cast<int64_t>(type)}}; };
  EXPECT_EQ(f.Infer(core::bit_cast, {f.Input({"n", "3"})}, to(DType::kInt32)), "int32[n,3]");
  EXPECT_EQ(f.Error(core::bit_cast, {f.Input({"n", "3"})}, to(DType::kInt64)),
            "cannot take the 32 bits of float as int64, which has 64");
  EXPECT_EQ(f.Error(core::bit_cast, {f.Input({"n"})}, to(DType::kString)),
            "cannot take the bits of float as string: strings have none");
}

TEST(Infer, MatMulNBitsChecksItsBlocks) {
  Facts f;
  const auto blocks = [](int64_t bits, int64_t size) {
    return Attributes{{"K", int64_t{40}}, {"N", int64_t{6}}, {"bits", bits}, {"block_size", size}};
  };
  const auto infer = [&](std::vector<std::string> b, const Attributes& attributes) {
    return f.Error(
        core::matmul_nbits,
        {f.Input({"m", "40"}), f.Input(DType::kUInt8, std::move(b)), f.Input({"6", "3"})},
        attributes);
  };
  EXPECT_EQ(
      f.Infer(core::matmul_nbits,
              {f.Input({"m", "40"}), f.Input(DType::kUInt8, {"6", "3", "8"}), f.Input({"6", "3"})},
              blocks(4, 16)),
      "float[m,6]");
  EXPECT_EQ(infer({"6", "3", "7"}, blocks(4, 16)), "B is [6,3,7], which are not 144 elements");
  EXPECT_EQ(infer({"6", "3", "8"}, blocks(3, 16)), "attribute bits is 3, not 2, 4 or 8");
  EXPECT_EQ(infer({"6", "3", "8"}, blocks(4, 24)),
            "attribute block_size is 24, not a power of two from 16 on");
}

TEST(Infer, MatMulNBitsChecksItsTable) {
  Facts f;
  const auto error = [&](int64_t bits, size_t count, std::vector<Value*> more) {
    std::vector<Value*> inputs = {f.Input({"m", "16"}), f.Input(DType::kUInt8, {"6", "1", "8"}),
                                  f.Input({"6"})};
    inputs.insert(inputs.end(), more.begin(), more.end());
    return f.Error(core::matmul_nbits, inputs,
                   {{"K", int64_t{16}},
                    {"N", int64_t{6}},
                    {"bits", bits},
                    {"block_size", int64_t{16}},
                    {"values", std::vector<double>(count)}});
  };
  EXPECT_EQ(error(4, 8, {}), "attribute values has 8 elements for codes of 4 bits, not 16 for 4");
  EXPECT_EQ(error(2, 16, {}), "attribute values has 16 elements for codes of 2 bits, not 16 for 4");
  EXPECT_EQ(error(4, 16, {f.Input({"6"})}), "codes of a table have no zero points");
}

TEST(Infer, ExpertMatmulChecksItsOperands) {
  Facts f;
  Value* x = f.Input({"r", "32"});
  Value* experts = f.Input(DType::kInt64, {"r", "s"});
  Value* w = f.Input({"4", "6", "32"});
  EXPECT_EQ(f.Infer(core::expert_matmul, {x, w, experts}), "float[r,s,6]");
  EXPECT_EQ(f.Infer(core::expert_matmul, {x, f.Input(DType::kFloat16, {"4", "6", "32"}), experts}),
            "float[r,s,6]");
  EXPECT_EQ(f.Error(core::expert_matmul, {x, f.Input({"4", "6", "31"}), experts}),
            "x is [r,32], but weights are [4,6,31]");
  EXPECT_EQ(f.Infer(core::expert_matmul, {x, f.Input({"4", "32", "6"}), experts},
                    {{"trans_w", int64_t{1}}}),
            "float[r,s,6]");
  EXPECT_EQ(f.Error(core::expert_matmul, {x, w, experts}, {{"trans_w", int64_t{1}}}),
            "x is [r,32], but weights are [4,6,32]");
  EXPECT_EQ(f.Infer(core::expert_matmul, {f.Input({"1", "32"}), w, experts}), "float[r,s,6]");
  EXPECT_EQ(f.Infer(core::expert_matmul, {x, w, f.Input(DType::kInt64, {"1", "2"})}),
            "float[r,2,6]");
  EXPECT_EQ(
      f.Error(core::expert_matmul, {f.Input({"3", "32"}), w, f.Input(DType::kInt64, {"2", "2"})}),
      "x is [3,32], but experts are [2,2]");
  EXPECT_EQ(f.Error(core::expert_matmul, {x, f.Input({"6", "32"}), experts}),
            "weights are [6,32], but must have 3 axes");
  EXPECT_EQ(f.Error(core::expert_matmul, {x, w, f.Input({"r", "s"})}),
            "experts are float, not int64");
  EXPECT_EQ(f.Error(core::expert_matmul, {x, w, experts, f.Input({"4", "5"})}),
            "bias is [4,5], but must be [4,6]");
  Value* codes = f.Input(DType::kUInt8, {"4", "6", "16"});
  const Attributes blocks{{"bits", int64_t{4}}, {"block_size", int64_t{16}}};
  EXPECT_EQ(
      f.Infer(core::expert_matmul, {x, codes, experts, nullptr, f.Input({"4", "6", "2"})}, blocks),
      "float[r,s,6]");
  EXPECT_EQ(f.Error(core::expert_matmul, {x, codes, experts}, blocks), "codes have no scales");
  const Attributes turned{
      {"bits", int64_t{4}}, {"block_size", int64_t{16}}, {"trans_w", int64_t{1}}};
  EXPECT_EQ(
      f.Error(core::expert_matmul, {x, codes, experts, nullptr, f.Input({"4", "6", "2"})}, turned),
      "codes lie along K, without trans_w");
  EXPECT_EQ(
      f.Error(core::expert_matmul, {x, codes, experts, nullptr, f.Input({"4", "6", "3"})}, blocks),
      "scales is [4,6,3], but must be [4,6,2]");
  EXPECT_EQ(f.Error(core::expert_matmul, {x, codes, experts}, {{"bits", int64_t{3}}}),
            "attribute bits is 3, not 2, 4 or 8");
}

TEST(Products, ExpertsMultiplyTheirRows) {
  const Tensor x = Whole(DType::kFloat32, {3, 5}, 1), w = Whole(DType::kFloat32, {4, 6, 5}, 2);
  Tensor experts(DType::kInt64, {3, 2});
  const std::vector<int64_t> chosen = {3, 0, 1, 1, 0, 2};
  std::copy(chosen.begin(), chosen.end(), experts.data<int64_t>());
  const Tensor y = Compute(core::expert_matmul, {x, w, experts}, {});
  const std::vector<double> a = ToDoubles(x), b = ToDoubles(w);
  std::vector<double> expected;
  for (int64_t i = 0; i < 6; ++i) {
    for (int64_t j = 0; j < 6; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < 5; ++k) sum += a[i / 2 * 5 + k] * b[(chosen[i] * 6 + j) * 5 + k];
      expected.push_back(sum);
    }
  }
  ExpectTensor(y, {3, 2, 6}, expected);
}

}  // namespace
}  // namespace sardonyx
