#pragma once
// Distances between rows, as formulas.

#include "ops/vocabulary.h"

namespace sardonyx::ops {

// |a|^2 + |b|^2 - 2ab of each row of a [M,N] and each of b [K,N]: [M,K]. Rounding may leave less
// than 0.
Val SquaredDistances(Val a, Val b);

}  // namespace sardonyx::ops
