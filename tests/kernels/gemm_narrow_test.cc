#include "kernels/gemm_narrow.h"

#include <cmath>
#include <limits>

#include "base/dtype.h"
#include "each_target.h"

namespace sardonyx {
namespace {

struct Weights {
  NarrowMatrix shape;
  std::vector<uint16_t> halves;  // [n, k]
  std::vector<uint8_t> codes;
  std::vector<float> scales, zeros;
  std::vector<double> values;  // [k, n]
};

Weights Make(const NarrowMatrix& b) {
  Weights w{b, {}, {}, {}, {}, std::vector<double>(b.k * b.n)};
  std::mt19937 random(7);
  const auto uniform = [&] { return static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f; };
  if (b.block == 0) {
    for (int64_t j = 0; j < b.n; ++j) {
      for (int64_t k = 0; k < b.k; ++k) {
        const float value = uniform();
        w.halves.push_back(FloatToHalf(value));
        w.values[k * b.n + j] = HalfToFloat(w.halves.back());
      }
    }
    return w;
  }
  const int bits = BitWidth(b.type);
  const int64_t blocks = (b.k + b.block - 1) / b.block, bytes = b.block * bits / 8;
  w.codes.resize(b.n * blocks * bytes);
  for (uint8_t& byte : w.codes) byte = static_cast<uint8_t>(random());
  for (int64_t i = 0; i < b.n * blocks; ++i) {
    w.scales.push_back(0.1f * uniform());
    const auto zero = static_cast<float>(random() % (1 << bits));
    w.zeros.push_back(b.zero == NarrowMatrix::kNoZero ? zero : static_cast<float>(b.zero));
  }
  for (int64_t j = 0; j < b.n; ++j) {
    for (int64_t k = 0; k < b.k; ++k) {
      const int64_t block = j * blocks + k / b.block, at = k % b.block;
      const int code =
          (w.codes[block * bytes + at * bits / 8] >> (at * bits % 8)) & ((1 << bits) - 1);
      const double number = b.has_values ? static_cast<double>(b.values[code])
                                         : code - static_cast<double>(w.zeros[block]);
      w.values[k * b.n + j] = number * static_cast<double>(w.scales[block]);
    }
  }
  return w;
}

// Rows of A as the product sees them, [m, k].
std::vector<double> Seen(const NarrowMatrix& b, const Floats& a, int64_t m, int64_t lda) {
  std::vector<double> seen(m * b.k);
  for (int64_t i = 0; i < m; ++i) {
    double* to = seen.data() + i * b.k;
    std::copy_n(a.get() + i * lda, b.k, to);
    if (!b.rounds_a) continue;
    for (int64_t begin = 0; begin < b.k; begin += b.block) {
      const int64_t end = std::min(b.k, begin + b.block);
      float top = 0;
      for (int64_t k = begin; k < end; ++k) top = std::max(top, std::abs(a[i * lda + k]));
      for (int64_t k = begin; k < end; ++k) {
        const double code = std::nearbyint(a[i * lda + k] * (127 / top));
        const double rounded = code * static_cast<double>(top) / 127;
        EXPECT_NEAR(rounded, to[k], static_cast<double>(top) / 253);
        to[k] = rounded;
      }
    }
  }
  return seen;
}

void Check(const NarrowMatrix& b, int64_t m) {
  SCOPED_TRACE(std::string(Name(b.type)) + " block " + std::to_string(b.block) + " " +
               std::to_string(m) + "x" + std::to_string(b.n) + "x" + std::to_string(b.k) +
               (b.rounds_a ? " rounded" : "") +
               (b.zero == NarrowMatrix::kNoZero ? "" : ", one zero point"));
  const Weights w = Make(b);
  const int64_t lda = b.k + 3, ldc = b.n + 5;
  const Floats a = Floats::Random(m * lda, 1), bias = Floats::Random(b.n, 2);
  Floats packed(static_cast<int64_t>(NarrowPackedBytes(b) / 4));
  if (b.block == 0) {
    PackNarrowHalves(b, w.halves.data(), b.k, true, packed.get(), TwoThreads());
  } else {
    PackNarrowBlocks(b, w.codes.data(), w.scales.data(), w.zeros.data(), packed.get(),
                     TwoThreads());
  }
  const Expression add = Expression::Parse("(float, float) add(0,1):float");
  const EpilogueOperand operand{bias.get(), DType::kFloat32, 0, 1, {0, 0}};
  Floats one(m * ldc), two(m * ldc);
  for (Floats* c : {&one, &two}) {
    std::fill(c->get(), c->get() + c->size(), 77.0f);
    const Parallel par = c == &one ? OneThread() : TwoThreads();
    Floats scratch(static_cast<int64_t>(GemmNarrowScratchBytes(b, m, lda, par.threads) / 4));
    GemmNarrow(b, packed.get(), m, a.get(), lda, c->get(), ldc, {&add, &operand}, scratch.get(),
               par);
    EXPECT_TRUE(scratch.Intact());
    EXPECT_TRUE(c->Intact());
  }
  EXPECT_TRUE(packed.Intact());
  EXPECT_TRUE(one.SameBits(two));
  const std::vector<double> seen = Seen(b, a, m, lda);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < b.n; ++j) {
      double sum = bias[j], size = std::abs(bias[j]);
      for (int64_t k = 0; k < b.k; ++k) {
        const double term = seen[i * b.k + k] * w.values[k * b.n + j];
        sum += term;
        size += std::abs(term);
      }
      ASSERT_NEAR(one[i * ldc + j], sum, 1e-6 * size) << i << "," << j;
    }
    for (int64_t j = b.n; j < ldc; ++j) ASSERT_EQ(one[i * ldc + j], 77.0f);
  }
}

