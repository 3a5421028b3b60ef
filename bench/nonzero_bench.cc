// Elements chosen by their values: places of nonzeros, elements under a condition, different
// elements, boxes that overlap no better one. Times of a million elements (of 8,400 boxes of 80
// classes for the last); bytes are what is read and written once.

#include "kernel_bench.h"
#include "kernels/non_max_suppression.h"
#include "kernels/nonzero.h"
#include "kernels/unique.h"

namespace sardonyx {
namespace {

constexpr int64_t kCount = 1 << 20;

// Zero but for `percent` of the elements.
AlignedFloats Sparse(int64_t percent) {
  AlignedFloats x = RandomFloats(kCount);
  const float least = 1.0f - static_cast<float>(percent) / 50.0f;
  for (int64_t i = 0; i < kCount; ++i) x[i] = x[i] >= least ? 1.0f : 0.0f;
  return x;
}

void BM_Nonzero(benchmark::State& state) {
  ApplyTargetFromEnvironment();
  const AlignedFloats x = Sparse(state.range(0));
  const Parallel par = Threads(static_cast<int>(state.range(1)));
  std::vector<uint64_t> memory(Marks::Bytes(kCount) / 8);
  std::vector<int64_t> y(2 * kCount);
  const std::vector<int64_t> dims = {1024, kCount / 1024};
  int64_t marked = 0;
  for (auto _ : state) {
    Marks marks(kCount, memory.data());
    marks.MarkNonzero(reinterpret_cast<const uint32_t*>(x.get()), 0x7fffffffu, par);
    marks.WriteIndices(dims, y.data(), par);
    marked = marks.marked();
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * (kCount * 4 + marked * 16));
}

void BM_Compress(benchmark::State& state) {
  ApplyTargetFromEnvironment();
  const AlignedFloats x = RandomFloats(kCount);
  const AlignedFloats condition = Sparse(state.range(0));
  std::vector<uint8_t> chosen(condition.get(), condition.get() + kCount);
  const Parallel par = Threads(static_cast<int>(state.range(1)));
  std::vector<uint64_t> memory(Marks::Bytes(kCount) / 8);
  std::vector<float> y(kCount);
  int64_t marked = 0;
  for (auto _ : state) {
    Marks marks(kCount, memory.data());
    marks.MarkNonzero(chosen.data(), uint8_t{0xff}, par);
    marks.WriteChosen(x.get(), 4, y.data(), par);
    marked = marks.marked();
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * (kCount * 5 + marked * 4));
}

void BM_Unique(benchmark::State& state) {
  const AlignedFloats random = RandomFloats(kCount);
  std::vector<uint32_t> x(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    x[i] = static_cast<uint32_t>((random[i] + 1) * 0.5f * static_cast<float>(state.range(0)));
  }
  const Parallel par = Threads(static_cast<int>(state.range(1)));
  const UniqueShape shape{kCount, 4, OrderedBits::kUnsigned, true};
  std::vector<uint64_t> scratch(UniqueScratchBytes(shape) / 8 + 1);
  std::vector<uint32_t> values(kCount);
  std::vector<int64_t> first(kCount), inverse(kCount), counts(kCount);
  for (auto _ : state) {
    const int64_t different = FindUnique(shape, x.data(), scratch.data(), par);
    WriteUnique(shape, x.data(), different, scratch.data(),
                {values.data(), first.data(), inverse.data(), counts.data()}, par);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kCount);
}

void BM_NonMaxSuppression(benchmark::State& state) {
  ApplyTargetFromEnvironment();
  const NonMaxSuppressionShape shape{.classes = 80,
                                     .count = 8400,
                                     .most = 300,
                                     .overlap = 0.5f,
                                     .has_least_score = true,
                                     .least_score = 1.0f - static_cast<float>(state.range(0)) / 50,
                                     .center = true};
  const AlignedFloats boxes = RandomFloats(shape.count * 4);
  for (int64_t i = 0; i < shape.count * 4; ++i) boxes[i] = 2 + boxes[i];
  const AlignedFloats scores = RandomFloats(shape.rows() * shape.count);
  const Parallel par = Threads(static_cast<int>(state.range(1)));
  std::vector<int32_t> chosen(shape.rows() * shape.places());
  std::vector<int64_t> found(shape.rows());
  const AlignedFloats scratch =
      RandomFloats(NonMaxSuppressionScratchBytes(shape, par.threads) / 4 + 1);
  for (auto _ : state) {
    NonMaxSuppression(shape, boxes.get(), scores.get(), chosen.data(), found.data(), scratch.get(),
                      par);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * shape.rows() * shape.count * 4);
}

void Percents(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"percent", "threads"})->ArgsProduct({{1, 50, 100}, {1, 2}})->UseRealTime();
}
BENCHMARK(BM_Nonzero)->Apply(Percents);
BENCHMARK(BM_Compress)->Apply(Percents);
BENCHMARK(BM_NonMaxSuppression)
    ->ArgNames({"percent", "threads"})
    ->ArgsProduct({{1, 50}, {1, 2}})
    ->UseRealTime();
BENCHMARK(BM_Unique)
    ->ArgNames({"different", "threads"})
    ->ArgsProduct({{100, 10000, 1 << 24}, {1, 2}})
    ->UseRealTime();

}  // namespace
}  // namespace sardonyx
