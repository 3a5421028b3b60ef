#pragma once
// Shapes of inputs against what a contributed operator says of them.

#include <string_view>

#include "ops/lowering.h"

namespace sardonyx::ops::contrib {

// These throw kInvalidModel where the input cannot have what is expected, NotYetKnown where it has
// no rank yet. Sizes that are not known fit anything.
void ExpectRank(Lowering& op, Val x, std::string_view name, int rank);
void ExpectShape(Lowering& op, Val x, std::string_view name, const Dims& expected);
std::string Print(Lowering& op, const Dims& dims);  // "[batch,3]"

}  // namespace sardonyx::ops::contrib
