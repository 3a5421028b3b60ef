#include "kernels/gemm.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/round.h"
#include "kernels/gemm_amx.h"
#include "kernels/gemm_amx_cut.h"
#include "kernels/gemm_block.h"
#include "kernels/gemm_epilogue.h"
#include "kernels/gemv.h"
#include "kernels/scratch_slots.h"
#include "kernels/slices.h"
#include "kernels/subnormals.h"
#include "kernels/targets.h"

namespace sardonyx {

namespace {

// Sizes in bytes that leave room for the other operands: most second-level caches have 512 KiB or
// more.
constexpr int64_t kBlockABytes = 192 << 10;
constexpr int64_t kChunkBBytes = 256 << 10;
constexpr int64_t kBlockCBytes = 128 << 10;
// Tiles that a thread has at least where it has rows of its own, and threads that may have such.
constexpr int64_t kOwnTiles = 3;
constexpr int64_t kMostOwners = 8;

// How a product is cut. Depends on the shape and on the SIMD target, never on the threads, but for
// the parts of one by tiles, whose rows and columns are each summed alike in any part.
struct Cut {
  bool gemv = false;   // few rows, B as it is
  bool tiles = false;  // by matrix tiles (gemm_amx.h)
  int64_t items = 1;   // of the batch
  int64_t items_per_task = 1;
  int64_t row_parts = 1;  // tasks an item: row_parts x column_parts
  int64_t row_unit = 1;   // parts end at whole ones
  int64_t column_parts = 1;
  int64_t owners = 1;       // threads that may have some of the row parts for themselves, 2^n
  int64_t column_step = 0;  // columns of a part, a multiple of the panel width
  int64_t kc = 0;           // range of K at a time
  bool streams = false;     // one panel a part, its ranges of K in a row
  int64_t rows = 0;         // rows of a block inside a task,
  int64_t most_rows = 0;    // or, of the last one, at most
  enum class CopyA { kNo, kAhead, kInTask } copy_a = CopyA::kNo;
  int64_t a_ld = 0;  // leading dimension of the copy
  enum class PackB { kNo, kAhead, kInTask } pack_b = PackB::kNo;
  int64_t b_items = 1;  // distinct matrices B that are packed ahead
  // Parts of K, k_step each: 1, or 2, of which the second sums into scratch, rows sums_ld apart.
  int64_t k_parts = 1, k_step = 0, sums_ld = 0;
  size_t a_bytes = 0, b_bytes = 0, sums_bytes = 0;
  size_t slot_bytes = 0, thirds_bytes = 0;  // of scratch of a task; the last of these for tiles

