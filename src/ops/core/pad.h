#pragma once
// Where padding reads, for all who pad.

#include <cstdint>
#include <string_view>

namespace sardonyx::core {

// Index in [0, size) that a position before, in or after an axis reads in `mode` of Pad-19
// (constant, reflect, edge, wrap); -1: the constant.
int64_t PadSource(std::string_view mode, int64_t position, int64_t size);

}  // namespace sardonyx::core
