// Repetition: expand broadcasts to a shape (in both directions, as ONNX Expand), tile repeats the
// whole tensor along each axis.

#include <algorithm>

#include "ops/core/core.h"
#include "ops/core/fits.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

void InferExpand(InferContext& context) {
  if (context.input_count() != 2) context.Fail("expand takes an input and a shape");
  if (context.ranked(1) && context.rank(1) != 1) {
    context.Fail("the shape to expand to is a vector, not {}", context.Print(context.shape(1)));
  }
  const DType type = context.dtype(0);
  if (!context.ranked(0)) return context.Set(0, type, {});
  const Dims* target = context.elements(1);
  if (target == nullptr) {
    if (!context.ranked(1) || !context.shape(1)[0].known()) return context.Set(0, type, {});
    const size_t rank =
        std::max(static_cast<size_t>(RankFrom(context, 1)), context.shape(0).size());
    Dims shape;
    for (size_t i = 0; i < rank; ++i) shape.push_back(context.symbols().Fresh());
    return context.Set(0, type, std::move(shape));
  }
  for (Dim dim : *target) {
    if (dim.known() && dim.value() < 0) {
      context.Fail("cannot expand {} to {}: a negative size", context.Print(context.shape(0)),
                   context.Print(*target));
    }
  }
  Dims shape = context.Broadcast(context.shape(0), *target);
  const Dims* from = context.elements(0);
  const bool small =
      shape.size() <= 1 && (shape.empty() || (shape[0].known() && shape[0].value() <= 1024));
  std::optional<Dims> elements;
  if (from != nullptr && small) {
    elements = *from;
    if (!shape.empty() && from->size() == 1) elements->assign(shape[0].value(), from->front());
  }
  context.Set(0, type, std::move(shape));
  if (elements) context.SetElements(0, std::move(*elements));
}

void ComputeExpand(ComputeContext& context) {
  const Tensor& x = context.input(0);
  Tensor& y = context.Allocate(0);
  CopyStrided(x, 0, BroadcastStrides(x.dims(), y.dims()), y, 0, RowMajorStrides(y.dims()),
              y.dims());
}

void InferTile(InferContext& context) {
  if (context.input_count() != 2) context.Fail("tile takes an input and repeats");
  if (!context.ranked(0)) return context.Set(0, context.dtype(0), {});
  const Dims* repeats = context.elements(1);
  Dims shape = context.shape(0);
  if (repeats != nullptr && repeats->size() != shape.size()) {
    context.Fail("cannot tile {} by {}: one number an axis is needed", context.Print(shape),
                 context.Print(*repeats));
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    if (repeats != nullptr && (*repeats)[i].known() && (*repeats)[i].value() < 0) {
      context.Fail("cannot tile {} by {}: a negative number", context.Print(shape),
                   context.Print(*repeats));
    }
    shape[i] = repeats != nullptr ? context.symbols().Mul(shape[i], (*repeats)[i])
                                  : context.symbols().Fresh();
  }
  context.Set(0, context.dtype(0), std::move(shape));
}

void ComputeTile(ComputeContext& context) {
  const Tensor& x = context.input(0);
  Tensor& y = context.Allocate(0);
  // Each axis of the result is [repeats, size], of which x does not see the first.
  const std::vector<int64_t> repeats = ToInts(context.input(1)), own = RowMajorStrides(x.dims());
  std::vector<int64_t> dims, strides;
  for (int i = 0; i < x.rank(); ++i) {
    dims.insert(dims.end(), {repeats[i], x.dims()[i]});
    strides.insert(strides.end(), {0, own[i]});
  }
  CopyStrided(x, 0, strides, y, 0, RowMajorStrides(dims), dims);
}

}  // namespace

const CoreOp expand = {
    .name = "expand", .inputs = "tt", .infer = InferExpand, .reference = ComputeExpand};
const CoreOp tile = {.name = "tile", .inputs = "tt", .infer = InferTile, .reference = ComputeTile};

}  // namespace sardonyx::core
