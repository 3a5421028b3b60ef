// Convolution whose windows mostly see padding: widely dilated ones, as segmentation ends with, and
// such over images of a few pixels. Each kernel position is a product of the pixels that it sees
// alone, added to the pixels of the result that see it; one that only sees padding is left out, and
// its weights are not read. A few columns at a time, so that sums and weights stay in the cache.

#include <algorithm>

#include "kernels/chains.h"
#include "kernels/conv_internal.h"
#include "kernels/gemm.h"

namespace sardonyx {
namespace {

constexpr int64_t kBlockBytes = 256 << 10;  // of the result's columns that are summed together
constexpr int64_t kLeastChannels = 16;      // for which a product of one position is worth a call

// The output positions along an axis whose kernel position t lies in the input.
struct Seen {
  int64_t begin, end;
};
Seen SeenBy(const ConvShape& s, int axis, int64_t t) {
  const int64_t shift = t * s.dilation[axis] - s.pad_begin[axis];
  const int64_t begin = shift >= 0 ? 0 : CeilDiv(-shift, s.stride[axis]);
  const int64_t last = s.in[axis] - 1 - shift;
  const int64_t end = last < 0 ? 0 : std::min(s.out[axis], last / s.stride[axis] + 1);
  return {std::min(begin, end), end};
}

// How many pairs of an output and a kernel position lie in the input, and how many kernel positions
// any output sees, along an axis.
struct Pairs {
  int64_t seen = 0, taps = 0;
};
Pairs CountPairs(const ConvShape& s, int axis) {
  Pairs pairs;
  for (int64_t t = 0; t < s.kernel[axis]; ++t) {
    const Seen seen = SeenBy(s, axis, t);
    pairs.seen += seen.end - seen.begin;
    pairs.taps += seen.end > seen.begin;
  }
  return pairs;
}

// Blocks of planes or lines, and parts of a group's columns.
struct Cut {
  explicit Cut(const ConvShape& s) : channels(s.cin / s.groups), n(s.cout / s.groups) {
    const int64_t panel = GemmPanelWidth(), panels = CeilDiv(n, panel);
    const int64_t image = s.out[0] * s.out[1] * s.out[2];
    lines = s.batch * s.out[0] * s.out[1];
    const double flops = static_cast<double>(s.Flops());
    // All of the result, in as few columns as threads need; in more lines only if it is large.
    const int64_t wanted = CeilDiv(WantedTasks(flops, 0), s.groups);
    column_parts = std::min(panels, std::max<int64_t>(wanted, 1));
    columns = CeilDiv(panels, column_parts) * panel;
    column_parts = CeilDiv(n, columns);
    const int64_t most = std::max<int64_t>(kBlockBytes / (columns * 4), s.out[2]);
    line_parts = std::min(lines, CeilDiv(s.batch * image, most));
  }
  int64_t channels, n;  // of a group
  int64_t columns, column_parts;
  int64_t lines, line_parts;  // of the batch
};

int64_t GroupFloats(const ConvShape& s, const Cut& cut) {
  return static_cast<int64_t>(GemmPackedBytes(s.KernelSize() * cut.channels, cut.n) /
                              sizeof(float));
}

// Adds a kernel position to the output lines [begin, end) of the batch. `args` has the columns.
void AddTap(const ConvShape& s, const int64_t (&tap)[3], const float* x, float* y, int64_t begin,
            int64_t end, int64_t channels, GemmBlockArgs args) {
  const Seen deep = SeenBy(s, 0, tap[0]), down = SeenBy(s, 1, tap[1]),
             across = SeenBy(s, 2, tap[2]);
  if (across.begin == across.end) return;
  const auto from = [&](int axis, int64_t o) {
    return o * s.stride[axis] + tap[axis] * s.dilation[axis] - s.pad_begin[axis];
  };
  // Lines that are seen from end to end follow each other in both.
  const bool joins = across.end - across.begin == s.out[2] && s.in[2] == s.out[2] &&
                     s.stride[1] == 1 && s.stride[2] == 1;
  const int64_t k0 = args.k0, depth = GemmDepth(channels);
  for (int64_t line = begin, next; line < end; line = next) {
    next = line + 1;
    const int64_t h = line % s.out[1], d = line / s.out[1] % s.out[0];
    const int64_t item = line / (s.out[1] * s.out[0]);
    if (d < deep.begin || d >= deep.end || h < down.begin || h >= down.end) continue;
    if (joins) next = std::min(end, line + down.end - h);
    const int64_t pixel = ((item * s.in[0] + from(0, d)) * s.in[1] + from(1, h)) * s.in[2];
    const float* const a = x + (pixel + from(2, across.begin)) * s.x_stride;
    args.c = y + (line * s.out[2] + across.begin) * s.y_stride;
    args.rows = (next - line - 1) * s.out[2] + across.end - across.begin;
    for (int64_t k = 0; k < channels; k += args.kc) {
      args.a = a + k;
      args.k0 = k0 + k;
      args.kc = std::min(depth, channels - k);
      GemmBlock(args);
    }
  }
}

void RunBlock(const ConvShape& s, const Cut& cut, int64_t group, int64_t n0, int64_t n1,
              int64_t begin, int64_t end, const float* x, const float* packed, float* y,
              const PreparedEpilogue& prepared) {
  const int64_t first = begin * s.out[2], pixels = (end - begin) * s.out[2];
  float* const of_group = y + group * cut.n;
  for (int64_t i = first; i < first + pixels; ++i) {
    std::fill_n(of_group + i * s.y_stride + n0, n1 - n0, 0.0f);
  }
  GemmBlockArgs args{};
  args.lda = s.stride[2] * s.x_stride;
  args.b = packed + group * GroupFloats(s, cut);
  args.k_total = s.KernelSize() * cut.channels;
  args.n_total = cut.n;
  args.is_all = cut.n <= GemmPanelWidth();
  args.n0 = n0;
  args.n1 = n1;
  args.ldc = s.y_stride;
  args.accumulate = true;
  for (int64_t t = 0; t < s.KernelSize(); ++t, args.k0 += cut.channels) {
    const int64_t line = t / s.kernel[2];
    AddTap(s, {line / s.kernel[1], line % s.kernel[1], t % s.kernel[2]}, x + group * cut.channels,
           of_group, begin, end, cut.channels, args);
  }
  prepared.Apply(of_group + first * s.y_stride + n0, s.y_stride, first, pixels, group * cut.n + n0,
                 n1 - n0);
}

Pairs CountPairs(const ConvShape& s) {
  Pairs all{1, 1};
  for (int axis = 0; axis < 3; ++axis) {
    const Pairs pairs = CountPairs(s, axis);
    all = {all.seen * pairs.seen, all.taps * pairs.taps};
  }
  return all;
}

std::string_view Refusal(const ConvShape& s) {
  if (s.KernelSize() == 1) return "its window is one pixel";
  if (s.cin / s.groups < kLeastChannels || s.cout / s.groups < kLeastChannels) {
    return "it has few channels";
  }
  const int64_t all = s.OutPixels() / std::max<int64_t>(s.batch, 1) * s.KernelSize();
  return 4 * CountPairs(s).seen > 3 * all ? "windows see little padding" : "";
}

double Cost(const ConvShape& s) {
  const Pairs all = CountPairs(s);
  const auto of_tap = static_cast<double>(s.cin / s.groups * s.cout);
  const auto seen = static_cast<double>(s.batch * all.seen);
  // Sums are loaded and stored for each kernel position, of each line by a call.
  const auto calls = static_cast<double>(s.groups * Cut(s).column_parts * all.taps * s.batch *
                                         s.out[0] * s.out[1]);
  return 1.15 * ProductCost(seen * of_tap, static_cast<double>(4 * all.taps) * of_tap) +
         seen * static_cast<double>(s.cout) * 8.0e-5 + calls * 0.03;
}

void Run(const ConvShape& s, const float* x, const float* packed, float* y,
         const Epilogue& epilogue, void*, const Parallel& par) {
  const Cut cut(s);
  const PreparedEpilogue prepared(epilogue, PreparedEpilogue::Tiles::kNone);
  const int64_t columns = s.groups * cut.column_parts;
  par.For(columns * cut.line_parts, [&](int64_t task) {
    const int64_t column = task / cut.line_parts, part = task % cut.line_parts;
    const int64_t n0 = column % cut.column_parts * cut.columns;
    RunBlock(s, cut, column / cut.column_parts, n0, std::min(cut.n, n0 + cut.columns),
             cut.lines * part / cut.line_parts, cut.lines * (part + 1) / cut.line_parts, x, packed,
             y, prepared);
  });
}

}  // namespace

// Packed as for the product of all kernel positions.
const ConvMethod kConvTaps = {
    .refusal = Refusal,
    .cost = Cost,
    .packed_bytes = [](const ConvShape& s) { return kConvGemm.packed_bytes(s); },
    .pack = [](const ConvShape& s, const ConvWeightRows& rows, float* packed,
               const Parallel& par) { kConvGemm.pack(s, rows, packed, par); },
    .pack_step = [](const ConvShape& s) { return kConvGemm.pack_step(s); },
    .scratch_bytes = [](const ConvShape&, int) { return size_t{0}; },
    .in_place = [](const ConvShape&) { return false; },
    .collides = [](const ConvShape& s) { return kConvGemm.collides(s); },
    .run = Run,
};

}  // namespace sardonyx
