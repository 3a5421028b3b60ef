#pragma once
// How a convolution of planes is cut into blocks, which kernels/conv_planes.cc takes one by one.

#include <algorithm>
#include <cstdint>

#include "base/round.h"
#include "kernels/chains.h"
#include "kernels/conv_planes.h"

namespace sardonyx {
// Floats of the lines of a block, in the first-level cache beside what is made of them.
inline constexpr int64_t kLineFloats = 8192;
// Planes of the input in a block. Of 5 x 5 taps they are one chain of sums.
inline constexpr int64_t kMostPlanes = 16;
// So many fit into a block of one line however long it is.
inline constexpr int64_t kFewPlanes = 4;
static_assert(kMostPlanes * 5 * 5 <= kOneChain);

// What a window spans along an axis.
inline int64_t WindowSpan(const ConvShape& s, int axis) {
  return (s.kernel[axis] - 1) * s.dilation[axis] + 1;
}

// A window of 3 x 3 or 5 x 5 at steps of 1.
inline bool IsSquare(const ConvShape& s) {
  const auto is_one = [&](int i) { return s.stride[i] == 1 && s.dilation[i] == 1; };
  return (s.kernel[1] == 3 || s.kernel[1] == 5) && s.kernel[2] == s.kernel[1] && is_one(1) &&
         is_one(2);
}

// How planes are cut into blocks, whose input is copied with its padding: each line as one behind
// the other of its phases, the columns that are a stride apart. A window sees planes of several
// channels and depths; those that do not fit beside the others are added later. Made once a call.
struct PlaneBlocks {
  PlaneBlocks(const ConvShape& s, int64_t lanes) {
    const int64_t span = WindowSpan(s, 1), stride = s.stride[2];
    const int64_t middle = s.kernel[2] / 2 * s.dilation[2] / stride;
    if (stride <= 2) lead = RoundUp(middle, lanes) - middle;
    const int64_t all = s.cin / s.groups * s.kernel[0];
    const int64_t lines = span == 1 ? std::min(all, kFewPlanes) : span;
    columns = s.out[2];
    for (;; columns = RoundUp(CeilDiv(columns, 2), lanes)) {
      vectors = columns > 2 * lanes ? 4 : columns > lanes ? 2 : 1;
      phase = lead + RoundUp(columns, vectors * lanes) + (WindowSpan(s, 2) - 1) / stride;
      if (stride <= 2 || stride == 4) phase = RoundUp(phase, lanes);
      line = phase * stride;
      if (lines * line <= kLineFloats || columns <= lanes) break;
    }
    constexpr int64_t kLeastRows = 8;
    const int64_t lines_of_few = (std::min(s.out[1], kLeastRows) - 1) * s.stride[1] + span;
    planes =
        std::clamp<int64_t>(kLineFloats / (line * lines_of_few), 1, std::min(all, kMostPlanes));
    planes = CeilDiv(all, CeilDiv(all, planes));
    const int64_t fitting = kLineFloats / (line * planes);
    rows = std::clamp<int64_t>((fitting - span) / s.stride[1] + 1, 1, s.out[1]);
    // Of about one size.
    rows = CeilDiv(s.out[1], CeilDiv(s.out[1], rows));
    chain = std::max<int64_t>(1, kOneChain / s.kernel[2]);
    plane = ((rows - 1) * s.stride[1] + span) * line;
    step = s.stride[1] * line;
    down = s.dilation[1] * line;
    for (int64_t kx = 0; kx < s.kernel[2]; ++kx) {
      const int64_t column = kx * s.dilation[2];
      at[kx] = column % stride * phase + lead + column / stride;
    }
  }

  int64_t lead = 0;       // floats before a phase, so that loads of a window's middle are aligned
  int64_t columns, rows;  // of outputs, at most
  int64_t planes;         // of inputs, at most
  int64_t vectors;        // of a line that are summed at a time: 1, 2 or 4
  int64_t phase, line, plane;  // floats from one to the next
  int64_t chain;  // lines of a window in one chain of sums, as long as those of products
  // Floats from the lines of a window to those of the one below, from one of its lines to the next,
  // and where in a line each of its columns is.
  int64_t step, down, at[kWidestLineWindow];
};

// A plane of the input that windows see, and where its weights begin in those of a result.
struct SeenPlane {
  const float* x;
  int64_t w;
};
struct SeenPlanes {
  int64_t count = 0;
  SeenPlane planes[kMostPlanes];
};

// Some rows of some of the planes that a group makes at one depth.
struct PlaneRows {
  const float* x;           // of the group
  const float* w;           // of the first of these results
  float* y;                 // of that, at this depth
  int64_t depth;            // of the input, which the first taps see
  int64_t begin, end;       // of the rows
  int64_t result, results;  // the first among the item's channels, and how many
  int64_t item;             // of the batch
};

}  // namespace sardonyx
