#include "kernels/gemm_amx_cut.h"

#include <algorithm>

#include "base/round.h"
#include "kernels/gemm_amx.h"
#include "kernels/gemm_block.h"
#include "kernels/slices.h"
#include "kernels/targets.h"

namespace sardonyx {
namespace {

constexpr int64_t kTile = 16;               // rows or columns
constexpr int64_t kPair = 2 * kTile;        // of rows; a panel of columns; a step of K
constexpr int64_t kMostRows = 256;          // of a block, about
constexpr int64_t kLeastPart = 64;          // rows or columns of a part
constexpr int64_t kLeftValues = 160 << 10;  // of a block of A, whose thirds are 6 bytes each
constexpr int64_t kLeastDepth = 256, kMostDepth = 800;

// Cycles.
constexpr double kPairStep = 500, kPairEnd = 550;  // a pair of tiles of rows with a panel, a step
constexpr double kRowStep = 18, kRowEnd = 10;      // a row that is split
constexpr double kPanelStep = 500;                 // a panel that is
constexpr double kProduct = 1 / 26.5;              // by vectors
// A byte: of B, beside what is fetched in time; of A from another processor's cache; of C, which
// another processor reads in the next step.
constexpr double kWeight = 0.145, kRemote = 0.4, kRemoteNext = 0.2;
constexpr double kSum = 0.4, kBarrier = 4000;  // to add a sum of another half of K; before all

double Float(int64_t count) { return static_cast<double>(count); }

struct Product {
  int64_t rows, columns, k;
  double row_cycles;
};
struct Parts {
  int64_t rows, columns;
};

// Rows or columns first, the others into what is then left of so many parts.
Parts RowsFirst(const Product& x, int64_t parts) {
  const int64_t rows = std::clamp<int64_t>(x.rows / kLeastPart, 1, parts);
  return {rows, std::clamp<int64_t>(x.columns / kLeastPart, 1, CeilDiv(parts, rows))};
}
Parts ColumnsFirst(const Product& x, int64_t parts) {
  const int64_t columns = std::clamp<int64_t>(x.columns / kLeastPart, 1, parts);
  return {std::clamp<int64_t>(x.rows / kLeastPart, 1, CeilDiv(parts, columns)), columns};
}

// Of one part on one thread, as if all tiles and blocks were full, so that a row never pays less
// beside others.
double MultiplyCycles(const Product& x) {
  const double steps = Float(CeilDiv(x.k, kPair)), panels = Float(CeilDiv(x.columns, kPair));
  const double blocks = std::max(1.0, Float(x.rows) / kMostRows);
  return panels * Float(x.rows) / kPair * (kPairStep * steps + kPairEnd) +
         blocks * panels * kPanelStep * steps +
         Float(x.rows) * (kRowStep * steps + kRowEnd + x.row_cycles);
}

// Of each of several parts; of columns each reads what other threads have written, who then read
// what it writes.
double PartCycles(const Product& all, Parts parts) {
  const Product part{CeilDiv(all.rows, parts.rows),
                     CeilDiv(CeilDiv(all.columns, kPair), parts.columns) * kPair, all.k,
                     all.row_cycles};
  const double others = 4 * Float(part.rows) * (1 - 1 / Float(parts.columns));
  return MultiplyCycles(part) + kWeight * 4 * Float(part.columns * part.k) +
         others * (kRemote * Float(part.k) + kRemoteNext * Float(part.columns));
}

// Of each half of K: some of the rows' values are others' again, and half of the sums to be added.
double HalfCycles(const Product& all) {
  const Product half{all.rows, all.columns, all.k / 2, all.row_cycles};
  const double sums = Float(all.rows * all.columns) / 2;
  return PartCycles(half, {1, 1}) + kRemote * 2 * Float(half.rows * half.k) +
         sums * (kRemote * 4 + kSum) + kBarrier;
}

}  // namespace

double GemmAmxShare(int64_t rows, int64_t columns, int64_t k, double row_cycles) {
  if (rows < kTile || k < kTile || !HasMatrixTiles()) return 1;
  if (TaskProcessors() > kMostTileProcessors) return 1;
  if (GemmAmxBytes(rows, k) == 0) return 1;  // a target without tiles runs
  const double vectors = kProduct * Float(rows * RoundUp(columns, kPanelGranule) * k);
  const double share = MultiplyCycles({rows, columns, k, row_cycles}) / vectors;
  return share < 0.95 ? share : 1;
}

GemmAmxBlocks::GemmAmxBlocks(int64_t all)
    : rows(RoundUp(CeilDiv(all, CeilDiv(all, kMostRows)), kPair)),
      most_rows(rows + kLeastRows - 1) {}

int64_t GemmAmxDepth(int64_t rows, int64_t k) {
  const int64_t most = std::clamp(kLeftValues / GemmAmxBlocks(rows).rows, kLeastDepth, kMostDepth);
  return k <= most ? k : RoundUp(CeilDiv(k, CeilDiv(k, most)), kPair);
}

bool GemmAmxHalvesK(int64_t rows, int64_t columns, int64_t k) {
  const Product all{rows, columns, k, 0};
  const double half = HalfCycles(all);
  return half < PartCycles(all, RowsFirst(all, 2)) && half < PartCycles(all, ColumnsFirst(all, 2));
}

int64_t GemmAmxHalf(int64_t k) { return RoundUp(CeilDiv(k, 2), kPair); }

GemmAmxParts::GemmAmxParts(int64_t rows, int64_t columns, int64_t k, int64_t parts,
                           double row_cycles, bool keeps_thirds)
    : row_unit(kPair) {
  const Product all{rows, columns, k, row_cycles};
  // Twice as many where each is large: threads then end together.
  constexpr int64_t kLarge = 384;
  const auto wanted = [&](int64_t count) {
    return parts > 1 && count >= 2 * parts * kLarge ? 2 * parts : parts;
  };
  // More columns cost hardly anything where no part makes thirds that one before has made.
  constexpr int64_t kLeastKept = 192;
  const bool kept =
      keeps_thirds && rows <= GemmAmxBlocks(rows).most_rows && k <= GemmAmxDepth(rows, k);
  const int64_t of_columns =
      kept && parts > 1 ? std::clamp(columns / kLeastKept, parts, 4 * parts) : wanted(columns);
  const bool by_rows =
      PartCycles(all, RowsFirst(all, parts)) <= PartCycles(all, ColumnsFirst(all, parts));
  const Parts cut = by_rows ? RowsFirst(all, wanted(rows)) : ColumnsFirst(all, of_columns);
  row_parts = cut.rows;
  column_step = CeilDiv(CeilDiv(columns, kPair), cut.columns) * kPair;
  column_parts = CeilDiv(columns, column_step);
}

}  // namespace sardonyx
