// 3 x 3 convolution by Winograd's F(m x m, 3 x 3): the input under each tile of m x m output pixels
// is transformed to (m + 2)^2 values a channel, each of these positions is a matrix product over
// channels with transformed weights, and the products are transformed back. 4 or 2.25 times fewer
// multiplications than the direct sum; with stride 2, (2 m + 1)^2 values, 1.8 or 1.4 times fewer;
// F(2 x 2, 5 x 5), 2.8 times fewer; F(4 x 4, 5 x 5) with stride 2, (2 m + 3)^2, 3.3 times fewer.
// The slices of a kernel of three dimensions are more channels of one of two.

#include <algorithm>
#include <limits>

#include "kernels/conv_internal.h"
#include "kernels/gemm.h"
#include "kernels/scratch_slots.h"
#include "kernels/slices.h"
#include "kernels/subnormals.h"
#include "kernels/winograd_few.h"
#include "kernels/winograd_transform.h"

namespace sardonyx {

namespace {

// What the transformed values of a block of tiles may take of the second-level cache.
constexpr int64_t kBlockBytes = 640 << 10;
// Tiles that are multiplied by a panel before their products are transformed back.
constexpr int64_t kProductTiles = 56;
// Transformed weights of so many bytes are not kept; of a quarter where so many tiles share their
// transform that it costs little.
constexpr int64_t kLateBytes = 16 << 20, kSharingTiles = 64;
// What those of some channels of a panel may take of that cache.
constexpr int64_t kWeightBytes = 640 << 10;
// Many processors have too few panels that are made in registers where there are fewer columns.
constexpr int64_t kLeastFewShared = 128;
// Channels at a time of which they are made in registers.
constexpr int64_t kFewDepth = 128;
// If the values of few tiles take no more for all threads together, each transforms them for
// itself: to fetch those of another takes longer.
constexpr size_t kOwnBytes = 3 << 19;
// What caches keep of transformed weights while other layers run.
constexpr double kKeptBytes = 1.25 * (1 << 20);

// Panel by panel of the weights, whose products of all positions are transformed back at once. Two
// ways of cutting: blocks of tiles, whose transformed input stays in the cache while all weights
// pass; or all tiles are transformed first, and a task is a panel, so that weights are read once.
// Where many processors find few blocks or panels, a task is a position of one, of which there are
// 16 or 36, and all products are transformed back at the end (28x28 of 128 channels on 16 threads:
// 0.26 of the time; Emerald Rapids).
//
// Large weights, whose transform takes 4 times the memory, are kept as they were before: reading
// less makes up for most of the time. A task transforms its panel, for few tiles some channels of
// it at a time; or, for blocks, all are transformed at the beginning of a run. Those of few tiles
// are transformed in registers, at any size: little slower at most, and often faster.
struct Cut {
  int64_t cin = 0, cout = 0, panels = 0;  // of a group
  int64_t width = 0;                      // of a panel
  int64_t groups = 1;                     // whose values are transformed together
  bool blocks = true;
  bool late = false, piecewise = false;  // weights are transformed; some channels at a time
  bool few = false;                      // in registers
  bool by_positions = false;             // a task has some positions of all tiles
  int64_t parts = 1;  // blocks, or of the tiles for each panel, or of all panels' positions
  int64_t tiles = 0;  // of those that are transformed together, at most
  int64_t depth = 0;  // channels that are multiplied at a time
  int64_t in_ld = 0, in_stride = 0, out_stride = 0, w_stride = 0;
  size_t in_bytes = 0, out_bytes = 0, w_bytes = 0;
};

// Of how many groups the values of a block fit into the cache. All of them if it has enough tiles
// even so, or if those of all tiles are so few that what follows finds them; else the short weights
// of a group, which come from beyond the cache, would meet few tiles while they are there, or the
// values would (8 groups of 32 channels, 56x56: half of the time; Zen 3).
int64_t GroupsTogether(const ConvShape& s, WinogradForm form, int64_t tiles, int64_t channels) {
  constexpr int64_t kFound = 2 << 20;  // bytes
  const int64_t group_bytes = form.Positions() * channels * 4, all_bytes = s.groups * group_bytes;
  if (kBlockBytes / all_bytes >= kProductTiles / 2 || tiles * all_bytes <= kFound) return s.groups;
  const int64_t fitting = kBlockBytes / (kProductTiles * group_bytes);
  return fitting == 0 ? s.groups : std::min(fitting, s.groups);
}

// Whether many processors find more to do in positions than in blocks or panels: all then read the
// values that others have transformed, and their products.
bool SharesPositions(const ConvShape& s, const Cut& cut, int64_t tiles, int64_t positions) {
  constexpr int64_t kMostMoved = 4 << 20;  // bytes
  if (!HasManyProcessors() || cut.few || cut.late || s.groups > 1) return false;
  const int64_t tasks = cut.blocks ? cut.parts : cut.panels * cut.parts;
  return 2 * tasks < TaskProcessors() && positions * tiles * (cut.cin + s.cout) * 4 <= kMostMoved;
}

Cut CutTiles(const ConvShape& s, WinogradForm form) {
  const int64_t positions = form.Positions();
  const int64_t all = WinogradTiles(s, form).count();
  const int64_t tile = GemmTileRows();
  Cut cut;
  cut.cin = SlicedChannels(s) / s.groups;
  cut.cout = s.cout / s.groups;
  const int64_t matrices = form.Weights() * form.Weights();
  if (form == WinogradForm{4, 1}) {
    cut.few = all <= WinogradFewTiles() && cut.cout % WinogradFewColumns() == 0 &&
              (!HasManyProcessors() || s.cout >= kLeastFewShared);
    const int64_t most = cut.few ? 0 : kLateBytes / (all < kSharingTiles ? 1 : 4);
    cut.late = matrices * cut.cin * s.cout * 4 >= most;
  }
  cut.groups = cut.few ? s.groups : GroupsTogether(s, form, all, cut.cin);
  cut.in_ld = ValuesStride(cut.groups * cut.cin);
  const int64_t value_bytes = positions * cut.in_ld * 4;  // of a tile
  const int64_t fitting = std::min(kBlockBytes / value_bytes, kProductTiles) / tile * tile;
  const int64_t few = 2 * std::max<int64_t>(tile, 14);
  cut.width = cut.few ? WinogradFewColumns() : GemmPanelWidth();
  cut.panels = CeilDiv(cut.cout, cut.width);
  cut.blocks = !cut.few && (fitting >= few || all * value_bytes > (8 << 20));
  const double flops = 2.0 * static_cast<double>(all * positions * cut.cin * s.cout);
  if (cut.blocks) {
    cut.parts =
        EvenParts(CeilDiv(all, std::max(fitting, RoundUp(12, tile))), all / RoundUp(12, tile));
    cut.tiles = CeilDiv(all, cut.parts);
  } else {
    const int64_t wanted = CeilDiv(WantedTasks(flops, 0), s.groups * cut.panels);
    cut.parts = std::clamp<int64_t>(wanted, 1, CeilDiv(all, cut.late ? kProductTiles : 2 * tile));
    cut.tiles = all;
  }
  cut.by_positions = SharesPositions(s, cut, all, positions);
  if (cut.by_positions) {
    cut.blocks = false;
    cut.tiles = all;
    cut.parts = std::min(cut.panels * positions, WantedTasks(flops, 0));
  }
  cut.in_stride = Spread(cut.tiles * cut.in_ld);
  const int64_t together = cut.by_positions ? all : std::min(cut.tiles, kProductTiles);
  cut.out_stride = Spread(together * cut.width);
  cut.in_bytes = AlignBytes(FloatBytes(positions * cut.in_stride));
  cut.out_bytes = AlignBytes(FloatBytes(positions * cut.out_stride));
  cut.depth = GemmDepth(cut.cin);
  if (cut.few) {
    cut.depth = CeilDiv(cut.cin, CeilDiv(cut.cin, kFewDepth));
    cut.w_bytes = FloatBytes(cut.depth * form.kernel * cut.width);
  }
  if (!cut.late || cut.few) return cut;
  cut.piecewise = !cut.blocks && all <= few;
  if (cut.piecewise) {
    cut.depth = CeilDiv(cut.cin, CeilDiv(cut.cin * cut.width * matrices * 4, kWeightBytes));
  }
  cut.w_stride = Spread((cut.piecewise ? cut.depth : cut.cin) * cut.width);
  cut.w_bytes = FloatBytes(matrices * cut.w_stride);
  return cut;
}

// Whether each of so many threads transforms the input for itself.
bool HasOwnValues(const Cut& cut, size_t threads) {
  return cut.few && cut.in_bytes * threads <= kOwnBytes;
}

// Of the weights of a group: as they are, or transformed.
int64_t KernelFloats(const Cut& cut, WinogradForm form) {
  return static_cast<int64_t>(GemmPackedBytes(cut.cin * form.kernel * form.kernel, cut.cout) /
                              sizeof(float));
}
int64_t TransformedFloats(const Cut& cut, WinogradForm form) {
  return form.Weights() * form.Weights() *
         static_cast<int64_t>(GemmPackedBytes(cut.cin, cut.cout) / sizeof(float));
}

// Where panel `index` of all groups begins among columns, and how many it has.
struct Panel {
  Panel(const Cut& cut, int64_t index)
      : group(index / cut.panels),
        n(index % cut.panels * cut.width),
        columns(std::min(cut.width, cut.cout - n)),
        width(RoundUp(columns, kPanelGranule)) {}
  template <typename Float>
  Float* Kernels(const Cut& cut, WinogradForm form, Float* packed) const {
    return packed + group * KernelFloats(cut, form) + n * cut.cin * form.kernel * form.kernel;
  }
  template <typename Float>
  Float* Transformed(const Cut& cut, WinogradForm form, Float* packed) const {
    return packed + group * TransformedFloats(cut, form) +
           n * cut.cin * form.Weights() * form.Weights();
  }
  int64_t group, n, columns, width;
};

// Transforms back and finishes tiles first ... first + count - 1 of columns [n, n + columns).
void Finish(const ConvShape& s, WinogradForm form, const WinogradValues& products, int64_t first,
            int64_t count, int64_t n, int64_t columns, float* y, const PreparedEpilogue& prepared) {
  if (prepared.InRegisters()) {
    TransformsOf(form).output(s, products, first, count, columns, y + n, prepared.Tile(0, n));
    return;
  }
  TransformsOf(form).output(s, products, first, count, columns, y + n, TileEpilogue());
  // Runs of neighbouring tiles: their output lines are contiguous.
  const WinogradTiles tiles(s, form);
  for (int64_t i = first; i < first + count;) {
    const WinogradPlace place = tiles.At(i);
    int64_t pixels = 0;
    for (; i < first + count; ++i) {
      const WinogradPlace next = tiles.At(i);
      if (next.slice != place.slice || next.h != place.h || next.w != place.w + pixels) break;
      pixels += next.columns;
    }
    for (int64_t h = place.h; h < place.h + place.rows; ++h) {
      const int64_t pixel = (place.slice * s.out[1] + h) * s.out[2] + place.w;
      prepared.Apply(y + pixel * s.y_stride + n, s.y_stride, pixel, pixels, n, columns);
    }
  }
}

// One call of Run.
struct Work {
  const ConvShape& s;
  const WinogradForm form;
  const WinogradTiles tiles;
  const Cut& cut;
  float* y;
  const PreparedEpilogue& prepared;

