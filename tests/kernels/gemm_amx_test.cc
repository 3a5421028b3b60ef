// Products of float32 by matrix tiles against float64, and against themselves in other blocks.

#include "kernels/gemm_amx.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "each_target.h"
#include "kernels/gemm.h"

namespace sardonyx {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Operands of one block, B packed, and the float64 product.
struct Product {
  int64_t m, n, k;
  Floats a, b, packed;

  Product(int64_t rows, int64_t columns, int64_t depth, uint32_t seed)
      : m(rows),
        n(columns),
        k(depth),
        a(Floats::Random(rows * depth, seed)),
        b(Floats::Random(depth * columns, seed + 1)),
        packed(static_cast<int64_t>(GemmPackedBytes(depth, columns) / sizeof(float))) {}

  void ScaleRow(int64_t i, float by) const {
    for (int64_t p = 0; p < k; ++p) a[i * k + p] *= by;
  }
  void ScaleColumn(int64_t j, float by) const {
    for (int64_t p = 0; p < k; ++p) b[p * n + j] *= by;
  }
  void Pack() const { GemmPackB(k, n, b.get(), n, false, packed.get(), OneThread()); }

  GemmBlockArgs Args(float* c) const {
    GemmBlockArgs args{};
    args.a = a.get();
    args.lda = args.k_total = args.kc = k;
    args.rows = m;
    args.b = packed.get();
    args.n_total = args.n1 = args.ldc = n;
    args.is_all = n <= GemmPanelWidth();
    args.c = c;
    return args;
  }
  // Rows [first, first + rows) into c.
  void RunByTiles(int64_t first, int64_t rows, const Floats& c) const {
    const Floats scratch(static_cast<int64_t>(GemmAmxBytes(rows, k) / sizeof(float)));
    GemmBlockArgs args = Args(c.get() + first * n);
    args.a += first * k;
    args.rows = rows;
    args.thirds = scratch.get();
    GemmBlock(args);
    ASSERT_TRUE(scratch.Intact());
  }
  // The sum of the products, and of their sizes.
  std::pair<double, double> At(int64_t i, int64_t j) const {
    double sum = 0, size = 0;
    for (int64_t p = 0; p < k; ++p) {
      const double product = static_cast<double>(a[i * k + p]) * static_cast<double>(b[p * n + j]);
      sum += product;
      size += std::fabs(product);
    }
    return {sum, size};
  }
  void ExpectNear(const Floats& c, double tolerance) const {
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const auto [sum, size] = At(i, j);
        ASSERT_LE(std::fabs(static_cast<double>(c[i * n + j]) - sum), tolerance * size)
            << m << "x" << n << "x" << k << " at " << i << ", " << j;
      }
    }
  }
};

class GemmAmx : public testing::Test {
 protected:
  void SetUp() override {
    if (!HasMatrixTiles()) GTEST_SKIP() << "the processor has no matrix tiles";
  }
};

TEST_F(GemmAmx, RandomSizesAreCloseAndSummedAlikeInAnyBlock) {
  std::mt19937 random(1);
  const auto up_to = [&](int64_t most) { return 1 + static_cast<int64_t>(random() % most); };
  for (int round = 0; round < 60; ++round) {
    const Product product(up_to(100), up_to(100), up_to(round % 3 == 0 ? 800 : 150), random());
    product.Pack();
    const Floats whole(product.m * product.n), cut(product.m * product.n);
    product.RunByTiles(0, product.m, whole);
    ASSERT_TRUE(whole.Intact());
    product.ExpectNear(whole, 4e-7);
    for (int64_t first = 0, rows = 0; first < product.m; first += rows) {
      rows = std::min(up_to(40), product.m - first);
      product.RunByTiles(first, rows, cut);
    }
    ASSERT_TRUE(whole.SameBits(cut)) << product.m << "x" << product.n << "x" << product.k;
  }
}

TEST_F(GemmAmx, ErrorsAreSmallerThanThoseOfVectors) {
  for (const int64_t k : {32, 64, 256, 768}) {
    const Product product(64, 64, k, 7);
    product.Pack();
    const Floats tiles(64 * 64), vectors(64 * 64);
    product.RunByTiles(0, 64, tiles);
    GemmBlock(product.Args(vectors.get()));
    double of_tiles = 0, of_vectors = 0;
    for (int64_t i = 0; i < 64 * 64; ++i) {
      const double sum = product.At(i / 64, i % 64).first;
      of_tiles += std::pow(static_cast<double>(tiles[i]) - sum, 2);
      of_vectors += std::pow(static_cast<double>(vectors[i]) - sum, 2);
    }
    EXPECT_LT(of_tiles, of_vectors) << "K " << k;
  }
}

