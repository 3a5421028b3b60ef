#include "kernels/resize_row.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/resize_row.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/row_math-inl.h"
#include "kernels/saturated-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// A vector of T as floats.
template <typename T>
HWY_INLINE V LoadAs(D d, const T* in) {
  if constexpr (std::is_same_v<T, float>) {
    return hn::LoadU(d, in);
  } else {
    const hn::Rebind<T, D> bytes;
    const hn::RebindToSigned<D> words;
    return hn::ConvertTo(d, hn::PromoteTo(words, hn::LoadU(bytes, in)));
  }
}

template <typename T>
HWY_INLINE void AddRowsOf(const WeightedRows<T>& rows, float* out, int64_t count, bool accumulate) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    V sum = accumulate ? hn::LoadU(d, out + i) : hn::Zero(d);
    for (int r = 0; r < rows.count; ++r) {
      sum = hn::MulAdd(LoadAs(d, rows.row[r] + i), hn::Set(d, rows.weight[r]), sum);
    }
    hn::StoreU(sum, d, out + i);
  }
  if (i == count) return;
  if constexpr (std::is_same_v<T, float>) {
    V sum = accumulate ? LoadPart(d, out + i, count - i) : hn::Zero(d);
    for (int r = 0; r < rows.count; ++r) {
      const V values = LoadPart(d, rows.row[r] + i, count - i);
      sum = hn::MulAdd(values, hn::Set(d, rows.weight[r]), sum);
    }
    StorePart(sum, d, out + i, count - i);
  } else {
    for (; i < count; ++i) {
      if (!accumulate) out[i] = 0.0f;
      for (int r = 0; r < rows.count; ++r) {
        out[i] += static_cast<float>(rows.row[r][i]) * rows.weight[r];
      }
    }
  }
}

void AddFloats(const WeightedRows<float>& rows, float* out, int64_t count, bool accumulate) {
  AddRowsOf(rows, out, count, accumulate);
}
void AddUnsigned(const WeightedRows<uint8_t>& rows, float* out, int64_t count, bool accumulate) {
  AddRowsOf(rows, out, count, accumulate);
}
void AddSigned(const WeightedRows<int8_t>& rows, float* out, int64_t count, bool accumulate) {
  AddRowsOf(rows, out, count, accumulate);
}

template <typename T>
HWY_INLINE void RoundRowOf(const float* in, T* out, int64_t count) {
  const D d;
  const hn::Rebind<T, D> bytes;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(Saturated<T>(hn::NearestInt(hn::LoadU(d, in + i))), bytes, out + i);
  }
  for (; i < count; ++i) out[i] = static_cast<T>(std::nearbyint(in[i]));
}

void RoundUnsigned(const float* in, uint8_t* out, int64_t count) { RoundRowOf(in, out, count); }
void RoundSigned(const float* in, int8_t* out, int64_t count) { RoundRowOf(in, out, count); }

// Pixels of one float: a vector of outputs at once. Where an axis grows they read a few neighbours,
// which are loaded once and spread; else they are gathered.
void ResizeSingle(const ResizeTable& table, const float* in, float* out) {
  const D d;
  const hn::RebindToSigned<D> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const bool rises = table.outside.empty();  // a crop may turn an axis round
  for (int64_t o = 0; o < table.out; o += lanes) {
    const int64_t count = std::min(lanes, table.out - o);
    const int32_t* index = table.index.data() + o;
    const float* weight = table.weight.data() + o;
    // The last of them read the end of the row.
    const int64_t first = std::min<int64_t>(index[0], std::max<int64_t>(table.in - lanes, 0));
    const int64_t last = index[(table.taps - 1) * table.out + count - 1];
    const bool is_near = rises && last - first < lanes;
    V near = hn::Zero(d);
    if (is_near) near = table.in >= lanes ? hn::LoadU(d, in + first) : LoadPart(d, in, table.in);
    const auto base = static_cast<int32_t>(first);
    V sum = hn::Zero(d);
    for (int t = 0; t < table.taps; ++t, index += table.out, weight += table.out) {
      const bool is_whole = count == lanes;
      const auto from = is_whole ? hn::LoadU(di, index) : LoadPart(di, index, count, base);
      const V w = is_whole ? hn::LoadU(d, weight) : LoadPart(d, weight, count);
      const V pixels = is_near ? hn::TableLookupLanes(
                                     near, hn::IndicesFromVec(d, hn::Sub(from, hn::Set(di, base))))
                               : hn::GatherIndex(d, in, from);
      sum = hn::MulAdd(w, pixels, sum);
    }
    if (count == lanes) {
      hn::StoreU(sum, d, out + o);
    } else {
      StorePart(sum, d, out + o, count);
    }
  }
}

int64_t LanesOfRow() { return static_cast<int64_t>(hn::Lanes(D())); }

