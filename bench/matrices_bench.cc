// Products of float64 and of integers as a fraction of the peak (float64 has half of it), and small
// matrices through elimination.

#include "kernel_bench.h"
#include "kernels/conv_typed.h"
#include "kernels/det.h"
#include "kernels/gemm_typed.h"

namespace sardonyx {
namespace {

void TypedProduct(benchmark::State& state, DType type) {
  const int64_t size = state.range(0);
  GemmShape shape;
  shape.m = shape.n = shape.k = shape.lda = shape.ldb = shape.ldc = size;
  std::vector<double> a(size * size, 1), b(a), c(a);
  std::vector<double> scratch(GemmTypedScratchBytes(type, shape, false) / 8 + 8);
  for (auto _ : state) {
    GemmTyped(type, shape, a.data(), b.data(), nullptr, c.data(), {}, scratch.data(), Parallel{});
    benchmark::ClobberMemory();
  }
  ReportFlops(state, 2.0 * static_cast<double>(size * size * size) * (BitWidth(type) / 32.0), 1);
}
BENCHMARK_CAPTURE(TypedProduct, f64, DType::kFloat64)->Arg(128)->Arg(256)->Arg(512)->Arg(1000);
BENCHMARK_CAPTURE(TypedProduct, i32, DType::kInt32)->Arg(256);
BENCHMARK_CAPTURE(TypedProduct, i64, DType::kInt64)->Arg(256);

// A 3 x 3 convolution of that many channels, 56 x 56 pixels.
void TypedConv(benchmark::State& state, DType type) {
  const int64_t channels = state.range(0);
  const ConvShape shape{.in = {1, 56, 56},
                        .cin = channels,
                        .out = {1, 56, 56},
                        .cout = channels,
                        .kernel = {1, 3, 3},
                        .pad_begin = {0, 1, 1},
                        .x_stride = channels,
                        .y_stride = channels};
  const int64_t words = BitWidth(type) / 32;
  const AlignedFloats x = RandomFloats(shape.InPixels() * channels * words);
  const AlignedFloats y = RandomFloats(shape.OutPixels() * channels * words);
  const AlignedFloats packed = RandomFloats(ConvTypedPackedBytes(type, shape) / 4);
  const AlignedFloats scratch = RandomFloats(ConvTypedScratchBytes(type, shape, 1) / 4);
  for (auto _ : state) {
    ConvTyped(type, shape, x.get(), packed.get(), y.get(), scratch.get(), Parallel{});
    benchmark::ClobberMemory();
  }
  ReportFlops(state, static_cast<double>(shape.Flops() * words), 1);
}
BENCHMARK_CAPTURE(TypedConv, f64, DType::kFloat64)->Arg(32)->Arg(64);

void Elimination(benchmark::State& state, bool inverse) {
  const int64_t n = state.range(0), count = 1000;
  const AlignedFloats x = RandomFloats(count * n * n), y = RandomFloats(count * n * n);
  const AlignedFloats scratch = RandomFloats(
      (inverse ? InversesScratchBytes(count, n, 1) : DeterminantsScratchBytes(count, n, 1)) / 4);
  for (auto _ : state) {
    const auto run = inverse ? Inverses<float> : Determinants<float>;
    run(x.get(), count, n, y.get(), scratch.get(), Parallel{});
    benchmark::ClobberMemory();
  }
  const double cube = static_cast<double>(n * n * n * count);
  ReportFlops(state, inverse ? 2 * cube : 2 * cube / 3, 1);
}
BENCHMARK_CAPTURE(Elimination, det, false)->Arg(3)->Arg(16)->Arg(64);
BENCHMARK_CAPTURE(Elimination, inverse, true)->Arg(4)->Arg(8)->Arg(64);

}  // namespace
}  // namespace sardonyx
