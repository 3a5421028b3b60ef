#include "kernels/topk.h"

#include <algorithm>
#include <functional>
#include <type_traits>

#include "kernels/scratch_slots.h"
#include "kernels/slices.h"
#include "kernels/tile_loop.h"

namespace sardonyx {
namespace {

constexpr int64_t kLines = 16;  // neighbouring lines that are read together where inner > 1
constexpr int64_t kBlock = 32;  // elements that are skipped together

// Bits that compare, unsigned, as the elements do. Of floats -0 is 0 and every NaN the same.
template <typename U>
U Ordered(U bits, OrderedBits order) {
  constexpr U kSign = static_cast<U>(U{1} << (8 * sizeof(U) - 1));
  U infinity = 0;
  switch (order) {
    case OrderedBits::kUnsigned: return bits;
    case OrderedBits::kSigned: return static_cast<U>(bits ^ kSign);
    case OrderedBits::kFloat16: infinity = static_cast<U>(0x7c00); break;
    case OrderedBits::kBFloat16: infinity = static_cast<U>(0x7f80); break;
    case OrderedBits::kFloat32: infinity = static_cast<U>(0x7f800000); break;
    case OrderedBits::kFloat64: infinity = static_cast<U>(0x7ff0000000000000); break;
  }
  const U magnitude = static_cast<U>(bits & ~kSign);
  const U flipped =
      (bits & kSign) != 0 ? static_cast<U>(kSign - magnitude) : static_cast<U>(magnitude + kSign);
  return magnitude > infinity ? static_cast<U>(~U{0}) : flipped;
}

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

// The k best of `line`, sorted, at the front of `keys`.
template <typename U>
void Select(const U* line, int64_t n, int64_t k, int64_t capacity, Key<U>* keys) {
  const auto first = std::greater<Key<U>>();
  int64_t size = 0, i = 0;
  U least = 0;  // what a further element must exceed; a later equal one does not come before
  bool full = false;
  for (; i < n; i += kBlock) {
    const int64_t count = std::min(kBlock, n - i);
    if (full && count == kBlock) {
      unsigned any = 0;
      SARDONYX_TILE_LOOP
      for (int64_t j = 0; j < kBlock; ++j) any |= line[i + j] > least;
      if (any == 0) continue;
    }
    for (int64_t j = 0; j < count; ++j) {
      keys[size] = MakeKey(line[i + j], i + j);
      size += !full || line[i + j] > least;
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

template <typename U>
int64_t SlotBytes(const TopKShape& shape) {
  const int64_t lines = shape.inner == 1 ? 1 : std::min(kLines, shape.inner);
  const int64_t keys = Capacity(shape) * static_cast<int64_t>(sizeof(Key<U>));
  return (keys + lines * shape.n * static_cast<int64_t>(sizeof(U)) + 63) / 64 * 64;
}

template <typename U>
void Run(const TopKShape& shape, const U* x, U* values, int64_t* indices, void* scratch,
         const Parallel& par) {
  const auto [outer, n, inner, k, bytes, order, largest] = shape;
  const int64_t lines = inner == 1 ? 1 : std::min(kLines, inner);
  const int64_t blocks = (inner + lines - 1) / lines, capacity = Capacity(shape);
  const Slices slices = Slice(outer * blocks, lines * (n + k * 8));
  ScratchSlots slots(scratch, SlotBytes<U>(shape), ScratchSlots::CountFor(par.threads));
  par.For(slices.tasks, [&, n = n, inner = inner, k = k, order = order, largest = largest,
                         outer = outer](int64_t task) {
    const ScratchSlots::Lease lease(slots);
    Key<U>* keys = reinterpret_cast<Key<U>*>(lease.floats());
    U* ordered = reinterpret_cast<U*>(keys + capacity);
    const U flip = largest ? U{0} : static_cast<U>(~U{0});
    for (int64_t b = slices.Begin(task); b < slices.End(task, outer * blocks); ++b) {
      const int64_t column = b % blocks * lines, count = std::min(lines, inner - column);
      const U* from = x + b / blocks * n * inner + column;
      const int64_t to = b / blocks * k * inner + column;
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t c = 0; c < count; ++c) {
          ordered[c * n + i] = static_cast<U>(Ordered(from[i * inner + c], order) ^ flip);
        }
      }
      for (int64_t c = 0; c < count; ++c) {
        Select(ordered + c * n, n, k, capacity, keys);
        for (int64_t i = 0; i < k; ++i) {
          const int64_t place = PlaceOf<U>(keys[i]), at = to + i * inner + c;
          values[at] = from[place * inner + c];
          if (indices != nullptr) indices[at] = place;
        }
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
