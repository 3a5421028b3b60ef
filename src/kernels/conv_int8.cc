// How convolutions of bytes are packed, copied and gathered; the products are gemm_int8's.

#include "kernels/conv_int8.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/conv_int8_cut.h"
#include "kernels/conv_int8_depthwise.h"
#include "kernels/conv_internal.h"
#include "kernels/int8_panel.h"
#include "kernels/scratch_slots.h"
#include "kernels/transpose.h"

namespace sardonyx {
namespace {

using conv_int8::Cut;
using conv_int8::CutConv;
using conv_int8::CutsByThreads;
using conv_int8::IsPointwise;

// Pixels `first` ... first + columns - 1 of a line of a group's channels, padded up to `count`
// values, as uint8 with `flip` applied; null: all padding.
void PadLine(const ConvShape& s, const uint8_t* from, int64_t first, int64_t columns, uint8_t zero,
             uint8_t flip, int64_t count, uint8_t* to) {
  const int64_t channels = s.cin / s.groups;
  const int64_t left = from == nullptr ? columns : std::clamp<int64_t>(-first, 0, columns);
  const int64_t inside = std::clamp<int64_t>(s.in[2] - first - left, 0, columns - left);
  uint8_t* at = std::fill_n(to, left * channels, zero);
  if (inside > 0) from += (first + left) * s.x_stride;
  if (s.x_stride == channels) {
    at = std::copy_n(from, inside * channels, at);
  } else {
    for (int64_t w = 0; w < inside; ++w, from += s.x_stride) at = std::copy_n(from, channels, at);
  }
  std::fill(at, to + count, zero);
  if (flip == 0) return;
  // A word at a time: the compiler would do byte by byte. `count` is a multiple of 32.
  const uint64_t flips = flip * uint64_t{0x0101010101010101};
  for (int64_t i = 0; i < count; i += 8) {
    uint64_t word;
    std::memcpy(&word, to + i, sizeof(word));
    word ^= flips;
    std::memcpy(to + i, &word, sizeof(word));
  }
}

// Output pixels `first` ... as rows of packed K bytes; those between segments are `nothing`.
void Gather(const ConvShape& s, const Cut& cut, int64_t group, const uint8_t* x, uint8_t zero,
            uint8_t nothing, int64_t first, int64_t rows, uint8_t* to) {
  const int64_t channels = s.cin / s.groups, line = s.kernel[2] * channels;
  const int64_t to_stride = cut.gathered_stride;
  const bool dense = s.dilation[2] == 1 && s.x_stride == channels;
  x += group * channels;
  const auto fill = [zero](uint8_t* at, int64_t count) {
    std::memset(at, zero, static_cast<size_t>(count));
  };
  OutputPixel out(s, first);
  for (int64_t row = 0; row < rows; ++row, to += to_stride, out.Advance(s)) {
    const int64_t item = out.item, d0 = out.First(s, 0), h0 = out.First(s, 1);
    const int64_t w0 = out.First(s, 2);
    const int64_t left = std::clamp<int64_t>(-w0, 0, s.kernel[2]);
    const int64_t right = std::clamp<int64_t>(s.in[2] - w0, left, s.kernel[2]);
    uint8_t* at = to;
    for (int64_t kd = 0; kd < s.kernel[0]; ++kd) {
      const int64_t d = d0 + kd * s.dilation[0];
      for (int64_t kh = 0; kh < s.kernel[1]; ++kh, at += cut.segment_k) {
        const int64_t h = h0 + kh * s.dilation[1];
        std::fill(at + line, at + cut.segment_k, nothing);
        if (d < 0 || d >= s.in[0] || h < 0 || h >= s.in[1]) {
          fill(at, line);
          continue;
        }
        const uint8_t* from = x + ((item * s.in[0] + d) * s.in[1] + h) * s.in[2] * s.x_stride;
        if (dense) {
          if (left > 0) fill(at, left * channels);
          std::memcpy(at + left * channels, from + (w0 + left) * channels,
                      static_cast<size_t>((right - left) * channels));
          if (right < s.kernel[2]) fill(at + right * channels, (s.kernel[2] - right) * channels);
          continue;
        }
        for (int64_t kw = 0; kw < s.kernel[2]; ++kw) {
          const int64_t w = w0 + kw * s.dilation[2];
          if (w < 0 || w >= s.in[2]) {
            fill(at + kw * channels, channels);
          } else {
            std::memcpy(at + kw * channels, from + w * s.x_stride, static_cast<size_t>(channels));
          }
        }
      }
    }
  }
}

// Turns the highest bit of each byte of some words.
void FlipWords(void* words, int64_t count) {
  for (auto* at = static_cast<std::byte*>(words); count > 0; at += 4, --count) {
    uint32_t word;
    std::memcpy(&word, at, sizeof(word));
    word ^= 0x80808080;
    std::memcpy(at, &word, sizeof(word));
  }
}

constexpr int64_t kMostTaps = 49;

// Whether weights are dense [cout, cin, kernel], of few taps, and whole words for four channels.
bool KernelsFollow(const ConvShape& s, const Int8Weights& weights) {
  const int64_t taps = s.KernelSize();
  return taps > 1 && taps <= kMostTaps && weights.t_stride == 1 && weights.c_stride == taps &&
         weights.n_stride % 4 == 0 && s.cin / s.groups % 4 == 0;
}

// Columns [n0, n1) of a group of such weights, a panel.
void PackKernels(const Cut& cut, const ConvShape& s, const Int8Weights& weights, int64_t n0,
                 int64_t n1, uint8_t flip, std::byte* panel) {
  constexpr int64_t kMostWidth = 32, kTogether = 16;  // channels that are read at a time
  uint32_t words[kTogether / 4 * kMostTaps * kMostWidth];
  const int64_t channels = s.cin / s.groups, taps = s.KernelSize(), width = Int8PanelWidth();
  const auto* const from = static_cast<const uint8_t*>(weights.data) + n0 * weights.n_stride;
  for (int64_t c = 0; c < channels; c += 4) {
    const int64_t read = c % kTogether / 4 * taps;
    if (read == 0) {
      TransposeMatrix(from + c * taps, weights.n_stride / 4, words, width,
                      std::min(kTogether, channels - c) / 4 * taps, n1 - n0);
    }
    for (int64_t t = 0; t < taps; ++t) {
      const int64_t first = t / s.kernel[2] * cut.segment_k + t % s.kernel[2] * channels + c;
      Int8GatherTap(words + read * width, width, taps, t, n1 - n0, flip, panel + first * width);
    }
  }
}

// Columns [n0, n1) of a group, one panel, and the sums of its columns. Position by position of the
// kernel, so that what is written stays in the cache.
void PackPanel(const Cut& cut, const ConvShape& s, const Int8Weights& weights, int64_t n0,
               int64_t n1, std::byte* panel, int32_t* sums) {
  const int64_t channels = s.cin / s.groups, width = Int8PanelWidth();
  std::memset(panel, 0, static_cast<size_t>(cut.PanelBytes()));
  const uint8_t flip = weights.is_signed ? 0 : 0x80;
  // Copies: bytes that are written might be part of `weights`, as the language has it.
  const int64_t n_stride = weights.n_stride, c_stride = weights.c_stride, taps = s.KernelSize();
  const bool by_kernel = KernelsFollow(s, weights);
  if (by_kernel) PackKernels(cut, s, weights, n0, n1, flip, panel);
  for (int64_t t = 0; !by_kernel && t < taps; ++t) {
    const int64_t first = t / s.kernel[2] * cut.segment_k + t % s.kernel[2] * channels;
    const uint8_t* from =
        static_cast<const uint8_t*>(weights.data) + n0 * n_stride + t * weights.t_stride;
    // Whole groups.
    const int64_t whole = first % 4 == 0 ? channels / 4 * 4 : 0;
    auto* const to = reinterpret_cast<uint8_t*>(panel) + first / 4 * 4 * width;
    const bool by_column = n_stride == 1, by_row = c_stride == 1 && n_stride % 4 == 0;
    if (by_column) {
      Int8InterleaveRows(from, c_stride, whole, n1 - n0, flip, to);
    } else if (by_row) {
      TransposeMatrix(from, n_stride / 4, to, width, whole / 4, n1 - n0);
      for (int64_t c = 0; flip != 0 && c < whole; c += 4) FlipWords(to + c * width, n1 - n0);
    }
    const int64_t done = by_column || by_row ? whole : 0;
    for (int64_t n = 0; n < n1 - n0; ++n, from += n_stride) {
      const uint8_t* next = from + done * c_stride;
      const auto element = [&] {
        const auto value = static_cast<uint8_t>(*next ^ flip);
        next += c_stride;
        return value;
      };
      for (int64_t c = done; c < whole; c += 4) {
        // A word rather than bytes: the processor would wait for bytes to become one.
        uint32_t group = 0;
        for (int shift = 0; shift < 32; shift += 8) group |= uint32_t{element()} << shift;
        std::memcpy(to + c * width + n * 4, &group, sizeof(group));
      }
      for (int64_t c = whole; c < channels; ++c) {
        const int64_t at = first % 4 + c;
        to[at / 4 * 4 * width + n * 4 + at % 4] = element();
      }
    }
  }
  Int8SumColumns(panel, cut.segments * cut.groups, sums);
}

int32_t ZeroOf(const void* zeros, bool is_signed, int64_t i) {
  return is_signed ? static_cast<const int8_t*>(zeros)[i] : static_cast<const uint8_t*>(zeros)[i];
}

// By column of all groups: init and the factor of the rows' sums; true if any factor is not 0.
bool PrepareColumns(const ConvShape& s, const Cut& cut, const Int8ConvArgs& args, int32_t* init,
                    int32_t* row_factor) {
  // Of the values as they are multiplied. Products wrap around where int32 does.
  const auto x_zero = static_cast<uint32_t>(args.x_zero + (args.x_signed ? 128 : 0));
  const auto k = static_cast<uint32_t>(cut.k);
  const auto zero_of = [&](int64_t j) {
    const int32_t given = args.w_zeros == nullptr ? 0 : ZeroOf(args.w_zeros, args.w_signed, j);
    return given - (args.w_signed ? 0 : 128);
  };
  const int32_t first_zero = zero_of(0);
  std::fill_n(row_factor, s.cout + kInt8ColumnSlack, -first_zero);
  bool any = first_zero != 0;
  for (int64_t j = 0; args.w_zero_count > 1 && j < s.cout; ++j) {
    row_factor[j] = -zero_of(j);
    any |= row_factor[j] != 0;
  }
  std::fill_n(init, s.cout + kInt8ColumnSlack, 0);
  for (int64_t group = 0; x_zero != 0 && group < s.groups; ++group) {
    const auto* sums = reinterpret_cast<const int32_t*>(static_cast<const std::byte*>(args.packed) +
                                                        cut.GroupOffset(group) + cut.SumsOffset());
    const int32_t *const factors = row_factor + group * cut.n, *const end = sums + cut.n;
    const auto value = [x_zero, k](int32_t sum, int32_t factor) {
      const uint32_t rest = k * static_cast<uint32_t>(factor) + static_cast<uint32_t>(sum);
      return static_cast<int32_t>(0u - x_zero * rest);
    };
    std::transform(sums, end, factors, init + group * cut.n, value);
  }
  return any;
}

// One call of ConvInt8.
struct Work {
  const ConvShape& s;
  const Int8ConvArgs& args;
  const Cut& cut;
  const int32_t* init;  // by column of all groups, as row_factor
  const int32_t* row_factor;
  bool sums_rows;
  uint8_t* copied;                      // lines of all items, if they are copied before
  int64_t channels = s.cin / s.groups;  // of a group

