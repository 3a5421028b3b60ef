#pragma once
// Where the values of a plan lie: in the arena by their lifetimes, in place of an input that ends,
// or in the buffer of an output.

#include "runtime/plan.h"

namespace sardonyx {

// For a plan whose steps are bound and joined, of so many inputs. Sets the addresses of values, of
// the steps' operands and scratch, and what steps release. A value that takes over another's memory
// gets it as its root.
void PlaceValues(Plan* plan, Places places, size_t input_count);

}  // namespace sardonyx
