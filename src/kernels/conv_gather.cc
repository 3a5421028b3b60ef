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

// Output pixels in their order, or those below each other.
struct Position {
  int64_t item, d, h, w;
  Position(const ConvShape& s, int64_t pixel)
      : item(pixel / (s.out[0] * s.out[1] * s.out[2])),
        d(pixel / (s.out[1] * s.out[2]) % s.out[0]),
        h(pixel / s.out[2] % s.out[1]),
        w(pixel % s.out[2]) {}
  HWY_INLINE void Advance(const ConvShape& s, bool below) {
    if (!below) {
      if (++w < s.out[2]) return;
      w = 0;
    }
    if (++h < s.out[1]) return;
    h = 0;
    if (++d < s.out[0]) return;
    d = 0;
    ++item;
  }
};

// One line of the kernel for one output pixel; `from` is pixel 0 of the input line, w0 the pixel
// that the line begins at, k its first column of the matrix.
HWY_INLINE void GatherLine(const ConvShape& s, int64_t channels, bool dense, const float* from,
                           int64_t w0, int64_t k, const Window& window) {
  if (dense) {
    const int64_t left = std::clamp<int64_t>(-w0, 0, s.kernel[2]);
    const int64_t right = std::clamp<int64_t>(s.in[2] - w0, left, s.kernel[2]);
    if (left > 0) window.Zero(k, k + left * channels);
    if (left < right) {
      window.Copy(from + (w0 + left) * channels, k + left * channels, k + right * channels);
    }
    if (right < s.kernel[2]) window.Zero(k + right * channels, k + s.kernel[2] * channels);
    return;
  }
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

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
constexpr bool kMasks = true;  // masked loads do not touch what they leave out
#else
constexpr bool kMasks = false;
#endif

// Copies kVectors vectors, of which the last is read by `tail` and written whole: what it writes
// too much is overwritten later, or is the room between rows.
template <int kVectors, class M>
HWY_INLINE void CopyShort(const float* HWY_RESTRICT from, float* HWY_RESTRICT to, M tail) {
  const Wide d;
#pragma GCC unroll 4
  for (int v = 0; v + 1 < kVectors; ++v) {
    hn::StoreU(hn::LoadU(d, from + v * kLanes), d, to + v * kLanes);
  }
  constexpr int64_t kLast = (kVectors - 1) * kLanes;
  hn::StoreU(hn::MaskedLoad(tail, d, from + kLast), d, to + kLast);
}

// Whole rows of a convolution with few channels: short lines, so what counts is what is done beside
// copying.
template <int kVectors>
HWY_NOINLINE void GatherShort(const ConvShape& s, const float* x, int64_t first, int64_t rows,
                              float* to, int64_t ldto, bool below) {
  const Wide d;
  const int64_t run = s.kernel[2] * s.cin, line = s.in[2] * s.cin, slice = s.in[1] * line;
  const auto tail = hn::FirstN(d, static_cast<size_t>(run - (kVectors - 1) * kLanes));
  Position at(s, first);
  for (int64_t row = 0; row < rows; ++row, to += ldto, at.Advance(s, below)) {
    const int64_t w0 = at.w * s.stride[2] - s.pad_begin[2];
    const int64_t h0 = at.h * s.stride[1] - s.pad_begin[1];
    const int64_t d0 = at.d * s.stride[0] - s.pad_begin[0];
    const float* from = x + (at.item * s.in[0] + d0) * slice + h0 * line;
    if (d0 >= 0 && d0 + (s.kernel[0] - 1) * s.dilation[0] < s.in[0] && h0 >= 0 &&
        h0 + (s.kernel[1] - 1) * s.dilation[1] < s.in[1] && w0 >= 0 &&
        w0 + s.kernel[2] <= s.in[2]) {
      from += w0 * s.cin;
      float* target = to;
      for (int64_t kd = 0; kd < s.kernel[0]; ++kd, from += s.dilation[0] * slice) {
        for (int64_t kh = 0; kh < s.kernel[1]; ++kh, target += run) {
          CopyShort<kVectors>(from + kh * s.dilation[1] * line, target, tail);
        }
      }
      continue;
    }
    const Window window{0, s.kernel[0] * s.kernel[1] * run, to};
    int64_t k = 0;
    for (int64_t kd = 0; kd < s.kernel[0]; ++kd, from += s.dilation[0] * slice) {
      const int64_t d = d0 + kd * s.dilation[0];
      for (int64_t kh = 0; kh < s.kernel[1]; ++kh, k += run) {
        const int64_t h = h0 + kh * s.dilation[1];
        if (d < 0 || d >= s.in[0] || h < 0 || h >= s.in[1]) {
          window.Zero(k, k + run);
        } else {
          GatherLine(s, s.cin, true, from + kh * s.dilation[1] * line, w0, k, window);
        }
      }
    }
  }
}

void GatherRows(const ConvShape& s, int64_t group, const float* x, int64_t first, int64_t rows,
                int64_t k0, int64_t kc, float* to, int64_t ldto, bool below) {
  const int64_t channels = s.cin / s.groups;
  const int64_t run = s.kernel[2] * channels;  // values of one line of the kernel
  const bool dense = s.dilation[2] == 1 && s.x_stride == channels;
  if (kMasks && dense && run <= 3 * kLanes && k0 == 0 && kc == s.kernel[0] * s.kernel[1] * run) {
    if (run <= kLanes) return GatherShort<1>(s, x, first, rows, to, ldto, below);
    if (run <= 2 * kLanes) return GatherShort<2>(s, x, first, rows, to, ldto, below);
    return GatherShort<3>(s, x, first, rows, to, ldto, below);
  }
  const int64_t line0 = k0 / run, line1 = CeilDiv(k0 + kc, run);
  x += group * channels;
  Position at(s, first);
  for (int64_t row = 0; row < rows; ++row, to += ldto, at.Advance(s, below)) {
    const Window window{k0, k0 + kc, to};
    const int64_t w0 = at.w * s.stride[2] - s.pad_begin[2];
    int64_t kd = line0 / s.kernel[1], kh = line0 % s.kernel[1];
    for (int64_t index = line0; index < line1; ++index) {
      const int64_t d = at.d * s.stride[0] - s.pad_begin[0] + kd * s.dilation[0];
      const int64_t h = at.h * s.stride[1] - s.pad_begin[1] + kh * s.dilation[1];
      const int64_t k = index * run;
      if (d < 0 || d >= s.in[0] || h < 0 || h >= s.in[1]) {
        window.Zero(k, k + run);
      } else {
        const float* from = x + ((at.item * s.in[0] + d) * s.in[1] + h) * s.in[2] * s.x_stride;
        GatherLine(s, channels, dense, from, w0, k, window);
      }
      if (++kh == s.kernel[1]) {
        kh = 0;
        ++kd;
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
                       int64_t rows, int64_t k0, int64_t kc, float* to, int64_t ldto, bool below) {
  HWY_DYNAMIC_DISPATCH(GatherRows)(shape, group, x, first, rows, k0, kc, to, ldto, below);
}

void conv_gemm::GatherPlanes(const ConvShape& s, const float* x, int64_t first, int64_t rows,
                             float* to, int64_t ldto) {
  const int64_t line = first / s.out[2], item = line / s.out[1], plane = s.in[1] * s.in[2];
  const int64_t left = first % s.out[2] * s.stride[2] - s.pad_begin[2];
  int64_t top = line % s.out[1] * s.stride[1] - s.pad_begin[1];
  for (int64_t row = 0; row < rows; ++row, top += s.stride[1], to += ldto) {
    float* value = to;
    for (int64_t kh = 0; kh < s.kernel[1]; ++kh) {
      const int64_t h = top + kh * s.dilation[1];
      for (int64_t c = 0; c < s.cin; ++c) {
        const float* const from = x + (item * s.cin + c) * plane + h * s.in[2] + left;
        for (int64_t kw = 0; kw < s.kernel[2]; ++kw) {
          const bool is_inside = h >= 0 && h < s.in[1] && left + kw >= 0 && left + kw < s.in[2];
          *value++ = is_inside ? from[kw] : 0.0f;
        }
      }
    }
  }
}

}  // namespace sardonyx
#endif  // HWY_ONCE
