#pragma once
// Concat, split and slice without copies: parts are written, or read, where they lie in the whole.

#include <functional>
#include <memory>
#include <vector>

#include "runtime/plan.h"

namespace sardonyx {

// Binds a step again, by the same implementation, to rows as PlannedValue::row_stride has them;
// null if it refuses.
using BindAgain = std::function<std::shared_ptr<const Binding>(const Step&)>;

// For a plan whose steps are bound, before memory is given to them. A part of a concat moves into
// the whole if it has memory of its own and is no output of the plan, and so does what a split or a
// slice cuts from each row. Where a whole has more than one row, those of the part then lie apart,
// which the step that writes it and all that read it, or a view of its rows, must take. A step all
// of whose parts are in place is none any more. Rows of products that collide where they are read
// (Bound::collide) lie further apart, if all that read them take it.
void PlaceParts(Plan* plan, Places places, const BindAgain& bind);

}  // namespace sardonyx
