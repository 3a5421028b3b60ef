#include "runtime/thread_choice.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

namespace sardonyx {
namespace {

// Runs that take as long as `ns` says for so many threads.
void Repeat(ThreadChoice& choice, int runs, const std::function<int64_t(int threads)>& ns) {
  for (int i = 0; i < runs; ++i) {
    const ThreadChoice::Ticket ticket = choice.Begin();
    choice.End(ticket, ns(ticket.threads));
  }
}

TEST(ThreadChoice, TakesFewerWhereTheseAreFaster) {
  ThreadChoice two(2), eight(8), six(6);
  Repeat(two, 100, [](int threads) { return threads == 1 ? 300'000 : 400'000; });
  EXPECT_EQ(two.threads(), 1);
  Repeat(eight, 200, [](int threads) { return threads == 2 ? 300'000 : 400'000; });
  EXPECT_EQ(eight.threads(), 8);  // four are no faster, and nobody looks further
  Repeat(eight, 2000, [](int threads) { return 100'000 + std::abs(threads - 2) * 50'000; });
  EXPECT_EQ(eight.threads(), 2);
  Repeat(six, 200, [](int threads) { return 100'000 * threads; });
  EXPECT_EQ(six.threads(), 1);
}

TEST(ThreadChoice, KeepsAllWhereFewerGainLittle) {
  ThreadChoice choice(2);
  Repeat(choice, 100, [](int threads) { return threads == 1 ? 390'000 : 400'000; });
  EXPECT_EQ(choice.threads(), 2);
}

TEST(ThreadChoice, LongRunsTakeAllAndAreNotTimed) {
  ThreadChoice choice(2);
  int fewer = 0;
  Repeat(choice, 500, [&](int threads) {
    fewer += threads == 1;
    return threads == 1 ? 4'000'000 : 5'000'000;
  });
  EXPECT_EQ(choice.threads(), 2);
  EXPECT_EQ(fewer, 0);
}

// One slow run, as when the processor is taken away, does not count.
TEST(ThreadChoice, IsNotMisledByOneRun) {
  ThreadChoice choice(2);
  int run = 0;
  Repeat(choice, 100, [&](int threads) {
    const int64_t ns = threads == 1 ? 400'000 : 300'000;
    return ++run % 7 == 0 ? 5 * ns : ns;
  });
  EXPECT_EQ(choice.threads(), 2);
}

TEST(ThreadChoice, LooksAgain) {
  ThreadChoice choice(2);
  Repeat(choice, 100, [](int threads) { return threads == 1 ? 300'000 : 400'000; });
  EXPECT_EQ(choice.threads(), 1);
  Repeat(choice, 1100, [](int threads) { return threads == 1 ? 300'000 : 200'000; });
  EXPECT_EQ(choice.threads(), 2);
}

TEST(ThreadChoice, FailedRunsDoNotCount) {
  ThreadChoice choice(2);
  Repeat(choice, 300, [](int) { return -1; });
  EXPECT_EQ(choice.threads(), 2);
  Repeat(choice, 100, [](int threads) { return threads == 1 ? 300'000 : 400'000; });
  EXPECT_EQ(choice.threads(), 1);
}

TEST(ThreadChoice, ManyCallers) {
  ThreadChoice choice(2);
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      Repeat(choice, 2000, [](int threads) { return threads == 1 ? 300'000 : 400'000; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(choice.threads(), 1);
}

}  // namespace
}  // namespace sardonyx
