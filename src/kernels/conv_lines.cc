// Convolution along one axis, of stride 1: Winograd's F(4, 3), or F(3, 4) of longer kernels, takes
// six products for four or three sums. Kernels of more taps are segments of 3 or 4, and those of
// axes before it rows; both are more channels of one segment. Of a kernel of one dimension it takes
// 0.5 (3 taps) to 0.6 of the multiplications, and as much of dilated kernels, for which 3 x 3 has
// no better form: the pixels of a tile then lie as far apart as the taps.

#include <algorithm>
#include <limits>

#include "kernels/conv_internal.h"
#include "kernels/gemm.h"
#include "kernels/scratch_slots.h"
#include "kernels/subnormals.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_lines.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/tile_store-inl.h"
#include "kernels/winograd_maps-inl.h"

#ifndef SARDONYX_CONV_LINES_ONCE
#define SARDONYX_CONV_LINES_ONCE
namespace sardonyx {
namespace {

constexpr int kSide = 6;  // positions, of both forms
// What the transformed values of a block of tiles may take of the second-level cache, but for so
// many tiles, which a panel of weights is worth fetching for.
constexpr int64_t kBlockBytes = 512 << 10, kLeastTiles = 24, kMostTiles = 56;
// Of the values of the least tiles a thread has no more than 9 MiB.
constexpr int64_t kMostChannels = 16384;

// The last axis that the kernel has taps of, or none.
int LineAxis(const ConvShape& s) {
  int axis = 2;
  while (axis >= 0 && s.kernel[axis] == 1) --axis;
  return axis;
}

// Lines: the pixels along the axis, and of the axes behind it. Those that stand in one sum are a
// multiple of `step` pixels apart, so a line is `step` lines of which every pixel counts. A tile is
// m such pixels from a first one on, and tiles are numbered by that.
struct LineTiles {
  explicit LineTiles(const ConvShape& shape) : s(shape), axis(LineAxis(shape)) {
    for (int i = axis + 1; i < 3; ++i) inner *= s.out[i];
    const int64_t kernel = s.kernel[axis];
    // Both take two products for a tap of each four, the taps that fill the last segment counted.
    taps = RoundUp(kernel, 4) < CeilDiv(kernel, 3) * 3 ? 4 : 3;
    m = kSide + 1 - taps;
    segments = CeilDiv(kernel, taps);
    for (int i = 0; i < axis; ++i) {
      lines *= s.out[i];
      rows *= s.kernel[i];
    }
    step = s.dilation[axis] * inner;
    in_pixels = s.in[axis] * inner;
    out_pixels = s.out[axis] * inner;
    const int64_t whole = (out_pixels - 1) / (m * step) * m * step;
    of_line = whole / m + std::min(step, out_pixels - whole);
  }

  int64_t channels() const { return rows * segments * s.cin; }
  int64_t count() const { return lines * of_line; }

  struct Place {
    int64_t line, pixel;  // the first in its line
  };
  Place At(int64_t tile) const {
    const int64_t index = tile % of_line;
    return {tile / of_line, index / step * m * step + index % step};
  }
  // Of m, that are in the line.
  int PixelsAt(int64_t pixel) const {
    return static_cast<int>(std::min(m, CeilDiv(out_pixels - pixel, step)));
  }

  const ConvShape& s;
  int axis;
  int64_t inner = 1, lines = s.batch, rows = 1;
  int64_t taps, m, segments, step, in_pixels, out_pixels, of_line;
};

// What a target has for a form.
struct LineKernels {
  // Transforms what lies under tiles [first, first + count): channels of row after row of the
  // kernel, and of its segments.
  void (*input)(const LineTiles&, const float* x, int64_t first, int64_t count,
                const WinogradValues& to);
  // Transforms products of columns [n, n + columns) back and stores them; y begins at pixel 0.
  void (*output)(const LineTiles&, const WinogradValues& from, int64_t first, int64_t count,
                 int64_t n, int64_t columns, float* y, const TileEpilogue& epilogue);
  // Transforms taps [taps of a segment, width] into kSide rows, each t_stride behind the one
  // before.
  void (*weights)(const float* taps, int64_t width, float* to, int64_t t_stride);
};

}  // namespace
}  // namespace sardonyx
#endif

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using Full = hn::ScalableTag<float>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Full()));

