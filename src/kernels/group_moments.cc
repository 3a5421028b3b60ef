#include "kernels/group_moments.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/group_moments.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "base/round.h"
#include "kernels/row_math-inl.h"
#include "kernels/scratch_slots.h"
#include "kernels/slices.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

// Of pixels that are read twice, the second time from the second cache at least. Of fewer the joins
// of groups show (16 KiB: 0.85 of the speed).
constexpr int64_t kBlockBytes = 64 << 10;
constexpr int64_t kMostPixels = 256;  // that are summed in one chain

// sums[c] += sum over kPixels pixels of x[c] - shift[c], or of its square.
template <bool kSquare, int kPixels, typename T>
HWY_INLINE void AddPixels(const T* x, int64_t channels, const T* shift, T* sums) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(d));
  const auto add = [&](int64_t c, const auto& load) HWY_ATTR {
    auto sum = load(sums + c);
    const auto s = load(shift + c);
#pragma GCC unroll 8
    for (int p = 0; p < kPixels; ++p) {
      const auto apart = hn::Sub(load(x + p * channels + c), s);
      sum = kSquare ? hn::MulAdd(apart, apart, sum) : hn::Add(sum, apart);
    }
    return sum;
  };
  int64_t c = 0;
  for (; c + kL <= channels; c += kL) {
    const auto load = [&](const T* from) HWY_ATTR { return hn::LoadU(d, from); };
    hn::StoreU(add(c, load), d, sums + c);
  }
  const int64_t rest = channels - c;
  if (rest == 0) return;
  const auto load = [&](const T* from) HWY_ATTR { return LoadPart(d, from, rest); };
  StorePart(add(c, load), d, sums + c, rest);
}

template <bool kSquare, typename T>
void SumChannels(const T* x, int64_t pixels, int64_t channels, const T* shift, T* sums) {
  constexpr int kTogether = 8;
  std::fill_n(sums, channels, T{0});
  for (; pixels >= kTogether; pixels -= kTogether, x += kTogether * channels) {
    AddPixels<kSquare, kTogether>(x, channels, shift, sums);
  }
  for (; pixels > 0; --pixels, x += channels) AddPixels<kSquare, 1>(x, channels, shift, sums);
}

template <typename T>
double SumOf(const T* values, int64_t count) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(d));
  double total = 0;
  int64_t i = 0;
  if (count >= kL) {
    auto sum = hn::Zero(d);
    for (; i + kL <= count; i += kL) sum = hn::Add(sum, hn::LoadU(d, values + i));
    total = SumLanes(d, sum);
  }
  for (; i < count; ++i) total += static_cast<double>(values[i]);
  return total;
}

// Of each group over the pixels; shift and sums are scratch of as many values as there are
// channels. Sums are of what values differ from the mean of those before them, of the first ones
// twice: so they lose little.
template <typename T>
void Scan(const GroupMomentsArgs<T>& args, const T* x, int64_t pixels, T* shift, T* sums,
          Moments* groups) {
  const int64_t channels = args.channels, each = channels / args.groups;
  const int64_t bytes = channels * static_cast<int64_t>(sizeof(T));
  const int64_t block = std::clamp<int64_t>(kBlockBytes / bytes, 16, kMostPixels);
  const auto shift_to_mean = [&](int64_t count) {
    SumChannels<false>(x, count, channels, shift, sums);
    for (int64_t g = 0; g < args.groups; ++g) {
      T* const of_group = shift + g * each;
      const double apart = SumOf(sums + g * each, each) / static_cast<double>(count * each);
      std::fill_n(of_group, each, static_cast<T>(static_cast<double>(*of_group) + apart));
    }
  };
  std::fill_n(groups, args.groups, Moments());
  std::fill_n(shift, channels, T{0});
  for (int64_t seen = 0; seen < pixels;) {
    const int64_t count = std::min(block, pixels - seen);
    if (seen == 0) shift_to_mean(count);
    shift_to_mean(count);
    SumChannels<true>(x, count, channels, shift, sums);
    const JoinMoments join(seen, count, each);
    for (int64_t g = 0; g < args.groups; ++g) {
      const double mean = static_cast<double>(shift[g * each]);
      groups[g] = join(groups[g], {mean, SumOf(sums + g * each, each)});
    }
    x += count * channels;
    seen += count;
  }
}

