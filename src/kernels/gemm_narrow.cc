#include "kernels/gemm_narrow.h"

#include <algorithm>
#include <cstring>

#include "kernels/gemm_amx.h"
#include "kernels/gemm_amx_cut.h"
#include "kernels/gemm_block.h"
#include "kernels/gemm_epilogue.h"
#include "kernels/narrow_panel.h"
#include "kernels/scratch_slots.h"

namespace sardonyx {
namespace {

constexpr int64_t kBlockABytes = 192 << 10;  // of A inside a task: leaves room in most caches

int64_t Align(int64_t bytes) { return RoundUp(bytes, 64); }

// Rows of K with those that fill up the last block.
int64_t PaddedRows(const NarrowMatrix& b) { return b.block == 0 ? b.k : RoundUp(b.k, b.block); }
int64_t WidthAt(const NarrowMatrix& b, int64_t n) {
  return RoundUp(std::min(GemmPanelWidth(), b.n - n), kPanelGranule);
}
// Of the panel that begins at column n, a multiple of the panel width.
int64_t PanelOffset(const NarrowMatrix& b, int64_t n) { return PanelBytes(b, b.k, n); }

// Of few rows, or rounded ones, that pass a panel together: rounded ones, of a byte each, while all
// panels pass stay in the second-level cache.
int64_t RowsAtOnce(const NarrowMatrix& b, int64_t m) {
  if (!b.rounds_a) return std::min(m, kNarrowRows);
  constexpr int64_t kLeast = 64, kCodeBytes = 1 << 20;
  return std::min(m, std::max(kLeast, kCodeBytes / PaddedRows(b) / kLeast * kLeast));
}

// How much of K is widened at a time for m rows: a panel that stays in the first-level cache, or
// more than that where many rows pass it and each would add to C more often.
int64_t WidenedDepth(int64_t m) {
  const int64_t bytes = m <= 2 * GemmTileRows() ? 16 << 10 : 32 << 10;
  return bytes / (4 * GemmPanelWidth());
}

// How a product is cut; depends on shape and SIMD target, never on threads, but for the parts of
// one by tiles, in any of which a row is summed alike.
struct Cut {
  bool few = false;    // rows, or rounded ones: no panel is widened
  bool tiles = false;  // by matrix tiles (gemm_amx.h)
  int64_t kc = 0, rows = 0, a_ld = 0;
  int64_t row_parts = 1, column_parts = 1;
  int64_t panels = 0;
  int64_t a_floats = 0;                      // of a copy of A
  int64_t shared_bytes = 0, slot_bytes = 0;  // of scratch: of all tasks, of each
  int64_t thirds_bytes = 0;                  // of the latter, for tiles
};

Cut CutNarrow(const NarrowMatrix& b, int64_t m, int64_t lda, int threads) {
  Cut cut;
  const int64_t panel = GemmPanelWidth(), tile = GemmTileRows();
  cut.panels = CeilDiv(b.n, panel);
  cut.few = m <= kNarrowRows || b.rounds_a;
  // Estimated microseconds at 100 GFLOP/s and 20 GB/s.
  const double elements = static_cast<double>(b.n) * static_cast<double>(b.k);
  const double us =
      2e-5 * elements * static_cast<double>(m) + elements * BitWidth(b.type) / 8 * 5e-5;
  const int64_t wanted = us < 20 ? 1 : std::min<int64_t>(24, static_cast<int64_t>(us / 8));
  if (cut.few) {
    cut.column_parts = std::min(cut.panels, wanted);
    cut.a_ld = PaddedRows(b);
    // Rows a page apart fall into the same few lines of the cache.
    if (m > kNarrowRows && cut.a_ld % 256 == 0) cut.a_ld += 16;
    cut.a_floats = m * cut.a_ld;
    cut.shared_bytes = Align((cut.a_floats + 2 * m * Blocks(b)) * 4);
    cut.slot_bytes = Align(RowsAtOnce(b, m) * panel * 4);
    return cut;
  }
  cut.tiles = GemmAmxPays(m, b.n, b.k);
  cut.kc = cut.tiles ? GemmAmxDepth(m, b.k) : std::min(GemmDepth(b.k), WidenedDepth(m));
  if (b.block != 0) cut.kc = RoundUp(cut.kc, b.block);
  if (cut.tiles) {
    // Blocks of rows, for each of which a panel is widened; each part splits the rows of its block.
    const GemmAmxBlocks blocks(m);
    cut.rows = blocks.rows;
    cut.row_parts = 1 + std::max<int64_t>(0, CeilDiv(m - blocks.most_rows, cut.rows));
    const GemmAmxParts parts(1, b.n, b.k, CeilDiv(std::max(threads, 1), cut.row_parts));
    cut.column_parts = parts.column_parts;
    cut.thirds_bytes = static_cast<int64_t>(GemmAmxBytes(blocks.most_rows, cut.kc));
    cut.slot_bytes = cut.thirds_bytes + Align(RoundUp(cut.kc, 16) * panel * 4);
    return cut;
  }
  cut.rows = std::max(tile, kBlockABytes / (cut.kc * 4) / tile * tile);
  cut.row_parts = CeilDiv(m, cut.rows);
  cut.rows = RoundUp(CeilDiv(m, cut.row_parts), tile);
  cut.row_parts = CeilDiv(m, cut.rows);
  cut.column_parts = std::min(cut.panels, std::max<int64_t>(1, wanted / cut.row_parts));
  cut.slot_bytes = Align(RoundUp(cut.kc, 16) * panel * 4);
  // As above.
  if (lda % 1024 == 0) {
    cut.a_ld = RoundUp(b.k, 16) + 16;
    cut.a_floats = m * cut.a_ld;
    cut.shared_bytes = Align(cut.a_floats * 4);
  }
  return cut;
}

struct Context {
  const NarrowMatrix& b;
  const std::byte* packed;
  int64_t m;
  const float* a;
  int64_t lda;
  float* c;
  int64_t ldc;
  const PreparedEpilogue& epilogue;
  const Cut& cut;
};

void CopyRows(const Context& x, float* to, const Parallel& par) {
  par.For(CeilDiv(x.m, x.cut.rows), [&](int64_t part) {
    for (int64_t i = part * x.cut.rows; i < std::min(x.m, (part + 1) * x.cut.rows); ++i) {
      std::copy_n(x.a + i * x.lda, x.b.k, to + i * x.cut.a_ld);
    }
  });
}

// Sums of a row over blocks.
void SumBlocks(const NarrowMatrix& b, const float* row, float* sums) {
  for (int64_t j = 0; j < Blocks(b); ++j) {
    constexpr int64_t kLanes = 8;
    float lanes[kLanes] = {};
    for (int64_t k = 0; k < b.block; ++k) lanes[k % kLanes] += row[j * b.block + k];
    double sum = 0;
    for (const float lane : lanes) sum += static_cast<double>(lane);
    sums[j] = static_cast<float>(sum);
  }
}

// Rows of A with zeros behind, rounded or not, then their sums over blocks, then scales.
void CopyFew(const Context& x, float* to, const Parallel& par) {
  const int64_t blocks = Blocks(x.b);
  par.For(CeilDiv(x.m, kNarrowRows), [&](int64_t part) {
    for (int64_t i = part * kNarrowRows; i < std::min(x.m, (part + 1) * kNarrowRows); ++i) {
      float* row = to + i * x.cut.a_ld;
      float* sums = to + x.cut.a_floats + i * blocks;
      std::copy_n(x.a + i * x.lda, x.b.k, row);
      std::fill(row + x.b.k, row + x.cut.a_ld, 0.0f);
      if (x.b.rounds_a) {
        RoundRow(x.b, row, sums + x.m * blocks, sums);
      } else {
        SumBlocks(x.b, row, sums);
      }
    }
  });
}

// c[0:m, 0:width], rows from `row` on, at most RowsAtOnce, times a panel.
void MultiplyFew(const Context& x, const float* rows, int64_t row, int64_t m, int64_t n,
                 int64_t width, float* c, int64_t ldc) {
  const Cut& cut = x.cut;
  const float* a = rows + row * cut.a_ld;
  const float* sums = rows + cut.a_floats + row * Blocks(x.b);
  const std::byte* panel = x.packed + PanelOffset(x.b, n);
  if (x.b.rounds_a) {
    const RoundedRows rounded{a, cut.a_ld, sums + x.m * Blocks(x.b), sums};
    MultiplyRounded(x.b, panel, width, m, rounded, c, ldc);
  } else {
    MultiplyPanel(x.b, panel, width, m, a, cut.a_ld, sums, c, ldc);
  }
}

void RunFew(const Context& x, int64_t part, const float* rows, float* tile) {
  const NarrowMatrix& b = x.b;
  const Cut& cut = x.cut;
  const int64_t panel = GemmPanelWidth();
  const int64_t begin = cut.panels * part / cut.column_parts * panel;
  const int64_t end = std::min(b.n, cut.panels * (part + 1) / cut.column_parts * panel);
  const int64_t most = RowsAtOnce(b, x.m);
  for (int64_t row = 0; row < x.m; row += most) {
    const int64_t m = std::min(most, x.m - row);
    for (int64_t n = begin; n < end; n += panel) {
      const int64_t width = WidthAt(b, n), columns = std::min(panel, b.n - n);
      const bool whole = columns == width;
      float* c = x.c + row * x.ldc + n;
      MultiplyFew(x, rows, row, m, n, width, whole ? c : tile, whole ? x.ldc : panel);
      if (whole) continue;
      for (int64_t i = 0; i < m; ++i) std::copy_n(tile + i * panel, columns, c + i * x.ldc);
    }
  }
  x.epilogue.Apply(x.c + begin, x.ldc, 0, x.m, begin, end - begin);
}

// Fetches what is widened after a panel's range of `kc` from k0 on: the same range of the panel
// at n, or of panel `begin` the range behind. It comes from memory while this one is multiplied.
void FetchNext(const Context& x, int64_t begin, int64_t n, int64_t end, int64_t k0, int64_t kc) {
  const NarrowMatrix& b = x.b;
  if (n >= end) {
    n = begin;
    k0 += kc;
  }
  if (k0 >= b.k) return;
  const int64_t width = WidthAt(b, n);
  const std::byte* next = x.packed + PanelOffset(b, n) + PanelBytes(b, k0, width);
  const int64_t bytes = PanelBytes(b, std::min(x.cut.kc, b.k - k0), width);
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(next + i, 0, 2);
}

void RunBlock(const Context& x, int64_t row_part, int64_t part, const float* a, int64_t lda,
              float* slot) {
  const NarrowMatrix& b = x.b;
  const Cut& cut = x.cut;
  const int64_t panel = GemmPanelWidth();
  const int64_t begin = cut.panels * part / cut.column_parts * panel;
  const int64_t end = std::min(b.n, cut.panels * (part + 1) / cut.column_parts * panel);
  const int64_t row = row_part * cut.rows;
  GemmBlockArgs args{};
  args.rows = row_part + 1 == cut.row_parts ? x.m - row : cut.rows;
  args.ldc = x.ldc;
  if (cut.tiles) {
    args.thirds = slot;
    slot += static_cast<size_t>(cut.thirds_bytes) / sizeof(float);
  }
  args.b = args.next = slot;  // behind it is another thread's
  args.lda = lda;
  for (int64_t k0 = 0; k0 < b.k; k0 += cut.kc) {
    args.kc = args.k_total = std::min(cut.kc, b.k - k0);
    args.accumulate = k0 > 0;
    args.a = a + row * lda + k0;
    for (int64_t n = begin; n < end; n += panel) {
      WidenPanel(b, x.packed + PanelOffset(b, n), WidthAt(b, n), k0, args.kc, slot);
      if (!cut.tiles) FetchNext(x, begin, n + panel, end, k0, args.kc);
      args.n_total = args.n1 = std::min(panel, b.n - n);
      args.c = x.c + row * x.ldc + n;
      const TileEpilogue tile = x.epilogue.Tile(row, n);
      const bool last = k0 + args.kc == b.k;
      args.epilogue = last && x.epilogue.InRegisters() ? &tile : nullptr;
      args.has_thirds = n > begin;
      GemmBlock(args);
    }
  }
  if (!x.epilogue.InRegisters()) {
    x.epilogue.Apply(x.c + row * x.ldc + begin, x.ldc, row, args.rows, begin, end - begin);
  }
}

// Runs body(first column, width, columns, place) for each panel.
template <typename Body>
void ForPanels(const NarrowMatrix& b, void* packed, const Parallel& par, const Body& body) {
  const int64_t panel = GemmPanelWidth();
  par.For(CeilDiv(b.n, panel), [&](int64_t index) {
    const int64_t n = index * panel;
    body(n, WidthAt(b, n), std::min(panel, b.n - n),
         static_cast<std::byte*>(packed) + PanelOffset(b, n));
  });
}

}  // namespace

size_t NarrowPackedBytes(const NarrowMatrix& b) {
  return static_cast<size_t>(Align(PanelBytes(b, b.k, RoundUp(b.n, kPanelGranule))));
}

void PackNarrowHalves(const NarrowMatrix& b, const uint16_t* halves, int64_t ldb, bool transposed,
                      void* packed, const Parallel& par) {
  ForPanels(b, packed, par, [&](int64_t n, int64_t width, int64_t columns, std::byte* place) {
    auto* to = reinterpret_cast<uint16_t*>(place);
    for (int64_t k = 0; k < b.k; ++k, to += width) {
      const uint16_t* from = halves + (transposed ? n * ldb + k : k * ldb + n);
      const int64_t step = transposed ? ldb : 1;
      for (int64_t j = 0; j < columns; ++j) to[j] = from[j * step];
      std::fill(to + columns, to + width, uint16_t{0});
    }
  });
}

void PackNarrowBlocks(const NarrowMatrix& b, const uint8_t* codes, const float* scales,
                      const float* zeros, void* packed, const Parallel& par) {
  const int bits = BitWidth(b.type);
  const int64_t blocks = Blocks(b), bytes = b.block * bits / 8, words = b.block / RowsPerWord(b);
  const float first = static_cast<float>(1 << bits);
  ForPanels(b, packed, par, [&](int64_t n, int64_t width, int64_t columns, std::byte* place) {
    auto* to = reinterpret_cast<float*>(place);
    std::fill_n(to, blocks * width * (2 + words), 0.0f);
    for (int64_t i = 0; i < blocks; ++i, to += width * (2 + words)) {
      for (int64_t j = 0; j < columns; ++j) {
        const int64_t at = (n + j) * blocks + i;
        to[j] = scales[at];
        to[width + j] = b.has_values ? 0.0f : scales[at] * (first + zeros[at]);
        for (int64_t w = 0; w < words; ++w) {
          // Codes go from the low bits up, in a word as in a byte.
          std::memcpy(to + (2 + w) * width + j, codes + at * bytes + w * 4, 4);
        }
      }
    }
  });
}

size_t GemmNarrowScratchBytes(const NarrowMatrix& b, int64_t m, int64_t lda, int threads) {
  const Cut cut = CutNarrow(b, m, lda, threads);
  return static_cast<size_t>(cut.shared_bytes + cut.slot_bytes * ScratchSlots::CountFor(threads));
}

void GemmNarrow(const NarrowMatrix& b, const void* packed, int64_t m, const float* a, int64_t lda,
                float* c, int64_t ldc, const Epilogue& epilogue, void* scratch,
                const Parallel& par) {
  const Cut cut = CutNarrow(b, m, lda, par.threads);
  using Tiles = PreparedEpilogue::Tiles;
  const PreparedEpilogue prepared(epilogue, cut.few ? Tiles::kNone : Tiles::kProduct);
  auto* const shared = static_cast<float*>(scratch);
  ScratchSlots slots(static_cast<std::byte*>(scratch) + cut.shared_bytes,
                     static_cast<size_t>(cut.slot_bytes), ScratchSlots::CountFor(par.threads));
  const Context x{b, static_cast<const std::byte*>(packed), m, a, lda, c, ldc, prepared, cut};
  const bool is_copied = cut.a_floats > 0;
  if (cut.few) {
    CopyFew(x, shared, par);
  } else if (is_copied) {
    CopyRows(x, shared, par);
  }
  par.For(cut.row_parts * cut.column_parts, [&](int64_t task) {
    const ScratchSlots::Lease lease(slots);
    if (cut.few) {
      RunFew(x, task, shared, lease.floats());
    } else {
      RunBlock(x, task % cut.row_parts, task / cut.row_parts, is_copied ? shared : a,
               is_copied ? cut.a_ld : lda, lease.floats());
    }
  });
}

}  // namespace sardonyx