  int64_t Tasks() const {
    return CeilDiv(items, items_per_task) * k_parts * row_parts * column_parts;
  }
};

void CutGemv(const GemmShape& s, int64_t parts, Cut* cut) {
  // Memory gives long pieces of B's rows faster than short ones.
  const int64_t least = s.b_transposed ? 64 : std::clamp<int64_t>(RoundUp(s.n / 2, 64), 64, 512);
  cut->column_step = RoundUp(CeilDiv(s.n, std::min(parts, CeilDiv(s.n, least))), 64);
  cut->column_parts = CeilDiv(s.n, cut->column_step);
  if (!s.a_transposed) return;
  cut->copy_a = Cut::CopyA::kInTask;
  cut->a_ld = s.k;
  cut->slot_bytes = static_cast<size_t>(s.m * s.k) * 4;
}

// Rows are cut first if B fits into the cache, for then each task reads its A alone; else columns,
// and rows into as many parts as several threads may have for themselves: what a thread writes in
// one step it then reads in the next.
void CutRowsAndColumns(const GemmShape& s, int64_t parts, bool packed, Cut* cut) {
  const int64_t panel = GemmPanelWidth(), tile = GemmTileRows();
  const int64_t panels = CeilDiv(s.n, panel);
  const int64_t k_bytes = std::max<int64_t>(cut->kc, 1) * 4;
  const int64_t fitting = std::max<int64_t>(2, kChunkBBytes / (k_bytes * panel));
  int64_t step = panels;  // panels of a part
  if (panels > fitting) step = CeilDiv(panels, CeilDiv(panels, fitting));
  // Few rows take about as long as their weights to come: these are then read as they lie, which
  // processors see and fetch ahead (Emerald Rapids, GFLOP/s: of 32 rows, 1024 x 1024: 148 to 163,
  // 4096 x 1024: 97 to 138; of 49, 3072 x 768: 130 to 150).
  const int64_t most_rows = kBlockABytes / (std::max<int64_t>(cut->kc, 16) * 4);
  cut->streams = packed && panels > 1 && cut->kc < s.k && s.m <= most_rows &&
                 s.m * s.k * 4 <= SecondLevelCacheBytes() / 8 * 5;
  if (cut->streams) step = 1;
  cut->column_parts = CeilDiv(panels, step);
  cut->row_parts = std::clamp<int64_t>(parts / cut->column_parts, 1, CeilDiv(s.m, tile));
  if (cut->row_parts * cut->column_parts < parts) {
    step = CeilDiv(panels, std::min(panels, CeilDiv(parts, cut->row_parts)));
    cut->column_parts = CeilDiv(panels, step);
  }
  if (cut->column_parts > 1 && CeilDiv(s.m, tile) >= 2 * kOwnTiles) {
    const int64_t most = std::min(kMostOwners, CeilDiv(s.m, tile) / kOwnTiles);
    cut->row_parts = cut->owners = std::bit_floor(static_cast<uint64_t>(most));
    step = std::min(step, CeilDiv(panels, std::clamp<int64_t>(parts / cut->owners, 1, panels)));
    cut->column_parts = CeilDiv(panels, step);
  }
  cut->column_step = step * panel;
  cut->row_unit = tile;

  const int64_t block = kBlockABytes / (std::max<int64_t>(cut->kc, 16) * 4);
  const int64_t c_rows = kBlockCBytes / (cut->column_step * 4);
  const int64_t rows = std::max(tile, std::min(block, c_rows) / tile * tile);
  // Blocks of about that size that leave no thin one.
  const int64_t blocks = std::max<int64_t>(1, (s.m + rows / 2) / rows);
  cut->rows = cut->most_rows = RoundUp(CeilDiv(s.m, blocks), tile);
}

// Each thread has a part, or two where these are large (gemm_amx_cut.h).
void CutForTiles(const GemmShape& s, int threads, Cut* cut) {
  if (cut->items == 1 && GemmAmxHalvesK(s.m, s.n, s.k)) {
    cut->k_parts = 2;
    cut->k_step = GemmAmxHalf(s.k);
    cut->sums_ld = RoundUp(s.n, 16) + 16;
    cut->sums_bytes = AlignBytes(static_cast<size_t>(s.m * cut->sums_ld) * 4);
  }
  cut->kc = GemmAmxDepth(s.m, cut->k_step);
  const int64_t parts = CeilDiv(std::max(threads, 1), cut->items * cut->k_parts);
  const GemmAmxParts tiles(s.m, s.n, cut->k_step, parts, 0, /*keeps_thirds=*/true);
  cut->row_unit = tiles.row_unit;
  cut->row_parts = tiles.row_parts;
  cut->column_parts = tiles.column_parts;
  cut->owners = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(cut->row_parts)));
  cut->column_step = tiles.column_step;
  const GemmAmxBlocks blocks(s.m);
  cut->rows = blocks.rows;
  cut->most_rows = blocks.most_rows;
  cut->thirds_bytes = GemmAmxBytes(cut->most_rows, cut->kc);
}

