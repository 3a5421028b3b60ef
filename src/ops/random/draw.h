#pragma once
// What operators that draw random numbers share. A seeded operator gives the same numbers in every
// run (and on every trip of a loop); an unseeded one draws from a stream of its own each time.

#include <optional>

#include "base/random.h"
#include "ops/lowering.h"

namespace sardonyx::ops {

// Puts attribute `seed` of the ONNX node, a float or an integer, into those of a core operation: 32
// bits of its integral part. NaN is no seed.
void AddSeed(const Lowering& op, Attributes* attributes);

// The stream of a core operation by its attribute `seed`.
RandomStream StreamOf(const Attributes& attributes);

// What core operation `random` with these attributes makes of `count` elements.
void DrawElements(const Attributes& attributes, int64_t count, void* out);

// Infers output 0 of an operation whose input 0 is the shape of what it draws.
void SetDrawnShape(InferContext& context, DType dtype);

}  // namespace sardonyx::ops
