#pragma once
// Points of grids in images of two dimensions, a vector of them at a time: those whose pixels all
// lie inside of the image, where no mode of padding has a say.

#include <cstdint>

#include "kernels/grid_sample.h"
#include "kernels/sample.h"

namespace sardonyx {

// Of up to kMost points.
struct GridPoints {
  static constexpr int64_t kMost = 64;
  alignas(64) int32_t first[kMost];     // pixel above and to the left of a point, -1: not inside
  alignas(64) float weights[4][kMost];  // of it, its right neighbour, and the two below

  bool inside(int64_t p) const { return first[p] >= 0; }
};

// Whether ReadGridPoints knows such points: nearest or linear ones in two dimensions, of images
// whose lines and columns a float counts exactly.
bool ReadsGridPoints(const GridSampleShape& shape);

// Where points [count, 2] of the grid lie.
void ReadGridPoints(const GridSampleShape& shape, const float* points, int64_t count,
                    GridPoints* at);

// to[c * to_stride + p] = what point p reads of plane c, for those inside; others get any number.
void SumGridPlanes(const GridSampleShape& shape, const GridPoints& at, int64_t count,
                   const float* planes, float* to, int64_t to_stride);

// The taps of a point that is inside; returns how many.
int32_t TapsOfGridPoint(const GridSampleShape& shape, const GridPoints& at, int64_t p, Tap* taps);

}  // namespace sardonyx
