#include "kernels/conv_typed.h"

#include <type_traits>

#include "each_target.h"

namespace sardonyx {
namespace {

template <typename T>
class ConvTypedTest : public testing::Test {};
using Types = testing::Types<double, int32_t, int64_t>;
TYPED_TEST_SUITE(ConvTypedTest, Types);

// Whole numbers, whose sums are exact in every type.
template <typename T>
std::vector<T> Whole(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(static_cast<int>(generator() % 201) - 100);
  return values;
}

template <typename T>
std::vector<T> Direct(const ConvShape& s, const std::vector<T>& x, const std::vector<T>& w) {
  std::vector<T> y(s.OutPixels() * s.y_stride, T{7});
  const int64_t channels = s.cin / s.groups, n = s.cout / s.groups, taps = s.KernelSize();
  for (int64_t pixel = 0; pixel < s.OutPixels(); ++pixel) {
    const int64_t at[3] = {pixel / (s.out[1] * s.out[2]) % s.out[0], pixel / s.out[2] % s.out[1],
                           pixel % s.out[2]};
    const int64_t item = pixel / (s.out[0] * s.out[1] * s.out[2]);
    for (int64_t co = 0; co < s.cout; ++co) {
      double sum = 0;
      for (int64_t t = 0; t < taps; ++t) {
        const int64_t k[3] = {t / (s.kernel[1] * s.kernel[2]), t / s.kernel[2] % s.kernel[1],
                              t % s.kernel[2]};
        int64_t place = item;
        bool inside = true;
        for (int i = 0; i < 3; ++i) {
          const int64_t p = at[i] * s.stride[i] + k[i] * s.dilation[i] - s.pad_begin[i];
          inside &= p >= 0 && p < s.in[i];
          place = place * s.in[i] + p;
        }
        for (int64_t c = 0; inside && c < channels; ++c) {
          sum += static_cast<double>(x[place * s.x_stride + co / n * channels + c]) *
                 static_cast<double>(w[(co * channels + c) * taps + t]);
        }
      }
      y[pixel * s.y_stride + co] = static_cast<T>(sum);
    }
  }
  return y;
}

TYPED_TEST(ConvTypedTest, AgreesWithLoops) {
  using T = TypeParam;
  const DType type = std::is_same_v<T, double>    ? DType::kFloat64
                     : std::is_same_v<T, int32_t> ? DType::kInt32
                                                  : DType::kInt64;
  const ConvShape shapes[] = {
      {.batch = 2, .in = {1, 9, 7}, .cin = 5, .out = {1, 9, 7}, .cout = 19},
      {.batch = 1, .in = {1, 6, 5}, .cin = 12, .out = {1, 6, 5}, .cout = 40, .groups = 2},
      {.batch = 2,
       .in = {1, 17, 30},
       .cin = 7,
       .out = {1, 17, 30},
       .cout = 33,
       .kernel = {1, 3, 3},
       .pad_begin = {0, 1, 1}},
      {.batch = 1,
       .in = {1, 31, 29},
       .cin = 3,
       .out = {1, 14, 13},
       .cout = 8,
       .kernel = {1, 5, 5},
       .stride = {1, 2, 2},
       .pad_begin = {0, 1, 0}},
      {.batch = 1,
       .in = {1, 1, 900},
       .cin = 24,
       .out = {1, 1, 892},
       .cout = 20,
       .kernel = {1, 1, 5},
       .dilation = {1, 1, 2}},
      {.batch = 1,
       .in = {1, 20, 20},
       .cin = 16,
       .out = {1, 20, 20},
       .cout = 16,
       .kernel = {1, 3, 3},
       .pad_begin = {0, 1, 1},
       .groups = 16},
      {.batch = 1,
       .in = {5, 6, 7},
       .cin = 6,
       .out = {4, 4, 7},
       .cout = 9,
       .kernel = {2, 3, 3},
       .pad_begin = {0, 0, 1},
       .groups = 3},
  };
  ForEachTarget([&] {
    for (ConvShape s : shapes) {
      for (const int64_t wider : {0, 3}) {
        s.x_stride = s.cin + wider;
        s.y_stride = s.cout + wider;
        const auto x = Whole<T>(s.InPixels() * s.x_stride, 1);
        const auto w = Whole<T>(s.cout * s.cin / s.groups * s.KernelSize(), 2);
        auto turned = w;
        std::vector<double> packed(ConvTypedPackedBytes(type, s) / 8 + 8);
        for (const Parallel& par : {OneThread(), TwoThreads()}) {
          Floats scratch(static_cast<int64_t>(ConvTypedScratchBytes(type, s, par.threads) / 4));
          ConvTypedPack(type, s, w.data(), turned.data(), packed.data(), par);
          std::vector<T> y(s.OutPixels() * s.y_stride, T{7});
          ConvTyped(type, s, x.data(), packed.data(), y.data(), scratch.get(), par);
          EXPECT_EQ(y, Direct(s, x, w)) << s.out[1] << "x" << s.out[2] << " " << par.threads;
          EXPECT_TRUE(scratch.Intact());
        }
      }
    }
  });
}

}  // namespace
}  // namespace sardonyx
