#include "kernels/resize.h"

#include <algorithm>
#include <cstring>

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

}  // namespace

size_t ResizeScratchBytes(const ResizePlan& plan, int64_t planes, int64_t channels) {
  if (plan.nearest) return 0;
  const int64_t tasks = RowSlices(plan, planes, channels).tasks;
  return sizeof(float) * static_cast<size_t>(tasks * RoundUp(plan.axes[2].in * channels));
}

void Resize(const ResizePlan& plan, const float* x, float* y, int64_t planes, int64_t channels,
            void* scratch, const Parallel& par) {
  if (plan.nearest) {
    ResizeNearestBytes(plan, x, y, planes, channels * 4, &plan.extrapolation_value, 4, par);
    return;
  }
  const auto& [depth, height, width] = plan.axes;
  const int64_t in_row = width.in * channels, out_row = width.out * channels;
  const int64_t rows = planes * depth.out * height.out;
  const Slices slices = RowSlices(plan, planes, channels);
  par.For(slices.tasks, [&](int64_t task) {
    float* mixed = static_cast<float*>(scratch) + task * RoundUp(in_row);
    for (int64_t row = slices.Begin(task); row < slices.End(task, rows); ++row) {
      float* to = y + row * out_row;
      const int64_t h = row % height.out, d = row / height.out % depth.out;
      if (Outside(height, h) || Outside(depth, d)) {
        std::fill_n(to, out_row, plan.extrapolation_value);
        continue;
      }
      const float* plane = x + row / height.out / depth.out * depth.in * height.in * in_row;
      // The weighted sum of the input rows that this output row reads, then along the row. A single
      // row of weight 1 is read where it is.
      const float* source = nullptr;
      bool is_mixed = false;
      for (int i = 0; i < depth.taps; ++i) {
        for (int j = 0; j < height.taps; ++j) {
          const int64_t di = i * depth.out + d, hj = j * height.out + h;
          const float weight = depth.weight[di] * height.weight[hj];
          if (weight == 0.0f) continue;
          const float* from = plane + (depth.index[di] * height.in + height.index[hj]) * in_row;
          if (source == nullptr && weight == 1.0f) {
            source = from;
            continue;
          }
          if (source != nullptr && !is_mixed) std::copy_n(source, in_row, mixed);
          AddRow(from, weight, mixed, in_row, source != nullptr);
          source = mixed;
          is_mixed = true;
        }
      }
      if (source == nullptr) {
        std::fill_n(mixed, in_row, 0.0f);
        source = mixed;
      }
      ResizeRow(width, source, to, channels);
      for (int64_t o = 0; o < static_cast<int64_t>(width.outside.size()); ++o) {
        if (Outside(width, o)) std::fill_n(to + o * channels, channels, plan.extrapolation_value);
      }
    }
  });
}

void ResizeNearestBytes(const ResizePlan& plan, const void* x, void* y, int64_t planes,
                        int64_t pixel_bytes, const void* extrapolation, int element_bytes,
                        const Parallel& par) {
  const auto& [depth, height, width] = plan.axes;
  const int64_t in_row = width.in * pixel_bytes, out_row = width.out * pixel_bytes;
  const int64_t rows = planes * depth.out * height.out;
  const Slices slices = Slice(rows, width.out * (pixel_bytes / 16 + 1));
  const auto fill = [&](char* to, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += element_bytes) {
      std::memcpy(to + i, extrapolation, static_cast<size_t>(element_bytes));
    }
  };
  par.For(slices.tasks, [&](int64_t task) {
    const char* before = nullptr;  // what the row above this one was made of
    for (int64_t row = slices.Begin(task); row < slices.End(task, rows); ++row) {
      char* to = static_cast<char*>(y) + row * out_row;
      const int64_t h = row % height.out, d = row / height.out % depth.out;
      if (Outside(height, h) || Outside(depth, d)) {
        fill(to, out_row);
        before = nullptr;
        continue;
      }
      const int64_t plane = row / height.out / depth.out;
      const char* from =
          static_cast<const char*>(x) +
          ((plane * depth.in + depth.index[d]) * height.in + height.index[h]) * in_row;
      if (from == before) {
        std::memcpy(to, to - out_row, static_cast<size_t>(out_row));
        continue;
      }
      before = from;
      CopyPixels(width, from, to, pixel_bytes);
      for (int64_t o = 0; o < static_cast<int64_t>(width.outside.size()); ++o) {
        if (Outside(width, o)) fill(to + o * pixel_bytes, pixel_bytes);
      }
    }
  });
}

}  // namespace sardonyx
