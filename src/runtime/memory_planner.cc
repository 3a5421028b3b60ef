#include "runtime/memory_planner.h"

#include <algorithm>
#include <numeric>

#include "base/round.h"

namespace sardonyx {

int64_t PlanMemory(std::vector<Lifetime>* lifetimes) {
  std::vector<Lifetime>& all = *lifetimes;
  std::vector<int> by_size(all.size());
  std::iota(by_size.begin(), by_size.end(), 0);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](int a, int b) { return all[a].bytes > all[b].bytes; });
  std::vector<int> placed;  // by offset
  int64_t arena = 0;
  for (int index : by_size) {
    Lifetime& life = all[index];
    const int64_t bytes = AlignBytes(life.bytes);
    int64_t offset = 0;
    for (int other_index : placed) {
      const Lifetime& other = all[other_index];
      if (other.last < life.first || other.first > life.last) continue;
      if (offset + bytes <= other.offset) break;
      offset = std::max(offset, other.offset + AlignBytes(other.bytes));
    }
    life.offset = offset;
    arena = std::max(arena, offset + bytes);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), index,
                                   [&](int a, int b) { return all[a].offset < all[b].offset; }),
                  index);
  }
  return arena;
}

}  // namespace sardonyx