  // Tiles [first, last) at positions [t0, t1), whose values of the panel's group begin at in.data
  // and whose products at out.data, times a panel. weights_of(k0, kc) are the transformed weights
  // of channels [k0, k0 + kc), matrices w_stride apart.
  template <typename WeightsOf>
  void MultiplyPositions(const WinogradValues& in, int64_t first, int64_t last, int64_t t0,
                         int64_t t1, const Panel& panel, const WeightsOf& weights_of,
                         int64_t w_stride, const WinogradValues& out) const {
    for (int64_t k0 = 0; k0 < cut.cin; k0 += cut.depth) {
      const int64_t kc = std::min(cut.depth, cut.cin - k0);
      const float* const weights = weights_of(k0, kc);
      GemmBlockArgs waiting{};  // a product is done once it is known which one follows
      for (auto t = static_cast<int>(t0); t < t1; ++t) {
        const int i = t / form.Side(), j = t % form.Side();
        const auto [taking0, taking1] = tiles.Taking(i, j);
        const int64_t row0 = std::max(first, taking0), row1 = std::min(last, taking1);
        if (row0 >= row1) continue;
        GemmBlockArgs args{};
        args.a = in.data + t * in.t_stride + (row0 - first) * in.ld + k0;
        args.lda = in.ld;
        args.rows = row1 - row0;
        args.b = weights + (form.WeightAt(i) * form.Weights() + form.WeightAt(j)) * w_stride;
        args.k_total = args.kc = kc;
        args.n_total = args.n1 = args.ldc = panel.width;
        args.is_all = cut.cout <= panel.width;
        args.c = out.data + t * out.t_stride + (row0 - first) * panel.width;
        args.accumulate = k0 > 0;
        waiting.next = args.b;
        GemmBlock(waiting);
        waiting = args;
      }
      // Nothing more: what lies behind may be what another thread writes.
      waiting.next = waiting.b;
      GemmBlock(waiting);
    }
  }

