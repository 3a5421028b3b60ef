#pragma once
// Steps that run by lines: where a step alone reads what the one before writes, the device may make
// one of both, so that the value between them never leaves the cache.

#include <vector>

#include "runtime/plan.h"

namespace sardonyx {

// Joins pairs of the plan's steps, those with the largest values between them first. `roots` has
// for each value the one in whose memory it lies.
void JoinSteps(const Device& device, int threads, const std::vector<int>& roots, Plan* plan);

}  // namespace sardonyx
