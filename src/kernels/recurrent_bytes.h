#pragma once
// Recurrent weights of bytes, of an LSTM: the state is quantised in each step and multiplied by
// gemm_int8.h. Of cells with fewer gates a block of units would not be whole panels.

#include <cstddef>
#include <cstdint>

#include "kernels/recurrent_step.h"

namespace sardonyx {

// Packed columns lie block by block of units, in each gate by gate.
inline constexpr int64_t kBlockColumns = 4 * kUnits;
inline int64_t ByteColumns(int64_t hidden) { return UnitBlocks(hidden) * kBlockColumns; }

// Of one direction; all but the panels by packed column.
struct RecurrentByteWeights {
  void* panels = nullptr;
  float* scales = nullptr;
  int32_t* row_factors = nullptr;  // zero points as int8, negated
  int32_t* sums = nullptr;         // of weights less their zero points
};
size_t RecurrentPanelBytes(int64_t hidden);

// r [4 * H, H] of int8, or else of uint8, with scales and zero points (null: 0) of its rows.
void PackRecurrentBytes(const uint8_t* r, bool is_signed, const float* scales, const uint8_t* zeros,
                        int64_t hidden, const RecurrentByteWeights& packed);

// State of the sequences that go on, one behind the other: (code - zero) * scale, where the codes
// span the range of all of them and 0.
struct RecurrentCodes {
  const RecurrentByteWeights* weights = nullptr;
  float scale = 1;
  int32_t zero = 0;
  const uint8_t* rows = nullptr;  // as gemm_int8.h reads them
  int64_t row_bytes = 0;
  const int32_t* row_sums = nullptr;  // null: no row_factors
};
size_t RecurrentCodesBytes(int64_t hidden, int64_t batch);
// Of what the phase multiplies; scratch: RecurrentCodesBytes, 64-byte aligned.
RecurrentCodes QuantizeState(const RecurrentPhase& phase, const RecurrentByteWeights& weights,
                             bool sums_rows, void* scratch);

// sums [rows, (last - first) * kBlockColumns] = state in rows from `row` on, times the columns of
// blocks [first, last), kMostBlocks at most.
inline constexpr int64_t kMostBlocks = 4;
void RecurrentByteSums(const RecurrentCodes& codes, int64_t hidden, int64_t row, int64_t rows,
                       int64_t first, int64_t last, float* sums);

}  // namespace sardonyx
