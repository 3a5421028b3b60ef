// A static run allocates its outputs and nothing else. Every allocation of the process is counted.

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

#include "run_graph.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SARDONYX_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SARDONYX_SANITIZED 1
#endif
#endif

#if defined(__GLIBC__) && !defined(SARDONYX_SANITIZED)

namespace {
std::atomic<bool> counting = false;
std::atomic<int64_t> allocations = 0;
void Count() {
  if (counting.load(std::memory_order_relaxed)) allocations.fetch_add(1, std::memory_order_relaxed);
}
}  // namespace

// The C library's functions under names of their own; operator new comes here as well.
extern "C" {
void* __libc_malloc(size_t size);                      // NOLINT
void* __libc_calloc(size_t count, size_t size);        // NOLINT
void* __libc_realloc(void* memory, size_t size);       // NOLINT
void* __libc_memalign(size_t alignment, size_t size);  // NOLINT

void* malloc(size_t size) {
  Count();
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  Count();
  return __libc_calloc(count, size);
}
void* realloc(void* memory, size_t size) {
  Count();
  return __libc_realloc(memory, size);
}
void* memalign(size_t alignment, size_t size) {
  Count();
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  Count();
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** memory, size_t alignment, size_t size) {
  Count();
  *memory = __libc_memalign(alignment, size);
  return *memory != nullptr ? 0 : ENOMEM;
}
}

