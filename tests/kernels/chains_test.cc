// Long sums of terms of one sign: one chain of additions would be off by more than a few of the
// result's last bits.

#include "kernels/chains.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "conv_shape.h"
#include "each_target.h"
#include "kernels/conv_planes.h"
#include "kernels/gemm.h"
#include "kernels/pool.h"
#include "kernels/pool_planes.h"

namespace sardonyx {
namespace {

constexpr double kMost = 1e-6;  // of the sum

Floats Positive(int64_t count, uint32_t seed) {
  Floats values = Floats::Random(count, seed);
  for (int64_t i = 0; i < count; ++i) values[i] = std::abs(values[i]);
  return values;
}

// `expected(i)` in double is what result i is to be.
template <typename Expected>
void ExpectClose(const Floats& results, Expected&& expected) {
  for (int64_t i = 0; i < results.size(); ++i) {
    const double sum = expected(i);
    ASSERT_NEAR(results[i], sum, kMost * sum) << "result " << i;
  }
}

// No padding: strides and dilations of 1.
void CheckConv(int64_t channels, int64_t groups, const std::vector<Axis>& axes) {
  const ConvShape s = Shape(1, channels, channels, axes, groups);
  const int64_t group = channels / groups, taps = s.KernelSize(), pixels = s.OutPixels();
  const Floats x = Positive(s.InPixels() * channels, 1), w = Positive(channels * group * taps, 2);
  const auto input = [&](int64_t pixel, int64_t tap) {  // the pixel of it
    const int64_t row = pixel / s.out[2] % s.out[1] + tap / s.kernel[2] % s.kernel[1];
    const int64_t plane = pixel / (s.out[1] * s.out[2]) + tap / (s.kernel[1] * s.kernel[2]);
    return (plane * s.in[1] + row) * s.in[2] + pixel % s.out[2] + tap % s.kernel[2];
  };
  std::vector<double> sums;
  for (int64_t i = 0; i < pixels * channels; ++i) {
    const int64_t c = i % channels;
    double sum = 0;
    for (int64_t k = 0; k < group * taps; ++k) {
      const int64_t from = input(i / channels, k % taps) * channels + c / group * group + k / taps;
      sum += static_cast<double>(x[from]) * w[c * group * taps + k];
    }
    sums.push_back(sum);
  }
  ForEachTarget([&] {
    for (int a = 0; a < kConvAlgorithmCount; ++a) {
      const auto algorithm = static_cast<ConvAlgorithm>(a);
      if (!ConvRefusal(algorithm, s).empty() || IsWinograd(algorithm)) continue;
      SCOPED_TRACE(std::string(Name(algorithm)) + " of " + std::to_string(taps) + " taps, groups " +
                   std::to_string(groups));
      const Floats packed(static_cast<int64_t>(ConvPackedBytes(algorithm, s) / sizeof(float)));
      const Floats scratch(static_cast<int64_t>(ConvScratchBytes(algorithm, s, 2) / sizeof(float)));
      ConvPack(algorithm, s, {w.get(), 0, s.cout}, packed.get(), TwoThreads());
      const Floats y(pixels * channels);
      Conv(algorithm, s, x.get(), packed.get(), y.get(), {}, scratch.get(), TwoThreads());
      ExpectClose(y, [&](int64_t i) { return sums[i]; });
    }
    if (!ConvPlanesRefusal(s).empty()) return;
    SCOPED_TRACE("planes");
    Floats planes(x.size());
    for (int64_t i = 0; i < x.size(); ++i) {
      planes[i % channels * s.InPixels() + i / channels] = x[i];
    }
    const Floats y(pixels * channels);
    ConvPlanes(s, planes.get(), w.get(), y.get(), {}, TwoThreads());
    ExpectClose(y, [&](int64_t i) { return sums[i % pixels * channels + i / pixels]; });
  });
}

TEST(Chains, Windows) {
  CheckConv(20, 20, {{66, 63}, {70, 65}});
  CheckConv(21, 21, {{64, 61}, {70, 63}});
  CheckConv(37, 37, {{4100, 4096}});
  CheckConv(17, 17, {{14, 13}, {19, 15}, {22, 21}});
  CheckConv(24, 12, {{46, 44}, {50, 44}});
  CheckConv(24, 6, {{46, 44}, {50, 44}});
  CheckConv(6, 1, {{46, 44}, {50, 44}});
}

TEST(Chains, Products) {
  for (const int64_t m : {1, 2, 3, 4, 6, 30}) {
    for (const int64_t n : {1, 3, 7, 16, 45, 110, 300, 5000}) {
      for (const bool transposed : {false, true}) {
        if (m * n > 20000) continue;
        // Sanitizers hold an allocation for an error from 128 MiB on.
        const int64_t depth = n < 5000 ? 9001 : 6001;
        SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(n) +
                     (transposed ? " transposed" : ""));
        GemmShape s;
        s.m = m;
        s.n = n;
        s.k = s.lda = depth;
        s.ldc = n;
        s.ldb = transposed ? depth : n;
        s.b_transposed = transposed;
        const Floats a = Positive(m * depth, 1), b = Positive(n * depth, 2);
        std::vector<double> sums;
        for (int64_t i = 0; i < m * n; ++i) {
          double sum = 0;
          for (int64_t k = 0; k < depth; ++k) {
            const int64_t from = transposed ? i % n * depth + k : k * n + i % n;
            sum += static_cast<double>(a[i / n * depth + k]) * b[from];
          }
          sums.push_back(sum);
        }
        ForEachTarget([&] {
          for (const bool packs : {false, true}) {
            const Floats packed(static_cast<int64_t>(GemmPackedBytes(depth, n) / sizeof(float)));
            GemmPackB(depth, n, b.get(), s.ldb, transposed, packed.get(), TwoThreads());
            const Floats scratch(
                static_cast<int64_t>(GemmScratchBytes(s, packs, 2) / sizeof(float)));
            const Floats c(m * n);
            Gemm(s, a.get(), packs ? nullptr : b.get(), packs ? packed.get() : nullptr, c.get(), {},
                 scratch.get(), TwoThreads());
            ExpectClose(c, [&](int64_t i) { return sums[i]; });
          }
        });
      }
    }
  }
}

TEST(Chains, Averages) {
  for (const int64_t channels : {5, 16, 70}) {
    for (const int axis : {1, 2}) {
      PoolShape s;
      s.channels = channels;
      s.in[axis] = 9010;
      s.kernel[axis] = 9001;
      s.out[axis] = 10;
      const Floats x = Positive(s.in[axis] * channels, 1);
      ForEachTarget([&] {
        const Floats y(s.out[axis] * channels);
        AveragePool(s, x.get(), y.get(), false, TwoThreads());
        ExpectClose(y, [&](int64_t i) {
          double sum = 0;
          for (int64_t k = 0; k < s.kernel[axis]; ++k) sum += x[i + k * channels];
          return sum / static_cast<double>(s.kernel[axis]);
        });
      });
    }
  }
}

TEST(Chains, AveragesOfPlanes) {
  for (const int64_t width : {1, 7, 70}) {
    PoolShape s;
    s.channels = 1;
    s.batch = 2;
    s.in[1] = 9010, s.in[2] = width;
    s.kernel[1] = 9001;
    s.out[1] = 10, s.out[2] = width;
    const Floats x = Positive(s.batch * s.in[1] * width, 1);
    ForEachTarget([&] {
      const Floats y(s.batch * s.out[1] * width);
      PoolPlanes(s, PlanePool::kAverage, DType::kFloat32, x.get(), y.get(), TwoThreads());
      ExpectClose(y, [&](int64_t i) {
        const int64_t image = i / (s.out[1] * width),
                      first = i + image * (s.in[1] - s.out[1]) * width;
        double sum = 0;
        for (int64_t k = 0; k < s.kernel[1]; ++k) sum += x[first + k * width];
        return sum / static_cast<double>(s.kernel[1]);
      });
    });
  }
}

}  // namespace
}  // namespace sardonyx
