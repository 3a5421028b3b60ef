#include "runtime/memory_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace sardonyx {
namespace {

int64_t Rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// The least that any placement needs: the most that lives at one step.
int64_t LowerBound(const std::vector<Lifetime>& lives) {
  int64_t most = 0;
  for (const Lifetime& at : lives) {
    int64_t now = 0;
    for (const Lifetime& life : lives) {
      if (life.first <= at.first && at.first <= life.last) now += Rounded(life.bytes);
    }
    most = std::max(most, now);
  }
  return most;
}

void ExpectSound(const std::vector<Lifetime>& lives, int64_t arena) {
  for (size_t i = 0; i < lives.size(); ++i) {
    const Lifetime& a = lives[i];
    EXPECT_GE(a.offset, 0);
    EXPECT_EQ(a.offset % 64, 0);
    EXPECT_LE(a.offset + a.bytes, arena);
    for (size_t j = 0; j < i; ++j) {
      const Lifetime& b = lives[j];
      const bool together = a.first <= b.last && b.first <= a.last;
      const bool overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
      EXPECT_FALSE(together && overlap) << i << " and " << j;
    }
  }
}

TEST(MemoryPlanner, ReusesWhatIsDead) {
  std::vector<Lifetime> lives = {{100, 0, 1}, {100, 1, 2}, {100, 2, 3}};
  EXPECT_EQ(PlanMemory(&lives), 256);
  EXPECT_EQ(lives[0].offset, lives[2].offset);
  ExpectSound(lives, 256);
}

TEST(MemoryPlanner, FillsGaps) {
  std::vector<Lifetime> lives = {{1024, 0, 9}, {512, 0, 2}, {256, 3, 4}, {256, 3, 9}, {64, 0, 9}};
  const int64_t arena = PlanMemory(&lives);
  EXPECT_EQ(arena, LowerBound(lives));
  ExpectSound(lives, arena);
}

TEST(MemoryPlanner, NothingNeedsNothing) {
  std::vector<Lifetime> none;
  EXPECT_EQ(PlanMemory(&none), 0);
  std::vector<Lifetime> empty = {{0, 0, 3}, {0, 1, 2}};
  EXPECT_EQ(PlanMemory(&empty), 0);
}

TEST(MemoryPlanner, RandomLifetimes) {
  std::mt19937 random(1);
  double worst = 1;
  for (int round = 0; round < 300; ++round) {
    std::vector<Lifetime> lives(1 + random() % 60);
    for (Lifetime& life : lives) {
      life.bytes = static_cast<int64_t>(random() % 5000);
      life.first = static_cast<int>(random() % 40);
      life.last = life.first + static_cast<int>(random() % 8);
    }
    const int64_t arena = PlanMemory(&lives);
    ExpectSound(lives, arena);
    const int64_t least = LowerBound(lives);
    EXPECT_GE(arena, least);
    if (least > 0) worst = std::max(worst, static_cast<double>(arena) / static_cast<double>(least));
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
  EXPECT_LT(worst, 1.5);
}

}  // namespace
}  // namespace sardonyx
