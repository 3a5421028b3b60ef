// Transposed convolution to few channels, as networks that draw pictures end with: one product of
// the input's pixels with all taps at once, of which each is a few columns, and sums of these. A
// product for each tap would fill a part of a vector.

#include <algorithm>
#include <utility>

#include "kernels/conv_internal.h"
#include "kernels/gemm.h"
#include "kernels/scratch_slots.h"

namespace sardonyx::conv_transpose_few {

namespace {

constexpr int64_t kMostChannels = 4;
// What the products of a block take of the second-level cache.
constexpr int64_t kBlockBytes = 256 << 10;

// Lines of one pixel rather than one line.
ConvShape Upright(ConvShape s) {
  if (s.in[1] != 1 || s.out[1] != 1 || s.kernel[1] != 1 || s.pad_begin[1] != 0) return s;
  for (auto* field : {s.in, s.out, s.kernel, s.stride, s.dilation, s.pad_begin}) {
    std::swap(field[1], field[2]);
  }
  return s;
}

// Blocks of output lines, and the input lines that one sees.
struct Cut {
  explicit Cut(const ConvShape& s)
      : columns(s.KernelSize() * s.cout), ld(RoundUp(columns, kPanelGranule)) {
    const int64_t line_bytes = s.in[2] * ld * 4;
    const int64_t fitting = std::max<int64_t>(1, kBlockBytes / line_bytes) * s.stride[1];
    const double flops = 2.0 * static_cast<double>(s.InPixels() * s.cin * columns);
    const double bytes = 4.0 * static_cast<double>(s.InPixels() * (s.cin + 2 * columns));
    const int64_t reach = (s.kernel[1] - 1) * s.dilation[1];
    // Two blocks both multiply the lines that both see: an eighth of theirs at most.
    const int64_t shared = std::max<int64_t>(reach + 1 - s.stride[1], 0);
    const int64_t wanted = std::min(CeilDiv(WantedTasks(flops, bytes), s.batch),
                                    CeilDiv(s.out[1], std::max<int64_t>(8 * shared, 1)));
    blocks = std::clamp(wanted, std::min(CeilDiv(s.out[1], fitting), s.out[1]), s.out[1]);
    const int64_t seen = (CeilDiv(s.out[1], blocks) - 1 + reach) / s.stride[1] + 1;
    slot_bytes = AlignBytes(FloatBytes(std::min(seen, s.in[1]) * s.in[2] * ld));
  }
  int64_t columns, ld;  // of the product
  int64_t blocks;       // of an item
  size_t slot_bytes;
};

// Adds kCount floats of each of some pixels.
template <int kCount>
void AddPixels(const float* from, int64_t from_step, float* to, int64_t to_step, int64_t pixels) {
  for (; pixels > 0; --pixels, from += from_step, to += to_step) {
#pragma GCC unroll 4
    for (int c = 0; c < kCount; ++c) to[c] += from[c];
  }
}

using Add = void (*)(const float*, int64_t, float*, int64_t, int64_t);
constexpr Add kAdds[kMostChannels] = {AddPixels<1>, AddPixels<2>, AddPixels<3>, AddPixels<4>};

// Output line h of an item; `products` are those of its input lines from `first` to `end`.
void SumLine(const ConvShape& s, const Cut& cut, const float* products, int64_t first, int64_t end,
             int64_t h, float* y) {
  const bool is_dense = s.y_stride == s.cout;
  for (int64_t o = 0; o < (is_dense ? 1 : s.out[2]); ++o) {
    std::fill_n(y + o * s.y_stride, is_dense ? s.out[2] * s.cout : s.cout, 0.0f);
  }
  const Add add = kAdds[s.cout - 1];
  for (int64_t kh = 0; kh < s.kernel[1]; ++kh) {
    const int64_t down = h + s.pad_begin[1] - kh * s.dilation[1];
    if (down < 0 || down % s.stride[1] != 0 || down / s.stride[1] >= s.in[1]) continue;
    const int64_t line = down / s.stride[1];
    if (line < first || line >= end) continue;
    for (int64_t kw = 0; kw < s.kernel[2]; ++kw) {
      // Input pixel i goes to output pixel i * stride + shift.
      const int64_t shift = kw * s.dilation[2] - s.pad_begin[2];
      const int64_t begin = shift >= 0 ? 0 : CeilDiv(-shift, s.stride[2]);
      const int64_t pixels = std::min(s.in[2], CeilDiv(s.out[2] - shift, s.stride[2])) - begin;
      const float* const from =
          products + ((line - first) * s.in[2] + begin) * cut.ld + (kh * s.kernel[2] + kw) * s.cout;
      add(from, cut.ld, y + (begin * s.stride[2] + shift) * s.y_stride, s.stride[2] * s.y_stride,
          pixels);
    }
  }
}

// Lines of one pixel, whose taps lie one behind the other in the result: each input pixel adds all
// of its products at once.
bool IsOneLine(const ConvShape& s) {
  return s.in[2] == 1 && s.out[2] == 1 && s.kernel[2] == 1 && s.pad_begin[2] == 0 &&
         s.dilation[1] == 1 && s.y_stride == s.cout;
}

void AddTo(float* to, const float* from, int64_t count) {
  constexpr int64_t kTogether = 8;
  for (; count >= kTogether; count -= kTogether, to += kTogether, from += kTogether) {
    float sums[kTogether];  // loads before stores: the compiler takes vectors
    for (int64_t i = 0; i < kTogether; ++i) sums[i] = to[i] + from[i];
    for (int64_t i = 0; i < kTogether; ++i) to[i] = sums[i];
  }
  for (; count > 0; --count) *to++ += *from++;
}

// Pixels [h0, h1) of such a result; `y` is the first of the item, `products` as in SumLine.
void SumPixels(const ConvShape& s, const Cut& cut, const float* products, int64_t first,
               int64_t end, int64_t h0, int64_t h1, float* y) {
  std::fill_n(y + h0 * s.cout, (h1 - h0) * s.cout, 0.0f);
  for (int64_t i = first; i < end; ++i, products += cut.ld) {
    const int64_t begin = i * s.stride[1] - s.pad_begin[1];
    const int64_t from = std::max(begin, h0), to = std::min(begin + s.kernel[1], h1);
    AddTo(y + from * s.cout, products + (from - begin) * s.cout, (to - from) * s.cout);
  }
}

}  // namespace

bool Takes(const ConvShape& s) {
  return s.groups == 1 && s.cout <= kMostChannels && s.KernelSize() > 1 && s.in[0] == 1 &&
         s.out[0] == 1 && s.kernel[0] == 1 && s.pad_begin[0] == 0;
}

size_t PackedBytes(const ConvShape& s) {
  return AlignBytes(GemmPackedBytes(s.cin, Cut(Upright(s)).columns));
}

void Pack(const ConvShape& s, const ConvWeightRows& rows, float* packed, const Parallel& par) {
  // [cin, cout, taps] as panels of [cin, (tap, cout)].
  const int64_t taps = s.KernelSize(), columns = taps * s.cout, panel = GemmPanelWidth();
  par.For(CeilDiv(columns, panel), [&](int64_t i) {
    const int64_t n0 = i * panel, end = std::min(n0 + panel, columns);
    const int64_t width = RoundUp(end - n0, kPanelGranule);
    float* to = packed + n0 * s.cin + rows.first * width;
    const float* from = rows.data;
    for (int64_t c = rows.first; c < rows.end; ++c, from += columns) {
      for (int64_t n = n0; n < n0 + width; ++n) {
        *to++ = n < end ? from[n % s.cout * taps + n / s.cout] : 0.0f;
      }
    }
  });
}

size_t ScratchBytes(const ConvShape& s, int threads) {
  return Cut(Upright(s)).slot_bytes * static_cast<size_t>(ScratchSlots::CountFor(threads));
}

void Run(const ConvShape& shape, const float* x, const float* packed, float* y,
         const Epilogue& epilogue, void* scratch, const Parallel& par) {
  const ConvShape s = Upright(shape);
  const Cut cut(s);
  const PreparedEpilogue prepared(epilogue, PreparedEpilogue::Tiles::kNone);
  ScratchSlots slots(scratch, cut.slot_bytes, ScratchSlots::CountFor(par.threads));
  par.For(s.batch * cut.blocks, [&](int64_t task) {
    const ScratchSlots::Lease lease(slots);
    const int64_t item = task / cut.blocks, block = task % cut.blocks;
    const int64_t h0 = s.out[1] * block / cut.blocks, h1 = s.out[1] * (block + 1) / cut.blocks;
    const int64_t reach = (s.kernel[1] - 1) * s.dilation[1];
    const int64_t above = std::max<int64_t>(h0 + s.pad_begin[1] - reach, 0);
    const int64_t first = std::min(CeilDiv(above, s.stride[1]), s.in[1]);
    const int64_t end = std::clamp((h1 - 1 + s.pad_begin[1]) / s.stride[1] + 1, first, s.in[1]);
    GemmBlockArgs args{};
    args.rows = (end - first) * s.in[2];
    args.lda = s.x_stride;
    args.b = packed;
    args.k_total = s.cin;
    args.n_total = args.n1 = cut.columns;
    args.is_all = cut.columns <= GemmPanelWidth();
    args.c = lease.floats();
    args.ldc = cut.ld;
    const int64_t depth = GemmDepth(s.cin);
    for (int64_t k0 = 0; k0 < s.cin && args.rows > 0; k0 += depth) {
      args.a = x + (item * s.in[1] + first) * s.in[2] * s.x_stride + k0;
      args.k0 = k0;
      args.kc = std::min(depth, s.cin - k0);
      args.accumulate = k0 > 0;
      GemmBlock(args);
    }
    if (IsOneLine(s)) {
      const int64_t pixel = item * s.out[1];
      float* const line = y + pixel * s.cout;
      SumPixels(s, cut, lease.floats(), first, end, h0, h1, line);
      prepared.Apply(line + h0 * s.cout, s.cout, pixel + h0, h1 - h0, 0, s.cout);
      return;
    }
    for (int64_t h = h0; h < h1; ++h) {
      const int64_t pixel = (item * s.out[1] + h) * s.out[2];
      float* const line = y + pixel * s.y_stride;
      SumLine(s, cut, lease.floats(), first, end, h, line);
      prepared.Apply(line, s.y_stride, pixel, s.out[2], 0, s.cout);
    }
  });
}

}  // namespace sardonyx::conv_transpose_few
