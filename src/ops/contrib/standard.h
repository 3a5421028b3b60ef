#pragma once
// Contributed operators are made of the standard's.

#include "ops/lowering.h"

namespace sardonyx::ops::contrib {

// The first outputs of the standard's operator of that name in its newest version.
Outputs Standard(Lowering& op, std::string_view name, std::vector<Val> inputs,
                 Attributes attributes = {}, size_t outputs = 1);

}  // namespace sardonyx::ops::contrib