// Channels [c, ...) as far as whole vectors go, of positions [i0, i1), which are in the line.
template <class D>
HWY_INLINE int64_t InputChannels(D d, const float* x, int64_t step, int64_t c, int64_t cin, int i0,
                                 int i1, float* to, int64_t t_stride) {
  using V = hn::Vec<D>;
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D()));
  const bool all = i0 == 0 && i1 == kSide;
  for (; c + kL <= cin; c += kL) {
    V column[kSide], mapped[kSide];
    if (HWY_LIKELY(all)) {
#pragma GCC unroll 6
      for (int i = 0; i < kSide; ++i) column[i] = hn::LoadU(d, x + i * step + c);
    } else {
#pragma GCC unroll 6
      for (int i = 0; i < kSide; ++i) {
        column[i] = i >= i0 && i < i1 ? hn::LoadU(d, x + i * step + c) : hn::Zero(d);
      }
    }
    Map<WinogradForm{4, 1}>::Input(d, column, mapped);  // of both forms
#pragma GCC unroll 6
    for (int i = 0; i < kSide; ++i) hn::StoreU(mapped[i], d, to + i * t_stride + c);
  }
  return c;
}

HWY_NOINLINE void Input(const LineTiles& tiles, const float* x, int64_t first, int64_t count,
                        const WinogradValues& values) {
  const ConvShape& s = tiles.s;
  const int axis = tiles.axis;
  const int64_t step = tiles.step * s.x_stride;
  // The axes before that of the lines, of which there are two, one or none.
  const int64_t in0 = axis > 0 ? s.in[0] : 1, in1 = axis > 1 ? s.in[1] : 1;
  const int64_t out0 = axis > 0 ? s.out[0] : 1, out1 = axis > 1 ? s.out[1] : 1;
  const int64_t taps0 = axis > 0 ? s.kernel[0] : 1, taps1 = axis > 1 ? s.kernel[1] : 1;
  for (int64_t r = 0; r < count; ++r) {
    const LineTiles::Place place = tiles.At(first + r);
    const int64_t item = place.line / (out0 * out1);
    const int64_t o0 = place.line / out1 % out0, o1 = place.line % out1;
    const int64_t pixel = place.pixel - s.pad_begin[axis] * tiles.inner;
    float* to = values.data + r * values.ld;
    for (int64_t k0 = 0; k0 < taps0; ++k0) {
      const int64_t i0 = axis > 0 ? o0 * s.stride[0] + k0 * s.dilation[0] - s.pad_begin[0] : 0;
      for (int64_t k1 = 0; k1 < taps1; ++k1) {
        const int64_t i1 = axis > 1 ? o1 * s.stride[1] + k1 * s.dilation[1] - s.pad_begin[1] : 0;
        const bool exists = i0 >= 0 && i0 < in0 && i1 >= 0 && i1 < in1;
        const float* const line = x + ((item * in0 + i0) * in1 + i1) * tiles.in_pixels * s.x_stride;
        for (int64_t segment = 0; segment < tiles.segments; ++segment, to += s.cin) {
          const int64_t begin = pixel + segment * tiles.taps * tiles.step;
          const auto Clip = [](int64_t position) {
            return static_cast<int>(std::clamp<int64_t>(position, 0, kSide));
          };
          const int first_in = Clip(CeilDiv(std::max<int64_t>(-begin, 0), tiles.step));
          const int end_in =
              exists ? Clip(CeilDiv(std::max<int64_t>(tiles.in_pixels - begin, 0), tiles.step)) : 0;
          const float* const from = line + begin * s.x_stride;
          int64_t c =
              InputChannels(Full(), from, step, 0, s.cin, first_in, end_in, to, values.t_stride);
          c = InputChannels(hn::CappedTag<float, 4>(), from, step, c, s.cin, first_in, end_in, to,
                            values.t_stride);
          InputChannels(hn::CappedTag<float, 1>(), from, step, c, s.cin, first_in, end_in, to,
                        values.t_stride);
        }
      }
    }
  }
}

