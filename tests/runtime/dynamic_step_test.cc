// Steps whose shapes are known when they run: what was found in one run serves the next as long as
// its operands are alike, and no longer.

#include <gtest/gtest.h>

#include <cstring>

#include "run_graph.h"

namespace sardonyx {
namespace {

// Runs one program on each of the lists of inputs in turn, three times over so that each follows
// each, and compares with the reference.
void ExpectRunsInTurn(const std::string& text, const std::vector<std::vector<Datum>>& lists) {
  SCOPED_TRACE(text);
  for (const int threads : {1, 2}) {
    const auto program = MakeProgram(text, threads);
    for (size_t run = 0; run < 3 * lists.size() * lists.size(); ++run) {
      // Each twice in a row, then the others at growing distances.
      const std::vector<Datum>& inputs = lists[(run / 2 * (1 + run / 7)) % lists.size()];
      SCOPED_TRACE(fmt::format("run {}", run));
      ExpectSameAll(program->Run(inputs), Evaluate(program->graph(), inputs));
    }
  }
}

Tensor Marks(int64_t size, const std::vector<int64_t>& at) {
  Tensor tensor = MakeFilled(DType::kBool, {size}, 0);
  for (const int64_t i : at) tensor.data<bool>()[i] = true;
  return tensor;
}

// As many rows again, others, fewer, none.
TEST(DynamicStep, RowsThatAreFound) {
  std::mt19937 random(1);
  const Tensor x = RandomTensor(DType::kFloat32, {9, 20}, random);
  std::vector<std::vector<Datum>> lists;
  for (const std::vector<int64_t>& at : std::vector<std::vector<int64_t>>{
           {1, 4, 5}, {0, 4, 8}, {2}, {}, {0, 1, 2, 3, 4, 5, 6, 7, 8}}) {
    lists.push_back({x, Marks(9, at)});
  }
  ExpectRunsInTurn(R"(graph g
input x: float[m,n]
input keep: bool[m]
const w: float[20,12] = random
const b: float[12] = random
const minus: int64[1] = {-1}
const two: int64[1] = {2}
found = nonzero(keep)
rows = reshape(found, minus)
picked = gather(x, rows) {axis=0}
h = matmul(picked, w)
biased = add(h, b)
y = tanh(biased)
total = reduce(y) {axes=[1], keepdims=1, kind="sum"}
share = div(y, total)
count = shape(share)
turned = transpose(share) {perm=[1,0]}
output share
output count
output turned
)",
                   lists);
}

// Shapes, ends and counts whose elements change while their number stays.
TEST(DynamicStep, ElementsThatTellSizes) {
  std::mt19937 random(2);
  std::vector<std::vector<Datum>> lists;
  for (const auto& [rows, columns] : {std::pair{4, 6}, {6, 4}, {2, 12}, {24, 1}}) {
    lists.push_back({RandomTensor(DType::kFloat32, {24}, random),
                     MakeVector<int64_t>({rows, columns}), MakeScalar<int64_t>(rows),
                     MakeFilled(DType::kFloat32, {}, columns)});
  }
  ExpectRunsInTurn(R"(graph g
input x: float[24]
input sizes: int64[2]
input count: int64[]
input limit: float[]
const zero: int64[] = {0}
const one: int64[] = {1}
const start: float[] = {0}
const step: float[] = {0.5}
table = reshape(x, sizes)
ones = constant_of_shape(sizes)
sum = add(table, ones)
places = range(zero, count, one)
numbers = range(start, limit, step)
wide = expand(limit, sizes)
output table
output sum
output places
output numbers
output wide
)",
                   lists);
}

// An output that is a weight, an input or a value between steps by another name is the caller's.
TEST(DynamicStep, ViewsAreTheCallersToWriteTo) {
  const auto program = MakeProgram(R"(graph g
input x: float[6]
input sizes: int64[2]
const w: float[6] = {1,2,3,4,5,6}
h = tanh(x)
a = reshape(w, sizes)
b = reshape(x, sizes)
c = reshape(h, sizes)
output a
output b
output c
)");
  std::mt19937 random(3);
  const Tensor x = RandomTensor(DType::kFloat32, {6}, random);
  for (int run = 0; run < 4; ++run) {
    const std::vector<Datum> inputs = {x, MakeVector<int64_t>({run < 3 ? 2 : 3, run < 3 ? 3 : 2})};
    const std::vector<Datum> outputs = program->Run(inputs);
    ExpectSameAll(outputs, Evaluate(program->graph(), inputs));
    for (const Datum& output : outputs) {
      ASSERT_EQ(output.tensor()->size(), 6);
      std::fill_n(const_cast<float*>(output.tensor()->data<float>()), 6, 99.0f);
    }
  }
}

