// Concats whose parts are written in place: against the reference, and that they make no step.

#include "runtime/joins.h"

#include <gtest/gtest.h>

#include "run_graph.h"

namespace sardonyx {
namespace {

int ConcatSteps(const Plan& plan) {
  return static_cast<int>(std::count_if(plan.steps.begin(), plan.steps.end(), [](const Step& step) {
    return step.node->op == &core::concat;
  }));
}

// Runs the graph on one and two threads, for other shapes and the first again, and expects as many
// concats to remain.
void Check(const std::string& text, int steps) {
  for (const int run : {0, 1, 2, 3}) {
    const int threads = 1 + run % 2;
    const bool optimised = run >= 2;
    SCOPED_TRACE(fmt::format("{} threads, optimised: {}", threads, optimised));
    const std::shared_ptr<Graph> graph = Parse(text);
    if (optimised) Optimize(*graph);
    const auto program = MakeProgram(graph, threads, 1);
    for (const unsigned seed : {1u, 2u, 1u}) {
      std::mt19937 random(seed);
      std::vector<Datum> inputs;
      for (const Value* input : graph->inputs) {
        std::vector<int64_t> dims;
        for (const Dim dim : *input->fact.shape) {
          dims.push_back(dim.known() ? dim.value() : 5 + 6 * static_cast<int64_t>(seed));
        }
        inputs.emplace_back(RandomTensor(input->fact.type.dtype, dims, random));
      }
      const auto plan = program->PlanFor(DimsOf(inputs));
      EXPECT_EQ(ConcatSteps(*plan), steps) << Explain(*plan);
      ExpectRuns(*program, inputs);
    }
  }
}

// SqueezeNet's: both parts are convolutions, one of them by Winograd.
TEST(Joins, Convolutions) {
  Check(R"(graph g
input x: float[b,h,13,16]
const w1: float[24,16,1,1] = random
const w3: float[40,16,3,3] = random
const w: float[7,64,1,1] = random
const less: float[1] = {0.02}
z = mul(x, less)
a = conv(z, w1)
ar = relu(a)
c = conv(z, w3) {pads=[1, 1, 1, 1]}
cr = relu(c)
j = concat(ar, cr) {axis=3}
y = conv(j, w)
output y
)",
        0);
}

// U-Net's: one part is also pooled and goes through a function, the other is a transposed
// convolution, and the whole is read by two.
TEST(Joins, APartThatOthersRead) {
  Check(R"(graph g
input x: float[2,12,h,8]
const w: float[16,8,3,3] = random
const wd: float[24,16,3,3] = random
const wu: float[24,20,2,2] = random
const wy: float[8,36,3,3] = random
const less: float[1] = {0.002}
z = mul(x, less)
a = conv(z, w) {pads=[1, 1, 1, 1]}
p = max_pool(a) {kernel=[2, 2], strides=[2, 2], pads=[0, 1, 0, 0]}
q = mul(p, less)
d = conv(q, wd) {pads=[1, 1, 1, 1]}
u = conv_transpose(d, wu) {strides=[2, 2], pads=[0, 1, 0, 0]}
j = concat(a, u) {axis=3}
y = conv(j, wy) {pads=[1, 1, 1, 1]}
s = sigmoid(a)
t = tanh(j)
m = average_pool(a) {kernel=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]}
n = conv(a, wd)
output y
output s
output t
output m
output n
)",
        0);
}

// DenseNet's: each whole is a part of the next, and read with rows apart.
TEST(Joins, WholesThatAreParts) {
  Check(R"(graph g
input x: float[b,h,9,6]
const w0: float[8,6,3,3] = random
const w1: float[5,8,3,3] = random
const w2: float[5,13,3,3] = random
const w3: float[5,18,1,1] = random
const s1: float[13] = random
const s2: float[18] = random
a = conv(x, w0) {pads=[1, 1, 1, 1]}
p = max_pool(a) {kernel=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1]}
b1 = conv(p, w1) {pads=[1, 1, 1, 1]}
j1 = concat(p, b1) {axis=3}
n1 = mul(j1, s1)
r1 = relu(n1)
b2 = conv(r1, w2) {pads=[1, 1, 1, 1]}
j2 = concat(j1, b2) {axis=3}
n2 = add(j2, s2)
r2 = relu(n2)
b3 = conv(r2, w3)
j3 = concat(j2, b3) {axis=3}
output j3
)",
        0);
}

