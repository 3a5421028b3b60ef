#include "kernels/roi_align.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/round.h"
#include "kernels/sample.h"
#include "kernels/scratch_slots.h"
#include "kernels/transpose.h"

namespace sardonyx {
namespace {

constexpr float kMostSamples = 1 << 14;  // of an output along an axis

// One axis of a region. Float as in other engines: the number of samples is a rounded quotient.
struct RegionAxis {
  float start, bin;
  int64_t samples;

  RegionAxis(float low, float high, int64_t outputs, const RoiAlignShape& shape) {
    const float shift = shape.half_pixel ? 0.5f : 0.0f;
    start = low * shape.scale - shift;
    float extent = high * shape.scale - shift - start;
    if (!shape.half_pixel) extent = std::max(extent, 1.0f);
    bin = extent / static_cast<float>(outputs);
    const float count = shape.samples > 0 ? static_cast<float>(shape.samples) : std::ceil(bin);
    samples = count <= kMostSamples ? static_cast<int64_t>(std::max(count, 0.0f)) : -1;
  }
};

// The taps of one output along one axis: those of a sample are a pixel and the next one. Taps of
// one pixel are joined. The sum over samples of products is the product of sums; the greatest
// product of a pixel and a weight of rows and columns is one of the greatest or least weights.
struct AxisTaps {
  Tap* taps;
  int32_t count = 0;
  bool outside = false;  // of some sample

  void Add(int64_t pixel, float weight) {
    for (int32_t i = std::max(0, count - 2); i < count; ++i) {
      if (taps[i].pixel == pixel) {
        taps[i].weight += weight;
        return;
      }
    }
    taps[count++] = {static_cast<int32_t>(pixel), weight};
  }

  // Taps in pairs: a pixel's greatest weight, then its least.
  void Widen(int64_t pixel, float weight) {
    for (int32_t i = std::max(0, count - 4); i < count; i += 2) {
      if (taps[i].pixel == pixel) {
        taps[i].weight = std::max(taps[i].weight, weight);
        taps[i + 1].weight = std::min(taps[i + 1].weight, weight);
        return;
      }
    }
    taps[count] = taps[count + 1] = {static_cast<int32_t>(pixel), weight};
    count += 2;
  }
};

AxisTaps ReadAxis(const RegionAxis& axis, int64_t output, int64_t size, bool largest, Tap* taps) {
  AxisTaps result{taps};
  for (int64_t i = 0; i < axis.samples; ++i) {
    const float at = axis.start + static_cast<float>(output) * axis.bin +
                     (static_cast<float>(i) + 0.5f) * axis.bin / static_cast<float>(axis.samples);
    if (!(at >= -1 && at <= static_cast<float>(size))) {
      result.outside = true;
      continue;
    }
    const float x = std::max(at, 0.0f);
    const int64_t low = std::min(static_cast<int64_t>(x), size - 1);
    const int64_t high = std::min(low + 1, size - 1);
    const float rest = high > low ? x - static_cast<float>(low) : 0;
    const auto add = largest ? &AxisTaps::Widen : &AxisTaps::Add;
    (result.*add)(low, 1 - rest);
    (result.*add)(high, rest);
  }
  return result;
}

// The samples of an output ascend or descend, so each pixel is met once.
int64_t MostTaps(const RoiAlignShape& shape, int64_t size) {
  return (shape.largest ? 2 : 1) * (size + 2);
}

int64_t ImageBytes(const RoiAlignShape& shape) {
  return AlignBytes(shape.batch * shape.channels * shape.height * shape.width * 4);
}
int64_t TapCount(const RoiAlignShape& shape) {
  return MostTaps(shape, shape.height) + shape.columns * MostTaps(shape, shape.width);
}
int64_t SlotBytes(const RoiAlignShape& shape) {
  return AlignBytes(TapCount(shape) * static_cast<int64_t>(sizeof(Tap))) +
         AlignBytes(shape.columns * static_cast<int64_t>(sizeof(AxisTaps))) +
         AlignBytes(shape.columns * shape.channels * 4);
}

}  // namespace

int64_t RoiAlignScratchBytes(const RoiAlignShape& shape, int threads) {
  return ImageBytes(shape) + ScratchSlots::CountFor(threads) * SlotBytes(shape);
}

int64_t RoiAlign(const RoiAlignShape& shape, const float* x, const float* rois,
                 const int64_t* images, float* y, void* scratch, const Parallel& par) {
  for (int64_t r = 0; r < shape.regions; ++r) {
    const float* roi = rois + 4 * r;
    if (images[r] < -shape.batch || images[r] >= shape.batch ||
        RegionAxis(roi[0], roi[2], shape.columns, shape).samples < 0 ||
        RegionAxis(roi[1], roi[3], shape.rows, shape).samples < 0) {
      return r;
    }
  }
  auto* turned = static_cast<float*>(scratch);
  ToChannelsLast(x, shape.batch, shape.channels, shape.height * shape.width, turned, par);
  ScratchSlots slots(static_cast<std::byte*>(scratch) + ImageBytes(shape), SlotBytes(shape),
                     ScratchSlots::CountFor(par.threads));
  par.For(shape.regions, [&](int64_t r) {
    const ScratchSlots::Lease lease(slots);
    auto* memory = reinterpret_cast<std::byte*>(lease.floats());
    auto* taps = reinterpret_cast<Tap*>(memory);
    memory += AlignBytes(TapCount(shape) * static_cast<int64_t>(sizeof(Tap)));
    auto* across = reinterpret_cast<AxisTaps*>(memory);
    auto* sums = reinterpret_cast<float*>(
        memory + AlignBytes(shape.columns * static_cast<int64_t>(sizeof(AxisTaps))));
    const float* roi = rois + 4 * r;
    const RegionAxis columns(roi[0], roi[2], shape.columns, shape);
    const RegionAxis rows(roi[1], roi[3], shape.rows, shape);
    Tap* row_taps = taps + shape.columns * MostTaps(shape, shape.width);
    for (int64_t i = 0; i < shape.columns; ++i) {
      across[i] =
          ReadAxis(columns, i, shape.width, shape.largest, taps + i * MostTaps(shape, shape.width));
    }
    const int64_t image = images[r] < 0 ? images[r] + shape.batch : images[r];
    const float* pixels = turned + image * shape.height * shape.width * shape.channels;
    const int64_t count = rows.samples * columns.samples;
    float* to = y + r * shape.channels * shape.rows * shape.columns;
    for (int64_t i = 0; i < shape.rows; ++i) {
      const AxisTaps down = ReadAxis(rows, i, shape.height, shape.largest, row_taps);
      for (int64_t j = 0; j < shape.columns; ++j) {
        const TapWindow window{down.taps, across[j].taps, down.count, across[j].count};
        float* out = sums + j * shape.channels;
        if (shape.largest) {
          const bool outside = down.outside || across[j].outside || count == 0;
          MaxWindow(pixels, shape.width, shape.channels, window,
                    outside ? 0.0f : -std::numeric_limits<float>::infinity(), out);
        } else {
          SumWindow(pixels, shape.width, shape.channels, window,
                    count == 0 ? 0.0f : 1.0f / static_cast<float>(count), out);
        }
      }
      TransposeMatrix(sums, shape.channels, to + i * shape.columns, shape.rows * shape.columns,
                      shape.channels, shape.columns);
    }
  });
  return -1;
}

}  // namespace sardonyx
