#pragma once
// What masks of attention say, in parts of which some are cheaper than what makes the mask.

#include <vector>

#include "passes/passes.h"

namespace sardonyx::passes {

// A query sees keys before all `ends` and from all `begins` on (int64 [...,1]) for which the
// conditions hold; terms are added to their scores.
struct MaskParts {
  std::vector<Val> ends, begins, conditions, terms;
};

// Adds the parts of a mask over the scores of so many keys that is added to them, or of a condition
// for being seen. Ends and begins are found where positions 0, 1, ... are compared with a bound:
//
//   where(and(lt(range(0, keys, 1), end), le(range(0, keys, 1), i)), 0, -infinity)
void PartMask(Value* mask, Dim keys, PatchMaker& maker, MaskParts* parts);
void PartCondition(Value* condition, Dim keys, PatchMaker& maker, MaskParts* parts);

}  // namespace sardonyx::passes
