#pragma once
// Which elements of tensors are followed as sizes of shapes.

#include "base/dim.h"

namespace sardonyx::core {

// Numbers too large for a size stay out of symbolic arithmetic, which must not overflow. Symbols
// are no larger than sizes.
inline bool IsModest(Dim dim) {
  constexpr int64_t kMost = int64_t{1} << 30;
  return !dim.known() || (dim.value() >= -kMost && dim.value() <= kMost);
}

}  // namespace sardonyx::core
