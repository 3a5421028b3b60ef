#pragma once
// How a convolution as a matrix product is cut: what of the input is read where it is, in lines or
// gathered, and into which parts.

#include <cstddef>
#include <cstdint>

#include "kernels/conv_internal.h"

namespace sardonyx::conv_gemm {

inline constexpr int64_t kMostParts = 160;  // of the rows, or of the columns

struct Cut {
  int64_t k = 0, n = 0, pixels = 0;  // of a group's product
  bool tiles = false;                // by matrix tiles (gemm_amx.h)
  int64_t row_parts = 1, column_parts = 1, most_columns = 0;
  int64_t row_unit = 1;    // parts of the rows begin at multiples of it
  int64_t row_height = 1;  // and blocks of them at multiples of this one
  int64_t pieces = 0;      // of each line, which are then the parts of the rows; else 0
  int64_t kc = 0, rows = 0;
  enum class Source { kDirect, kAhead, kSlid, kLines, kInTask } source = Source::kInTask;
  int64_t a_ld = 0;
  int64_t group_floats = 0;  // kAhead, kSlid: from a group's rows to the next one's
  // kLines: pixels of an output line whose windows do not cross its ends, output lines at a time,
  // kernel lines at a time. The pixels at the ends are gathered: of these lines together, or
  // `along` the line so many where they are more than lines.
  int64_t inner_begin = 0, inner_end = 0, lines = 0, kernel_lines = 0, along = 0;
  int64_t line_parts = 1;  // where there are fewer lines than tasks: into which each is cut
  size_t ahead_bytes = 0, slot_bytes = 0, thirds_bytes = 0;  // the last of a slot, for tiles
};

// Depends on the threads only where matrix tiles multiply, whose parts are summed alike in any cut.
Cut CutConv(const ConvShape& shape, int threads);

// What matrix tiles take of the time of vectors: 1 if these multiply. Tiles gather what vectors
// read in lines.
double ShareOfTiles(const ConvShape& shape);

// Whether windows lie one behind the other in memory, unpadded, so that those of one line after
// the other are rows of a matrix: a pointwise convolution, or a kernel of one line as wide as its
// stride.
bool ReadsInPlace(const ConvShape& shape);
// Whether windows are read where they lie, line after line of the kernel, and the output is wide
// enough for full tiles.
bool ReadsLines(const ConvShape& shape);
// Whether the windows of a single line overlap, so that a dense copy of a group's line, with zeros
// at its ends, has them all as rows that begin a stride apart.
bool SlidesAlong(const ConvShape& shape);
// Pieces of equal length, each in one place of memory, that a line of the kernel is made of: one,
// one of each plane, or the taps, which lie apart. A line is then one chain at most.
int64_t PiecesOfLine(const ConvShape& shape);

}  // namespace sardonyx::conv_gemm
