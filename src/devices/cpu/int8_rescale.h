#pragma once
// The epilogue of an integer product as what kernels do to sums in one go (kernels/gemm_int8.h).

#include <optional>
#include <span>

#include "base/expression.h"
#include "kernels/gemm_int8.h"

namespace sardonyx::cpu {

// Of an expression, more than which it cannot have: instructions name them by a byte.
inline constexpr size_t kMostRegisters = 256;

// What an operand of the epilogue is to the result [rows, columns].
struct RescaleOperand {
  enum class Kind : uint8_t { kScalar, kColumns, kResidual } kind = Kind::kScalar;
  DType type = DType::kFloat32;
};

struct Rescaling {
  Int8Rescale rescale;  // its columns lie in the memory that was given
  int residual = -1;    // the operand that is the residual
  size_t used = 0;      // floats of the memory, the same for all values of the operands
};

// Floats that are enough for AnalyseRescale.
size_t RescaleFloats(const Expression& expression, int64_t columns);

// Nothing if the expression does anything but scale, shift, clip and round the sum, and add one
// residual. Whether it does depends on the structure, not on the operands' values: `data` of those
// that are not known yet is null, and counts as ones. Allocates nothing.
std::optional<Rescaling> AnalyseRescale(const Expression& expression, int64_t columns,
                                        std::span<const RescaleOperand> operands,
                                        const void* const* data, std::span<float> memory);

}  // namespace sardonyx::cpu
