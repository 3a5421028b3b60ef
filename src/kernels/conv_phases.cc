// Convolution of few channels, as networks begin with. At stride f, the f x f pixels of a step are
// f^2 times as many channels of one: phases, of which the kernel has 3 or 4 taps an axis; the
// depths that it sees of a third axis are more of them. Over
// these Winograd's F(4 x 4, 3 x 3) or F(3 x 3, 4 x 4) takes 36 products for 16 or 9 sums: of 7 x 7
// at stride 2 a third of the multiplications, of 11 x 11 at stride 4 less than that. To store the
// products and to load them again would take as long as so short sums, so a column of positions is
// transformed back while it is in registers.

#include <algorithm>

#include "kernels/conv_internal.h"
#include "kernels/scratch_slots.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_phases.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/tile_store-inl.h"
#include "kernels/winograd_maps-inl.h"

#ifndef SARDONYX_CONV_PHASES_ONCE
#define SARDONYX_CONV_PHASES_ONCE
namespace sardonyx {
namespace {

constexpr int kSide = 6;               // positions of an axis, of both forms
constexpr int kTogether = 16;          // channels of phases that a position has side by side
constexpr int64_t kMostChannels = 96;  // of phases
constexpr int kShared = 4;             // tiles that share a vector of weights

// Tiles of m x m output pixels over phases, whose channels are those of line 0, of line 1, ..., of
// one depth after another; in a dense input a line's are a run of floats.
struct PhaseTiles {
  explicit PhaseTiles(const ConvShape& shape)
      : s(shape),
        fold(shape.stride[2]),
        run(fold * shape.cin),
        channels(shape.kernel[0] * fold * run),
        taps(CeilDiv(shape.kernel[2], fold)),
        m(kSide + 1 - taps),
        rows(CeilDiv(shape.out[1], m)),
        columns(CeilDiv(shape.out[2], m)) {}

  int64_t count() const { return s.batch * s.out[0] * rows * columns; }
  WinogradPlace At(int64_t tile) const {
    const int64_t h = tile / columns % rows * m, w = tile % columns * m;
    return {tile / (rows * columns), h, w, static_cast<int>(std::min(m, s.out[1] - h)),
            static_cast<int>(std::min(m, s.out[2] - w))};
  }
  int64_t PixelOf(const WinogradPlace& place) const {
    return (place.slice * s.out[1] + place.h) * s.out[2] + place.w;
  }
  // Floats of the transformed values of a tile: [channels / kTogether, column, row, kTogether].
  int64_t Values() const { return RoundUp(channels, kTogether) * kSide * kSide; }