// Where A is copied and B packed: ahead of all tasks if several of them read it, or may, with more
// threads.
void PlaceCopies(const GemmShape& s, bool packed, Cut* cut) {
  if (cut->tiles) {
    if (s.a_transposed) {
      cut->a_ld = RoundUp(s.k, 16) + 16;
      cut->copy_a = Cut::CopyA::kAhead;
      cut->a_bytes = static_cast<size_t>(cut->items * s.m * cut->a_ld) * 4;
    }
  } else if (s.a_transposed) {
    cut->a_ld = RoundUp(s.k, 16) + 16;
    if (cut->column_parts > 1) {
      cut->copy_a = Cut::CopyA::kAhead;
      cut->a_bytes = static_cast<size_t>(cut->items * s.m * cut->a_ld) * 4;
    } else {
      cut->copy_a = Cut::CopyA::kInTask;
      cut->a_ld = RoundUp(cut->kc, 16) + 16;
      cut->slot_bytes = static_cast<size_t>(cut->rows * cut->a_ld) * 4;
    }
  }
  if (packed) return;
  const bool shared = s.b_stride[0] == 0 && s.b_stride[1] == 0;
  if (!shared && (cut->row_parts == 1 || cut->tiles)) {
    cut->pack_b = Cut::PackB::kInTask;
    const int64_t most_columns = cut->tiles ? s.n : std::min(s.n, cut->column_step);
    cut->slot_bytes += static_cast<size_t>(RoundUp(most_columns, kPanelGranule) * s.k) * 4;
  } else {
    cut->pack_b = Cut::PackB::kAhead;
    cut->b_items = shared ? 1 : cut->items;
    cut->b_bytes = static_cast<size_t>(cut->b_items) * GemmPackedBytes(s.k, s.n);
  }
}

Cut CutGemm(const GemmShape& s, bool packed, int threads) {
  Cut cut;
  cut.items = s.batch[0] * s.batch[1];
  cut.gemv = !packed && s.m <= kGemvRows;
  cut.tiles = GemmAmxPays(s.m, s.n, s.k);
  cut.k_step = s.k;

  // Estimated microseconds at 100 GFLOP/s and 20 GB/s of B.
  const double item_us =
      2e-5 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k) +
      (packed || cut.gemv ? 2e-4 : 4e-4) * static_cast<double>(s.n) * static_cast<double>(s.k);
  const int64_t wanted = TaskCount(item_us * static_cast<double>(cut.items), MostTasks(24));
  const int64_t parts = std::max<int64_t>(1, wanted / cut.items);
  cut.items_per_task = std::max<int64_t>(1, cut.items / wanted);

  cut.kc = s.m <= GemmTileRows() ? s.k : GemmDepth(s.k);
  if (cut.gemv) {
    CutGemv(s, parts, &cut);
  } else {
    if (cut.tiles) {
      CutForTiles(s, threads, &cut);
    } else {
      CutRowsAndColumns(s, parts, packed, &cut);
    }
    PlaceCopies(s, packed, &cut);
  }
  cut.a_bytes = AlignBytes(cut.a_bytes);
  cut.slot_bytes = AlignBytes(cut.slot_bytes) + cut.thirds_bytes;
  return cut;
}

// Everything a task needs; one a call.
struct Context {
  const GemmShape& shape;
  const Cut& cut;
  const float* a;
  const float* b;
  const float* packed_b;
  float* c;
  const PreparedEpilogue& epilogue;
  float* a_copy;  // kAhead
  float* b_copy;  // kAhead
  float* sums;    // of the second part of K
  ScratchSlots* slots;
};

void CopyBlock(const GemmShape& s, const float* a, int64_t row, int64_t rows, int64_t k0,
               int64_t kc, float* to, int64_t ldto) {
  if (s.a_transposed) {
    TransposeCopy(a + k0 * s.lda + row, s.lda, rows, kc, to, ldto);
    return;
  }
  for (int64_t r = 0; r < rows; ++r) {
    std::memcpy(to + r * ldto, a + (row + r) * s.lda + k0, static_cast<size_t>(kc) * 4);
  }
}

void RunGemvPart(const Context& x, int64_t item, int64_t column, float* slot) {
  const GemmShape& s = x.shape;
  const int64_t p = item / s.batch[1], q = item % s.batch[1];
  const float* a = x.a + p * s.a_stride[0] + q * s.a_stride[1];
  int64_t lda = s.lda;
  if (x.cut.copy_a == Cut::CopyA::kInTask) {
    CopyBlock(s, a, 0, s.m, 0, s.k, slot, x.cut.a_ld);
    a = slot;
    lda = x.cut.a_ld;
  }
  const float* b = x.b + p * s.b_stride[0] + q * s.b_stride[1];
  float* c = x.c + p * s.c_stride[0] + q * s.c_stride[1];
  const int64_t n0 = column * x.cut.column_step, n1 = std::min(s.n, n0 + x.cut.column_step);
  GemvBlock(s.m, n0, n1, s.k, a, lda, b, s.ldb, s.b_transposed, c, s.ldc);
  x.epilogue.Apply(c + n0, s.ldc, 0, s.m, n0, n1 - n0, p, q);
}