// A pyramid's: what was small is enlarged beside what is large.
TEST(Joins, Resized) {
  for (const char* mode : {"nearest", "linear"}) {
    SCOPED_TRACE(mode);
    Check(fmt::format(R"(graph g
input x: float[2,h,9,6]
const sizes: int64[2] = {{36, 18}}
const w: float[12,6,3,3] = random
const v: float[5,12,1,1] = random
a = conv(x, w) {{pads=[1, 1, 1, 1]}}
p = max_pool(a) {{kernel=[2, 2], strides=[2, 2]}}
c = conv(p, v)
u = resize(p, _, _, sizes) {{mode="{0}", axes=[1, 2]}}
d = resize(c, _, _, sizes) {{mode="{0}", axes=[1, 2]}}
e = sigmoid(u)
j = concat(u, e, d) {{axis=3}}
output j
)",
                      mode),
          0);
  }
}

// What cannot move is copied beside what did: inputs, constants, outputs, a part that comes twice,
// one whose writer or reader takes no rows apart.
TEST(Joins, PartsThatStay) {
  Check(R"(graph g
input x: float[2,h,9,6]
const w: float[8,6,3,3] = random
a = conv(x, w) {pads=[1, 1, 1, 1]}
j = concat(x, a, a) {axis=3}
output j
)",
        1);
  Check(R"(graph g
input x: float[2,h,9,6]
const w: float[8,6,3,3] = random
a = conv(x, w) {pads=[1, 1, 1, 1]}
c = conv(x, w) {pads=[1, 1, 1, 1], dilations=[1, 1]}
j = concat(c, a) {axis=3}
i = concat(a, c) {axis=3}
output a
output j
output i
)",
        2);
  Check(R"(graph g
input x: float[2,h,9,6]
const w: float[8,6,3,3] = random
a = conv(x, w) {pads=[1, 1, 1, 1]}
e = exp(x)
m = softmax(a) {axis=2}
j = concat(a, e) {axis=3}
output m
output j
)",
        1);
  Check(R"(graph g
input x: float[2,h,9,6]
const w: float[6,6,3,3] = random
const v: float[9,9] = random
a = conv(x, w) {pads=[1, 1, 1, 1]}
t = transpose(a) {perm=[0, 1, 3, 2]}
z = matmul(t, v)
r = add(a, x)
j = concat(a, r) {axis=3}
output z
output j
)",
        1);
}

// Parts without elements, beside others and alone.
TEST(Joins, Empty) {
  Check(R"(graph g
input x: float[2,3,0]
input y: float[2,3,4]
a = relu(x)
s = sigmoid(a)
b = exp(y)
j = concat(a, b) {axis=2}
output s
output j
)",
        0);
  Check(R"(graph g
input x: float[0,3,4]
a = relu(x)
b = exp(x)
j = concat(a, b) {axis=2}
y = tanh(j)
output y
)",
        0);
}

// A part is the residual operand of a convolution.
TEST(Joins, Residuals) {
  Check(R"(graph g
input x: float[2,h,9,6]
const w: float[8,6,3,3] = random
const v: float[8,8,1,1] = random
a = conv(x, w) {pads=[1, 1, 1, 1]}
c = conv(a, v)
d = add(c, a)
r = relu(d)
j = concat(r, a) {axis=3}
output j
)",
        0);
}

// Parts that lie one behind the other take any writer and reader, and views.
TEST(Joins, OneRow) {
  Check(R"(graph g
input x: float[1,h,6]
input y: float[h,6]
const s: int64[3] = {1, -1, 6}
const w: float[6,6] = random
a = softmax(x) {axis=2}
m = matmul(y, w)
v = reshape(m, s) {allowzero=0}
e = exp(a)
j = concat(e, v, a) {axis=1}
output j
)",
        0);
}

// Rows of another type, whose whole is itself written into an output, and a mean that reads a part.
TEST(Joins, InsideOfOneRow) {
  Check(R"(graph g
input x: float[h,7,6]
const w: float[4,6,1] = random
const v: float[5,6,3] = random
a = conv(x, w)
b = conv(x, v) {pads=[1, 1]}
j = concat(a, b) {axis=2}
t = concat(b, a) {axis=2}
u = unsqueeze(j) {axes=[0]}
e = unsqueeze(t) {axes=[0]}
y = concat(u, e) {axis=0}
output y
)",
        1);
}

}  // namespace
}  // namespace sardonyx
