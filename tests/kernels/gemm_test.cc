#include "kernels/gemm.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "base/round.h"
#include "each_target.h"
#include "kernels/elementwise.h"
#include "kernels/gemm_block.h"

namespace sardonyx {
namespace {

struct Case {
  int64_t m, n, k;
  bool a_transposed = false, b_transposed = false;
  int64_t batch[2] = {1, 1};
  bool shared_b = false;
  int64_t lda_extra = 0;
  std::string expression = {};  // inputs: accumulated, bias, residual
};

std::string Text(const Case& c) {
  return std::to_string(c.m) + "x" + std::to_string(c.n) + "x" + std::to_string(c.k) +
         (c.a_transposed ? " A'" : "") + (c.b_transposed ? " B'" : "") + " batch " +
         std::to_string(c.batch[0]) + "x" + std::to_string(c.batch[1]) + " " + c.expression;
}

// Behind a bias; as they are activations, tiles may apply them to their sums.
const std::string kSwish = "(float, float) add(0,1):float sigmoid(2):float mul(2,3):float";
const std::string kGelu =
    "(float, float; 1.4142135:float, 1:float, 0.5:float) add(0,1):float div(5,2):float "
    "erf(6):float add(7,3):float mul(5,8):float mul(9,4):float";
const std::string kGeluTanh =
    "(float, float; 0.044715:float, 0.7978845608:float, 1:float, 0.5:float) add(0,1):float "
    "mul(6,6):float mul(7,6):float mul(8,2):float add(6,9):float mul(10,3):float tanh(11):float "
    "add(12,4):float mul(6,5):float mul(14,13):float";
std::string ScaledHardSwish(const std::string& scale) {
  return "(float, float; 3:float, 0:float, 6:float, " + scale +
         ":float, -0.25:float) add(0,1):float add(7,2):float max(8,3):float min(9,4):float "
         "mul(7,10):float div(11,4):float mul(12,5):float add(13,6):float";
}
const std::string kHardSwish = ScaledHardSwish("1.5"), kHardSwishDown = ScaledHardSwish("-1.5");

// The same in float64; the expression is known by its text alone.
double Finish(const std::string& expression, double value, double bias, double residual) {
  if (expression.empty()) return value;
  value += bias;
  if (expression == kSwish) return value / (1 + std::exp(-value));
  if (expression == kGelu) return value / 2 * (1 + std::erf(value * std::sqrt(0.5)));
  if (expression == kGeluTanh) {
    return value / 2 * (1 + std::tanh(0.7978845608 * (value + 0.044715 * value * value * value)));
  }
  if (expression == kHardSwish || expression == kHardSwishDown) {
    const double scale = expression == kHardSwish ? 1.5 : -1.5;
    return value * std::clamp(value / 6 + 0.5, 0.0, 1.0) * scale - 0.25;
  }
  if (expression.find("tanh") != std::string::npos) return std::tanh(value);
  if (expression.find("(float, float, float") == 0) value += residual;
  return expression.find("relu") != std::string::npos ? std::max(0.0, value) : value;
}

GemmShape ShapeOf(const Case& test) {
  GemmShape s;
  s.m = test.m;
  s.n = test.n;
  s.k = test.k;
  s.a_transposed = test.a_transposed;
  s.b_transposed = test.b_transposed;
  s.batch[0] = test.batch[0];
  s.batch[1] = test.batch[1];
  s.lda = (s.a_transposed ? s.m : s.k) + test.lda_extra;
  s.ldb = (s.b_transposed ? s.k : s.n) + 2;
  s.ldc = s.n + 3;
  // The second dimension of the batch is the outer one in memory here.
  s.a_stride[0] = (s.a_transposed ? s.k : s.m) * s.lda;
  s.a_stride[1] = s.batch[0] * s.a_stride[0];
  s.c_stride[0] = s.m * s.ldc;
  s.c_stride[1] = s.batch[0] * s.c_stride[0];
  if (!test.shared_b) {
    s.b_stride[0] = (s.b_transposed ? s.n : s.k) * s.ldb;
    s.b_stride[1] = s.batch[0] * s.b_stride[0];
  }
  return s;
}

// All matrices of the batch against a float64 loop, and the columns beyond each row untouched.
void ExpectProducts(const Case& test, const GemmShape& s, const Floats& a, const Floats& b,
                    const Floats& bias, const Floats& residual, const Floats& c) {
  const double rounding = test.expression.find("bfloat16") == std::string::npos ? 0 : 0.004;
  for (int64_t item = 0; item < s.batch[0] * s.batch[1]; ++item) {
    const int64_t p = item % s.batch[0], q = item / s.batch[0];
    const float* ai = a.get() + p * s.a_stride[0] + q * s.a_stride[1];
    const float* bi = b.get() + p * s.b_stride[0] + q * s.b_stride[1];
    const float* ci = c.get() + p * s.c_stride[0] + q * s.c_stride[1];
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = 0, size = 0;
        for (int64_t k = 0; k < s.k; ++k) {
          const double product =
              static_cast<double>(s.a_transposed ? ai[k * s.lda + i] : ai[i * s.lda + k]) *
              static_cast<double>(s.b_transposed ? bi[j * s.ldb + k] : bi[k * s.ldb + j]);
          sum += product;
          size += std::fabs(product);
        }
        const double wanted =
            Finish(test.expression, sum, bias[j], residual[(item * s.m + i) * (s.n + 1) + j]);
        ASSERT_NEAR(ci[i * s.ldc + j], wanted, 1e-6 + 4e-7 * size + rounding * std::fabs(sum))
            << "item " << item << " at " << i << ", " << j;
      }
      for (int64_t j = s.n; j < s.ldc; ++j) {
        ASSERT_TRUE(std::isnan(ci[i * s.ldc + j])) << "wrote beyond row " << i;
      }
    }
  }
}

