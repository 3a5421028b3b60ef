// Operations that give the same elements other dimensions: reshape, squeeze, unsqueeze, flatten.

#include <algorithm>

#include "ops/core/core.h"
#include "ops/core/fits.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

// Elements pass through: the same numbers in the same order, as long as the rank stays below 2.
void SetView(InferContext& context, std::optional<Dims> shape) {
  const bool carries = shape && shape->size() <= 1;
  context.Set(0, context.dtype(0), std::move(shape));
  if (carries && context.elements(0) != nullptr) context.SetElements(0, *context.elements(0));
}

void ComputeView(ComputeContext& context) {
  const Tensor& x = context.input(0);
  std::vector<int64_t> dims;
  if (!KnownSizes(*context.inferred(0).shape, &dims)) {
    Fail(ErrorCode::kInternal, "a view's dimension depends on data");
  }
  context.Set(0, x.Reshaped(std::move(dims)));
}

// The shape where the requested sizes are known, symbolic or -1.
Dims Requested(InferContext& context, const Dims& request) {
  SymbolTable& symbols = context.symbols();
  const bool zero_copies = context.attributes().Int("allowzero") == 0;
  Dims shape;
  int inferred = -1;
  for (size_t i = 0; i < request.size(); ++i) {
    const Dim dim = request[i];
    shape.push_back(dim);
    if (!dim.known()) continue;
    if (dim == 0 && zero_copies) {
      if (!context.ranked(0)) {
        shape.back() = symbols.Fresh();
      } else if (i >= context.shape(0).size()) {
        context.Fail("cannot reshape {} to {}: there is no dimension {} to copy",
                     context.Print(context.shape(0)), context.Print(request), i);
      } else {
        shape.back() = context.shape(0)[i];
      }
    } else if (dim == -1) {
      if (inferred >= 0)
        context.Fail("cannot reshape to {}: more than one -1", context.Print(request));
      inferred = static_cast<int>(i);
    } else if (dim.value() < 0) {
      context.Fail("cannot reshape to {}: a negative size", context.Print(request));
    }
  }
  if (!context.ranked(0)) {
    if (inferred >= 0) shape[inferred] = symbols.Fresh();
    return shape;
  }
  const Dims& from = context.shape(0);
  const auto mismatch = [&] {
    context.Fail("cannot reshape {} to {}: the numbers of elements differ", context.Print(from),
                 context.Print(request));
  };
  std::vector<int64_t> sizes;
  if (inferred >= 0) {
    Dims others = shape;
    others.erase(others.begin() + inferred);
    std::vector<int64_t> from_sizes;
    if (KnownSizes(from, &from_sizes) && KnownSizes(others, &sizes)) {
      const int64_t count = ElementCount(from_sizes), rest = ElementCount(sizes);
      if (rest == 0 ? count != 0 : count % rest != 0) mismatch();
      shape[inferred] = rest == 0 ? 0 : count / rest;
    } else if (std::find(others.begin(), others.end(), Dim(0)) != others.end()) {
      shape[inferred] = 0;
    } else {
      shape[inferred] = symbols.Quotient(from, others);
    }
    return shape;
  }
  std::vector<int64_t> to_sizes;
  if (KnownSizes(from, &sizes) && KnownSizes(shape, &to_sizes) &&
      ElementCount(sizes) != ElementCount(to_sizes)) {
    mismatch();
  }
  return shape;
}

void InferReshape(InferContext& context) {
  if (context.input_count() != 2) context.Fail("reshape takes an input and a shape");
  if (const Dims* request = context.elements(1)) {
    // A -1 among symbols cannot be told from a size, but a symbolic size is never negative.
    return SetView(context, Requested(context, *request));
  }
  if (context.ranked(1) && context.rank(1) == 1 && context.shape(1)[0].known()) {
    Dims shape;
    for (int64_t i = RankFrom(context, 1); i > 0; --i) shape.push_back(context.symbols().Fresh());
    return context.Set(0, context.dtype(0), std::move(shape));
  }
  context.Set(0, context.dtype(0), {});
}

