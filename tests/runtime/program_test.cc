// Programs against the reference computes: plans, views, buffers that are shared, values whose
// shapes depend on data, control flow, threads.

#include "runtime/program.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "../passes/random_graph.h"
#include "run_graph.h"

namespace sardonyx {
namespace {

// Runs a graph of text on random inputs, optimised and not.
void Check(const std::string& text, const std::map<std::string, Tensor>& fixed = {}) {
  for (const bool optimised : {false, true}) {
    SCOPED_TRACE(optimised ? "optimised" : "as it stands");
    std::shared_ptr<Graph> graph = Parse(text);
    if (optimised) Optimize(*graph);
    std::mt19937 random(11);
    const std::vector<Datum> inputs = RandomInputs(*graph, random, fixed);
    const auto program = MakeProgram(graph, 2);
    ExpectRuns(*program, inputs);
  }
}

TEST(Program, RandomGraphs) {
  for (unsigned seed = 0; seed < 600; ++seed) {
    for (const bool optimised : {false, true}) {
      const std::shared_ptr<Graph> graph = RandomGraph(seed).graph();
      const std::string before = PrintGraph(*graph);
      if (optimised) Optimize(*graph);
      std::mt19937 random(seed);
      const auto program = MakeProgram(graph, 1 + static_cast<int>(seed % 3));
      try {
        ExpectRuns(*program, RandomInputs(*graph, random));
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
      ASSERT_FALSE(HasFailure()) << "seed " << seed << "\n"
                                 << before << "\nran as\n"
                                 << PrintGraph(program->graph());
    }
  }
}

TEST(Program, OutputsThatAreInputsConstantsViewsAndDuplicates) {
  Check(R"(graph g
input x: float[2,3,4]
const k: float[2] = {1, 2}
const s: int64[2] = {6, 4}
v = reshape(x, s) {allowzero=0}
r = relu(v)
u = unsqueeze(r) {axes=[0]}
output x
output k
output v
output r
output u
output r
output x
)");
}

// The standard has indices of 32 and 64 bits, the vocabulary those of any integer type.
TEST(Program, IndicesOfEveryWidth) {
  for (const char* type : {"int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"}) {
    SCOPED_TRACE(type);
    Check(fmt::format(R"(graph g
input x: float[3,5]
const rows: {0}[2] = {{2, 1}}
const columns: {0}[3,1] = {{4, 0, 3}}
y = gather(x, rows) {{axis=0}}
z = gather_elements(x, columns) {{axis=1}}
w = scatter_elements(x, columns, z) {{axis=1, reduction="add"}}
output y
output z
output w
)",
                      type));
  }
}

TEST(Program, TheCallerOwnsItsOutputs) {
  const auto program = MakeProgram(R"(graph g
input x: float[4]
const k: float[4] = {1, 2, 3, 4}
const s: int64[2] = {2, 2}
v = reshape(k, s) {allowzero=0}
y = relu(x)
output x
output k
output v
output y
)");
  std::mt19937 random(1);
  const std::vector<Datum> inputs = {RandomTensor(DType::kFloat32, {4}, random)};
  const Tensor before = Copy(*inputs[0].tensor());
  const std::vector<Datum> first = program->Run(inputs);
  const std::vector<Datum> expected = Evaluate(program->graph(), inputs);
  for (const Datum& output : first) {
    Tensor tensor = *output.tensor();
    std::fill_n(tensor.data<float>(), tensor.size(), 77.0F);
  }
  EXPECT_TRUE(BitEqual(*inputs[0].tensor(), before));
  ExpectSameAll(program->Run(inputs), expected);
  // And what was handed out does not change by later runs.
  EXPECT_EQ(first[3].tensor()->data<float>()[0], 77.0F);
}

TEST(Program, Views) {
  Check(R"(graph g
input x: float[4,6]
const b: int64[1] = {1}
const e: int64[1] = {-1}
const sizes: int64[2] = {1, 3}
const at: int64[] = {-2}
const two: int64[1] = {2}
a = slice(x, b, e)
c = relu(a)
p, q = split(x, sizes) {axis=0}
r = gather(q, at) {axis=0}
f = flatten(q) {axis=0}
m = mul(p, r)
d = slice(c, b, e, b)
t = transpose(p) {perm=[1,0]}
n = neg(t)
w = slice(x, two, b)
output c
output m
output f
output d
output n
output w
)");
}

// What keeps the size of a tensor but moves its elements is no view.
TEST(Program, NoViews) {
  Check(R"(graph g
input x: float[4]
const b: int64[1] = {-1}
const e: int64[1] = {-9}
const zero: int64[1] = {0}
const minus: int64[1] = {-1}
const pads: int64[2] = {1, -1}
a = slice(x, b, e, zero, minus)
p = pad(x, pads)
c = neg(a)
d = neg(p)
output c
output d
)");
}

TEST(Program, BuffersThatCouldBeShared) {
  // Chains in place, a value that is read again later, the same value twice, a view of what is
  // overwritten, a residual.
  Check(R"(graph g
input x: float[n,8]
const w: float[8,8] = random
a = matmul(x, w)
b = relu(a)
c = add(b, b)
v = unsqueeze(c) {axes=[0]}
d = exp(v)
e = squeeze(d) {axes=[0]}
f = mul(e, c)
g = sub(f, a)
h = tanh(g)
i = add(h, x)
output i
output h
)");
}

TEST(Program, EmptyTensors) {
  const std::string text = R"(graph g
input x: float[n,3]
const w: float[3,2] = random
a = relu(x)
b = matmul(a, w)
c = reduce(b) {kind="sum", axes=[0], keepdims=1}
d = concat(b, b) {axis=0}
output b
output c
output d
)";
  const auto program = MakeProgram(text);
  for (const int64_t n : {0, 2, 0}) {
    const std::vector<Datum> inputs = {MakeFilled(DType::kFloat32, {n, 3}, 0.5)};
    ExpectSameAll(program->Run(inputs), Evaluate(program->graph(), inputs));
  }
}

TEST(Program, ShapesThatDependOnData) {
  const std::string text = R"(graph g
input x: float[n,3]
input keep: bool[n]
const w: float[3,3] = random
const flat: int64[1] = {-1}
a = compress(x, keep) {axis=0}
b = matmul(a, w)
c = relu(b)
d = nonzero(c)
s = shape(c)
f = reshape(c, flat) {allowzero=0}
g = reduce(c) {kind="sum", axes=[0], keepdims=1}
h = add(x, g)
output c
output d
output s
output f
output h
)";
  Check(text);
  const auto program = MakeProgram(text, 2);
  std::mt19937 random(5);
  for (const int64_t n : {1, 7, 3, 0, 12}) {
    const std::vector<Datum> inputs = {RandomTensor(DType::kFloat32, {n, 3}, random),
                                       RandomTensor(DType::kBool, {n}, random)};
    ExpectSameAll(program->Run(inputs), Evaluate(program->graph(), inputs));
  }
}