void Check(const Case& test, bool packed) {
  SCOPED_TRACE(Text(test) + (packed ? " packed" : ""));
  const GemmShape s = ShapeOf(test);
  const int64_t items = s.batch[0] * s.batch[1];
  const int64_t a_size = s.a_stride[0];
  const int64_t b_size = (s.b_transposed ? s.n : s.k) * s.ldb;
  const Floats a = Floats::Random(items * a_size, 1);
  const Floats b = Floats::Random(items * b_size, 2);
  const Floats bias = Floats::Random(s.n, 3);
  const Floats residual = Floats::Random(items * s.m * (s.n + 1), 4);

  Expression expression;
  EpilogueOperand operands[2];
  Epilogue epilogue;
  if (!test.expression.empty()) {
    expression = Expression::Parse(test.expression);
    operands[0] = {bias.get(), DType::kFloat32, 0, 1, {0, 0}};
    operands[1] = {residual.get(),
                   DType::kFloat32,
                   s.n + 1,
                   1,
                   {s.m * (s.n + 1), s.batch[0] * s.m * (s.n + 1)}};
    epilogue = {&expression, operands};
  }

  Floats packed_b(0);
  GemmShape run = s;
  const int64_t matrices = test.shared_b ? 1 : items;
  const auto packed_size = static_cast<int64_t>(GemmPackedBytes(s.k, s.n) / sizeof(float));
  Floats packed_all(packed ? matrices * packed_size : 0);
  if (packed) {
    for (int64_t i = 0; i < matrices; ++i) {
      GemmPackB(s.k, s.n, b.get() + i * b_size, s.ldb, s.b_transposed,
                packed_all.get() + i * packed_size, TwoThreads());
    }
    if (!test.shared_b) {
      run.b_stride[0] = packed_size;
      run.b_stride[1] = s.batch[0] * packed_size;
    }
    ASSERT_TRUE(packed_all.Intact());
  }

  const Floats c(items * s.m * s.ldc), c2(items * s.m * s.ldc), c9(items * s.m * s.ldc);
  for (const Parallel& par : {OneThread(), TwoThreads(), ManyThreads()}) {
    const Floats& to = par.threads == 1 ? c : par.threads == 2 ? c2 : c9;
    const Floats scratch(static_cast<int64_t>(GemmScratchBytes(run, packed, par.threads) / 4));
    Gemm(run, a.get(), packed ? nullptr : b.get(), packed ? packed_all.get() : nullptr, to.get(),
         epilogue, scratch.get(), par);
    ASSERT_TRUE(scratch.Intact());
  }
  EXPECT_TRUE(c.Intact());
  EXPECT_TRUE(c.SameBits(c2)) << "differs between one and two threads";
  EXPECT_TRUE(c.SameBits(c9)) << "differs between one and many threads";
  ExpectProducts(test, s, a, b, bias, residual, c);
}

