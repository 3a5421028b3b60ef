// Elementwise kernels. bytes_per_second counts what is read and written, to be held against
// memcpy's.
#include "kernels/elementwise.h"

#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "kernels/targets.h"

namespace sardonyx {
namespace {

constexpr int64_t kCached = 24 * 1024;  // elements: input and output stay in the L2 cache
constexpr int64_t kStreamed = 16 * 1024 * 1024;

void Memcpy(benchmark::State& state) {
  const int64_t count = state.range(0);
  std::vector<float> x(static_cast<size_t>(count), 1.0f), y(x);
  for (auto _ : state) {
    std::memcpy(y.data(), x.data(), x.size() * sizeof(float));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * count * 8);
}
BENCHMARK(Memcpy)->Arg(kCached)->Arg(kStreamed);

// One operand of the shape of the output, others as given by their strides.
void Run(benchmark::State& state, const char* text, std::vector<int64_t> dims,
         std::vector<std::vector<int64_t>> more_strides = {}) {
  ApplyTargetFromEnvironment();
  int64_t count = 1;
  std::vector<int64_t> strides(dims.size());
  for (size_t d = dims.size(); d-- > 0;) {
    strides[d] = count;
    count *= dims[d];
  }
  int64_t bytes = 8 * count;
  for (const std::vector<int64_t>& more : more_strides) {
    strides.insert(strides.end(), more.begin(), more.end());
    if (more.back() == 1 && more.front() != 0) bytes += 4 * count;
  }
  const ElementwiseKernel kernel = PrepareElementwise(Expression::Parse(text), dims, strides);
  std::vector<float> x(static_cast<size_t>(count)), y(x), out(x);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1000) / 100 - 5;
  const void* const in[] = {x.data(), y.data(), y.data()};
  const Parallel par{&ThreadPool::Process(), static_cast<int>(state.range(0))};
  for (auto _ : state) {
    RunElementwise(kernel, in, out.data(), par);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * bytes);
  state.counters["ns_per_element"] =
      benchmark::Counter(static_cast<double>(state.iterations() * count) * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

constexpr char kGelu[] =
    "(float; 1.4142135381698608:float, 1:float, 0.5:float) div(0,1):float erf(4):float "
    "add(5,2):float mul(0,6):float mul(7,3):float";
constexpr char kGeluTanh[] =
    "(float; 3:float, 0.044715:float, 0.7978845608028654:float, 1:float, 0.5:float) "
    "pow(0,1):float mul(2,6):float add(0,7):float mul(3,8):float tanh(9):float add(4,10):float "
    "mul(5,0):float mul(12,11):float";
constexpr char kSilu[] = "(float) sigmoid(0):float mul(0,1):float";
constexpr char kHardSwish[] =
    "(float; 0.16666666666666666:float, 0.5:float, 0:float, 1:float) mul(0,1):float "
    "add(5,2):float min(6,4):float max(7,3):float mul(0,8):float";
constexpr char kAddRelu[] = "(float, float) add(0,1):float relu(2):float";
constexpr char kAdd[] = "(float, float) add(0,1):float";
constexpr char kMul[] = "(float, float) mul(0,1):float";
constexpr char kMish[] =
    "(float; 1:float) exp(0):float add(2,1):float log(3):float tanh(4):float "
    "mul(0,5):float";

#define SARDONYX_BENCH(name, ...) \
  BENCHMARK_CAPTURE(Run, name, __VA_ARGS__)->Arg(1)->Arg(2)->UseRealTime()
SARDONYX_BENCH(gelu, kGelu, {kCached});
SARDONYX_BENCH(gelu_tanh, kGeluTanh, {kCached});
SARDONYX_BENCH(silu, kSilu, {kCached});
SARDONYX_BENCH(hard_swish, kHardSwish, {kCached});
SARDONYX_BENCH(mish, kMish, {kCached});
SARDONYX_BENCH(exp, "(float) exp(0):float", {kCached});
SARDONYX_BENCH(log, "(float) log(0):float", {kCached});
SARDONYX_BENCH(tanh, "(float) tanh(0):float", {kCached});
SARDONYX_BENCH(erf, "(float) erf(0):float", {kCached});
SARDONYX_BENCH(sin, "(float) sin(0):float", {kCached});
SARDONYX_BENCH(add_relu, kAddRelu, {kCached}, {{1}});
SARDONYX_BENCH(add_relu_streamed, kAddRelu, {kStreamed}, {{1}});
SARDONYX_BENCH(gelu_streamed, kGelu, {kStreamed});
SARDONYX_BENCH(bias_64, kAdd, {384, 64}, {{0, 1}});
SARDONYX_BENCH(bias_768, kAdd, {32, 768}, {{0, 1}});
SARDONYX_BENCH(bias_4, kAdd, {6144, 4}, {{0, 1}});
SARDONYX_BENCH(scale_nchw_7x7, kMul, {1, 480, 49}, {{0, 1, 0}});
SARDONYX_BENCH(scale_nchw_14x14, kMul, {1, 120, 196}, {{0, 1, 0}});
SARDONYX_BENCH(scale_nhwc, kMul, {4, 49, 120}, {{120, 0, 1}});
SARDONYX_BENCH(mask_where, "(float, float; 0:float, -10000:float) eq(1,2):bool where(4,3,0):float",
               {12, 32, 64}, {{0, 0, 1}});
SARDONYX_BENCH(four_elements, kAdd, {4}, {{1}});

void ShapeArithmetic(benchmark::State& state) {
  const int64_t dims[] = {4}, strides[] = {1, 0};
  const ElementwiseKernel kernel = PrepareElementwise(
      Expression::Parse("(int64, int64; 2:int64) div(0,1):int64 mul(3,2):int64"), dims, strides);
  int64_t x[] = {1, 2, 3, 4}, y = 2, out[4];
  const void* const in[] = {x, &y};
  for (auto _ : state) {
    RunElementwise(kernel, in, out, Parallel{});
    benchmark::ClobberMemory();
  }
}
BENCHMARK(ShapeArithmetic);

void Prepare(benchmark::State& state) {
  const int64_t dims[] = {32, 768}, strides[] = {768, 1};
  const Expression expression = Expression::Parse(kGelu);
  for (auto _ : state) benchmark::DoNotOptimize(PrepareElementwise(expression, dims, strides));
}
BENCHMARK(Prepare);

void PrepareAnEpilogue(benchmark::State& state) {
  const Expression expression = Expression::Parse("(float, float) add(0,1):float tanh(2):float");
  const float bias = 0;
  const EpilogueOperand operands[] = {{&bias, DType::kFloat32, 0, 1, {0, 0}}};
  const Epilogue epilogue{&expression, operands};
  EpilogueKernel kernel;
  for (auto _ : state) {
    PrepareEpilogue(epilogue, &kernel);
    benchmark::DoNotOptimize(kernel.tile);
  }
}
BENCHMARK(PrepareAnEpilogue);

void ParallelForOfTwo(benchmark::State& state) {
  ThreadPool& pool = ThreadPool::Process();
  for (auto _ : state) pool.ParallelFor(2, 2, [](int64_t task) { benchmark::DoNotOptimize(task); });
}
BENCHMARK(ParallelForOfTwo)->UseRealTime();

}  // namespace
}  // namespace sardonyx
