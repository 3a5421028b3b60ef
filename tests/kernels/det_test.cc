#include "kernels/det.h"

#include <cmath>
#include <numeric>

#include "each_target.h"

namespace sardonyx {
namespace {

double Plain(std::vector<double> a, int64_t n) {
  double product = 1;
  for (int64_t i = 0; i < n; ++i) {
    int64_t pivot = i;
    for (int64_t r = i; r < n; ++r) {
      if (std::abs(a[r * n + i]) > std::abs(a[pivot * n + i])) pivot = r;
    }
    if (a[pivot * n + i] == 0) return 0;
    if (pivot != i) {
      std::swap_ranges(a.begin() + i * n, a.begin() + (i + 1) * n, a.begin() + pivot * n);
      product = -product;
    }
    product *= a[i * n + i];
    for (int64_t r = i + 1; r < n; ++r) {
      const double f = a[r * n + i] / a[i * n + i];
      for (int64_t k = i; k < n; ++k) a[r * n + k] -= f * a[i * n + k];
    }
  }
  return product;
}

TEST(Det, Sizes) {
  for (int64_t n : {1, 2, 3, 5, 8, 9, 17, 40}) {
    const int64_t count = n < 5 ? 3000 : 7;
    const Floats x = Floats::Random(count * n * n, 1);
    if (n > 1) std::copy(x.get(), x.get() + n, x.get() + n);  // the first matrix is singular
    ForEachTarget([&] {
      std::vector<Floats> results;
      for (const Parallel& par : {OneThread(), TwoThreads()}) {
        Floats y(count), scratch(DeterminantsScratchBytes(count, n, par.threads) / 4);
        Determinants(x.get(), count, n, y.get(), scratch.get(), par);
        ASSERT_TRUE(y.Intact() && scratch.Intact());
        for (int64_t i = 0; i < count; ++i) {
          const double expected = Plain({x.get() + i * n * n, x.get() + (i + 1) * n * n}, n);
          ASSERT_NEAR(y[i], expected, 1e-6 * std::max(1.0, std::abs(expected)));
        }
        results.push_back(std::move(y));
      }
      ASSERT_TRUE(results[0].SameBits(results[1]));
    });
  }
}

TEST(Inverse, TimesTheMatrixIsTheIdentity) {
  for (int64_t n : {1, 2, 3, 5, 8, 17, 24, 40, 65}) {
    const int64_t count = n < 5 ? 1001 : 11;
    const Floats noise = Floats::Random(count * n * n, 3);
    std::vector<double> x(noise.get(), noise.get() + noise.size());
    for (int64_t i = 0; i < count * n; ++i) {  // heavy, but off the diagonal: rows are exchanged
      x[i * n + (i % n * 3 + 1) % n] += n % 3 == 0 ? 0.0 : 3.0;
      x[i * n + (i + 1) % n] += n % 3 == 0 ? 4.0 : 0.0;
    }
    ForEachTarget([&] {
      std::vector<std::vector<double>> results;
      for (const Parallel& par : {OneThread(), TwoThreads()}) {
        std::vector<double> y(x.size());
        Floats scratch(InversesScratchBytes(count, n, par.threads) / 4);
        Inverses(x.data(), count, n, y.data(), scratch.get(), par);
        ASSERT_TRUE(scratch.Intact());
        for (int64_t i = 0; i < count * n * n; ++i) {
          const int64_t matrix = i / (n * n) * n * n, row = i / n % n, column = i % n;
          double sum = 0;
          for (int64_t k = 0; k < n; ++k) {
            sum += x[matrix + row * n + k] * y[matrix + k * n + column];
          }
          ASSERT_NEAR(sum, row == column ? 1 : 0, 1e-8) << n << " at " << i;
        }
        results.push_back(std::move(y));
      }
      ASSERT_EQ(results[0], results[1]);
    });
  }
}

}  // namespace
}  // namespace sardonyx
