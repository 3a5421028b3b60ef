#include "kernels/conv_int8_cut.h"

#include <algorithm>

#include "kernels/conv_internal.h"
#include "kernels/int8_panel.h"
#include "kernels/targets.h"

namespace sardonyx::conv_int8 {

bool IsPointwise(const ConvShape& s) {
  for (int i = 0; i < 3; ++i) {
    if (s.kernel[i] != 1 || s.stride[i] != 1 || s.pad_begin[i] != 0 || s.in[i] != s.out[i]) {
      return false;
    }
  }
  return true;
}

bool CutsByThreads() { return HasMatrixTiles() || SharesWideUnits(); }

namespace {

// Rows of A that stay in the second-level cache beside a panel of B; beside all of B, if it is
// small, with their results and residual, of which each panel touches parts of lines.
constexpr int64_t kBlockBytes = 256 << 10;
constexpr int64_t kSmallBytes = 128 << 10;
// Matrix tiles wait for each reading of all of B, where it is large, and have larger caches (BERT
// of bytes, 128 rows of 3072 values at once: 0.96).
int64_t BlockBytes(const Cut& cut) {
  const bool is_large = cut.panels * cut.PanelBytes() > kBlockBytes;
  return is_large && HasMatrixTiles() ? 2 * kBlockBytes : kBlockBytes;
}

// Matrix tiles multiply so fast that so few rows mostly wait for weights, which threads share best
// where each has columns of its own: BERT of 128 rows 0.90 on two, while maps of 196 rows
// take 1.01.
constexpr int64_t kFewRowsOfTiles = 160;

// A kernel of one pixel that leaves pixels out; nothing is padded.
bool SkipsPixels(const ConvShape& s) {
  for (int i = 0; i < 3; ++i) {
    if (s.kernel[i] != 1 || s.pad_begin[i] != 0 || (s.out[i] - 1) * s.stride[i] >= s.in[i]) {
      return false;
    }
  }
  return s.stride[2] > 1;
}

// A part for each thread, or two where these are large.
int64_t PartsOf(const ConvShape& s, int threads) {
  constexpr int64_t kLargeRows = 384;
  return s.OutPixels() >= 2 * threads * kLargeRows ? 2 * threads : threads;
}

// Images of many lines, each of whole tiles, nearly.
bool WorksByLines(const ConvShape& s, const Cut& cut) {
  const int64_t tile = Int8TileRows();
  const int64_t step =
      s.stride[2] * (cut.skips ? s.x_stride : s.cin / s.groups * cut.ElementBytes());
  const int64_t together = 2 * s.out[2] <= tile ? 2 * s.out[2] : s.out[2];  // a tile, or two lines
  return (s.KernelSize() > 1 || cut.skips) && s.in[0] == 1 && s.out[0] == 1 && s.kernel[0] == 1 &&
         s.dilation[2] == 1 && s.out[1] >= 6 && s.out[2] >= 6 && step % 4096 != 0 &&
         10 * together >= 7 * RoundUp(together, tile);
}

// Lines of whole tiles, nearly: volumes, lines alone, dilated kernels.
bool WorksByRuns(const ConvShape& s, const Cut& cut) {
  const int64_t tile = Int8TileRows(), channels = s.cin / s.groups;
  return s.KernelSize() > 1 && (s.dilation[2] == 1 || channels % 4 == 0) && s.out[2] >= 6 &&
         s.stride[2] * channels * cut.ElementBytes() % 4096 != 0 &&
         10 * s.out[2] >= 7 * RoundUp(s.out[2], tile);
}

}  // namespace

Cut CutConv(const ConvShape& s, bool splits, int threads) {
  Cut cut;
  constexpr int64_t kGroup = 4;
  const int64_t panel = Int8PanelWidth(), tile = Int8TileRows();
  const int64_t channels = s.cin / s.groups;
  cut.k = s.KernelSize() * channels;
  cut.n = s.cout / s.groups;
  cut.pixels = s.OutPixels();
  cut.segments = s.kernel[0] * s.kernel[1];
  cut.segment_k = RoundUp(s.kernel[2] * channels, kGroup);
  cut.groups = cut.segment_k / kGroup;
  cut.panels = CeilDiv(cut.n, panel);
  cut.widens = Int8Widens() && !splits;
  cut.splits = splits;
  // Where there are more, these would cost what products of bytes save (ResNet-50's, Zen 3: 0.87 to
  // 0.96 of the time up to here, 1.09 with a few more).
  cut.most_excess = Int8SplitsExcess() ? std::max<int64_t>(cut.PackedK() - 64, 0) * 5 / 32 : 0;
  const int64_t turned = splits ? cut.PackedK() : 0;  // bytes of a row beside it, see ExcessSums
  // Rows a multiple of 4 KiB apart fall into one set of the first-level cache.
  cut.direct = IsPointwise(s) && !cut.widens && cut.k % kGroup == 0 &&
               (s.x_stride % 4096 != 0 || cut.pixels <= 4);
  cut.gathered_stride = RoundUp(cut.PackedK(), 16);
  if (cut.gathered_stride % 1024 == 0) cut.gathered_stride += 64;
  cut.a_bytes = cut.direct ? s.x_stride : cut.widens ? cut.PackedK() * 2 : cut.gathered_stride;
  if (cut.widens && cut.a_bytes % 1024 == 0) cut.a_bytes += 64;

  cut.skips = SkipsPixels(s) && !cut.widens && channels % kGroup == 0;
  cut.by_lines = WorksByLines(s, cut);
  cut.by_runs = !cut.by_lines && WorksByRuns(s, cut);
  // A byte costs a fourth of a float, and of matrix tiles a sixteenth.
  const int64_t wanted =
      WantedTasks((HasMatrixTiles() ? 0.06 : 0.3) * static_cast<double>(s.Flops()),
                  static_cast<double>(cut.k * s.cout));
  const int64_t most_parts = CutsByThreads() ? PartsOf(s, threads) : wanted;
  const int64_t parts = CeilDiv(std::min(wanted, most_parts), s.groups);
  cut.unit = cut.pixels >= 24 * tile ? Int8RowUnit(cut.segments * cut.groups) : tile;
  const bool reads_in_place = !cut.widens && (cut.direct || cut.by_lines);
  const int64_t read = cut.direct ? cut.pixels * cut.k : s.InPixels() * channels;
  const int64_t most_row_parts =
      std::max<int64_t>(1, std::min(CeilDiv(cut.pixels, tile) / 2, CeilDiv(cut.pixels, cut.unit)));
  if (reads_in_place && cut.k * cut.n >= std::max(read, kBlockBytes) &&
      cut.pixels < (HasMatrixTiles() ? kFewRowsOfTiles : 2 * kOwnRows)) {
    // Each part reads all of A, which is less than all of B. Rows are cut as well only where that
    // leaves few parts.
    cut.column_parts = std::min(cut.panels, parts);
    if (cut.column_parts < kManyColumnParts) {
      cut.row_parts = std::min(most_row_parts, CeilDiv(parts, cut.column_parts));
    }
  } else {
    cut.row_parts = std::clamp<int64_t>(parts, 1, most_row_parts);
    cut.column_parts = std::min(cut.panels, CeilDiv(parts, cut.row_parts));
    if (cut.column_parts > 1) cut.row_parts = CeilDiv(parts, cut.column_parts);
  }
  if (threads <= 1) cut.row_parts = 1;
  int64_t row_bytes = std::max<int64_t>(cut.a_bytes, 64) + turned;
  if (cut.panels * cut.PanelBytes() <= kSmallBytes) row_bytes += 2 * cut.n;
  cut.rows = std::clamp<int64_t>(BlockBytes(cut) / row_bytes / cut.unit, 1, 64 * tile / cut.unit) *
             cut.unit;

  cut.vector_bytes = AlignBytes(static_cast<size_t>(s.cout + kInt8ColumnSlack) * 4);
  const int64_t most = std::min(cut.rows, CeilDiv(cut.pixels, cut.row_parts) + 2 * cut.unit);
  cut.slot_bytes = AlignBytes(static_cast<size_t>(most) * 4);  // sums of rows
  cut.slot_bytes += AlignBytes(static_cast<size_t>(most * cut.gathered_stride));
  if (cut.widens) cut.slot_bytes += AlignBytes(static_cast<size_t>(most * cut.a_bytes));

  if (cut.by_lines) {
    // The last segment is read up to a whole group. Without, lines follow each other closely.
    const int64_t behind = channels % kGroup == 0 ? 0 : kGroup;
    cut.line_k = RoundUp(((s.out[2] - 1) * s.stride[2] + s.kernel[2]) * channels + behind, 32);
    const int64_t all = s.batch * s.out[1];
    cut.line_parts = std::clamp<int64_t>(cut.row_parts, 1, CeilDiv(all * s.out[2], 2 * tile));
    cut.line_parts = std::min(cut.line_parts, all);
    cut.lines = CeilDiv(all, cut.line_parts);
    const auto bytes_of = [&](int64_t lines) {
      return LinesSeen(s, lines) * cut.LineBytes() + lines * s.out[2] * turned;
    };
    while (cut.lines > 1 && bytes_of(cut.lines) > kBlockBytes) --cut.lines;
    const size_t lines = AlignBytes(static_cast<size_t>(LinesSeen(s, cut.lines) * cut.LineBytes()));
    cut.slot_bytes =
        std::max(cut.slot_bytes, lines + AlignBytes(static_cast<size_t>(cut.line_k) + 64));
    cut.copies_before = cut.column_parts > 1 && s.groups == 1 && !cut.skips;
    const int64_t copied = cut.copies_before ? s.batch * LinesSeen(s, s.out[1]) : 0;
    cut.copied_bytes = AlignBytes(static_cast<size_t>(copied * cut.LineBytes()));
  }
  if (cut.by_runs) {
    const int64_t taps = s.dilation[2] == 1 ? s.kernel[2] : 1;
    cut.run_segments = s.KernelSize() / taps;
    const int64_t pixel = s.stride[2] * channels * cut.ElementBytes() * cut.run_segments + turned;
    const int64_t most_tiles = std::clamp<int64_t>(kBlockBytes / (pixel * tile), 1, 16);
    const int64_t runs = CeilDiv(s.out[2], most_tiles * tile);
    cut.run = std::min(s.out[2], RoundUp(CeilDiv(s.out[2], runs), tile));
    cut.line_k = RoundUp(((cut.run - 1) * s.stride[2] + taps) * channels + kGroup, 32);
    cut.line_parts =
        std::min(cut.row_parts, s.batch * s.out[0] * s.out[1] * CeilDiv(s.out[2], cut.run));
    cut.slot_bytes = std::max(cut.slot_bytes,
                              AlignBytes(static_cast<size_t>(cut.run_segments * cut.LineBytes())) +
                                  AlignBytes(static_cast<size_t>(cut.line_k) + 64));
  }
  if (cut.by_lines || cut.by_runs) {
    const int64_t rows = cut.by_lines ? cut.lines * s.out[2] : cut.run;
    const int64_t line = cut.skips ? 0 : cut.line_k;  // whose windows lie apart
    cut.sums_offset = cut.slot_bytes;
    cut.windows_offset = cut.sums_offset + AlignBytes(static_cast<size_t>(rows) * 4);
    cut.slot_bytes = cut.windows_offset + AlignBytes(Int8WindowScratchBytes(line));
  }
  if (cut.widens) {
    cut.widened_offset = cut.slot_bytes;
    cut.slot_bytes += Int8WidenedBytes(cut.segments * cut.groups);
  }
  if (splits) {
    cut.excess_offset = cut.slot_bytes;
    cut.slot_bytes +=
        Int8ExcessBytes(std::max({most, cut.lines * s.out[2], cut.run}), cut.segments * cut.groups);
  }
  return cut;
}

}  // namespace sardonyx::conv_int8
