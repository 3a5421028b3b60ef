#include "kernels/grid_sample.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/round.h"
#include "kernels/grid_points.h"
#include "kernels/sample.h"
#include "kernels/scratch_slots.h"
#include "kernels/transpose.h"

namespace sardonyx {
namespace {

using Mode = GridSampleShape::Mode;
using Padding = GridSampleShape::Padding;

constexpr int64_t kTile = GridPoints::kMost;

// What a point reads on one axis.
template <typename T>
struct AxisTaps {
  int count;
  int32_t pixel[4];
  T weight[4];
};

double Reflect(double x, int64_t size, bool align_corners) {
  const double low = align_corners ? 0 : -0.5, high = static_cast<double>(size) - 1 - low;
  if (x >= low && x <= high) return x;
  const double range = high - low, beyond = x < low ? low - x : x - high;
  const double turns = std::floor(beyond / range), rest = beyond - turns * range;
  const double from_low = (x < low) == (std::fmod(turns, 2) == 0) ? rest : range - rest;
  return std::isfinite(from_low) ? low + from_low : 0;
}

// Keys' cubic convolution kernel (1981) for neighbours at distances 1 + t, t, 1 - t, 2 - t.
void CubicWeights(double t, double weights[4]) {
  constexpr double kA = -0.75;
  const auto near = [](double d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; };
  const auto far = [](double d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; };
  weights[0] = far(1 + t);
  weights[1] = near(t);
  weights[2] = near(1 - t);
  weights[3] = far(2 - t);
}

template <typename T>
void ReadAxis(const GridSampleShape& shape, T coordinate, int64_t size, AxisTaps<T>& taps) {
  taps.count = 0;
  const T n = static_cast<T>(size);
  double x = shape.align_corners ? (coordinate + 1) / 2 * (n - 1) : ((coordinate + 1) * n - 1) / 2;
  if (shape.mode == Mode::kNearest) x = std::nearbyint(x);
  const double margin = shape.align_corners ? 0 : 0.5, end = static_cast<double>(size) - 1;
  // Cubic windows see the image go on with its border; three pixels outside they see nothing else.
  const double beyond = shape.mode == Mode::kCubic ? 3 : 0;
  if (shape.padding == Padding::kZeros) {
    if (!(x > -2 && x < end + 2)) return;  // nor a NaN
  } else if (std::isnan(x)) {
    x = 0;
  } else if (x < -margin || x > end + margin) {
    x = shape.padding == Padding::kBorder ? std::clamp(x, -beyond, end + beyond)
                                          : Reflect(x, size, shape.align_corners);
  }
  int64_t below = static_cast<int64_t>(x);
  below -= static_cast<double>(below) > x;
  const double rest = x - static_cast<double>(below);
  const auto add = [&](int64_t pixel, double weight) {
    if (pixel < 0 || pixel >= size) {
      if (shape.padding == Padding::kZeros) return;
      if (shape.padding == Padding::kReflection) {
        pixel =
            static_cast<int64_t>(Reflect(static_cast<double>(pixel), size, shape.align_corners));
      }
      pixel = std::clamp<int64_t>(pixel, 0, size - 1);
    }
    taps.pixel[taps.count] = static_cast<int32_t>(pixel);
    taps.weight[taps.count++] = static_cast<T>(weight);
  };
  switch (shape.mode) {
    case Mode::kNearest: return add(below, 1);
    case Mode::kLinear: add(below, 1 - rest); return add(below + 1, rest);
    case Mode::kCubic: {
      double weights[4];
      CubicWeights(rest, weights);
      for (int i = 0; i < 4; ++i) add(below - 1 + i, weights[i]);
    }
  }
}

template <typename T>
int32_t ReadPoint(const GridSampleShape& shape, const T* point, TapOf<T>* taps) {
  AxisTaps<T> axes[3];
  for (int axis = 0; axis < shape.rank; ++axis) {
    ReadAxis(shape, point[shape.rank - 1 - axis], shape.sizes[axis], axes[axis]);
    if (axes[axis].count == 0) return 0;
  }
  const AxisTaps<T>&rows = axes[shape.rank - 2], &columns = axes[shape.rank - 1];
  const auto height = static_cast<int32_t>(shape.sizes[shape.rank - 2]);
  const auto width = static_cast<int32_t>(shape.sizes[shape.rank - 1]);
  TapOf<T>* to = taps;
  for (int plane = 0; plane < (shape.rank == 3 ? axes[0].count : 1); ++plane) {
    const int32_t first_row = shape.rank == 3 ? axes[0].pixel[plane] * height : 0;
    const T depth_weight = shape.rank == 3 ? axes[0].weight[plane] : 1;
    for (int row = 0; row < rows.count; ++row) {
      const int32_t first = (first_row + rows.pixel[row]) * width;
      const T weight = depth_weight * rows.weight[row];
      for (int column = 0; column < columns.count; ++column) {
        *to++ = {first + columns.pixel[column], weight * columns.weight[column]};
      }
    }
  }
  return static_cast<int32_t>(to - taps);
}

template <typename T>
struct Tile {
  const TapOf<T>* taps;  // `most` a point, of which counts[i] are there
  const int32_t* counts;
  int64_t most, count, pixels, points;
};

// Of kChannels planes: their taps are read once. Points inside are done.
template <int kChannels, typename T>
void SumPlanes(const Tile<T>& tile, const GridPoints& at, const T* plane, T* to) {
  for (int64_t p = 0; p < tile.count; ++p) {
    if (at.inside(p)) continue;
    T sums[kChannels] = {};
    const TapOf<T>* tap = tile.taps + p * tile.most;
    for (const TapOf<T>* end = tap + tile.counts[p]; tap != end; ++tap) {
#pragma GCC unroll 4
      for (int c = 0; c < kChannels; ++c) {
        sums[c] += tap->weight * plane[c * tile.pixels + tap->pixel];
      }
    }
#pragma GCC unroll 4
    for (int c = 0; c < kChannels; ++c) to[c * tile.points + p] = sums[c];
  }
}

int64_t MostTaps(const GridSampleShape& shape) {
  const int64_t axis = shape.mode == Mode::kNearest ? 1 : shape.mode == Mode::kLinear ? 2 : 4;
  return axis * axis * (shape.rank == 3 ? axis : 1);
}

// Channels-last pays if most pixels are read, and vectors of channels are not mostly empty.
template <typename T>
bool TurnsImages(const GridSampleShape& shape) {
  return std::is_same_v<T, float> && shape.channels >= 4 && shape.points * 4 >= shape.pixels();
}

// Of a tile: its taps, their counts, its result before it is turned.
template <typename T>
int64_t TapBytes(const GridSampleShape& shape) {
  return AlignBytes(kTile * MostTaps(shape) * static_cast<int64_t>(sizeof(TapOf<T>)));
}
template <typename T>
int64_t SlotBytes(const GridSampleShape& shape) {
  return TapBytes<T>(shape) + kTile * 4 +
         AlignBytes(TurnsImages<T>(shape) ? kTile * shape.channels * 4 : 0);
}
template <typename T>
int64_t ImageBytes(const GridSampleShape& shape) {
  return TurnsImages<T>(shape) ? AlignBytes(shape.batch * shape.pixels() * shape.channels * 4) : 0;
}

}  // namespace

template <typename T>
int64_t GridSampleScratchBytes(const GridSampleShape& shape, int threads) {
  return ImageBytes<T>(shape) + ScratchSlots::CountFor(threads) * SlotBytes<T>(shape);
}

template <typename T>
void GridSample(const GridSampleShape& shape, const T* x, const T* grid, T* y, void* scratch,
                const Parallel& par) {
  const int64_t channels = shape.channels, pixels = shape.pixels(), most = MostTaps(shape);
  const bool turns = TurnsImages<T>(shape);
  const bool by_vectors = std::is_same_v<T, float> && ReadsGridPoints(shape);
  [[maybe_unused]] auto* images = static_cast<float*>(scratch);
  if constexpr (std::is_same_v<T, float>) {
    if (turns) ToChannelsLast(x, shape.batch, channels, pixels, images, par);
  }
  ScratchSlots slots(static_cast<std::byte*>(scratch) + ImageBytes<T>(shape), SlotBytes<T>(shape),
                     ScratchSlots::CountFor(par.threads));
  const int64_t tiles = (shape.points + kTile - 1) / kTile;
  // Some tiles a task, so that a task has 20 microseconds of work.
  const int64_t together = std::max<int64_t>(1, 1024 / (channels * most + 32));
  const int64_t tasks = (tiles + together - 1) / together;
  par.For(shape.batch * tasks, [&](int64_t task) {
    const ScratchSlots::Lease lease(slots);
    auto* memory = reinterpret_cast<std::byte*>(lease.floats());
    auto* taps = reinterpret_cast<TapOf<T>*>(memory);
    auto* counts = reinterpret_cast<int32_t*>(memory + TapBytes<T>(shape));
    const int64_t image = task / tasks, first_tile = task % tasks * together;
    for (int64_t tile = first_tile; tile < std::min(tiles, first_tile + together); ++tile) {
      const int64_t first = tile * kTile, count = std::min(kTile, shape.points - first);
      const T* points = grid + (image * shape.points + first) * shape.rank;
      T* to = y + image * channels * shape.points + first;
      GridPoints at;
      if constexpr (std::is_same_v<T, float>) {
        if (by_vectors) ReadGridPoints(shape, points, count, &at);
      }
      if (!by_vectors) std::fill_n(at.first, count, -1);
      const auto read_point = [&](int64_t p) {
        counts[p] = ReadPoint(shape, points + p * shape.rank, taps + p * most);
      };
      if constexpr (std::is_same_v<T, float>) {
        if (turns) {
          for (int64_t p = 0; p < count; ++p) {
            if (at.inside(p)) {
              counts[p] = TapsOfGridPoint(shape, at, p, taps + p * most);
            } else {
              read_point(p);
            }
          }
          auto* sums = reinterpret_cast<float*>(counts + kTile);
          SumTaps(images + image * pixels * channels, channels, channels, taps, counts, most, count,
                  sums);
          TransposeMatrix(sums, channels, to, shape.points, channels, count);
          continue;
        }
      }
      const T* plane = x + image * channels * pixels;
      if constexpr (std::is_same_v<T, float>) {
        if (by_vectors) SumGridPlanes(shape, at, count, plane, to, shape.points);
      }
      bool all = true;
      for (int64_t p = 0; p < count; ++p) {
        if (at.inside(p)) continue;
        read_point(p);
        all = false;
      }
      if (all) continue;
      const Tile<T> read{taps, counts, most, count, pixels, shape.points};
      int64_t c = 0;
      for (; c + 4 <= channels; c += 4) {
        SumPlanes<4>(read, at, plane + c * pixels, to + c * shape.points);
      }
      plane += c * pixels;
      to += c * shape.points;
      switch (channels - c) {
        case 1: SumPlanes<1>(read, at, plane, to); break;
        case 2: SumPlanes<2>(read, at, plane, to); break;
        case 3: SumPlanes<3>(read, at, plane, to); break;
      }
    }
  });
}

template int64_t GridSampleScratchBytes<float>(const GridSampleShape&, int);
template int64_t GridSampleScratchBytes<double>(const GridSampleShape&, int);
template void GridSample(const GridSampleShape&, const float*, const float*, float*, void*,
                         const Parallel&);
template void GridSample(const GridSampleShape&, const double*, const double*, double*, void*,
                         const Parallel&);

}  // namespace sardonyx
