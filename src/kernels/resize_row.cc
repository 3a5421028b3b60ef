#include "kernels/resize_row.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/resize_row.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <cstring>
#include <type_traits>

#include "kernels/row_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

void AddRowImpl(const float* in, float weight, float* out, int64_t count, bool accumulate) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V w = hn::Set(d, weight);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const V sum = accumulate ? hn::LoadU(d, out + i) : hn::Zero(d);
    hn::StoreU(hn::MulAdd(hn::LoadU(d, in + i), w, sum), d, out + i);
  }
  for (; i < count; ++i) out[i] = in[i] * weight + (accumulate ? out[i] : 0.0f);
}

// Pixels of one float: a vector of outputs at once, gathered.
void ResizeSingle(const ResizeTable& table, const float* in, float* out) {
  const D d;
  const hn::RebindToSigned<D> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t o = 0;
  for (; o + lanes <= table.out; o += lanes) {
    V sum = hn::Zero(d);
    for (int t = 0; t < table.taps; ++t) {
      const int64_t at = t * table.out + o;
      const V pixels = hn::GatherIndex(d, in, hn::LoadU(di, table.index.data() + at));
      sum = hn::MulAdd(hn::LoadU(d, table.weight.data() + at), pixels, sum);
    }
    hn::StoreU(sum, d, out + o);
  }
  for (; o < table.out; ++o) {
    float sum = 0.0f;
    for (int t = 0; t < table.taps; ++t) {
      sum += table.weight[t * table.out + o] * in[table.index[t * table.out + o]];
    }
    out[o] = sum;
  }
}

// kTaps: the table's, or 0 if it has another number.
template <int kTaps>
HWY_INLINE void ResizePixels(const ResizeTable& table, const float* in, float* out,
                             int64_t channels) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int taps = kTaps == 0 ? table.taps : kTaps;
  for (int64_t o = 0; o < table.out; ++o, out += channels) {
    int64_t c = 0;
    for (; c < channels; c += lanes) {
      const int64_t left = channels - c;
      V sum = hn::Zero(d);
      for (int t = 0; t < taps; ++t) {
        const float* from = in + table.index[t * table.out + o] * channels + c;
        const V w = hn::Set(d, table.weight[t * table.out + o]);
        sum = hn::MulAdd(w, left >= lanes ? hn::LoadU(d, from) : LoadPart(d, from, left), sum);
      }
      if (left >= lanes) {
        hn::StoreU(sum, d, out + c);
      } else {
        StorePart(sum, d, out + c, left);
      }
    }
  }
}

void ResizeRowImpl(const ResizeTable& table, const float* in, float* out, int64_t channels) {
  if (channels == 1) return ResizeSingle(table, in, out);
  switch (table.taps) {
    case 2: return ResizePixels<2>(table, in, out, channels);
    case 4: return ResizePixels<4>(table, in, out, channels);
    default: return ResizePixels<0>(table, in, out, channels);
  }
}

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(AddRowImpl);
HWY_EXPORT(ResizeRowImpl);

void AddRow(const float* in, float weight, float* out, int64_t count, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(AddRowImpl)(in, weight, out, count, accumulate);
}
void ResizeRow(const ResizeTable& table, const float* in, float* out, int64_t channels) {
  HWY_DYNAMIC_DISPATCH(ResizeRowImpl)(table, in, out, channels);
}

void CopyPixels(const ResizeTable& table, const char* in, char* out, int64_t pixel_bytes) {
  const auto copy = [&](auto bytes) {
    for (int64_t o = 0; o < table.out; ++o) {
      std::memcpy(out + o * bytes, in + table.index[o] * bytes, static_cast<size_t>(bytes));
    }
  };
  switch (pixel_bytes) {
    case 1: return copy(std::integral_constant<int64_t, 1>{});
    case 2: return copy(std::integral_constant<int64_t, 2>{});
    case 4: return copy(std::integral_constant<int64_t, 4>{});
    case 8: return copy(std::integral_constant<int64_t, 8>{});
    case 12: return copy(std::integral_constant<int64_t, 12>{});
    case 16: return copy(std::integral_constant<int64_t, 16>{});
    default: return copy(pixel_bytes);
  }
}

}  // namespace sardonyx
#endif  // HWY_ONCE
