#include "kernels/grid_points.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/grid_points.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "kernels/row_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<D>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

// Of an axis: the first pixel that is read, the weights of it and the next, and whether both are
// there.
struct Axis {
  V pixel, weight, next_weight;
  hn::Mask<D> inside;
};

HWY_INLINE Axis ReadAxis(const GridSampleShape& shape, int64_t size, V coordinate) {
  const D d;
  const V one = hn::Set(d, 1.0f), half = hn::Set(d, 0.5f), zero = hn::Zero(d);
  const V n = hn::Set(d, static_cast<float>(size)), last = hn::Sub(n, one);
  // The operations of the standard's formula, one by one: results are those of single points.
  const V from_one = hn::Add(coordinate, one);
  const V x = shape.align_corners ? hn::Mul(hn::Mul(from_one, half), last)
                                  : hn::Mul(hn::Sub(hn::Mul(from_one, n), one), half);
  if (shape.mode == GridSampleShape::Mode::kNearest) {
    const V pixel = hn::Round(x);
    return {pixel, one, zero, hn::And(hn::Ge(pixel, zero), hn::Le(pixel, last))};
  }
  const V pixel = hn::Floor(x);
  return {pixel, hn::Sub(hn::Add(pixel, one), x), hn::Sub(x, pixel),
          hn::And(hn::Ge(x, zero), hn::Lt(x, last))};
}

void ReadPoints(const GridSampleShape& shape, const float* points, int64_t count, GridPoints* at) {
  const D d;
  const DI di;
  // Points that are not there lie nowhere.
  HWY_ALIGN float last[2 * kLanes];
  const auto width = hn::Set(di, static_cast<int32_t>(shape.sizes[1]));
  for (int64_t p = 0; p < count; p += kLanes, points += 2 * kLanes) {
    if (p + kLanes > count) {
      std::fill(last, last + 2 * kLanes, std::numeric_limits<float>::quiet_NaN());
      std::copy_n(points, 2 * (count - p), last);
      points = last;
    }
    V column_at, row_at;
    hn::LoadInterleaved2(d, points, column_at, row_at);
    const Axis column = ReadAxis(shape, shape.sizes[1], column_at);
    const Axis row = ReadAxis(shape, shape.sizes[0], row_at);
    const auto inside = hn::And(column.inside, row.inside);
    const V zero = hn::Zero(d);
    const auto pixel =
        hn::Add(hn::Mul(hn::ConvertTo(di, hn::IfThenElse(inside, row.pixel, zero)), width),
                hn::ConvertTo(di, hn::IfThenElse(inside, column.pixel, zero)));
    hn::Store(hn::IfThenElse(hn::RebindMask(di, inside), pixel, hn::Set(di, -1)), di,
              at->first + p);
    hn::Store(hn::Mul(row.weight, column.weight), d, at->weights[0] + p);
    if (shape.mode == GridSampleShape::Mode::kNearest) continue;
    hn::Store(hn::Mul(row.weight, column.next_weight), d, at->weights[1] + p);
    hn::Store(hn::Mul(row.next_weight, column.weight), d, at->weights[2] + p);
    hn::Store(hn::Mul(row.next_weight, column.next_weight), d, at->weights[3] + p);
  }
}

template <bool kLinear>
HWY_INLINE void SumPlanesOf(const GridSampleShape& shape, const GridPoints& at, int64_t count,
                            const float* planes, float* to, int64_t to_stride) {
  const D d;
  const DI di;
  const int64_t width = shape.sizes[1], pixels = shape.pixels();
  for (int64_t p = 0; p < count; p += kLanes) {
    const auto found = hn::Load(di, at.first + p);
    const auto none = hn::Lt(found, hn::Zero(di));
    if (hn::AllTrue(di, none)) continue;
    // Some are inside, so the image has pixels enough for others to read its first ones.
    const auto first = hn::IfThenZeroElse(none, found);
    const int64_t left = std::min(kLanes, count - p);
    const V w0 = hn::Load(d, at.weights[0] + p), w1 = hn::Load(d, at.weights[1] + p),
            w2 = hn::Load(d, at.weights[2] + p), w3 = hn::Load(d, at.weights[3] + p);
    const float* plane = planes;
    float* out = to + p;
    for (int64_t c = 0; c < shape.channels; ++c, plane += pixels, out += to_stride) {
      V sum = hn::GatherIndex(d, plane, first);
      if constexpr (kLinear) {
        sum = hn::Mul(w0, sum);
        sum = hn::MulAdd(w1, hn::GatherIndex(d, plane + 1, first), sum);
        sum = hn::MulAdd(w2, hn::GatherIndex(d, plane + width, first), sum);
        sum = hn::MulAdd(w3, hn::GatherIndex(d, plane + width + 1, first), sum);
      }
      left == kLanes ? hn::StoreU(sum, d, out) : StorePart(sum, d, out, left);
    }
  }
}

void SumPlanes(const GridSampleShape& shape, const GridPoints& at, int64_t count,
               const float* planes, float* to, int64_t to_stride) {
  if (shape.mode == GridSampleShape::Mode::kLinear) {
    SumPlanesOf<true>(shape, at, count, planes, to, to_stride);
  } else {
    SumPlanesOf<false>(shape, at, count, planes, to, to_stride);
  }
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(ReadPoints);
HWY_EXPORT(SumPlanes);

bool ReadsGridPoints(const GridSampleShape& shape) {
  constexpr int64_t kExact = 1 << 23;
  return shape.rank == 2 && shape.mode != GridSampleShape::Mode::kCubic &&
         shape.sizes[0] < kExact && shape.sizes[1] < kExact;
}

void ReadGridPoints(const GridSampleShape& shape, const float* points, int64_t count,
                    GridPoints* at) {
  HWY_DYNAMIC_DISPATCH(ReadPoints)(shape, points, count, at);
}

void SumGridPlanes(const GridSampleShape& shape, const GridPoints& at, int64_t count,
                   const float* planes, float* to, int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(SumPlanes)(shape, at, count, planes, to, to_stride);
}

int32_t TapsOfGridPoint(const GridSampleShape& shape, const GridPoints& at, int64_t p, Tap* taps) {
  const int32_t first = at.first[p], below = first + static_cast<int32_t>(shape.sizes[1]);
  taps[0] = {first, at.weights[0][p]};
  if (shape.mode == GridSampleShape::Mode::kNearest) return 1;
  taps[1] = {first + 1, at.weights[1][p]};
  taps[2] = {below, at.weights[2][p]};
  taps[3] = {below + 1, at.weights[3][p]};
  return 4;
}

}  // namespace sardonyx
#endif
