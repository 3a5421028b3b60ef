#include "kernels/normalization.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/normalization.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <cmath>

#include "kernels/row_math-inl.h"
#include "kernels/slices.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Sum of (x - shift), or of (x - shift)^2, in chunks that are added in double.
template <bool kSquare>
HWY_INLINE double ShiftedSum(const float* x, int64_t n, float shift) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V s = hn::Set(d, shift);
  const auto add = [&](V sum, V v) HWY_ATTR {
    const V t = hn::Sub(v, s);
    return kSquare ? hn::MulAdd(t, t, sum) : hn::Add(sum, t);
  };
  constexpr int64_t kChunk = 2048;
  double total = 0.0;
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t end = std::min(n, begin + kChunk);
    V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    int64_t i = begin;
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
      s0 = add(s0, hn::LoadU(d, x + i));
      s1 = add(s1, hn::LoadU(d, x + i + lanes));
      s2 = add(s2, hn::LoadU(d, x + i + 2 * lanes));
      s3 = add(s3, hn::LoadU(d, x + i + 3 * lanes));
    }
    for (; i + lanes <= end; i += lanes) s0 = add(s0, hn::LoadU(d, x + i));
    if (i < end) s1 = add(s1, LoadPart(d, x + i, end - i, shift));
    total += SumLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
  }
  return total;
}

// y = (x - mean) * inv * scale + bias; scale and bias are vectors, or null.
HWY_INLINE void Apply(const float* x, const float* scale, const float* bias, float* y, int64_t n,
                      float mean, float inv) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V m = hn::Set(d, mean), f = hn::Set(d, inv);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    V v = hn::Mul(hn::Sub(hn::LoadU(d, x + i), m), f);
    if (scale != nullptr) v = hn::Mul(v, hn::LoadU(d, scale + i));
    if (bias != nullptr) v = hn::Add(v, hn::LoadU(d, bias + i));
    hn::StoreU(v, d, y + i);
  }
  if (i == n) return;
  V v = hn::Mul(hn::Sub(LoadPart(d, x + i, n - i), m), f);
  if (scale != nullptr) v = hn::Mul(v, LoadPart(d, scale + i, n - i));
  if (bias != nullptr) v = hn::Add(v, LoadPart(d, bias + i, n - i));
  StorePart(v, d, y + i, n - i);
}

struct Moments {
  float mean, inv;
};

HWY_INLINE Moments RowMoments(const float* x, int64_t n, float epsilon) {
  const float mean = static_cast<float>(ShiftedSum<false>(x, n, 0.0f) / static_cast<double>(n));
  const double variance = ShiftedSum<true>(x, n, mean) / static_cast<double>(n);
  return {mean, static_cast<float>(1.0 / std::sqrt(variance + epsilon))};
}

void LayerNormRows(const float* x, const float* scale, const float* bias, float* y, int64_t rows,
                   int64_t n, float epsilon, float* mean, float* inv_std_dev) {
  for (int64_t row = 0; row < rows; ++row) {
    const Moments moments = RowMoments(x + row * n, n, epsilon);
    Apply(x + row * n, scale, bias, y + row * n, n, moments.mean, moments.inv);
    if (mean != nullptr) mean[row] = moments.mean;
    if (inv_std_dev != nullptr) inv_std_dev[row] = moments.inv;
  }
}

void RmsNormRows(const float* x, const float* scale, const float* bias, float* y, int64_t rows,
                 int64_t n, float epsilon, float* inv_rms) {
  for (int64_t row = 0; row < rows; ++row) {
    const double square = ShiftedSum<true>(x + row * n, n, 0.0f) / static_cast<double>(n);
    const float inv = static_cast<float>(1.0 / std::sqrt(square + epsilon));
    Apply(x + row * n, scale, bias, y + row * n, n, 0.0f, inv);
    if (inv_rms != nullptr) inv_rms[row] = inv;
  }
}

