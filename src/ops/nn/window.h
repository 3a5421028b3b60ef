#pragma once
// What convolutions and pools have in common: a window that slides over the spatial axes.

#include <cstdint>
#include <vector>

#include "ops/lowering.h"

namespace sardonyx::ops {

// Attributes strides, dilations, pads and auto_pad, defaults written out. Automatic padding that
// does not depend on the size of the input (VALID, and SAME_* where every stride is 1) becomes
// pads if the kernel is given.
Attributes Window(const Lowering& op, int spatial, const std::vector<int64_t>& kernel);

}  // namespace sardonyx::ops
