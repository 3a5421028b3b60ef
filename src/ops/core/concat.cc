// Joining tensors along an axis, and cutting one into parts.

#include <algorithm>
#include <cstring>

#include "ops/core/core.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

void InferConcat(InferContext& context) {
  if (context.input_count() == 0) context.Fail("concat needs at least one input");
  const DType type = context.dtype(0);
  std::optional<Dims> shape;
  size_t model = 0;
  for (size_t i = 0; i < context.input_count(); ++i) {
    if (context.dtype(i) != type) {
      context.Fail("cannot concatenate {} and {}", Name(type), Name(context.dtype(i)));
    }
    if (shape || !context.ranked(i)) continue;
    shape = context.shape(i);
    model = i;
  }
  if (!shape) return context.Set(0, type, {});
  const int axis = context.Axis(context.attributes().Int("axis"), static_cast<int>(shape->size()));
  Dim total = 0;
  bool all_ranked = true;
  for (size_t i = 0; i < context.input_count(); ++i) {
    if (!context.ranked(i)) {
      all_ranked = false;
      continue;
    }
    const Dims& part = context.shape(i);
    const Dims& first = context.shape(model);
    bool fits = part.size() == first.size();
    for (size_t k = 0; fits && k < part.size(); ++k) {
      if (static_cast<int>(k) == axis) continue;
      fits = !part[k].known() || !first[k].known() || part[k] == first[k];
      // A known size is worth more than a symbol.
      if (part[k].known()) (*shape)[k] = part[k];
    }
    if (!fits) {
      context.Fail("cannot concatenate {} and {} along axis {}: other dimensions differ",
                   context.Print(first), context.Print(part), axis);
    }
    total = context.symbols().Add(total, part[axis]);
  }
  (*shape)[axis] = all_ranked ? total : context.symbols().Fresh();
  const bool vector = shape->size() == 1;
  context.Set(0, type, std::move(shape));
  if (!vector) return;
  Dims elements;
  for (size_t i = 0; i < context.input_count(); ++i) {
    const Dims* part = context.elements(i);
    if (part == nullptr) return;
    elements.insert(elements.end(), part->begin(), part->end());
  }
  context.SetElements(0, std::move(elements));
}

// `count` rows to where they are `step` bytes apart. Of single elements a call each would take
// longer than the copy.
void CopyRows(const char* from, int64_t bytes, char* to, int64_t step, int64_t count) {
  const auto rows_of = [&](auto size) {
    for (int64_t row = 0; row < count; ++row) {
      std::memcpy(to + row * step, from + row * bytes, static_cast<size_t>(size));
    }
  };
  switch (bytes) {
    case 1: return rows_of(std::integral_constant<int64_t, 1>());
    case 2: return rows_of(std::integral_constant<int64_t, 2>());
    case 4: return rows_of(std::integral_constant<int64_t, 4>());
    case 8: return rows_of(std::integral_constant<int64_t, 8>());
    default: return rows_of(bytes);
  }
}

void ComputeConcat(ComputeContext& context) {
  Tensor& y = context.Allocate(0);
  const int64_t given = context.attributes().Int("axis");
  const int64_t axis = given < 0 ? given + y.rank() : given;
  if (y.dtype() != DType::kString && !IsPacked(y.dtype())) {
    // Some rows at a time, which keeps what is read and what is written together.
    constexpr int64_t kBytes = 16384, kLeastRows = 8;
    const int64_t outer = ProductOf(y.dims(), 0, static_cast<size_t>(axis));
    if (y.bytes() == 0) return;
    const int64_t row_bytes = static_cast<int64_t>(y.bytes()) / outer;
    const int64_t rows = std::max(kLeastRows, kBytes / row_bytes);
    for (int64_t begin = 0; begin < outer; begin += rows) {
      auto* column = static_cast<char*>(y.raw());
      for (size_t i = 0; i < context.input_count(); ++i) {
        const int64_t bytes = static_cast<int64_t>(context.input(i).bytes()) / outer;
        if (bytes == 0) continue;
        const auto* from = static_cast<const char*>(context.input(i).raw());
        CopyRows(from + begin * bytes, bytes, column + begin * row_bytes, row_bytes,
                 std::min(rows, outer - begin));
        column += bytes;
      }
    }
    return;
  }
  const std::vector<int64_t> strides = RowMajorStrides(y.dims());
  int64_t position = 0;
  for (size_t i = 0; i < context.input_count(); ++i) {
    const Tensor& part = context.input(i);
    CopyStrided(part, 0, RowMajorStrides(part.dims()), y, position * strides[axis], strides,
                part.dims());
    position += part.dims()[axis];
  }
}