// One item, part `k_part` of K, rows of part `row_part`, columns of part `column_part`. `holds`:
// the rows whose thirds lie in the slot, which other parts of their columns need as well; 0: none.
void RunPart(const Context& x, int64_t item, int64_t k_part, int64_t row_part, int64_t column_part,
             float* slot, int64_t& holds) {
  const GemmShape& s = x.shape;
  const Cut& cut = x.cut;
  const int64_t p = item / s.batch[1], q = item % s.batch[1];
  const int64_t n0 = column_part * cut.column_step, n1 = std::min(s.n, n0 + cut.column_step);
  const int64_t units = CeilDiv(s.m, cut.row_unit);
  const int64_t m0 = units * row_part / cut.row_parts * cut.row_unit;
  const int64_t m1 = std::min(s.m, units * (row_part + 1) / cut.row_parts * cut.row_unit);

  const float* a = x.a + p * s.a_stride[0] + q * s.a_stride[1];
  int64_t lda = s.lda;
  if (cut.copy_a == Cut::CopyA::kAhead) {
    a = x.a_copy + item * s.m * cut.a_ld;
    lda = cut.a_ld;
  }
  float* c = x.c + p * s.c_stride[0] + q * s.c_stride[1];
  int64_t ldc = s.ldc;
  if (k_part > 0) {
    c = x.sums;
    ldc = cut.sums_ld;
  }
  const int64_t k_begin = k_part * cut.k_step, k_end = std::min(s.k, k_begin + cut.k_step);
  const bool finishes = cut.k_parts == 1;

  GemmBlockArgs args{};
  args.k_total = s.k;
  args.n_total = n1 - n0;
  args.is_all = s.n <= GemmPanelWidth();
  args.n0 = 0;
  args.n1 = n1 - n0;
  args.ldc = ldc;
  if (cut.tiles) {
    args.thirds = slot;
    slot += cut.thirds_bytes / sizeof(float);
    const int64_t of_rows = 1 + (item * cut.k_parts + k_part) * cut.row_parts + row_part;
    const bool at_once = m1 - m0 <= cut.most_rows && k_end - k_begin <= cut.kc;
    args.has_thirds = at_once && holds == of_rows;
    holds = at_once ? of_rows : 0;
  }
  switch (cut.pack_b) {
    case Cut::PackB::kNo:
      args.b = x.packed_b + p * s.b_stride[0] + q * s.b_stride[1] + n0 * s.k;
      break;
    case Cut::PackB::kAhead:
      args.b = x.b_copy + n0 * s.k +
               (cut.b_items == 1
                    ? 0
                    : item * static_cast<int64_t>(GemmPackedBytes(s.k, s.n) / sizeof(float)));
      break;
    case Cut::PackB::kInTask: {
      const float* b = x.b + p * s.b_stride[0] + q * s.b_stride[1];
      PackPanels(s.k, n1 - n0, s.b_transposed ? b + n0 * s.ldb : b + n0, s.ldb, s.b_transposed, 0,
                 n1 - n0, slot);
      args.b = slot;
      slot += RoundUp(std::min(s.n, cut.column_step), kPanelGranule) * s.k;
      break;
    }
  }
  // Behind what this task has packed is another thread's.
  const bool is_own = cut.pack_b == Cut::PackB::kInTask;
  const int64_t width = std::min(GemmPanelWidth(), RoundUp(n1 - n0, kPanelGranule));
  // This thread's next part mostly has the columns behind, and other work follows the last ones.
  const bool continues = cut.tiles && cut.pack_b == Cut::PackB::kNo && n1 < s.n;
  const float* const behind = continues                           ? args.b + (n1 - n0) * s.k
                              : finishes && (is_own || n1 == s.n) ? args.b
                                                                  : nullptr;
  for (int64_t row = m0; row < m1; row += args.rows) {
    args.rows = m1 - row <= cut.most_rows ? m1 - row : cut.rows;
    args.c = c + row * ldc + n0;
    const TileEpilogue tile_epilogue = x.epilogue.Tile(row, n0, p, q);
    int64_t k0 = k_begin;
    do {
      args.k0 = k0;
      args.kc = std::min(cut.kc, k_end - k0);
      if (cut.copy_a == Cut::CopyA::kInTask) {
        CopyBlock(s, a, row, args.rows, k0, args.kc, slot, cut.a_ld);
        args.a = slot;
        args.lda = cut.a_ld;
      } else {
        args.a = a + row * lda + k0;
        args.lda = lda;
      }
      args.accumulate = k0 > k_begin;
      k0 += args.kc;
      args.epilogue = finishes && k0 == s.k && x.epilogue.InRegisters() ? &tile_epilogue : nullptr;
      if (cut.streams) {
        args.next = args.b + k0 * width;
      } else if (is_own || n1 - n0 > width) {
        args.next = k0 < k_end             ? args.b + k0 * width
                    : row + args.rows < m1 ? args.b + k_begin * width
                                           : behind;
      }
      GemmBlock(args);
    } while (k0 < k_end);
    if (finishes && !x.epilogue.InRegisters()) {
      x.epilogue.Apply(args.c, s.ldc, row, args.rows, n0, n1 - n0, p, q);
    }
  }
}

