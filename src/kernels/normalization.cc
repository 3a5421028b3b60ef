#include "kernels/normalization.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/normalization.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "base/round.h"
#include "kernels/row_math-inl.h"
#include "kernels/scratch_slots.h"
#include "kernels/slices.h"
#include "kernels/tile_ops.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

// Sum of (x - shift), or of (x - shift)^2, in chunks that are added in double.
template <bool kSquare, typename T>
HWY_INLINE double ShiftedSum(const T* x, int64_t n, T shift) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V s = hn::Set(d, shift);
  const auto add = [&](V sum, V v) HWY_ATTR {
    const V t = hn::Sub(v, s);
    return kSquare ? hn::MulAdd(t, t, sum) : hn::Add(sum, t);
  };
  constexpr int64_t kChunk = 2048;
  double total = 0.0;
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t end = std::min(n, begin + kChunk);
    V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    int64_t i = begin;
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
      s0 = add(s0, hn::LoadU(d, x + i));
      s1 = add(s1, hn::LoadU(d, x + i + lanes));
      s2 = add(s2, hn::LoadU(d, x + i + 2 * lanes));
      s3 = add(s3, hn::LoadU(d, x + i + 3 * lanes));
    }
    for (; i + lanes <= end; i += lanes) s0 = add(s0, hn::LoadU(d, x + i));
    if (i < end) s1 = add(s1, LoadPart(d, x + i, end - i, shift));
    total += SumLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)));
  }
  return total;
}

// y = (x - mean) * inv * scale + bias; scale and bias are vectors, or null.
template <typename T>
HWY_INLINE void Apply(const T* x, const T* scale, const T* bias, T* y, int64_t n, T mean, T inv) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto m = hn::Set(d, mean), f = hn::Set(d, inv);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto v = hn::Mul(hn::Sub(hn::LoadU(d, x + i), m), f);
    if (scale != nullptr) v = hn::Mul(v, hn::LoadU(d, scale + i));
    if (bias != nullptr) v = hn::Add(v, hn::LoadU(d, bias + i));
    hn::StoreU(v, d, y + i);
  }
  if (i == n) return;
  auto v = hn::Mul(hn::Sub(LoadPart(d, x + i, n - i), m), f);
  if (scale != nullptr) v = hn::Mul(v, LoadPart(d, scale + i, n - i));
  if (bias != nullptr) v = hn::Add(v, LoadPart(d, bias + i, n - i));
  StorePart(v, d, y + i, n - i);
}

// The same with numbers for each run of elements, those of `first` and behind it.
template <typename T>
HWY_INLINE void ApplyRuns(const RowNorm<T>& norm, int64_t first, const T* x, T* y, T mean, T inv) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto m = hn::Set(d, mean);
  for (const T* const end = x + norm.n; x < end; x += norm.run, y += norm.run, ++first) {
    const int64_t at = first % norm.runs;
    const auto f = hn::Set(d, norm.scale != nullptr ? inv * norm.scale[at] : inv);
    const auto b = hn::Set(d, norm.bias != nullptr ? norm.bias[at] : T{0});
    const auto apply = [&](auto v) HWY_ATTR { return hn::MulAdd(hn::Sub(v, m), f, b); };
    int64_t i = 0;
    for (; i + lanes <= norm.run; i += lanes) {
      hn::StoreU(apply(hn::LoadU(d, x + i)), d, y + i);
    }
    const int64_t rest = norm.run - i;
    if (rest > 0) StorePart(apply(LoadPart(d, x + i, rest)), d, y + i, rest);
  }
}

// Short rows go through each step some at a time, for a row alone waits for the end of each.
template <typename T>
HWY_INLINE void Normalize(const RowNorm<T> norm, int64_t first_row) {  // a copy: stores change none
  constexpr int64_t kTogether = 4, kShortBytes = 4096;
  const int64_t n = norm.n;
  const int64_t together = n * static_cast<int64_t>(sizeof(T)) <= kShortBytes ? kTogether : 1;
  const double count = static_cast<double>(n);
  T mean[kTogether] = {}, inv[kTogether];
  for (int64_t begin = 0; begin < norm.rows; begin += together) {
    const int64_t rows = std::min(together, norm.rows - begin);
    const T* const x = norm.x + begin * n;
    for (int64_t r = 0; r < rows && !norm.rms; ++r) {
      mean[r] = static_cast<T>(ShiftedSum<false>(x + r * n, n, T{0}) / count);
    }
    for (int64_t r = 0; r < rows; ++r) {
      const double variance = ShiftedSum<true>(x + r * n, n, mean[r]) / count;
      inv[r] = static_cast<T>(1.0 / std::sqrt(variance + norm.epsilon));
    }
    for (int64_t r = 0; r < rows; ++r) {
      T* const y = norm.y + (begin + r) * n;
      const int64_t first = (first_row + begin + r) * (n / norm.run);
      if (norm.run > 1) {
        ApplyRuns(norm, first, x + r * n, y, mean[r], inv[r]);
        continue;
      }
      const int64_t offset = norm.runs == 0 ? 0 : first % norm.runs;
      Apply(x + r * n, norm.scale == nullptr ? nullptr : norm.scale + offset,
            norm.bias == nullptr ? nullptr : norm.bias + offset, y, n, mean[r], inv[r]);
    }
    if (norm.mean != nullptr) std::copy_n(mean, rows, norm.mean + begin);
    if (norm.inv_std_dev != nullptr) std::copy_n(inv, rows, norm.inv_std_dev + begin);
  }
}

