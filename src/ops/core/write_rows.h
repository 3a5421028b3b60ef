#pragma once
// Where rows are written, for all who write them.

#include <cstdint>

namespace sardonyx::core {

// The first of `length` rows over which `count` rows, as many at most and not none, are written
// that are to stand from `start` on, in a circle or not. Throws kInvalidArgument where they do not
// fit.
int64_t WrittenFrom(int64_t start, int64_t count, int64_t length, bool circular);

}  // namespace sardonyx::core
