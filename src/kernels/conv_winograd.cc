// 3 x 3 convolution by Winograd's F(m x m, 3 x 3): the input under each tile of m x m output pixels
// is transformed to (m + 2)^2 values a channel, each of these positions is a matrix product over
// channels with transformed weights, and the products are transformed back. 4 or 2.25 times fewer
// multiplications than the direct sum.

#include <algorithm>

#include "kernels/conv_internal.h"
#include "kernels/gemm.h"
#include "kernels/scratch_slots.h"
#include "kernels/winograd_transform.h"

namespace sardonyx {

namespace {

// What a block of tiles may take of the second-level cache.
constexpr int64_t kBlockBytes = 768 << 10;

// Two ways through the three steps: block by block, each block's values staying in the cache while
// the weights stream by; or step by step over all tiles, which reads the weights once.
struct Cut {
  bool blocks = true;
  int64_t count = 1;  // blocks
  int64_t tiles = 0;  // of a block, at most
  int64_t in_ld = 0, out_ld = 0, in_stride = 0, out_stride = 0;

  size_t Bytes(int positions) const {
    return AlignBytes(FloatBytes(positions * (in_stride + out_stride)));
  }
};

// A stride at which consecutive rows do not fall into the same cache lines.
int64_t Spread(int64_t floats) { return CeilDiv(floats, 16) / 2 * 32 + 16; }

Cut CutTiles(const ConvShape& s, int m) {
  const int64_t positions = static_cast<int64_t>(m + 2) * (m + 2);
  const int64_t all = WinogradTiles(s, m).count;
  const int64_t tile = GemmTileRows();
  Cut cut;
  cut.in_ld = s.cin % 512 == 0 ? s.cin + 16 : s.cin;
  cut.out_ld = s.cout;
  const int64_t tile_bytes = positions * (s.cin + s.cout) * 4;
  const int64_t weight_bytes = positions * s.cin * s.cout * 4;
  const int64_t most = std::max(RoundUp(24, tile), kBlockBytes / tile_bytes / tile * tile);
  // An even number, so that two threads get the same share.
  cut.count = RoundUp(CeilDiv(all, most), 2);
  const int64_t value_bytes = all * tile_bytes;
  // Values beyond the last cache level's share cost more.
  const int64_t step_cost = weight_bytes + value_bytes * (value_bytes > (8 << 20) ? 6 : 2);
  cut.blocks = cut.count > 4 && cut.count * weight_bytes <= step_cost;
  cut.tiles = cut.blocks ? CeilDiv(all, cut.count) : all;
  if (!cut.blocks) cut.count = 1;
  cut.in_stride = Spread(cut.tiles * cut.in_ld);
  cut.out_stride = Spread(cut.tiles * cut.out_ld);
  return cut;
}

int64_t MatrixFloats(const ConvShape& s) {
  return static_cast<int64_t>(GemmPackedBytes(s.cin, s.cout) / sizeof(float));
}

// The product at position t for `rows` tiles and columns [n0, n1).
void Multiply(const ConvShape& s, const Cut& cut, int64_t t, int64_t rows, int64_t n0, int64_t n1,
              const float* packed, const WinogradValues& in, const WinogradValues& out) {
  GemmBlockArgs args{};
  args.lda = in.ld;
  args.rows = rows;
  args.b = packed + t * MatrixFloats(s);
  args.k_total = s.cin;
  args.n_total = s.cout;
  args.n0 = n0;
  args.n1 = n1;
  args.c = out.data + t * cut.out_stride;
  args.ldc = out.ld;
  const int64_t step = s.cin <= 640 ? s.cin : CeilDiv(s.cin, CeilDiv(s.cin, 448));
  for (int64_t k0 = 0; k0 < s.cin; k0 += step) {
    args.a = in.data + t * cut.in_stride + k0;
    args.k0 = k0;
    args.kc = std::min(step, s.cin - k0);
    args.accumulate = k0 > 0;
    GemmBlock(args);
  }
}

// Transforms back and finishes tiles first ... first + count - 1.
template <int kM>
void Finish(const ConvShape& s, const WinogradValues& out, int64_t first, int64_t count, float* y,
            const PreparedEpilogue& prepared) {
  if (prepared.InRegisters()) {
    WinogradOutput<kM>(s, out, first, count, y, prepared.Tile(0, 0));
    return;
  }
  WinogradOutput<kM>(s, out, first, count, y, TileEpilogue());
  // Runs of tiles within one row of tiles: their output lines are contiguous.
  const WinogradTiles tiles(s, kM);
  for (int64_t i = first; i < first + count;) {
    const int64_t line = i / tiles.columns, column = i % tiles.columns;
    const int64_t run = std::min(first + count - i, tiles.columns - column);
    const int64_t w = column * kM, pixels = std::min(run * kM, s.out[2] - w);
    const int64_t h0 = line % tiles.rows * kM, h1 = std::min(h0 + kM, s.out[1]);
    for (int64_t h = h0; h < h1; ++h) {
      const int64_t pixel = (line / tiles.rows * s.out[1] + h) * s.out[2] + w;
      prepared.Apply(y + pixel * s.y_stride, s.y_stride, pixel, pixels, 0, s.cout);
    }
    i += run;
  }
}

}  // namespace

template <int kM>
std::string_view ConvWinograd<kM>::Refusal(const ConvShape& s) {
  if (s.groups != 1) return "has groups";
  if (s.kernel[0] != 1 || s.in[0] != 1 || s.out[0] != 1) return "has three spatial dimensions";
  if (s.kernel[1] != 3 || s.kernel[2] != 3) return "kernel is not 3 x 3";
  if (s.stride[1] != 1 || s.stride[2] != 1) return "stride is not 1";
  if (s.dilation[1] != 1 || s.dilation[2] != 1) return "dilation is not 1";
  return {};
}

template <int kM>
size_t ConvWinograd<kM>::PackedBytes(const ConvShape& s) {
  return (kM + 2) * (kM + 2) * GemmPackedBytes(s.cin, s.cout);
}

template <int kM>
void ConvWinograd<kM>::Pack(const ConvShape& s, const float* weights, float* packed,
                            const Parallel& par) {
  const int64_t panel = GemmPanelWidth();
  par.For(CeilDiv(s.cout, panel),
          [&](int64_t i) { WinogradWeights<kM>(s, weights, i * panel, packed, MatrixFloats(s)); });
}

template <int kM>
size_t ConvWinograd<kM>::ScratchBytes(const ConvShape& s, int threads) {
  const Cut cut = CutTiles(s, kM);
  const size_t bytes = cut.Bytes((kM + 2) * (kM + 2));
  return cut.blocks ? bytes * static_cast<size_t>(ScratchSlots::CountFor(threads)) : bytes;
}

template <int kM>
void ConvWinograd<kM>::Run(const ConvShape& s, const float* x, const float* packed, float* y,
                           const Epilogue& epilogue, void* scratch, const Parallel& par) {
  constexpr int kPositions = (kM + 2) * (kM + 2);
  const Cut cut = CutTiles(s, kM);
  const PreparedEpilogue prepared(epilogue);
  const int64_t all = WinogradTiles(s, kM).count;
  if (cut.blocks) {
    ScratchSlots slots(scratch, cut.Bytes(kPositions), ScratchSlots::CountFor(par.threads));
    par.For(cut.count, [&](int64_t block) {
      const ScratchSlots::Lease lease(slots);
      const int64_t first = all * block / cut.count;
      const int64_t count = all * (block + 1) / cut.count - first;
      const WinogradValues in{lease.floats(), cut.in_stride, cut.in_ld};
      const WinogradValues out{lease.floats() + kPositions * cut.in_stride, cut.out_stride,
                               cut.out_ld};
      WinogradInput<kM>(s, x, first, count, in);
      for (int64_t t = 0; t < kPositions; ++t) {
        Multiply(s, cut, t, count, 0, s.cout, packed, in, out);
      }
      Finish<kM>(s, out, first, count, y, prepared);
    });
    return;
  }
  auto* const base = static_cast<float*>(scratch);
  const WinogradValues in{base, cut.in_stride, cut.in_ld};
  const WinogradValues out{base + kPositions * cut.in_stride, cut.out_stride, cut.out_ld};
  const double values = static_cast<double>(all * kPositions) * 4;
  const int64_t in_parts =
      std::min(all, WantedTasks(0, 2 * values * static_cast<double>(s.cin), 16));
  par.For(in_parts, [&](int64_t part) {
    const int64_t first = all * part / in_parts, last = all * (part + 1) / in_parts;
    WinogradInput<kM>(s, x, first, last - first, {in.data + first * in.ld, in.t_stride, in.ld});
  });
  const double flops = 2.0 * static_cast<double>(all * kPositions * s.cin * s.cout);
  const double bytes = 4.0 * static_cast<double>(kPositions * s.cin * s.cout);
  const int64_t tasks = WantedTasks(flops, bytes) == 1 ? 1 : kPositions;
  par.For(tasks, [&](int64_t task) {
    for (int64_t t = kPositions * task / tasks; t < kPositions * (task + 1) / tasks; ++t) {
      Multiply(s, cut, t, all, 0, s.cout, packed, in, out);
    }
  });
  const int64_t out_parts =
      std::min(all, WantedTasks(0, 2 * values * static_cast<double>(s.cout), 16));
  par.For(out_parts, [&](int64_t part) {
    const int64_t first = all * part / out_parts, last = all * (part + 1) / out_parts;
    Finish<kM>(s, {out.data + first * out.ld, out.t_stride, out.ld}, first, last - first, y,
               prepared);
  });
}

template struct ConvWinograd<4>;
template struct ConvWinograd<2>;

}  // namespace sardonyx