TEST_F(GemmAmx, AnySizeOfRowsAndColumns) {
  // Powers of two of rows and columns: of such whose thirds are subnormal, of such whose products
  // are near the smallest or the largest there are, and of zeros.
  const int powers[] = {-140, -126, -110, -100, -89, -60, -52, -45, -20, 0, 20, 60, 120};
  const auto count = static_cast<int64_t>(std::size(powers));
  const Product product(3 * count, 2 * count, 70, 3);
  for (int64_t i = 0; i < product.m; ++i) product.ScaleRow(i, std::ldexp(1.0f, powers[i / 3]));
  for (int64_t j = 0; j < product.n; ++j) product.ScaleColumn(j, std::ldexp(1.0f, powers[j / 2]));
  product.ScaleRow(5, 0.0f);
  product.ScaleColumn(7, 0.0f);
  product.Pack();
  const Floats c(product.m * product.n);
  product.RunByTiles(0, product.m, c);
  for (int64_t i = 0; i < product.m; ++i) {
    for (int64_t j = 0; j < product.n; ++j) {
      const auto [sum, size] = product.At(i, j);
      const float value = c[i * product.n + j];
      if (size > 3e38) continue;  // vectors may go beyond the largest number as well
      // Packed subnormal numbers are zeros, and so may small sums be.
      const double subnormal = powers[j / 2] <= -126 ? size : 70 * 1.2e-38;
      ASSERT_LE(std::fabs(static_cast<double>(value) - sum), 4e-7 * size + subnormal)
          << "2^" << powers[i / 3] << " times 2^" << powers[j / 2];
    }
  }
}

TEST_F(GemmAmx, RowsAndColumnsThatAreNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float largest = std::numeric_limits<float>::max();
  const Product plain(50, 100, 90, 5);
  plain.Pack();
  const Floats wanted(plain.m * plain.n);
  plain.RunByTiles(0, plain.m, wanted);
  const Product product(50, 100, 90, 5);
  product.a[3 * 90 + 40] = kInfinity;
  product.a[20 * 90 + 89] = nan;
  product.a[49 * 90] = largest;
  product.a[30 * 90 + 1] = std::bit_cast<float>(0x7fffffff);  // rounded up it is a zero
  product.b[2 * 100 + 97] = std::bit_cast<float>(0xffffffff);
  product.b[2 * 100 + 70] = -kInfinity;
  product.Pack();
  const Floats c(product.m * product.n), vectors(product.m * product.n);
  product.RunByTiles(0, product.m, c);
  GemmBlock(product.Args(vectors.get()));
  for (int64_t i = 0; i < product.m; ++i) {
    for (int64_t j = 0; j < product.n; ++j) {
      const float value = c[i * product.n + j], other = vectors[i * product.n + j];
      const bool is_plain = i != 3 && i != 20 && i != 30 && i != 49;
      if (is_plain && (j < 64 || j >= 98 || j == 96)) {
        ASSERT_EQ(value, wanted[i * product.n + j]) << i << ", " << j;
      } else if (std::isfinite(other)) {
        ASSERT_NEAR(value, other, 1e-5f + 1e-6f * std::fabs(other)) << i << ", " << j;
      } else {
        ASSERT_TRUE(value == other || (std::isnan(value) && std::isnan(other)))
            << value << " at " << i << ", " << j;
      }
    }
  }
}

// Rows in pieces, apart alike or not; sums added to what there is, and what follows them.
TEST_F(GemmAmx, PiecesAndEpilogues) {
  constexpr int64_t kPieces = 3, kRun = 30;
  const int64_t starts[kPieces] = {0, 100, 37};
  const Product product(70, 77, kPieces * kRun, 9);
  product.Pack();
  const Floats wide = Floats::Random(70 * 200, 10), bias = Floats::Random(77, 11);
  const Floats residual = Floats::Random(70 * 80, 12), before = Floats::Random(70 * 77, 13);
  for (const bool has_starts : {false, true}) {
    for (int64_t i = 0; i < product.m; ++i) {
      for (int64_t p = 0; p < product.k; ++p) {
        const int64_t start = has_starts ? starts[p / kRun] : p / kRun * 50;
        product.a[i * product.k + p] = wide[i * 200 + start + p % kRun];
      }
    }
    const Floats c(product.m * product.n);
    std::copy_n(before.get(), c.size(), c.get());
    const Floats scratch(static_cast<int64_t>(GemmAmxBytes(product.m, product.k) / sizeof(float)));
    TileEpilogue epilogue;
    epilogue.bias = bias.get();
    epilogue.residual = residual.get();
    epilogue.residual_ld = 80;
    epilogue.clamp = true;
    epilogue.lo = -0.5f;
    epilogue.hi = kInfinity;
    GemmBlockArgs args = product.Args(c.get());
    args.a = wide.get();
    args.lda = 200;
    args.a_pieces = kPieces;
    args.a_step = 50;
    args.a_starts = has_starts ? starts : nullptr;
    args.accumulate = true;
    args.epilogue = &epilogue;
    args.thirds = scratch.get();
    GemmBlock(args);
    EXPECT_TRUE(c.Intact());
    for (int64_t i = 0; i < product.m; ++i) {
      for (int64_t j = 0; j < product.n; ++j) {
        const double sum = product.At(i, j).first + before[i * product.n + j] + bias[j] +
                           static_cast<double>(residual[i * 80 + j]);
        ASSERT_NEAR(c[i * product.n + j], std::max(sum, -0.5), 2e-5) << i << ", " << j;
      }
    }
  }
}

}  // namespace
}  // namespace sardonyx
