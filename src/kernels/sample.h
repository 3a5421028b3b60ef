#pragma once
// Weighted sums of pixels that lie anywhere: what reading an image between its pixels comes to.
// Images are channels-last, so that one weight serves whole vectors.

#include <cstdint>

#include "base/thread_pool.h"

namespace sardonyx {

template <typename T>
struct TapOf {
  int32_t pixel;
  T weight;
};
using Tap = TapOf<float>;

// out[p * channels + c] = sum of weight * image[pixel * stride + c] over the counts[p] taps of
// point p, which begin at taps[p * most].
void SumTaps(const float* image, int64_t stride, int64_t channels, const Tap* taps,
             const int32_t* counts, int64_t most, int64_t points, float* out);

// A window of an image: entries of rows and of columns, each product of two weights is a tap.
struct TapWindow {
  const Tap *rows, *columns;  // pixel: a row, a column
  int32_t row_count, column_count;
};
// out[c] = scale * sum of the taps, or the greatest of the products of weight and pixel and of
// `least` (scale is not used then). `image` is [height, width, channels].
void SumWindow(const float* image, int64_t width, int64_t channels, const TapWindow& window,
               float scale, float* out);
void MaxWindow(const float* image, int64_t width, int64_t channels, const TapWindow& window,
               float least, float* out);

// images [n, channels, pixels] to [n, pixels, channels].
void ToChannelsLast(const float* images, int64_t n, int64_t channels, int64_t pixels, float* out,
                    const Parallel& par);

}  // namespace sardonyx
