#pragma once
// The inner loops of kernels/resize.h.

#include <cstdint>

#include "kernels/resize.h"

namespace sardonyx {

// out = weight * in, or out += weight * in.
void AddRow(const float* in, float weight, float* out, int64_t count, bool accumulate);

// out[o, :] = sum over the taps of weight * in[index, :], for pixels of `channels` floats.
void ResizeRow(const ResizeTable& table, const float* in, float* out, int64_t channels);

// out[o] = in[index of o's first tap], for pixels of pixel_bytes.
void CopyPixels(const ResizeTable& table, const char* in, char* out, int64_t pixel_bytes);

}  // namespace sardonyx
