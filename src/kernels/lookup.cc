#include "kernels/lookup.h"

#include <algorithm>
#include <string>

#include "kernels/key_table.h"
#include "kernels/slices.h"

namespace sardonyx {

namespace {

// What stands before the slots. Integers that lie close together need no hashing: then the slots'
// memory is a list of positions, by how far a key is from the least.
struct Header {
  uint64_t least;
  uint64_t size;  // of the list, 0: keys are hashed
};

int64_t* ListOf(const void* memory) {
  return static_cast<int64_t*>(const_cast<void*>(memory)) + sizeof(Header) / sizeof(int64_t);
}

}  // namespace

template <typename T>
int64_t KeyTableBytes(int64_t count) {
  return KeyTable::Bytes(count) + static_cast<int64_t>(sizeof(Header));
}

template <typename T>
void FillKeyTable(const T* keys, int64_t count, void* memory) {
  Header& header = *static_cast<Header*>(memory);
  header = {0, 0};
  if constexpr (std::is_integral_v<T>) {
    const auto [least, most] = std::minmax_element(keys, keys + count);
    const uint64_t room = static_cast<uint64_t>(KeyTable::Bytes(count)) / sizeof(int64_t);
    if (count > 0 && KeyBits(*most) - KeyBits(*least) < room) {
      header = {KeyBits(*least), KeyBits(*most) - KeyBits(*least) + 1};
      std::fill_n(ListOf(memory), header.size, count);
      for (int64_t i = count; i-- > 0;) ListOf(memory)[KeyBits(keys[i]) - header.least] = i;
      return;
    }
  }
  KeyTable table(count, ListOf(memory));
  FillKeys(table, keys, count);
}

template <typename T>
bool KeyTableFits(int64_t count, const void* memory) {
  const Header header = *static_cast<const Header*>(memory);
  const int64_t* list = ListOf(memory);
  if (!std::is_integral_v<T> || header.size == 0) return KeyTable(count, list).Fits(count);
  return header.size <= static_cast<uint64_t>(KeyTable::Bytes(count)) / sizeof(int64_t) &&
         std::all_of(list, list + header.size,
                     [&](int64_t position) { return position >= 0 && position <= count; });
}

template <typename T>
void LookUp(const T* x, int64_t n, const T* keys, const void* memory, int64_t count, int64_t* y,
            const Parallel& par) {
  const Header header = *static_cast<const Header*>(memory);
  const int64_t* list = ListOf(memory);
  const KeyTable table(count, list);
  const Slices slices = Slice(n, std::is_same_v<T, std::string> ? 20 : 3);
  par.For(slices.tasks, [&](int64_t task) {
    for (int64_t i = slices.Begin(task); i < slices.End(task, n); ++i) {
      if (std::is_integral_v<T> && header.size > 0) {
        const uint64_t at = KeyBits(x[i]) - header.least;
        y[i] = at < header.size ? list[at] : count;
      } else {
        const int64_t position = FindKey(table, x[i], keys);
        y[i] = position < 0 ? count : position;
      }
    }
  });
}

#define SARDONYX_KEYS(T)                                                               \
  template int64_t KeyTableBytes<T>(int64_t);                                          \
  template void FillKeyTable<T>(const T*, int64_t, void*);                             \
  template bool KeyTableFits<T>(int64_t, const void*);                                 \
  template void LookUp<T>(const T*, int64_t, const T*, const void*, int64_t, int64_t*, \
                          const Parallel&);
SARDONYX_KEYS(float)
SARDONYX_KEYS(double)
SARDONYX_KEYS(int16_t)
SARDONYX_KEYS(int32_t)
SARDONYX_KEYS(int64_t)
SARDONYX_KEYS(std::string)
#undef SARDONYX_KEYS

}  // namespace sardonyx
