// Large batches in pieces: which graphs may be cut, and that cutting changes nothing.

#include "runtime/batch_pieces.h"

#include <gtest/gtest.h>

#include <cstring>

#include "run_graph.h"

namespace sardonyx {
namespace {

Tensor Row(const Tensor& tensor, int64_t row) {
  std::vector<int64_t> dims = tensor.dims();
  const int64_t bytes = static_cast<int64_t>(tensor.bytes()) / dims[0];
  dims[0] = 1;
  Tensor result(tensor.dtype(), dims);
  std::memcpy(result.raw(), static_cast<const char*>(tensor.raw()) + row * bytes, bytes);
  return result;
}

std::vector<Datum> Inputs(const Graph& graph, int64_t batch, std::mt19937& random) {
  std::vector<Datum> inputs;
  for (const Value* input : graph.inputs) {
    std::vector<int64_t> dims;
    for (Dim dim : *input->fact.shape) dims.push_back(dim.known() ? dim.value() : batch);
    Tensor tensor = RandomTensor(input->fact.type.dtype, dims, random);
    if (tensor.dtype() == DType::kInt64) {
      for (int64_t i = 0; i < tensor.size(); ++i) tensor.data<int64_t>()[i] = i % 4;
    }
    inputs.emplace_back(std::move(tensor));
  }
  return inputs;
}

// The graph may be cut, and each row alone gives what it gives in a batch.
void ExpectRows(const std::string& text) {
  SCOPED_TRACE(text);
  const std::shared_ptr<Graph> graph = Parse(text);
  const BatchInputs cut = FindBatch(*graph);
  ASSERT_FALSE(cut.empty());
  std::mt19937 random(5);
  const std::vector<Datum> inputs = Inputs(*graph, 3, random);
  const std::vector<Datum> whole = Evaluate(*graph, inputs);
  for (int64_t row = 0; row < 3; ++row) {
    std::vector<Datum> alone = inputs;
    for (size_t i = 0; i < alone.size(); ++i) {
      if (cut[i]) alone[i] = Row(*alone[i].tensor(), row);
    }
    std::vector<Datum> expected;
    for (const Datum& output : whole) expected.emplace_back(Row(*output.tensor(), row));
    ExpectSameAll(Evaluate(*graph, alone), expected);
  }
}

void ExpectWhole(const std::string& text) {
  SCOPED_TRACE(text);
  EXPECT_TRUE(FindBatch(*Parse(text)).empty());
}

TEST(BatchPieces, RowsThatGoTheirOwnWay) {
  for (const char* nodes : {
           "y = relu(x)\noutput y",
           "const k: float[4] = {1, 2, 3, 4}\ny = add(x, k)\noutput y",
           "y = softmax(x) {axis=-1}\noutput y",
           "y = softmax(x) {axis=1}\noutput y",
           "y = reduce(x) {kind=\"mean\", axes=[1], keepdims=0}\noutput y",
           "y = transpose(x) {perm=[0,2,1]}\noutput y",
           "y = concat(x, x) {axis=1}\noutput y",
           "t = transpose(x) {perm=[0,2,1]}\ny = matmul(x, t)\noutput y",
           "const w: float[4,2] = {1, 2, 3, 4, 5, 6, 7, 8}\ny = matmul(x, w)\noutput y",
           "const w: float[2,3] = {1, 2, 3, 4, 5, 6}\nconst b: float[2,1] = {1, 2}\n"
           "y = matmul(w, x, b) {epilogue=<(float, float) add(0,1):float>}\noutput y",
           "const a: int64[1] = {1}\nconst s: int64[1] = {1}\nconst e: int64[1] = {3}\n"
           "y = slice(x, s, e, a)\noutput y",
           "const p: int64[6] = {0, 1, 0, 0, 0, 2}\ny = pad(x, p)\noutput y",
           "const i: int64[2] = {2, 0}\ny = gather(x, i) {axis=1}\noutput y",
           "s = shape(x)\no = constant_of_shape(s)\ny = add(x, o)\noutput y",
       }) {
    ExpectRows(std::string("graph g\ninput x: float[N,3,4]\n") + nodes + "\n");
  }
  ExpectRows(
      "graph g\ninput i: int64[N,2]\nconst t: float[4,2] = {1, 2, 3, 4, 5, 6, 7, 8}\n"
      "y = gather(t, i) {axis=0}\noutput y\n");
  ExpectRows("graph g\ninput x: float[N,2]\ninput w: float[2,2]\ny = matmul(x, w)\noutput y\n");
  ExpectRows("graph g\ninput x: float[N,2]\ninput z: float[N,2]\ny = mul(x, z)\noutput y\n");
}

TEST(BatchPieces, RowsOfAttention) {
  const std::string inputs =
      "graph g\ninput q: float[N,2,3,4]\ninput k: float[N,2,5,4]\ninput v: float[N,2,5,4]\n";
  ExpectRows(inputs + "y = attention(q, k, v) {scale=0.5}\noutput y\n");
  ExpectRows(inputs + "input m: float[N,1,1,5]\ny = attention(q, k, v, m) {scale=0.5}\noutput y\n");
  ExpectRows(inputs + "input m: float[3,5]\ny = attention(q, k, v, m) {scale=0.5}\noutput y\n");
}

TEST(BatchPieces, RowsThatMeet) {
  for (const char* nodes : {
           "y = softmax(x) {axis=0}\noutput y",
           "y = softmax(x) {axis=-3}\noutput y",
           "y = reduce(x) {kind=\"mean\", axes=[0], keepdims=1}\noutput y",
           "y = reduce(x) {kind=\"mean\", keepdims=0}\noutput y",
           "y = transpose(x) {perm=[1,0,2]}\noutput y",
           "y = concat(x, x) {axis=0}\noutput y",
           "y = cumulative(x) {kind=\"sum\", axis=0, exclusive=0, reverse=0}\noutput y",
           "const a: int64[1] = {0}\nconst s: int64[1] = {-1}\nconst e: int64[1] = {-100}\n"
           "const d: int64[1] = {-1}\ny = slice(x, s, e, a, d)\noutput y",
           "const p: int64[6] = {1, 0, 0, -1, 0, 0}\ny = pad(x, p)\noutput y",
           // The size of the batch is among the numbers.
           "s = shape(x) {start=0, end=1}\nf = cast(s) {to=1}\ny = mul(x, f)\noutput y",
           "output x",
       }) {
    ExpectWhole(std::string("graph g\ninput x: float[N,3,4]\n") + nodes + "\n");
  }
  ExpectWhole("graph g\ninput x: float[3,4]\ny = relu(x)\noutput y\n");
  ExpectWhole("graph g\ninput x: float[N,N]\ny = relu(x)\noutput y\n");
  ExpectWhole("graph g\ninput x: float[N,2]\ninput z: float[M,2]\ny = mul(x, z)\noutput y\n");
  ExpectWhole(
      "graph g\ninput x: float[N,2]\nt = transpose(x) {perm=[1,0]}\ny = matmul(x, t)\noutput y\n");
}

TEST(BatchPieces, LargeBatchesRunInPieces) {
  const auto program = MakeProgram(
      "graph g\ninput x: float[N,2048,64]\ninput w: float[64,64]\na = matmul(x, w)\n"
      "b = softmax(a) {axis=-1}\nc = matmul(b, w)\nd = softmax(c) {axis=-1}\n"
      "y = matmul(d, w)\nz = reduce(b) {kind=\"max\", axes=[1], keepdims=0}\noutput y\noutput z\n",
      2);
  std::mt19937 random(7);
  for (const int64_t batch : {1, 3, 37}) {
    SCOPED_TRACE(batch);
    const std::vector<Datum> inputs = Inputs(program->graph(), batch, random);
    const auto plan = program->PlanFor(DimsOf(inputs));
    EXPECT_EQ(plan->piece > 0, batch == 37);
    EXPECT_EQ(plan->rest != nullptr, batch == 37);
    ExpectSameAll(program->Run(inputs), Evaluate(program->graph(), inputs));
  }
  EXPECT_EQ(program->plan_count(), 3u);
}

// Rows of pieces may be summed in another order, but not because of threads.
TEST(BatchPieces, ThreadsCutNoOtherPieces) {
  const char* text = R"(graph g
input x: float[N,56,56,24]
const w: float[32,24,3,3] = random
const v: float[8,32,3,3] = random
a = conv(x, w) {pads=[1, 1, 1, 1]}
b = relu(a)
y = conv(b, v) {pads=[1, 1, 1, 1], strides=[2, 2]}
output y
)";
  const std::shared_ptr<Graph> graph = Parse(text);
  bool any = false;
  for (int64_t batch = 8; batch < 24; ++batch) {
    SCOPED_TRACE(batch);
    const int64_t piece = MakeProgram(graph, 1, 1)->PlanFor({{batch, 56, 56, 24}})->piece;
    any |= piece > 0;
    for (const int threads : {2, 3, 5, 8}) {
      const auto plan = MakeProgram(graph, threads, 1)->PlanFor({{batch, 56, 56, 24}});
      EXPECT_EQ(plan->piece, piece) << threads;
    }
  }
  EXPECT_TRUE(any);
}

}  // namespace
}  // namespace sardonyx