void CheckAll(const Case& test) {
  const auto check = [&] {
    Check(test, true);
    if (!testing::Test::HasFatalFailure()) Check(test, false);
  };
  ForEachTarget(check);
  for (const int processors : {2, 32}) ForProcessors(processors, check);
}

TEST(Gemm, EveryRemainderOfRows) {
  for (int64_t m = 1; m <= 30; ++m) {
    for (const int64_t n : {35, 53}) CheckAll({m, n, 17});  // 3 and 21 columns in the last panel
  }
}

TEST(Gemm, EveryRemainderOfColumns) {
  for (int64_t n = 1; n <= 66; ++n) CheckAll({15, n, 9});
}

TEST(Gemm, SmallDepths) {
  for (int64_t k = 0; k <= 9; ++k) {
    CheckAll({1, 33, k});
    CheckAll({20, 40, k});
  }
}

TEST(Gemm, BlocksOfRowsAreSummedAsTheWhole) {
  ForEachTarget([] {
    for (const auto& [n, k] : {std::pair{8, 70}, {16, 30}, {24, 70}, {40, 70}, {61, 600}}) {
      const Floats a = Floats::Random(60 * k, 1), b = Floats::Random(int64_t{k} * n, 2);
      const Floats packed(static_cast<int64_t>(GemmPackedBytes(k, n) / sizeof(float)));
      GemmPackB(k, n, b.get(), n, false, packed.get(), OneThread());
      const Floats whole(60 * n), cut(60 * n);
      const auto run = [&](int64_t first, int64_t rows, const Floats& c) {
        GemmBlockArgs args{};
        args.a = a.get() + first * k;
        args.b = packed.get();
        args.lda = args.k_total = args.kc = k;
        args.n_total = args.n1 = args.ldc = n;
        args.is_all = n <= GemmPanelWidth();
        args.rows = rows;
        args.c = c.get() + first * n;
        GemmBlock(args);
      };
      for (int64_t rows = 2 * kLeastRows; rows <= 60; ++rows) {
        run(60 - rows, rows, whole);
        for (int64_t first = kLeastRows; first <= rows - kLeastRows; ++first) {
          run(60 - rows, first, cut);
          run(60 - rows + first, rows - first, cut);
          const size_t bytes = static_cast<size_t>(rows * n) * sizeof(float);
          const int64_t from = (60 - rows) * n;
          ASSERT_EQ(std::memcmp(whole.get() + from, cut.get() + from, bytes), 0)
              << n << " columns, " << k << " products, " << rows << " rows, " << first << " first";
        }
      }
    }
  });
}

TEST(Gemm, Transposed) {
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      for (const int64_t m : {1, 3, 13, 50}) CheckAll({m, 45, 37, a, b});
    }
  }
}

TEST(Gemm, DeepEnoughForSeveralRanges) {
  CheckAll({37, 70, 1500});
  CheckAll({37, 70, 1500, true, true});
  CheckAll({5, 300, 1300});
  // Few rows, panel after panel.
  const std::string sum = "(float, float, float) add(0,1):float add(3,2):float relu(4):float";
  CheckAll({16, 100, 850, false, false, {1, 1}, false, 0, sum});
  CheckAll({64, 61, 2048, false, true, {1, 1}, false, 0, sum});
  CheckAll({96, 130, 1025, false, false, {2, 1}, true, 0, sum});
  CheckAll(
      {23, 40, 3000, true, false, {1, 2}, false, 0, "(float, float) add(0,1):float tanh(2):float"});
}

// Their splits are ranges of K, of long sums in several chains.
TEST(Gemm, FewRowsOfLongSums) {
  for (const int64_t m : {1, 2, 3}) {
    for (const int64_t k : {255, 256, 259, 1027, 2500, 4099}) CheckAll({m, 61, k});
    CheckAll({m, 24, 1100, true, true});
  }
}

