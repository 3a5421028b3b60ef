#pragma once
// Tables from keys to values, which encoders and mappers share.

#include "ops/lowering.h"

namespace sardonyx::ops::ml {

enum class Repeated { kFirst, kLast };  // which of equal keys counts

// For each element of x the row of `values` that stands where the element stands in `keys`, or the
// last row, one behind the keys', if it is not there. Without values: the position itself.
// `required`: an element that is not there is an error.
Val Translate(Lowering& op, Val x, const Tensor& keys, Val values, Repeated repeated,
              bool required = false);

// Both attributes' elements as a vector: strings if they are given, else integers.
Tensor StringsOrInts(Lowering& op, std::string_view strings, std::string_view ints);

// `values` and behind them `last`.
template <typename T>
Tensor Append(std::vector<T> values, T last) {
  values.push_back(std::move(last));
  return MakeVector(values);
}

}  // namespace sardonyx::ops::ml