void InferSqueeze(InferContext& context) {
  const bool all = context.attributes().Find("axes") == nullptr;
  if (!context.ranked(0)) return context.Set(0, context.dtype(0), {});
  const Dims& from = context.shape(0);
  std::vector<bool> drop(from.size(), false);
  for (int64_t axis : context.attributes().Ints("axes")) {
    const int at = context.Axis(axis, context.rank(0));
    if (from[at].known() && !(from[at] == 1)) {
      context.Fail("cannot squeeze axis {} of {}: its size is not 1", axis, context.Print(from));
    }
    drop[at] = true;
  }
  if (all) {
    for (size_t i = 0; i < from.size(); ++i) {
      // The rank depends on a size that is not known yet.
      if (!from[i].known()) return context.Set(0, context.dtype(0), {});
      drop[i] = from[i] == 1;
    }
  }
  Dims shape;
  for (size_t i = 0; i < from.size(); ++i) {
    if (!drop[i]) shape.push_back(from[i]);
  }
  SetView(context, std::move(shape));
}

void InferUnsqueeze(InferContext& context) {
  const std::vector<int64_t>& axes = context.attributes().Ints("axes");
  if (!context.ranked(0)) return context.Set(0, context.dtype(0), {});
  const int rank = context.rank(0) + static_cast<int>(axes.size());
  std::vector<bool> is_new(rank, false);
  for (int64_t axis : axes) {
    const int at = context.Axis(axis, rank);
    if (is_new[at])
      context.Fail("cannot unsqueeze axes {}: axis {} is there twice", PrintDims(axes), axis);
    is_new[at] = true;
  }
  Dims shape;
  size_t next = 0;
  for (int i = 0; i < rank; ++i) shape.push_back(is_new[i] ? Dim(1) : context.shape(0)[next++]);
  SetView(context, std::move(shape));
}

void InferFlatten(InferContext& context) {
  if (!context.ranked(0)) {
    return context.Set(0, context.dtype(0),
                       Dims{context.symbols().Fresh(), context.symbols().Fresh()});
  }
  const Dims& from = context.shape(0);
  const int64_t rank = context.rank(0);
  int64_t axis = context.attributes().Int("axis", 1);
  if (axis < -rank || axis > rank) {
    context.Fail("cannot flatten {} at axis {}: it is outside [{},{}]", context.Print(from), axis,
                 -rank, rank);
  }
  if (axis < 0) axis += rank;
  SymbolTable& symbols = context.symbols();
  SetView(context, Dims{symbols.Product(Dims(from.begin(), from.begin() + axis)),
                        symbols.Product(Dims(from.begin() + axis, from.end()))});
}

// A vector is one row; what becomes a matrix only when it runs has sizes of its own until then.
void InferRows(InferContext& context) {
  if (!context.ranked(0)) {
    return SetView(context, Dims{context.symbols().Fresh(), context.symbols().Fresh()});
  }
  Dims shape = context.shape(0);
  if (shape.size() == 1) shape.insert(shape.begin(), 1);
  if (shape.size() != 2) context.Fail("the input must be [N,F], not {}", context.Print(shape));
  SetView(context, std::move(shape));
}

}  // namespace

const CoreOp reshape = {.name = "reshape",
                        .inputs = "tt",
                        .infer = InferReshape,
                        .reference = ComputeView,
                        .is_view = true};
const CoreOp squeeze = {.name = "squeeze",
                        .inputs = "t",
                        .infer = InferSqueeze,
                        .reference = ComputeView,
                        .is_view = true};
const CoreOp unsqueeze = {.name = "unsqueeze",
                          .inputs = "t",
                          .infer = InferUnsqueeze,
                          .reference = ComputeView,
                          .is_view = true};
const CoreOp flatten = {.name = "flatten",
                        .inputs = "t",
                        .infer = InferFlatten,
                        .reference = ComputeView,
                        .is_view = true};
const CoreOp rows = {
    .name = "rows", .inputs = "t", .infer = InferRows, .reference = ComputeView, .is_view = true};

}  // namespace sardonyx::core
