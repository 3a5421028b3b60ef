#pragma once
// Hashing with open addressing in memory of the caller's.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace sardonyx {

struct KeySlot {
  uint64_t bits;
  int64_t position;  // negative: free
};

// Positions by 64 bits. A key that is put twice is found where it was put first.
class KeyTable {
 public:
  // `memory`: Bytes(count). At most a quarter is taken, so that most searches end where they begin.
  KeyTable(int64_t count, const void* memory)
      : slots_(static_cast<KeySlot*>(const_cast<void*>(memory))) {
    const int log = std::bit_width(static_cast<uint64_t>(std::max<int64_t>(count, 1))) + 2;
    shift_ = 64 - log;
    mask_ = (uint64_t{1} << log) - 1;
  }
  static int64_t Bytes(int64_t count) {
    const KeyTable table(count, nullptr);
    return static_cast<int64_t>((table.mask_ + 1) * sizeof(KeySlot));
  }

  // Whether all positions are below `end` and searches end: for tables that come from a file.
  bool Fits(int64_t end) const {
    const auto fits = [&](const KeySlot& slot) { return slot.position < end; };
    const auto is_free = [](const KeySlot& slot) { return slot.position < 0; };
    return std::all_of(slots_, slots_ + mask_ + 1, fits) &&
           std::any_of(slots_, slots_ + mask_ + 1, is_free);
  }

  void Clear() { std::fill(slots_, slots_ + mask_ + 1, KeySlot{0, -1}); }

  // The slot of these bits for whose position `same` holds, or the free one where it belongs.
  template <typename Same>
  KeySlot& Find(uint64_t bits, Same&& same) const {
    // Multiplicative hashing by the golden ratio: Knuth, volume 3, section 6.4.
    uint64_t at = bits * 0x9E3779B97F4A7C15U >> shift_;
    while (slots_[at].position >= 0 && !(slots_[at].bits == bits && same(slots_[at].position))) {
      at = (at + 1) & mask_;
    }
    return slots_[at];
  }

 private:
  int shift_;  // 64 - log2 of the number of slots
  uint64_t mask_;
  KeySlot* slots_;
};

// Bits that are equal if the keys are; of a string, a hash. -0 and 0 are one key, as all NaNs are.
template <typename T>
uint64_t KeyBits(const T& key) {
  if constexpr (std::is_same_v<T, std::string>) {
    return std::hash<std::string_view>()(key);
  } else if constexpr (std::is_floating_point_v<T>) {
    if (key != key) return ~uint64_t{0};
    return std::bit_cast<uint64_t>(static_cast<double>(key) + 0.0);
  } else {
    return static_cast<uint64_t>(int64_t{key});
  }
}

// Where x stands among the keys of a table, negative if it does not.
template <typename T>
int64_t FindKey(const KeyTable& table, const T& x, const T* keys) {
  return table
      .Find(KeyBits(x),
            [&](int64_t position) {
              if constexpr (std::is_same_v<T, std::string>) return keys[position] == x;
              return true;
            })
      .position;
}

template <typename T>
void FillKeys(KeyTable& table, const T* keys, int64_t count) {
  table.Clear();
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t bits = KeyBits(keys[i]);
    KeySlot& slot = table.Find(bits, [&](int64_t position) {
      if constexpr (std::is_same_v<T, std::string>) return keys[position] == keys[i];
      return true;
    });
    if (slot.position < 0) slot = {bits, i};
  }
}

}  // namespace sardonyx
