#pragma once
// Shapes of inputs against what other inputs and attributes say of them.

#include <algorithm>

#include "ir/core_op.h"

namespace sardonyx::core {

// Whether a shape may be the expected one: of its rank, and no two known sizes differ.
inline bool Fits(const Dims& shape, const Dims& expected) {
  return std::equal(shape.begin(), shape.end(), expected.begin(), expected.end(),
                    [](Dim a, Dim b) { return !a.known() || !b.known() || a == b; });
}

// How long the vector input i is, for one whose elements are each of an axis: no tensor has more
// than 64. The length is known.
inline int64_t RankFrom(const InferContext& context, size_t i) {
  constexpr int64_t kMostRank = 64;
  const int64_t rank = context.shape(i)[0].value();
  if (rank > kMostRank) context.Fail("{} axes are too many", rank);
  return rank;
}

}  // namespace sardonyx::core
