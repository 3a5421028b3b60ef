// A plan is made from the one before: what its shapes do not change is taken over, and nothing
// else.

#include <gtest/gtest.h>

#include "run_graph.h"

namespace sardonyx {
namespace {

// Attention of one new token to a cache that grows, with positions from shape arithmetic.
constexpr std::string_view kDecode = R"(graph g
input x: float[b,1,8]
input keys: float[b,p,8]
input table: float[64,8]
const wq: float[8,8] = random
const wk: float[8,8] = random
const wo: float[8,8] = random
const one: int64[] = {1}
s = shape(keys)
p = gather(s, one) {axis=0}
pos = gather(table, p) {axis=0}
h = add(x, pos)
g = tanh(h)
q = matmul(x, wq)
k = matmul(g, wk)
all = concat(keys, k) {axis=1}
scores = matmul(q, all) {trans_b=1}
weights = softmax(scores) {axis=2}
mixed = matmul(weights, all)
y = matmul(mixed, wo)
z = relu(q)
u = unsqueeze(z) {axes=[0]}
output y
output all
output u
)";

std::vector<Datum> DecodeInputs(int64_t batch, int64_t past, std::mt19937& random) {
  return {RandomTensor(DType::kFloat32, {batch, 1, 8}, random),
          RandomTensor(DType::kFloat32, {batch, past, 8}, random),
          RandomTensor(DType::kFloat32, {64, 8}, random)};
}

TEST(PlanMemo, ShapesInAnyOrder) {
  const auto program = MakeProgram(std::string(kDecode), 1, 1);
  std::mt19937 random(4);
  for (int run = 0; run < 60; ++run) {
    const int64_t batch = run % 7 == 0 ? 3 : 1;
    const auto past = static_cast<int64_t>(run % 11 == 0 ? random() % 40 : run % 40);
    const std::vector<Datum> inputs = DecodeInputs(batch, past, random);
    SCOPED_TRACE(past);
    ExpectSameAll(program->Run(inputs), Evaluate(program->graph(), inputs));
  }
}

TEST(PlanMemo, BindsOnlyWhatShapesChange) {
  const auto program = MakeProgram(std::string(kDecode), 1, 4);
  const auto first = program->PlanFor({{1, 1, 8}, {1, 5, 8}, {64, 8}});
  const auto second = program->PlanFor({{1, 1, 8}, {1, 6, 8}, {64, 8}});
  const auto third = program->PlanFor({{2, 1, 8}, {2, 6, 8}, {64, 8}});
  ASSERT_EQ(first->steps.size(), second->steps.size());
  int shared = 0;
  for (size_t i = 0; i < first->steps.size(); ++i) {
    const Step& step = second->steps[i];
    const std::string_view name = step.node->outputs[0]->name;
    const bool same = step.binding == first->steps[i].binding;
    shared += same ? 1 : 0;
    EXPECT_EQ(same, name != "all" && name != "scores" && name != "weights" && name != "mixed" &&
                        name != "pos")
        << name;
    EXPECT_NE(step.binding, third->steps[i].binding) << name;
  }
  EXPECT_GE(shared, 5);  // the products with weights, what surrounds them
}

TEST(PlanMemo, AfterAnError) {
  const auto program = MakeProgram(std::string(kDecode), 1, 1);
  std::mt19937 random(9);
  for (int64_t past = 1; past < 12; ++past) {
    if (past % 3 == 0) {
      std::vector<Datum> wrong = DecodeInputs(2, past, random);
      wrong[1] = RandomTensor(DType::kFloat32, {3, past, 8}, random);
      EXPECT_THROW(program->Run(wrong), Error);
    }
    const std::vector<Datum> inputs = DecodeInputs(1, past, random);
    ExpectSameAll(program->Run(inputs), Evaluate(program->graph(), inputs));
  }
}

// What depends on the past is left to the runs in any case, for its new length is a number: one
// plan serves all lengths.
TEST(PlanMemo, OnePlanForSizesThatItLeavesToTheRuns) {
  const std::string text = R"(graph g
input x: float[1,1,8]
input past: float[1,p,8]
input total: int64[1]
const w: float[8,8] = random
const one: int64[1] = {1}
q = matmul(x, w)
start = sub(total, one)
all = write_rows(past, q, start, total) {axis=1, circular=0}
y = attention(q, all, all) {scale=0.5}
z = relu(y)
output z
output all
)";
  const auto serves = MakeProgram(text, 1, 16);
  // What is planned depends on the past as well.
  const auto depends = MakeProgram(text + "twice = add(past, past)\noutput twice\n", 1, 16);
  std::mt19937 random(5);
  for (int run = 0; run < 12; ++run) {
    const int64_t past = run % 5 == 0 ? 30 - run : 3 + run;
    const std::vector<Datum> inputs = {RandomTensor(DType::kFloat32, {1, 1, 8}, random),
                                       RandomTensor(DType::kFloat32, {1, past, 8}, random),
                                       MakeVector<int64_t>({past + 1 - run % 3})};
    for (const auto& program : {serves.get(), depends.get()}) {
      ExpectSameAll(program->Run(inputs), Evaluate(program->graph(), inputs));
    }
  }
  EXPECT_EQ(serves->plan_count(), 3u);
  EXPECT_EQ(depends->plan_count(), 12u);
  const std::vector<Datum> wrong = {RandomTensor(DType::kFloat32, {1, 1, 8}, random),
                                    RandomTensor(DType::kFloat32, {1, 4, 7}, random),
                                    MakeVector<int64_t>({5})};
  EXPECT_THROW(serves->Run(wrong), Error);
}

// A constant of a plan that a kernel refers to is the plan's even after the next plan has another.
TEST(PlanMemo, PlansThatAreKeptStayWhole) {
  const auto program = MakeProgram(R"(graph g
input x: float[m,n]
input y: float[k]
const zero: int64[] = {0}
const one: int64[] = {1}
s = shape(x)
n = gather(s, one) {axis=0}
r = range(zero, n, one)
f = cast(r) {to=1}
scaled = mul(x, f)
picked = gather(y, zero) {axis=0}
z = add(scaled, picked)
twice = add(f, f)
output z
output twice
)",
                                   1, 8);
  std::mt19937 random(6);
  for (int run = 0; run < 30; ++run) {
    const auto m = static_cast<int64_t>(1 + random() % 3);
    const auto n = static_cast<int64_t>(1 + random() % 4);
    const std::vector<Datum> inputs = {RandomTensor(DType::kFloat32, {m, n}, random),
                                       RandomTensor(DType::kFloat32, {2}, random)};
    ExpectSameAll(program->Run(inputs), Evaluate(program->graph(), inputs));
  }
}

// Outputs that grow from run to run find memory that earlier ones left.
TEST(BufferPool, GrowingOutputsReuseMemory) {
  const auto pool = std::make_shared<BufferPool>();
  std::vector<const void*> seen;
  for (int64_t size = 100'000; size < 108'000; size += 500) {
    const Tensor tensor = pool->Allocate(DType::kUInt8, {size});
    ASSERT_EQ(tensor.bytes(), size);
    if (std::find(seen.begin(), seen.end(), tensor.raw()) == seen.end()) {
      seen.push_back(tensor.raw());
    }
  }
  EXPECT_EQ(seen.size(), 1u);
}

}  // namespace
}  // namespace sardonyx
