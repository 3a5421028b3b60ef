// Results that are rounded to a 16-bit type before they are stored: the same as rounding
// afterwards.

#include "base/dtype.h"
#include "each_target.h"
#include "kernels/conv.h"
#include "kernels/gemm.h"

namespace sardonyx {
namespace {

float Rounded(DType to, float value) {
  return to == DType::kFloat16 ? HalfToFloat(FloatToHalf(value))
                               : BFloat16ToFloat(FloatToBFloat16(value));
}

Expression RoundingTo(DType to) {
  return Expression::Parse(to == DType::kFloat16 ? "(float) cast(0):float16 cast(1):float"
                                                 : "(float) cast(0):bfloat16 cast(1):float");
}

void ExpectRounded(DType to, const Floats& plain, const Floats& rounded, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_EQ(Rounded(to, plain[i]), rounded[i]) << "element " << i << " of " << plain[i];
  }
}

constexpr DType kTypes[] = {DType::kFloat16, DType::kBFloat16};

TEST(RoundingTest, ProductsOfAllMagnitudes) {
  ForEachTarget([] {
    for (const DType type : kTypes) {
      GemmShape s;
      s.m = 17;
      s.n = 45;
      s.k = 5;
      s.lda = s.k;
      s.ldb = s.ldc = s.n;
      const Floats a = Floats::Random(s.m * s.k, 1), b = Floats::Random(s.k * s.n, 2);
      // From what is zero as a half to what overflows.
      for (int64_t i = 0; i < s.m; ++i) {
        for (int64_t k = 0; k < s.k; ++k)
          a[i * s.k + k] *= std::ldexp(1.0f, static_cast<int>(3 * i - 28));
      }
      Floats plain(s.m * s.n), rounded(s.m * s.n);
      Floats scratch(static_cast<int64_t>(GemmScratchBytes(s, false, 1) / 4));
      Gemm(s, a.get(), b.get(), nullptr, plain.get(), {}, scratch.get(), OneThread());
      const Expression expression = RoundingTo(type);
      Gemm(s, a.get(), b.get(), nullptr, rounded.get(), {&expression, nullptr}, scratch.get(),
           OneThread());
      ExpectRounded(type, plain, rounded, s.m * s.n);
    }
  });
}

TEST(RoundingTest, Convolutions) {
  ForEachTarget([] {
    for (const DType type : kTypes) {
      for (int i = 0; i < kConvAlgorithmCount; ++i) {
        const auto algorithm = static_cast<ConvAlgorithm>(i);
        ConvShape s;
        s.in[1] = s.out[1] = 9;
        s.in[2] = s.out[2] = 11;
        s.kernel[1] = s.kernel[2] = 3;
        s.pad_begin[1] = s.pad_begin[2] = 1;
        s.cin = s.cout = s.x_stride = s.y_stride = 37;
        if (algorithm == ConvAlgorithm::kDepthwise) s.groups = s.cin;
        if (!ConvRefusal(algorithm, s).empty()) continue;
        const int64_t count = s.OutPixels() * s.cout;
        const Floats x = Floats::Random(s.InPixels() * s.cin, 1);
        const Floats w = Floats::Random(s.cout * (s.cin / s.groups) * 9, 2);
        Floats packed(static_cast<int64_t>(ConvPackedBytes(algorithm, s) / 4));
        ConvPack(algorithm, s, {w.get(), 0, s.cout}, packed.get(), OneThread());
        Floats scratch(static_cast<int64_t>(ConvScratchBytes(algorithm, s, 1) / 4));
        Floats plain(count), rounded(count);
        Conv(algorithm, s, x.get(), packed.get(), plain.get(), {}, scratch.get(), OneThread());
        const Expression expression = RoundingTo(type);
        Conv(algorithm, s, x.get(), packed.get(), rounded.get(), {&expression, nullptr},
             scratch.get(), OneThread());
        SCOPED_TRACE(std::string(Name(algorithm)));
        ExpectRounded(type, plain, rounded, count);
      }
    }
  });
}

}  // namespace
}  // namespace sardonyx
