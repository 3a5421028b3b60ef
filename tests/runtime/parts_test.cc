// Parts that are written, or read, where they lie in the whole: against the reference, and that
// concats, splits and slices make no step.

#include "runtime/parts.h"

#include <gtest/gtest.h>

#include <optional>

#include "run_graph.h"

namespace sardonyx {
namespace {

int PartSteps(const Plan& plan) {
  return static_cast<int>(std::count_if(plan.steps.begin(), plan.steps.end(), [](const Step& step) {
    const CoreOp* op = step.node->op;
    return op == &core::concat || op == &core::split || op == &core::slice;
  }));
}

// Runs the graph on one and two threads, for other shapes and the first again, and expects as many
// concats, splits and slices to remain; with other passes perhaps another number.
void Check(const std::string& text, int steps, std::optional<int> optimised_steps = {}) {
  for (const int run : {0, 1, 2, 3}) {
    const int threads = 1 + run % 2;
    const bool optimised = run >= 2;
    SCOPED_TRACE(fmt::format("{} threads, optimised: {}", threads, optimised));
    const std::shared_ptr<Graph> graph = Parse(text);
    if (optimised) Optimize(*graph);
    const auto program = MakeProgram(graph, threads, 1);
    for (const unsigned seed : {1u, 2u, 1u}) {
      const std::vector<Datum> inputs = RandomInputs(*graph, seed);
      const auto plan = program->PlanFor(DimsOf(inputs));
      EXPECT_EQ(PartSteps(*plan), optimised ? optimised_steps.value_or(steps) : steps)
          << Explain(*plan);
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
a = softmax(x) {axis=3}
c = conv(x, w) {pads=[1, 1, 1, 1]}
r = add(c, a)
j = concat(a, r) {axis=3}
output c
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

// A gated layer's, and what products, pools and sums make of columns.
TEST(Parts, OfASplit) {
  Check(R"(graph g
input x: float[2,h,9,6]
const sizes: int64[3] = {8, 8, 5}
const w: float[21,6,3,3] = random
const w1: float[7,8,1,1] = random
const w3: float[8,5,3,3] = random
const m: float[8,9] = random
const n: float[9,8] = random
z = conv(x, w) {pads=[1, 1, 1, 1]}
a, b, c = split(z, sizes) {axis=3}
s = sigmoid(b)
g = mul(a, s)
v = conv(b, w1)
d = conv(c, w3) {pads=[1, 1, 1, 1]}
e = add(d, a)
p = max_pool(c) {kernel=[2, 2], strides=[2, 2]}
f = matmul(a, m)
k = matmul(f, n)
l = add(k, b)
output g
output v
output e
output p
output f
output l
)",
        0);
}

// YOLO's: of two halves one goes on, and all are side by side again.
TEST(Parts, SplitAndJoined) {
  Check(R"(graph g
input x: float[2,h,9,6]
const sizes: int64[2] = {8, 8}
const w: float[16,6,1,1] = random
const w1: float[8,8,3,3] = random
const w2: float[8,8,3,3] = random
const v: float[10,32,1,1] = random
const less: float[1] = {0.02}
z = conv(x, w)
a, b = split(z, sizes) {axis=3}
r = relu(b)
c = conv(r, w1) {pads=[1, 1, 1, 1]}
t = mul(c, less)
d = conv(t, w2) {pads=[1, 1, 1, 1]}
e = add(d, b)
j = concat(e, c, b, a) {axis=3}
y = conv(j, v)
output y
)",
        1);
}

// Columns of columns, of an input, of what lies in a concat, and of such.
TEST(Parts, OfParts) {
  Check(R"(graph g
input x: float[2,h,20]
const sizes: int64[3] = {9, 8, 3}
const halves: int64[2] = {4, 5}
const from: int64[1] = {-7}
const to: int64[1] = {100}
const last: int64[1] = {2}
const w: float[11,20,1] = random
a, b, c = split(x, sizes) {axis=-1}
d, e = split(a, halves) {axis=2}
f = slice(x, from, to, last)
g = slice(b, from, to, last)
y = tanh(d)
z = mul(e, e)
u = conv(x, w)
v = exp(c)
j = concat(u, v) {axis=2}
k = slice(u, from, to, last)
o = slice(j, from, to, last)
p = exp(f)
q = relu(g)
r = neg(k)
s = sub(f, o)
output y
output z
output j
output p
output q
output r
output s
)",
        0);
}

// What must be copied: outputs, what a row's normalisation reads, rows backwards, rows of columns
// that are not the last axis; beside it the others stay where they are.
TEST(Parts, ThatAreCopied) {
  Check(R"(graph g
input x: float[2,h,12]
const sizes: int64[4] = {3, 3, 4, 2}
const start: int64[1] = {-1}
const end: int64[1] = {-9}
const axis: int64[1] = {2}
const back: int64[1] = {-1}
e = exp(x)
a, b, c, d = split(e, sizes) {axis=2}
l = softmax(b) {axis=2}
r = slice(e, start, end, axis, back)
s = add(r, r)
t = add(a, l)
u = mul(c, c)
output t
output u
output s
output d
)",
        2);
  Check(R"(graph g
input x: float[2,6,h]
const sizes: int64[2] = {2, 4}
e = exp(x)
a, b = split(e, sizes) {axis=1}
u = mul(a, a)
v = neg(b)
output u
output v
)",
        1);
}

