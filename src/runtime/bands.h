#pragma once
// Steps that go through an image together, some lines at a time: what one writes is still in the
// second-level cache when the next reads it, and is never anywhere else.

#include <vector>

#include "runtime/plan.h"

namespace sardonyx {

// For a plan whose steps are bound, before memory is given to them: joins steps one behind the
// other that can run by lines (Bound::by_lines) where what lies between them is too large for a
// cache and nobody else reads it. Each thread takes a share of the lines. `roots`: of values, by
// id, as in Places.
void JoinIntoBands(Plan* plan, const std::vector<int>& roots, int threads);

}  // namespace sardonyx
