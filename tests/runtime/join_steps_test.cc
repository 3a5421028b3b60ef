// Steps that run together by lines: which are joined, and that joining changes no bit.

#include "runtime/join_steps.h"

#include <gtest/gtest.h>

#include "run_graph.h"

namespace sardonyx {
namespace {

bool IsJoined(Program& program, const std::vector<Datum>& inputs) {
  const std::string plan = Explain(*program.PlanFor(DimsOf(inputs)));
  return plan.find(" by lines ") != std::string::npos;
}

// `last` computes y from the value a, which is larger than the caches of three threads, and the
// constants. With a as an output as well the steps stay two.
void ExpectJoins(const std::string& first, const std::string& last) {
  SCOPED_TRACE(first + last);
  const std::string text =
      "graph g\ninput x: float[2,61,67,3]\nconst w: float[128,3,1,1] = random\n"
      "const b: float[128] = random\n"
      "const d: float[128,1,3,3] = random\nconst e: float[128,1,5,5] = random\n"
      "const f: float[128,1,7,7] = random\nconst p: float[9,128,1,1] = random\n" +
      first + last + "output y\n";
  std::mt19937 random(5);
  const std::vector<Datum> inputs = {RandomTensor(DType::kFloat32, {2, 61, 67, 3}, random)};
  std::shared_ptr<Graph> parted = Parse(text + "output a\n");
  const auto two = MakeProgram(parted, 1);
  EXPECT_FALSE(IsJoined(*two, inputs));
  const std::vector<Datum> expected = two->Run(inputs);
  ExpectSame(expected[0], Evaluate(*parted, inputs)[0], 2e-4);
  for (const int threads : {1, 2, 3}) {
    std::shared_ptr<Graph> graph = Parse(text);
    Optimize(*graph);
    const auto program = MakeProgram(graph, threads);
    EXPECT_TRUE(IsJoined(*program, inputs)) << threads;
    for (int run = 0; run < 2; ++run) {
      const Tensor y = *program->Run(inputs)[0].tensor();
      EXPECT_TRUE(BitEqual(y, *expected[0].tensor())) << threads << " threads";
    }
  }
}

const char kPointwise[] = "s = conv(x, w)\nt = add(s, b)\na = relu(t)\n";

TEST(JoinSteps, ConvolutionAndDepthwise) {
  for (const std::string stride : {"1", "2", "3"}) {
    const std::string attributes = "group=128, strides=[" + stride + "," + stride + "]";
    ExpectJoins(kPointwise, "y = conv(a, d) {" + attributes + ", pads=[1,1,1,1]}\n");
    ExpectJoins(kPointwise, "q = conv(a, e) {" + attributes + ", pads=[2,2,2,1]}\ny = relu(q)\n");
  }
  ExpectJoins(kPointwise, "y = conv(a, d) {group=128, dilations=[2,2], pads=[0,1,3,1]}\n");
  ExpectJoins(kPointwise, "y = conv(a, f) {group=128, pads=[6,3,1,3]}\n");
}

TEST(JoinSteps, ConvolutionAndPool) {
  ExpectJoins(kPointwise, "y = max_pool(a) {kernel=[3,3], strides=[2,2]}\n");
  ExpectJoins(kPointwise,
              "y = max_pool(a) {kernel=[3,2], strides=[2,2], pads=[1,0,1,1], ceil_mode=1}\n");
}

TEST(JoinSteps, ResidualsAreReadByLines) {
  ExpectJoins(std::string(kPointwise) + "r = max_pool(x) {kernel=[1,1]}\nu = conv(r, w)\n",
              "z = conv(a, d) {group=128, pads=[1,1,1,1]}\ny = add(z, u)\n");
  ExpectJoins(kPointwise, "y = conv(a, p)\n");
}

TEST(JoinSteps, ValuesThatOthersReadStay) {
  for (const std::string reader : {"z = reduce(a) {axes=[1,2], kind=\"mean\"}\noutput z\n",
                                   "z = reshape(a, shape)\noutput z\n"}) {
    const std::shared_ptr<Graph> graph =
        Parse(std::string("graph g\ninput x: float[1,65,65,3]\nconst w: float[128,3,1,1] = random\n"
                          "const d: float[128,1,3,3] = random\n"
                          "const shape: int64[2] = {65, 8320}\na = conv(x, w)\n"
                          "y = conv(a, d) {group=128}\noutput y\n") +
              reader);
    std::mt19937 random(5);
    const std::vector<Datum> inputs = RandomInputs(*graph, random);
    const auto program = MakeProgram(graph);
    EXPECT_FALSE(IsJoined(*program, inputs));
  }
}

}  // namespace
}  // namespace sardonyx
