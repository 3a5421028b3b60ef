// Rows that collide in a cache lie a little further apart: against the reference, and which do.

#include <gtest/gtest.h>

#include "run_graph.h"
#include "runtime/parts.h"

namespace sardonyx {
namespace {

// Runs the graph on one and two threads, for two sizes of h and the first again, and expects these
// values, by their columns, to have longer rows.
std::shared_ptr<const Plan> Check(const std::string& text, std::vector<int64_t> spread,
                                  bool optimised = false) {
  std::shared_ptr<const Plan> plan;
  for (const int threads : {1, 2}) {
    SCOPED_TRACE(fmt::format("{} threads", threads));
    const std::shared_ptr<Graph> graph = Parse(text);
    if (optimised) Optimize(*graph);
    const auto program = MakeProgram(graph, threads, 1);
    for (const unsigned seed : {1u, 2u, 1u}) {
      const std::vector<Datum> inputs = RandomInputs(*graph, seed);
      plan = program->PlanFor(DimsOf(inputs));
      std::vector<int64_t> columns;
      for (const PlannedValue& value : plan->values) {
        if (value.row_stride == 0) continue;
        columns.push_back(value.dims.back());
        EXPECT_EQ(value.row_stride, value.dims.back() + 16);
      }
      EXPECT_EQ(columns, spread) << Explain(*plan);
      ExpectRuns(*program, inputs);
    }
  }
  return plan;
}

TEST(SpreadRows, OfDepthwiseAndGroups) {
  Check(R"(graph g
input x: float[2,h,9,8]
const w: float[256,8,1,1] = random
const d: float[256,1,3,3] = random
const g: float[128,32,3,3] = random
const v: float[4,128,1,1] = random
a = conv(x, w)
b = conv(a, d) {group=256, pads=[1, 1, 1, 1], strides=[2, 2]}
c = conv(b, g) {group=8, pads=[1, 1, 1, 1], strides=[2, 2]}
y = conv(c, v)
output y
)",
        {256, 256});
}

// 5 x 5 taps collide of rows half as long apart; those of 96 channels do not.
TEST(SpreadRows, OfLargeWindows) {
  Check(R"(graph g
input x: float[1,h,17,8]
const w: float[384,8,1,1] = random
const d: float[384,1,5,5] = random
const u: float[96,384,1,1] = random
const e: float[96,1,5,5] = random
a = conv(x, w)
b = conv(a, d) {group=384, pads=[2, 2, 2, 2]}
c = conv(b, u)
y = conv(c, e) {group=96, pads=[2, 2, 2, 2]}
output y
)",
        {384});
}

// Parts are read where they lie in the whole, whose rows so stay where they are.
TEST(SpreadRows, NotOfWhatIsCutInPlace) {
  const std::shared_ptr<Graph> graph = Parse(R"(graph g
input x: float[2,h,9,8]
const w: float[256,8,1,1] = random
const n: int64[2] = {128, 128}
const d: float[128,1,3,3] = random
const v: float[4,128,1,1] = random
a = conv(x, w)
b, c = split(a, n) {axis=3}
e = conv(b, d) {group=128, pads=[1, 1, 1, 1]}
y = conv(e, v)
z = conv(c, v)
output y
output z
)");
  const auto program = MakeProgram(graph, 1, 1);
  const std::vector<Datum> inputs = RandomInputs(*graph, 1);
  ExpectRuns(*program, inputs);
  for (const PlannedValue& value : program->PlanFor(DimsOf(inputs))->values) {
    EXPECT_EQ(value.row_stride, value.dims.back() == 128 && value.row_stride > 0 ? 256 : 0);
  }
}

constexpr char kResiduals[] = R"(graph g
input x: float[1,h,9,8]
const w: float[1024,8,1,1] = random
const v: float[16,1024,1,1] = random
const u: float[1024,16,1,1] = random
const s: float[1] = {0.05}
z = mul(x, s)
a = conv(z, w)
b = conv(a, v)
c = conv(b, u)
d = add(c, a)
e = conv(d, v)
f = conv(e, u)
y = add(f, d)
p = conv(y, v)
output p
)";

// What is added lies where the sum goes, as it does of rows that follow each other.
TEST(SpreadRows, OfSumsInPlace) {
  const auto plan = Check(kResiduals, {1024, 1024, 1024}, true);
  std::vector<int64_t> offsets;
  for (const PlannedValue& value : plan->values) {
    if (value.row_stride > 0) offsets.push_back(value.address.offset);
  }
  EXPECT_EQ(offsets, std::vector<int64_t>(offsets.size(), offsets[0]));
}

TEST(SpreadRows, WhatStays) {
  // Of few rows, that are an output, that a sweep writes, or that one reads who takes no such rows.
  Check(R"(graph g
input x: float[15,8]
input q: float[2,h,8]
const w: float[8,1024] = random
const v: float[1024,16] = random
a = matmul(x, w)
b = matmul(a, v)
c = matmul(q, w)
d = matmul(c, v)
e = matmul(q, w)
f = sin(e)
g = matmul(f, v)
i = matmul(q, w)
j = matmul(i, v)
k = cumulative(i) {axis=1, kind="sum"}
output b
output c
output d
output g
output j
output k
)",
        {});
}

}  // namespace
}  // namespace sardonyx
