#include "kernels/gemm_epilogue.h"

#include <algorithm>

namespace sardonyx {

namespace {

// Whether there is no operand `index` or its rows lie as those of a matrix.
bool HasRows(const Epilogue& epilogue, int index) {
  if (index < 0) return true;
  const EpilogueOperand& operand = epilogue.operands[index];
  return operand.type == DType::kFloat32 && operand.column_stride == 1;
}

// Sorts operand `index` into bias (one value a column) or residual (a matrix); false if it is
// neither or the place is taken.
bool Place(const Epilogue& epilogue, int index, int* bias, int* residual) {
  if (index < 0) return true;
  if (!HasRows(epilogue, index)) return false;
  int* const place = epilogue.operands[index].row_stride == 0 ? bias : residual;
  if (*place >= 0) return false;
  *place = index;
  return true;
}

// The same for a tile of planes: false if there is more than one value a row and bounds.
bool PlaceOfPlanes(const Epilogue& epilogue, const SimpleEpilogue& simple, int* residual) {
  *residual = simple.addend[0];
  if (*residual >= 0) {
    const EpilogueOperand& operand = epilogue.operands[*residual];
    if (operand.type != DType::kFloat32 || operand.column_stride != 0) return false;
  }
  return simple.addend[1] < 0 && simple.activation.kind == Activation::Kind::kNone &&
         simple.rounding == DType::kFloat32;
}

// Of the element for C(row, column) of item (p, q).
int64_t Offset(const EpilogueOperand& operand, int64_t row, int64_t column, int64_t p, int64_t q) {
  return row * operand.row_stride + column * operand.column_stride + p * operand.batch_stride[0] +
         q * operand.batch_stride[1];
}

const float* Floats(const EpilogueOperand& operand, int64_t row, int64_t column, int64_t p,
                    int64_t q) {
  return static_cast<const float*>(operand.data) + Offset(operand, row, column, p, q);
}

// Narrow dense rows seen as one long row, a few of them at a time, because the interpreter pays
// for each row that it begins.
class LongRows {
 public:
  // False if an operand does not allow it.
  bool Make(const Epilogue& epilogue, int64_t row, int64_t rows, int64_t column, int64_t columns,
            int64_t p, int64_t q) {
    const size_t count = epilogue.expression->inputs.size() - 1;
    const DType type = epilogue.expression->ResultType();
    const int64_t bytes = ByteSize(type, columns);
    rows_ = std::min(rows, kBytes / bytes);
    if (rows_ < 2 || count > kOperands) return false;
    int repeated = 0;
    for (size_t i = 0; i < count; ++i) {
      const EpilogueOperand& from = epilogue.operands[i];
      EpilogueOperand& to = operands_[i];
      if (from.type != type) return false;
      const std::byte* data = static_cast<const std::byte*>(from.data) +
                              ByteSize(type, Offset(from, row, column, p, q));
      to.type = type;
      to.column_stride = from.column_stride;
      to.data = data;
      step_[i] = 0;
      if (from.row_stride == 0 && from.column_stride == 0) continue;
      if (from.column_stride != 1) return false;
      if (from.row_stride == 0) {
        if (repeated == kRepeated) return false;
        std::byte* const copy = copies_[repeated++];
        for (int64_t r = 0; r < rows_; ++r) std::copy_n(data, bytes, copy + r * bytes);
        to.data = copy;
      } else if (from.row_stride == columns) {
        step_[i] = rows_ * bytes;
      } else {
        return false;
      }
    }
    count_ = count;
    return true;
  }

  int64_t rows() const { return rows_; }
  Epilogue epilogue(const Expression* expression) const { return {expression, operands_}; }
  void Advance() {
    for (size_t i = 0; i < count_; ++i) {
      operands_[i].data = static_cast<const std::byte*>(operands_[i].data) + step_[i];
    }
  }

