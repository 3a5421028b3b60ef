#include "kernels/resize.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "kernels/resize_row.h"
#include "kernels/slices.h"

namespace sardonyx {
namespace {

bool Outside(const ResizeTable& table, int64_t o) {
  return !table.outside.empty() && table.outside[o] != 0;
}

int64_t RoundUp(int64_t floats) { return (floats + 15) / 16 * 16; }

// Rows of the output, and how they are cut.
Slices RowSlices(const ResizePlan& plan, int64_t planes, int64_t channels) {
  const auto& [depth, height, width] = plan.axes;
  const int64_t vertical = depth.taps * height.taps * width.in, across = width.taps * width.out;
  return Slice(planes * depth.out * height.out, (vertical + across) * channels / 4 + 4);
}

// Floats of scratch a task has: a row of the input; of bytes also one of the output.
template <typename T>
int64_t TaskFloats(const ResizePlan& plan, int64_t channels) {
  const int64_t in = RoundUp(plan.axes[2].in * channels);
  return std::is_same_v<T, float> ? in : in + RoundUp(plan.axes[2].out * channels);
}

template <typename T>
size_t ScratchBytes(const ResizePlan& plan, int64_t planes, int64_t channels) {
  if (plan.nearest) return 0;
  const int64_t tasks = RowSlices(plan, planes, channels).tasks;
  return sizeof(float) * static_cast<size_t>(tasks * TaskFloats<T>(plan, channels));
}

// The weighted sum of the input rows that output row (d, h) of a plane reads: in `mixed`, or where
// it is if that is a single row of weight 1.
template <typename T>
const float* MixRows(const ResizePlan& plan, const T* plane, int64_t d, int64_t h, int64_t in_row,
                     float* mixed) {
  const auto& [depth, height, width] = plan.axes;
  WeightedRows<T> rows;
  bool is_begun = false;
  for (int i = 0; i < depth.taps; ++i) {
    for (int j = 0; j < height.taps; ++j) {
      const int64_t di = i * depth.out + d, hj = j * height.out + h;
      const float weight = depth.weight[di] * height.weight[hj];
      if (weight == 0.0f) continue;
      if (rows.count == rows.kMost) {
        AddRows(rows, mixed, in_row, is_begun);
        rows.count = 0;
        is_begun = true;
      }
      rows.row[rows.count] = plane + (depth.index[di] * height.in + height.index[hj]) * in_row;
      rows.weight[rows.count++] = weight;
    }
  }
  if constexpr (std::is_same_v<T, float>) {
    if (!is_begun && rows.count == 1 && rows.weight[0] == 1.0f) return rows.row[0];
  }
  AddRows(rows, mixed, in_row, is_begun);
  return mixed;
}

// Planes of rows that ResizesNarrow.
void ResizeNarrowPlanes(const ResizePlan& plan, const float* x, float* y, int64_t planes,
                        const Parallel& par) {
  const auto& [depth, height, width] = plan.axes;
  const Slices slices = RowSlices(plan, planes, 1);
  par.For(slices.tasks, [&](int64_t task) {
    const int64_t end = slices.End(task, planes * height.out);
    for (int64_t row = slices.Begin(task), count; row < end; row += count) {
      const int64_t plane = row / height.out, h = row % height.out;
      count = std::min(end - row, height.out - h);
      ResizeNarrow(plan, x + plane * height.in * width.in, h, h + count, y + row * width.out);
    }
  });
}

template <typename T>
void ResizeRows(const ResizePlan& plan, const T* x, T* y, int64_t planes, int64_t channels,
                int64_t y_stride, void* scratch, const Parallel& par) {
  const auto& [depth, height, width] = plan.axes;
  const int64_t in_row = width.in * channels, out_row = width.out * y_stride;
  const auto extrapolate = [&](float* pixel) {
    std::fill_n(pixel, channels, plan.extrapolation_value);
  };
  const int64_t rows = planes * depth.out * height.out;
  const Slices slices = RowSlices(plan, planes, channels);
  par.For(slices.tasks, [&](int64_t task) {
    float* mixed = static_cast<float*>(scratch) + task * TaskFloats<T>(plan, channels);
    const int64_t begin = slices.Begin(task);
    int64_t h = begin % height.out, d = begin / height.out % depth.out;
    const T* plane = x + begin / height.out / depth.out * depth.in * height.in * in_row;
    for (int64_t row = begin; row < slices.End(task, rows); ++row, ++h) {
      if (h == height.out) h = 0, ++d;
      if (d == depth.out) d = 0, plane += depth.in * height.in * in_row;
      float* to;
      if constexpr (std::is_same_v<T, float>) {
        to = y + row * out_row;
      } else {
        to = mixed + RoundUp(in_row);
      }
      if (Outside(height, h) || Outside(depth, d)) {
        for (int64_t o = 0; o < width.out; ++o) extrapolate(to + o * y_stride);
      } else {
        ResizeRow(width, MixRows(plan, plane, d, h, in_row, mixed), to, channels, y_stride);
        for (int64_t o = 0; o < static_cast<int64_t>(width.outside.size()); ++o) {
          if (Outside(width, o)) extrapolate(to + o * y_stride);
        }
      }
      if constexpr (!std::is_same_v<T, float>) RoundRow(to, y + row * out_row, out_row);
    }
  });
}

}  // namespace

size_t ResizeScratchBytes(const ResizePlan& plan, int64_t planes, int64_t channels) {
  return ScratchBytes<float>(plan, planes, channels);
}

void Resize(const ResizePlan& plan, const float* x, float* y, int64_t planes, int64_t channels,
            void* scratch, const Parallel& par, int64_t y_stride) {
  if (y_stride == 0) y_stride = channels;
  if (plan.nearest) {
    ResizeNearestBytes(plan, x, y, planes, channels * 4, &plan.extrapolation_value, 4, par,
                       y_stride * 4);
    return;
  }
  if (channels == 1 && y_stride == 1 && ResizesNarrow(plan)) {
    return ResizeNarrowPlanes(plan, x, y, planes, par);
  }
  ResizeRows(plan, x, y, planes, channels, y_stride, scratch, par);
}

size_t ResizeBytesScratchBytes(const ResizePlan& plan, int64_t planes, int64_t channels) {
  return ScratchBytes<uint8_t>(plan, planes, channels);
}

template <typename T>
void ResizeBytes(const ResizePlan& plan, const T* x, T* y, int64_t planes, int64_t channels,
                 void* scratch, const Parallel& par) {
  ResizeRows(plan, x, y, planes, channels, channels, scratch, par);
}
template void ResizeBytes(const ResizePlan&, const uint8_t*, uint8_t*, int64_t, int64_t, void*,
                          const Parallel&);
template void ResizeBytes(const ResizePlan&, const int8_t*, int8_t*, int64_t, int64_t, void*,
                          const Parallel&);

void ResizeNearestBytes(const ResizePlan& plan, const void* x, void* y, int64_t planes,
                        int64_t pixel_bytes, const void* extrapolation, int element_bytes,
                        const Parallel& par, int64_t y_stride) {
  if (y_stride == 0) y_stride = pixel_bytes;
  const auto& [depth, height, width] = plan.axes;
  const int64_t in_row = width.in * pixel_bytes, out_row = width.out * y_stride;
  const int64_t rows = planes * depth.out * height.out;
  const Slices slices = Slice(rows, width.out * (pixel_bytes / 16 + 1));
  // Then all of them lie one behind the other, those of the next plane too, and none is outside.
  const bool repeats_rows =
      height.repeat > 0 && width.repeat > 0 && depth.in == 1 && depth.out == 1;
  const auto extrapolate = [&](char* pixel) {
    for (int64_t i = 0; i < pixel_bytes; i += element_bytes) {
      std::memcpy(pixel + i, extrapolation, static_cast<size_t>(element_bytes));
    }
  };
  par.For(slices.tasks, [&](int64_t task) {
    const int64_t begin = slices.Begin(task), end = slices.End(task, rows);
    int64_t h = begin % height.out, d = begin / height.out % depth.out;
    int64_t plane = begin / height.out / depth.out;
    const auto advance = [&](int64_t count) {
      for (h += count; h >= height.out; h -= height.out) {
        if (++d == depth.out) d = 0, ++plane;
      }
    };
    // Rows that are made of the same one; so many times, each of the next one.
    int64_t same, times;
    for (int64_t row = begin; row < end; row += same * times, advance(same * times)) {
      char* to = static_cast<char*>(y) + row * out_row;
      same = times = 1;
      if (Outside(height, h) || Outside(depth, d)) {
        for (int64_t o = 0; o < width.out; ++o) extrapolate(to + o * y_stride);
        continue;
      }
      const char* from =
          static_cast<const char*>(x) +
          ((plane * depth.in + depth.index[d]) * height.in + height.index[h]) * in_row;
      if (repeats_rows && h % height.repeat == 0 && row + height.repeat <= end) {
        same = height.repeat;
        times = (end - row) / same;
      } else {
        while (row + same < end && h + same < height.out &&
               height.index[h + same] == height.index[h] && !Outside(height, h + same)) {
          ++same;
        }
      }
      CopyPixels(width, from, to, pixel_bytes, y_stride, same, times);
      for (int64_t o = 0; o < static_cast<int64_t>(width.outside.size()); ++o) {
        for (int64_t i = 0; i < same && Outside(width, o); ++i) {
          extrapolate(to + i * out_row + o * y_stride);
        }
      }
    }
  });
}

}  // namespace sardonyx
