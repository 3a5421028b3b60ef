#include "kernels/topk.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/topk.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <numeric>
#include <type_traits>

#include "base/round.h"
#include "kernels/scratch_slots.h"
#include "kernels/slices.h"
#include "kernels/topk_loops.h"
#include "kernels/transpose.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// WithOrder's numbers, `infinity` being the bits of that for floats. Floats are compared as signed
// integers: their magnitude is one, and negative ones are its negative.
template <class D, typename U = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> Ordered(D d, hn::Vec<D> bits, bool is_float, U infinity, U offset) {
  if (!is_float) return hn::Xor(bits, hn::Set(d, offset));
  if constexpr (sizeof(U) > 1) {
    const hn::RebindToSigned<D> ds;
    const auto number = hn::BitCast(ds, bits);
    const auto negative = hn::BroadcastSignBit(number);
    const auto magnitude = hn::AndNot(hn::SignBit(ds), number);
    const auto ordered = hn::Xor(hn::Sub(hn::Xor(magnitude, negative), negative), hn::SignBit(ds));
    const auto nan = hn::Gt(magnitude, hn::BitCast(ds, hn::Set(d, infinity)));
    return hn::BitCast(d, hn::Or(ordered, hn::VecFromMask(ds, nan)));
  }
  return bits;
}

// to[r, c] = bits that compare, unsigned, as the elements from[r * step + c] do, inverted by
// `flip`.
template <typename U>
void Order(const U* from, int64_t step, int64_t rows, int64_t columns, OrderedBits order, U flip,
           U* to) {
  const hn::CappedTag<U, kTopKLines> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = columns / lanes * lanes;
  const bool is_float = order != OrderedBits::kUnsigned && order != OrderedBits::kSigned;
  WithOrder<U>(order, [&](auto ordered) HWY_ATTR {
    const U offset = ordered(U{0}), infinity = InfinityOf<U>(order);
    for (int64_t r = 0; r < rows; ++r) {
      const U* row = from + r * step;
      U* out = to + r * columns;
      int64_t c = 0;
      for (; c < whole; c += lanes) {
        const auto bits = Ordered(d, hn::LoadU(d, row + c), is_float, infinity, offset);
        hn::StoreU(hn::Xor(bits, hn::Set(d, flip)), d, out + c);
      }
      for (; c < columns; ++c) out[c] = static_cast<U>(ordered(row[c]) ^ flip);
    }
  });
}

// The first i >= begin, a multiple of kBlock further each time, whose block of kBlock elements has
// one above `least`; a place at or behind n - kBlock if none has.
template <typename U>
int64_t NextBlock(const U* line, int64_t begin, int64_t n, U least) {
  const hn::CappedTag<U, kTopKBlock> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto bound = hn::Set(d, least);
  for (; begin + kTopKBlock <= n; begin += kTopKBlock) {
    auto most = bound;
    for (int64_t j = 0; j < kTopKBlock; j += lanes) {
      most = hn::Max(most, hn::LoadU(d, line + begin + j));
    }
    if (!hn::AllTrue(d, hn::Eq(most, bound))) break;
  }
  return begin;
}