namespace sardonyx {
namespace {

// The i-th of a chain of blocks of convolution, bias, activation, attention-like products.
std::string Network(int blocks) {
  std::string text =
      "graph g\ninput x0: float[n,6,6,8]\nconst w: float[8,8,3,3] = random\n"
      "const b: float[8] = random\nconst m: float[8,8] = random\n";
  for (int i = 0; i < blocks; ++i) {
    text += fmt::format(
        "a{0} = conv(x{0}, w) {{pads=[1,1,1,1]}}\nb{0} = add(a{0}, b)\nc{0} = tanh(b{0})\n"
        "d{0} = matmul(c{0}, m)\ne{0} = softmax(d{0}) {{axis=3}}\n"
        "f{0} = reduce(e{0}) {{axes=[1,2], keepdims=1, kind=\"mean\"}}\n"
        "g{0} = mul(e{0}, f{0})\nx{1} = add(g{0}, c{0})\n",
        i, i + 1);
  }
  return text + fmt::format("output x{0}\noutput d{1}\n", blocks, blocks - 1);
}

int64_t AllocationsOf(Program& program, const std::vector<Datum>& inputs) {
  for (int warm = 0; warm < 3; ++warm) program.Run(inputs);
  allocations = 0;
  counting = true;
  {
    const std::vector<Datum> outputs = program.Run(inputs);
    counting = false;
  }
  return allocations;
}

TEST(Allocation, AStaticRunAllocatesItsOutputsAlone) {
  for (const int threads : {1, 2}) {
    for (const bool optimised : {false, true}) {
      std::vector<int64_t> counts;
      for (const int blocks : {1, 6}) {
        std::shared_ptr<Graph> graph = Parse(Network(blocks));
        if (optimised) Optimize(*graph);
        const auto program = MakeProgram(graph, threads);
        std::mt19937 random(1);
        const std::vector<Datum> inputs = {RandomTensor(DType::kFloat32, {2, 6, 6, 8}, random)};
        counts.push_back(AllocationsOf(*program, inputs));
      }
      // The list of two outputs; of each its dimensions, its memory and the memory's owner.
      EXPECT_GT(counts[0], 0);
      EXPECT_LE(counts[0], 1 + 2 * 4);
      EXPECT_EQ(counts[0], counts[1]) << "steps allocate, with " << threads << " threads";
    }
  }
}

// Products of bytes whose scale a run finds out, with a sweep over sums and without.
TEST(Allocation, QuantisedProductsAllocateNothing) {
  for (const int threads : {1, 2}) {
    std::vector<int64_t> counts;
    for (const int blocks : {1, 5}) {
      std::string text =
          "graph g\ninput x: uint8[6,8]\ninput s: float[]\ninput w: int8[8,40]\n"
          "const b: float[40] = random\nconst c: float[40] = random\n";
      for (int i = 0; i < blocks; ++i) {
        text += fmt::format(
            "p{0} = integer_matmul(x, w, _, _, s, b, c) {{epilogue=<(int32, float, float, float) "
            "cast(0):float mul(1,2):float mul(4,5):float add(6,3):float>}}\n"
            "q{0} = integer_matmul(x, w, _, _, s, b) {{epilogue=<(int32, float, float) "
            "cast(0):float mul(3,1):float tanh(4):float add(5,2):float>}}\n"
            "r{0} = add(p{0}, q{0})\n{1}\n",
            i, i == 0 ? "y0 = tanh(r0)" : fmt::format("y{} = add(y{}, r{})", i, i - 1, i));
      }
      const auto program = MakeProgram(text + fmt::format("output y{}\n", blocks - 1), threads);
      std::mt19937 random(1);
      Tensor x(DType::kUInt8, {6, 8}), w(DType::kInt8, {8, 40});
      for (const Tensor& bytes : {x, w}) {
        for (int64_t i = 0; i < bytes.size(); ++i) static_cast<uint8_t*>(bytes.raw())[i] = i % 7;
      }
      const std::vector<Datum> inputs = {x, RandomTensor(DType::kFloat32, {}, random), w};
      ExpectSameAll(program->Run(inputs), Evaluate(program->graph(), inputs));
      counts.push_back(AllocationsOf(*program, inputs));
    }
    EXPECT_EQ(counts[0], counts[1]) << "with " << threads << " threads";
  }
}

// A step, slices of a sequence, a carried state and a stacked output: iterations allocate nothing.
TEST(Allocation, IterationsAllocateNothing) {
  const auto program = MakeProgram(R"(graph g
input trips: int64[]
input decay: float[n,8,4]
input h: float[8,4]
const go: bool[] = {1}
last, stack = loop(trips, go, h, decay) {carried=1}
  body = {
    graph body
    input i: int64[]
    input go: bool[]
    input h: float[8,4]
    input decay: float[n,8,4]
    const w: float[4,2] = random
    d = gather(decay, i) {axis=0}
    g = mul(d, h)
    next = tanh(g)
    y = matmul(next, w)
    output go
    output next
    output y
  }
output last
output stack
)");
  std::mt19937 random(1);
  std::vector<int64_t> counts;
  for (const int64_t trips : {3, 50}) {
    const std::vector<Datum> inputs = {MakeScalar(trips),
                                       RandomTensor(DType::kFloat32, {64, 8, 4}, random),
                                       RandomTensor(DType::kFloat32, {8, 4}, random)};
    ExpectSameAll(program->Run(inputs), Evaluate(program->graph(), inputs));
    counts.push_back(AllocationsOf(*program, inputs));
  }
  EXPECT_EQ(counts[0], counts[1]);
}

// Branches that use values of the graph.
TEST(Allocation, BranchesAllocateNothing) {
  for (const bool condition : {false, true}) {
    std::vector<int64_t> counts;
    for (const int blocks : {1, 5}) {
      std::string text = "graph g\ninput go: bool[1]\ninput x0: float[n,40]\n";
      for (int i = 0; i < blocks; ++i) {
        text += fmt::format(R"(c{0} = tanh(x{0})
a{0}, b{0} = if_(go, x{0}, c{0})
  then_branch = {{
    graph then
    input x: float[n,40]
    input c: float[n,40]
    t = mul(x, c)
    u = add(x, c)
    output t
    output u
  }}
  else_branch = {{
    graph else
    input x: float[n,40]
    input c: float[n,40]
    const w: float[40,40] = random
    e = matmul(x, w)
    f = add(e, c)
    output e
    output f
  }}
x{1} = add(a{0}, b{0})
)",
                            i, i + 1);
      }
      const auto program = MakeProgram(text + fmt::format("output x{}\n", blocks), 1);
      std::mt19937 random(1);
      Tensor go(DType::kBool, {1});
      go.data<bool>()[0] = condition;
      const std::vector<Datum> inputs = {go, RandomTensor(DType::kFloat32, {7, 40}, random)};
      ExpectRuns(*program, inputs);
      counts.push_back(AllocationsOf(*program, inputs));
    }
    EXPECT_EQ(counts[0], counts[1]) << "the condition is " << condition;
  }
}

TEST(Allocation, AnotherPlanThatIsKnownAllocatesNoMore) {
  const auto program = MakeProgram(Network(2), 1);
  std::mt19937 random(1);
  const std::vector<Datum> small = {RandomTensor(DType::kFloat32, {1, 6, 6, 8}, random)};
  const std::vector<Datum> large = {RandomTensor(DType::kFloat32, {3, 6, 6, 8}, random)};
  const int64_t first = AllocationsOf(*program, large);
  program->Run(small);
  program->Run(large);
  allocations = 0;
  counting = true;
  {
    const std::vector<Datum> a = program->Run(small), b = program->Run(large);
    counting = false;
  }
  EXPECT_LE(allocations, 2 * first);
}

}  // namespace
}  // namespace sardonyx

#endif