// Values computed while a plan is made differ between plans; nothing of one may serve another.
TEST(Program, ConstantsOfAPlan) {
  const std::string text = R"(graph g
input x: float[m,n]
const zero: int64[] = {0}
const one: int64[] = {1}
const first: int64[1] = {0}
s = shape(x)
r = gather(s, one) {axis=0}
p = range(zero, r, one)
f = cast(p) {to=1}
u = unsqueeze(f) {axes=[1]}
y = matmul(x, u)
q = neg(f)
v = unsqueeze(q) {axes=[1]}
z = matmul(x, v)
output y
output z
)";
  const auto program = MakeProgram(text);
  std::mt19937 random(5);
  for (const int64_t n : {3, 5, 4, 3, 20}) {
    const std::vector<Datum> inputs = {RandomTensor(DType::kFloat32, {4, n}, random)};
    ExpectSameAll(program->Run(inputs), Evaluate(program->graph(), inputs));
  }
}

// Weights that were folded give their memory back once they are packed, and come back for a plan
// that reads them in another way.
TEST(Program, DroppedWeightsComeBack) {
  const std::string text = R"(graph g
input x: float[n,128]
input y: float[m,128]
const w: float[128,256] = random
const v: float[128,256] = random
a = matmul(x, w)
b = matmul(x, v)
c = matmul(y, w)
output a
output b
output c
)";
  const std::shared_ptr<Graph> plain = Parse(text);
  int restored = 0;
  ProgramOptions options;
  options.restore = [&]() -> std::shared_ptr<Graph> {
    ++restored;
    return Parse(text);
  };
  Program program(Parse(text), CpuDevice(), std::make_shared<PackCache>(), options);
  std::mt19937 random(2);
  for (const int64_t n : {64, 1, 3, 64, 1, 200}) {
    const std::vector<Datum> inputs = {RandomTensor(DType::kFloat32, {n, 128}, random),
                                       RandomTensor(DType::kFloat32, {9, 128}, random)};
    ExpectSameAll(program.Run(inputs), Evaluate(*plain, inputs));
    for (const Value* value : program.values()) {
      if (restored > 0 || !value->is_constant()) continue;
      EXPECT_EQ(value->fact.constant.raw(), nullptr);
    }
  }
  EXPECT_LE(restored, 2);
}