// One group of channels [first, first + count) of a channels-first image.
void NormalizeGroup(const float* x, const float* scale, const float* bias, float* y, int64_t count,
                    int64_t spatial, float epsilon) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const Moments moments = RowMoments(x, count * spatial, epsilon);
  const V m = hn::Set(d, moments.mean);
  for (int64_t c = 0; c < count; ++c) {
    const V f = hn::Set(d, scale == nullptr ? moments.inv : moments.inv * scale[c]);
    const V b = hn::Set(d, bias == nullptr ? 0.0f : bias[c]);
    const float* from = x + c * spatial;
    float* to = y + c * spatial;
    int64_t i = 0;
    for (; i + lanes <= spatial; i += lanes) {
      hn::StoreU(hn::MulAdd(hn::Sub(hn::LoadU(d, from + i), m), f, b), d, to + i);
    }
    if (i < spatial) {
      StorePart(hn::MulAdd(hn::Sub(LoadPart(d, from + i, spatial - i), m), f, b), d, to + i,
                spatial - i);
    }
  }
}

// Per channel over `pixels` rows of x [pixels, channels]: sum[c] = sum of (x - shift[c]) or its
// square; shift null is 0.
template <bool kSquare>
HWY_INLINE void ColumnSums(const float* x, const float* shift, float* sum, int64_t pixels,
                           int64_t channels) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = 0; c < channels; c += lanes) {
    const int64_t part = std::min(lanes, channels - c);
    const auto load = [&](const float* p) HWY_ATTR {
      return part == lanes ? hn::LoadU(d, p) : LoadPart(d, p, part);
    };
    const V s = shift == nullptr ? hn::Zero(d) : load(shift + c);
    const auto add = [&](V total, int64_t pixel) HWY_ATTR {
      const V t = hn::Sub(load(x + pixel * channels + c), s);
      return kSquare ? hn::MulAdd(t, t, total) : hn::Add(total, t);
    };
    V s0 = hn::Zero(d), s1 = s0;
    int64_t i = 0;
    for (; i + 2 <= pixels; i += 2) {
      s0 = add(s0, i);
      s1 = add(s1, i + 1);
    }
    if (i < pixels) s0 = add(s0, i);
    s0 = hn::Add(s0, s1);
    if (part == lanes) {
      hn::StoreU(s0, d, sum + c);
    } else {
      StorePart(s0, d, sum + c, part);
    }
  }
}

void ChannelSums(const float* x, const float* shift, float* sum, int64_t pixels, int64_t channels,
                 bool square) {
  if (square) {
    ColumnSums<true>(x, shift, sum, pixels, channels);
  } else {
    ColumnSums<false>(x, shift, sum, pixels, channels);
  }
}

// y = (x - mean) * factor + bias, all three per channel; bias may be null.
void ApplyChannels(const float* x, const float* mean, const float* factor, const float* bias,
                   float* y, int64_t pixels, int64_t channels) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < pixels; ++i, x += channels, y += channels) {
    int64_t c = 0;
    for (; c + lanes <= channels; c += lanes) {
      V v = hn::Mul(hn::Sub(hn::LoadU(d, x + c), hn::LoadU(d, mean + c)), hn::LoadU(d, factor + c));
      if (bias != nullptr) v = hn::Add(v, hn::LoadU(d, bias + c));
      hn::StoreU(v, d, y + c);
    }
    for (; c < channels; ++c) {
      y[c] = (x[c] - mean[c]) * factor[c] + (bias == nullptr ? 0.0f : bias[c]);
    }
  }
}

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(LayerNormRows);
HWY_EXPORT(RmsNormRows);
HWY_EXPORT(NormalizeGroup);
HWY_EXPORT(ChannelSums);
HWY_EXPORT(ApplyChannels);

void LayerNorm(const float* x, const float* scale, const float* bias, float* y, int64_t rows,
               int64_t n, float epsilon, float* mean, float* inv_std_dev, const Parallel& par) {
  const Slices slices = Slice(rows, n);
  par.For(slices.tasks, [&](int64_t task) {
    const int64_t begin = slices.Begin(task), end = slices.End(task, rows);
    HWY_DYNAMIC_DISPATCH(LayerNormRows)
    (x + begin * n, scale, bias, y + begin * n, end - begin, n, epsilon,
     mean == nullptr ? nullptr : mean + begin,
     inv_std_dev == nullptr ? nullptr : inv_std_dev + begin);
  });
}

void RmsNorm(const float* x, const float* scale, const float* bias, float* y, int64_t rows,
             int64_t n, float epsilon, float* inv_rms, const Parallel& par) {
  const Slices slices = Slice(rows, n);
  par.For(slices.tasks, [&](int64_t task) {
    const int64_t begin = slices.Begin(task), end = slices.End(task, rows);
    HWY_DYNAMIC_DISPATCH(RmsNormRows)
    (x + begin * n, scale, bias, y + begin * n, end - begin, n, epsilon,
     inv_rms == nullptr ? nullptr : inv_rms + begin);
  });
}

