#pragma once
// The types that kernels of every number are compiled for.

#include <cstdint>
#include <tuple>

namespace sardonyx {

#define SARDONYX_NUMBERS_BUT_FLOAT(X) \
  X(double)                           \
  X(int8_t) X(uint8_t) X(int16_t) X(uint16_t) X(int32_t) X(uint32_t) X(int64_t) X(uint64_t)

// A row for each of them, found by its type.
#define SARDONYX_ROW(T) , Row<T>
template <template <typename> typename Row>
using RowPerNumber = std::tuple<Row<float> SARDONYX_NUMBERS_BUT_FLOAT(SARDONYX_ROW)>;
#undef SARDONYX_ROW

}  // namespace sardonyx
