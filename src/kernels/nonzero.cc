#include "kernels/nonzero.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/nonzero.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <tuple>

#include "kernels/slices.h"

// What the public functions call for the target that runs.
#ifndef SARDONYX_KERNELS_NONZERO_LOOPS
#define SARDONYX_KERNELS_NONZERO_LOOPS
namespace sardonyx {
namespace {

template <typename U>
struct MarkLoop {
  // Marks of `count` elements from a whole word on; returns how many are set.
  int64_t (*mark)(const U* x, int64_t count, U mask, uint64_t* bits);
};
template <typename T>
struct ChooseLoop {
  // The elements x[begin ... end) that are marked, to `to`, of which nothing from `limit` on is
  // written; returns where they end.
  T* (*choose)(const T* x, const uint64_t* bits, int64_t begin, int64_t end, T* to, T* limit);
};
struct NonzeroLoops {
  std::tuple<MarkLoop<uint8_t>, MarkLoop<uint16_t>, MarkLoop<uint32_t>, MarkLoop<uint64_t>> mark;
  std::tuple<ChooseLoop<uint8_t>, ChooseLoop<uint16_t>, ChooseLoop<uint32_t>, ChooseLoop<uint64_t>,
             ChooseLoop<std::array<uint64_t, 2>>>
      choose;
  // The same for the numbers 0, 1 ... counted from `begin`.
  int64_t* (*count)(const uint64_t* bits, int64_t begin, int64_t end, int64_t* to, int64_t* limit);
};

}  // namespace
}  // namespace sardonyx
#endif

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kWord = 64;

template <typename U>
uint64_t WordOf(const U* x, U mask) {
  const hn::CappedTag<U, kWord> d;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(d));
  const auto under = hn::Set(d, mask);
  uint64_t word = 0;
  for (int64_t i = 0; i < kWord; i += kLanes) {
    uint8_t bits[8] = {};
    hn::StoreMaskBits(d, hn::Ne(hn::And(hn::LoadU(d, x + i), under), hn::Zero(d)), bits);
    if constexpr (kLanes <= 8) {
      word |= static_cast<uint64_t>(bits[0]) << i;
    } else {
      uint64_t part = 0;
      std::memcpy(&part, bits, kLanes / 8);
      word |= part << i;
    }
  }
  return word;
}

template <typename U>
int64_t MarkWords(const U* x, int64_t count, U mask, uint64_t* bits) {
  int64_t marked = 0, i = 0;
  for (; i + kWord <= count; i += kWord, ++bits) {
    *bits = WordOf(x + i, mask);
    marked += std::popcount(*bits);
  }
  if (i == count) return marked;
  U last[kWord] = {};
  std::copy_n(x + i, count - i, last);
  *bits = WordOf(last, mask);
  return marked + std::popcount(*bits);
}

// 64 marks from place `at` on, of which those from `end` on are zero.
uint64_t WordAt(const uint64_t* bits, int64_t at, int64_t end) {
  const int64_t shift = at % kWord, left = end - at;
  uint64_t word = bits[at / kWord] >> shift;
  if (shift > 0 && left > kWord - shift) word |= bits[at / kWord + 1] << (kWord - shift);
  return left < kWord ? word & ((uint64_t{1} << left) - 1) : word;
}

// Elements to be chosen one by one: what `load` has at each place that is marked in a word.
template <typename T, typename Load>
T* ChooseEach(uint64_t word, T* to, Load&& load) {
  for (; word != 0; word &= word - 1) *to++ = load(std::countr_zero(word));
  return to;
}

// The same by vectors; up to a vector is written behind what is chosen.
template <class D, typename Load>
hn::TFromD<D>* ChooseVectors(D d, uint64_t word, hn::TFromD<D>* to, Load&& load) {
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(d));
  for (int64_t i = 0; i < kWord; i += kLanes) {
    uint8_t marks[8];
    const uint64_t part = word >> i;
    std::memcpy(marks, &part, 8);
    to += hn::CompressStore(load(i), hn::LoadMaskBits(d, marks), d, to);
  }
  return to;
}

// Few of a word are fetched one by one.
constexpr int kFewMarks = 6;

// Goes through the words from `begin` to `end`. `each(at)` is the element there, `vector(at)` a
// vector from there on, read where the whole word lies before `end`.
template <class D, typename Each, typename Vector>
hn::TFromD<D>* Choose(D d, const uint64_t* bits, int64_t begin, int64_t end, hn::TFromD<D>* to,
                      const hn::TFromD<D>* limit, Each&& each, Vector&& vector) {
  for (int64_t at = begin; at < end; at += kWord) {
    const uint64_t word = WordAt(bits, at, end);
    const bool room = limit - to >= 2 * kWord && at + kWord <= end;
    if (room && std::popcount(word) > kFewMarks) {
      to = ChooseVectors(d, word, to, [&](int64_t i) HWY_ATTR { return vector(at + i); });
    } else {
      to = ChooseEach(word, to, [&](int64_t i) { return each(at + i); });
    }
  }
  return to;
}

template <typename T>
T* ChooseElements(const T* x, const uint64_t* bits, int64_t begin, int64_t end, T* to, T* limit) {
  if constexpr (sizeof(T) == 1 || sizeof(T) == 16) {
    for (int64_t at = begin; at < end; at += kWord) {
      to = ChooseEach(WordAt(bits, at, end), to, [&](int64_t i) { return x[at + i]; });
    }
    return to;
  } else {
    const hn::CappedTag<T, kWord> d;
    return Choose(
        d, bits, begin, end, to, limit, [&](int64_t at) { return x[at]; },
        [&](int64_t at) HWY_ATTR { return hn::LoadU(d, x + at); });
  }
}