void GroupNormChannelsFirst(const float* x, const float* scale, const float* bias, float* y,
                            int64_t batch, int64_t channels, int64_t spatial, int64_t groups,
                            float epsilon, const Parallel& par) {
  const int64_t count = channels / groups;
  const Slices slices = Slice(batch * groups, count * spatial);
  par.For(slices.tasks, [&](int64_t task) {
    for (int64_t i = slices.Begin(task); i < slices.End(task, batch * groups); ++i) {
      const int64_t first = i % groups * count, at = i * count * spatial;
      HWY_DYNAMIC_DISPATCH(NormalizeGroup)
      (x + at, scale == nullptr ? nullptr : scale + first, bias == nullptr ? nullptr : bias + first,
       y + at, count, spatial, epsilon);
    }
  });
}

namespace {

// Pixels whose channel sums are taken in float before they are added in double.
constexpr int64_t kBlock = 256;
int64_t Blocks(int64_t spatial) { return (spatial + kBlock - 1) / kBlock; }
int64_t RoundUp(int64_t channels) { return (channels + 15) / 16 * 16; }

}  // namespace

size_t GroupNormScratchBytes(int64_t batch, int64_t spatial, int64_t channels) {
  return sizeof(float) * static_cast<size_t>(batch * RoundUp(channels) * (Blocks(spatial) + 2));
}

void GroupNormChannelsLast(const float* x, const float* scale, const float* bias, float* y,
                           int64_t batch, int64_t spatial, int64_t channels, int64_t groups,
                           float epsilon, void* scratch, const Parallel& par) {
  const int64_t blocks = Blocks(spatial), row = RoundUp(channels), count = channels / groups;
  // Of each image: the mean and the factor of every channel, then the sums of each block.
  float* means = static_cast<float*>(scratch);
  float* factors = means + batch * row;
  float* sums = factors + batch * row;
  const Slices slices = Slice(batch * blocks, std::min(spatial, kBlock) * channels);
  const auto for_blocks = [&](auto&& body) {
    par.For(slices.tasks, [&](int64_t task) {
      for (int64_t i = slices.Begin(task); i < slices.End(task, batch * blocks); ++i) {
        const int64_t image = i / blocks, first = i % blocks * kBlock;
        body(i, image, (image * spatial + first) * channels, std::min(kBlock, spatial - first));
      }
    });
  };
  // Mean over each group of what the blocks hold.
  const auto group_mean = [&](int64_t image, int64_t group) {
    double total = 0.0;
    for (int64_t block = 0; block < blocks; ++block) {
      const float* sum = sums + (image * blocks + block) * row + group * count;
      for (int64_t c = 0; c < count; ++c) total += sum[c];
    }
    return total / (static_cast<double>(count) * static_cast<double>(spatial));
  };
  for_blocks([&](int64_t i, int64_t, int64_t at, int64_t pixels) {
    HWY_DYNAMIC_DISPATCH(ChannelSums)(x + at, nullptr, sums + i * row, pixels, channels, false);
  });
  for (int64_t i = 0; i < batch * groups; ++i) {
    const float mean = static_cast<float>(group_mean(i / groups, i % groups));
    std::fill_n(means + i / groups * row + i % groups * count, count, mean);
  }
  for_blocks([&](int64_t i, int64_t image, int64_t at, int64_t pixels) {
    HWY_DYNAMIC_DISPATCH(ChannelSums)
    (x + at, means + image * row, sums + i * row, pixels, channels, true);
  });
  for (int64_t i = 0; i < batch * groups; ++i) {
    const int64_t first = i % groups * count;
    const float inv =
        static_cast<float>(1.0 / std::sqrt(group_mean(i / groups, i % groups) + epsilon));
    for (int64_t c = first; c < first + count; ++c) {
      factors[i / groups * row + c] = scale == nullptr ? inv : inv * scale[c];
    }
  }
  for_blocks([&](int64_t, int64_t image, int64_t at, int64_t pixels) {
    HWY_DYNAMIC_DISPATCH(ApplyChannels)
    (x + at, means + image * row, factors + image * row, bias, y + at, pixels, channels);
  });
}

}  // namespace sardonyx
#endif  // HWY_ONCE