// Row 0 is row `first` of all.
void NormalizeFloats(const RowNorm<float>& norm, int64_t first) { Normalize(norm, first); }
void NormalizeDoubles(const RowNorm<double>& norm, int64_t first) { Normalize(norm, first); }

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {
namespace {

HWY_EXPORT(NormalizeFloats);
HWY_EXPORT(NormalizeDoubles);

// Rows that are widened together: short ones, for the steps of a row wait for each other.
int64_t RowsTogether(int64_t n) { return std::max<int64_t>(1, 4096 / n); }
size_t SlotBytes(int64_t n) { return AlignBytes(static_cast<size_t>(RowsTogether(n) * n) * 4); }

template <typename T, typename Run>
void ForParts(const RowNorm<T>& norm, const Parallel& par, Run&& run) {
  const Slices slices = Slice(norm.rows, norm.n * static_cast<int64_t>(sizeof(T)) / 4);
  par.For(slices.tasks, [&](int64_t task) {
    const int64_t begin = slices.Begin(task);
    RowNorm<T> part = norm;
    part.x += begin * norm.n;
    part.y += begin * norm.n;
    part.rows = slices.End(task, norm.rows) - begin;
    if (norm.mean != nullptr) part.mean += begin;
    if (norm.inv_std_dev != nullptr) part.inv_std_dev += begin;
    run(part, begin);
  });
}

}  // namespace

void NormalizeRows(const RowNorm<float>& norm, const Parallel& par) {
  ForParts(norm, par, [](const auto& part, int64_t first) {
    HWY_DYNAMIC_DISPATCH(NormalizeFloats)(part, first);
  });
}
void NormalizeRows(const RowNorm<double>& norm, const Parallel& par) {
  ForParts(norm, par, [](const auto& part, int64_t first) {
    HWY_DYNAMIC_DISPATCH(NormalizeDoubles)(part, first);
  });
}

size_t HalfRowsScratchBytes(int64_t n, int threads) {
  return SlotBytes(n) * static_cast<size_t>(ScratchSlots::CountFor(threads));
}

void NormalizeHalfRows(const RowNorm<float>& norm, const HalfRows& rows, void* scratch,
                       const Parallel& par) {
  const int64_t n = norm.n, together = RowsTogether(n);
  const int64_t x_size = BitWidth(rows.x_type) / 8;
  const int64_t y_size = BitWidth(rows.y_type) / 8;
  const bool widens = rows.x_type != DType::kFloat32, rounds = rows.y_type != DType::kFloat32;
  const TileFn widen = widens ? CastTileFn(rows.x_type, DType::kFloat32) : nullptr;
  const TileFn round = rounds ? CastTileFn(DType::kFloat32, rows.y_type) : nullptr;
  ScratchSlots slots(scratch, SlotBytes(n), ScratchSlots::CountFor(par.threads));
  const Slices slices = Slice(norm.rows, n);
  par.For(slices.tasks, [&](int64_t task) {
    const ScratchSlots::Lease lease(slots);
    const int64_t end = slices.End(task, norm.rows);
    for (int64_t row = slices.Begin(task); row < end; row += together) {
      const auto* const x = static_cast<const std::byte*>(rows.x) + row * n * x_size;
      auto* const y = static_cast<std::byte*>(rows.y) + row * n * y_size;
      RowNorm<float> part = norm;
      part.rows = std::min(together, end - row);
      part.x = widens ? lease.floats() : reinterpret_cast<const float*>(x);
      part.y = rounds ? lease.floats() : reinterpret_cast<float*>(y);
      if (norm.mean != nullptr) part.mean += row;
      if (norm.inv_std_dev != nullptr) part.inv_std_dev += row;
      if (widens) widen(TileArgs{{x}, lease.floats(), part.rows * n});
      HWY_DYNAMIC_DISPATCH(NormalizeFloats)(part, row);
      if (rounds) round(TileArgs{{lease.floats()}, y, part.rows * n});
    }
  });
}

}  // namespace sardonyx
#endif  // HWY_ONCE