// A product with a small operand that comes out of the run must not be packed once and for all.
TEST(Program, SmallOperandsOfARunAreNotWeights) {
  const std::string text = R"(graph g
input x: float[n,2]
input keep: bool[n]
input w: float[2,2]
a = compress(x, keep) {axis=0}
b = matmul(a, w)
output b
)";
  const auto program = MakeProgram(text);
  std::mt19937 random(5);
  for (int run = 0; run < 20; ++run) {
    const std::vector<Datum> inputs = {RandomTensor(DType::kFloat32, {5, 2}, random),
                                       RandomTensor(DType::kBool, {5}, random),
                                       RandomTensor(DType::kFloat32, {2, 2}, random)};
    ExpectSameAll(program->Run(inputs), Evaluate(program->graph(), inputs));
  }
}

TEST(Program, If) {
  const std::string text = R"(graph g
input c: bool[]
input x: float[n]
y, z = if_(c, x)
  else_branch = {
    graph other
    input a: float[n]
    const k: float[1] = {3}
    b = concat(a, k) {axis=0}
    output b
    output a
  }
  then_branch = {
    graph then
    input a: float[n]
    b = neg(a)
    d = exp(b)
    output b
    output d
  }
w = relu(y)
output w
output z
)";
  for (const bool condition : {true, false}) Check(text, {{"c", MakeScalar(condition)}});
}

TEST(Program, LoopWithCarriedAndStackedValues) {
  const std::string text = R"(graph g
input trips: int64[]
input x: float[2,3]
const go: bool[] = {1}
y, stack = loop(trips, go, x, x) {carried=1}
  body = {
    graph body
    input i: int64[]
    input go: bool[]
    input v: float[2,3]
    input captured: float[2,3]
    const limit: float[] = {50}
    f = cast(i) {to=1}
    w = add(v, f)
    u = mul(w, captured)
    s = reduce(u) {kind="sum", axes=[0,1], keepdims=0}
    more = lt(s, limit)
    output more
    output w
    output u
  }
z = neg(y)
output z
output stack
)";
  for (const int64_t trips : {0, 1, 5}) Check(text, {{"trips", MakeScalar(trips)}});
}

// A carried value that grows.
TEST(Program, LoopThatConcatenates) {
  Check(R"(graph g
input x: float[1]
const trips: int64[] = {4}
y = loop(trips, _, x) {carried=1}
  body = {
    graph body
    input i: int64[]
    input go: bool[]
    input v: float[k]
    w = concat(v, v) {axis=0}
    output go
    output w
  }
output y
)");
}

TEST(Program, ScanInBothDirections) {
  Check(R"(graph g
input h: float[2]
input x: float[5,2]
input z: float[2,5]
y, a, b = scan(h, x, z) {captures=0, input_axes=[0,1], input_directions=[0,1], output_axes=[0,1], output_directions=[1,0], scan_inputs=2}
  body = {
    graph body
    input s: float[2]
    input p: float[2]
    input q: float[2]
    t = mul(p, q)
    n = add(s, t)
    m = tanh(n)
    output n
    output m
    output t
  }
output y
output a
output b
)");
}

TEST(Program, Sequences) {
  Check(R"(graph g
input x: float[2,3]
input z: float[2,3]
const k: float[2,3] = {7}
const one: int64[] = {1}
const last: int64[] = {-1}
a = relu(x)
s = sequence(a, z)
t = sequence_insert(s, k, one)
u = sequence_erase(t, last)
n = sequence_length(u)
e = sequence_at(u, one)
c = concat_from_sequence(t) {axis=0, new_axis=0}
f = neg(e)
output n
output f
output c
output t
output e
)");
}

TEST(Program, Strings) {
  Check(R"(graph g
input x: string[3]
const other: string[1] = {"a"}
const at: int64[2] = {2, 0}
g = gather(x, at) {axis=0}
c = concat(g, other) {axis=0}
output c
output x
output other
)");
}

// Lowered when a plan knows the rank, or when a run knows the value.
TEST(Program, DeferredNodes) {
  const std::string text = R"(graph g
input x: float
y = deferred(x) {@domain="", @op_type="Softmax", @types=[1], @version=13, @wanted=[1], axis=-1}
z = neg(y)
output z
)";
  const auto program = MakeProgram(text);
  std::mt19937 random(5);
  for (const std::vector<int64_t>& dims :
       {std::vector<int64_t>{4}, {2, 3}, {2, 3, 4}, {4}, {5, 1, 2, 2}}) {
    const std::vector<Datum> inputs = {RandomTensor(DType::kFloat32, dims, random)};
    ExpectSameAll(program->Run(inputs), Evaluate(program->graph(), inputs));
  }
}