// Adds the sums of the second part of K to those of the first, and finishes them, rows by rows.
void AddParts(const Context& x, const Parallel& par) {
  const GemmShape& s = x.shape;
  const int64_t parts = std::clamp<int64_t>(s.m * s.n / 4096, 1, std::min<int64_t>(s.m, 16));
  par.For(parts, [&](int64_t part) {
    const int64_t row = s.m * part / parts, rows = s.m * (part + 1) / parts - row;
    float* const c = x.c + row * s.ldc;
    const TileEpilogue tile_epilogue = x.epilogue.Tile(row, 0);
    AddGemmSums({.sums = x.sums + row * x.cut.sums_ld,
                 .sums_ld = x.cut.sums_ld,
                 .rows = rows,
                 .columns = s.n,
                 .c = c,
                 .ldc = s.ldc,
                 .epilogue = x.epilogue.InRegisters() ? &tile_epilogue : nullptr});
    if (!x.epilogue.InRegisters()) x.epilogue.Apply(c, s.ldc, row, rows, 0, s.n);
  });
}

}  // namespace

size_t GemmPackedBytes(int64_t k, int64_t n) {
  return AlignBytes(static_cast<size_t>(k * RoundUp(n, kPanelGranule)) * sizeof(float));
}

void GemmPackB(int64_t k, int64_t n, const float* b, int64_t ldb, bool b_transposed, float* packed,
               const Parallel& par) {
  const int64_t panel = GemmPanelWidth(), panels = CeilDiv(n, panel);
  const int64_t parts = std::clamp<int64_t>(k * n / 16384, 1, std::min<int64_t>(panels, 32));
  par.For(parts, [&](int64_t part) {
    for (int64_t p = panels * part / parts; p < panels * (part + 1) / parts; ++p) {
      const int64_t begin = p * panel, end = std::min(n, begin + panel);
      PackPanels(k, n, b, ldb, b_transposed, begin, end, packed);
      ZeroSubnormals(packed + begin * k, k * RoundUp(end - begin, kPanelGranule));
    }
  });
}

void GemmPackRows(int64_t k, int64_t n, int64_t first, int64_t count, const float* rows,
                  int64_t ldb, float* packed, const Parallel& par) {
  const int64_t panel = GemmPanelWidth(), panels = CeilDiv(n, panel);
  const int64_t parts = std::clamp<int64_t>(count * n / 65536, 1, std::min<int64_t>(panels, 32));
  par.For(parts, [&](int64_t part) {
    for (int64_t p = panels * part / parts; p < panels * (part + 1) / parts; ++p) {
      const int64_t begin = p * panel, columns = std::min(panel, n - begin);
      const int64_t width = RoundUp(columns, kPanelGranule);
      float* const to = packed + begin * k + first * width;
      PackPanels(count, columns, rows + begin, ldb, false, 0, columns, to);
      ZeroSubnormals(to, count * width);
    }
  });
}

bool GemmStoresOnce(const GemmShape& shape) { return CutGemm(shape, true, 1).kc >= shape.k; }

