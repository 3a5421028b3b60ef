// Products of bytes in int32, of transformers and convolutional networks. Arguments: M, N, K,
// kernel side of a convolution over a square image of M pixels, groups, threads, and whether bytes
// are added in the network's manner (behind a rounding, over them). `of_peak` is the part of what
// one thread reaches at best with operands in the first-level cache.

#include <algorithm>
#include <vector>

#include "kernel_bench.h"
#include "kernels/conv_int8.h"
#include "kernels/conv_int8_winograd.h"

namespace sardonyx {
namespace {

// Runs a convolution of random bytes to uint8; `adds`: onto what y holds, behind a rounding.
template <class Packed, class Run>
void Measure(benchmark::State& state, const ConvShape& s, const Parallel& par, const Packed& packed,
             size_t scratch_bytes, Run run, bool adds) {
  const AlignedFloats x = RandomFloats(s.InPixels() * s.cin / 4 + 16);
  const AlignedFloats y = RandomFloats(s.OutPixels() * s.cout);
  const AlignedFloats scale = RandomFloats(s.cout + kInt8ColumnSlack);
  for (int64_t j = 0; j < s.cout; ++j) scale[j] *= 1e-3f;
  const AlignedFloats scratch = RandomFloats(static_cast<int64_t>(scratch_bytes / 4 + 1));
  Int8Rescale rescale;
  rescale.scale = rescale.offset = scale.get();
  rescale.clamps = true;
  rescale.high = 255;
  rescale.type = DType::kUInt8;
  rescale.rounds = rescale.has_residual = adds;
  rescale.round_low = -120;
  rescale.round_high = 135;
  rescale.again = rescale.residual_scale = 0.6f;
  Int8ConvArgs args;
  args.x = x.get();
  args.packed = packed.get();
  args.y = y.get();
  args.rescale = &rescale;
  if (adds) args.residual = args.y;
  args.residual_stride = s.y_stride;
  for (auto _ : state) {
    run(s, args, scratch.get(), par);
    benchmark::ClobberMemory();
  }
  const double total = static_cast<double>(s.Flops()) * static_cast<double>(state.iterations());
  state.counters["GOP/s"] = benchmark::Counter(total * 1e-9, benchmark::Counter::kIsRate);
  state.counters["of_peak"] =
      benchmark::Counter(total / (PeakByteOperations() * par.threads), benchmark::Counter::kIsRate);
}

void MeasureDirect(benchmark::State& state, const ConvShape& s, const Parallel& par, bool adds) {
  const int64_t taps = s.KernelSize(), count = s.cin / s.groups * taps;
  const AlignedFloats values = RandomFloats(s.cout * count);
  std::vector<int8_t> weights(static_cast<size_t>(s.cout * count));
  // Pairs that saturate in int16 are rare in networks.
  std::transform(values.get(), values.get() + s.cout * count, weights.begin(),
                 [](float value) { return static_cast<int8_t>(value * 64); });
  const AlignedFloats packed = RandomFloats(static_cast<int64_t>(ConvInt8PackedBytes(s) / 4));
  ConvInt8Pack(s, {.data = weights.data(), .n_stride = count, .c_stride = taps, .t_stride = 1},
               packed.get(), par);
  Measure(state, s, par, packed, ConvInt8ScratchBytes(s, par.threads), ConvInt8, adds);
}

ConvShape SquareImage(int64_t side, int64_t cin, int64_t cout, int64_t kernel) {
  ConvShape s;
  s.in[1] = s.in[2] = s.out[1] = s.out[2] = side;
  s.cin = s.x_stride = cin;
  s.cout = s.y_stride = cout;
  s.kernel[1] = s.kernel[2] = kernel;
  s.pad_begin[1] = s.pad_begin[2] = kernel / 2;
  return s;
}

void BM_ConvInt8(benchmark::State& state) {
  ApplyTargetFromEnvironment();
  const int64_t m = state.range(0), kernel = state.range(3);
  int64_t side = 1;
  while (side * side < m) ++side;
  ConvShape s = SquareImage(side, state.range(2), state.range(1), kernel);
  if (kernel == 1) s.in[1] = s.out[1] = 1, s.in[2] = s.out[2] = m;
  s.groups = state.range(4);
  MeasureDirect(state, s, Threads(static_cast<int>(state.range(5))), state.range(6) != 0);
}

void Shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"m", "n", "k", "kernel", "groups", "threads", "adds"})->UseRealTime();
  for (const int threads : {1, 2}) {
    bench->Args({512, 512, 512, 1, 1, threads, 0});
    for (const int tokens : {1, 16, 128}) {
      bench->Args({tokens, 768, 768, 1, 1, threads, 0});
      bench->Args({tokens, 3072, 768, 1, 1, threads, 0});
      bench->Args({tokens, 768, 3072, 1, 1, threads, 0});
    }
    bench->Args({3136, 64, 64, 1, 1, threads, 0});
    for (const int adds : {0, 1}) {
      bench->Args({3136, 256, 64, 1, 1, threads, adds});
      bench->Args({784, 512, 128, 1, 1, threads, adds});
      bench->Args({196, 1024, 256, 1, 1, threads, adds});
      bench->Args({49, 2048, 512, 1, 1, threads, adds});
    }
    bench->Args({3136, 64, 64, 3, 1, threads, 0});
    bench->Args({784, 128, 128, 3, 1, threads, 0});
    bench->Args({196, 256, 256, 3, 1, threads, 0});
    bench->Args({49, 512, 512, 3, 1, threads, 0});
    bench->Args({196, 256, 1024, 1, 1, threads, 0});
    bench->Args({49, 512, 2048, 1, 1, threads, 0});
    bench->Args({12544, 32, 32, 3, 32, threads, 0});
    bench->Args({784, 192, 192, 3, 192, threads, 0});
  }
}
BENCHMARK(BM_ConvInt8)->Apply(Shapes);

