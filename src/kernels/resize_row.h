#pragma once
// The inner loops of kernels/resize.h.

#include <cstdint>

#include "kernels/resize.h"

namespace sardonyx {

template <typename T>
struct WeightedRows {
  static constexpr int kMost = 8;
  const T* row[kMost];
  float weight[kMost];
  int count = 0;
};

// out = the sum of weight * row, or out += that.
void AddRows(const WeightedRows<float>& rows, float* out, int64_t count, bool accumulate);
void AddRows(const WeightedRows<uint8_t>& rows, float* out, int64_t count, bool accumulate);
void AddRows(const WeightedRows<int8_t>& rows, float* out, int64_t count, bool accumulate);

// To the nearest integers, ties to even; all are within the range.
void RoundRow(const float* in, uint8_t* out, int64_t count);
void RoundRow(const float* in, int8_t* out, int64_t count);

// out[o, :] = sum over the taps of weight * in[index, :], for pixels of `channels` floats, which
// are out_stride floats apart in `out`.
void ResizeRow(const ResizeTable& table, const float* in, float* out, int64_t channels,
               int64_t out_stride);

// Rows [begin, end) of an output plane of single floats, for images whose rows fit into a vector:
// one call for all, since those of small planes are short.
bool ResizesNarrow(const ResizePlan& plan);
void ResizeNarrow(const ResizePlan& plan, const float* plane, int64_t begin, int64_t end,
                  float* out);

// out[o] = in[index of o's first tap], for pixels of pixel_bytes, in `rows` equal rows; the same of
// each of the next rows of `in`, `times` in all. Pixels are out_stride bytes apart in `out`.
void CopyPixels(const ResizeTable& table, const char* in, char* out, int64_t pixel_bytes,
                int64_t out_stride, int64_t rows, int64_t times);

}  // namespace sardonyx
