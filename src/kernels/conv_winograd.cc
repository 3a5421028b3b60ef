// 3 x 3 convolution by Winograd's F(m x m, 3 x 3): the input under each tile of m x m output pixels
// is transformed to (m + 2)^2 values a channel, each of these positions is a matrix product over
// channels with transformed weights, and the products are transformed back. 4 or 2.25 times fewer
// multiplications than the direct sum; with stride 2, (2 m + 1)^2 values, 1.8 or 1.4 times fewer;
// F(2 x 2, 5 x 5), 2.8 times fewer; F(4 x 4, 5 x 5) with stride 2, (2 m + 3)^2, 3.3 times fewer.

#include <algorithm>

#include "kernels/conv_internal.h"
#include "kernels/gemm.h"
#include "kernels/scratch_slots.h"
#include "kernels/winograd_transform.h"

namespace sardonyx {

namespace {

// What the transformed values of a block of tiles may take of the second-level cache.
constexpr int64_t kBlockBytes = 640 << 10;
// Tiles that are multiplied by a panel before their products are transformed back.
constexpr int64_t kProductTiles = 56;

// Panel by panel of the weights, whose products of all positions are transformed back at once. Two
// ways of cutting: blocks of tiles, whose transformed input stays in the cache while all weights
// pass; or all tiles are transformed first, and a task is a panel, so that weights are read once.
struct Cut {
  int64_t cin = 0, cout = 0, panels = 0;  // of a group
  bool blocks = true;
  int64_t parts = 1;  // blocks, or parts of the tiles for each panel
  int64_t tiles = 0;  // of those that are transformed together, at most
  int64_t in_ld = 0, in_stride = 0, out_stride = 0;
  size_t in_bytes = 0, out_bytes = 0;
};

// A stride at which consecutive rows do not fall into the same cache lines.
int64_t Spread(int64_t floats) { return CeilDiv(floats, 16) / 2 * 32 + 16; }

Cut CutTiles(const ConvShape& s, WinogradForm form) {
  const int64_t positions = form.Positions();
  const int64_t all = WinogradTiles(s, form).count();
  const int64_t tile = GemmTileRows(), panel = GemmPanelWidth();
  Cut cut;
  cut.cin = s.cin / s.groups;
  cut.cout = s.cout / s.groups;
  cut.panels = CeilDiv(cut.cout, panel);
  cut.in_ld = s.cin % 512 == 0 ? s.cin + 16 : s.cin;
  const int64_t value_bytes = positions * cut.in_ld * 4;  // of a tile
  const int64_t fitting = std::min(kBlockBytes / value_bytes, kProductTiles) / tile * tile;
  cut.blocks = fitting >= 2 * std::max<int64_t>(tile, 14) || all * value_bytes > (8 << 20);
  if (cut.blocks) {
    // An even number, so that two threads get the same share.
    cut.parts = RoundUp(CeilDiv(all, std::max(fitting, RoundUp(12, tile))), 2);
    cut.tiles = CeilDiv(all, cut.parts);
  } else {
    const double flops = 2.0 * static_cast<double>(all * positions * cut.cin * s.cout);
    const int64_t wanted = CeilDiv(WantedTasks(flops, 0), s.groups * cut.panels);
    cut.parts = std::clamp<int64_t>(wanted, 1, CeilDiv(all, 2 * tile));
    cut.tiles = all;
  }
  cut.in_stride = Spread(cut.tiles * cut.in_ld);
  cut.out_stride = Spread(std::min(cut.tiles, kProductTiles) * panel);
  cut.in_bytes = AlignBytes(FloatBytes(positions * cut.in_stride));
  cut.out_bytes = AlignBytes(FloatBytes(positions * cut.out_stride));
  return cut;
}

int64_t GroupFloats(const Cut& cut, WinogradForm form) {
  return form.Weights() * form.Weights() *
         static_cast<int64_t>(GemmPackedBytes(cut.cin, cut.cout) / sizeof(float));
}

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
      if (next.item != place.item || next.h != place.h || next.w != place.w + pixels) break;
      pixels += next.columns;
    }
    for (int64_t h = place.h; h < place.h + place.rows; ++h) {
      const int64_t pixel = (place.item * s.out[1] + h) * s.out[2] + place.w;
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
  const float* packed;
  float* y;
  const PreparedEpilogue& prepared;

  // Tiles [first, last), whose values begin at in.data, times panel `index` of all groups.
  void Multiply(const WinogradValues& in, int64_t first, int64_t last, int64_t index,
                float* products) const {
    const int64_t panel = GemmPanelWidth(), group = index / cut.panels;
    const int64_t n = index % cut.panels * panel, columns = std::min(panel, cut.cout - n);
    const int64_t width = RoundUp(columns, kPanelGranule);
    const float* const weights =
        packed + group * GroupFloats(cut, form) + n * cut.cin * form.Weights() * form.Weights();
    const int64_t k_step = GemmDepth(cut.cin);
    const WinogradValues out{products, cut.out_stride, width};
    const int64_t chunks = CeilDiv(last - first, kProductTiles);
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const int64_t begin = (last - first) * chunk / chunks;
      const int64_t count = (last - first) * (chunk + 1) / chunks - begin;
      for (int t = 0; t < form.Positions(); ++t) {
        const int i = t / form.Side(), j = t % form.Side();
        const auto [taking0, taking1] = tiles.Taking(i, j);
        const int64_t row0 = std::max(first + begin, taking0);
        const int64_t row1 = std::min(first + begin + count, taking1);
        if (row0 >= row1) continue;
        GemmBlockArgs args{};
        args.lda = in.ld;
        args.rows = row1 - row0;
        args.b = weights + (form.WeightAt(i) * form.Weights() + form.WeightAt(j)) * cut.cin * width;
        args.k_total = cut.cin;
        args.n_total = args.n1 = args.ldc = width;
        args.c = products + t * out.t_stride + (row0 - first - begin) * width;
        for (int64_t k0 = 0; k0 < cut.cin; k0 += k_step) {
          args.a = in.data + t * in.t_stride + (row0 - first) * in.ld + group * cut.cin + k0;
          args.k0 = k0;
          args.kc = std::min(k_step, cut.cin - k0);
          args.accumulate = k0 > 0;
          GemmBlock(args);
        }
      }
      Finish(s, form, out, first + begin, count, group * cut.cout + n, columns, y, prepared);
    }
  }
};

}  // namespace

