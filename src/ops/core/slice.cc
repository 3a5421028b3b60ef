// Strided ranges of axes, as ONNX Slice-13: negative positions count from the end, positions beyond
// the ends are clamped, a negative step walks backwards.

#include "ops/core/slice.h"

#include <algorithm>
#include <limits>

#include "ops/core/core.h"
#include "ops/core/fits.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

struct Range {
  int64_t start, step, count;
};

Range Resolve(int64_t start, int64_t end, int64_t step, int64_t size) {
  // The negation of the least integer overflows.
  step = std::max(step, -std::numeric_limits<int64_t>::max());
  start = SliceStart(start, step, size);
  if (end < 0) end += size;
  if (step > 0) {
    end = std::clamp<int64_t>(end, 0, size);
    const int64_t distance = std::max<int64_t>(end - start, 0);
    return {start, step, distance == 0 ? 0 : (distance - 1) / step + 1};
  }
  end = std::clamp<int64_t>(end, -1, size - 1);
  const int64_t distance = std::max<int64_t>(start - end, 0);
  return {start, step, distance == 0 ? 0 : (distance - 1) / -step + 1};
}

// The position min(max(p, 0), size) for a start or end p; p < 0 counts from the end. Nothing if it
// cannot be said whether p is negative.
std::optional<Dim> Clamp(SymbolTable& symbols, Dim p, Dim size) {
  if (p.known() && p.value() < 0) {
    // A position far before the beginning is 0, whatever the size.
    if (p.value() < -(int64_t{1} << 40)) return Dim(0);
    return symbols.Max(symbols.Add(size, p), Dim(0));
  }
  if (!symbols.NonNegative(p)) return {};
  if (p == 0) return Dim(0);
  if (p.known() && p.value() > (int64_t{1} << 31) - 2) return size;
  return symbols.Min(p, size);
}

Dim SizeOf(InferContext& context, Dim start, Dim end, int64_t step, Dim size) {
  SymbolTable& symbols = context.symbols();
  const bool known_ends = start.known() && end.known();
  if (known_ends && size.known())
    return Resolve(start.value(), end.value(), step, size.value()).count;
  if (step < 0) {
    // The whole axis backwards.
    constexpr int64_t kFar = (int64_t{1} << 31) - 2;
    if (known_ends && (start == -1 || start.value() >= kFar) && end.value() <= -kFar) {
      return symbols.CeilDiv(size, Dim(-step));
    }
    return symbols.Fresh();
  }
  const std::optional<Dim> first = Clamp(symbols, start, size), last = Clamp(symbols, end, size);
  if (!first || !last) return symbols.Fresh();
  Dim count;
  if (*first == 0) {
    count = *last;
  } else if (start.known() && start.value() < 0 && *last == size) {
    count = symbols.Min(size, Dim(-start.value()));  // the last few
  } else {
    count = symbols.Max(symbols.Sub(*last, *first), Dim(0));
  }
  return symbols.CeilDiv(count, Dim(step));
}

void CheckLists(InferContext& context) {
  if (context.input_count() < 3) context.Fail("slice takes an input, starts and ends");
  std::optional<Dim> length;
  for (size_t i = 1; i < 5; ++i) {
    if (!context.has(i) || !context.ranked(i)) continue;
    if (context.rank(i) != 1) {
      context.Fail("starts, ends, axes and steps of a slice are vectors, not {}",
                   context.Print(context.shape(i)));
    }
    const Dim count = context.shape(i)[0];
    if (!count.known()) continue;
    if (length && !(*length == count)) {
      context.Fail("starts, ends, axes and steps of a slice have {} and {} elements",
                   length->value(), count.value());
    }
    length = count;
  }
}