// Values in a sequence stay what they were when the next run writes others.
TEST(DynamicStep, SequencesKeepTheirParts) {
  const auto program = MakeProgram(R"(graph g
input x: float[4]
input sizes: int64[2]
const zero: int64[] = {0}
h = tanh(x)
t = reshape(h, sizes)
s = sequence(t, h)
first = sequence_at(s, zero)
doubled = add(first, first)
output s
output doubled
)");
  std::mt19937 random(4);
  std::vector<std::vector<Datum>> given, kept;
  for (int run = 0; run < 6; ++run) {
    const bool turned = run == 2 || run == 5;
    given.push_back({RandomTensor(DType::kFloat32, {4}, random),
                     MakeVector<int64_t>({turned ? 1 : 2, turned ? 4 : 2})});
    kept.push_back(program->Run(given.back()));
  }
  for (size_t run = 0; run < kept.size(); ++run) {
    ExpectSameAll(kept[run], Evaluate(program->graph(), given[run]));
  }
}

// What failed leaves nothing behind that a later run takes for its own.
TEST(DynamicStep, RunsAfterErrors) {
  const auto program = MakeProgram(R"(graph g
input x: float[m,n]
input places: int64[k]
input sizes: int64[2]
const w: float[4,3] = random
flat = reshape(x, sizes)
picked = gather(flat, places) {axis=0}
y = matmul(picked, w)
output y
)");
  std::mt19937 random(5);
  const Tensor x = RandomTensor(DType::kFloat32, {6, 4}, random);
  const Tensor wide = RandomTensor(DType::kFloat32, {6, 8}, random);
  const auto run = [&](const Tensor& data, const std::vector<int64_t>& places,
                       const std::vector<int64_t>& sizes, std::string_view error) {
    const std::vector<Datum> inputs = {data, MakeVector(places), MakeVector(sizes)};
    try {
      const std::vector<Datum> outputs = program->Run(inputs);
      EXPECT_EQ(error, "");
      ExpectSameAll(outputs, Evaluate(program->graph(), inputs));
    } catch (const Error& thrown) {
      ASSERT_NE(error, "") << thrown.what();
      EXPECT_NE(std::string_view(thrown.what()).find(error), std::string_view::npos)
          << thrown.what();
    }
  };
  for (int turn = 0; turn < 2; ++turn) {
    run(x, {0, 5}, {6, 4}, "");
    run(x, {0, 9}, {6, 4}, "index 9");
    run(x, {3, 1}, {6, 4}, "");
    run(x, {3, 1}, {5, 4}, "[6,4] to [5,4]");
    run(x, {3, 1}, {6, 4}, "");
    run(wide, {3, 1}, {6, 8}, "inner dimensions 8 and 4");
    run(wide, {3, 11}, {12, 4}, "");
    run(x, {}, {6, 4}, "");
  }
}

// A plan for other shapes has other steps for the same nodes; some values are constants in one.
TEST(DynamicStep, PlansTakeTurns) {
  std::mt19937 random(6);
  std::vector<std::vector<Datum>> lists;
  for (const int64_t rows : {3, 5}) {
    for (const std::vector<int64_t>& at : std::vector<std::vector<int64_t>>{{0, 2}, {1, 2}, {1}}) {
      lists.push_back({RandomTensor(DType::kFloat32, {rows, 3}, random), Marks(rows, at)});
    }
  }
  ExpectRunsInTurn(R"(graph g
input x: float[m,n]
input keep: bool[m]
const zero: int64[] = {0}
const one: int64[] = {1}
const minus: int64[1] = {-1}
s = shape(x)
rows = gather(s, zero) {axis=0}
all = range(zero, rows, one)
found = nonzero(keep)
flat = reshape(found, minus)
both = concat(all, flat) {axis=0}
picked = gather(x, both) {axis=0}
scaled = mul(picked, picked)
output scaled
output both
)",
                   lists);
}

}  // namespace
}  // namespace sardonyx