  // Input line `line` of the batch, from channel 0 of the group on.
  const uint8_t* LineOf(int64_t line, int64_t group) const {
    return static_cast<const uint8_t*>(args.x) + line * s.in[2] * s.x_stride + group * channels;
  }

  Int8BlockArgs BlockOf(int64_t group, int64_t column_part, std::byte* slot) const {
    const int64_t width = Int8PanelWidth();
    Int8BlockArgs block{};
    block.b = static_cast<const std::byte*>(args.packed) + cut.GroupOffset(group);
    block.n0 = cut.panels * column_part / cut.column_parts * width;
    block.n1 = std::min(cut.n, cut.panels * (column_part + 1) / cut.column_parts * width);
    block.first_column = group * cut.n;
    if (cut.splits) {
      const auto* const own = static_cast<const std::byte*>(block.b);
      block.excess = reinterpret_cast<const Int8Excess*>(own + cut.ExcessOffset());
      block.excess_counts = reinterpret_cast<const int32_t*>(own + cut.ExcessCountsOffset());
      block.most_excess = cut.most_excess;
      block.excess_scratch = slot + cut.excess_offset;
    }
    if (cut.widens) block.widened = reinterpret_cast<int32_t*>(slot + cut.widened_offset);
    block.column_sums =
        reinterpret_cast<const int32_t*>(static_cast<const std::byte*>(block.b) + cut.SumsOffset());
    block.init = init + block.first_column;
    block.row_factor = row_factor + block.first_column;
    return block;
  }

