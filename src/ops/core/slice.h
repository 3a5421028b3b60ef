#pragma once
// Where a slice begins, for all who read one.

#include <cstdint>

namespace sardonyx::core {

// The first position of a slice of an axis of `size`, as Slice-13 clamps it: into [0, size] for a
// positive step, into [0, size - 1] for a negative one. Negative starts count from the end.
int64_t SliceStart(int64_t start, int64_t step, int64_t size);

}  // namespace sardonyx::core
