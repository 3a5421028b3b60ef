#include "runtime/thread_choice.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "run_graph.h"

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

// While a plan compares, its runs take one thread and all of them in turn: with the same scratch,
// and the same bits.
TEST(ThreadChoice, RunsOfAPlanAreTheSame) {
  const std::string text = R"(graph g
input x: float[1,3,h,w]
const w1: float[32,3,3,3] = random
const w2: float[32,1,3,3] = random
const w3: float[24,32,1,1] = random
const w4: float[24,24,3,3] = random
p = transpose(x) {perm=[0,2,3,1]}
a = conv(p, w1) {pads=[1,1,1,1], strides=[2,2]}
b = conv(a, w2) {group=32, pads=[1,1,1,1]}
c = conv(b, w3)
d = conv(c, w4) {pads=[1,1,1,1]}
y = softmax(d) {axis=3, log=0}
output y
)";
  const std::vector<int64_t> dims = {1, 3, 44, 36};
  std::mt19937 random(5);
  const std::vector<Datum> inputs = {RandomTensor(DType::kFloat32, dims, random)};
  const Tensor expected = *MakeProgram(text, 1)->Run(inputs)[0].tensor();
  for (const int threads : {2, 3}) {
    const auto program = MakeProgram(text, threads);
    ASSERT_NE(program->PlanFor({dims})->thread_choice, nullptr);
    for (int run = 0; run < 100; ++run) {
      const Tensor actual = *program->Run(inputs)[0].tensor();
      ASSERT_EQ(actual.dims(), expected.dims());
      ASSERT_EQ(std::memcmp(actual.raw(), expected.raw(), expected.bytes()), 0) << "run " << run;
    }
  }
}

}  // namespace
}  // namespace sardonyx
