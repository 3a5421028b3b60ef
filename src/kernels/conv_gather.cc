// Rows of im2col, a block at a time.

#include <algorithm>

#include "kernels/conv_internal.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_gather.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Wide = hn::ScalableTag<float>;
using Four = hn::FixedTag<float, 4>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Wide()));

// Copies n floats. Most runs are short: the last vector overlaps the one before instead of a loop.
HWY_INLINE void CopyRun(const float* HWY_RESTRICT from, float* HWY_RESTRICT to, int64_t n) {
  const Wide d;
  const Four four;
  if (n >= kLanes) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
    if (i < n) hn::StoreU(hn::LoadU(d, from + n - kLanes), d, to + n - kLanes);
  } else if (n >= 4) {
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) hn::StoreU(hn::LoadU(four, from + i), four, to + i);
    if (i < n) hn::StoreU(hn::LoadU(four, from + n - 4), four, to + n - 4);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
  }
}

HWY_INLINE void ZeroRun(float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = 0.0f;
}

// Columns of the matrix, clipped to [k0, k1) and moved so that k0 is written at `to`.
struct Window {
  int64_t k0, k1;
  float* to;
  HWY_INLINE void Copy(const float* from, int64_t begin, int64_t end) const {
    const int64_t b = std::max(begin, k0), e = std::min(end, k1);
    if (b < e) CopyRun(from + (b - begin), to + (b - k0), e - b);
  }
  HWY_INLINE void Zero(int64_t begin, int64_t end) const {
    const int64_t b = std::max(begin, k0), e = std::min(end, k1);
    if (b < e) ZeroRun(to + (b - k0), e - b);
  }
};

void GatherRows(const ConvShape& s, int64_t group, const float* x, int64_t first, int64_t rows,
                int64_t k0, int64_t kc, float* to, int64_t ldto) {
  const int64_t channels = s.cin / s.groups;
  const int64_t run = s.kernel[2] * channels;  // values of one line of the kernel
  const bool dense = s.dilation[2] == 1 && s.x_stride == channels;
  const int64_t line0 = k0 / run, line1 = CeilDiv(k0 + kc, run);
  x += group * channels;

  int64_t pixel = first;
  int64_t ow = pixel % s.out[2];
  pixel /= s.out[2];
  int64_t oh = pixel % s.out[1];
  pixel /= s.out[1];
  int64_t od = pixel % s.out[0];
  int64_t item = pixel / s.out[0];
  for (int64_t row = 0; row < rows; ++row, to += ldto) {
    const Window window{k0, k0 + kc, to};
    const int64_t w0 = ow * s.stride[2] - s.pad_begin[2];
    for (int64_t line = line0; line < line1; ++line) {
      const int64_t kd = line / s.kernel[1], kh = line % s.kernel[1];
      const int64_t d = od * s.stride[0] - s.pad_begin[0] + kd * s.dilation[0];
      const int64_t h = oh * s.stride[1] - s.pad_begin[1] + kh * s.dilation[1];
      const int64_t k = line * run;
      if (d < 0 || d >= s.in[0] || h < 0 || h >= s.in[1]) {
        window.Zero(k, k + run);
        continue;
      }
      const float* from = x + ((item * s.in[0] + d) * s.in[1] + h) * s.in[2] * s.x_stride;
      if (dense) {
        const int64_t left = std::clamp<int64_t>(-w0, 0, s.kernel[2]);
        const int64_t right = std::clamp<int64_t>(s.in[2] - w0, left, s.kernel[2]);
        if (left > 0) window.Zero(k, k + left * channels);
        if (left < right) {
          window.Copy(from + (w0 + left) * channels, k + left * channels, k + right * channels);
        }
        if (right < s.kernel[2]) window.Zero(k + right * channels, k + run);
      } else {
        for (int64_t kw = 0; kw < s.kernel[2]; ++kw) {
          const int64_t w = w0 + kw * s.dilation[2];
          const int64_t begin = k + kw * channels;
          if (w < 0 || w >= s.in[2]) {
            window.Zero(begin, begin + channels);
          } else {
            window.Copy(from + w * s.x_stride, begin, begin + channels);
          }
        }
      }
    }
    if (++ow == s.out[2]) {
      ow = 0;
      if (++oh == s.out[1]) {
        oh = 0;
        if (++od == s.out[0]) {
          od = 0;
          ++item;
        }
      }
    }
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(GatherRows);

void conv_gemm::Gather(const ConvShape& shape, int64_t group, const float* x, int64_t first,
                       int64_t rows, int64_t k0, int64_t kc, float* to, int64_t ldto) {
  HWY_DYNAMIC_DISPATCH(GatherRows)(shape, group, x, first, rows, k0, kc, to, ldto);
}

}  // namespace sardonyx
#endif  // HWY_ONCE
