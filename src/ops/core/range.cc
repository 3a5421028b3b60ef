// Tensors made from a few numbers: range, constant_of_shape, eye_like.

#include <algorithm>
#include <cmath>

#include "ops/core/core.h"
#include "ops/core/element_type.h"
#include "ops/core/fits.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

constexpr int64_t kMaxElements = 1024;  // of a result that is followed as a shape computation

bool CarriesElements(DType type) { return type == DType::kInt64 || type == DType::kInt32; }

// Number of steps from start to before limit.
int64_t CountSteps(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  if (IsInteger(start.dtype())) {
    const int64_t from = ToInts(start)[0], to = ToInts(limit)[0], step = ToInts(delta)[0];
    if (step == 0) Fail(ErrorCode::kInvalidModel, "a range has the delta 0");
    // Distances of 64-bit numbers need one more bit.
    const __int128 distance =
        step > 0 ? static_cast<__int128>(to) - from : static_cast<__int128>(from) - to;
    const __int128 width = step > 0 ? step : -static_cast<__int128>(step);
    if (distance <= 0) return 0;
    return static_cast<int64_t>(std::min<__int128>((distance + width - 1) / width, INT64_MAX));
  }
  const double step = ToDoubles(delta)[0];
  const double count = std::ceil((ToDoubles(limit)[0] - ToDoubles(start)[0]) / step);
  if (step == 0 || !std::isfinite(count)) {
    Fail(ErrorCode::kInvalidModel, "a range from {} to {} by {} has no end", ToDoubles(start)[0],
         ToDoubles(limit)[0], step);
  }
  return static_cast<int64_t>(std::clamp(count, 0.0, 0x1p62));
}

void InferRange(InferContext& context) {
  if (context.input_count() != 3) context.Fail("range takes start, limit and delta");
  const DType type = context.dtype(0);
  for (size_t i = 0; i < 3; ++i) {
    if (context.dtype(i) != type) {
      context.Fail("a range of {} and {}: the element types must be the same", Name(type),
                   Name(context.dtype(i)));
    }
    std::vector<int64_t> sizes;
    if (context.ranked(i) && KnownSizes(context.shape(i), &sizes) && ElementCount(sizes) != 1) {
      context.Fail("start, limit and delta of a range are scalars, not {}", PrintDims(sizes));
    }
  }
  SymbolTable& symbols = context.symbols();
  const Dims *start = context.elements(0), *limit = context.elements(1),
             *delta = context.elements(2);
  if (start != nullptr && limit != nullptr && delta != nullptr && CarriesElements(type)) {
    const Dim from = start->front(), to = limit->front(), step = delta->front();
    const bool known = from.known() && to.known() && step.known();
    if (known) {
      const int64_t count =
          CountSteps(MakeScalar(from.value()), MakeScalar(to.value()), MakeScalar(step.value()));
      context.Set(0, type, Dims{Dim(count)});
      if (count > kMaxElements) return;
      Dims elements;
      for (int64_t i = 0; i < count; ++i) elements.push_back(from.value() + i * step.value());
      return context.SetElements(0, std::move(elements));
    }
    if (step.known() && step.value() > 0) {
      Dim distance = symbols.Sub(to, from);
      if (!symbols.NonNegative(distance)) distance = symbols.Max(distance, Dim(0));
      return context.Set(0, type, Dims{symbols.CeilDiv(distance, step)});
    }
  }
  if (context.constant(0) != nullptr && context.constant(1) != nullptr &&
      context.constant(2) != nullptr) {
    const int64_t count =
        CountSteps(*context.constant(0), *context.constant(1), *context.constant(2));
    return context.Set(0, type, Dims{Dim(count)});
  }
  context.Set(0, type, Dims{symbols.Fresh()});
}

void ComputeRange(ComputeContext& context) {
  const Tensor& start = context.input(0);
  const int64_t count = CountSteps(start, context.input(1), context.input(2));
  Tensor& y = context.Allocate(0, start.dtype(), {count});
  DispatchReal(start.dtype(), "range", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const SumType<T> first = ToSum(start.data<T>()[0]), step = ToSum(context.input(2).data<T>()[0]);
    for (int64_t i = 0; i < count; ++i) {
      y.data<T>()[i] = FromSum<T>(first + static_cast<SumType<T>>(i) * step);
    }
  });
}

const Tensor& FillValue(const Attributes& attributes) {
  static const Tensor kZero = MakeScalar(0.0f);
  const Tensor& value = attributes.TensorValue("value");
  return value.defined() ? value : kZero;
}

void InferConstantOfShape(InferContext& context) {
  const Tensor& value = FillValue(context.attributes());
  if (value.size() != 1) {
    context.Fail("constant_of_shape takes a value of one element, not {}", PrintDims(value.dims()));
  }
  const Dims* given = context.elements(0);
  if (given == nullptr) {
    if (!context.ranked(0) || context.rank(0) != 1 || !context.shape(0)[0].known()) {
      return context.Set(0, value.dtype(), {});
    }
    Dims shape;
    for (int64_t i = RankFrom(context, 0); i > 0; --i) shape.push_back(context.symbols().Fresh());
    return context.Set(0, value.dtype(), std::move(shape));
  }
  for (Dim dim : *given) {
    if (dim.known() && dim.value() < 0) {
      context.Fail("a constant of the shape {}: a negative size", context.Print(*given));
    }
  }
  context.Set(0, value.dtype(), *given);
  if (!CarriesElements(value.dtype()) || given->size() > 1) return;
  const Dim count = given->empty() ? Dim(1) : given->front();
  if (!count.known() || count.value() > kMaxElements) return;
  context.SetElements(0, Dims(count.value(), Dim(ToInts(value)[0])));
}

void ComputeConstantOfShape(ComputeContext& context) {
  Fill(context.Allocate(0), &FillValue(context.attributes()));
}

void InferEyeLike(InferContext& context) {
  const DType type = ElementType(context.attributes(), "dtype", context.dtype(0));
  std::optional<Dims> shape;
  if (context.ranked(0)) {
    shape = context.shape(0);
    if (shape->size() != 2) context.Fail("eye_like takes a matrix, not {}", context.Print(*shape));
  }
  context.Set(0, type, std::move(shape));
}

void ComputeEyeLike(ComputeContext& context) {
  Tensor& y = context.Allocate(0);
  Fill(y, nullptr);
  const Tensor one = MakeFilled(y.dtype(), {1}, 1);
  const int64_t rows = y.dims()[0], columns = y.dims()[1], k = context.attributes().Int("k");
  CopyElements(one, y, rows, [&](int64_t row) {
    const bool inside = k > -rows && k < columns && row + k >= 0 && row + k < columns;
    return std::pair<int64_t, int64_t>(inside ? 0 : -1, row * columns + row + k);
  });
}

}  // namespace

const CoreOp range = {
    .name = "range", .inputs = "ttt", .infer = InferRange, .reference = ComputeRange};
const CoreOp constant_of_shape = {.name = "constant_of_shape",
                                  .inputs = "t",
                                  .infer = InferConstantOfShape,
                                  .reference = ComputeConstantOfShape};
const CoreOp eye_like = {
    .name = "eye_like", .inputs = "t", .infer = InferEyeLike, .reference = ComputeEyeLike};

}  // namespace sardonyx::core
