#include "kernels/int8_panel.h"

#include <cstdlib>
#include <type_traits>

#include <hwy/cache_control.h>

#include "kernels/gemm_int8.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/int8_panel.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

void InterleaveRows(const uint8_t* from, int64_t stride, int64_t rows, int64_t columns,
                    int64_t width, uint8_t flip, uint8_t* to) {
  constexpr int64_t kAhead = 32;  // rows: each has a line of its own, often in a page of its own
  const hn::FixedTag<uint8_t, 16> d;
  const auto bits = hn::Set(d, flip);
  for (int64_t k = 0; k < rows; k += 4, from += 4 * stride, to += 4 * width) {
    for (int i = 0; i < 4 && k + kAhead < rows; ++i) hwy::Prefetch(from + (kAhead + i) * stride);
    int64_t j = 0;
    for (; j + 16 <= columns; j += 16) {
      const auto row = [&](int i) { return hn::Xor(hn::LoadU(d, from + i * stride + j), bits); };
      hn::StoreInterleaved4(row(0), row(1), row(2), row(3), d, to + 4 * j);
    }
    for (; j < columns; ++j) {
      for (int i = 0; i < 4; ++i) to[4 * j + i] = from[i * stride + j] ^ flip;
    }
  }
}

void GatherTap(const uint32_t* words, int64_t ld, int64_t taps, int64_t tap, int64_t columns,
               uint8_t flip, uint8_t* group) {
  const hn::CappedTag<uint32_t, 16> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto bits = hn::Set(d, flip * 0x01010101u), low = hn::Set(d, 0xffu);
  int64_t j = 0;
  for (; j + lanes <= columns; j += lanes) {
    auto bytes = bits;
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t at = i * taps + tap;
      const auto word = hn::LoadU(d, words + at / 4 * ld + j);
      const auto byte = hn::And(hn::ShiftRightSame(word, static_cast<int>(at % 4 * 8)), low);
      bytes = hn::Xor(bytes, hn::ShiftLeftSame(byte, static_cast<int>(i * 8)));
    }
    const hn::Repartition<uint8_t, decltype(d)> d8;
    hn::StoreU(hn::BitCast(d8, bytes), d8, group + 4 * j);
  }
  for (; j < columns; ++j) {
    for (int64_t i = 0; i < 4; ++i) {
      const int64_t at = i * taps + tap;
      const uint32_t word = words[at / 4 * ld + j] >> (at % 4 * 8);
      group[4 * j + i] = static_cast<uint8_t>(word ^ flip);
    }
  }
}

// Panels have 8 columns at least.
void SumColumns(const int32_t* panel, int64_t groups, int64_t width, int32_t* sums) {
  const hn::CappedTag<int32_t, 8> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t j = 0; j < width; j += lanes) {
    V sum = hn::Zero(d);
    for (int64_t g = 0; g < groups; ++g) {
      const V group = hn::LoadU(d, panel + g * width + j);
      sum = hn::Add(sum, hn::ShiftRight<24>(group));
      sum = hn::Add(sum, hn::ShiftRight<24>(hn::ShiftLeft<8>(group)));
      sum = hn::Add(sum, hn::ShiftRight<24>(hn::ShiftLeft<16>(group)));
      sum = hn::Add(sum, hn::ShiftRight<24>(hn::ShiftLeft<24>(group)));
    }
    hn::StoreU(sum, d, sums + j);
  }
}

void OrderPairs(uint32_t* panel, int64_t count) {
  const hn::CappedTag<uint32_t, 8> d;
  const auto ends = hn::Set(d, 0xff0000ffu), second = hn::Set(d, 0xff00u);
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(d))) {
    const auto group = hn::LoadU(d, panel + i);
    const auto turned =
        hn::Or(hn::And(hn::ShiftRight<8>(group), second), hn::ShiftLeft<8>(hn::And(group, second)));
    hn::StoreU(hn::Or(hn::And(group, ends), turned), d, panel + i);
  }
}

// Takes the excess of the four weights at `at`; false if there is none.
bool TakeExcess(int8_t* at, int8_t* rest) {
  constexpr int kMost = 128;
  bool any = false;
  for (int k = 0; k < 4; k += 2) {
    const int sum = at[k] + at[k + 1];
    if (std::abs(sum) <= kMost) continue;  // so they are, if they have different signs
    const int larger = std::abs(at[k]) > std::abs(at[k + 1]) ? k : k + 1;
    rest[larger] = static_cast<int8_t>(sum > 0 ? sum - kMost : sum + kMost);
    at[larger] = static_cast<int8_t>(at[larger] - rest[larger]);
    any = true;
  }
  return any;
}