// A 3x3 convolution over a square image, by the direct sum or by Winograd's algorithm.
void BM_Conv3x3(benchmark::State& state) {
  ApplyTargetFromEnvironment();
  const ConvShape s = SquareImage(state.range(0), state.range(1), state.range(2), 3);
  const Parallel par = Threads(static_cast<int>(state.range(3)));
  const bool winograd = state.range(4) != 0;
  if (winograd) {
    const AlignedFloats packed =
        RandomFloats(static_cast<int64_t>(conv_int8_winograd::PackedBytes(s) / 4));
    Measure(state, s, par, packed, conv_int8_winograd::ScratchBytes(s, par.threads),
            conv_int8_winograd::Run, false);
  } else {
    MeasureDirect(state, s, par, false);
  }
  state.counters["chosen"] = conv_int8_winograd::IsFaster(s) == winograd ? 1 : 0;
}

void Images(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"side", "cin", "cout", "threads", "winograd"})->UseRealTime();
  const int64_t sizes[][3] = {
      {112, 16, 16}, {112, 32, 32},  {112, 32, 64},  {112, 8, 32},   {56, 16, 64},   {56, 32, 32},
      {56, 64, 32},  {56, 64, 64},   {28, 48, 48},   {28, 128, 128}, {28, 256, 256}, {14, 32, 32},
      {14, 64, 64},  {14, 256, 256}, {14, 512, 512}, {13, 192, 192}, {10, 96, 96},   {8, 64, 64},
      {8, 256, 256}, {7, 64, 64},    {7, 192, 192},  {7, 512, 512},  {4, 64, 64}};
  for (const int threads : {1, 2}) {
    for (const auto& [side, cin, cout] : sizes) {
      for (const int winograd : {0, 1}) bench->Args({side, cin, cout, threads, winograd});
    }
  }
}
BENCHMARK(BM_Conv3x3)->Apply(Images);

}  // namespace
}  // namespace sardonyx
