#pragma once
// Shapes of inputs against what other inputs and attributes say of them.

#include <algorithm>

#include "base/dim.h"

namespace sardonyx::core {

// Whether a shape may be the expected one: of its rank, and no two known sizes differ.
inline bool Fits(const Dims& shape, const Dims& expected) {
  return std::equal(shape.begin(), shape.end(), expected.begin(), expected.end(),
                    [](Dim a, Dim b) { return !a.known() || !b.known() || a == b; });
}

}  // namespace sardonyx::core
