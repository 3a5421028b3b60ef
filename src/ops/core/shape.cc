// Facts of a tensor as tensors: its dimensions, their product.

#include <algorithm>

#include "ops/core/core.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

// [start, end) of the dimensions, clamped as ONNX Shape-15 says.
std::pair<int64_t, int64_t> RangeOf(const Attributes& attributes, int64_t rank) {
  const auto clamp = [rank](int64_t position) {
    return std::clamp<int64_t>(position < 0 ? position + rank : position, 0, rank);
  };
  const int64_t start = clamp(attributes.Int("start", 0)), end = clamp(attributes.Int("end", rank));
  return {start, std::max(start, end)};
}

void InferShape(InferContext& context) {
  if (!context.ranked(0)) return context.Set(0, DType::kInt64, Dims{context.symbols().Fresh()});
  const auto [start, end] = RangeOf(context.attributes(), context.rank(0));
  context.Set(0, DType::kInt64, Dims{Dim(end - start)});
  const Dims& from = context.shape(0);
  context.SetElements(0, Dims(from.begin() + start, from.begin() + end));
}

void ComputeShape(ComputeContext& context) {
  const std::vector<int64_t>& dims = context.input(0).dims();
  const auto [start, end] = RangeOf(context.attributes(), context.input(0).rank());
  context.Set(0, MakeVector(std::vector<int64_t>(dims.begin() + start, dims.begin() + end)));
}

void InferSize(InferContext& context) {
  context.Set(0, DType::kInt64, Dims{});
  if (context.ranked(0)) context.SetElements(0, {context.symbols().Product(context.shape(0))});
}

void ComputeSize(ComputeContext& context) { context.Set(0, MakeScalar(context.input(0).size())); }

}  // namespace

const CoreOp shape = {
    .name = "shape", .inputs = "t", .infer = InferShape, .reference = ComputeShape};
const CoreOp size = {.name = "size", .inputs = "t", .infer = InferSize, .reference = ComputeSize};

}  // namespace sardonyx::core