size_t GemmScratchBytes(const GemmShape& shape, bool packed, int threads) {
  if (shape.m == 0 || shape.n == 0 || shape.batch[0] * shape.batch[1] == 0) return 0;
  return MostScratchBytes(threads, [&](int running) {
    const Cut cut = CutGemm(shape, packed, running);
    return cut.a_bytes + cut.b_bytes + cut.sums_bytes +
           cut.slot_bytes * static_cast<size_t>(ScratchSlots::CountFor(running));
  });
}

void Gemm(const GemmShape& shape, const float* a, const float* b, const float* packed_b, float* c,
          const Epilogue& epilogue, void* scratch, const Parallel& par) {
  if (shape.m == 0 || shape.n == 0 || shape.batch[0] * shape.batch[1] == 0) return;
  const Cut cut = CutGemm(shape, packed_b != nullptr, par.threads);
  using Tiles = PreparedEpilogue::Tiles;
  const PreparedEpilogue prepared(epilogue, cut.gemv ? Tiles::kNone : Tiles::kProduct);
  auto* bytes = static_cast<std::byte*>(scratch);
  ScratchSlots slots(bytes + cut.a_bytes + cut.b_bytes + cut.sums_bytes, cut.slot_bytes,
                     ScratchSlots::CountFor(par.threads));
  const Context x{shape,
                  cut,
                  a,
                  b,
                  packed_b,
                  c,
                  prepared,
                  reinterpret_cast<float*>(bytes),
                  reinterpret_cast<float*>(bytes + cut.a_bytes),
                  reinterpret_cast<float*>(bytes + cut.a_bytes + cut.b_bytes),
                  &slots};

  if (cut.copy_a == Cut::CopyA::kAhead) {
    const int64_t row_parts = std::clamp<int64_t>(shape.m * shape.k / 65536, 1, 16);
    par.For(cut.items * row_parts, [&](int64_t task) {
      const int64_t item = task / row_parts, part = task % row_parts;
      const int64_t begin = shape.m * part / row_parts, end = shape.m * (part + 1) / row_parts;
      const float* from =
          a + item / shape.batch[1] * shape.a_stride[0] + item % shape.batch[1] * shape.a_stride[1];
      CopyBlock(shape, from, begin, end - begin, 0, shape.k,
                x.a_copy + (item * shape.m + begin) * cut.a_ld, cut.a_ld);
    });
  }
  if (cut.pack_b == Cut::PackB::kAhead) {
    if (cut.b_items == 1) {
      GemmPackB(shape.k, shape.n, b, shape.ldb, shape.b_transposed, x.b_copy, par);
    } else {
      const auto stride = static_cast<int64_t>(GemmPackedBytes(shape.k, shape.n) / sizeof(float));
      par.For(cut.items, [&](int64_t item) {
        const float* from = b + item / shape.batch[1] * shape.b_stride[0] +
                            item % shape.batch[1] * shape.b_stride[1];
        PackPanels(shape.k, shape.n, from, shape.ldb, shape.b_transposed, 0, shape.n,
                   x.b_copy + item * stride);
      });
    }
  }
  const int64_t of_k = cut.row_parts * cut.column_parts, parts = cut.k_parts * of_k;
  const auto threads = std::bit_floor(static_cast<uint64_t>(std::max(1, par.threads)));
  const OwnedParts owned{cut.row_parts, cut.column_parts,
                         std::min(cut.owners, static_cast<int64_t>(threads))};
  int64_t holds[ScratchSlots::kMaxSlots];
  std::fill_n(holds, ScratchSlots::CountFor(par.threads), 0);
  par.For(cut.Tasks(), [&](int64_t task) {
    const int64_t first = task / parts * cut.items_per_task;
    const int64_t last = std::min(cut.items, first + cut.items_per_task);
    const int64_t part = task % parts, k_part = part / of_k;
    const auto [row_part, column_part] = owned.At(part - k_part * of_k);
    const ScratchSlots::Lease lease(slots);
    for (int64_t item = first; item < last; ++item) {
      if (cut.gemv) {
        RunGemvPart(x, item, column_part, lease.floats());
      } else {
        RunPart(x, item, k_part, row_part, column_part, lease.floats(), holds[lease.index()]);
      }
    }
  });
  if (cut.k_parts > 1) AddParts(x, par);
}

}  // namespace sardonyx