int64_t SplitPanel(int8_t* panel, int64_t groups, int64_t width, int64_t most, Int8Excess* excess) {
  const hn::CappedTag<int16_t, 16> d;  // panels have 8 columns at least
  const hn::Repartition<int8_t, decltype(d)> bytes;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d)) / 2;  // columns
  int64_t count = 0;
  for (int64_t i = 0; i < groups * width; i += lanes) {
    const auto pairs = hn::BitCast(d, hn::LoadU(bytes, panel + 4 * i));
    const auto sums = hn::Add(hn::ShiftRight<8>(pairs), hn::ShiftRight<8>(hn::ShiftLeft<8>(pairs)));
    if (hn::AllFalse(d, hn::Gt(hn::Abs(sums), hn::Set(d, int16_t{128})))) continue;
    for (int64_t j = i; j < i + lanes; ++j) {
      Int8Excess taken{static_cast<uint32_t>(j), {}};
      if (!TakeExcess(panel + 4 * j, taken.weights)) continue;
      if (count == most) {
        Int8JoinPanel(panel, &taken, 1);
        Int8JoinPanel(panel, excess, count);
        return -1;
      }
      excess[count++] = taken;
    }
  }
  return count;
}

void Widen(const uint8_t* from, int64_t stride, int64_t count, int64_t k, bool flip, int16_t* to,
           int64_t to_stride) {
  const hn::ScalableTag<int16_t> d;
  const hn::Rebind<uint8_t, decltype(d)> bytes;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto high = hn::Set(bytes, static_cast<uint8_t>(flip ? 0x80 : 0));
  for (int64_t i = 0; i < count; ++i, from += stride, to += to_stride) {
    int64_t p = 0;
    for (; p + lanes <= k; p += lanes) {
      hn::StoreU(hn::PromoteTo(d, hn::Xor(hn::LoadU(bytes, from + p), high)), d, to + p);
    }
    for (; p < k; ++p) to[p] = static_cast<int16_t>(from[p] ^ (flip ? 0x80 : 0));
    for (; p < to_stride; ++p) to[p] = 0;
  }
}

// The sum of so many bytes as D has lanes, in 64-bit lanes.
template <class D>
HWY_INLINE auto SumBytesOf(D d, const uint8_t* a, uint8_t high) {
  return hn::SumsOf8(hn::Xor(hn::LoadU(d, a), hn::Set(d, high)));
}

void SumRows(const uint8_t* a, int64_t stride, int64_t rows, int64_t k, bool flip, int32_t* sums) {
  const hn::ScalableTag<uint8_t> d;
  const hn::ScalableTag<uint64_t> d64;
  const hn::Full128<uint8_t> d16;
  const hn::Full64<uint8_t> d8;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const uint8_t high = flip ? 0x80 : 0;
  for (int64_t i = 0; i < rows; ++i, a += stride) {
    auto sum = hn::Zero(d64);
    int64_t p = 0;
    for (; p + lanes <= k; p += lanes) sum = hn::Add(sum, SumBytesOf(d, a + p, high));
    uint64_t total = p == 0 ? 0 : hn::GetLane(hn::SumOfLanes(d64, sum));
    auto rest = hn::Zero(hn::Full128<uint64_t>());
    for (; p + 16 <= k; p += 16) rest = hn::Add(rest, SumBytesOf(d16, a + p, high));
    total += hn::GetLane(rest) + hn::ExtractLane(rest, 1);
    for (; p + 8 <= k; p += 8) total += hn::GetLane(SumBytesOf(d8, a + p, high));
    for (; p < k; ++p) total += a[p] ^ high;
    sums[i] = static_cast<int32_t>(total);
  }
}

// As Int8SumWindows, in elements of type S. Sums of windows of 1, 2, 4, ... values, each out of two
// of the sums before, and those that make up k of them.
template <typename S, typename T>
void SumWindowsIn(const T* a, int64_t step, int64_t rows, int64_t k, int64_t segments,
                  int64_t segment_step, S* HWY_RESTRICT line, S* HWY_RESTRICT part, int32_t* sums) {
  const hn::ScalableTag<S> d;
  const hn::Rebind<T, decltype(d)> given;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t length = (rows - 1) * step + k;
  const auto values = [&](const T* from) HWY_ATTR {
    const auto v = hn::LoadU(given, from);
    if constexpr (sizeof(S) == sizeof(T)) {
      return hn::BitCast(d, v);
    } else {
      const hn::Rebind<std::make_unsigned_t<T>, decltype(d)> bits;
      return hn::PromoteTo(d, hn::BitCast(bits, v));
    }
  };
  int64_t i = 0;
  for (; i + lanes <= length; i += lanes) {
    auto sum = values(a + i);
    for (int64_t t = 1; t < segments; ++t) sum = hn::Add(sum, values(a + t * segment_step + i));
    hn::StoreU(sum, d, line + i);
  }
  for (; i < length; ++i) {
    int64_t sum = 0;
    for (int64_t t = 0; t < segments; ++t) sum += a[t * segment_step + i];
    line[i] = static_cast<S>(sum);
  }
  int64_t done = 0;  // of k, in `part`
  for (int64_t size = 1; 2 * size <= k; size *= 2) {
    const bool takes = (k & size) != 0;
    for (i = 0; i <= length - 2 * size; i += lanes) {
      const auto sum = hn::LoadU(d, line + i);
      if (takes) {
        const auto before = hn::LoadU(d, part + i);
        const auto next = hn::LoadU(d, line + i + done);
        hn::StoreU(done == 0 ? sum : hn::Add(before, next), d, part + i);
      }
      hn::StoreU(hn::Add(sum, hn::LoadU(d, line + i + size)), d, line + i);
    }
    if (takes) done += size;
  }
  for (int64_t r = 0; r < rows; ++r) {
    const auto first = static_cast<int32_t>(done == 0 ? 0 : part[r * step]);
    sums[r] = first + static_cast<int32_t>(line[r * step + done]);
  }
}

