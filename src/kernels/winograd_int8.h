#pragma once
// The linear maps of Winograd's F(4x4, 3x3) for bytes, in integers and exact.
//
// With the points 0, 1, -1, 2, -2 and infinity the maps of the input and of the weights are whole
// numbers once the fractions of the weights' map are left to the output: V = B^T d B and
// U = G' g G'^T fit into int16, and A'^T (U * V) A' is the result times 9 and a power of two up to
// 64. Sums wrap around in int32; the odd factor has an inverse modulo 2^32, and what is left, times
// another power of two, is the result times 64, which is known if the result fits into 26 bits.

#include <cstdint>

#include "kernels/gemm_int8.h"

namespace sardonyx {

inline constexpr int kInt8Positions = 36;      // of a tile of 6x6 values
inline constexpr int64_t kInt8TilePixels = 4;  // of a side of the output
// Values are transformed for a multiple of this many channels.
inline constexpr int64_t kInt8ChannelGranule = 16;
// The magnitude that results have to stay under.
inline constexpr int64_t kInt8WinogradRange = int64_t{1} << 25;

struct WinogradInt8Input {
  const uint8_t* pixels[kInt8Positions];  // of the tile, line by line
  int64_t channels;                       // a multiple of the granule
  bool is_signed;                         // bytes are int8
  int32_t zero;                           // the zero point, which is subtracted
  int16_t* values;                        // of position 0
  int64_t t_stride;                       // to those of the next
};
void TransformInt8Input(const WinogradInt8Input& args);

// Kernels [9, width, 4] of four input channels, as uint8 whose zero point is given, to the pairs
// [36, width, 2] of the first two and then of the others: those of a position t_stride behind those
// of the one before. The width is a multiple of 8.
void TransformInt8Weights(const uint8_t* kernels, int64_t width, int16_t zero, int16_t* to,
                          int64_t t_stride);

// Of bytes with the bits of `flip` turned, as uint8: the sums of what is above `zero` and of what
// is below.
struct Int8Differences {
  int64_t above = 0, below = 0;
};
Int8Differences SumInt8Differences(const uint8_t* bytes, int64_t count, uint8_t flip, uint8_t zero);

// Neighbouring tiles of a line of tiles, and a panel of columns.
struct WinogradInt8Output {
  int64_t width;            // of the panel, a multiple of 8
  const int32_t* products;  // [tiles, width] of position 0
  int64_t t_stride;
  int64_t tiles;
  int64_t lines, pixels;  // of the output that are stored: 1 ... 4, 1 ... 4 * tiles
  int64_t columns;        // of the panel that are stored
  int32_t* sums;          // room for [4, 4 * tiles, width]
  int64_t first_column;   // of scale and offset
  Int8Store store;        // where the first pixel goes
  int64_t line_pixels;    // of the output, from a line to the next
};
void TransformInt8Output(const WinogradInt8Output& args);

}  // namespace sardonyx