TEST(GemmNarrowTest, Halves) {
  ForEachTarget([] {
    constexpr DType kType = DType::kFloat16;
    for (const int64_t m : {1, 2, 3, 4, 5, 31}) {
      Check({kType, 1, 1, 0}, m);
      Check({kType, 37, 45, 0}, m);
      Check({kType, 128, 24, 0}, m);
      Check({kType, 700, 70, 0}, m);
      Check({kType, 1031, 40, 0}, m);
    }
    Check({kType, 1024 - 3, 33, 0}, 200);
    Check({kType, 700, 133, 0}, 290);
    Check({kType, 512, 1024, 0}, 1);
    Check({kType, 512, 1024, 0}, 40);
  });
}

TEST(GemmNarrowTest, RoundedRows) {
  ForEachTarget([] {
    for (const DType type : {DType::kUInt2, DType::kUInt4, DType::kUInt8}) {
      const int most = (1 << BitWidth(type)) - 1;
      for (const int zero : {NarrowMatrix::kNoZero, 0, most / 2 + 1, most}) {
        for (const int64_t m : {1, 2, 3, 4, 5, 6, 8, 12, 16, 31}) {
          for (const int64_t block : {16, 32, 128}) {
            Check({type, 37, 45, block, true, zero}, m);
            Check({type, 256, 24, block, true, zero}, m);
          }
        }
        Check({type, 700, 70, 64, true, zero}, 33);
        Check({type, 512, 1024, 32, true, zero}, 1);
      }
    }
    Check({DType::kUInt4, 17000, 33, 64, true}, 70);  // more than stay in the cache
  });
}

TEST(GemmNarrowTest, RoundedRowsByTilesAreThoseOfVectors) {
  if (!HasMatrixTiles()) GTEST_SKIP() << "the processor has no matrix tiles";
  const AsOnProcessors two(2);
  for (const DType type : {DType::kUInt2, DType::kUInt4, DType::kUInt8}) {
    for (const int zero : {NarrowMatrix::kNoZero, 3}) {
      for (const int64_t block : {16, 32, 64, 128, 512}) {
        const NarrowMatrix b{type, 2100, 70, block, true, zero};
        const Weights w = Make(b);
        const Floats packed(static_cast<int64_t>(NarrowPackedBytes(b) / 4));
        PackNarrowBlocks(b, w.codes.data(), w.scales.data(), w.zeros.data(), packed.get(),
                         OneThread());
        for (const int64_t m : {16, 17, 33, 64, 65, 100}) {
          const Floats a = Floats::Random(m * b.k, static_cast<uint32_t>(m));
          const Floats tiles(m * b.n), vectors(m * b.n);
          for (const bool by_tiles : {false, true}) {
            AllowMatrixTilesForTest(by_tiles);
            const Floats scratch(static_cast<int64_t>(GemmNarrowScratchBytes(b, m, b.k, 1) / 4));
            GemmNarrow(b, packed.get(), m, a.get(), b.k, (by_tiles ? tiles : vectors).get(), b.n,
                       {}, scratch.get(), OneThread());
            EXPECT_TRUE(scratch.Intact());
          }
          EXPECT_TRUE(tiles.Intact());
          ASSERT_TRUE(tiles.SameBits(vectors)) << Name(type) << " block " << block << " m " << m;
        }
      }
    }
  }
}

TEST(GemmNarrowTest, RoundedRowsKeepWhatIsNotFinite) {
  ForEachTarget([] {
    const NarrowMatrix b{DType::kUInt4, 96, 40, 32, true};
    const Weights w = Make(b);
    Floats packed(static_cast<int64_t>(NarrowPackedBytes(b) / 4));
    PackNarrowBlocks(b, w.codes.data(), w.scales.data(), w.zeros.data(), packed.get(), OneThread());
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    for (const float stray : {kInfinity, -kInfinity, std::nanf("")}) {
      Floats a(2 * b.k), c(2 * b.n), scratch(GemmNarrowScratchBytes(b, 2, b.k, 1) / 4);
      std::fill_n(a.get(), 2 * b.k, 0.0f);
      a.get()[b.k + 50] = stray;
      GemmNarrow(b, packed.get(), 2, a.get(), b.k, c.get(), b.n, {}, scratch.get(), OneThread());
      for (int64_t j = 0; j < b.n; ++j) {
        EXPECT_EQ(c[j], 0.0f);
        EXPECT_FALSE(std::isfinite(c[b.n + j])) << stray;
      }
    }
  });
}

TEST(GemmNarrowTest, Blocks) {
  ForEachTarget([] {
    for (const DType type : {DType::kUInt2, DType::kUInt4, DType::kUInt8}) {
      for (const int64_t m : {1, 2, 3, 4, 5, 31}) {
        for (const int64_t block : {16, 32, 128}) {
          Check({type, 37, 45, block}, m);
          Check({type, 256, 24, block}, m);
        }
      }
      Check({type, 700, 70, 64}, 33);
      Check({type, 700, 133, 64}, 290);
      Check({type, 512, 1024, 32}, 1);
    }
  });
}

TEST(GemmNarrowTest, CodesOfATable) {
  ForEachTarget([] {
    NarrowMatrix b{DType::kUInt4, 37, 45, 16};
    b.has_values = true;
    for (int i = 0; i < 16; ++i) b.values[i] = std::sin(static_cast<float>(i * i + 1));
    for (const int64_t m : {1, 2, 3, 4, 5, 31}) Check(b, m);
    b.k = 512;
    b.n = 133;
    b.block = 64;
    for (const int64_t m : {1, 40}) Check(b, m);
  });
}

}  // namespace
}  // namespace sardonyx