  const ConvShape& s;
  int64_t fold, run, channels, taps, m, rows, columns;
};

// What a target has for a form.
struct PhaseKernels {
  int64_t lanes;
  void (*run)(const PhaseTiles&, const float* x, const float* packed, float* y, int64_t first,
              int64_t count, const TileEpilogue&, float* values);
  void (*pack)(const PhaseTiles&, const float* weights, int64_t n, float* to);
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
// Rows of positions that are multiplied at a time: as many as there are registers for the sums of.
constexpr int kRows = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? kSide : kSide / 2;
constexpr int64_t kBlock = kSide * kSide * kTogether;

// Transforms what lies under a tile: `x` has its first pixel, lines are `line` and depths `depth`
// floats apart. Up to kLanes floats beyond the last pixel are read.
HWY_INLINE void TransformTile(const PhaseTiles& tiles, const float* x, int64_t line, int64_t depth,
                              float* to) {
  const Full d;
  using V = hn::Vec<Full>;
  using Input = Map<WinogradForm{4, 1}>;
  for (int64_t c = 0; c < tiles.channels; c += kLanes) {
    const int64_t first = c / tiles.run, last = std::min(c + kLanes, tiles.channels) - 1;
    const auto phase_at = [&](int64_t phase) HWY_ATTR {
      return x + phase / tiles.fold * depth + phase % tiles.fold * line;
    };
    V half[kSide][kSide];
#pragma GCC unroll 6
    for (int j = 0; j < kSide; ++j, x += tiles.run) {
      V column[kSide], mapped[kSide];
      const float* from = phase_at(first) + c % tiles.run;
#pragma GCC unroll 6
      for (int i = 0; i < kSide; ++i) column[i] = hn::LoadU(d, from + i * tiles.fold * line);
      for (int64_t phase = first + 1; phase <= last / tiles.run; ++phase) {
        from = phase_at(phase) - (phase * tiles.run - c);
        const auto before = hn::FirstN(d, static_cast<size_t>(phase * tiles.run - c));
#pragma GCC unroll 6
        for (int i = 0; i < kSide; ++i) {
          column[i] = hn::IfThenElse(before, column[i], hn::LoadU(d, from + i * tiles.fold * line));
        }
      }
      Input::Input(d, column, mapped);
#pragma GCC unroll 6
      for (int i = 0; i < kSide; ++i) half[i][j] = mapped[i];
    }
    x -= kSide * tiles.run;
    float* const values = to + c / kTogether * kBlock + c % kTogether;
#pragma GCC unroll 6
    for (int i = 0; i < kSide; ++i) {
      V mapped[kSide];
      Input::Input(d, half[i], mapped);
#pragma GCC unroll 6
      for (int j = 0; j < kSide; ++j) {
        hn::Store(mapped[j], d, values + (j * kSide + i) * kTogether);
      }
    }
  }
}

// Pixels that do not exist count as zeros.
HWY_NOINLINE void InputTile(const PhaseTiles& tiles, const float* x, const WinogradPlace& place,
                            float* to) {
  const ConvShape& s = tiles.s;
  const int64_t image = place.slice / s.out[0];
  const int64_t d = place.slice % s.out[0] * s.stride[0] - s.pad_begin[0];
  const int64_t h = place.h * tiles.fold - s.pad_begin[1];
  const int64_t w = place.w * tiles.fold - s.pad_begin[2];
  const int64_t side = kSide * tiles.fold;
  const int64_t line = s.in[2] * s.x_stride, width = kSide * tiles.run;
  const int64_t depth = s.dilation[0] * s.in[1] * line, last = (s.kernel[0] - 1) * depth;
  const int64_t first = ((image * s.in[0] + d) * s.in[1] + h) * line + w * s.x_stride;
  const bool is_dense = s.x_stride == s.cin;
  const bool has_depths = d >= 0 && d + (s.kernel[0] - 1) * s.dilation[0] < s.in[0];
  if (has_depths && h >= 0 && w >= 0 && h + side <= s.in[1] && w + side <= s.in[2] && is_dense &&
      first + last + (side - 1) * line + width + kLanes <= s.InPixels() * s.cin) {
    return TransformTile(tiles, x + first, line, depth, to);
  }
  HWY_ALIGN float own[kSide * kSide * kMostChannels + kLanes];
  std::fill_n(own, s.kernel[0] * side * width, 0.0f);
  const int64_t j0 = std::max<int64_t>(-w, 0), j1 = std::min(s.in[2] - w, side);
  for (int64_t k = 0; k < s.kernel[0] && j0 < j1; ++k) {
    const int64_t at_depth = d + k * s.dilation[0];
    if (at_depth < 0 || at_depth >= s.in[0]) continue;
    for (int64_t i = std::max<int64_t>(-h, 0); i < std::min(s.in[1] - h, side); ++i) {
      const float* from = x + first + k * depth + i * line + j0 * s.x_stride;
      const float* const end = from + (j1 - j0) * s.x_stride;
      float* at = own + (k * side + i) * width + j0 * s.cin;
      if (is_dense) {
        std::copy(from, end, at);
      } else {
        for (; from < end; from += s.x_stride, at += s.cin) std::copy_n(from, s.cin, at);
      }
    }
  }
  TransformTile(tiles, own, width, side * width, to);
}

// kRows positions of a column, of kShared tiles, times a vector of columns.
template <class V>
HWY_INLINE void AddProducts(const PhaseTiles& tiles, const float* values, const float* weights,
                            V (&acc)[kShared][kRows]) {
  const Full d;
  const float* at[kShared];
#pragma GCC unroll 4
  for (int t = 0; t < kShared; ++t) {
    at[t] = Kept(values + t * tiles.Values());
#pragma GCC unroll 6
    for (V& sum : acc[t]) sum = hn::Zero(d);
  }
  for (int64_t left = tiles.channels; left > 0; left -= kTogether) {
    for (int64_t k = 0; k < std::min<int64_t>(left, kTogether); ++k) {
#pragma GCC unroll 6
      for (int i = 0; i < kRows; ++i) {
        const V weight = hn::LoadU(d, weights + i * kLanes);
#pragma GCC unroll 4
        for (int t = 0; t < kShared; ++t) {
          acc[t][i] = hn::MulAdd(weight, hn::Set(d, at[t][i * kTogether]), acc[t][i]);
        }
      }
      weights = Kept(weights + kRows * kLanes);
#pragma GCC unroll 4
      for (const float*& from : at) from = Kept(from + 1);
    }
#pragma GCC unroll 4
    for (const float*& from : at) from = Kept(from + kBlock - kTogether);
  }
}

// kShared tiles times a vector of columns: sums[tile, row of pixels, column of positions].
template <WinogradForm kForm>
HWY_INLINE void Multiply(const PhaseTiles& tiles, const float* values, const float* weights,
                         float* sums) {
  const Full d;
  using V = hn::Vec<Full>;
  for (int j = 0; j < kSide; ++j, sums += kLanes) {
    V products[kShared][kSide];
#pragma GCC unroll 2
    for (int row = 0; row < kSide; row += kRows) {
      V acc[kShared][kRows];
      AddProducts(tiles, values, weights, acc);
      values += kRows * kTogether;
      weights += tiles.channels * kRows * kLanes;
#pragma GCC unroll 4
      for (int t = 0; t < kShared; ++t) {
#pragma GCC unroll 6
        for (int i = 0; i < kRows; ++i) products[t][row + i] = acc[t][i];
      }
    }
#pragma GCC unroll 4
    for (int t = 0; t < kShared; ++t) {
      V mapped[kForm.m];
      Map<kForm>::Output(d, products[t], mapped);
#pragma GCC unroll 4
      for (int i = 0; i < kForm.m; ++i) {
        hn::Store(mapped[i], d, sums + (t * kForm.m + i) * kSide * kLanes);
      }
    }
  }
}

// Fetches what is about to be stored.
HWY_INLINE void FetchPixels(const PhaseTiles& tiles, const WinogradPlace& place, const float* y) {
  const int64_t stride = tiles.s.y_stride;
  y += tiles.PixelOf(place) * stride;
  for (int i = 0; i < place.rows; ++i, y += tiles.s.out[2] * stride) {
    for (int j = 0; j < place.columns; ++j) __builtin_prefetch(y + j * stride, 0, 2);
  }
}

// Transforms the sums of a tile back and stores its pixels, columns [n, n + kLanes) of them.
template <WinogradForm kForm>
HWY_INLINE void StoreSums(const PhaseTiles& tiles, const float* sums, const WinogradPlace& place,
                          int64_t n, float* y, const TileEpilogue& epilogue) {
  const Full d;
  using V = hn::Vec<Full>;
  const ConvShape& s = tiles.s;
  TileStore store = StoreOf(false, &epilogue, n);
  store.left_out = std::max<int64_t>(0, n + kLanes - s.cout);
  int64_t pixel = tiles.PixelOf(place);
  for (int i = 0; i < place.rows; ++i, pixel += s.out[2], sums += kSide * kLanes) {
    V row[kSide], mapped[kForm.m], acc[kForm.m][1];
#pragma GCC unroll 6
    for (int j = 0; j < kSide; ++j) row[j] = hn::Load(d, sums + j * kLanes);
    Map<kForm>::Output(d, row, mapped);
#pragma GCC unroll 4
    for (int j = 0; j < kForm.m; ++j) acc[j][0] = mapped[j];
    float* const to = y + pixel * s.y_stride + n;
    store.residual = ResidualOf(&epilogue, pixel, n);
    StoreFirstRows(d, acc, place.columns, to, s.y_stride, store);
  }
}

// All columns of tiles [first, first + count), no more than kShared.
template <WinogradForm kForm>
HWY_NOINLINE void RunTiles(const PhaseTiles& tiles, const float* x, const float* packed, float* y,
                           int64_t first, int64_t count, const TileEpilogue& epilogue,
                           float* values) {
  HWY_ALIGN float sums[kShared * kForm.m * kSide * kLanes];
  WinogradPlace places[kShared];
  for (int64_t t = 0; t < kShared; ++t) {
    places[t] = tiles.At(first + std::min(t, count - 1));
    InputTile(tiles, x, places[t], values + t * tiles.Values());
  }
  const int64_t panel = tiles.channels * kSide * kSide * kLanes;
  for (int64_t n = 0; n < tiles.s.cout; n += kLanes, packed += panel) {
    for (int64_t t = 0; t < count; ++t) FetchPixels(tiles, places[t], y + n);
    Multiply<kForm>(tiles, values, packed, sums);
    for (int64_t t = 0; t < count; ++t) {
      StoreSums<kForm>(tiles, sums + t * kForm.m * kSide * kLanes, places[t], n, y, epilogue);
    }
  }
}

// The transformed weights of columns [n, n + kLanes): [column, row / kRows, channel of phases, row,
// kLanes].
template <WinogradForm kForm>
HWY_NOINLINE void PackPanel(const PhaseTiles& tiles, const float* weights, int64_t n, float* to) {
  constexpr const auto& kMap = Map<kForm>::kWeights;
  constexpr int kTaps = kForm.kernel;
  const ConvShape& s = tiles.s;
  const int64_t cin = s.cin, fold = tiles.fold;
  for (int64_t lane = 0; lane < kLanes; ++lane) {
    for (int64_t k = 0; k < tiles.channels; ++k) {
      const int64_t d = k / tiles.run / fold, h = k / tiles.run % fold;
      const int64_t w = k % tiles.run / cin, c = k % cin;
      double half[kSide][kTaps] = {};
      for (int a = 0; a < kTaps; ++a) {
        for (int b = 0; b < kTaps; ++b) {
          const int64_t kh = a * fold + h, kw = b * fold + w;
          if (kh >= s.kernel[1] || kw >= s.kernel[2] || n + lane >= s.cout) continue;
          const int64_t line = (((n + lane) * cin + c) * s.kernel[0] + d) * s.kernel[1] + kh;
          const float tap = weights[line * s.kernel[2] + kw];
          for (int i = 0; i < kSide; ++i) half[i][b] += static_cast<double>(kMap[i][a]) * tap;
        }
      }
      for (int i = 0; i < kSide; ++i) {
        for (int j = 0; j < kSide; ++j) {
          double sum = 0;
          for (int b = 0; b < kTaps; ++b) sum += static_cast<double>(kMap[j][b]) * half[i][b];
          const int64_t part = j * (kSide / kRows) + i / kRows;
          to[((part * tiles.channels + k) * kRows + i % kRows) * kLanes + lane] =
              static_cast<float>(sum);
        }
      }
    }
  }
}

template <WinogradForm kForm>
constexpr PhaseKernels kKernels = {kLanes, RunTiles<kForm>, PackPanel<kForm>};

PhaseKernels KernelsFor(int64_t taps) {
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

PhaseKernels Kernels(int64_t taps) { return HWY_DYNAMIC_DISPATCH(KernelsFor)(taps); }

std::string_view Refusal(const ConvShape& s) {
  if (s.groups > 1) return "has groups";
  if (s.stride[1] != s.stride[2]) return "strides differ";
  const int64_t taps = CeilDiv(s.kernel[2], s.stride[2]);
  if ((taps != 3 && taps != 4) || CeilDiv(s.kernel[1], s.stride[1]) != taps) {
    return "kernel is not 3 or 4 steps";
  }
  if (s.dilation[1] != 1 || s.dilation[2] != 1) return "dilation is not 1";
  const int64_t longest = std::max(s.stride[1], s.kernel[0]);
  if (s.cin > 16 || longest > kMostChannels || PhaseTiles(s).channels > kMostChannels) {
    return "many channels";
  }
  return {};
}

// Multiplications of all tiles.
double Products(const ConvShape& s) {
  const PhaseTiles tiles(s);
  return static_cast<double>(tiles.count() * kSide * kSide * tiles.channels * s.cout);
}

double Cost(const ConvShape& s) {
  const PhaseTiles tiles(s);
  const double in_bytes = static_cast<double>(FloatBytes(tiles.count() * tiles.Values()));
  const double out_bytes = static_cast<double>(s.OutPixels() * s.cout) * 4;
  return 2 * Products(s) * 1.0e-5 + in_bytes * 3.6e-5 + out_bytes * 7.5e-5;
}

size_t PackedBytes(const ConvShape& s) {
  const PhaseTiles tiles(s);
  const int64_t columns = RoundUp(s.cout, Kernels(tiles.taps).lanes);
  return FloatBytes(tiles.channels * kSide * kSide * columns);
}

void Pack(const ConvShape& s, const ConvWeightRows& rows, float* packed, const Parallel& par) {
  const PhaseTiles tiles(s);
  const PhaseKernels kernels = Kernels(tiles.taps);
  par.For(CeilDiv(s.cout, kernels.lanes), [&](int64_t i) {
    const int64_t n = i * kernels.lanes;
    kernels.pack(tiles, rows.data, n, packed + n * tiles.channels * kSide * kSide);
  });
}

size_t ScratchBytes(const ConvShape& s, int threads) {
  const PhaseTiles tiles(s);
  return FloatBytes(tiles.Values() * kShared) *
         static_cast<size_t>(ScratchSlots::CountFor(threads));
}

void Run(const ConvShape& s, const float* x, const float* packed, float* y,
         const Epilogue& epilogue, void* scratch, const Parallel& par) {
  const PhaseTiles tiles(s);
  const PhaseKernels kernels = Kernels(tiles.taps);
  const PreparedEpilogue prepared(epilogue);
  const TileEpilogue tile_epilogue = prepared.InRegisters() ? prepared.Tile(0, 0) : TileEpilogue();
  const bool is_finished =
      prepared.InRegisters() && tile_epilogue.activation.kind == Activation::Kind::kNone;
  const auto finish = [&](const WinogradPlace& place) {
    int64_t pixel = tiles.PixelOf(place);
    for (int i = 0; i < place.rows; ++i, pixel += s.out[2]) {
      float* const from = y + pixel * s.y_stride;
      ApplyActivation(tile_epilogue.activation, from, s.y_stride, place.columns, s.cout);
      if (prepared.InRegisters()) continue;
      prepared.Apply(from, s.y_stride, pixel, place.columns, 0, s.cout);
    }
  };
  const int64_t groups = CeilDiv(tiles.count(), kShared);
  const int64_t tasks = std::min(groups, WantedTasks(2 * Products(s), 0));
  ScratchSlots slots(scratch, FloatBytes(tiles.Values() * kShared),
                     ScratchSlots::CountFor(par.threads));
  par.For(tasks, [&](int64_t task) {
    const ScratchSlots::Lease lease(slots);
    for (int64_t group = groups * task / tasks; group < groups * (task + 1) / tasks; ++group) {
      const int64_t first = group * kShared;
      const int64_t count = std::min<int64_t>(kShared, tiles.count() - first);
      kernels.run(tiles, x, packed, y, first, count, tile_epilogue, lease.floats());
      if (is_finished) continue;
      for (int64_t tile = first; tile < first + count; ++tile) finish(tiles.At(tile));
    }
  });
}

}  // namespace

const ConvMethod kConvPhases = {.refusal = Refusal,
                                .cost = Cost,
                                .packed_bytes = PackedBytes,
                                .pack = Pack,
                                .scratch_bytes = ScratchBytes,
                                .run = Run};

}  // namespace sardonyx
#endif  // HWY_ONCE
