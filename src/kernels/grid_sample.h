#pragma once
// GridSample: an image read at the points of a grid, in two or three dimensions.

#include <array>
#include <cstdint>

#include "base/thread_pool.h"

namespace sardonyx {

struct GridSampleShape {
  enum class Mode : uint8_t { kNearest, kLinear, kCubic };
  enum class Padding : uint8_t { kZeros, kBorder, kReflection };
  int64_t batch, channels, points;
  int rank;                      // 2 or 3
  std::array<int64_t, 3> sizes;  // of the image, `rank` of them
  Mode mode;
  Padding padding;
  bool align_corners;

  int64_t pixels() const { return sizes[0] * sizes[1] * (rank == 3 ? sizes[2] : 1); }
};

template <typename T>
int64_t GridSampleScratchBytes(const GridSampleShape& shape, int threads);

// y [batch, channels, points] of x [batch, channels, sizes...] at grid [batch, points, rank], whose
// coordinates in [-1, 1] count the last axis first. Scratch is aligned to 64 bytes. T: float,
// double.
template <typename T>
void GridSample(const GridSampleShape& shape, const T* x, const T* grid, T* y, void* scratch,
                const Parallel& par);

}  // namespace sardonyx
