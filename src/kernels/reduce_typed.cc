#include "kernels/reduce_typed.h"

namespace sardonyx {

template <typename T>
void Reduce(ReduceKind kind, const T* x, T* y, const ReduceShape& shape, const Parallel& par) {
  ReduceElements(kind, x, y, shape, par);
}

template <typename T>
void ArgReduce(bool largest, bool select_last, const T* x, int64_t* y, int64_t outer, int64_t n,
               int64_t inner, const Parallel& par) {
  ArgReduceElements(largest, select_last, x, y, outer, n, inner, par);
}

#define SARDONYX_REDUCE(T)                                                                \
  template void Reduce<T>(ReduceKind, const T*, T*, const ReduceShape&, const Parallel&); \
  template void ArgReduce<T>(bool, bool, const T*, int64_t*, int64_t, int64_t, int64_t,   \
                             const Parallel&)
SARDONYX_REDUCE(double);
SARDONYX_REDUCE(int8_t);
SARDONYX_REDUCE(uint8_t);
SARDONYX_REDUCE(int16_t);
SARDONYX_REDUCE(uint16_t);
SARDONYX_REDUCE(int32_t);
SARDONYX_REDUCE(uint32_t);
SARDONYX_REDUCE(int64_t);
SARDONYX_REDUCE(uint64_t);
#undef SARDONYX_REDUCE

}  // namespace sardonyx