// Neighbouring lines at once, a lane each: the k best so far are kept sorted in k vectors, which a
// better element moves down from its place on. They are compared as signed integers, which
// processors have an instruction for.
template <typename U>
void SelectColumns(const U* x, int64_t step, int64_t n, int64_t columns, int64_t k,
                   OrderedBits order, U flip, U* places) {
  const hn::CappedTag<U, kTopKLines> du;
  const hn::RebindToSigned<decltype(du)> d;
  using S = hn::TFromD<decltype(d)>;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(d)), kRows = 32;
  constexpr U kSign = static_cast<U>(U{1} << (8 * sizeof(U) - 1));
  U ordered[(kRows + 1) * kTopKLines];  // the last vector may reach beyond its row
  V kept[kTopKLines / kLanes][kTopKColumns], at[kTopKLines / kLanes][kTopKColumns];
  for (int64_t begin = 0; begin < n; begin += kRows) {
    const int64_t rows = std::min(kRows, n - begin);
    Order(x + begin * step, step, rows, columns, order, static_cast<U>(flip ^ kSign), ordered);
    for (int64_t v = 0; v * kLanes < columns; ++v) {
      for (int64_t r = 0; r < rows; ++r) {
        const V value = hn::BitCast(d, hn::LoadU(du, ordered + r * columns + v * kLanes));
        const int64_t known = std::min(begin + r, k);
        if (known == k && hn::AllFalse(d, hn::Gt(value, kept[v][k - 1]))) continue;
        V moved = value, moved_at = hn::Set(d, static_cast<S>(begin + r));
        for (int64_t i = 0; i < known; ++i) {
          const V old = kept[v][i], old_at = at[v][i];
          const auto better = hn::Gt(value, old);
          kept[v][i] = hn::IfThenElse(better, moved, old);
          at[v][i] = hn::IfThenElse(better, moved_at, old_at);
          moved = hn::IfThenElse(better, old, moved);
          moved_at = hn::IfThenElse(better, old_at, moved_at);
        }
        if (known == k) continue;
        kept[v][known] = moved;
        at[v][known] = moved_at;
      }
    }
  }
  for (int64_t v = 0; v * kLanes < columns; ++v) {
    for (int64_t i = 0; i < k; ++i) {
      hn::StoreU(hn::BitCast(du, at[v][i]), du, places + i * kTopKLines + v * kLanes);
    }
  }
}