// The mixed row stays in a vector, from which its pixels are spread.
void ResizeNarrowImpl(const ResizePlan& plan, const float* plane, int64_t begin, int64_t end,
                      float* out) {
  const D d;
  const hn::RebindToSigned<D> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const ResizeTable &height = plan.axes[1], &width = plan.axes[2];
  const auto spread = [&](V mixed, int64_t o, const auto& load) HWY_ATTR {
    V sum = hn::Zero(d);
    for (int t = 0; t < width.taps; ++t, o += width.out) {
      const auto from = hn::IndicesFromVec(d, load(di, width.index.data() + o));
      sum = hn::MulAdd(load(d, width.weight.data() + o), hn::TableLookupLanes(mixed, from), sum);
    }
    return sum;
  };
  for (int64_t h = begin; h < end; ++h, out += width.out) {
    V mixed = hn::Zero(d);
    for (int t = 0; t < height.taps; ++t) {
      const int64_t i = t * height.out + h;
      if (height.weight[i] == 0.0f) continue;
      const float* row = plane + height.index[i] * width.in;
      const V pixels = width.in == lanes ? hn::LoadU(d, row) : LoadPart(d, row, width.in);
      mixed = hn::MulAdd(pixels, hn::Set(d, height.weight[i]), mixed);
    }
    if (width.out < lanes) {
      const auto load = [&](auto tag, const auto* p)
                            HWY_ATTR { return LoadPart(tag, p, width.out); };
      StorePart(spread(mixed, 0, load), d, out, width.out);
      continue;
    }
    const auto load = [](auto tag, const auto* p) HWY_ATTR { return hn::LoadU(tag, p); };
    for (int64_t next = 0; next < width.out; next += lanes) {
      const int64_t o = std::min(next, width.out - lanes);
      hn::StoreU(spread(mixed, o, load), d, out + o);
    }
  }
}

// kTaps: the table's, or 0 if it has another number.
template <int kTaps>
HWY_INLINE void ResizePixels(const ResizeTable& table, const float* in, float* out,
                             int64_t channels, int64_t out_stride) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int taps = kTaps == 0 ? table.taps : kTaps;
  for (int64_t o = 0; o < table.out; ++o, out += out_stride) {
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

void ResizeRowImpl(const ResizeTable& table, const float* in, float* out, int64_t channels,
                   int64_t out_stride) {
  if (channels == 1 && out_stride == 1) return ResizeSingle(table, in, out);
  switch (table.taps) {
    case 2: return ResizePixels<2>(table, in, out, channels, out_stride);
    case 4: return ResizePixels<4>(table, in, out, channels, out_stride);
    default: return ResizePixels<0>(table, in, out, channels, out_stride);
  }
}

// As many pixels as fill a vector once each is there 2^kShift times.
template <int kShift, class D>
HWY_INLINE hn::Vec<D> LoadShare(D d, const hn::TFromD<D>* from) {
  if constexpr (kShift == 0) {
    return hn::LoadU(d, from);
  } else {
    return hn::ZeroExtendVector(d, LoadShare<kShift - 1>(hn::Half<D>(), from));
  }
}

// Every pixel of one T repeated 2^kShift times along its row: all vectors are spread alike. One row
// after the other, as memory takes what is written in order sooner.
template <int kShift, typename T>
HWY_INLINE void RepeatPixels(const ResizeTable& table, const T* in, T* out, int64_t rows) {
  const hn::ScalableTag<T> d;
  const int64_t size = table.in, step = static_cast<int64_t>(hn::Lanes(d)) >> kShift;
  const auto spread =
      hn::IndicesFromVec(d, hn::LoadU(hn::RebindToSigned<decltype(d)>(), table.index.data()));
  const auto repeat = [&](int64_t i) HWY_ATTR {
    hn::StoreU(hn::TableLookupLanes(LoadShare<kShift>(d, in + i), spread), d, out + (i << kShift));
  };
  for (; rows > 0; --rows, out += size << kShift) {
    int64_t i = 0;
    for (; i + step <= size; i += step) repeat(i);
    if (i < size) repeat(size - step);
  }
}

// Pixels of one T, into equal rows. Where an axis grows, a vector of outputs reads a few
// neighbours: one load from the first of them, whose lanes are spread.
template <typename T>
HWY_INLINE void SpreadPixels(const ResizeTable& table, const T* in, T* out, int64_t rows) {
  const hn::ScalableTag<T> d;
  const hn::ScalableTag<int32_t> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int32_t* index = table.index.data();
  const auto copy = [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t row = 0; row < rows; ++row) {
      T* const to = out + row * table.out;
      for (int64_t i = begin; i < end; ++i) to[i] = in[index[i]];
    }
  };
  int64_t o = 0;
  if (table.out >= lanes && lanes >= 4) {
    if (table.repeat == 1) return RepeatPixels<0>(table, in, out, rows);
    if (table.repeat == 2) return RepeatPixels<1>(table, in, out, rows);
    if (table.repeat == 4) return RepeatPixels<2>(table, in, out, rows);
    if constexpr (hn::MaxLanes(d) >= 8) {
      if (table.repeat == 8) return RepeatPixels<3>(table, in, out, rows);
    }
  }
  for (; o + lanes <= table.out; o += lanes) {
    // The last of them read the end of the row.
    const int64_t first = std::min<int64_t>(index[o], table.in - lanes);
    const int64_t last = index[o + lanes - 1];
    if (first < 0 || last < index[o] || last - first >= lanes) {
      copy(o, o + lanes);
      continue;
    }
    const auto steps = hn::Sub(hn::LoadU(di, index + o), hn::Set(di, static_cast<int32_t>(first)));
    const auto pixels =
        hn::TableLookupLanes(hn::LoadU(d, in + first), hn::IndicesFromVec(d, steps));
    for (int64_t row = 0; row < rows; ++row) hn::StoreU(pixels, d, out + row * table.out + o);
  }
  copy(o, table.out);
}

