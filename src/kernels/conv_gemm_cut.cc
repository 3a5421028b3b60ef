#include "kernels/conv_gemm_cut.h"

#include <algorithm>

#include "kernels/gemm.h"
#include "kernels/gemm_amx.h"
#include "kernels/gemm_amx_cut.h"

namespace sardonyx::conv_gemm {
namespace {

constexpr int64_t kBlockABytes = 192 << 10;
constexpr int64_t kBlockCBytes = 256 << 10;
constexpr int64_t kAheadBytes = 4 << 20;
constexpr int64_t kFewTiles = 5;

// Values from the first to the last tap of a line of the kernel, in pixels.
int64_t Extent(const ConvShape& s) { return (s.kernel[2] - 1) * s.dilation[2] + 1; }

// Cycles that it takes to gather a row (Granite Rapids).
double GatheringCycles(const ConvShape& s) {
  constexpr double kPiece = 25, kValue = 0.2;
  if (ReadsInPlace(s) || SlidesAlong(s)) return 0;
  return kPiece * static_cast<double>(s.kernel[0] * s.kernel[1] * PiecesOfLine(s)) +
         kValue * static_cast<double>(s.KernelSize() * (s.cin / s.groups));
}

void CutForLine(const ConvShape& s, Cut* cut) {
  const int64_t channels = s.cin / s.groups;
  cut->source = Cut::Source::kSlid;
  cut->a_ld = s.stride[2] * channels;
  cut->group_floats = RoundUp(((s.out[2] - 1) * s.stride[2] + s.kernel[2]) * channels, 16) + 16;
  cut->ahead_bytes = AlignBytes(FloatBytes(s.groups * cut->group_floats));
}

// Blocks of many rows, and a part for each thread or two (see GemmAmxParts). Rows are read one by
// one, so that it does not matter how far apart they lie.
void CutForTiles(const ConvShape& s, int threads, Cut* cut) {
  const int64_t parts = std::min(CeilDiv(std::max(threads, 1), s.groups), kMostParts / 2);
  const GemmAmxParts tiles(cut->pixels, cut->n, cut->k, parts, GatheringCycles(s));
  cut->row_parts = tiles.row_parts;
  cut->column_parts = tiles.column_parts;
  cut->row_unit = cut->row_height = tiles.row_unit;
  cut->kc = GemmAmxDepth(cut->pixels, cut->k);
  const GemmAmxBlocks blocks(cut->pixels);
  cut->rows = blocks.rows;
  cut->thirds_bytes = GemmAmxBytes(blocks.most_rows, cut->kc);
  cut->slot_bytes = cut->thirds_bytes;
  if (ReadsInPlace(s) && (s.kernel[2] == 1 || cut->kc == cut->k)) {
    cut->source = Cut::Source::kDirect;
    return;
  }
  if (SlidesAlong(s)) return CutForLine(s, cut);
  cut->a_ld = RoundUp(cut->kc, 16) + kGatherSlack;
  cut->slot_bytes += AlignBytes(FloatBytes(blocks.most_rows * cut->a_ld));
}

}  // namespace

bool ReadsInPlace(const ConvShape& s) {
  if (s.x_planes) return false;
  for (int i = 0; i < 2; ++i) {
    if (s.kernel[i] != 1 || s.stride[i] != 1 || s.pad_begin[i] != 0 || s.in[i] != s.out[i]) {
      return false;
    }
  }
  return s.pad_begin[2] == 0 && s.dilation[2] == 1 && s.kernel[2] <= s.stride[2] &&
         s.in[2] == s.out[2] * s.stride[2];
}

int64_t PiecesOfLine(const ConvShape& s) {
  return s.x_planes ? s.cin : s.dilation[2] > 1 ? s.kernel[2] : 1;
}

bool ReadsLines(const ConvShape& s) {
  const bool is_image = s.groups == 1 && s.kernel[0] == 1 && s.in[0] == 1 && s.out[0] == 1 &&
                        s.pad_begin[0] == 0 && s.KernelSize() > 1 && s.out[2] >= 12 &&
                        s.in[2] >= Extent(s);
  if (!is_image) return false;
  if (s.x_planes) {
    return s.kernel[2] > 1 && s.dilation[2] == 1 && s.KernelSize() * s.cin <= kOneChain;
  }
  // Of fewer channels a piece takes longer to find than to multiply.
  constexpr int64_t kLeastPiece = 8;
  return (s.dilation[2] == 1 || s.cin >= kLeastPiece) && s.x_stride == s.cin &&
         s.kernel[2] * s.cin <= kOneChain && s.stride[2] * s.cin % 1024 != 0;
}

bool SlidesAlong(const ConvShape& s) {
  const int64_t step = s.stride[2] * (s.cin / s.groups);
  return !s.x_planes && s.kernel[0] == 1 && s.kernel[1] == 1 && s.dilation[2] == 1 &&
         s.in[0] == 1 && s.in[1] == 1 && s.pad_begin[0] == 0 && s.pad_begin[1] == 0 &&
         s.batch == 1 && s.out[0] == 1 && s.out[1] == 1 && s.kernel[2] >= 2 * s.stride[2] &&
         step % 1024 != 0 && !ReadsLines(s);
}

double ShareOfTiles(const ConvShape& s) {
  if (s.x_planes) return 1;
  return GemmAmxShare(s.OutPixels(), s.cout / s.groups, s.KernelSize() * (s.cin / s.groups),
                      ReadsLines(s) ? GatheringCycles(s) : 0);
}

Cut CutConv(const ConvShape& s, int threads) {
  Cut cut;
  const int64_t panel = GemmPanelWidth(), tile = GemmTileRows();
  cut.k = s.KernelSize() * (s.cin / s.groups);
  cut.n = s.cout / s.groups;
  cut.pixels = s.OutPixels();
  cut.tiles = ShareOfTiles(s) < 1;
  if (cut.tiles) {
    CutForTiles(s, threads, &cut);
    return cut;
  }
  const int64_t wanted =
      WantedTasks(static_cast<double>(s.Flops()), 4.0 * static_cast<double>(cut.k * s.cout));
  const int64_t parts = CeilDiv(wanted, s.groups);
  const int64_t panels = CeilDiv(cut.n, panel), tiles = CeilDiv(cut.pixels, tile);

  // Rows first, for then every value is gathered once; columns where there are few rows. These stay
  // together where columns alone are parts enough.
  cut.row_parts = std::clamp<int64_t>(parts, 1, std::max<int64_t>(1, tiles / 2));
  const bool together =
      parts > cut.row_parts && tiles <= kFewTiles && panels >= kManyColumnParts && ReadsInPlace(s);
  if (together) cut.row_parts = 1;
  cut.column_parts = std::min(panels, CeilDiv(parts, cut.row_parts));
  if (cut.column_parts > 1 && !together) cut.row_parts = CeilDiv(parts, cut.column_parts);
  const auto last_rows = [&] {
    return cut.pixels - tiles * (cut.row_parts - 1) / cut.row_parts * tile;
  };
  while (cut.row_parts > 1 && last_rows() < kLeastRows) --cut.row_parts;
  cut.row_unit = cut.row_height = tile;
  // An even number of even height: a thread would wait for another's last one.
  const int64_t even = RoundUp(cut.row_parts, 2);
  if (cut.row_parts * cut.column_parts % 2 == 1 && cut.row_parts > 1 && tiles <= kFewTiles &&
      cut.pixels >= even * kLeastRows) {
    cut.row_parts = even;
    cut.row_unit = 1;
  }
  cut.most_columns = CeilDiv(panels, cut.column_parts) * panel;
  const int64_t most_pieces = s.out[2] / (2 * tile);
  if (SharesLines(s) && cut.row_parts > 1 && most_pieces >= 2) {
    cut.pieces = std::clamp<int64_t>(CeilDiv(cut.row_parts, s.out[1]), 2, most_pieces);
    cut.row_parts = s.out[1] * cut.pieces;
  }

  cut.kc = GemmDepth(cut.k);
  const int64_t a_rows = kBlockABytes / (std::max<int64_t>(cut.kc, 16) * 4);
  const int64_t c_rows = kBlockCBytes / (cut.most_columns * 4);
  cut.rows = std::max(tile, std::min(a_rows, c_rows) / tile * tile);

  const bool collides = RowsCollide(s.stride[2] * s.x_stride, cut.pixels);
  if (ReadsInPlace(s) && (s.kernel[2] == 1 || cut.kc == cut.k) && !collides) {
    cut.source = Cut::Source::kDirect;
    return cut;
  }
  if (ReadsLines(s)) {
    cut.source = Cut::Source::kLines;
    cut.inner_begin = std::min(s.out[2], CeilDiv(s.pad_begin[2], s.stride[2]));
    cut.inner_end = std::clamp<int64_t>((s.in[2] + s.pad_begin[2] - Extent(s)) / s.stride[2] + 1,
                                        cut.inner_begin, s.out[2]);
    const int64_t run = s.kernel[2] * s.cin;
    const int64_t depth = PiecesOfLine(s) > 1 ? std::min(cut.k, kOneChain) : GemmDepth(cut.k);
    cut.kernel_lines = std::max<int64_t>(1, depth / run);
    cut.column_parts = 1;
    const int64_t lines = s.batch * s.out[1];
    // Long parts of lines, or as many as threads need.
    const int64_t least = RoundUp(kLeastRows, tile);
    const int64_t most_parts =
        std::max(CeilDiv(s.out[2], 8 * tile), std::min(4 / lines, s.out[2] / least));
    cut.line_parts = std::clamp<int64_t>(parts / lines, 1, most_parts);
    cut.row_parts =
        cut.line_parts > 1 ? lines * cut.line_parts : std::clamp<int64_t>(parts, 1, lines);
    cut.a_ld = RoundUp(cut.k, 16) + kGatherSlack;
    const int64_t fitting = std::clamp<int64_t>(kBlockABytes / (cut.a_ld * 4), 1, tile);
    cut.lines = std::min(fitting, s.out[1]);
    const int64_t ends = std::max(cut.inner_begin, s.out[2] - cut.inner_end);
    if (!s.x_planes && ends > cut.lines) cut.along = fitting;
    cut.slot_bytes = AlignBytes(FloatBytes(std::max(cut.lines, cut.along) * cut.a_ld));
    return cut;
  }
  if (SlidesAlong(s)) {
    CutForLine(s, &cut);
    return cut;
  }
  const int64_t ahead_ld = RoundUp(cut.k, 16) + kGatherSlack;
  if (cut.column_parts > 2 && FloatBytes(ahead_ld * cut.pixels * s.groups) <= kAheadBytes) {
    cut.source = Cut::Source::kAhead;
    cut.a_ld = ahead_ld;
    cut.group_floats = cut.pixels * cut.a_ld;
    cut.ahead_bytes = AlignBytes(FloatBytes(ahead_ld * cut.pixels * s.groups));
  } else {
    cut.a_ld = RoundUp(cut.kc, 16) + kGatherSlack;
    cut.slot_bytes = AlignBytes(FloatBytes((cut.rows + kLeastRows) * cut.a_ld));
  }
  return cut;
}

}  // namespace sardonyx::conv_gemm
