#pragma once
// What the attention operators share.

#include "ops/lowering.h"

namespace sardonyx::ops {

// Repeats each head (axis 1) of keys and values for the group of query heads that share it.
void ShareHeads(const Lowering& op, Val queries, Val* keys, Val* values);

}  // namespace sardonyx::ops