template <WinogradForm kForm>
HWY_NOINLINE void Output(const LineTiles& tiles, const WinogradValues& values, int64_t first,
                         int64_t count, int64_t n, int64_t columns, float* y,
                         const TileEpilogue& epilogue) {
  const Full d;
  using V = hn::Vec<Full>;
  const int64_t step = tiles.step * tiles.s.y_stride;
  for (int64_t r = 0; r < count; ++r) {
    const LineTiles::Place place = tiles.At(first + r);
    const int64_t pixel = place.line * tiles.out_pixels + place.pixel;
    const int pixels = tiles.PixelsAt(place.pixel);
    float* const to = y + pixel * tiles.s.y_stride + n;
    for (int64_t c = 0; c < columns; c += kLanes) {
      TileStore store = StoreOf(false, &epilogue, n + c);
      store.left_out = std::max<int64_t>(0, c + kLanes - columns);
      store.residual = ResidualOf(&epilogue, pixel, n + c);
      store.residual_ld = epilogue.residual_ld * tiles.step;
      V column[kSide], mapped[kForm.m], acc[kForm.m][1];
      const float* const from = values.data + r * values.ld + c;
      // A last vector may read what the next tile has, of which it stores nothing.
#pragma GCC unroll 6
      for (int i = 0; i < kSide; ++i) column[i] = hn::LoadU(d, from + i * values.t_stride);
      Map<kForm>::Output(d, column, mapped);
#pragma GCC unroll 4
      for (int j = 0; j < kForm.m; ++j) acc[j][0] = mapped[j];
      StoreFirstRows(d, acc, pixels, to + c, step, store);
    }
    ApplyActivation(epilogue.activation, to, step, pixels, columns);
  }
}

template <WinogradForm kForm, class D>
HWY_INLINE int64_t WeightColumns(D d, const float* from, int64_t j, int64_t width, float* to,
                                 int64_t t_stride) {
  using V = hn::Vec<D>;
  constexpr int kTaps = kForm.kernel;
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D()));
  for (; j + kL <= width; j += kL) {
    V taps[kTaps], mapped[kSide];
#pragma GCC unroll 4
    for (int tap = 0; tap < kTaps; ++tap) taps[tap] = hn::LoadU(d, from + tap * width + j);
    MapWeights<kForm>(d, taps, mapped);
#pragma GCC unroll 6
    for (int i = 0; i < kSide; ++i) hn::StoreU(mapped[i], d, to + i * t_stride + j);
  }
  return j;
}

template <WinogradForm kForm>
HWY_NOINLINE void Weights(const float* taps, int64_t width, float* to, int64_t t_stride) {
  const int64_t j = WeightColumns<kForm>(Full(), taps, 0, width, to, t_stride);
  WeightColumns<kForm>(hn::CappedTag<float, kPanelGranule>(), taps, j, width, to, t_stride);
}

template <WinogradForm kForm>
constexpr LineKernels kKernels = {Input, Output<kForm>, Weights<kForm>};