template <typename T>
void SumWindows(const T* a, int64_t step, int64_t rows, int64_t k, int64_t segments,
                int64_t segment_step, void* scratch, int32_t* sums) {
  const int64_t room = (rows - 1) * step + k + kInt8WindowSlack;
  const auto in = [&]<typename S>(S* line) {
    SumWindowsIn(a, step, rows, k, segments, segment_step, line, line + room, sums);
  };
  // Of bytes, which so many of cannot exceed 16 bits.
  constexpr int64_t kMostOfWords = 65535 / 255;
  if (k * segments <= kMostOfWords) {
    in(static_cast<uint16_t*>(scratch));
  } else {
    in(static_cast<uint32_t*>(scratch));
  }
}

void SumByteWindows(const uint8_t* a, int64_t step, int64_t rows, int64_t k, int64_t segments,
                    int64_t segment_step, void* scratch, int32_t* sums) {
  SumWindows(a, step, rows, k, segments, segment_step, scratch, sums);
}
void SumWordWindows(const int16_t* a, int64_t step, int64_t rows, int64_t k, int64_t segments,
                    int64_t segment_step, void* scratch, int32_t* sums) {
  SumWindows(a, step, rows, k, segments, segment_step, scratch, sums);
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(InterleaveRows);
HWY_EXPORT(GatherTap);
HWY_EXPORT(SumColumns);
HWY_EXPORT(OrderPairs);
HWY_EXPORT(SplitPanel);
HWY_EXPORT(Widen);
HWY_EXPORT(SumRows);
HWY_EXPORT(SumByteWindows);
HWY_EXPORT(SumWordWindows);

void Int8InterleaveRows(const uint8_t* from, int64_t stride, int64_t rows, int64_t columns,
                        uint8_t flip, void* panel) {
  HWY_DYNAMIC_DISPATCH(InterleaveRows)
  (from, stride, rows, columns, Int8PanelWidth(), flip, static_cast<uint8_t*>(panel));
}

void Int8GatherTap(const uint32_t* words, int64_t ld, int64_t taps, int64_t tap, int64_t columns,
                   uint8_t flip, void* group) {
  HWY_DYNAMIC_DISPATCH(GatherTap)
  (words, ld, taps, tap, columns, flip, static_cast<uint8_t*>(group));
}

void Int8SumColumns(const void* panel, int64_t groups, int32_t* sums) {
  HWY_DYNAMIC_DISPATCH(SumColumns)
  (static_cast<const int32_t*>(panel), groups, Int8PanelWidth(), sums);
}

void Int8OrderPairs(void* panel, int64_t groups) {
  HWY_DYNAMIC_DISPATCH(OrderPairs)(static_cast<uint32_t*>(panel), groups * Int8PanelWidth());
}

int64_t Int8SplitPanel(void* panel, int64_t groups, int64_t most, Int8Excess* excess) {
  return HWY_DYNAMIC_DISPATCH(SplitPanel)(static_cast<int8_t*>(panel), groups, Int8PanelWidth(),
                                          most, excess);
}

void Int8JoinPanel(void* panel, const Int8Excess* excess, int64_t count) {
  auto* const bytes = static_cast<int8_t*>(panel);
  for (const Int8Excess* e = excess; e < excess + count; ++e) {
    int8_t* const at = bytes + 4 * size_t{e->place};
    for (int k = 0; k < 4; ++k) at[k] = static_cast<int8_t>(at[k] + e->weights[k]);
  }
}

void Int8Widen(const uint8_t* from, int64_t stride, int64_t count, int64_t k, bool flip,
               int16_t* to, int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(Widen)(from, stride, count, k, flip, to, to_stride);
}
void Int8SumRows(const uint8_t* a, int64_t stride, int64_t rows, int64_t k, bool flip,
                 int32_t* sums) {
  HWY_DYNAMIC_DISPATCH(SumRows)(a, stride, rows, k, flip, sums);
}

void Int8SumWindows(const uint8_t* a, int64_t step, int64_t rows, int64_t k, int64_t segments,
                    int64_t segment_step, void* scratch, int32_t* sums) {
  HWY_DYNAMIC_DISPATCH(SumByteWindows)(a, step, rows, k, segments, segment_step, scratch, sums);
}
void Int8SumWindows(const int16_t* a, int64_t step, int64_t rows, int64_t k, int64_t segments,
                    int64_t segment_step, void* scratch, int32_t* sums) {
  HWY_DYNAMIC_DISPATCH(SumWordWindows)(a, step, rows, k, segments, segment_step, scratch, sums);
}

}  // namespace sardonyx
#endif
