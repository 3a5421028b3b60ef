#pragma once
// The three linear maps of Winograd convolution F(m x m, 3 x 3) over channels-last tensors, vectors
// over channels. See conv_winograd.cc for their order, and Lavin and Gray, "Fast Algorithms for
// Convolutional Neural Networks" (2015) for the algorithm.

#include <cstdint>

#include "kernels/conv.h"
#include "kernels/gemm_block.h"

namespace sardonyx {

// Tiles are numbered in the order (item, tile row, tile column).
struct WinogradTiles {
  int64_t rows, columns, count;  // an item's rows and columns of tiles; tiles of all items
  WinogradTiles(const ConvShape& s, int m)
      : rows(CeilDiv(s.out[1], m)),
        columns(CeilDiv(s.out[2], m)),
        count(s.batch * rows * columns) {}
};

// The transformed values of tile first + r at position t of the (m + 2) x (m + 2) positions are
// data[t * t_stride + r * ld ...], one a channel.
struct WinogradValues {
  float* data;
  int64_t t_stride, ld;
};

// Transforms the input under tiles first ... first + count - 1.
template <int kM>
void WinogradInput(const ConvShape& shape, const float* x, int64_t first, int64_t count,
                   const WinogradValues& to);

// Transforms products of `channels` channels back and stores the output pixels of the tiles, with
// the epilogue; y and the epilogue begin at the first of these channels of pixel 0.
template <int kM>
void WinogradOutput(const ConvShape& shape, const WinogradValues& from, int64_t first,
                    int64_t count, int64_t channels, float* y, const TileEpilogue& epilogue);

// Transforms weights [columns, cin, 3, 3] into (m + 2)^2 packed panels [cin, columns], one behind
// the other.
template <int kM>
void WinogradWeights(int64_t cin, int64_t columns, const float* weights, float* packed);

}  // namespace sardonyx
