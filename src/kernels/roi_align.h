#pragma once
// RoiAlign: regions of images resampled on a grid, each output the mean of its samples, or the
// greatest product of a pixel and its weight.

#include <cstdint>

#include "base/thread_pool.h"

namespace sardonyx {

struct RoiAlignShape {
  int64_t batch, channels, height, width;
  int64_t regions, rows, columns;  // rows and columns of the output
  int64_t samples;                 // of an output along an axis; 0: as many as it has pixels
  bool half_pixel, largest;
  float scale;  // from the coordinates of regions to pixels
};

int64_t RoiAlignScratchBytes(const RoiAlignShape& shape, int threads);

// y [regions, channels, rows, columns] of x [batch, channels, height, width] and rois [regions, 4]:
// x1, y1, x2, y2. images[r] is the image of region r; a negative one counts from the end. Returns
// the first region whose image there is not, or that is far too large, or -1 when all are good;
// then y is not written. Scratch is aligned to 64 bytes.
int64_t RoiAlign(const RoiAlignShape& shape, const float* x, const float* rois,
                 const int64_t* images, float* y, void* scratch, const Parallel& par);

}  // namespace sardonyx
