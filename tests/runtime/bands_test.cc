// Steps that go through an image together, some lines at a time: the same bits as one by one.

#include <gtest/gtest.h>

#include <cstring>

#include "run_graph.h"

namespace sardonyx {
namespace {

std::unique_ptr<Program> MakeProgram(const std::string& text, int threads, bool bands) {
  ProgramOptions options;
  options.threads = threads;
  options.bands = bands;
  std::shared_ptr<Graph> graph = Parse(text);
  Optimize(*graph);
  return std::make_unique<Program>(std::move(graph), CpuDevice(), std::make_shared<PackCache>(),
                                   std::move(options));
}

// A graph of one input, with so many lines of the plan that say "bands".
void Check(const std::string& text, const std::vector<int64_t>& dims, int joined) {
  SCOPED_TRACE(text);
  std::mt19937 random(11);
  const std::vector<Datum> inputs = {RandomTensor(DType::kFloat32, dims, random)};
  const std::vector<Datum> expected = MakeProgram(text, 1, false)->Run(inputs);
  for (const int threads : {1, 2, 3}) {
    const auto program = MakeProgram(text, threads, true);
    const std::string plan = Explain(*program->PlanFor({dims}));
    int found = 0;
    for (size_t at = plan.find(" bands "); at != std::string::npos;
         at = plan.find(" bands ", at + 1))
      ++found;
    EXPECT_EQ(found, joined) << plan;
    for (int run = 0; run < 2; ++run) {
      const std::vector<Datum> actual = program->Run(inputs);
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t i = 0; i < actual.size(); ++i) {
        const Tensor &a = *actual[i].tensor(), &b = *expected[i].tensor();
        ASSERT_EQ(a.dims(), b.dims());
        ASSERT_EQ(std::memcmp(a.raw(), b.raw(), a.bytes()), 0) << threads << " threads";
      }
    }
  }
  ExpectSameAll(expected, Evaluate(*Parse(text), inputs), 1e-4);
}

// x -> pointwise -> a convolution of each channel -> pointwise.
std::string Block(int64_t channels, int64_t inner, int64_t kernel, const std::string& attributes,
                  const std::string& more) {
  return fmt::format(R"(graph g
input x: float[n,h,w,{0}]
const w1: float[{1},{0},1,1] = random
const w2: float[{1},1,{2},{2}] = random
const w3: float[{0},{1},1,1] = random
const b: float[{1}] = random
a = conv(x, w1)
c = add(a, b)
r = relu(c)
d = conv(r, w2) {{group={1}, {3}}}
e = relu(d)
y = conv(e, w3)
{4})",
                     channels, inner, kernel, attributes, more);
}

TEST(Bands, NarrowImages) {
  // One line of fewer than 8 pixels would be summed in another order than all of them.
  for (const int64_t width : {3, 7, 8}) {
    Check(Block(8, 512, 3, "pads=[1,1,1,1]", "output y\n"), {1, 201, width, 8}, width == 8 ? 1 : 0);
  }
}

TEST(Bands, KernelsStridesAndHeights) {
  for (const int64_t lines : {61, 64, 75}) {
    const std::vector<int64_t> dims = {1, lines, 60, 8};
    for (const std::string attributes :
         {"pads=[1,1,1,1]", "pads=[0,1,0,1]", "pads=[1,1,1,1], strides=[2,2]",
          "pads=[2,0,0,1], strides=[3,1]", "pads=[2,2,2,2], dilations=[2,2]"}) {
      Check(Block(8, 96, 3, attributes, "output y\n"), dims, 1);
    }
    Check(Block(8, 96, 5, "pads=[2,2,2,2]", "output y\n"), dims, 1);
    Check(Block(8, 96, 5, "pads=[2,2,2,2], strides=[2,1]", "output y\n"), dims, 1);
    Check(Block(8, 96, 7, "pads=[3,3,3,3]", "output y\n"), dims, 1);
  }
}

TEST(Bands, PixelsThatLieApart) {
  // Of so many channels they would collide in a cache.
  for (const int64_t lines : {31, 64}) {
    Check(Block(8, 256, 3, "pads=[1,1,1,1]", "output y\n"), {1, lines, 60, 8}, 1);
    Check(Block(8, 384, 5, "pads=[2,2,2,2]", "output y\n"), {1, lines, 60, 8}, 1);
  }
}

TEST(Bands, ResidualsAndActivations) {
  const std::vector<int64_t> dims = {1, 62, 60, 16};
  Check(Block(16, 80, 3, "pads=[1,1,1,1]", "z = add(y, x)\noutput z\n"), dims, 1);
  // One behind the other: the end of the first is read by two.
  const std::string second = R"(z = add(y, x)
const v1: float[80,16,1,1] = random
const v2: float[80,1,3,3] = random
const v3: float[24,80,1,1] = random
f = conv(z, v1)
s = sigmoid(f)
g = mul(f, s)
i = conv(g, v2) {group=80, pads=[1,1,1,1], strides=[2,2]}
k = conv(i, v3)
output k
output z
)";
  Check(Block(16, 80, 3, "pads=[1,1,1,1]", second), dims, 2);
}

TEST(Bands, NotWhereOthersRead) {
  const std::vector<int64_t> dims = {1, 62, 60, 16};
  Check(Block(16, 80, 3, "pads=[1,1,1,1]", "output y\noutput r\noutput e\n"), dims, 0);
  Check(Block(16, 80, 3, "pads=[1,1,1,1]",
              "m = reduce(e) {kind=\"max\", axes=[1,2], keepdims=0}\noutput y\noutput m\n"),
        dims, 1);  // still the first two
  Check(Block(16, 80, 3, "pads=[1,1,1,1]", "output y\n"), {1, 20, 20, 16}, 0);  // small
  Check(Block(64, 80, 3, "pads=[1,1,1,1]", "m = relu(y)\noutput m\n"), {1, 62, 60, 64},
        0);  // much is multiplied for what lies between
  Check(Block(16, 80, 3, "pads=[1,1,1,1]", "output y\n"), {2, 62, 60, 16}, 0);  // two items
}

TEST(Bands, PartsOfWholes) {
  Check(Block(16, 80, 3, "pads=[1,1,1,1]", "z = concat(x, y) {axis=3}\noutput z\n"),
        {1, 62, 60, 16}, 1);
}

}  // namespace
}  // namespace sardonyx
