#include "kernels/conv_int8_depthwise.h"

#include <algorithm>

#include "kernels/slices.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_int8_depthwise.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/int8_store-inl.h"

namespace sardonyx::conv_int8_depthwise {
#ifndef SARDONYX_CONV_INT8_DEPTHWISE_ONCE
#define SARDONYX_CONV_INT8_DEPTHWISE_ONCE
inline constexpr int64_t kMostTaps = 49;
#endif
}  // namespace sardonyx::conv_int8_depthwise

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

constexpr int kVectors = 4;
constexpr int64_t kBlock = kVectors * kSumLanes;  // channels
constexpr int64_t kPixels = 16;                   // whose sums are stored together

// The kernel's positions that lie inside the input, as seen from one output pixel.
struct Taps {
  int count = 0;
  int64_t offset[conv_int8_depthwise::kMostTaps];  // in x
  int index[conv_int8_depthwise::kMostTaps];
};

int64_t Offset(const ConvShape& s, int64_t d, int64_t h, int64_t w) {
  return ((d * s.in[1] + h) * s.in[2] + w) * s.x_stride;
}

bool IsInside(const ConvShape& s, const int64_t* first) {
  for (int i = 0; i < 3; ++i) {
    const int64_t last = first[i] + (s.kernel[i] - 1) * s.dilation[i];
    if (first[i] < 0 || last >= s.in[i]) return false;
  }
  return true;
}

// From input position `first` on, which may lie outside; `all` takes those outside too.
void FindTaps(const ConvShape& s, const int64_t* first, bool all, Taps* taps) {
  taps->count = 0;
  int index = 0;
  for (int64_t i = 0; i < s.kernel[0]; ++i) {
    const int64_t d = first[0] + i * s.dilation[0];
    for (int64_t j = 0; j < s.kernel[1]; ++j) {
      const int64_t h = first[1] + j * s.dilation[1];
      for (int64_t k = 0; k < s.kernel[2]; ++k, ++index) {
        const int64_t w = first[2] + k * s.dilation[2];
        const bool inside = d >= 0 && d < s.in[0] && h >= 0 && h < s.in[1] && w >= 0 && w < s.in[2];
        if (!all && !inside) continue;
        taps->offset[taps->count] = Offset(s, d, h, w);
        taps->index[taps->count++] = index;
      }
    }
  }
}

