#include "ops/math/distances.h"

namespace sardonyx::ops {

// The squares are two more columns of the product, [a, |a|^2, 1] [-2b, 1, |b|^2]^T, which take less
// than sweeps over all distances would.
Val SquaredDistances(Val a, Val b) {
  const auto squares = [](Val x) { return Reduce("sum_square", x, {1}, true); };
  const auto ones = [](Val like) {
    return Expand(like.builder->Scalar(like.dtype(), 1), ShapeOf(like));
  };
  const Val a_square = squares(a), b_square = squares(b);
  return MatMul(Concat({a, a_square, ones(a_square)}, 1),
                Concat({-2 * b, ones(b_square), b_square}, 1), false, true);
}

}  // namespace sardonyx::ops