  // Of all rows of a block of lines or runs, whose segments have k values.
  void SumRowsOf(int64_t k, std::byte* slot, Int8BlockArgs& block) const {
    if (!sums_rows) return;
    auto* const sums = reinterpret_cast<int32_t*>(slot + cut.sums_offset);
    std::byte* const scratch = slot + cut.windows_offset;
    const auto sum_line = [&]<typename T>(const T* a, int64_t line) {
      constexpr int64_t kBytes = sizeof(T);
      Int8SumWindows(a + line * block.line_bytes / kBytes, block.a_bytes / kBytes, block.rows, k,
                     block.segments, block.segment_bytes / kBytes, scratch,
                     sums + line * block.rows);
    };
    for (int64_t line = 0; line < block.lines; ++line) {
      if (cut.widens) {
        sum_line(static_cast<const int16_t*>(block.a), line);
      } else if (block.segments == 1 && k <= block.a_bytes) {
        Int8SumRows(static_cast<const uint8_t*>(block.a) + line * block.line_bytes, block.a_bytes,
                    block.rows, k, false, sums + line * block.rows);
      } else {
        sum_line(static_cast<const uint8_t*>(block.a), line);
      }
    }
    block.row_sums = sums;
  }

  // Where the block's first row goes.
  void Place(int64_t row, Int8BlockArgs& block) const {
    block.store = args.Store(s).From(row, block.first_column);
  }

