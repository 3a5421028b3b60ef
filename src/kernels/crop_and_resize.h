#pragma once
// Boxes of images, each resized to one size, the corners of the box on corners of the result.

#include <cstdint>

#include "base/thread_pool.h"

namespace sardonyx {

struct CropShape {
  int64_t batch, channels, height, width;
  int64_t regions, rows, columns;  // rows and columns of a crop
  bool nearest;                    // or bilinear
  double outside;                  // the value of what lies outside the image
};

int64_t CropScratchBytes(const CropShape& shape, int element_bytes, int threads);

// y [regions, channels, rows, columns] of x [batch, channels, height, width] and rois [regions, 4]:
// y1, x1, y2, x2, where 0 and 1 are the first and the last pixel. images[r] is the image of region
// r; a negative one counts from the end. An image has less than 2^31 pixels. Returns the first
// region whose image there is not, or -1; then y is not written. Scratch is aligned to 64 bytes. T:
// float, double.
template <typename T>
int64_t CropAndResize(const CropShape& shape, const T* x, const T* rois, const int64_t* images,
                      T* y, void* scratch, const Parallel& par);

}  // namespace sardonyx
