#pragma once
// Depthwise convolution of bytes: one channel a group, vectors over channels.
//
// Lines of the input are copied into a ring, padded with the zero point. Four pixels of a line make
// a quad: their channels are interleaved, so that one instruction multiplies four of them (or two,
// as int16) by the weights of a channel. Neighbouring outputs of stride 1 share their quads.

#include <algorithm>

#include "kernels/conv_int8.h"

namespace sardonyx {

// Output pixels in their order.
struct OutputPixel {
  int64_t item, at[3];
  OutputPixel(const ConvShape& s, int64_t pixel)
      : item(pixel / (s.out[0] * s.out[1] * s.out[2])),
        at{pixel / (s.out[1] * s.out[2]) % s.out[0], pixel / s.out[2] % s.out[1],
           pixel % s.out[2]} {}
  void Advance(const ConvShape& s) {
    if (++at[2] < s.out[2]) return;
    at[2] = 0;
    if (++at[1] < s.out[1]) return;
    at[1] = 0;
    if (++at[0] < s.out[0]) return;
    at[0] = 0;
    ++item;
  }
  // The input index that the kernel's position 0 meets along an axis.
  int64_t First(const ConvShape& s, int axis) const {
    return at[axis] * s.stride[axis] - s.pad_begin[axis];
  }
};

namespace conv_int8_depthwise {

bool Takes(const ConvShape& shape);
size_t PackedBytes(const ConvShape& shape);
void Pack(const ConvShape& shape, const Int8Weights& weights, void* packed);
size_t ScratchBytes(const ConvShape& shape, int threads);
void Run(const ConvShape& shape, const Int8ConvArgs& args, void* scratch, const Parallel& par);

inline constexpr int64_t kMostTaps = 49;

// Channels are cut into blocks of a vector of bytes, the last ones shorter. Within a block of n
// the four vectors of int32 hold channels in the order that interleaving makes: place k * n / 4 +
// 4 * l + e is channel 16 * l + 4 * k + e.
struct Layout {
  int64_t rows = 1;      // of the kernel
  int64_t quads = 1;     // in a row, for two outputs
  int64_t vector = 16;   // bytes
  int64_t channels = 0;  // rounded up to 16
  bool bytes = false;    // weights are int8, else int16

  int64_t Operands() const { return bytes ? 4 : 8; }  // of a quad, a vector each
  // Weights of a block: [rows, quads, output of a pair, operand, vector].
  int64_t ChannelBytes() const { return rows * quads * 2 * Operands(); }
  int64_t BlockAt(int64_t c) const {  // its channels
    int64_t n = vector;
    while (channels - c < n) n /= 2;
    return n;
  }
};

// A convolution made ready: what becomes of an output line.
struct Job {
  ConvShape shape;
  Int8ConvArgs args;
  Layout layout;
  const std::byte* weights = nullptr;
  // By channel, in the order of the blocks; scale and offset are null where sums are stored first.
  const int32_t* init = nullptr;
  const float *scale = nullptr, *offset = nullptr;
  bool pairs = false;         // outputs share quads
  int64_t line_bytes = 0;     // of the ring
  std::byte* ring = nullptr;  // of the task
};

}  // namespace conv_int8_depthwise
}  // namespace sardonyx