  // Pixels of a line, padded and widened. `line`: room for them before they are widened.
  void CopyLine(const uint8_t* from, int64_t first, int64_t columns, uint8_t* line,
                uint8_t* to) const {
    PadLine(s, from, first, columns, static_cast<uint8_t>(args.x_zero), args.x_signed ? 0x80 : 0,
            cut.line_k, cut.widens ? line : to);
    if (cut.widens) {
      Int8Widen(line, cut.line_k, 1, cut.line_k, false, reinterpret_cast<int16_t*>(to), cut.line_k);
    }
  }

  // The `count` lines of an image from h on.
  void CopyLines(int64_t item, int64_t h, int64_t count, int64_t group, uint8_t* line,
                 uint8_t* to) const {
    const int64_t columns = (s.out[2] - 1) * s.stride[2] + s.kernel[2];
    for (int64_t i = 0; i < count; ++i, ++h, to += cut.LineBytes()) {
      const bool inside = h >= 0 && h < s.in[1];
      CopyLine(inside ? LineOf(item * s.in[1] + h, group) : nullptr, -s.pad_begin[2], columns, line,
               to);
    }
  }

  // What the segments of some pixels of an output line see, one behind the other.
  void CopySegments(int64_t line, int64_t pixel, int64_t pixels, int64_t group, uint8_t* own,
                    uint8_t* to) const {
    const int64_t taps = s.KernelSize() / cut.run_segments;
    const int64_t columns = (pixels - 1) * s.stride[2] + taps;
    const int64_t item = line / (s.out[0] * s.out[1]);
    for (int64_t t = 0; t < s.KernelSize(); t += taps, to += cut.LineBytes()) {
      const int64_t kd = t / (s.kernel[1] * s.kernel[2]), kh = t / s.kernel[2] % s.kernel[1];
      const int64_t d =
          line / s.out[1] % s.out[0] * s.stride[0] + kd * s.dilation[0] - s.pad_begin[0];
      const int64_t h = line % s.out[1] * s.stride[1] + kh * s.dilation[1] - s.pad_begin[1];
      const bool inside = d >= 0 && d < s.in[0] && h >= 0 && h < s.in[1];
      CopyLine(inside ? LineOf((item * s.in[0] + d) * s.in[1] + h, group) : nullptr,
               pixel * s.stride[2] + t % s.kernel[2] * s.dilation[2] - s.pad_begin[2], columns, own,
               to);
    }
  }

