#pragma once
// How convolutions of bytes are cut: what of the input a thread reads where it is, copies or
// gathers, and into which parts.

#include <cstddef>
#include <cstdint>

#include "base/round.h"
#include "kernels/conv.h"
#include "kernels/gemm_int8.h"

namespace sardonyx::conv_int8 {

struct Cut {
  // Packed weights say in their first bytes whether their excess was split; they lie alike.
  static constexpr int64_t kHeaderBytes = 64;

  int64_t k = 0, n = 0, pixels = 0;  // of a group's product
  // K as it is packed: a segment for each line that the kernel covers, filled up to whole groups.
  int64_t segments = 1, segment_k = 0, groups = 0;
  int64_t panels = 0;
  int64_t row_parts = 1, column_parts = 1;
  int64_t rows = 0;     // of a block, a multiple of `unit`
  int64_t unit = 0;     // rows that are not parted
  bool direct = false;  // A is the input itself
  bool widens = false;
  int64_t gathered_stride = 0, a_bytes = 0;  // of a row
  // Segments read where lines of the input lie, copied and padded; such are cut by output lines.
  bool by_lines = false;
  bool skips = false;                 // pixels of lines that are read where they are
  int64_t line_parts = 1, lines = 0;  // of a block
  int64_t line_k = 0;                 // values in a padded line
  // Lines that several parts of the columns read are all copied before.
  bool copies_before = false;
  size_t copied_bytes = 0;
  // Else, where that fits: runs of one line's pixels, of which every segment is copied. Of dilated
  // kernels a segment is a tap.
  bool by_runs = false;
  int64_t run = 0, run_segments = 0;  // pixels, at most
  size_t vector_bytes = 0;            // of a column vector
  size_t slot_bytes = 0;
  // In a slot, where lines or runs are read: sums of the rows of a block, and scratch memory for
  // them, see Int8SumWindows.
  size_t sums_offset = 0, windows_offset = 0;

  bool splits = false;        // bytes where int16 are the rule: excess is multiplied by itself
  int64_t most_excess = 0;    // of a panel
  size_t excess_offset = 0;   // in a slot, of Int8ExcessBytes
  size_t widened_offset = 0;  // likewise of Int8WidenedBytes

  int64_t PackedK() const { return segments * segment_k; }
  int64_t PanelBytes() const { return segments * groups * 4 * Int8PanelWidth(); }
  int64_t SumsOffset() const { return panels * PanelBytes(); }
  int64_t ExcessCountsOffset() const { return SumsOffset() + panels * Int8PanelWidth() * 4; }
  int64_t ExcessOffset() const { return ExcessCountsOffset() + panels * 4; }
  int64_t GroupBytes() const {  // of the packed weights of a group of channels
    const auto excess = panels * most_excess * static_cast<int64_t>(sizeof(Int8Excess));
    return RoundUp(ExcessOffset() + excess, 64);
  }
  int64_t GroupOffset(int64_t group) const { return kHeaderBytes + group * GroupBytes(); }
  int64_t ElementBytes() const { return widens ? 2 : 1; }
  int64_t LineBytes() const { return line_k * ElementBytes(); }
};

// Whether there are as many parts as threads, and not more, from which threads that are slower than
// others take fewer: where cores are alike. Each part loads all panels of weights (of 24 parts,
// ResNet-50's steps of 14x14 pixels took 1.4 times the time by matrix tiles; without, 1.02).
bool CutsByThreads();

// splits: only where Int8SplitsExcess(). One thread alone has no parts of rows. Neither changes how
// packed weights lie.
Cut CutConv(const ConvShape& shape, bool splits, int threads);

// A product of the pixels as they are.
bool IsPointwise(const ConvShape& shape);

}  // namespace sardonyx::conv_int8
