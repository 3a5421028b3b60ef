#include "kernels/gemm_bf16.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "kernels/bf16_block.h"
#include "kernels/gemm.h"
#include "kernels/gemm_epilogue.h"

namespace sardonyx {
namespace {

constexpr int64_t kBlockABytes = 384 << 10;  // of A inside a task: leaves room in most caches
constexpr int64_t kChunkRows = 16;           // of A that are packed at a time

// How a product is cut; depends on shape and SIMD target, never on threads.
struct Cut {
  int64_t pairs = 0;      // of all K
  int64_t step = 0;       // pairs at a time
  int64_t row_parts = 1;  // tasks: row_parts x column_parts
  int64_t column_parts = 1, panels = 0;
  bool has_pairs = false, copies = false;  // A is packed; is copied
  int64_t a_ld = 0;                        // words of its rows then
  int64_t chunks = 0;                      // of A
  size_t a_bytes = 0;

  int64_t Row(int64_t m, int64_t part) const {
    const int64_t tile = GemmTileRows();
    return std::min(m, CeilDiv(m, tile) * part / row_parts * tile);
  }
  int64_t Column(int64_t n, int64_t part) const {
    return std::min(n, panels * part / column_parts * GemmPanelWidth());
  }
};

Cut CutBf16(const Bf16Gemm& s) {
  Cut cut;
  cut.has_pairs = Bf16HasPairs();
  const int64_t element = cut.has_pairs ? 2 : 4;
  cut.pairs = CeilDiv(s.k, 2);
  // Ranges of K about as long as a block of 128 rows allows.
  const int64_t longest = kBlockABytes / (128 * element) / 2;
  cut.step = CeilDiv(cut.pairs, std::max<int64_t>(1, (cut.pairs + longest / 2) / longest));
  const int64_t rows = std::max<int64_t>(128, kBlockABytes / (cut.step * 2 * element));
  cut.row_parts = std::max<int64_t>(1, (s.m + rows / 2) / rows);
  cut.panels = CeilDiv(s.n, GemmPanelWidth());
  // Estimated microseconds at 100 GFLOP/s and 20 GB/s; parts of 8 us are worth a thread.
  const double elements = static_cast<double>(s.n) * static_cast<double>(s.k);
  const double us = elements * (1e-4 + 1e-5 * static_cast<double>(element * s.m) / 2);
  const int64_t wanted = us < 20 ? 1 : std::min<int64_t>(24, static_cast<int64_t>(us / 8));
  cut.column_parts = std::clamp<int64_t>(wanted / cut.row_parts, 1, cut.panels);
  cut.copies = !cut.has_pairs && RowsCollide(s.lda, s.m);
  if (cut.has_pairs || cut.copies) {
    cut.chunks = CeilDiv(s.m, kChunkRows);
    cut.a_ld = RoundUp(cut.has_pairs ? cut.pairs : s.k, 16) + 16;
    cut.a_bytes = static_cast<size_t>(s.m * cut.a_ld) * 4;
  }
  return cut;
}

// The last line of a packed matrix says whether all its numbers are normal ones, or zeros.
size_t PanelBytes(int64_t k, int64_t n) {
  return static_cast<size_t>(CeilDiv(k, 2) * RoundUp(n, GemmPanelWidth())) * sizeof(uint32_t);
}
bool IsSubnormal(uint16_t number) { return (number & 0x7f80) == 0 && (number & 0x7f) != 0; }

}  // namespace

bool GemmBf16Pays(int64_t m) { return m <= 4 || Bf16HasPairs(); }

size_t GemmBf16PackedBytes(int64_t k, int64_t n) { return (PanelBytes(k, n) + 63) / 64 * 64 + 64; }

void GemmBf16Pack(int64_t k, int64_t n, const uint16_t* b, int64_t ldb, bool transposed,
                  void* packed, const Parallel& par) {
  const int64_t width = GemmPanelWidth();
  std::atomic<bool> is_normal{true};
  const int64_t row_step = transposed ? 1 : ldb, column_step = transposed ? ldb : 1;
  par.For(CeilDiv(n, width), [&](int64_t panel) {
    const int64_t first = panel * width, columns = std::min(width, n - first);
    uint32_t* to = static_cast<uint32_t*>(packed) + CeilDiv(k, 2) * first;
    const uint16_t* from = b + first * column_step;
    bool has_subnormal = false;
    for (int64_t i = 0; i < k; i += 2, from += 2 * row_step, to += width) {
      for (int64_t j = 0; j < columns; ++j) {
        const uint16_t low = from[j * column_step];
        const uint16_t high = i + 1 < k ? from[j * column_step + row_step] : uint16_t{0};
        has_subnormal = has_subnormal || IsSubnormal(low) || IsSubnormal(high);
        to[j] = low | static_cast<uint32_t>(high) << 16;
      }
      std::fill(to + columns, to + width, 0u);
    }
    if (has_subnormal) is_normal = false;
  });
  auto* last = static_cast<std::byte*>(packed) + GemmBf16PackedBytes(k, n) - 64;
  std::memset(last, 0, 64);
  *last = std::byte{is_normal.load()};
}

size_t GemmBf16ScratchBytes(const Bf16Gemm& shape) {
  const Cut cut = CutBf16(shape);
  return cut.a_bytes + static_cast<size_t>(RoundUp(cut.chunks, 64));
}

void GemmBf16(const Bf16Gemm& shape, const float* a, const void* packed, float* c,
              const Epilogue& epilogue, void* scratch, const Parallel& par) {
  const int64_t m = shape.m, n = shape.n, k = shape.k;
  if (m == 0 || n == 0) return;
  const Cut cut = CutBf16(shape);
  const PreparedEpilogue prepared(epilogue, PreparedEpilogue::Tiles::kProduct);
  const auto* last = static_cast<const std::byte*>(packed) + GemmBf16PackedBytes(k, n) - 64;
  const bool pairs = cut.has_pairs && *last != std::byte{0};
  auto* const copy = static_cast<uint32_t*>(scratch);
  // Of each chunk of A, whether it was packed.
  auto* const packs = reinterpret_cast<bool*>(static_cast<std::byte*>(scratch) + cut.a_bytes);
  if (pairs || cut.copies) {
    par.For(cut.chunks, [&](int64_t chunk) {
      const int64_t begin = chunk * kChunkRows, rows = std::min(kChunkRows, m - begin);
      const float* from = a + begin * shape.lda;
      uint32_t* const to = copy + begin * cut.a_ld;
      if (pairs) {
        packs[chunk] = Bf16PackRows(from, shape.lda, rows, k, to, cut.a_ld);
        return;
      }
      for (int64_t i = 0; i < rows; ++i) {
        std::memcpy(to + i * cut.a_ld, from + i * shape.lda, static_cast<size_t>(k) * 4);
      }
    });
  }
  par.For(cut.row_parts * cut.column_parts, [&](int64_t task) {
    const int64_t row = cut.Row(m, task % cut.row_parts);
    const int64_t n0 = cut.Column(n, task / cut.row_parts);
    const int64_t n1 = cut.Column(n, task / cut.row_parts + 1);
    Bf16BlockArgs args{};
    args.rows = cut.Row(m, task % cut.row_parts + 1) - row;
    args.a =
        cut.copies ? reinterpret_cast<const float*>(copy + row * cut.a_ld) : a + row * shape.lda;
    args.lda = cut.copies ? cut.a_ld : shape.lda;
    if (pairs && std::all_of(packs + row / kChunkRows, packs + CeilDiv(row + args.rows, kChunkRows),
                             [](bool is_packed) { return is_packed; })) {
      args.a_pairs = copy + row * cut.a_ld;
      args.pairs_ld = cut.a_ld;
    }
    args.b = static_cast<const uint32_t*>(packed) + n0 * cut.pairs;
    args.k_total = k;
    args.n_total = args.n1 = n1 - n0;
    args.c = c + row * shape.ldc + n0;
    args.ldc = shape.ldc;
    const TileEpilogue tile = prepared.Tile(row, n0);
    for (args.p0 = 0; args.p0 < cut.pairs; args.p0 += cut.step) {
      args.pairs = std::min(cut.step, cut.pairs - args.p0);
      args.accumulate = args.p0 > 0;
      const bool ends = args.p0 + args.pairs == cut.pairs;
      args.next = ends ? args.b + RoundUp(n1 - n0, GemmPanelWidth()) * cut.pairs
                       : args.b + (args.p0 + args.pairs) * GemmPanelWidth();
      args.epilogue = ends && prepared.InRegisters() ? &tile : nullptr;
      Bf16Block(args);
    }
    if (!prepared.InRegisters()) {
      prepared.Apply(args.c, shape.ldc, row, args.rows, n0, n1 - n0);
    }
  });
}

}  // namespace sardonyx
