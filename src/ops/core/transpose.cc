// Axes in another order: axis i of the result is axis perm[i] of the input.

#include "ops/core/core.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

// Without the attribute: the axes reversed.
std::vector<int64_t> Permutation(const Attributes& attributes, size_t rank) {
  std::vector<int64_t> perm = attributes.Ints("perm");
  if (perm.empty()) {
    for (size_t i = rank; i-- > 0;) perm.push_back(static_cast<int64_t>(i));
  }
  return perm;
}

void InferTranspose(InferContext& context) {
  const std::vector<int64_t>& given = context.attributes().Ints("perm");
  if (!context.ranked(0)) {
    if (given.empty()) return context.Set(0, context.dtype(0), {});
    return context.Set(0, context.dtype(0), [&] {
      Dims shape;
      for (size_t i = 0; i < given.size(); ++i) shape.push_back(context.symbols().Fresh());
      return shape;
    }());
  }
  const Dims& from = context.shape(0);
  const std::vector<int64_t> perm = Permutation(context.attributes(), from.size());
  std::vector<bool> seen(from.size(), false);
  Dims shape;
  for (int64_t axis : perm) {
    const bool valid =
        axis >= 0 && axis < context.rank(0) && !seen[axis] && perm.size() == from.size();
    if (!valid) {
      context.Fail("cannot transpose {} by {}: that is no permutation of its axes",
                   context.Print(from), PrintDims(perm));
    }
    seen[axis] = true;
    shape.push_back(from[axis]);
  }
  context.Set(0, context.dtype(0), std::move(shape));
  if (context.rank(0) <= 1 && context.elements(0) != nullptr) {
    context.SetElements(0, *context.elements(0));
  }
}

void ComputeTranspose(ComputeContext& context) {
  const Tensor& x = context.input(0);
  Tensor& y = context.Allocate(0);
  const std::vector<int64_t> own = RowMajorStrides(x.dims());
  Walk::Strides strides;
  for (int64_t axis : Permutation(context.attributes(), x.dims().size()))
    strides.push_back(own[axis]);
  CopyStrided(x, 0, strides, y, 0, RowMajorStrides(y.dims()), y.dims());
}

}  // namespace

const CoreOp transpose = {
    .name = "transpose", .inputs = "t", .infer = InferTranspose, .reference = ComputeTranspose};

}  // namespace sardonyx::core
