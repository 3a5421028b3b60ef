// Convolution as a matrix product, [pixels, kernel * cin] x [kernel * cin, cout]: the left matrix
// is the input itself where it can be, in pieces where the kernel has several lines, else gathered
// a block at a time.

#include <algorithm>
#include <array>
#include <optional>

#include "kernels/conv_gemm_cut.h"
#include "kernels/gemm.h"
#include "kernels/scratch_slots.h"
#include "kernels/subnormals.h"

namespace sardonyx {
namespace {

using conv_gemm::Cut;
using conv_gemm::CutConv;
using conv_gemm::Gather;
using conv_gemm::PiecesOfLine;
using conv_gemm::ReadsInPlace;
using conv_gemm::ReadsLines;
using conv_gemm::ShareOfTiles;
using conv_gemm::SlidesAlong;

// By tiles a pointwise convolution is any matrix product; vectors cut its pixels as those of the
// convolutions around it.
bool IsProduct(const ConvShape& s) {
  return s.groups == 1 && s.KernelSize() == 1 && ReadsInPlace(s) && ShareOfTiles(s) < 1;
}
GemmShape ProductOf(const ConvShape& s) {
  return {.m = s.OutPixels(),
          .n = s.cout,
          .k = s.cin,
          .lda = s.stride[2] * s.x_stride,
          .ldc = s.y_stride};
}

constexpr int64_t kRowsFirstBytes = 512 << 10;

int64_t PackedFloats(const Cut& cut) {
  return static_cast<int64_t>(GemmPackedBytes(cut.k, cut.n) / sizeof(float));
}

// Packs a panel of a group: weights[((n * channels + c) * taps + t) * run + i] goes to row
// (t * channels + c) * run + i, column n. Blocks of channels keep what is written in the cache.
void PackPanel(const float* weights, int64_t channels, int64_t taps, int64_t run, int64_t columns,
               float* to) {
  const int64_t width = RoundUp(columns, kPanelGranule);
  constexpr int64_t kBlock = 16;
  for (int64_t c0 = 0; c0 < channels; c0 += kBlock) {
    const int64_t c1 = std::min(channels, c0 + kBlock);
    for (int64_t n = 0; n < width; ++n) {
      for (int64_t c = c0; c < c1; ++c) {
        const float* from = weights + (n * channels + c) * taps * run;
        float* target = to + c * run * width + n;
        for (int64_t t = 0; t < taps; ++t, target += channels * run * width) {
          for (int64_t i = 0; i < run; ++i, ++from) target[i * width] = n < columns ? *from : 0.0f;
        }
      }
    }
  }
}

// Neighbouring pixels or columns.
struct Range {
  int64_t begin, end;
};

// What each part has, without a division for each: small steps have many parts.
struct Parts {
  std::array<Range, conv_gemm::kMostParts> rows, columns;

  Parts(const ConvShape& s, const Cut& cut) {
    Cover(cut.n, GemmPanelWidth(), cut.column_parts, columns.data());
    if (cut.pieces == 0) {
      Cover(cut.pixels, cut.row_unit, cut.row_parts, rows.data());
      return;
    }
    // Those of all lines follow each other, so that threads have neighbouring ones.
    std::array<Range, conv_gemm::kMostParts> pieces;
    Cover(s.out[2], 1, cut.pieces, pieces.data());
    for (int64_t i = 0; i < cut.row_parts; ++i) {
      const int64_t line = i % s.out[1] * s.out[2];
      const Range piece = pieces[i / s.out[1]];
      rows[i] = {line + piece.begin, line + piece.end};
    }
  }

