// DynamicTimeWarping of com.microsoft: the cheapest path through a matrix of costs.

#include <algorithm>
#include <limits>
#include <utility>

#include "ops/core/reference.h"
#include "ops/lowering.h"

namespace sardonyx {
namespace core {
namespace {

void InferDynamicTimeWarping(InferContext& context) {
  if (context.dtype(0) != DType::kFloat32) {
    context.Fail("dynamic_time_warping takes costs as float, not {}", Name(context.dtype(0)));
  }
  Dims shape{Dim(2), context.symbols().Fresh()};
  if (context.ranked(0)) {
    const Dims& costs = context.shape(0);
    if (costs.size() != 2 && (costs.size() != 3 || (costs[0].known() && costs[0].value() != 1))) {
      context.Fail("dynamic_time_warping takes costs [M,N] or [1,M,N], not {}",
                   context.Print(costs));
    }
    for (size_t i = costs.size() - 2; i < costs.size(); ++i) {
      if (costs[i].known() && costs[i].value() == 0) shape[1] = Dim(0);
    }
  }
  context.Set(0, DType::kInt32, std::move(shape));
}

enum Step : uint8_t { kDiagonal, kDown, kRight };

// Sums are floats, not doubles: which of two paths is cheaper may be a matter of their rounding.
void ComputeDynamicTimeWarping(ComputeContext& context) {
  const Tensor& x = context.input(0);
  const int64_t rows = x.dims()[x.rank() - 2], columns = x.dims()[x.rank() - 1];
  if (x.size() == 0) {
    context.Allocate(0);
    return;
  }
  const float* costs = x.data<float>();
  const float none = std::numeric_limits<float>::infinity();
  std::vector<Step> steps(x.size());
  // Sums of the row above, from the column before the first one on.
  std::vector<float> above(columns + 1, none), sums(columns + 1, none);
  above[0] = 0;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const float diagonal = above[c], down = above[c + 1], right = sums[c];
      Step step = kRight;
      if (diagonal < down && diagonal < right) step = kDiagonal;
      if (down < diagonal && down < right) step = kDown;
      steps[r * columns + c] = step;
      sums[c + 1] =
          costs[r * columns + c] + (step == kDiagonal ? diagonal : (step == kDown ? down : right));
    }
    above.swap(sums);
    sums[0] = none;
  }
  std::vector<std::pair<int64_t, int64_t>> path;
  for (int64_t r = rows - 1, c = columns - 1; r >= 0 && c >= 0;) {
    path.emplace_back(r, c);
    const Step step = steps[r * columns + c];
    r -= static_cast<int64_t>(step != kRight);
    c -= static_cast<int64_t>(step != kDown);
  }
  const auto length = static_cast<int64_t>(path.size());
  int32_t* y = context.Allocate(0, DType::kInt32, {2, length}).data<int32_t>();
  for (int64_t i = 0; i < length; ++i) {
    y[i] = static_cast<int32_t>(path[length - 1 - i].first);
    y[length + i] = static_cast<int32_t>(path[length - 1 - i].second);
  }
}

}  // namespace

const CoreOp dynamic_time_warping = {.name = "dynamic_time_warping",
                                     .inputs = "t",
                                     .infer = InferDynamicTimeWarping,
                                     .reference = ComputeDynamicTimeWarping};

}  // namespace core

namespace ops::contrib {

Outputs LowerDynamicTimeWarping(Lowering& op) {
  return op.builder().Make(core::dynamic_time_warping, {op.in(0)});
}

}  // namespace ops::contrib
}  // namespace sardonyx
