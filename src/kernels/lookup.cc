#include "kernels/lookup.h"

#include <string>

#include "kernels/key_table.h"
#include "kernels/slices.h"

namespace sardonyx {

template <typename T>
int64_t KeyTableBytes(int64_t count) {
  return KeyTable::Bytes(count);
}

template <typename T>
void FillKeyTable(const T* keys, int64_t count, void* memory) {
  KeyTable table(count, memory);
  FillKeys(table, keys, count);
}

template <typename T>
void LookUp(const T* x, int64_t n, const T* keys, const void* memory, int64_t count, int64_t* y,
            const Parallel& par) {
  const KeyTable table(count, memory);
  const Slices slices = Slice(n, std::is_same_v<T, std::string> ? 20 : 3);
  par.For(slices.tasks, [&](int64_t task) {
    for (int64_t i = slices.Begin(task); i < slices.End(task, n); ++i) {
      const int64_t position = FindKey(table, x[i], keys);
      y[i] = position < 0 ? count : position;
    }
  });
}

#define SARDONYX_KEYS(T)                                                               \
  template int64_t KeyTableBytes<T>(int64_t);                                          \
  template void FillKeyTable<T>(const T*, int64_t, void*);                             \
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
