#pragma once
// The table of core operations. all.inc lists them; each stands in a file of its own or, where one
// pattern serves many, of its family.

#include <span>

#include "ir/core_op.h"

namespace sardonyx::core {

#define SARDONYX_CORE_OP(name) extern const CoreOp name;
#include "ops/core/all.inc"
#undef SARDONYX_CORE_OP

// The elementwise operation of a scalar function ("add", "exp", ...).
const CoreOp& Elementwise(Fn fn);
// Null if `op` is not one of those; else its function in *fn.
bool IsElementwise(const CoreOp& op, Fn* fn);

// Null if there is none of that name.
const CoreOp* Find(std::string_view name);
std::span<const CoreOp* const> All();

}  // namespace sardonyx::core