void InferSplit(InferContext& context) {
  const DType type = context.dtype(0);
  const size_t parts = context.output_count();
  if (!context.ranked(0)) {
    for (size_t i = 0; i < parts; ++i) context.Set(i, type, {});
    return;
  }
  Dims shape = context.shape(0);
  const int axis = context.Axis(context.attributes().Int("axis"), context.rank(0));
  const Dim whole = shape[axis];
  const Dims* elements = context.elements(0);
  Dims sizes;
  if (context.has(1)) {
    if (const Dims* given = context.elements(1)) {
      if (given->size() != parts) {
        context.Fail("split into {} parts with {} sizes", parts, given->size());
      }
      Dim sum = 0;
      for (Dim size : *given) {
        if (size.known() && size.value() < 0)
          context.Fail("split with a negative size {}", size.value());
        sum = context.symbols().Add(sum, size);
      }
      if (sum.known() && whole.known() && !(sum == whole)) {
        context.Fail("cannot split axis {} of {} into {}: the sizes sum to {}", axis,
                     context.Print(shape), context.Print(*given), sum.value());
      }
      sizes = *given;
    } else {
      for (size_t i = 0; i < parts; ++i) sizes.push_back(context.symbols().Fresh());
    }
  } else {
    const Dim count = static_cast<int64_t>(parts);
    if (whole.known()) {
      // Parts have the rounded-up size as long as there is enough; the last may be smaller or
      // empty.
      const int64_t size = (whole.value() + count.value() - 1) / count.value();
      int64_t rest = whole.value();
      for (size_t i = 0; i < parts; ++i) {
        sizes.push_back(std::min(size, rest));
        rest -= sizes.back().value();
      }
    } else {
      const Dim size = context.symbols().CeilDiv(whole, count);
      sizes.assign(parts, size);
      sizes.back() =
          context.symbols().Sub(whole, context.symbols().Mul(size, Dim(count.value() - 1)));
    }
  }
  size_t begin = 0;
  for (size_t i = 0; i < parts; ++i) {
    shape[axis] = sizes[i];
    context.Set(i, type, shape);
    if (elements == nullptr || !sizes[i].known() || shape.size() != 1) {
      elements = nullptr;
      continue;
    }
    const size_t end = begin + static_cast<size_t>(sizes[i].value());
    if (end > elements->size()) {
      elements = nullptr;
      continue;
    }
    context.SetElements(i, Dims(elements->begin() + begin, elements->begin() + end));
    begin = end;
  }
}

void ComputeSplit(ComputeContext& context) {
  const Tensor& x = context.input(0);
  const int64_t given = context.attributes().Int("axis");
  const int64_t axis = given < 0 ? given + x.rank() : given;
  const std::vector<int64_t> strides = RowMajorStrides(x.dims());
  int64_t position = 0;
  for (size_t i = 0; i < context.output_count(); ++i) {
    Tensor& part = context.Allocate(i);
    CopyStrided(x, position * strides[axis], strides, part, 0, RowMajorStrides(part.dims()),
                part.dims());
    position += part.dims()[axis];
  }
}

}  // namespace

const CoreOp concat = {
    .name = "concat", .inputs = "t+", .infer = InferConcat, .reference = ComputeConcat};
const CoreOp split = {.name = "split",
                      .inputs = "tt?",
                      .outputs = {1, kAnyNumber},
                      .infer = InferSplit,
                      .reference = ComputeSplit};

}  // namespace sardonyx::core
