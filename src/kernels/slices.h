#pragma once
// Cutting work for Parallel::For at boundaries that depend on the sizes alone.

#include <algorithm>
#include <cstdint>

namespace sardonyx {

struct Slices {
  int64_t tasks = 1;
  int64_t step = 0;  // items a task

  int64_t Begin(int64_t task) const { return task * step; }
  int64_t End(int64_t task, int64_t count) const { return std::min(count, (task + 1) * step); }
};

// Cuts `count` items of `cost` each (about nanoseconds) so that a task has at least 20 µs of work
// and there are at most 32 tasks. Items are handed out in multiples of `multiple`.
inline Slices Slice(int64_t count, int64_t cost, int64_t multiple = 1) {
  constexpr int64_t kLeastCost = 20'000, kMostTasks = 32;
  Slices slices;
  if (count <= 0) return {0, 0};
  const int64_t least = (kLeastCost + std::max<int64_t>(cost, 1) - 1) / std::max<int64_t>(cost, 1);
  slices.step = std::max(least, (count + kMostTasks - 1) / kMostTasks);
  slices.step = std::min(count, (slices.step + multiple - 1) / multiple * multiple);
  slices.tasks = (count + slices.step - 1) / slices.step;
  return slices;
}

}  // namespace sardonyx