template <typename U>
void FillLoops(TopKLoops<U>* loops) {
  *loops = {Order<U>, NextBlock<U>, SelectColumns<U>};
}
void FillAll(AllTopKLoops* all) {
  std::apply([](auto&... each) { (FillLoops(&each), ...); }, *all);
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {
namespace {

HWY_EXPORT(FillAll);

constexpr int64_t kBlock = kTopKBlock;

// An element and its place in one number: the larger comes first.
template <typename U>
using Key = std::conditional_t<sizeof(U) == 8, unsigned __int128, uint64_t>;
template <typename U>
constexpr int kPlaceBits = sizeof(U) == 8 ? 64 : 32;
template <typename U>
Key<U> MakeKey(U ordered, int64_t place) {
  constexpr Key<U> kMask = (Key<U>{1} << kPlaceBits<U>)-1;
  return Key<U>{ordered} << kPlaceBits<U> | (~static_cast<Key<U>>(place) & kMask);
}
template <typename U>
int64_t PlaceOf(Key<U> key) {
  constexpr Key<U> kMask = (Key<U>{1} << kPlaceBits<U>)-1;
  return static_cast<int64_t>(~key & kMask);
}

// Candidates are kept until there are this many, then the best k stay.
int64_t Capacity(const TopKShape& shape) {
  return std::min(shape.n, std::max<int64_t>(2 * shape.k, 64)) + kBlock;
}

// The k best of `line`, sorted, at the front of `keys`: few ones by insertion.
template <typename U>
void SelectFew(const TopKLoops<U>& loops, const U* line, int64_t n, int64_t k, Key<U>* keys) {
  const auto first = std::greater<Key<U>>();
  for (int64_t i = 0; i < k; ++i) keys[i] = MakeKey(line[i], i);
  std::sort(keys, keys + k, first);
  const auto least = [&] { return static_cast<U>(keys[k - 1] >> kPlaceBits<U>); };
  for (int64_t i = k; i < n;) {
    i = loops.next_block(line, i, n, least());
    const int64_t end = std::min(n, i + kBlock);
    for (; i < end; ++i) {
      if (line[i] <= least()) continue;
      const Key<U> key = MakeKey(line[i], i);
      int64_t at = k - 1;
      for (; at > 0 && keys[at - 1] < key; --at) keys[at] = keys[at - 1];
      keys[at] = key;
    }
  }
}

// Many ones by collecting candidates, of which the best k stay whenever the room is used up.
template <typename U>
void SelectMany(const TopKLoops<U>& loops, const U* line, int64_t n, int64_t k, int64_t capacity,
                Key<U>* keys) {
  const auto first = std::greater<Key<U>>();
  int64_t size = 0;
  U least = 0;  // what a further element must exceed; a later equal one does not come before
  bool full = false;
  for (int64_t i = 0; i < n;) {
    if (full) i = loops.next_block(line, i, n, least);
    const int64_t end = std::min(n, i + kBlock);
    for (; i < end; ++i) {
      keys[size] = MakeKey(line[i], i);
      size += !full || line[i] > least;
    }
    if (size + kBlock > capacity && size > k) {
      std::nth_element(keys, keys + k - 1, keys + size, first);
      least = static_cast<U>(keys[k - 1] >> kPlaceBits<U>);
      size = k;
      full = true;
    }
  }
  if (size > k) std::nth_element(keys, keys + k - 1, keys + size, first);
  std::sort(keys, keys + k, first);
}

// All of `line`, sorted in `keys`, from the least digits on: elements of equal digits keep their
// order. `other`: room for as many.
template <typename U>
void SortAll(const U* line, int64_t n, Key<U>* keys, Key<U>* other) {
  constexpr size_t kDigits = sizeof(U), kValues = 256;
  std::array<std::array<int64_t, kValues>, kDigits> counts{};
  const auto digit = [](U ordered, size_t i) {
    return static_cast<uint8_t>(~ordered >> (8 * i));  // the largest first
  };
  for (int64_t i = 0; i < n; ++i) {
    keys[i] = MakeKey(line[i], i);
    for (size_t d = 0; d < kDigits; ++d) ++counts[d][digit(line[i], d)];
  }
  Key<U>* from = keys;
  for (size_t d = 0; d < kDigits; ++d) {
    auto& places = counts[d];
    if (places[digit(line[0], d)] == n) continue;
    std::exclusive_scan(places.begin(), places.end(), places.begin(), int64_t{0});
    Key<U>* const to = from == keys ? other : keys;
    for (int64_t i = 0; i < n; ++i) {
      to[places[digit(static_cast<U>(from[i] >> kPlaceBits<U>), d)]++] = from[i];
    }
    from = to;
  }
  if (from != keys) std::copy_n(from, n, keys);
}

// Which lines are one piece of work, where their elements and results lie, and how they are sorted.
template <typename U>
struct Cut {
  explicit Cut(const TopKShape& s) {
    const bool few =
        s.k <= kTopKColumns && static_cast<uint64_t>(s.n - 1) <= std::numeric_limits<U>::max();
    const int64_t most_turned =
        s.inner == 1 ? std::min(kMostTurned, kMostTurnedForEach * s.k) : 8 * kMostTurned;
    turns = few && s.inner < kFewLines && s.outer >= kTopKLines && s.n * s.inner <= most_turned;
    columns = turns || (few && s.inner >= kFewLines);
    sorts_all = !columns && s.k >= kLeastSorted && s.n <= kMostSortedForEach * s.k;
    keys = sorts_all ? 2 * s.n : Capacity(s);
    // Lines of one outer index lie side by side; lines that are turned lie one behind the other.
    across = turns ? s.outer : s.inner;
    lines = std::min(kTopKLines, across);
    blocks = CeilDiv(across, lines);
    blocks_outer = turns ? 1 : s.outer;
    line_step = turns ? s.n * s.inner : 1;
    result_step = turns ? s.k * s.inner : 1;
  }

  // Of longer lines most elements are skipped sooner one line at a time. Measured on Emerald
  // Rapids: 64 elements, the best 16: 0.16 of the time; 1,000, the best 5: 0.6 to 0.8.
  static constexpr int64_t kMostTurned = 1024, kMostTurnedForEach = 256;
  // From so many on of the elements it is faster to sort all: 1,000 of 1,000 float32 take 0.23 of
  // the time, 3,000 of 8,192 0.32.
  static constexpr int64_t kLeastSorted = 256, kMostSortedForEach = 4;
  // So few lines side by side leave most lanes empty: those of several outer indices fill them
  // (Zen 4, 64 x 512 x 3, the best 2: 0.3 of the time); or each is taken alone.
  static constexpr int64_t kFewLines = 8;
  bool turns, columns;  // lines are turned to columns, and are taken a lane each
  bool sorts_all;
  int64_t keys;  // that a line has room for
  int64_t across, lines, blocks, blocks_outer, line_step, result_step;
};

template <typename U>
int64_t SlotBytes(const TopKShape& shape) {
  const Cut<U> cut(shape);
  const int64_t keys = cut.keys * static_cast<int64_t>(sizeof(Key<U>));
  const int64_t lines = cut.turns ? kTopKLines * shape.inner : cut.columns ? 1 : cut.lines;
  return AlignBytes(keys + lines * shape.n * static_cast<int64_t>(sizeof(U)));
}

template <typename U>
void Run(const TopKShape& shape, const U* x, U* values, int64_t* indices, void* scratch,
         const Parallel& par) {
  const int64_t n = shape.n, inner = shape.inner, k = shape.k;
  const Cut<U> cut(shape);
  const int64_t all = cut.blocks_outer * cut.blocks;
  const Slices slices = Slice(all, cut.lines * (n + k * 8));
  AllTopKLoops loops_of_all;
  HWY_DYNAMIC_DISPATCH(FillAll)(&loops_of_all);
  const TopKLoops<U> loops = std::get<TopKLoops<U>>(loops_of_all);
  ScratchSlots slots(scratch, SlotBytes<U>(shape), ScratchSlots::CountFor(par.threads));
  par.For(slices.tasks, [&](int64_t task) {
    const ScratchSlots::Lease lease(slots);
    Key<U>* keys = reinterpret_cast<Key<U>*>(lease.floats());
    U* ordered = reinterpret_cast<U*>(keys + cut.keys);
    const U flip = shape.largest ? U{0} : static_cast<U>(~U{0});
    for (int64_t b = slices.Begin(task); b < slices.End(task, all); ++b) {
      const int64_t line = b % cut.blocks * cut.lines;
      const int64_t count = std::min(cut.lines, cut.across - line);
      const U* from = x + b / cut.blocks * n * inner + line * cut.line_step;
      const int64_t to = b / cut.blocks * k * inner + line * cut.result_step;
      const auto set = [&](int64_t i, int64_t c, int64_t place, int64_t first = 0) {
        const int64_t at = to + i * inner + c * cut.result_step + first;
        values[at] = from[place * inner + c * cut.line_step + first];
        if (indices != nullptr) indices[at] = place;
      };
      if (cut.columns) {
        const int64_t turned = cut.turns ? inner : 1;  // of each outer index
        if (cut.turns) {
          TransposeMatrix(from, n * inner, ordered, count, n * inner, count, sizeof(U));
        }
        for (int64_t first = 0; first < turned; ++first) {
          U places[kTopKColumns * kTopKLines];
          loops.select_columns(cut.turns ? ordered + first * count : from,
                               cut.turns ? inner * count : inner, n, count, k, shape.order, flip,
                               places);
          for (int64_t i = 0; i < k; ++i) {
            for (int64_t c = 0; c < count; ++c) {
              set(i, c, static_cast<int64_t>(places[i * kTopKLines + c]), first);
            }
          }
        }
        continue;
      }
      if (inner > 1) TransposeMatrix(from, inner, ordered, n, count, n, sizeof(U));
      loops.order(inner == 1 ? from : ordered, n, count, n, shape.order, flip, ordered);
      for (int64_t c = 0; c < count; ++c) {
        const U* const own = ordered + c * n;
        if (cut.sorts_all) {
          SortAll(own, n, keys, keys + n);
        } else if (k <= kTopKFew) {
          SelectFew(loops, own, n, k, keys);
        } else {
          SelectMany(loops, own, n, k, cut.keys, keys);
        }
        for (int64_t i = 0; i < k; ++i) set(i, c, PlaceOf<U>(keys[i]));
      }
    }
  });
}

template <typename Body>
auto WithWidth(int element_bytes, Body&& body) {
  switch (element_bytes) {
    case 1: return body(uint8_t{});
    case 2: return body(uint16_t{});
    case 4: return body(uint32_t{});
    default: return body(uint64_t{});
  }
}

}  // namespace

int64_t TopKScratchBytes(const TopKShape& shape, int threads) {
  return WithWidth(shape.element_bytes, [&](auto bits) {
    return SlotBytes<decltype(bits)>(shape) * ScratchSlots::CountFor(threads);
  });
}

void TopK(const TopKShape& shape, const void* x, void* values, int64_t* indices, void* scratch,
          const Parallel& par) {
  if (shape.k == 0) return;
  WithWidth(shape.element_bytes, [&](auto bits) {
    using U = decltype(bits);
    Run(shape, static_cast<const U*>(x), static_cast<U*>(values), indices, scratch, par);
  });
}

}  // namespace sardonyx
#endif  // HWY_ONCE
