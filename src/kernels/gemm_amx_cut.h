#pragma once
// How a product of float32 by matrix tiles (gemm_amx.h) is cut, and whether it pays to have one: by
// cycles that were measured on Granite Rapids.

#include <cstdint>

namespace sardonyx {

// Matrix tiles multiply float32 on machines of so many processors: of more, two mostly are one
// core, whose tiles they share, and each part makes thirds. Vectors take 0.74 to 0.92 of the time
// on 4 of Emerald Rapids, 0.71 to 0.85 on 8, 0.54 to 0.95 on 16 (ResNet-50, DenseNet, MobileNetV2,
// BERT, ViT).
inline constexpr int kMostTileProcessors = 2;

// What a product of this size takes of the time by vectors, where each row takes so many cycles
// more: for those that only vectors read where they lie. 1 where it is no less, or hardly, and on
// machines of more processors. More rows never take a larger part.
double GemmAmxShare(int64_t rows, int64_t columns, int64_t k, double row_cycles = 0);
inline bool GemmAmxPays(int64_t rows, int64_t columns, int64_t k, double row_cycles = 0) {
  return GemmAmxShare(rows, columns, k, row_cycles) < 1;
}

// The blocks of a matrix of so many rows, or of a part of them: the thirds of B are made once for
// each. A rest of less than kLeastRows joins the block before, for vectors would sum it in another
// order.
struct GemmAmxBlocks {
  explicit GemmAmxBlocks(int64_t all);
  int64_t rows, most_rows;  // most_rows: of the last one
};

// How much of K a product of so many rows takes at a time: all, or even ranges, so that the thirds
// of a block of rows stay in the cache.
int64_t GemmAmxDepth(int64_t rows, int64_t k);

// Whether two threads share a product best by a half of K each, whose sums are then added. Each
// thread then splits a half of the rows' values, mostly those that it has written, and of B's; but
// it sums all of C. One thread takes halves as well, so that it rounds alike.
bool GemmAmxHalvesK(int64_t rows, int64_t columns, int64_t k);
// The first half of K.
int64_t GemmAmxHalf(int64_t k);

// How a product, or each half of one, is cut into `parts`, or a few more or less. Each part makes
// the thirds of its rows and of its columns, so that those are cut first which then take less;
// row_cycles as above. keeps_thirds: parts of the same rows find the thirds of the one before on
// their thread.
struct GemmAmxParts {
  GemmAmxParts(int64_t rows, int64_t columns, int64_t k, int64_t parts, double row_cycles = 0,
               bool keeps_thirds = false);
  int64_t row_parts, column_parts;
  int64_t row_unit, column_step;  // parts of the rows begin at multiples; columns of a part
};

}  // namespace sardonyx