  // The lines that the output sees, all items' one after the other.
  void CopyAllLines(ScratchSlots& slots, const Parallel& par) const {
    const int64_t seen = LinesSeen(s, s.out[1]), all = s.batch * seen;
    const int64_t tasks = WantedTasks(0, static_cast<double>(all * cut.LineBytes()));
    par.For(tasks, [&](int64_t task) {
      const ScratchSlots::Lease lease(slots);
      for (int64_t i = all * task / tasks; i < all * (task + 1) / tasks; ++i) {
        CopyLines(i / seen, i % seen - s.pad_begin[1], 1, 0,
                  reinterpret_cast<uint8_t*>(lease.floats()), copied + i * cut.LineBytes());
      }
    });
  }

  // A part of the output's lines.
  void RunLines(int64_t group, int64_t line_part, int64_t column_part, std::byte* slot) const {
    const int64_t all = s.batch * s.out[1], end = all * (line_part + 1) / cut.line_parts;
    Int8BlockArgs block = BlockOf(group, column_part, slot);
    block.groups = cut.groups;
    block.segments = cut.segments;
    block.segment_bytes = s.dilation[1] * cut.LineBytes();
    block.line_bytes = s.stride[1] * (cut.skips ? s.in[2] * s.x_stride : cut.LineBytes());
    block.a_bytes = s.stride[2] * (cut.skips ? s.x_stride : channels * cut.ElementBytes());
    block.rows = s.out[2];
    for (int64_t line = all * line_part / cut.line_parts; line < end; line += block.lines) {
      const int64_t item = line / s.out[1], first = line % s.out[1];
      block.lines = std::min({cut.lines, end - line, s.out[1] - first});
      const int64_t h0 = first * s.stride[1] - s.pad_begin[1];
      if (cut.skips) {
        block.a = LineOf(item * s.in[1] + h0, group);
      } else if (cut.copies_before) {
        const int64_t seen = LinesSeen(s, s.out[1]);
        block.a = copied + (item * seen + first * s.stride[1]) * cut.LineBytes();
      } else {
        auto* const own = reinterpret_cast<uint8_t*>(slot);
        uint8_t* const to = own + AlignBytes(static_cast<size_t>(cut.line_k) + 64);
        CopyLines(item, h0, LinesSeen(s, block.lines), group, own, to);
        block.a = to;
      }
      SumRowsOf(s.kernel[2] * channels, slot, block);
      Place(line * s.out[2], block);
      Int8Block(block);
    }
  }

  // A part of the output's runs.
  void RunRuns(int64_t group, int64_t part, int64_t column_part, std::byte* slot) const {
    const int64_t in_line = CeilDiv(s.out[2], cut.run);
    const int64_t all = s.batch * s.out[0] * s.out[1] * in_line;
    auto* const own = reinterpret_cast<uint8_t*>(slot);
    uint8_t* const segments = own + AlignBytes(static_cast<size_t>(cut.line_k) + 64);
    Int8BlockArgs block = BlockOf(group, column_part, slot);
    block.a = segments;
    block.a_bytes = s.stride[2] * channels * cut.ElementBytes();
    block.groups = cut.segments * cut.groups / cut.run_segments;
    block.segments = cut.run_segments;
    block.segment_bytes = cut.LineBytes();
    for (int64_t i = all * part / cut.line_parts; i < all * (part + 1) / cut.line_parts; ++i) {
      const int64_t line = i / in_line, pixel = i % in_line * cut.run;
      block.rows = std::min(cut.run, s.out[2] - pixel);
      CopySegments(line, pixel, block.rows, group, own, segments);
      SumRowsOf(s.KernelSize() / cut.run_segments * channels, slot, block);
      Place(line * s.out[2] + pixel, block);
      Int8Block(block);
    }
  }