void SpreadWords(const ResizeTable& table, const void* in, void* out, int64_t rows, int64_t times) {
  const auto* from = static_cast<const uint32_t*>(in);
  auto* to = static_cast<uint32_t*>(out);
  for (; times > 0; --times, from += table.in, to += rows * table.out) {
    SpreadPixels(table, from, to, rows);
  }
}

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(AddFloats);
HWY_EXPORT(AddUnsigned);
HWY_EXPORT(AddSigned);
HWY_EXPORT(RoundUnsigned);
HWY_EXPORT(RoundSigned);
HWY_EXPORT(LanesOfRow);
HWY_EXPORT(ResizeNarrowImpl);
HWY_EXPORT(ResizeRowImpl);
HWY_EXPORT(SpreadWords);

void AddRows(const WeightedRows<float>& rows, float* out, int64_t count, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(AddFloats)(rows, out, count, accumulate);
}
void AddRows(const WeightedRows<uint8_t>& rows, float* out, int64_t count, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(AddUnsigned)(rows, out, count, accumulate);
}
void AddRows(const WeightedRows<int8_t>& rows, float* out, int64_t count, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(AddSigned)(rows, out, count, accumulate);
}
void RoundRow(const float* in, uint8_t* out, int64_t count) {
  HWY_DYNAMIC_DISPATCH(RoundUnsigned)(in, out, count);
}
void RoundRow(const float* in, int8_t* out, int64_t count) {
  HWY_DYNAMIC_DISPATCH(RoundSigned)(in, out, count);
}
void ResizeRow(const ResizeTable& table, const float* in, float* out, int64_t channels,
               int64_t out_stride) {
  HWY_DYNAMIC_DISPATCH(ResizeRowImpl)(table, in, out, channels, out_stride);
}

bool ResizesNarrow(const ResizePlan& plan) {
  const auto& [depth, height, width] = plan.axes;
  return depth.in == 1 && depth.out == 1 && width.in <= HWY_DYNAMIC_DISPATCH(LanesOfRow)() &&
         depth.outside.empty() && height.outside.empty() && width.outside.empty();
}
void ResizeNarrow(const ResizePlan& plan, const float* plane, int64_t begin, int64_t end,
                  float* out) {
  HWY_DYNAMIC_DISPATCH(ResizeNarrowImpl)(plan, plane, begin, end, out);
}

void CopyPixels(const ResizeTable& table, const char* in, char* out, int64_t pixel_bytes,
                int64_t out_stride, int64_t rows, int64_t times) {
  if (pixel_bytes == 4 && out_stride == 4) {
    return HWY_DYNAMIC_DISPATCH(SpreadWords)(table, in, out, rows, times);
  }
  const auto copy = [&](auto bytes) {
    for (int64_t o = 0; o < table.out; ++o) {
      std::memcpy(out + o * out_stride, in + table.index[o] * bytes, static_cast<size_t>(bytes));
    }
  };
  const int64_t row_bytes = table.out * out_stride;
  for (; times > 0; --times, in += table.in * pixel_bytes, out += rows * row_bytes) {
    if (out_stride != pixel_bytes) {
      for (int64_t row = 0; row < rows; ++row, out += row_bytes) copy(pixel_bytes);
      out -= rows * row_bytes;
      continue;
    }
    switch (pixel_bytes) {
      case 1: copy(std::integral_constant<int64_t, 1>{}); break;
      case 2: copy(std::integral_constant<int64_t, 2>{}); break;
      case 8: copy(std::integral_constant<int64_t, 8>{}); break;
      case 12: copy(std::integral_constant<int64_t, 12>{}); break;
      case 16: copy(std::integral_constant<int64_t, 16>{}); break;
      default: copy(pixel_bytes);
    }
    for (int64_t row = 1; row < rows; ++row) {
      std::memcpy(out + row * row_bytes, out, static_cast<size_t>(row_bytes));
    }
  }
}

}  // namespace sardonyx
#endif  // HWY_ONCE