// Sums of kCount vectors of channels of one pixel; x, weights and sums begin at the first of them.
// With kInner all taps lie inside the input, and what its zero point takes off stands behind their
// weights.
template <typename T, int kCount, bool kInner>
HWY_INLINE void SumPixel(const Taps& taps, const T* HWY_RESTRICT x, const int32_t* HWY_RESTRICT w,
                         int32_t x_zero, int32_t* HWY_RESTRICT sums) {
  const Sums d;
  const hn::Rebind<T, Sums> bytes;
  [[maybe_unused]] const auto zero = hn::Set(d, x_zero);
  hn::Vec<Sums> acc[kCount];
#pragma GCC unroll 4
  for (int v = 0; v < kCount; ++v) {
    acc[v] = kInner ? hn::LoadU(d, w + taps.count * kBlock + v * kSumLanes) : hn::Zero(d);
  }
  for (int t = 0; t < taps.count; ++t) {
    const T* from = x + taps.offset[t];
    const int32_t* weights = w + taps.index[t] * kBlock;
#pragma GCC unroll 4
    for (int v = 0; v < kCount; ++v) {
      auto value = hn::PromoteTo(d, hn::LoadU(bytes, from + v * kSumLanes));
      if constexpr (!kInner) value = hn::Sub(value, zero);
      acc[v] = hn::Add(acc[v], hn::Mul(value, hn::LoadU(d, weights + v * kSumLanes)));
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kCount; ++v) hn::StoreU(acc[v], d, sums + v * kSumLanes);
}

template <typename T>
void SumTail(const Taps& taps, const T* x, const int32_t* w, int32_t x_zero, int64_t channels,
             int32_t* sums) {
  for (int64_t c = 0; c < channels; ++c) {
    int32_t sum = 0;
    for (int t = 0; t < taps.count; ++t) {
      sum += (x[taps.offset[t] + c] - x_zero) * w[taps.index[t] * kBlock + c];
    }
    sums[c] = sum;
  }
}

template <typename T, bool kInner>
HWY_INLINE void SumChannels(const Taps& taps, const T* x, const int32_t* w, int32_t x_zero,
                            int64_t channels, int32_t* sums) {
  if (channels == kBlock) return SumPixel<T, kVectors, kInner>(taps, x, w, x_zero, sums);
  int64_t done = 0;
  for (; done + 2 * kSumLanes <= channels; done += 2 * kSumLanes) {
    SumPixel<T, 2, kInner>(taps, x + done, w + done, x_zero, sums + done);
  }
  for (; done + kSumLanes <= channels; done += kSumLanes) {
    SumPixel<T, 1, kInner>(taps, x + done, w + done, x_zero, sums + done);
  }
  SumTail(taps, x + done, w + done, x_zero, channels - done, sums + done);
}

// Weights less their zero points, a block of channels after the other: [taps + 1, kBlock] each,
// the last row their sums times -x_zero.
void CenterWeights(const ConvShape& s, const Int8ConvArgs& args, int32_t* to) {
  const Sums d;
  const hn::Rebind<int16_t, Sums> halves;
  const auto* packed = static_cast<const int16_t*>(args.packed);
  const auto zero_of = [&args](int64_t at) -> int32_t {
    if (args.w_zeros == nullptr) return 0;
    return args.w_signed ? static_cast<const int8_t*>(args.w_zeros)[at]
                         : static_cast<const uint8_t*>(args.w_zeros)[at];
  };
  const bool one_zero = args.w_zero_count <= 1;
  const auto shared_zero = hn::Set(d, zero_of(0)), x_zero = hn::Set(d, args.x_zero);
  for (int64_t c = 0; c < s.cout; c += kBlock) {
    const int64_t channels = std::min(s.cout - c, kBlock);
    int32_t* const last = to + s.KernelSize() * kBlock;
    std::fill_n(last, channels, 0);
    for (int64_t t = 0; t < s.KernelSize(); ++t, to += kBlock) {
      const int16_t* from = packed + t * s.cout + c;
      int64_t i = 0;
      for (; one_zero && i + kSumLanes <= channels; i += kSumLanes) {
        const auto w = hn::Sub(hn::PromoteTo(d, hn::LoadU(halves, from + i)), shared_zero);
        hn::StoreU(w, d, to + i);
        hn::StoreU(hn::Sub(hn::LoadU(d, last + i), hn::Mul(w, x_zero)), d, last + i);
      }
      for (; i < channels; ++i) {
        to[i] = from[i] - zero_of(one_zero ? 0 : c + i);
        last[i] -= to[i] * args.x_zero;
      }
    }
    to += kBlock;
  }
}

template <typename T>
HWY_INLINE void RunPixels(const ConvShape& s, const Int8ConvArgs& args, const int32_t* weights,
                          int64_t begin, int64_t end) {
  HWY_ALIGN int32_t sums[kPixels * kBlock];
  Taps inner, border[kPixels];
  constexpr int64_t kOrigin[3] = {0, 0, 0};
  FindTaps(s, kOrigin, true, &inner);
  const Taps* taps[kPixels];
  int64_t base[kPixels];
  const int64_t image = s.in[0] * s.in[1] * s.in[2] * s.x_stride;
  const int64_t y_bytes = args.rescale == nullptr || args.rescale->type == DType::kFloat32 ? 4 : 1;
  const int64_t residual_bytes =
      args.rescale != nullptr && args.rescale->residual_type == DType::kFloat32 ? 4 : 1;
  OutputPixel out(s, begin);
  for (int64_t first = begin; first < end; first += kPixels) {
    const int64_t pixels = std::min(end - first, kPixels);
    for (int64_t i = 0; i < pixels; ++i, out.Advance(s)) {
      const int64_t at[3] = {out.First(s, 0), out.First(s, 1), out.First(s, 2)};
      base[i] = out.item * image;
      if (IsInside(s, at)) {
        base[i] += Offset(s, at[0], at[1], at[2]);
        taps[i] = &inner;
      } else {
        FindTaps(s, at, false, &border[i]);
        taps[i] = &border[i];
      }
    }
    for (int64_t c = 0; c < s.cout; c += kBlock) {
      const int64_t channels = std::min(s.cout - c, kBlock);
      const int32_t* w = weights + c * (s.KernelSize() + 1);
      const T* x = static_cast<const T*>(args.x) + c;
      for (int64_t i = 0; i < pixels; ++i) {
        int32_t* to = sums + i * kBlock;
        if (taps[i] == &inner) {
          SumChannels<T, true>(inner, x + base[i], w, args.x_zero, channels, to);
        } else {
          SumChannels<T, false>(*taps[i], x + base[i], w, args.x_zero, channels, to);
        }
      }
      Int8Store store{.rescale = args.rescale,
                      .y = static_cast<std::byte*>(args.y) + (first * s.y_stride + c) * y_bytes,
                      .y_stride = s.y_stride,
                      .residual_stride = args.residual_stride};
      if (args.residual != nullptr) {
        store.residual = static_cast<const std::byte*>(args.residual) +
                         (first * args.residual_stride + c) * residual_bytes;
      }
      StoreSums(sums, kBlock, pixels, channels, c, store);
    }
  }
}

void Pixels(const ConvShape& s, const Int8ConvArgs& args, const int32_t* weights, int64_t begin,
            int64_t end) {
  (args.x_signed ? RunPixels<int8_t> : RunPixels<uint8_t>)(s, args, weights, begin, end);
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx::conv_int8_depthwise {

HWY_EXPORT(Pixels);
HWY_EXPORT(CenterWeights);

bool Takes(const ConvShape& s) {
  return s.groups > 1 && s.groups == s.cin && s.groups == s.cout && s.KernelSize() <= kMostTaps;
}

size_t PackedBytes(const ConvShape& s) { return static_cast<size_t>(s.KernelSize() * s.cout) * 2; }

void Pack(const ConvShape& s, const Int8Weights& weights, void* packed) {
  auto* to = static_cast<int16_t*>(packed);
  for (int64_t t = 0; t < s.KernelSize(); ++t) {
    for (int64_t n = 0; n < s.cout; ++n) {
      const int64_t at = n * weights.n_stride + t * weights.t_stride;
      *to++ = weights.is_signed ? static_cast<const int8_t*>(weights.data)[at]
                                : static_cast<const uint8_t*>(weights.data)[at];
    }
  }
}

size_t ScratchBytes(const ConvShape& s) {
  return static_cast<size_t>((s.KernelSize() + 1) * (s.cout + kInt8ColumnSlack)) * 4;
}

void Run(const ConvShape& s, const Int8ConvArgs& args, void* scratch, const Parallel& par) {
  auto* const weights = static_cast<int32_t*>(scratch);
  HWY_DYNAMIC_DISPATCH(CenterWeights)(s, args, weights);
  // Some 20 products a nanosecond.
  const int64_t cost = std::max<int64_t>(1, s.cout * s.KernelSize() / 20);
  const Slices slices = Slice(s.OutPixels(), cost);
  par.For(slices.tasks, [&](int64_t task) {
    HWY_DYNAMIC_DISPATCH(Pixels)
    (s, args, weights, slices.Begin(task), slices.End(task, s.OutPixels()));
  });
}

}  // namespace sardonyx::conv_int8_depthwise
#endif  // HWY_ONCE
