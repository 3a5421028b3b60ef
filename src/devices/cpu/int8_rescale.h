#pragma once
// The epilogue of an integer product as what kernels do to sums in one go (kernels/gemm_int8.h).

#include <optional>
#include <span>
#include <vector>

#include "base/expression.h"
#include "kernels/gemm_int8.h"

namespace sardonyx::cpu {

// What an operand of the epilogue is to the result [rows, columns].
struct RescaleOperand {
  enum class Kind : uint8_t { kScalar, kColumns, kResidual } kind = Kind::kScalar;
  DType type = DType::kFloat32;
  const void* data = nullptr;  // null: not known yet, counts as ones
};

struct Rescaling {
  Int8Rescale rescale;  // its vectors are those below
  std::vector<float> scale, offset;
  int residual = -1;  // the operand that is the residual
};

// Nothing if the expression does anything but scale, shift, clip and round the sum, and add one
// residual. Whether it does depends on the structure, not on the operands' values.
std::optional<Rescaling> AnalyseRescale(const Expression& expression, int64_t columns,
                                        std::span<const RescaleOperand> operands);

}  // namespace sardonyx::cpu
