#include "kernels/crop_and_resize.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/crop_and_resize.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "base/round.h"
#include "kernels/scratch_slots.h"
#include "kernels/slices.h"

#ifndef SARDONYX_KERNELS_CROP_AND_RESIZE
#define SARDONYX_KERNELS_CROP_AND_RESIZE
namespace sardonyx {
// Where the outputs of an axis lie: between pixels low and high, at `rest` of the way. Those from
// `first` to before `last` lie inside the image.
template <typename T>
struct CropAxis {
  hwy::MakeSigned<T>*low, *high;
  T* rest;
  int64_t first, last;
};
}  // namespace sardonyx
#endif

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// The outputs inside, of a row between two lines of the image, `rest` of the way to the second.
template <typename T>
void CropRow(const T* low, const T* high, T rest, const CropAxis<T>& axis, T* y) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto down = hn::Set(d, rest);
  int64_t i = axis.first;
  for (; i + lanes <= axis.last; i += lanes) {
    const auto left = hn::LoadU(di, axis.low + i), right = hn::LoadU(di, axis.high + i);
    const auto across = hn::LoadU(d, axis.rest + i);
    const auto between = [&](const T* line) HWY_ATTR {
      const auto a = hn::GatherIndex(d, line, left), b = hn::GatherIndex(d, line, right);
      return hn::MulAdd(hn::Sub(b, a), across, a);
    };
    const auto top = between(low), bottom = between(high);
    hn::StoreU(hn::MulAdd(hn::Sub(bottom, top), down, top), d, y + i);
  }
  for (; i < axis.last; ++i) {
    const auto between = [&](const T* line) {
      const T a = line[axis.low[i]];
      return a + (line[axis.high[i]] - a) * axis.rest[i];
    };
    const T top = between(low);
    y[i] = top + (between(high) - top) * rest;
  }
}

void CropFloats(const float* low, const float* high, float rest, const CropAxis<float>& axis,
                float* y) {
  CropRow(low, high, rest, axis, y);
}
void CropDoubles(const double* low, const double* high, double rest, const CropAxis<double>& axis,
                 double* y) {
  CropRow(low, high, rest, axis, y);
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {
namespace {

HWY_EXPORT(CropFloats);
HWY_EXPORT(CropDoubles);

int64_t AxisBytes(int64_t outputs, int element_bytes) {
  return 3 * AlignBytes(outputs * element_bytes);
}

template <typename T>
CropAxis<T> ReadAxis(T start, T end, int64_t size, int64_t outputs, bool nearest, void* memory) {
  using Index = hwy::MakeSigned<T>;
  const int64_t bytes = AlignBytes(outputs * static_cast<int64_t>(sizeof(T)));
  auto* const at = static_cast<std::byte*>(memory);
  CropAxis<T> axis{reinterpret_cast<Index*>(at), reinterpret_cast<Index*>(at + bytes),
                   reinterpret_cast<T*>(at + 2 * bytes), outputs, 0};
  const T most = static_cast<T>(size - 1);
  const T scale = outputs > 1 ? (end - start) * most / static_cast<T>(outputs - 1) : T(0);
  for (int64_t i = 0; i < outputs; ++i) {
    const T place =
        outputs > 1 ? start * most + static_cast<T>(i) * scale : T(0.5) * (start + end) * most;
    if (!(place >= 0 && place <= most)) continue;
    axis.first = std::min(axis.first, i);
    axis.last = i + 1;
    const auto low = static_cast<Index>(place);
    const T rest = place - static_cast<T>(low);
    // Halves go away from zero.
    axis.low[i] = nearest ? low + static_cast<Index>(rest >= T(0.5)) : low;
    axis.high[i] = nearest ? axis.low[i] : low + static_cast<Index>(rest > 0);
    axis.rest[i] = nearest ? T(0) : rest;
  }
  axis.first = std::min(axis.first, axis.last);
  return axis;
}

}  // namespace

int64_t CropScratchBytes(const CropShape& shape, int element_bytes, int threads) {
  return ScratchSlots::CountFor(threads) *
         (AxisBytes(shape.rows, element_bytes) + AxisBytes(shape.columns, element_bytes));
}

template <typename T>
int64_t CropAndResize(const CropShape& shape, const T* x, const T* rois, const int64_t* images,
                      T* y, void* scratch, const Parallel& par) {
  for (int64_t r = 0; r < shape.regions; ++r) {
    if (images[r] < -shape.batch || images[r] >= shape.batch) return r;
  }
  const int64_t row_bytes = AxisBytes(shape.rows, sizeof(T));
  ScratchSlots slots(scratch, row_bytes + AxisBytes(shape.columns, sizeof(T)),
                     ScratchSlots::CountFor(par.threads));
  const int64_t planes = shape.regions * shape.channels, pixels = shape.rows * shape.columns;
  const T outside = static_cast<T>(shape.outside);
  const Slices slices = Slice(planes, 5 * pixels);
  par.For(slices.tasks, [&](int64_t task) {
    const ScratchSlots::Lease lease(slots);
    auto* const memory = reinterpret_cast<std::byte*>(lease.floats());
    CropAxis<T> rows{}, columns{};
    int64_t read = -1;  // the region that they are of
    for (int64_t p = slices.Begin(task); p < slices.End(task, planes); ++p) {
      const int64_t r = p / shape.channels, channel = p % shape.channels;
      if (r != read) {
        const T* roi = rois + 4 * r;
        rows = ReadAxis(roi[0], roi[2], shape.height, shape.rows, shape.nearest, memory);
        columns =
            ReadAxis(roi[1], roi[3], shape.width, shape.columns, shape.nearest, memory + row_bytes);
        read = r;
      }
      const int64_t image = images[r] < 0 ? images[r] + shape.batch : images[r];
      const T* from = x + (image * shape.channels + channel) * shape.height * shape.width;
      T* to = y + p * pixels;
      for (int64_t i = 0; i < shape.rows; ++i, to += shape.columns) {
        if (i < rows.first || i >= rows.last) {
          std::fill_n(to, shape.columns, outside);
          continue;
        }
        std::fill(to, to + columns.first, outside);
        std::fill(to + columns.last, to + shape.columns, outside);
        const T *low = from + rows.low[i] * shape.width, *high = from + rows.high[i] * shape.width;
        if constexpr (sizeof(T) == 4) {
          HWY_DYNAMIC_DISPATCH(CropFloats)(low, high, rows.rest[i], columns, to);
        } else {
          HWY_DYNAMIC_DISPATCH(CropDoubles)(low, high, rows.rest[i], columns, to);
        }
      }
    }
  });
  return -1;
}

template int64_t CropAndResize(const CropShape&, const float*, const float*, const int64_t*, float*,
                               void*, const Parallel&);
template int64_t CropAndResize(const CropShape&, const double*, const double*, const int64_t*,
                               double*, void*, const Parallel&);

}  // namespace sardonyx
#endif