template <WinogradForm kForm>
std::string_view ConvWinograd<kForm>::Refusal(const ConvShape& s) {
  if (s.groups > 1 && std::min(s.cin, s.cout) / s.groups < 16) return "groups of few channels";
  if (s.kernel[0] != 1 || s.in[0] != 1 || s.out[0] != 1) return "has three spatial dimensions";
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
size_t ConvWinograd<kForm>::PackedBytes(const ConvShape& s) {
  return FloatBytes(s.groups * GroupFloats(CutTiles(s, kForm), kForm));
}

template <WinogradForm kForm>
void ConvWinograd<kForm>::Pack(const ConvShape& s, const float* weights, float* packed,
                               const Parallel& par) {
  const Cut cut = CutTiles(s, kForm);
  const int64_t panel = GemmPanelWidth();
  par.For(s.groups * cut.panels, [&](int64_t i) {
    const int64_t group = i / cut.panels, n = i % cut.panels * panel;
    TransformsOf(kForm).weights(
        cut.cin, std::min(panel, cut.cout - n),
        weights + (group * cut.cout + n) * cut.cin * kForm.kernel * kForm.kernel,
        packed + group * GroupFloats(cut, kForm) + n * cut.cin * kForm.Weights() * kForm.Weights());
  });
}

template <WinogradForm kForm>
size_t ConvWinograd<kForm>::ScratchBytes(const ConvShape& s, int threads) {
  const Cut cut = CutTiles(s, kForm);
  const auto slots = static_cast<size_t>(ScratchSlots::CountFor(threads));
  return cut.in_bytes * (cut.blocks ? slots : 1) + cut.out_bytes * slots;
}

template <WinogradForm kForm>
void ConvWinograd<kForm>::Run(const ConvShape& s, const float* x, const float* packed, float* y,
                              const Epilogue& epilogue, void* scratch, const Parallel& par) {
  const Cut cut = CutTiles(s, kForm);
  const PreparedEpilogue prepared(epilogue);
  const Work work{s, kForm, WinogradTiles(s, kForm), cut, packed, y, prepared};
  const int64_t all = work.tiles.count(), panels = s.groups * cut.panels;
  auto* const bytes = static_cast<std::byte*>(scratch);
  if (cut.blocks) {
    ScratchSlots slots(bytes, cut.in_bytes + cut.out_bytes, ScratchSlots::CountFor(par.threads));
    par.For(cut.parts, [&](int64_t block) {
      const ScratchSlots::Lease lease(slots);
      const int64_t first = all * block / cut.parts, last = all * (block + 1) / cut.parts;
      const WinogradValues in{lease.floats(), cut.in_stride, cut.in_ld};
      float* const products = lease.floats() + cut.in_bytes / sizeof(float);
      TransformsOf(kForm).input(s, x, first, last - first, in);
      for (int64_t i = 0; i < panels; ++i) work.Multiply(in, first, last, i, products);
    });
    return;
  }
  const auto At = [&](int64_t tile) {
    return WinogradValues{static_cast<float*>(scratch) + tile * cut.in_ld, cut.in_stride,
                          cut.in_ld};
  };
  const double value_bytes = static_cast<double>(all * kForm.Positions() * s.cin) * 4;
  const int64_t in_parts = std::min(all, WantedTasks(0, 2 * value_bytes, 16));
  par.For(in_parts, [&](int64_t part) {
    const int64_t first = all * part / in_parts, last = all * (part + 1) / in_parts;
    TransformsOf(kForm).input(s, x, first, last - first, At(first));
  });
  ScratchSlots slots(bytes + cut.in_bytes, cut.out_bytes, ScratchSlots::CountFor(par.threads));
  par.For(panels * cut.parts, [&](int64_t task) {
    const ScratchSlots::Lease lease(slots);
    const int64_t part = task % cut.parts;
    const int64_t first = all * part / cut.parts, last = all * (part + 1) / cut.parts;
    if (first < last) work.Multiply(At(first), first, last, task / cut.parts, lease.floats());
  });
}

#define SARDONYX_INSTANCE(algorithm, name, m, stride, kernel) \
  template struct ConvWinograd<WinogradForm{m, stride, kernel}>;
SARDONYX_WINOGRAD_FORMS(SARDONYX_INSTANCE)
#undef SARDONYX_INSTANCE

}  // namespace sardonyx