 private:
  static constexpr int64_t kBytes = 4096;
  static constexpr int kRepeated = 2;
  static constexpr size_t kOperands = 8;
  int64_t rows_ = 0;
  size_t count_ = 0;
  EpilogueOperand operands_[kOperands];
  int64_t step_[kOperands];  // bytes
  alignas(64) std::byte copies_[kRepeated][kBytes];
};

}  // namespace

PreparedEpilogue::PreparedEpilogue(const Epilogue& epilogue, Tiles tiles) : epilogue_(epilogue) {
  if (epilogue.expression == nullptr) {
    in_registers_ = true;
    return;
  }
  const SimpleEpilogue* simple = nullptr;
  SimpleEpilogue found;
  if (tiles != Tiles::kNone && epilogue.simple != nullptr) {
    simple = *epilogue.simple ? &**epilogue.simple : nullptr;
  } else if (tiles != Tiles::kNone && MatchSimpleEpilogue(*epilogue.expression, &found)) {
    simple = &found;
  }
  const auto has_rows = [&](int index) { return HasRows(epilogue, index); };
  if (simple != nullptr && simple->HasBehind()) {
    if (has_rows(simple->scale) && std::ranges::all_of(simple->addend, has_rows) &&
        std::ranges::all_of(simple->last, has_rows)) {
      simple_ = *simple;
      return;
    }
  } else if (simple != nullptr &&
             (tiles == Tiles::kProduct || simple->sum_rounding == DType::kFloat32) &&
             (tiles == Tiles::kPlanes
                  ? PlaceOfPlanes(epilogue, *simple, &residual_)
                  : Place(epilogue, simple->addend[0], &bias_, &residual_) &&
                        Place(epilogue, simple->addend[1], &bias_, &residual_))) {
    in_registers_ = true;
    tile_.sum_rounding = simple->sum_rounding;
    tile_.clamp = simple->clamps;
    tile_.lo = simple->lo;
    tile_.hi = simple->hi;
    tile_.activation = simple->activation;
    tile_.rounding = simple->rounding;
    return;
  }
  PrepareEpilogue(epilogue, &kernel_);
}

TileEpilogue PreparedEpilogue::Tile(int64_t row, int64_t column, int64_t p, int64_t q) const {
  TileEpilogue tile = tile_;
  if (!in_registers_) return tile;
  if (bias_ >= 0) tile.bias = Floats(epilogue_.operands[bias_], row, column, p, q);
  if (residual_ >= 0) {
    tile.residual = Floats(epilogue_.operands[residual_], row, column, p, q);
    tile.residual_ld = epilogue_.operands[residual_].row_stride;
  }
  return tile;
}

void PreparedEpilogue::Apply(void* c, int64_t ldc, int64_t row, int64_t rows, int64_t column,
                             int64_t columns, int64_t p, int64_t q) const {
  if (epilogue_.expression == nullptr) return;
  if (simple_.HasBehind()) {
    const auto at = [&](int index) -> AroundActivation::Operand {
      if (index < 0) return {};
      const EpilogueOperand& operand = epilogue_.operands[index];
      return {Floats(operand, row, column, p, q), operand.row_stride};
    };
    return ActivateBetween(simple_.activation,
                           {.added = {at(simple_.addend[0]), at(simple_.addend[1])},
                            .scale = at(simple_.scale),
                            .then = {at(simple_.last[0]), at(simple_.last[1])}},
                           static_cast<float*>(c), ldc, rows, columns);
  }
  LongRows longer;
  if (ldc == columns && longer.Make(epilogue_, row, rows, column, columns, p, q)) {
    const Epilogue seen = longer.epilogue(epilogue_.expression);
    for (int64_t r = 0; r < rows; r += longer.rows()) {
      const int64_t count = std::min(longer.rows(), rows - r) * columns;
      ApplyEpilogue(kernel_, seen, 0, 0, 0, 0, 1, count,
                    static_cast<std::byte*>(c) + ByteSize(kernel_.type, r * columns), count);
      longer.Advance();
    }
    return;
  }
  ApplyEpilogue(kernel_, epilogue_, p, q, row, column, rows, columns, c, ldc);
}

}  // namespace sardonyx