// Rows of bytes and of numbers that no tile has.
TEST(Parts, OfOtherTypes) {
  for (const char* type : {"int64", "double", "int32"}) {
    SCOPED_TRACE(type);
    Check(fmt::format(R"(graph g
input x: {}[3,h,7]
const sizes: int64[2] = {{3, 4}}
e = add(x, x)
a, b = split(e, sizes) {{axis=2}}
u = mul(a, a)
v = neg(b)
output u
output v
)",
                      type),
          0);
  }
}

// Products write their rows apart, and read such as A, as B and in what they add.
// Sweeps over many short rows are faster with copies around them: those of boxes.
TEST(Parts, ShortRowsOfSweeps) {
  Check(R"(graph g
input x: float[8400,4]
const s: float[1] = {0.5}
a, b = split(x) {axis=1}
c = sub(a, b)
d = mul(b, s)
y = concat(c, d) {axis=1}
output y
)",
        2);
}

TEST(Parts, OfProducts) {
  Check(R"(graph g
input x: float[3,h,6]
input z: float[3,7,h]
const v: float[6,9] = random
const w: float[6,5] = random
const u: float[3,9,4] = random
const i: float[9,5] = random
a = matmul(x, v)
b = matmul(x, w)
c = matmul(a, i)
d = add(c, b)
e = relu(d)
f = matmul(a, u)
g = matmul(z, b)
k = matmul(x, b) {trans_a=1}
j = concat(a, b, e, f) {axis=2}
output g
output k
output j
)",
        0);
}

// What an attention reads of one product: heads are a view of the part's rows. Columns of heads are
// not evenly apart, so the slice copies.
TEST(Parts, SeenAsSeveralAxes) {
  Check(R"(graph g
input x: float[2,h,16]
const w: float[16,72] = random
const sizes: int64[3] = {24, 24, 24}
const heads: int64[4] = {0, 0, 3, 8}
const rows: int64[2] = {-1, 24}
const from: int64[1] = {3}
const to: int64[1] = {7}
const axis: int64[1] = {3}
const times: int64[4] = {1, 1, 2, 1}
m = matmul(x, w)
a, b, c = split(m, sizes) {axis=2}
q = reshape(a, heads)
k = reshape(b, heads)
v = reshape(c, heads)
y = attention(q, k, v) {perm_q=[0, 2, 1, 3], perm_k=[0, 2, 1, 3], perm_v=[0, 2, 1, 3]}
s = sigmoid(k)
t = transpose(v) {perm=[1, 2, 0, 3]}
u = reshape(c, rows)
r = tanh(u)
d = slice(k, from, to, axis)
e = tile(q, times)
output y
output s
output t
output r
output d
output e
)",
        1);
}

// A view of other rows: the part that it sees is copied, the other one is not.
TEST(Parts, SeenAcrossRows) {
  Check(R"(graph g
input x: float[2,h,16]
const w: float[16,48] = random
const sizes: int64[2] = {24, 24}
const wide: int64[2] = {2, -1}
m = matmul(x, w)
a, b = split(m, sizes) {axis=2}
c = reshape(a, wide)
y = sigmoid(c)
z = tanh(b)
output y
output z
)",
        1);
}

// Copies write and read rows apart. (The pass that sinks transposes joins what is not transposed.)
TEST(Parts, OfCopies) {
  Check(R"(graph g
input x: float[2,h,6]
const sizes: int64[2] = {2, 4}
const twice: int64[3] = {1, 1, 2}
const shape: int64[3] = {2, 1, 4}
e = exp(x)
t = transpose(e) {perm=[0,2,1]}
s = tanh(e)
v = transpose(s) {perm=[0,2,1]}
j = concat(t, v) {axis=2}
a, b = split(e, sizes) {axis=2}
c = tile(a, twice)
d = transpose(b) {perm=[2,0,1]}
k = concat(c, b) {axis=2}
output j
output d
output k
)",
        1, 2);
}

// Nobody writes what has no elements; twice an output, it is read.
TEST(Parts, WithoutElementsHaveAPlace) {
  const char* const text = R"(graph g
input x: float[2,4,8]
const none: float[2,4,0] = {}
const last: int64[1] = {9223372036854775807}
const two: int64[1] = {2}
j = concat(none, x) {axis=2}
s = slice(j, last, last, two)
output s
output s
)";
  Check(text, 1);
  const auto program = MakeProgram(Parse(text), 1, 1);
  const auto plan = program->PlanFor({{2, 4, 8}});
  for (const Plan::Output& output : plan->outputs) {
    EXPECT_GE(plan->values[output.value].address.base, 0);
  }
}

}  // namespace
}  // namespace sardonyx
