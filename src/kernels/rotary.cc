#include "kernels/rotary.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rotary.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/slices.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

void RotateRow(const float* x, const float* cosine, const float* sine, float* y, int64_t pairs,
               bool interleaved) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= pairs; i += lanes) {
    hn::VFromD<decltype(d)> a, b;
    if (interleaved) {
      hn::LoadInterleaved2(d, x + 2 * i, a, b);
    } else {
      a = hn::LoadU(d, x + i);
      b = hn::LoadU(d, x + pairs + i);
    }
    const auto c = hn::LoadU(d, cosine + i), s = hn::LoadU(d, sine + i);
    const auto real = hn::NegMulAdd(b, s, hn::Mul(a, c));
    const auto imaginary = hn::MulAdd(b, c, hn::Mul(a, s));
    if (interleaved) {
      hn::StoreInterleaved2(real, imaginary, d, y + 2 * i);
    } else {
      hn::StoreU(real, d, y + i);
      hn::StoreU(imaginary, d, y + pairs + i);
    }
  }
  for (; i < pairs; ++i) {
    const int64_t first = interleaved ? 2 * i : i, second = interleaved ? first + 1 : i + pairs;
    const float a = x[first], b = x[second];
    y[first] = a * cosine[i] - b * sine[i];
    y[second] = a * sine[i] + b * cosine[i];
  }
}

// Rows of the lines [begin, end) of [outer * middle].
void RotateLines(const RotaryShape& shape, const float* x, const float* cosine, const float* sine,
                 float* y, int64_t begin, int64_t end) {
  const auto first = [&](const int64_t* steps, int64_t line) {
    return line / shape.middle * steps[0] + line % shape.middle * steps[1];
  };
  for (int64_t line = begin; line < end; ++line) {
    const float* c = cosine + first(shape.cosine_steps, line);
    const float* s = sine + first(shape.sine_steps, line);
    for (int64_t row = 0; row < shape.rows; ++row) {
      const int64_t at = (line * shape.rows + row) * shape.features;
      RotateRow(x + at, c, s, y + at, shape.turned / 2, shape.interleaved);
      if (x != y) {
        std::copy(x + at + shape.turned, x + at + shape.features, y + at + shape.turned);
      }
      c += shape.cosine_steps[2];
      s += shape.sine_steps[2];
    }
  }
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(RotateLines);

void Rotate(const RotaryShape& shape, const float* x, const float* cosine, const float* sine,
            float* y, const Parallel& par) {
  const int64_t lines = shape.outer * shape.middle;
  const Slices slices = Slice(lines, shape.rows * (shape.features / 8 + 4));
  par.For(slices.tasks, [&](int64_t task) {
    HWY_DYNAMIC_DISPATCH(RotateLines)
    (shape, x, cosine, sine, y, slices.Begin(task), slices.End(task, lines));
  });
}

}  // namespace sardonyx
#endif  // HWY_ONCE