TEST(Gemm, LargeEnoughForManyTasks) {
  CheckAll({300, 260, 130});
  CheckAll({30, 700, 300});
  CheckAll({1, 3000, 300});
  CheckAll({2, 3000, 300, false, true});
}

// By matrix tiles a task keeps what it has made of its rows for the next one, of other columns.
TEST(Gemm, PartsOfColumnsOfTheSameRows) {
  CheckAll({100, 1600, 160});
  CheckAll({300, 900, 160});
  CheckAll({64, 500, 200, false, false, {3, 2}});
  CheckAll({64, 800, 200, true, true, {2, 1}, true});
}

TEST(Gemm, RowsAPageApart) {
  CheckAll({40, 600, 1024});
  CheckAll({40, 20, 1024});
  for (const int64_t m : {5, 9, 15, 16, 23, 100}) CheckAll({m, 37, 2048});
  CheckAll({40, 20, 24, false, false, {2, 3}, false, 1000});
}

TEST(Gemm, Batches) {
  for (const bool shared : {false, true}) {
    for (const bool b_transposed : {false, true}) {
      CheckAll({33, 30, 20, false, b_transposed, {2, 3}, shared});
      CheckAll({2, 30, 20, true, b_transposed, {2, 3}, shared});
      CheckAll({90, 100, 64, true, b_transposed, {3, 4}, shared});
    }
  }
  CheckAll({3, 4, 5, false, false, {17, 40}});
}

// In one chain of K products each is rounded to the size of the sum before it: the error would
// grow with the root of K, also beside the sum.
TEST(Gemm, LongSumsStayExact) {
  for (const auto& [m, k] :
       {std::pair{40, 768}, {40, 800}, {40, 3000}, {1, 3000}, {1, 9000}, {2, 3000}, {3, 3000}}) {
    GemmShape s;
    s.m = m;
    s.n = m < 40 ? 700 : 50;
    s.k = s.lda = k;
    s.ldb = s.ldc = s.n;
    const Floats a = Floats::Random(s.m * k, 1), b = Floats::Random(k * s.n, 2), c(s.m * s.n);
    ForEachTarget([&] {
      const Floats packed(static_cast<int64_t>(GemmPackedBytes(k, s.n) / 4));
      GemmPackB(k, s.n, b.get(), s.n, false, packed.get(), OneThread());
      const Floats scratch(static_cast<int64_t>(GemmScratchBytes(s, true, 1) / 4));
      Gemm(s, a.get(), nullptr, packed.get(), c.get(), {}, scratch.get(), OneThread());
      double errors = 0, squares = 0;
      for (int64_t i = 0; i < s.m * s.n; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < k; ++j) {
          sum +=
              static_cast<double>(a[i / s.n * k + j]) * static_cast<double>(b[j * s.n + i % s.n]);
        }
        errors += (c[i] - sum) * (c[i] - sum);
        squares += sum * sum;
      }
      EXPECT_LT(std::sqrt(errors / squares), 4e-7) << m << " rows, sums of " << k;
    });
  }
}

TEST(Gemm, Epilogues) {
  const std::string bias = "(float, float) add(0,1):float";
  const std::string bias_relu = "(float, float) add(0,1):float relu(2):float";
  const std::string residual = "(float, float, float) add(0,1):float add(3,2):float relu(4):float";
  const std::string interpreted = "(float, float) add(0,1):float tanh(2):float";
  const std::string rounded_first = "(float, float) cast(0):bfloat16 cast(2):float add(3,1):float";
  for (const std::string& text : {kSwish, kGelu, kGeluTanh, kHardSwish, kHardSwishDown}) {
    SimpleEpilogue simple;
    ASSERT_TRUE(MatchSimpleEpilogue(Expression::Parse(text), &simple)) << text;
    ASSERT_NE(simple.activation.kind, Activation::Kind::kNone) << text;
  }
  for (const std::string& text : {bias, bias_relu, residual, interpreted, rounded_first, kSwish,
                                  kGelu, kGeluTanh, kHardSwish, kHardSwishDown}) {
    for (const int64_t n : {8, 21, 64, 83}) {
      CheckAll({31, n, 20, false, false, {1, 1}, false, 0, text});
      CheckAll({2, n, 20, false, false, {2, 1}, false, 0, text});
      CheckAll({16, n, 0, false, false, {1, 1}, false, 0, text});
    }
    CheckAll({150, 130, 700, false, false, {1, 2}, false, 0, text});
    // Matrix tiles sum halves of K apart, the last of several ranges.
    CheckAll({49, 83, 960, false, false, {1, 1}, false, 0, text});
    CheckAll({50, 64, 1700, true, true, {1, 1}, false, 0, text});
  }
}