void ScanFloats(const GroupMomentsArgs<float>& args, const float* x, int64_t pixels, float* shift,
                float* sums, Moments* groups) {
  Scan(args, x, pixels, shift, sums, groups);
}
void ScanDoubles(const GroupMomentsArgs<double>& args, const double* x, int64_t pixels,
                 double* shift, double* sums, Moments* groups) {
  Scan(args, x, pixels, shift, sums, groups);
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {
namespace {

HWY_EXPORT(ScanFloats);
HWY_EXPORT(ScanDoubles);

Slices SlicesOf(int64_t pixels, int64_t channels) { return Slice(pixels, channels); }
size_t MomentsBytes(int64_t batch, int64_t pixels, int64_t channels, int64_t groups) {
  return AlignBytes(static_cast<size_t>(batch * SlicesOf(pixels, channels).tasks * groups) *
                    sizeof(Moments));
}
// Two values for each channel, of either type.
size_t SlotBytes(int64_t channels) {
  return AlignBytes(static_cast<size_t>(channels) * 2 * sizeof(double));
}

template <typename T, typename Scanner>
void Run(const GroupMomentsArgs<T>& args, void* scratch, const Parallel& par, Scanner&& scan) {
  const Slices slices = SlicesOf(args.pixels, args.channels);
  const size_t size = MomentsBytes(args.batch, args.pixels, args.channels, args.groups);
  auto* const found = static_cast<Moments*>(scratch);
  ScratchSlots slots(static_cast<std::byte*>(scratch) + size, SlotBytes(args.channels),
                     ScratchSlots::CountFor(par.threads));
  par.For(args.batch * slices.tasks, [&](int64_t task) {
    const ScratchSlots::Lease lease(slots);
    auto* const shift = reinterpret_cast<T*>(lease.floats());
    const int64_t item = task / slices.tasks, slice = task % slices.tasks;
    const int64_t begin = slices.Begin(slice), end = slices.End(slice, args.pixels);
    scan(args, args.x + (item * args.pixels + begin) * args.channels, end - begin, shift,
         shift + args.channels, found + task * args.groups);
  });
  const int64_t each = args.channels / args.groups;
  const auto values = static_cast<double>(args.pixels * each);
  for (int64_t item = 0; item < args.batch; ++item) {
    for (int64_t g = 0; g < args.groups; ++g) {
      Moments all;
      for (int64_t slice = 0; slice < slices.tasks; ++slice) {
        const int64_t begin = slices.Begin(slice), end = slices.End(slice, args.pixels);
        const JoinMoments join(begin, end - begin, each);
        all = join(all, found[(item * slices.tasks + slice) * args.groups + g]);
      }
      const double factor = 1 / std::sqrt(all.squares / values + args.epsilon);
      for (int64_t c = g * each; c < (g + 1) * each; ++c) {
        const double scale = args.scale == nullptr ? 1.0 : static_cast<double>(args.scale[c]);
        args.mean[item * args.channels + c] = static_cast<T>(all.mean);
        args.factor[item * args.channels + c] = static_cast<T>(factor * scale);
      }
    }
  }
}

}  // namespace

size_t GroupMomentsScratchBytes(int64_t batch, int64_t pixels, int64_t channels, int64_t groups,
                                int threads) {
  return MomentsBytes(batch, pixels, channels, groups) +
         SlotBytes(channels) * static_cast<size_t>(ScratchSlots::CountFor(threads));
}

void GroupMoments(const GroupMomentsArgs<float>& args, void* scratch, const Parallel& par) {
  Run(args, scratch, par, [](const auto&... with) { HWY_DYNAMIC_DISPATCH(ScanFloats)(with...); });
}
void GroupMoments(const GroupMomentsArgs<double>& args, void* scratch, const Parallel& par) {
  Run(args, scratch, par, [](const auto&... with) { HWY_DYNAMIC_DISPATCH(ScanDoubles)(with...); });
}

}  // namespace sardonyx
#endif  // HWY_ONCE