TEST(Program, KeepsNoMorePlansThanAllowed) {
  const auto program = MakeProgram(R"(graph g
input x: float[n]
y = relu(x)
output y
)",
                                   1, 3);
  const auto run = [&](int64_t n) {
    program->Run(std::vector<Datum>{MakeFilled(DType::kFloat32, {n}, 1)});
  };
  for (int64_t n = 1; n < 40; ++n) {
    run(n);
    EXPECT_LE(program->plan_count(), 3);
  }
  const auto kept = program->PlanFor({{39}});
  run(38);
  run(37);
  run(39);  // used again: stays
  run(1);
  EXPECT_EQ(program->PlanFor({{39}}), kept);
  run(2);
  run(3);
  run(4);
  EXPECT_NE(program->PlanFor({{39}}), kept);
}

constexpr const char* kNetwork = R"(graph g
input x: float[n,9,9,8]
const w: float[16,8,3,3] = random
const v: float[16,16,1,1] = random
const b: float[16] = random
a = conv(x, w) {pads=[1,1,1,1]}
c = add(a, b)
d = relu(c)
e = conv(d, v)
f = sigmoid(e)
g = mul(e, f)
h = reduce(g) {axes=[1,2], keepdims=1, kind="mean"}
i = mul(g, h)
y = softmax(i) {axis=3}
output y
output h
)";

TEST(Program, ThreadsDoNotChangeABit) {
  std::mt19937 random(1);
  std::vector<Datum> expected;
  const std::vector<Datum> inputs = {RandomTensor(DType::kFloat32, {3, 9, 9, 8}, random)};
  for (const int threads : {1, 2, 3, 8}) {
    std::shared_ptr<Graph> graph = Parse(kNetwork);
    Optimize(*graph);
    const std::vector<Datum> outputs = MakeProgram(graph, threads)->Run(inputs);
    if (expected.empty()) expected = outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_TRUE(BitEqual(*outputs[i].tensor(), *expected[i].tensor())) << threads << " threads";
    }
  }
}

TEST(Program, ManyThreadsRunOneProgram) {
  std::shared_ptr<Graph> graph = Parse(kNetwork);
  Optimize(*graph);
  const auto program = MakeProgram(graph, 2, 2);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int run = 0; run < 12; ++run) {
        const int64_t n = 1 + static_cast<int64_t>((t + static_cast<unsigned>(run)) % 3);
        const std::vector<Datum> inputs = {RandomTensor(DType::kFloat32, {n, 9, 9, 8}, random)};
        const auto alone = MakeProgram(graph, 1);
        const std::vector<Datum> expected = alone->Run(inputs), outputs = program->Run(inputs);
        for (size_t i = 0; i < outputs.size(); ++i) {
          wrong += BitEqual(*outputs[i].tensor(), *expected[i].tensor()) ? 0 : 1;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(program->plan_count(), 2);
}

std::string ErrorOf(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Program, ErrorsNameTheNode) {
  std::shared_ptr<Graph> graph = Parse(R"(graph g
input x: float[n,3]
input z: float[m,3]
input at: int64[1]
a = relu(x)
b = add(a, z)
c = gather(b, at) {axis=0}
output c
)");
  graph->nodes()[1]->origin = std::make_shared<const Origin>(Origin{"sum", "Add", 14});
  graph->nodes()[2]->origin = std::make_shared<const Origin>(Origin{"pick", "Gather", 13});
  const auto program = MakeProgram(graph);
  const Tensor at = MakeVector<int64_t>({5});
  const auto run = [&](int64_t n, int64_t m) {
    return ErrorOf([&] {
      program->Run(std::vector<Datum>{MakeFilled(DType::kFloat32, {n, 3}, 1),
                                      MakeFilled(DType::kFloat32, {m, 3}, 1), at});
    });
  };
  // While the plan is made, and while it runs.
  EXPECT_EQ(run(2, 4).find("node 'sum' (Add-14): "), 0) << run(2, 4);
  EXPECT_NE(run(2, 4).find("[2,3] with [4,3]"), std::string::npos) << run(2, 4);
  EXPECT_EQ(run(2, 2).find("node 'pick' (Gather-13): "), 0) << run(2, 2);
  EXPECT_EQ(run(6, 6), "");
  EXPECT_NE(run(2, 2), "");
  EXPECT_EQ(run(7, 7), "");
}

TEST(Plan, ExplainShowsStepsAndRefusals) {
  std::shared_ptr<Graph> graph = Parse(kNetwork);
  const auto program = MakeProgram(graph);
  const std::string text = Explain(*program->PlanFor({{1, 9, 9, 8}}));
  EXPECT_NE(text.find("conv"), std::string::npos) << text;
  EXPECT_NE(text.find("refused "), std::string::npos) << text;
  EXPECT_NE(text.find("arena: "), std::string::npos) << text;
}

}  // namespace
}  // namespace sardonyx