TEST(Gemm, PacksSomeRowsAtATime) {
  ForEachTarget([] {
    for (const int64_t n : {1, 31, 100, 3000}) {
      const int64_t k = 37, ldb = n + 3;
      const Floats b = Floats::Random(k * ldb, 1);
      const auto bytes = static_cast<int64_t>(GemmPackedBytes(k, n));
      const Floats whole(bytes / 4), parts(bytes / 4);
      GemmPackB(k, n, b.get(), ldb, false, whole.get(), OneThread());
      for (const int64_t first : {0, 5, 30}) {
        const int64_t count = first == 0 ? 5 : first == 5 ? 25 : 7;
        GemmPackRows(k, n, first, count, b.get() + first * ldb, ldb, parts.get(), OneThread());
      }
      const auto filled = static_cast<size_t>(k * RoundUp(n, 8) * 4);
      EXPECT_EQ(std::memcmp(whole.get(), parts.get(), filled), 0) << n;
    }
  });
}

// A softmax behind large sums would choose among columns that are summed in different orders.
TEST(Gemm, EqualColumnsGiveEqualSums) {
  ForEachTarget([] {
    for (const int64_t n : {8, 21, 24, 33, 40, 56, 1000}) {
      for (const auto& [m, k] :
           {std::pair{23, 67}, {1, 67}, {1, 300}, {1, 600}, {2, 200}, {3, 300}}) {
        GemmShape s;
        s.m = m;
        s.k = s.lda = k;
        s.n = s.ldb = s.ldc = n;
        const Floats a = Floats::Random(s.m * s.k, 1), column = Floats::Random(s.k, 2), c(s.m * n);
        const Floats b(s.k * n), packed(static_cast<int64_t>(GemmPackedBytes(s.k, n) / 4));
        for (int64_t i = 0; i < s.k; ++i) std::fill_n(b.get() + i * n, n, column[i]);
        GemmPackB(s.k, n, b.get(), n, false, packed.get(), OneThread());
        const Floats scratch(static_cast<int64_t>(GemmScratchBytes(s, true, 1) / 4));
        Gemm(s, a.get(), nullptr, packed.get(), c.get(), {}, scratch.get(), OneThread());
        for (int64_t i = 0; i < s.m * n; ++i) {
          ASSERT_EQ(c[i], c[i / n * n]) << n << " columns of " << k << ", row " << i / n;
        }
      }
    }
  });
}

TEST(Gemm, NotANumberPassesThroughClamp) {
  ForEachTarget([] {
    GemmShape s;
    s.m = s.n = s.k = s.lda = s.ldb = s.ldc = 8;
    const Floats a = Floats::Random(64, 1), b = Floats::Random(64, 2), c(64);
    a[3] = std::numeric_limits<float>::quiet_NaN();
    const Floats packed(static_cast<int64_t>(GemmPackedBytes(8, 8) / 4));
    GemmPackB(8, 8, b.get(), 8, false, packed.get(), OneThread());
    const Expression relu = Expression::Parse("(float) relu(0):float");
    Gemm(s, a.get(), nullptr, packed.get(), c.get(), {&relu, nullptr}, nullptr, OneThread());
    for (int64_t j = 0; j < 8; ++j) {
      EXPECT_TRUE(std::isnan(c[j]));
      EXPECT_GE(c[8 + j], 0.0f);
    }
  });
}

}  // namespace
}  // namespace sardonyx
