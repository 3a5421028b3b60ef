// Transposed convolution of all taps at once: one product of the input's pixels with them, of which
// each is some columns, and sums of these. So to few channels, as networks that draw pictures end
// with, where a product for each tap would fill a part of a vector, and where lines are short
// beside their windows, so that few neighbouring pixels are reached by the same taps.

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_transpose_taps.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <utility>

#include "kernels/add_row-inl.h"
#include "kernels/conv_internal.h"
#include "kernels/gemm.h"
#include "kernels/scratch_slots.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

// Adds `count` floats of each of some rows, which may overlap in `to`.
void AddRows(const float* from, int64_t from_step, float* to, int64_t to_step, int64_t rows,
             int64_t count) {
  for (; rows > 0; --rows, from += from_step, to += to_step) {
    AddRow(from, count, to);
  }
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx::conv_transpose_taps {

HWY_EXPORT(AddRows);

namespace {

constexpr int64_t kMostUnrolled = 4, kLeastRow = 8;
// What the products of a block take of the second-level cache.
constexpr int64_t kBlockBytes = 256 << 10, kLeastPixels = 64;

// Of two axes planes of one line, of one axis planes of one pixel.
ConvShape AsPlanes(ConvShape s) {
  const auto is_flat = [&](int axis) {
    return s.in[axis] == 1 && s.out[axis] == 1 && s.kernel[axis] == 1 && s.pad_begin[axis] == 0;
  };
  const auto swap = [&](int a, int b) {
    for (auto* field : {s.in, s.out, s.kernel, s.stride, s.dilation, s.pad_begin}) {
      std::swap(field[a], field[b]);
    }
  };
  if (is_flat(0)) swap(0, 1);
  if (is_flat(0) && is_flat(1)) swap(0, 2);
  return s;
}

// Blocks of output planes, and how many input planes are multiplied at a time.
struct Cut {
  explicit Cut(const ConvShape& s)
      : columns(s.KernelSize() * s.cout),
        ld(Spread(columns)),
        in(s.in[1] * s.in[2]),
        out(s.out[1] * s.out[2]),
        reach((s.kernel[0] - 1) * s.dilation[0] + 1) {
    const double flops = 2.0 * static_cast<double>(s.InPixels() * s.cin * columns);
    const double bytes = 4.0 * static_cast<double>(s.InPixels() * (s.cin + 2 * columns));
    // Two blocks both multiply the planes that both see: an eighth of theirs at most.
    const int64_t shared = std::max<int64_t>(reach - s.stride[0], 0);
    const int64_t wanted = std::min(CeilDiv(WantedTasks(flops, bytes), s.batch),
                                    CeilDiv(s.out[0], std::max<int64_t>(8 * shared, 1)));
    blocks = std::clamp<int64_t>(wanted, 1, CeilDiv(s.out[0], s.stride[0]));
    int64_t most = 0;
    for (int64_t i = 0; i < blocks; ++i) most = std::max(most, Begin(s, i + 1) - Begin(s, i));
    const int64_t seen = (most + reach - 2) / s.stride[0] + 1;
    const int64_t pixels = std::max(kBlockBytes / (ld * 4), kLeastPixels);
    planes = std::clamp<int64_t>(pixels / in, 1, std::min(seen, s.in[0]));
    slot_bytes = AlignBytes(FloatBytes(planes * in * ld));
  }

  // The first plane of a block: one where that of another plane of the input begins.
  int64_t Begin(const ConvShape& s, int64_t block) const {
    if (block == blocks) return s.out[0];
    const int64_t plane = CeilDiv(s.out[0], s.stride[0]) * block / blocks;
    return std::clamp<int64_t>(plane * s.stride[0] - s.pad_begin[0], 0, s.out[0]);
  }

  int64_t columns, ld;  // of the product
  int64_t in, out;      // pixels of a plane
  int64_t reach;        // planes of the result that one of the input is added to
  int64_t blocks;       // of an item
  int64_t planes;
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
constexpr Add kAdds[kMostUnrolled] = {AddPixels<1>, AddPixels<2>, AddPixels<3>, AddPixels<4>};

// Adds `count` products of each of some pixels to y[0:size], those of pixel i from `start + i *
// step` on.
void AddTaps(const float* products, int64_t ld, int64_t pixels, int64_t count, int64_t step,
             int64_t start, int64_t size, float* y) {
  const auto add = HWY_DYNAMIC_DISPATCH(AddRows);
  const auto add_edge = [&](int64_t i) {
    const int64_t at = start + i * step;
    const int64_t begin = std::max<int64_t>(at, 0), end = std::min(at + count, size);
    if (begin < end) add(products + i * ld + begin - at, 0, y + begin, 0, 1, end - begin);
  };
  // Those between, [low, high), lie inside.
  const int64_t low = std::clamp<int64_t>(CeilDiv(-start, step), 0, pixels);
  const int64_t room = size - count - start;
  const int64_t high = std::clamp<int64_t>(room < 0 ? 0 : room / step + 1, low, pixels);
  for (int64_t i = 0; i < low; ++i) add_edge(i);
  add(products + low * ld, ld, y + start + low * step, step, high - low, count);
  for (int64_t i = high; i < pixels; ++i) add_edge(i);
}

// Adds to an output line the products of an input line with the taps of a line of the kernel.
void AddLine(const ConvShape& s, const Cut& cut, const float* products, float* y) {
  // Taps that lie one behind the other in the result are added at once.
  const int64_t row = s.kernel[2] * s.cout;
  if (s.y_stride == s.cout && s.dilation[2] == 1 && row >= kLeastRow) {
    return AddTaps(products, cut.ld, s.in[2], row, s.stride[2] * s.cout, -s.pad_begin[2] * s.cout,
                   s.out[2] * s.cout, y);
  }
  for (int64_t kw = 0; kw < s.kernel[2]; ++kw) {
    // Input pixel i goes to output pixel i * stride + shift.
    const int64_t shift = kw * s.dilation[2] - s.pad_begin[2];
    const int64_t begin = shift >= 0 ? 0 : CeilDiv(-shift, s.stride[2]);
    const int64_t pixels = std::min(s.in[2], CeilDiv(s.out[2] - shift, s.stride[2])) - begin;
    const float* const from = products + begin * cut.ld + kw * s.cout;
    float* const to = y + (begin * s.stride[2] + shift) * s.y_stride;
    const int64_t step = s.stride[2] * s.y_stride;
    if (s.cout <= kMostUnrolled) {
      kAdds[s.cout - 1](from, cut.ld, to, step, pixels);
    } else {
      HWY_DYNAMIC_DISPATCH(AddRows)(from, cut.ld, to, step, pixels, s.cout);
    }
  }
}

// Adds to output plane d of an item; `products` are those of its input planes [first, end).
void AddToPlane(const ConvShape& s, const Cut& cut, const float* products, int64_t first,
                int64_t end, int64_t d, float* y) {
  for (int64_t kd = 0; kd < s.kernel[0]; ++kd) {
    const int64_t plane = TransposedSource(s, 0, d, kd);
    if (plane < first || plane >= end) continue;
    for (int64_t h = 0; h < s.out[1]; ++h) {
      for (int64_t kh = 0; kh < s.kernel[1]; ++kh) {
        const int64_t line = TransposedSource(s, 1, h, kh);
        if (line < 0) continue;
        const int64_t pixel = ((plane - first) * s.in[1] + line) * s.in[2];
        const int64_t tap = (kd * s.kernel[1] + kh) * s.kernel[2];
        AddLine(s, cut, products + pixel * cut.ld + tap * s.cout, y + h * s.out[2] * s.y_stride);
      }
    }
  }
}

// Planes of one pixel, whose taps lie one behind the other in the result: each input pixel adds all
// of its products at once.
bool IsOneLine(const ConvShape& s, const Cut& cut) {
  return cut.in == 1 && cut.out == 1 && s.kernel[1] == 1 && s.kernel[2] == 1 &&
         s.pad_begin[1] == 0 && s.pad_begin[2] == 0 && s.dilation[0] == 1 && s.y_stride == s.cout;
}

// The products of an item's input planes [first, end).
void Multiply(const ConvShape& s, const Cut& cut, const float* x, const float* packed,
              int64_t first, int64_t end, float* products) {
  GemmBlockArgs args{};
  args.rows = (end - first) * cut.in;
  args.lda = s.x_stride;
  args.b = packed;
  args.k_total = s.cin;
  args.n_total = args.n1 = cut.columns;
  args.is_all = cut.columns <= GemmPanelWidth();
  args.c = products;
  args.ldc = cut.ld;
  const int64_t depth = GemmDepth(s.cin);
  for (args.k0 = 0; args.k0 < s.cin; args.k0 += args.kc) {
    args.a = x + first * cut.in * s.x_stride + args.k0;
    args.kc = std::min(depth, s.cin - args.k0);
    args.accumulate = args.k0 > 0;
    GemmBlock(args);
  }
}

// Planes [d0, d1) of the result of an item, `y` of the first one of the item.
void Clear(const ConvShape& s, int64_t d0, int64_t d1, float* y) {
  if (d0 >= d1) return;
  const bool is_dense = s.y_stride == s.cout;
  const int64_t plane = s.out[1] * s.out[2], first = d0 * plane, pixels = (d1 - d0) * plane;
  for (int64_t i = 0; i < (is_dense ? 1 : pixels); ++i) {
    std::fill_n(y + (first + i) * s.y_stride, is_dense ? pixels * s.cout : s.cout, 0.0f);
  }
}

}  // namespace

bool Takes(const ConvShape& s) {
  if (s.groups != 1 || s.KernelSize() == 1) return false;
  const int64_t taps = CeilDiv(s.kernel[2], s.stride[2]);  // that a pixel of the result sees
  return s.cout <= kMostUnrolled || (s.cout < 16 && 2 * s.cin >= GemmPanelWidth()) ||
         (s.in[2] < 8 * taps && s.InPixels() > kSmallTransposed);
}

size_t PackedBytes(const ConvShape& s) {
  return AlignBytes(GemmPackedBytes(s.cin, Cut(AsPlanes(s)).columns));
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
  return Cut(AsPlanes(s)).slot_bytes * static_cast<size_t>(ScratchSlots::CountFor(threads));
}

void Run(const ConvShape& shape, const float* x, const float* packed, float* y,
         const Epilogue& epilogue, void* scratch, const Parallel& par) {
  const ConvShape s = AsPlanes(shape);
  const Cut cut(s);
  const PreparedEpilogue prepared(epilogue, PreparedEpilogue::Tiles::kNone);
  ScratchSlots slots(scratch, cut.slot_bytes, ScratchSlots::CountFor(par.threads));
  par.For(s.batch * cut.blocks, [&](int64_t task) {
    const ScratchSlots::Lease lease(slots);
    const int64_t item = task / cut.blocks, block = task % cut.blocks;
    const int64_t d0 = cut.Begin(s, block), d1 = cut.Begin(s, block + 1);
    const int64_t stride = s.stride[0], pad = s.pad_begin[0];
    const int64_t above = std::max<int64_t>(d0 + pad - cut.reach + 1, 0);
    const int64_t first = std::min(CeilDiv(above, stride), s.in[0]);
    const int64_t end = std::clamp((d1 - 1 + pad) / stride + 1, first, s.in[0]);
    const int64_t first_pixel = item * s.out[0] * cut.out;
    float* const of_item = y + first_pixel * s.y_stride;
    int64_t cleared = d0, done = d0;
    const auto clear = [&](int64_t until) {
      Clear(s, cleared, until, of_item);
      cleared = std::max(cleared, until);
    };
    const auto finish = [&](int64_t until) {
      if (until <= done) return;
      const int64_t pixel = done * cut.out;
      prepared.Apply(of_item + pixel * s.y_stride, s.y_stride, first_pixel + pixel,
                     (until - done) * cut.out, 0, s.cout);
      done = until;
    };
    for (int64_t plane = first; plane < end; plane += cut.planes) {
      const int64_t next = std::min(plane + cut.planes, end);
      float* const products = lease.floats();
      Multiply(s, cut, x + item * s.in[0] * cut.in * s.x_stride, packed, plane, next, products);
      // These reach [low, high); what follows reaches planes from next * stride - pad on.
      const int64_t low = std::max(plane * stride - pad, d0);
      const int64_t high = std::min((next - 1) * stride - pad + cut.reach, d1);
      clear(high);
      if (IsOneLine(s, cut)) {
        AddTaps(products, cut.ld, next - plane, cut.reach * s.cout, stride * s.cout,
                (plane * stride - pad - d0) * s.cout, (d1 - d0) * s.cout, of_item + d0 * s.cout);
      } else {
        for (int64_t d = low; d < high; ++d) {
          AddToPlane(s, cut, products, plane, next, d, of_item + d * cut.out * s.y_stride);
        }
      }
      if (next < end) finish(std::min(next * stride - pad, d1));
    }
    clear(d1);
    finish(d1);
  });
}

}  // namespace sardonyx::conv_transpose_taps
#endif  // HWY_ONCE
