#pragma once
// Functions of one value that follow convolutions and matrix products, applied to rows that were
// just stored and so are still in the first-level cache.

#include <cstdint>

#include "base/dtype.h"

namespace sardonyx {

// y = scale * f(y) + shift, rounded to a 16-bit type. What f's parameters p mean is said beside
// each.
struct Activation {
  enum class Kind : uint8_t {
    kNone,
    kIdentity,   // of use for scale and shift
    kClamp,      // min(max(y, p0), p1); NaN passes through
    kSwish,      // y / (1 + exp(p0 * y))
    kHardSwish,  // y * min(max(y * p0 + p1, p2), p3)
    kSigmoid,
    kTanh,
    kGelu,  // y / 2 * (1 + erf(p0 * y))
    kGeluTanh,
    kLeakyRelu,  // y < 0 ? p0 * y : y
    kSoftplus,   // log(1 + exp(y))
    kMish,       // y * tanh(log(1 + exp(y)))
    kElu,        // max(y, 0) + p0 * (exp(min(y, 0)) - 1)
  };
  Kind kind = Kind::kNone;
  bool affine = false;  // scale and shift are more than 1 and 0
  float p[4] = {};
  float scale = 1.0f, shift = 0.0f;
  DType rounding = DType::kFloat32;  // none
};

// Whether pixels that are summed in registers (finish_pixels-inl.h) are activated there: others
// sweep over lines.
inline bool ActivatesInRegisters(const Activation& a) {
  return a.kind == Activation::Kind::kHardSwish && a.rounding == DType::kFloat32;
}

// Applies it to y[i * ld + j], i < rows, j < columns.
void ApplyActivation(const Activation& activation, float* y, int64_t ld, int64_t rows,
                     int64_t columns);

// Operands around an activation: element (i, j) of one is data[i * ld + j], with an ld of 0 where
// it is the same for all rows. None: null.
struct AroundActivation {
  struct Operand {
    const float* data = nullptr;
    int64_t ld = 0;
  };
  Operand added[2] = {};
  Operand scale = {};
  Operand then[2] = {};
};

// y = f(y + added[0] + added[1]) * scale + then[0] + then[1], without the rounding.
void ActivateBetween(const Activation& activation, AroundActivation around, float* y, int64_t ld,
                     int64_t rows, int64_t columns);

}  // namespace sardonyx