  // Whole units, but for the last one, spread evenly.
  static void Cover(int64_t count, int64_t unit, int64_t parts, Range* ranges) {
    const int64_t units = CeilDiv(count, unit), least = units / parts, more = units % parts;
    for (int64_t i = 0, at = 0, rest = 0; i < parts; ++i) {
      int64_t end = at + least;
      rest += more;
      if (rest >= parts) rest -= parts, ++end;
      ranges[i] = {at * unit, std::min(count, end * unit)};
      at = end;
    }
  }
};

// One call of Run.
struct Work {
  const ConvShape& s;
  const Cut& cut;
  const float* x;
  const float* packed;
  float* y;
  const PreparedEpilogue& prepared;
  float* ahead;                     // kAhead, kSlid
  const int64_t* starts = nullptr;  // of a window's lines in planes
};

// The pixels [first, end) of an output line, all inner: the kernel's lines that lie inside of the
// input, a few at a time. `args` has all that is the same for every line.
void RunLine(const Work& work, const float* image, int64_t h, int64_t row, int64_t first,
             int64_t end, GemmBlockArgs args) {
  const ConvShape& s = work.s;
  const Cut& cut = work.cut;
  // A pixel is `pixel` floats behind the one before it.
  const int64_t run = s.kernel[2] * s.cin, step = s.dilation[1], pixel = s.x_planes ? 1 : s.cin;
  const int64_t pieces = PiecesOfLine(s);
  const int64_t top = h * s.stride[1] - s.pad_begin[1];
  int64_t kh = top < 0 ? std::min(s.kernel[1], CeilDiv(-top, step)) : 0;
  const int64_t kh_end =
      top >= s.in[1] ? kh : std::clamp(CeilDiv(s.in[1] - top, step), kh, s.kernel[1]);
  const int64_t left = first * s.stride[2] - s.pad_begin[2];
  const TileEpilogue tile_epilogue = work.prepared.Tile(row + first, 0);
  args.rows = end - first;
  args.c += (row + first) * s.y_stride;
  do {
    const int64_t lines = std::min(cut.kernel_lines, kh_end - kh);
    args.a_pieces = lines * pieces;
    args.a = image + ((top + kh * step) * s.in[2] + left) * pixel;
    args.k0 = kh * run;
    args.kc = lines * run;
    kh += lines;
    args.epilogue = kh == kh_end && work.prepared.InRegisters() ? &tile_epilogue : nullptr;
    GemmBlock(args);
    args.accumulate = true;
  } while (kh < kh_end);
}

// Fetches lines [first, end) of an input image into the second-level cache: tiles wait for what a
// copy would not.
void FetchLines(const ConvShape& s, const float* image, int64_t first, int64_t end) {
  const float* to = image + std::min(end, s.in[1]) * s.in[2] * s.x_stride;
  const float* from = image + std::max<int64_t>(first, 0) * s.in[2] * s.x_stride;
  for (; from < to; from += 16) {
    __builtin_prefetch(from, 0, 2);
  }
}

// Pixels [w, w + pixels) of output lines [line, line + lines), whose windows are gathered: one line
// or one pixel of each.
void RunEnds(const Work& work, int64_t line, int64_t lines, int64_t w, int64_t pixels, float* slot,
             GemmBlockArgs args) {
  const ConvShape& s = work.s;
  const Cut& cut = work.cut;
  const int64_t pixel = line * s.out[2] + w, apart = lines > 1 ? s.out[2] : 1;
  args.a = slot;
  args.lda = cut.a_ld;
  args.rows = lines * pixels;
  args.kc = cut.k;
  args.c = work.y + pixel * s.y_stride;
  args.ldc = apart * s.y_stride;
  if (s.x_planes) {
    conv_gemm::GatherPlanes(s, work.x, pixel, args.rows, slot, cut.a_ld);
  } else {
    Gather(s, 0, work.x, pixel, args.rows, 0, cut.k, slot, cut.a_ld, lines > 1);
  }
  TileEpilogue tile_epilogue = work.prepared.Tile(pixel, 0);
  tile_epilogue.residual_ld *= apart;
  args.epilogue = work.prepared.InRegisters() ? &tile_epilogue : nullptr;
  GemmBlock(args);
}

// Pixels [w0, w1) of the output lines [begin, end) of the batch. Most read the input where it lies;
// those at the ends of some lines are gathered.
void RunLines(const Work& work, int64_t begin, int64_t end, int64_t w0, int64_t w1, float* slot) {
  const ConvShape& s = work.s;
  const Cut& cut = work.cut;
  GemmBlockArgs args{};
  args.b = work.packed;
  args.k_total = cut.k;
  args.n_total = args.n1 = cut.n;
  args.is_all = cut.n <= GemmPanelWidth();
  GemmBlockArgs inner = args;
  inner.lda = s.stride[2] * (s.x_planes ? 1 : s.cin);
  inner.a_step = (PiecesOfLine(s) > 1 ? s.dilation[2] : s.dilation[1] * s.in[2]) * s.cin;
  inner.a_starts = work.starts;
  inner.c = work.y;
  inner.ldc = s.y_stride;
  const int64_t inner_begin = std::clamp(cut.inner_begin, w0, w1);
  const int64_t inner_end = std::clamp(cut.inner_end, w0, w1);
  const Range ends[] = {{w0, inner_begin}, {inner_end, w1}};
  int64_t lines = 0;
  for (int64_t next = begin; next < end; next += lines) {
    const int64_t item = next / s.out[1], h = next % s.out[1];
    lines = std::min({cut.lines, end - next, s.out[1] - h});
    for (const Range& range : ends) {
      if (cut.along == 0) {
        for (int64_t w = range.begin; w < range.end; ++w) {
          RunEnds(work, next, lines, w, 1, slot, args);
        }
        continue;
      }
      for (int64_t line = next; line < next + lines; ++line) {
        for (int64_t w = range.begin, count = 0; w < range.end; w += count) {
          count = std::min(cut.along, range.end - w);
          RunEnds(work, line, 1, w, count, slot, args);
        }
      }
    }
    const float* image = work.x + item * s.in[1] * s.in[2] * s.cin;
    int64_t below = h * s.stride[1] - s.pad_begin[1] + (s.kernel[1] - 1) * s.dilation[1] + 1;
    for (int64_t line = 0; line < lines; ++line) {
      const int64_t row = (next + line) * s.out[2];
      if (w0 == 0 && !s.x_planes) FetchLines(s, image, below, below + s.stride[1]);
      below += s.stride[1];
      if (inner_begin < inner_end) {
        RunLine(work, image, h + line, row, inner_begin, inner_end, inner);
      }
      if (!work.prepared.InRegisters()) {
        work.prepared.Apply(work.y + (row + w0) * s.y_stride, s.y_stride, row + w0, w1 - w0, 0,
                            cut.n);
      }
    }
  }
}

// All windows, a row each.
void GatherAhead(const Work& work, const Parallel& par) {
  const Cut& cut = work.cut;
  const int64_t parts = std::clamp<int64_t>(cut.pixels * cut.k / 65536, 1, 16);
  par.For(parts * work.s.groups, [&](int64_t task) {
    const int64_t group = task / parts, part = task % parts;
    const int64_t begin = cut.pixels * part / parts, end = cut.pixels * (part + 1) / parts;
    Gather(work.s, group, work.x, begin, end - begin, 0, cut.k,
           work.ahead + group * cut.group_floats + begin * cut.a_ld, cut.a_ld);
  });
}

// The line, group by group, with zeros where windows reach beyond it.
void CopyLine(const Work& work, const Parallel& par) {
  const ConvShape& s = work.s;
  const int64_t channels = s.cin / s.groups, size = (s.out[2] - 1) * s.stride[2] + s.kernel[2];
  const int64_t parts = std::clamp<int64_t>(size * channels / 16384, 1, 8);
  par.For(s.groups * parts, [&](int64_t task) {
    const int64_t group = task / parts, part = task % parts, end = size * (part + 1) / parts;
    const float* const from = work.x + group * channels;
    float* to = work.ahead + group * work.cut.group_floats + size * part / parts * channels;
    for (int64_t i = size * part / parts; i < end; ++i, to += channels) {
      const int64_t pixel = i - s.pad_begin[2];
      if (pixel < 0 || pixel >= s.in[2]) {
        std::fill_n(to, channels, 0.0f);
      } else {
        std::copy_n(from + pixel * s.x_stride, channels, to);
      }
    }
  });
}

// Some pixels, and part `column` of the columns of all groups.
void RunPart(const Work& work, const Parts& parts, Range pixels, int64_t column, float* slot) {
  const ConvShape& s = work.s;
  const Cut& cut = work.cut;
  const int64_t group = s.groups == 1 ? 0 : column / cut.column_parts;
  const auto [n0, n1] = parts.columns[column - group * cut.column_parts];
  // Blocks of even height.
  int64_t step = pixels.end - pixels.begin;
  if (step > cut.rows) step = RoundUp(CeilDiv(step, CeilDiv(step, cut.rows)), cut.row_height);
  const int64_t width = GemmPanelWidth();
  GemmBlockArgs args{};
  args.b = work.packed + group * PackedFloats(cut);
  args.k_total = cut.k;
  args.n_total = cut.n;
  args.is_all = cut.n <= width;
  args.keeps_off = cut.pieces > 0;
  args.n0 = n0;
  args.n1 = n1;
  args.ldc = s.y_stride;
  if (cut.tiles) {
    args.thirds = slot;
    slot += cut.thirds_bytes / sizeof(float);
  }
  for (int64_t row = pixels.begin; row < pixels.end; row += args.rows) {
    args.rows = pixels.end - row < step + kLeastRows ? pixels.end - row : step;
    args.c = work.y + row * s.y_stride + group * cut.n;
    const TileEpilogue tile_epilogue = work.prepared.Tile(row, group * cut.n);
    for (int64_t k0 = 0; k0 < cut.k; k0 += args.kc) {
      args.k0 = k0;
      args.kc = std::min(cut.kc, cut.k - k0);
      switch (cut.source) {
        case Cut::Source::kDirect:
          args.a = work.x + row * s.stride[2] * s.x_stride + group * (s.cin / s.groups) + k0;
          args.lda = s.stride[2] * s.x_stride;
          args.a_pieces = s.kernel[2];
          args.a_step = s.x_stride;
          break;
        case Cut::Source::kAhead:
        case Cut::Source::kSlid:
          args.a = work.ahead + group * cut.group_floats + row * cut.a_ld + k0;
          args.lda = cut.a_ld;
          break;
        case Cut::Source::kLines:  // runs by RunLines
        case Cut::Source::kInTask:
          Gather(s, group, work.x, row, args.rows, k0, args.kc, slot, cut.a_ld);
          args.a = slot;
          args.lda = cut.a_ld;
          break;
      }
      args.accumulate = k0 > 0;
      const bool ends = k0 + args.kc == cut.k;
      args.epilogue = ends && work.prepared.InRegisters() ? &tile_epilogue : nullptr;
      if (n1 - n0 > width) {
        const float* const first = args.b + n0 * cut.k;
        args.next = !ends                          ? first + (k0 + args.kc) * width
                    : row + args.rows < pixels.end ? first
                                                   : nullptr;
      }
      GemmBlock(args);
    }
    if (!work.prepared.InRegisters()) {
      work.prepared.Apply(args.c + n0, s.y_stride, row, args.rows, group * cut.n + n0, n1 - n0);
    }
  }
}

double Cost(const ConvShape& s) {
  const double weights = static_cast<double>(s.KernelSize() * s.cin / s.groups * s.cout) * 4;
  const double share = ShareOfTiles(s);
  const double products = ProductCost(share * static_cast<double>(s.Flops()) / 2, weights);
  // Lines of an image have ends, and tiles begin anew: they take about as long as if gathered.
  if (ReadsInPlace(s) || SlidesAlong(s) || (ReadsLines(s) && s.out[1] == 1 && share == 1)) {
    return products;
  }
  const auto gathered = static_cast<double>(FloatBytes(s.OutPixels() * s.KernelSize() * s.cin));
  return products + gathered * 2.5e-5;
}

size_t PackedBytes(const ConvShape& s) {
  return static_cast<size_t>(s.groups) *
         GemmPackedBytes(s.KernelSize() * (s.cin / s.groups), s.cout / s.groups);
}

std::string_view PackedForm(const ConvShape& s) { return s.x_planes ? " of planes" : ""; }

void Pack(const ConvShape& s, const ConvWeightRows& rows, float* packed, const Parallel& par) {
  const int64_t taps = s.KernelSize(), channels = s.cin / s.groups, n = s.cout / s.groups;
  const int64_t k = taps * channels, panel = GemmPanelWidth();
  const auto group_floats = static_cast<int64_t>(GemmPackedBytes(k, n) / sizeof(float));
  const int64_t panels = CeilDiv(n, panel), begin = PanelAt(s, panel, rows.first);
  const int64_t all = PanelAt(s, panel, rows.end) - begin;
  const int64_t floats = (rows.end - rows.first) * k;
  const int64_t parts = std::clamp<int64_t>(floats / 65536, 1, std::min<int64_t>(all, 32));
  par.For(parts, [&](int64_t part) {
    for (int64_t i = begin + all * part / parts; i < begin + all * (part + 1) / parts; ++i) {
      const int64_t group = i / panels, n0 = i % panels * panel, columns = std::min(panel, n - n0);
      const float* from = rows.data + (group * n + n0 - rows.first) * k;
      float* to = packed + group * group_floats + n0 * k;
      if (taps == 1) {
        PackPanels(k, columns, from, k, true, 0, columns, to);
      } else {
        // A piece is a position of the kernel, of planes one of its lines.
        const int64_t run = s.x_planes ? s.kernel[2] : 1;
        PackPanel(from, channels, taps / run, run, columns, to);
      }
      ZeroSubnormals(to, k * RoundUp(columns, kPanelGranule));
    }
  });
}

int64_t PackStep(const ConvShape& s) { return PanelStep(s, GemmPanelWidth()); }

// Whether sums are stored once, complete.
bool StoresOnce(const ConvShape& shape) {
  if (IsProduct(shape)) return GemmStoresOnce(ProductOf(shape));
  const Cut cut = CutConv(shape, 1);
  return cut.source == Cut::Source::kLines ? cut.kernel_lines >= shape.kernel[1] : cut.kc >= cut.k;
}

// Whether the matrix is the input as it lies, however many lines these are, and each is long enough
// to be summed as all of them; tiles need many.
bool TakesLines(const ConvShape& shape) {
  const Cut cut = CutConv(shape, 1);
  return shape.out[2] >= kLeastRows && cut.source == Cut::Source::kDirect && !cut.tiles;
}

size_t ScratchBytes(const ConvShape& shape, int threads) {
  if (IsProduct(shape)) return GemmScratchBytes(ProductOf(shape), true, threads);
  const Cut cut = CutConv(shape, threads);
  return cut.ahead_bytes + cut.slot_bytes * static_cast<size_t>(ScratchSlots::CountFor(threads));
}

void Run(const ConvShape& s, const float* x, const float* packed, float* y,
         const Epilogue& epilogue, void* scratch, const Parallel& par) {
  if (IsProduct(s)) return Gemm(ProductOf(s), x, nullptr, packed, y, epilogue, scratch, par);
  Cut cut = CutConv(s, par.threads);
  if (par.threads <= 1 && cut.source != Cut::Source::kLines) {  // each part takes some 0.1 us
    cut.row_parts = 1;
    cut.pieces = 0;
  }
  const PreparedEpilogue prepared(epilogue);
  Work work{s, cut, x, packed, y, prepared, static_cast<float*>(scratch)};
  ScratchSlots slots(static_cast<std::byte*>(scratch) + cut.ahead_bytes, cut.slot_bytes,
                     ScratchSlots::CountFor(par.threads));
  if (cut.source == Cut::Source::kLines) {
    std::array<int64_t, kOneChain / 2> starts;
    // Of the taps of one line the next is always as far away.
    const int64_t pieces = PiecesOfLine(s);
    if (pieces > 1 && (s.x_planes || cut.kernel_lines > 1)) {
      const int64_t lines = std::min(cut.kernel_lines, s.kernel[1]);
      for (int64_t kh = 0, i = 0; kh < lines; ++kh) {
        for (int64_t piece = 0; piece < pieces; ++piece, ++i) {
          starts[i] = s.x_planes ? (kh * s.dilation[1] + piece * s.in[1]) * s.in[2]
                                 : (kh * s.dilation[1] * s.in[2] + piece * s.dilation[2]) * s.cin;
        }
      }
      work.starts = starts.data();
    }
    const int64_t lines = s.batch * s.out[1], tile = GemmTileRows();
    const int64_t tiles = CeilDiv(s.out[2], tile), row_parts = cut.row_parts / cut.line_parts;
    par.For(cut.row_parts, [&](int64_t task) {
      const ScratchSlots::Lease lease(slots);
      const int64_t row_part = task / cut.line_parts, part = task % cut.line_parts;
      RunLines(work, lines * row_part / row_parts, lines * (row_part + 1) / row_parts,
               tiles * part / cut.line_parts * tile,
               std::min(s.out[2], tiles * (part + 1) / cut.line_parts * tile), lease.floats());
    });
    return;
  }
  if (cut.source == Cut::Source::kAhead) GatherAhead(work, par);
  if (cut.source == Cut::Source::kSlid) CopyLine(work, par);
  const int64_t columns = s.groups * cut.column_parts, parts = cut.row_parts * columns;
  const bool is_little = parts == s.groups && WantedTasks(static_cast<double>(s.Flops()), 0) == 1;
  const int64_t tasks = is_little ? 1 : parts;
  // With weights that stay in the cache, and are less than the pixels in and out, the columns of
  // one part of the rows follow each other.
  const int64_t pixels = s.InPixels() * s.cin + s.OutPixels() * s.cout;
  const bool by_rows =
      PackedFloats(cut) * s.groups <= std::min<int64_t>(kRowsFirstBytes / 4, pixels);
  const OwnedParts owned{
      cut.row_parts, columns,
      by_rows ? cut.row_parts : OwnersOfRows(cut.pixels, cut.row_parts, par.threads)};
  const Parts ranges(s, cut);
  par.For(tasks, [&](int64_t task) {
    std::optional<ScratchSlots::Lease> lease;
    if (cut.slot_bytes > 0) lease.emplace(slots);
    const int64_t end = is_little ? parts : task + 1;
    for (int64_t i = task; i < end; ++i) {
      const OwnedParts::Part part = owned.At(i);
      RunPart(work, ranges, ranges.rows[part.row], part.column, lease ? lease->floats() : nullptr);
    }
  });
}

bool Collides(const ConvShape& s) {
  return s.KernelSize() == 1 && s.groups == 1 &&
         BetterApart(s.stride[2] * s.x_stride, s.OutPixels());
}

}  // namespace

const ConvMethod kConvGemm = {.refusal = [](const ConvShape&) { return std::string_view(); },
                              .cost = Cost,
                              .packed_bytes = PackedBytes,
                              .packed_form = PackedForm,
                              .pack = Pack,
                              .pack_step = PackStep,
                              .scratch_bytes = ScratchBytes,
                              .in_place = StoresOnce,
                              .by_lines = TakesLines,
                              .collides = Collides,
                              .reads_dense = ReadsLines,
                              .takes_planes = ReadsLines,
                              .run = Run};

}  // namespace sardonyx
