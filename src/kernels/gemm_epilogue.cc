#include "kernels/gemm_epilogue.h"

namespace sardonyx {

namespace {

// Sorts operand `index` into bias (one value a column) or residual (a matrix); false if it is
// neither or the place is taken.
bool Place(const Epilogue& epilogue, int index, int* bias, int* residual) {
  if (index < 0) return true;
  const EpilogueOperand& operand = epilogue.operands[index];
  if (operand.type != DType::kFloat32 || operand.column_stride != 1) return false;
  int* const place = operand.row_stride == 0 ? bias : residual;
  if (*place >= 0) return false;
  *place = index;
  return true;
}

const float* Data(const EpilogueOperand& operand, int64_t row, int64_t column, int64_t p,
                  int64_t q) {
  return static_cast<const float*>(operand.data) + row * operand.row_stride +
         column * operand.column_stride + p * operand.batch_stride[0] + q * operand.batch_stride[1];
}

}  // namespace

PreparedEpilogue::PreparedEpilogue(const Epilogue& epilogue, bool registers) : epilogue_(epilogue) {
  if (epilogue.expression == nullptr) {
    in_registers_ = true;
    return;
  }
  SimpleEpilogue simple;
  if (registers && MatchSimpleEpilogue(*epilogue.expression, &simple) &&
      Place(epilogue, simple.addend[0], &bias_, &residual_) &&
      Place(epilogue, simple.addend[1], &bias_, &residual_)) {
    in_registers_ = true;
    tile_.clamp = simple.clamps;
    tile_.lo = simple.lo;
    tile_.hi = simple.hi;
    return;
  }
  PrepareEpilogue(epilogue, &kernel_);
}

TileEpilogue PreparedEpilogue::Tile(int64_t row, int64_t column, int64_t p, int64_t q) const {
  TileEpilogue tile = tile_;
  if (!in_registers_) return tile;
  if (bias_ >= 0) tile.bias = Data(epilogue_.operands[bias_], row, column, p, q);
  if (residual_ >= 0) {
    tile.residual = Data(epilogue_.operands[residual_], row, column, p, q);
    tile.residual_ld = epilogue_.operands[residual_].row_stride;
  }
  return tile;
}

void PreparedEpilogue::Apply(float* c, int64_t ldc, int64_t row, int64_t rows, int64_t column,
                             int64_t columns, int64_t p, int64_t q) const {
  if (epilogue_.expression == nullptr) return;
  ApplyEpilogue(kernel_, epilogue_, p, q, row, column, rows, columns, c, ldc);
}

}  // namespace sardonyx