int64_t* CountMarked(const uint64_t* bits, int64_t begin, int64_t end, int64_t* to,
                     int64_t* limit) {
  const hn::CappedTag<int64_t, kWord> d;
  return Choose(
      d, bits, begin, end, to, limit, [&](int64_t at) { return at - begin; },
      [&](int64_t at) HWY_ATTR { return hn::Iota(d, at - begin); });
}

void FillLoops(NonzeroLoops* loops) {
  loops->mark = {
      {MarkWords<uint8_t>}, {MarkWords<uint16_t>}, {MarkWords<uint32_t>}, {MarkWords<uint64_t>}};
  loops->choose = {{ChooseElements<uint8_t>},
                   {ChooseElements<uint16_t>},
                   {ChooseElements<uint32_t>},
                   {ChooseElements<uint64_t>},
                   {ChooseElements<std::array<uint64_t, 2>>}};
  loops->count = CountMarked;
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {
namespace {

HWY_EXPORT(FillLoops);

NonzeroLoops Loops() {
  NonzeroLoops loops;
  HWY_DYNAMIC_DISPATCH(FillLoops)(&loops);
  return loops;
}

constexpr int64_t kBlock = 1 << 13;  // elements; whole words

}  // namespace

Marks::Marks(int64_t count, void* memory)
    : count_(count),
      blocks_((count + kBlock - 1) / kBlock),
      before_(static_cast<int64_t*>(memory)),
      bits_(reinterpret_cast<uint64_t*>(before_ + blocks_ + 1)) {}

int64_t Marks::Bytes(int64_t count) {
  return ((count + kBlock - 1) / kBlock + 1 + (count + 63) / 64) * 8;
}

template <typename U>
void Marks::MarkNonzero(const U* x, U mask, const Parallel& par) {
  const auto mark = std::get<MarkLoop<U>>(Loops().mark).mark;
  before_[0] = 0;
  const Slices slices = Slice(blocks_, kBlock * static_cast<int64_t>(sizeof(U)) / 16);
  par.For(slices.tasks, [&](int64_t task) {
    for (int64_t b = slices.Begin(task); b < slices.End(task, blocks_); ++b) {
      const int64_t begin = b * kBlock;
      before_[b + 1] = mark(x + begin, std::min(kBlock, count_ - begin), mask, bits_ + begin / 64);
    }
  });
  std::partial_sum(before_, before_ + blocks_ + 1, before_);
}

template void Marks::MarkNonzero(const uint8_t*, uint8_t, const Parallel&);
template void Marks::MarkNonzero(const uint16_t*, uint16_t, const Parallel&);
template void Marks::MarkNonzero(const uint32_t*, uint32_t, const Parallel&);
template void Marks::MarkNonzero(const uint64_t*, uint64_t, const Parallel&);

void Marks::WriteIndices(std::span<const int64_t> dims, int64_t* y, const Parallel& par) const {
  const auto count_marked = Loops().count;
  const int64_t row = dims.back(), all = marked();
  const auto outer = static_cast<int64_t>(dims.size()) - 1;
  int64_t* const last = y + outer * all;
  const int64_t cost = kBlock / 8 + all * (outer + 1) / std::max<int64_t>(blocks_, 1);
  const Slices slices = Slice(blocks_, cost);
  par.For(slices.tasks, [&](int64_t task) {
    const int64_t first = slices.Begin(task), end_block = slices.End(task, blocks_);
    const int64_t end = std::min(count_, end_block * kBlock);
    int64_t* to = last + before_[first];
    int64_t* const limit = last + before_[end_block];
    // A row of the last axis at a time: its places together, beside each the other axes' index.
    for (int64_t at = first * kBlock; at < end && to < limit;) {
      const int64_t line = at / row, skipped = at % row;
      const int64_t stop = std::min(end, (line + 1) * row);
      int64_t* const from = to;
      to = count_marked(bits_, at, stop, to, limit);
      if (skipped > 0) {
        for (int64_t* i = from; i < to; ++i) *i += skipped;
      }
      int64_t index = line;
      for (int64_t axis = outer - 1; axis >= 0 && to > from; index /= dims[axis], --axis) {
        int64_t* const place = y + axis * all;
        std::fill(place + (from - last), place + (to - last), index % dims[axis]);
      }
      at = stop;
    }
  });
}

void Marks::WriteChosen(const void* x, int element_bytes, void* y, const Parallel& par) const {
  const auto with = [&](auto element) {
    using T = decltype(element);
    const auto choose = std::get<ChooseLoop<T>>(Loops().choose).choose;
    const Slices slices = Slice(blocks_, kBlock * element_bytes / 8);
    par.For(slices.tasks, [&](int64_t task) {
      const int64_t first = slices.Begin(task), end = slices.End(task, blocks_);
      T* const to = static_cast<T*>(y);
      choose(static_cast<const T*>(x), bits_, first * kBlock, std::min(count_, end * kBlock),
             to + before_[first], to + before_[end]);
    });
  };
  switch (element_bytes) {
    case 1: return with(uint8_t{});
    case 2: return with(uint16_t{});
    case 4: return with(uint32_t{});
    case 8: return with(uint64_t{});
    default: return with(std::array<uint64_t, 2>{});
  }
}

}  // namespace sardonyx
#endif  // HWY_ONCE