  // A part of the output's pixels.
  void RunRows(int64_t group, int64_t row_part, int64_t column_part, std::byte* slot) const {
    const int64_t units = CeilDiv(cut.pixels, cut.unit);
    const int64_t m0 = units * row_part / cut.row_parts * cut.unit;
    const int64_t m1 = std::min(cut.pixels, units * (row_part + 1) / cut.row_parts * cut.unit);
    if (m0 >= m1) return;
    const int64_t step = RoundUp(CeilDiv(m1 - m0, CeilDiv(m1 - m0, cut.rows)), cut.unit);
    auto* const row_sums = reinterpret_cast<int32_t*>(slot);
    auto* const gathered =
        reinterpret_cast<uint8_t*>(slot) + AlignBytes(static_cast<size_t>(step) * 4);
    auto* const widened = reinterpret_cast<int16_t*>(
        gathered + AlignBytes(static_cast<size_t>(step * cut.gathered_stride)));
    const auto* const x = static_cast<const uint8_t*>(args.x);
    Int8BlockArgs block = BlockOf(group, column_part, slot);
    block.flip = args.x_signed && !cut.widens;
    block.groups = cut.segments * cut.groups;
    block.row_sums = sums_rows ? row_sums : nullptr;
    block.a_bytes = cut.a_bytes;
    for (int64_t row = m0; row < m1; row += step) {
      block.rows = std::min(step, m1 - row);
      const uint8_t* from = x + row * s.x_stride + group * channels;
      int64_t stride = s.x_stride, k = cut.k;
      if (!IsPointwise(s) || (!cut.direct && !cut.widens)) {
        Gather(s, cut, group, x, static_cast<uint8_t>(args.x_zero), args.x_signed ? 0x80 : 0, row,
               block.rows, gathered);
        from = gathered;
        stride = cut.gathered_stride;
        k = cut.PackedK();
      }
      if (sums_rows) Int8SumRows(from, stride, block.rows, k, args.x_signed, row_sums);
      block.a = from;
      if (cut.widens) {
        Int8Widen(from, stride, block.rows, k, args.x_signed, widened, cut.a_bytes / 2);
        block.a = widened;
      }
      Place(row, block);
      Int8Block(block);
    }
  }
};

// A panel of a group of packed weights, and what was split from it.
struct PackedPanel {
  PackedPanel(const Cut& cut, int64_t i, void* packed)
      : group(i / cut.panels),
        panel(i % cut.panels),
        base(static_cast<std::byte*>(packed) + cut.GroupOffset(group)),
        groups(base + panel * cut.PanelBytes()),
        sums(reinterpret_cast<int32_t*>(base + cut.SumsOffset()) + panel * Int8PanelWidth()),
        excess_count(reinterpret_cast<int32_t*>(base + cut.ExcessCountsOffset()) + panel),
        excess(reinterpret_cast<Int8Excess*>(base + cut.ExcessOffset()) + panel * cut.most_excess) {
  }
  int64_t group, panel;
  std::byte *base, *groups;
  int32_t *sums, *excess_count;
  Int8Excess* excess;
};

}  // namespace

size_t ConvInt8PackedBytes(const ConvShape& shape) {
  if (conv_int8_depthwise::Takes(shape)) return conv_int8_depthwise::PackedBytes(shape);
  return static_cast<size_t>(CutConv(shape, false, 1).GroupOffset(shape.groups));
}

void ConvInt8Pack(const ConvShape& shape, const Int8Weights& weights, void* packed,
                  const Parallel& par) {
  if (conv_int8_depthwise::Takes(shape)) return conv_int8_depthwise::Pack(shape, weights, packed);
  const Cut cut = CutConv(shape, false, 1);
  const int64_t width = Int8PanelWidth(), groups = cut.segments * cut.groups;
  const int64_t all = cut.panels * shape.groups;
  const int64_t parts =
      std::clamp<int64_t>(shape.cout * cut.k / 65536, 1, std::min<int64_t>(all, 32));
  const auto for_panels = [&](auto&& body) {
    par.For(parts, [&](int64_t part) {
      for (int64_t i = all * part / parts; i < all * (part + 1) / parts; ++i) {
        body(PackedPanel(cut, i, packed));
      }
    });
  };
  std::atomic<bool> splits = Int8SplitsExcess();
  for_panels([&](const PackedPanel& to) {
    Int8Weights from = weights;
    from.data = static_cast<const uint8_t*>(weights.data) + to.group * cut.n * weights.n_stride;
    PackPanel(cut, shape, from, to.panel * width, std::min(cut.n, (to.panel + 1) * width),
              to.groups, to.sums);
    const int64_t count =
        splits ? Int8SplitPanel(to.groups, groups, cut.most_excess, to.excess) : 0;
    if (count < 0) splits = false;
    *to.excess_count = static_cast<int32_t>(std::max<int64_t>(count, 0));
  });
  if (!splits && Int8Widens()) {
    for_panels([&](const PackedPanel& panel) {
      Int8JoinPanel(panel.groups, panel.excess, *panel.excess_count);
      Int8OrderPairs(panel.groups, groups);
    });
  }
  const std::byte header[Cut::kHeaderBytes] = {std::byte{splits.load()}};
  std::memcpy(packed, header, sizeof(header));
}

size_t ConvInt8ScratchBytes(const ConvShape& shape, int threads) {
  if (conv_int8_depthwise::Takes(shape)) return conv_int8_depthwise::ScratchBytes(shape, threads);
  return MostScratchBytes(threads, [&](int running) {
    size_t most = 0;
    for (const bool splits : {false, true}) {
      if (splits && !Int8SplitsExcess()) continue;
      const Cut cut = CutConv(shape, splits, running);
      most =
          std::max(most, 2 * cut.vector_bytes + cut.copied_bytes +
                             cut.slot_bytes * static_cast<size_t>(ScratchSlots::CountFor(running)));
    }
    return most;
  });
}

void ConvInt8(const ConvShape& s, const Int8ConvArgs& args, void* scratch, const Parallel& par) {
  if (conv_int8_depthwise::Takes(s)) return conv_int8_depthwise::Run(s, args, scratch, par);
  const bool splits = *static_cast<const std::byte*>(args.packed) != std::byte{0};
  const Cut cut = CutConv(s, splits, par.threads);
  auto* const base = static_cast<std::byte*>(scratch);
  auto* const init = reinterpret_cast<int32_t*>(base);
  auto* const row_factor = reinterpret_cast<int32_t*>(base + cut.vector_bytes);
  const bool sums_rows = PrepareColumns(s, cut, args, init, row_factor);
  auto* const copied = base + 2 * cut.vector_bytes;
  const Work work{s, args, cut, init, row_factor, sums_rows, reinterpret_cast<uint8_t*>(copied)};
  ScratchSlots slots(copied + cut.copied_bytes, cut.slot_bytes,
                     ScratchSlots::CountFor(par.threads));
  const bool by_lines = cut.by_lines && !(cut.skips && args.x_signed);
  const bool by_runs = cut.by_runs;
  if (by_lines && cut.copies_before) work.CopyAllLines(slots, par);
  const int64_t row_parts = by_lines || by_runs ? cut.line_parts : cut.row_parts;
  const int64_t parts = row_parts * cut.column_parts, count = s.groups * parts;
  const int64_t tasks = std::min<int64_t>(count, 32);
  const OwnedParts owned{row_parts, cut.column_parts,
                         OwnersOfRows(cut.pixels, row_parts, par.threads)};
  par.For(tasks, [&](int64_t task) {
    const ScratchSlots::Lease lease(slots);
    auto* const slot = reinterpret_cast<std::byte*>(lease.floats());
    for (int64_t i = count * task / tasks; i < count * (task + 1) / tasks; ++i) {
      const int64_t group = i / parts;
      const auto [row_part, column_part] = owned.At(i % parts);
      if (by_lines) {
        work.RunLines(group, row_part, column_part, slot);
      } else if (by_runs) {
        work.RunRuns(group, row_part, column_part, slot);
      } else {
        work.RunRows(group, row_part, column_part, slot);
      }
    }
  });
}

}  // namespace sardonyx
