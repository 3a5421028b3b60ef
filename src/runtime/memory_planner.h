#pragma once
// Where in one arena each buffer of a plan lies: buffers that live at the same time do not overlap.

#include <cstdint>
#include <vector>

namespace sardonyx {

struct Lifetime {
  int64_t bytes;
  int first;           // step that writes it
  int last;            // last step that reads it
  int64_t offset = 0;  // result, a multiple of 64
};

// Sets the offsets; returns the size of the arena. Largest first, each at the lowest place that is
// free during its life ("greedy by size", Pisarchyk and Lee, arXiv:2001.03288).
int64_t PlanMemory(std::vector<Lifetime>* lifetimes);

}  // namespace sardonyx