// The axes; false if not known.
bool AxesOf(InferContext& context, std::vector<int>* axes) {
  std::vector<int64_t> given;
  if (context.has(3)) {
    if (!context.Ints(3, &given)) return false;
  } else {
    const size_t list = context.ranked(1) && context.shape(1)[0].known() ? 1 : 2;
    if (!context.ranked(list) || !context.shape(list)[0].known()) return false;
    for (int64_t i = 0; i < RankFrom(context, list); ++i) given.push_back(i);
  }
  std::vector<bool> seen(context.rank(0), false);
  for (int64_t axis : given) {
    const int at = context.Axis(axis, context.rank(0));
    if (seen[at]) context.Fail("a slice names axis {} twice", axis);
    seen[at] = true;
    axes->push_back(at);
  }
  return true;
}

void InferSlice(InferContext& context) {
  CheckLists(context);
  const DType type = context.dtype(0);
  if (!context.ranked(0)) return context.Set(0, type, {});
  Dims shape = context.shape(0);
  std::vector<int> axes;
  if (!AxesOf(context, &axes)) {
    for (Dim& dim : shape) dim = context.symbols().Fresh();
    return context.Set(0, type, std::move(shape));
  }
  const Dims *starts = context.elements(1), *ends = context.elements(2);
  std::vector<int64_t> steps(axes.size(), 1);
  const bool known_steps = !context.has(4) || context.Ints(4, &steps);
  for (size_t i = 0; i < axes.size(); ++i) {
    Dim& dim = shape[axes[i]];
    if (starts == nullptr || ends == nullptr || !known_steps) {
      dim = context.symbols().Fresh();
      continue;
    }
    if (steps[i] == 0) context.Fail("a slice has the step 0");
    dim = SizeOf(context, (*starts)[i], (*ends)[i], steps[i], dim);
  }
  std::optional<Dims> elements;
  if (context.elements(0) != nullptr && context.rank(0) == 1 && shape[0].known() &&
      starts != nullptr) {
    const Dims& from = *context.elements(0);
    elements = from;
    std::vector<int64_t> start, end;
    if (!axes.empty()) {
      elements.reset();
      if (context.Ints(1, &start) && context.Ints(2, &end) && known_steps) {
        const Range range = Resolve(start[0], end[0], steps[0], static_cast<int64_t>(from.size()));
        elements.emplace();
        for (int64_t i = 0; i < range.count; ++i)
          elements->push_back(from[range.start + i * range.step]);
      }
    }
  }
  context.Set(0, type, std::move(shape));
  if (elements) context.SetElements(0, std::move(*elements));
}

void ComputeSlice(ComputeContext& context) {
  const Tensor& x = context.input(0);
  Tensor& y = context.Allocate(0);
  const std::vector<int64_t> starts = ToInts(context.input(1)), ends = ToInts(context.input(2));
  Walk::Strides strides = RowMajorStrides(x.dims());
  int64_t offset = 0;
  const std::vector<int64_t> axes =
      context.has(3) ? ToInts(context.input(3)) : std::vector<int64_t>();
  const std::vector<int64_t> steps =
      context.has(4) ? ToInts(context.input(4)) : std::vector<int64_t>();
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t given = axes.empty() ? static_cast<int64_t>(i) : axes[i];
    const int64_t axis = given < 0 ? given + x.rank() : given;
    const Range range = Resolve(starts[i], ends[i], steps.empty() ? 1 : steps[i], x.dims()[axis]);
    if (range.count == 0) return;
    offset += range.start * strides[axis];
    // One element needs no step, and a huge step must not overflow.
    strides[axis] = range.count == 1 ? 0 : strides[axis] * range.step;
  }
  CopyStrided(x, offset, strides, y, 0, RowMajorStrides(y.dims()), y.dims());
}

}  // namespace

int64_t SliceStart(int64_t start, int64_t step, int64_t size) {
  if (start < 0) start += size;
  // Backwards from a position before the first: NumPy has nothing, the standard's text and ONNX
  // Runtime the first element.
  if (step < 0) return size == 0 ? -1 : std::clamp<int64_t>(start, 0, size - 1);
  return std::clamp<int64_t>(start, 0, size);
}

const CoreOp slice = {
    .name = "slice", .inputs = "tttt?t?", .infer = InferSlice, .reference = ComputeSlice};

}  // namespace sardonyx::core
