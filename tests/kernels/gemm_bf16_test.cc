#include "kernels/gemm_bf16.h"

#include <cmath>

#include "base/dtype.h"
#include "each_target.h"
#include "kernels/bf16_block.h"

namespace sardonyx {
namespace {

float Bf16(float value) { return BFloat16ToFloat(FloatToBFloat16(value)); }

struct Product {
  int64_t m, n, k;
  bool a_is_bf16 = true, b_transposed = false;
  int64_t lda_more = 3;
  DType rounding = DType::kFloat32;
};

// A and B as they are changed by `change`, against float64.
template <typename Change>
void Check(const Product& p, const Change& change) {
  SCOPED_TRACE(std::to_string(p.m) + "x" + std::to_string(p.n) + "x" + std::to_string(p.k) +
               (p.a_is_bf16 ? " bf16" : " float") + (p.b_transposed ? " transposed" : ""));
  const Bf16Gemm shape{p.m, p.n, p.k, p.k + p.lda_more, p.n + 5};
  Floats a = Floats::Random(p.m * shape.lda, 1);
  const Floats b = Floats::Random(p.k * p.n, 2), bias = Floats::Random(p.n, 3);
  if (p.a_is_bf16) {
    for (int64_t i = 0; i < a.size(); ++i) a[i] = Bf16(a[i]);
  }
  change(a, b);
  const int64_t ldb = (p.b_transposed ? p.k : p.n) + 2;
  std::vector<uint16_t> halves((p.b_transposed ? p.n : p.k) * ldb, 0x7fc0);
  for (int64_t k = 0; k < p.k; ++k) {
    for (int64_t j = 0; j < p.n; ++j) {
      const uint16_t half = FloatToBFloat16(b[k * p.n + j]);
      halves[p.b_transposed ? j * ldb + k : k * ldb + j] = half;
      b[k * p.n + j] = BFloat16ToFloat(half);
    }
  }
  Floats packed(static_cast<int64_t>(GemmBf16PackedBytes(p.k, p.n) / 4));
  GemmBf16Pack(p.k, p.n, halves.data(), ldb, p.b_transposed, packed.get(), TwoThreads());
  EXPECT_TRUE(packed.Intact());
  const bool rounds = p.rounding != DType::kFloat32;
  const Expression add =
      Expression::Parse(rounds ? "(float, float) add(0,1):float cast(2):bfloat16 cast(3):float"
                               : "(float, float) add(0,1):float");
  const EpilogueOperand operand{bias.get(), DType::kFloat32, 0, 1, {0, 0}};
  Floats one(p.m * shape.ldc), two(p.m * shape.ldc);
  for (Floats* c : {&one, &two}) {
    std::fill(c->get(), c->get() + c->size(), 77.0f);
    Floats scratch(static_cast<int64_t>(GemmBf16ScratchBytes(shape) / 4));
    GemmBf16(shape, a.get(), packed.get(), c->get(), {&add, &operand}, scratch.get(),
             c == &one ? OneThread() : TwoThreads());
    EXPECT_TRUE(scratch.Intact());
    EXPECT_TRUE(c->Intact());
  }
  EXPECT_TRUE(one.SameBits(two));
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      double sum = bias[j], size = std::abs(bias[j]);
      for (int64_t k = 0; k < p.k; ++k) {
        const double term = static_cast<double>(a[i * shape.lda + k]) * b[k * p.n + j];
        sum += term;
        size += std::abs(term);
      }
      const float value = one[i * shape.ldc + j];
      if (rounds) {
        ASSERT_EQ(value, Bf16(value));
        ASSERT_NEAR(value, sum, 1e-6 * size + std::abs(sum) / 256) << i << "," << j;
      } else {
        ASSERT_NEAR(value, sum, 1e-6 * size) << i << "," << j;
      }
    }
    for (int64_t j = p.n; j < shape.ldc; ++j) ASSERT_EQ(one[i * shape.ldc + j], 77.0f);
  }
}
void Check(const Product& p) {
  Check(p, [](const Floats&, const Floats&) {});
}

TEST(GemmBf16Test, MatchesFloat64) {
  ForEachTarget([] {
    for (const bool a_is_bf16 : {true, false}) {
      for (const bool b_transposed : {true, false}) {
        for (const int64_t m : {1, 2, 5, 14, 31}) {
          Check({m, 1, 1, a_is_bf16, b_transposed});
          Check({m, 45, 37, a_is_bf16, b_transposed});
          Check({m, 64, 128, a_is_bf16, b_transposed});
        }
      }
      Check({150, 70, 1703, a_is_bf16});
      Check({400, 33, 1024, a_is_bf16, false, 0});
      Check({30, 40, 50, a_is_bf16, false, 0, DType::kBFloat16});
    }
  });
}

// Pairs of bfloat16 would take subnormal numbers as zeros; here they meet large ones.
TEST(GemmBf16Test, SubnormalNumbersCount) {
  ForEachTarget([] {
    Check({40, 50, 60}, [](const Floats& a, const Floats& b) {
      for (int64_t i = 0; i < 40; ++i) a[i * 63 + 7] = Bf16(0x1p-130f);
      for (int64_t j = 0; j < 50; ++j) b[7 * 50 + j] = 0x1.8p+127f;
    });
    Check({40, 50, 60}, [](const Floats& a, const Floats& b) {
      for (int64_t i = 0; i < 40; ++i) a[i * 63 + 58] = 0x1.8p+127f;
      for (int64_t j = 0; j < 50; ++j) b[58 * 50 + j] = Bf16(-0x1p-131f);
    });
    Check({200, 34, 61}, [](const Floats& a, const Floats& b) {  // in one place alone
      a[199 * 64 + 60] = Bf16(0x1p-133f);
      b[60 * 34 + 33] = 0x1p+127f;
    });
  });
}

TEST(GemmBf16Test, PacksWhatIsBf16) {
  ForEachTarget([] {
    for (const int64_t k : {1, 7, 31, 32, 64, 97}) {
      const Floats a = Floats::Random(3 * k, 5);
      for (int64_t i = 0; i < a.size(); ++i) a[i] = i % 5 == 0 ? 0.0f : Bf16(a[i]);
      std::vector<uint32_t> pairs(3 * 64);
      const auto packs = [&] { return Bf16PackRows(a.get(), k, 3, k, pairs.data(), 64); };
      EXPECT_TRUE(packs());
      for (int64_t i = 0; i < 3 * k; ++i) {
        const uint32_t pair = pairs[i / k * 64 + i % k / 2];
        ASSERT_EQ(BFloat16ToFloat(static_cast<uint16_t>(i % k % 2 == 0 ? pair : pair >> 16)), a[i]);
      }
      for (int64_t i = 0; i < 3 * k; ++i) {
        const float was = a[i];
        for (const float value : {0x1p-127f, -0x1p-133f, 0x1.01p0f + 0x1p-20f, 0x1p-149f}) {
          a[i] = value;
          EXPECT_FALSE(packs()) << i << " " << value;
        }
        for (const float value : {0x1p-126f, -0.0f, 0x1.fep127f, HUGE_VALF}) {
          a[i] = value;
          EXPECT_TRUE(packs()) << i << " " << value;
        }
        a[i] = was;
      }
    }
  });
}

}  // namespace
}  // namespace sardonyx