  // All positions of tiles [first, last) times a panel, likewise; finished.
  template <typename WeightsOf>
  void Multiply(const WinogradValues& in, int64_t first, int64_t last, const Panel& panel,
                const WeightsOf& weights_of, int64_t w_stride, float* products) const {
    const WinogradValues out{products, cut.out_stride, panel.width};
    const int64_t chunks = CeilDiv(last - first, kProductTiles);
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const int64_t begin = first + (last - first) * chunk / chunks;
      const int64_t end = first + (last - first) * (chunk + 1) / chunks;
      MultiplyPositions({in.data + (begin - first) * in.ld, in.t_stride, in.ld}, begin, end, 0,
                        form.Positions(), panel, weights_of, w_stride, out);
      FinishPanel(out, begin, end - begin, panel);
    }
  }

  void FinishPanel(const WinogradValues& products, int64_t first, int64_t count,
                   const Panel& panel) const {
    Finish(s, form, products, first, count, panel.group * cut.cout + panel.n, panel.columns, y,
           prepared);
  }

  // All tiles times a panel of weights as they are.
  void MultiplyFew(const WinogradValues& in, const Panel& panel, const float* kernels,
                   float* products) const {
    const WinogradValues out{products, cut.out_stride, panel.width};
    for (int64_t k0 = 0; k0 < cut.cin; k0 += cut.depth) {
      FewTilesArgs args{};
      args.tiles = &tiles;
      args.channels = std::min(cut.depth, cut.cin - k0);
      args.kernels = kernels + k0 * form.kernel * form.kernel * panel.width;
      args.in = in.From(panel.group * cut.cin + k0);
      args.out = out;
      args.half = products + cut.out_bytes / sizeof(float);
      args.accumulate = k0 > 0;
      WinogradFew(args);
    }
    FinishPanel(out, 0, tiles.count(), panel);
  }
};

// The kernels [count, taps, columns] of channels of a panel, those of each slice in turn.
void PackKernels(const ConvShape& s, const Cut& cut, const Panel& panel, const ConvWeightRows& rows,
                 int64_t first, int64_t count, float* to) {
  const int64_t area = s.kernel[1] * s.kernel[2], ld = cut.cin * area;
  const float* const weights = rows.data + (panel.group * cut.cout + panel.n - rows.first) * ld;
  const int64_t together = s.kernel[0] == 1 ? count : 1;  // that lie one behind the other
  for (int64_t i = first; i < first + count; i += together, to += together * area * panel.width) {
    const int64_t from = s.kernel[0] == 1 ? i : i % s.cin * s.kernel[0] + i / s.cin;
    PackPanels(together * area, panel.columns, weights + from * area, ld, true, 0, panel.columns,
               to);
    ZeroSubnormals(to, together * area * panel.width);
  }
}

template <WinogradForm kForm>
std::string_view Refusal(const ConvShape& s) {
  if (s.groups > 1 && std::min(s.cin, s.cout) / s.groups < 16) return "groups of few channels";
  if (s.groups > 1 && s.kernel[0] > 1) return "groups of a kernel of three dimensions";
  if (s.kernel[1] != kForm.kernel || s.kernel[2] != kForm.kernel) {
    return kForm.kernel == 3 ? "kernel is not 3 x 3" : "kernel is not 5 x 5";
  }
  if (s.stride[1] != kForm.stride || s.stride[2] != kForm.stride) {
    return kForm.stride == 1 ? "stride is not 1" : "stride is not 2";
  }
  if (s.dilation[1] != 1 || s.dilation[2] != 1) return "dilation is not 1";
  return {};
}

template <WinogradForm kForm>
double Cost(const ConvShape& s) {
  // Few channels leave the transforms more to do than the products save, which stride 2 halves.
  if (std::min(SlicedChannels(s), s.cout) < (s.stride[2] == 2 ? 16 : 8)) {
    return std::numeric_limits<double>::infinity();
  }
  const Cut cut = CutTiles(s, kForm);
  const auto rows = static_cast<double>(WinogradTiles(s, kForm).Products(s));
  const double matrices = kForm.Weights() * kForm.Weights();
  // How many products a weight takes as long as that is transformed in each run. Panels of few
  // tiles wait for weights from memory as well: with AVX2 the last two layers of ResNet-50 take 1.6
  // times as long as by tiles of 2x2 pixels (Zen 3).
  const double late = cut.few ? 1 : cut.piecewise ? 8 : cut.late ? 3 : 0;
  const auto cin = static_cast<double>(SlicedChannels(s)), cout = static_cast<double>(s.cout);
  const double size = cin * cout / static_cast<double>(s.groups);
  // 81 products of few rows wait for such weights, longer than the 25 of smaller tiles take: in the
  // three layers of ResNet-50 1.12, 1.17 and 1.94 times their time with AVX-512, with AVX2 1.05,
  // 1.18 and 1.7 times (Emerald Rapids).
  if (kForm == WinogradForm{4, 2} && matrices * size * 4 > kKeptBytes) {
    return std::numeric_limits<double>::infinity();
  }
  const double transforms = rows * (cin + cout) * 4 * 4.0e-5;
  const double weights = late > 0 ? kForm.kernel * kForm.kernel : matrices;
  // The products of a narrow group are short, most of all those of few tiles (Granite Rapids: of 16
  // channels and 16 tiles 2.2 times as long as of one group, of 48 channels and 49 tiles 1.5
  // times).
  const double narrow =
      s.groups == 1 ? 1 : 1 + (10 + 150 * matrices / rows) * static_cast<double>(s.groups) / cin;
  return narrow * ProductCost((rows + late * matrices) * size, weights * size * 4) + transforms;
}

// " scaled" where the taps of packed weights are, for a transform in registers.
template <WinogradForm kForm>
std::string_view PackedForm(const ConvShape& s) {
  return CutTiles(s, kForm).few ? " scaled" : "";
}

template <WinogradForm kForm>
size_t PackedBytes(const ConvShape& s) {
  const Cut cut = CutTiles(s, kForm);
  return FloatBytes(s.groups *
                    (cut.late ? KernelFloats(cut, kForm) : TransformedFloats(cut, kForm)));
}

template <WinogradForm kForm>
int64_t PackStep(const ConvShape& s) {
  return PanelStep(s, CutTiles(s, kForm).width);
}

template <WinogradForm kForm>
void Pack(const ConvShape& s, const ConvWeightRows& rows, float* packed, const Parallel& par) {
  const Cut cut = CutTiles(s, kForm);
  const int64_t begin = PanelAt(s, cut.width, rows.first);
  const int64_t panels = PanelAt(s, cut.width, rows.end) - begin;
  if (cut.late) {
    par.For(panels, [&](int64_t index) {
      const Panel panel(cut, begin + index);
      float* at = panel.Kernels(cut, kForm, packed);
      PackKernels(s, cut, panel, rows, 0, cut.cin, at);
      for (int64_t c = 0; cut.few && c < cut.cin; ++c) {
        for (const float scale : kFewTapScales) {
          for (const float* const end = at + panel.width; at < end; ++at) *at *= scale;
        }
      }
    });
    return;
  }
  par.For(panels, [&](int64_t index) {
    // Some channels at a time: what is written to each of the many matrices, whose distance is a
    // power of two as often as not, are whole lines.
    constexpr int64_t kTogether = 4, kWidest = 32, kMatrices = kForm.Weights() * kForm.Weights();
    constexpr int64_t kArea = kForm.kernel * kForm.kernel;
    alignas(64) float kernels[kTogether * kArea * kWidest];
    alignas(64) float transformed[kTogether * kMatrices * kWidest];
    const Panel panel(cut, begin + index);
    float* const to = panel.Transformed(cut, kForm, packed);
    for (int64_t first = 0; first < cut.cin; first += kTogether) {
      const int64_t count = std::min(kTogether, cut.cin - first), floats = count * panel.width;
      PackKernels(s, cut, panel, rows, first, count, kernels);
      TransformsOf(kForm).weights(count, panel.width, kernels, transformed, floats);
      for (int64_t t = 0; t < kMatrices; ++t) {
        std::copy_n(transformed + t * floats, floats, to + (t * cut.cin + first) * panel.width);
      }
    }
  });
}

template <WinogradForm kForm>
size_t ScratchBytes(const ConvShape& s, int threads) {
  const Cut cut = CutTiles(s, kForm);
  const auto slots = static_cast<size_t>(ScratchSlots::CountFor(threads));
  if (cut.by_positions) return cut.in_bytes + cut.out_bytes * static_cast<size_t>(cut.panels);
  if (!cut.blocks) {
    return cut.in_bytes * (HasOwnValues(cut, slots) ? slots : 1) +
           (cut.out_bytes + cut.w_bytes) * slots;
  }
  const size_t weights = cut.late ? cut.w_bytes * static_cast<size_t>(s.groups * cut.panels) : 0;
  return weights + (cut.in_bytes + cut.out_bytes) * slots;
}

// The shape of what panels [begin, end) read, and its first channel: that of their groups.
struct Channels {
  ConvShape shape;
  int64_t first;
};
Channels ChannelsOf(const ConvShape& s, const Cut& cut, int64_t begin, int64_t end) {
  if (s.groups == 1 || s.kernel[0] > 1) return {s, 0};
  const int64_t first = begin / cut.panels, last = CeilDiv(end, cut.panels);
  Channels channels{s, first * cut.cin};
  channels.shape.cin = (last - first) * cut.cin;
  return channels;
}

template <WinogradForm kForm>
void Run(const ConvShape& s, const float* x, const float* packed, float* y,
         const Epilogue& epilogue, void* scratch, const Parallel& par) {
  const Cut cut = CutTiles(s, kForm);
  const PreparedEpilogue prepared(epilogue);
  const Work work{s, kForm, WinogradTiles(s, kForm), cut, y, prepared};
  const int64_t all = work.tiles.count(), panels = s.groups * cut.panels;
  auto* bytes = static_cast<std::byte*>(scratch);
  const auto transform = [&](const Panel& panel, int64_t k0, int64_t kc, float* to) {
    constexpr int64_t kArea = kForm.kernel * kForm.kernel;
    TransformsOf(kForm).weights(kc, panel.width,
                                panel.Kernels(cut, kForm, packed) + k0 * kArea * panel.width, to,
                                cut.w_stride);
  };
  if (cut.blocks) {
    const auto transformed = [&](int64_t index) {
      return reinterpret_cast<float*>(static_cast<std::byte*>(scratch) +
                                      static_cast<size_t>(index) * cut.w_bytes);
    };
    if (cut.late) {
      par.For(panels, [&](int64_t i) { transform(Panel(cut, i), 0, cut.cin, transformed(i)); });
      bytes += cut.w_bytes * static_cast<size_t>(panels);
    }
    ScratchSlots slots(bytes, cut.in_bytes + cut.out_bytes, ScratchSlots::CountFor(par.threads));
    par.For(CeilDiv(s.groups, cut.groups) * cut.parts, [&](int64_t task) {
      const ScratchSlots::Lease lease(slots);
      const int64_t block = task % cut.parts, begin = task / cut.parts * cut.groups * cut.panels;
      const int64_t end = std::min(panels, begin + cut.groups * cut.panels);
      const int64_t first = all * block / cut.parts, last = all * (block + 1) / cut.parts;
      const WinogradValues in{lease.floats(), cut.in_stride, cut.in_ld};
      float* const products = lease.floats() + cut.in_bytes / sizeof(float);
      const auto [own, channel] = ChannelsOf(s, cut, begin, end);
      TransformsOf(kForm).input(own, x + channel, first, last - first, in);
      for (int64_t i = begin; i < end; ++i) {
        const Panel panel(cut, i);
        const float* const weights =
            cut.late ? transformed(i) : panel.Transformed(cut, kForm, packed);
        work.Multiply(
            in.From(panel.group * cut.cin - channel), first, last, panel,
            [&](int64_t k0, int64_t) { return weights + k0 * panel.width; },
            cut.late ? cut.w_stride : cut.cin * panel.width, products);
      }
    });
    return;
  }
  const int slot_count = ScratchSlots::CountFor(par.threads);
  if (HasOwnValues(cut, static_cast<size_t>(slot_count))) {
    ScratchSlots slots(bytes, cut.in_bytes + cut.out_bytes + cut.w_bytes, slot_count);
    const int64_t shares = std::min<int64_t>(panels, slot_count);
    par.For(shares, [&](int64_t share) {
      const ScratchSlots::Lease lease(slots);
      const WinogradValues in{lease.floats(), cut.in_stride, cut.in_ld};
      const int64_t begin = panels * share / shares, end = panels * (share + 1) / shares;
      const auto [own, first] = ChannelsOf(s, cut, begin, end);
      const WinogradValues values = in.From(first);
      TransformsOf(kForm).input(own, x + first, 0, all, values);
      ClearForWinogradFew(work.tiles, SlicedChannels(own), 0, all, values);
      for (int64_t i = begin; i < end; ++i) {
        const Panel panel(cut, i);
        work.MultiplyFew(in, panel, panel.Kernels(cut, kForm, packed),
                         lease.floats() + cut.in_bytes / sizeof(float));
      }
    });
    return;
  }
  const auto At = [&](int64_t tile) {
    return WinogradValues{static_cast<float*>(scratch) + tile * cut.in_ld, cut.in_stride,
                          cut.in_ld};
  };
  const double value_bytes = static_cast<double>(all * kForm.Positions() * SlicedChannels(s)) * 4;
  const int64_t in_parts = std::min(all, WantedTasks(0, 2 * value_bytes, 16));
  par.For(in_parts, [&](int64_t part) {
    const int64_t first = all * part / in_parts, last = all * (part + 1) / in_parts;
    TransformsOf(kForm).input(s, x, first, last - first, At(first));
    if (cut.few) {
      ClearForWinogradFew(work.tiles, SlicedChannels(s), first, last - first, At(first));
    }
  });
  if (cut.by_positions) {
    // Those of each panel, and of it those of each position.
    const auto products = [&](int64_t i) {
      return WinogradValues{
          reinterpret_cast<float*>(bytes + cut.in_bytes + cut.out_bytes * static_cast<size_t>(i)),
          cut.out_stride, Panel(cut, i).width};
    };
    const int64_t items = panels * kForm.Positions();
    par.For(cut.parts, [&](int64_t part) {
      for (int64_t i = items * part / cut.parts, end = items * (part + 1) / cut.parts; i < end;) {
        const Panel panel(cut, i / kForm.Positions());
        const int64_t t0 = i % kForm.Positions();
        const int64_t t1 = std::min<int64_t>(kForm.Positions(), t0 + end - i);
        const float* const kept = panel.Transformed(cut, kForm, packed);
        work.MultiplyPositions(
            At(0), 0, all, t0, t1, panel,
            [&](int64_t k0, int64_t) { return kept + k0 * panel.width; }, cut.cin * panel.width,
            products(i / kForm.Positions()));
        i += t1 - t0;
      }
    });
    const int64_t out_parts = std::min(all, WantedTasks(0, 2 * value_bytes, 16));
    par.For(out_parts, [&](int64_t part) {
      const int64_t first = all * part / out_parts, last = all * (part + 1) / out_parts;
      for (int64_t i = 0; i < panels; ++i) {
        WinogradValues from = products(i);
        from.data += first * from.ld;
        work.FinishPanel(from, first, last - first, Panel(cut, i));
      }
    });
    return;
  }
  ScratchSlots slots(bytes + cut.in_bytes, cut.out_bytes + cut.w_bytes, slot_count);
  par.For(panels * cut.parts, [&](int64_t task) {
    const ScratchSlots::Lease lease(slots);
    const int64_t part = task % cut.parts;
    const int64_t first = all * part / cut.parts, last = all * (part + 1) / cut.parts;
    if (first == last) return;
    const Panel panel(cut, task / cut.parts);
    if (cut.few) {
      return work.MultiplyFew(At(0), panel, panel.Kernels(cut, kForm, packed), lease.floats());
    }
    const auto multiply = [&](int64_t w_stride, const auto& weights_of) {
      work.Multiply(At(first).From(panel.group * cut.cin), first, last, panel, weights_of, w_stride,
                    lease.floats());
    };
    if (!cut.late) {
      const float* const kept = panel.Transformed(cut, kForm, packed);
      return multiply(cut.cin * panel.width,
                      [&](int64_t k0, int64_t) { return kept + k0 * panel.width; });
    }
    float* const weights = lease.floats() + cut.out_bytes / sizeof(float);
    if (!cut.piecewise) transform(panel, 0, cut.cin, weights);
    multiply(cut.w_stride, [&](int64_t k0, int64_t kc) -> const float* {
      if (!cut.piecewise) return weights + k0 * panel.width;
      transform(panel, k0, kc, weights);
      return weights;
    });
  });
}

template <WinogradForm kForm>
constexpr ConvMethod Method() {
  return {.refusal = Refusal<kForm>,
          .cost = Cost<kForm>,
          .packed_bytes = PackedBytes<kForm>,
          .packed_form = PackedForm<kForm>,
          .pack = Pack<kForm>,
          .pack_step = PackStep<kForm>,
          .scratch_bytes = ScratchBytes<kForm>,
          .run = Run<kForm>};
}

}  // namespace

const ConvMethod kConvWinograd[] = {
#define SARDONYX_METHOD(algorithm, name, m, stride, kernel) \
  Method<WinogradForm{m, stride, kernel}>(),
    SARDONYX_WINOGRAD_FORMS(SARDONYX_METHOD)
#undef SARDONYX_METHOD
};

}  // namespace sardonyx
