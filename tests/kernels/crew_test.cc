#include "kernels/crew.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace sardonyx {
namespace {

TEST(Crew, DoesEachPartOfEachPhaseOnceAndPhasesInOrder) {
  for (const int threads : {1, 2, 5}) {
    for (const int parts : {1, 2, 3, 16}) {
      const int64_t phases = threads * parts > 16 ? 50 : 500;
      std::atomic<int64_t> done{0};
      std::vector<std::atomic<int>> times(static_cast<size_t>(phases * parts));
      std::atomic<bool> in_order{true};
      const auto body = [&](int64_t phase, int part) {
        if (done.load() < phase * parts) in_order = false;
        times[static_cast<size_t>(phase * parts + part)].fetch_add(1);
        done.fetch_add(1);
      };
      Crew(phases, parts, body).Run({&ThreadPool::Process(), threads});
      EXPECT_TRUE(in_order);
      EXPECT_EQ(done, phases * parts);
      for (const auto& count : times) EXPECT_EQ(count, 1);
    }
  }
}

TEST(Crew, NoPhases) {
  const auto body = [](int64_t, int) { FAIL(); };
  Crew(0, 3, body).Run({nullptr, 1});
}

}  // namespace
}  // namespace sardonyx