LineKernels KernelsFor(int64_t taps) {
  return taps == 3 ? kKernels<WinogradForm{4, 1, 3}> : kKernels<WinogradForm{3, 1, 4}>;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(KernelsFor);

namespace {

LineKernels Kernels(const LineTiles& tiles) { return HWY_DYNAMIC_DISPATCH(KernelsFor)(tiles.taps); }

// How tiles and columns are cut. Few tiles are transformed first, and a task is a panel of weights,
// so that these are read once; of more a task is a block that all panels pass.
struct Cut {
  explicit Cut(const LineTiles& tiles)
      : channels(tiles.channels()),
        width(GemmPanelWidth()),
        panels(CeilDiv(tiles.s.cout, width)),
        ld(ValuesStride(channels)) {
    const int64_t all = tiles.count(), rows = GemmTileRows();
    const int64_t fitting = std::clamp(kBlockBytes / (kSide * ld * 4), kLeastTiles, kMostTiles);
    in_panels = all <= kMostTiles;
    // An even number, so that two threads get the same share.
    blocks = in_panels ? 1 : RoundUp(CeilDiv(all, RoundUp(fitting, rows)), 2);
    most = CeilDiv(all, blocks);
    in_stride = Spread(most * ld);
    out_stride = Spread(most * width);
    in_bytes = AlignBytes(FloatBytes(kSide * in_stride));
    // A vector beyond the last column is read.
    out_bytes = AlignBytes(FloatBytes(kSide * out_stride + 16));
  }
  int64_t channels, width, panels, ld;
  bool in_panels;
  int64_t blocks, most, in_stride, out_stride;
  size_t in_bytes, out_bytes;
};

// The expression over tiles [first, first + count), which were just stored.
void Interpret(const LineTiles& tiles, int64_t first, int64_t count, int64_t n, int64_t columns,
               float* y, const PreparedEpilogue& prepared) {
  const int64_t stride = tiles.s.y_stride;
  const auto apply = [&](int64_t pixel, int64_t pixels) {
    prepared.Apply(y + pixel * stride + n, stride, pixel, pixels, n, columns);
  };
  for (int64_t i = first; i < first + count;) {
    // Tiles one behind the other: their first pixels lie side by side, or all of them.
    const LineTiles::Place place = tiles.At(i);
    const int64_t begin = place.line * tiles.out_pixels + place.pixel;
    const int64_t apart = tiles.step == 1 ? tiles.m : 1;
    int64_t run = 1;
    while (i + run < first + count) {
      const LineTiles::Place next = tiles.At(i + run);
      if (next.line != place.line || next.pixel != place.pixel + run * apart) break;
      ++run;
    }
    const int64_t left = tiles.out_pixels - place.pixel;
    if (tiles.step == 1) {
      apply(begin, std::min(run * tiles.m, left));
    } else {
      for (int64_t j = 0; j < tiles.m && j * tiles.step < left; ++j) {
        apply(begin + j * tiles.step, std::min(run, left - j * tiles.step));
      }
    }
    i += run;
  }
}

std::string_view Refusal(const ConvShape& s) {
  const int axis = LineAxis(s);
  if (axis < 0 || s.kernel[axis] < 3) return "kernel has not three taps";
  if (s.groups > 1) return "has groups";
  if (s.stride[axis] != 1) return "stride is not 1";
  for (int i = axis + 1; i < 3; ++i) {
    if (s.stride[i] != 1 || s.in[i] != s.out[i] || s.pad_begin[i] != 0) {
      return "steps or pads where the kernel has one tap";
    }
  }
  if (LineTiles(s).channels() > kMostChannels) return "kernel of very many taps";
  return {};
}

size_t PackedBytes(const ConvShape& s) {
  return kSide * GemmPackedBytes(LineTiles(s).channels(), s.cout);
}

double Cost(const ConvShape& s) {
  // Fewer channels leave the transforms more to do than the products save.
  if (std::min(s.cin, s.cout) < 8) return std::numeric_limits<double>::infinity();
  const LineTiles tiles(s);
  const int64_t values = kSide * tiles.count();
  const auto products = static_cast<double>(values * tiles.channels() * s.cout);
  // What is transformed and what comes back.
  const auto moved = static_cast<double>(FloatBytes(values * (tiles.channels() + s.cout)));
  // What each tile of pixels takes beside, and each tile of products: of few channels as much as
  // all else.
  const auto pieces = static_cast<double>(tiles.rows * tiles.segments);
  const auto panels = static_cast<double>(CeilDiv(s.cout, GemmPanelWidth()));
  const double placed = static_cast<double>(tiles.count()) * (0.01 * pieces + 0.06 * panels);
  return ProductCost(products, static_cast<double>(PackedBytes(s))) + moved * 4.0e-5 + placed;
}

int64_t PackStep(const ConvShape& s) { return Cut(LineTiles(s)).width; }

void Pack(const ConvShape& s, const ConvWeightRows& given, float* packed, const Parallel& par) {
  const LineTiles tiles(s);
  const LineKernels kernels = Kernels(tiles);
  const Cut cut(tiles);
  const int64_t area = s.KernelSize(), line = s.kernel[tiles.axis];
  constexpr int64_t kMostTaps = 4, kWidest = 32;  // of a segment, of a panel
  par.For(CeilDiv(given.end - given.first, cut.width), [&](int64_t panel) {
    const int64_t n = given.first + panel * cut.width, columns = std::min(cut.width, s.cout - n);
    const int64_t width = RoundUp(columns, kPanelGranule);
    for (int64_t c = 0; c < s.cin; ++c) {
      const float* const from = given.data + ((n - given.first) * s.cin + c) * area;
      for (int64_t i = 0; i < tiles.rows * tiles.segments; ++i) {
        const int64_t row = i / tiles.segments, first = i % tiles.segments * tiles.taps;
        alignas(64) float taps[kMostTaps * kWidest] = {};
        PackPanels(std::min(tiles.taps, line - first), columns, from + row * line + first,
                   s.cin * area, true, 0, columns, taps);
        ZeroSubnormals(taps, tiles.taps * width);
        kernels.weights(taps, width, packed + kSide * n * cut.channels + (i * s.cin + c) * width,
                        cut.channels * width);
      }
    }
  });
}

size_t ScratchBytes(const ConvShape& s, int threads) {
  const Cut cut{LineTiles(s)};
  const auto slots = static_cast<size_t>(ScratchSlots::CountFor(threads));
  return cut.in_bytes * (cut.in_panels ? 1 : slots) + cut.out_bytes * slots;
}

void Run(const ConvShape& s, const float* x, const float* packed, float* y,
         const Epilogue& epilogue, void* scratch, const Parallel& par) {
  const LineTiles tiles(s);
  const LineKernels kernels = Kernels(tiles);
  const Cut cut(tiles);
  const PreparedEpilogue prepared(epilogue);
  const TileEpilogue tile_epilogue = prepared.InRegisters() ? prepared.Tile(0, 0) : TileEpilogue();
  // The tiles from `first` on, whose values begin at in.data, times a panel.
  const auto multiply = [&](const WinogradValues& in, int64_t first, int64_t count, int64_t panel,
                            float* products) {
    const int64_t n = panel * cut.width, columns = std::min(cut.width, s.cout - n);
    const int64_t width = RoundUp(columns, kPanelGranule);
    const float* const weights = packed + kSide * n * cut.channels;
    const WinogradValues out{products, cut.out_stride, width};
    for (int t = 0; t < kSide; ++t) {
      const int64_t depth = GemmDepth(cut.channels);
      for (int64_t k0 = 0; k0 < cut.channels; k0 += depth) {
        GemmBlockArgs args{};
        args.a = in.data + t * in.t_stride + k0;
        args.lda = in.ld;
        args.rows = count;
        args.kc = std::min(depth, cut.channels - k0);
        args.k_total = args.kc;
        args.b = weights + (t * cut.channels + k0) * width;
        args.n_total = args.n1 = args.ldc = width;
        args.c = products + t * out.t_stride;
        args.accumulate = k0 > 0;
        args.next = args.b + args.kc * width;
        if (t + 1 == kSide && k0 + depth >= cut.channels) args.next = nullptr;
        GemmBlock(args);
      }
    }
    kernels.output(tiles, out, first, count, n, columns, y, tile_epilogue);
    if (!prepared.InRegisters()) Interpret(tiles, first, count, n, columns, y, prepared);
  };
  const int64_t all = tiles.count();
  const int slot_count = ScratchSlots::CountFor(par.threads);
  if (cut.in_panels) {
    const WinogradValues in{static_cast<float*>(scratch), cut.in_stride, cut.ld};
    const int64_t parts = std::min(all, WantedTasks(0, static_cast<double>(cut.in_bytes)));
    par.For(parts, [&](int64_t part) {
      const int64_t first = all * part / parts;
      kernels.input(tiles, x, first, all * (part + 1) / parts - first,
                    {in.data + first * in.ld, in.t_stride, in.ld});
    });
    ScratchSlots slots(static_cast<std::byte*>(scratch) + cut.in_bytes, cut.out_bytes, slot_count);
    par.For(cut.panels, [&](int64_t panel) {
      const ScratchSlots::Lease lease(slots);
      multiply(in, 0, all, panel, lease.floats());
    });
    return;
  }
  ScratchSlots slots(scratch, cut.in_bytes + cut.out_bytes, slot_count);
  par.For(cut.blocks, [&](int64_t block) {
    const ScratchSlots::Lease lease(slots);
    const int64_t first = all * block / cut.blocks;
    const int64_t count = all * (block + 1) / cut.blocks - first;
    const WinogradValues in{lease.floats(), cut.in_stride, cut.ld};
    kernels.input(tiles, x, first, count, in);
    for (int64_t panel = 0; panel < cut.panels; ++panel) {
      multiply(in, first, count, panel, lease.floats() + cut.in_bytes / sizeof(float));
    }
  });
}

}  // namespace

const ConvMethod kConvLines = {.refusal = Refusal,
                               .cost = Cost,
                               .packed_bytes = PackedBytes,
                               .pack = Pack,
                               .pack_step = PackStep,
                               .scratch_bytes = ScratchBytes,
                               .run = Run};

}  // namespace sardonyx
#endif  // HWY_ONCE
