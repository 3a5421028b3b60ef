// Operations that look along one axis: position of the extreme element, running sums and products,
// the k largest.

#include <algorithm>
#include <numeric>

#include "ops/core/core.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

AxisSplit SplitByAttribute(const ComputeContext& context, const Tensor& x, int64_t otherwise) {
  const int64_t axis = context.attributes().Int("axis", otherwise);
  return SplitAt(x.dims(), static_cast<int>(axis < 0 ? axis + x.rank() : axis));
}

// Calls line(offset of its first element) for each line along the axis; elements are split.inner
// apart.
template <typename Body>
void ForEachLine(const AxisSplit& split, Body&& line) {
  for (int64_t outer = 0; outer < split.outer; ++outer) {
    for (int64_t inner = 0; inner < split.inner; ++inner) {
      line(outer * split.size * split.inner + inner);
    }
  }
}

// Whether a comes before b in ascending order; NaN is larger than all numbers.
template <typename C>
bool Before(C a, C b) {
  if (b != b) return a == a;
  return a < b;
}

bool IsOneOf(std::string_view name, std::string_view a, std::string_view b) {
  return name == a || name == b;
}

void InferArgReduce(InferContext& context) {
  const std::string_view kind = context.attributes().String("kind");
  if (!IsOneOf(kind, "argmax", "argmin")) {
    Fail(ErrorCode::kInternal, "arg_reduce: there is no kind '{}'", kind);
  }
  if (!context.ranked(0)) return context.Set(0, DType::kInt64, {});
  Dims shape = context.shape(0);
  const int axis = context.Axis(context.attributes().Int("axis"), context.rank(0));
  if (shape[axis] == 0) context.Fail("{} over an axis of size 0 of {}", kind, context.Print(shape));
  if (context.attributes().Int("keepdims", 1) != 0) {
    shape[axis] = 1;
  } else {
    shape.erase(shape.begin() + axis);
  }
  context.Set(0, DType::kInt64, std::move(shape));
}

void ComputeArgReduce(ComputeContext& context) {
  const Tensor& x = context.input(0);
  int64_t* y = context.Allocate(0).data<int64_t>();
  const AxisSplit split = SplitByAttribute(context, x, 0);
  const bool max = context.attributes().String("kind") == "argmax";
  const bool last = context.attributes().Int("select_last_index") != 0;
  DispatchReal(x.dtype(), "arg_reduce", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    ForEachLine(split, [&](int64_t begin) {
      int64_t best = 0;
      for (int64_t i = 1; i < split.size; ++i) {
        const C value = static_cast<C>(x.data<T>()[begin + i * split.inner]);
        const C extreme = static_cast<C>(x.data<T>()[begin + best * split.inner]);
        // As numpy: the first NaN wins either way.
        if (extreme != extreme) break;
        const bool better = value != value || (max ? value > extreme : value < extreme);
        if (better || (last && value == extreme)) best = i;
      }
      *y++ = best;
    });
  });
}

void InferCumulative(InferContext& context) {
  const std::string_view kind = context.attributes().String("kind");
  if (!IsOneOf(kind, "sum", "prod")) {
    Fail(ErrorCode::kInternal, "cumulative: there is no kind '{}'", kind);
  }
  if (!context.ranked(0)) return context.Set(0, context.dtype(0), {});
  context.Axis(context.attributes().Int("axis"), context.rank(0));
  context.Set(0, context.dtype(0), context.shape(0));
}

void ComputeCumulative(ComputeContext& context) {
  const Tensor& x = context.input(0);
  Tensor& y = context.Allocate(0);
  const AxisSplit split = SplitByAttribute(context, x, 0);
  const bool sum = context.attributes().String("kind") == "sum";
  const bool exclusive = context.attributes().Int("exclusive") != 0;
  const bool reverse = context.attributes().Int("reverse") != 0;
  DispatchReal(x.dtype(), "cumulative", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Sum = SumType<T>;
    ForEachLine(split, [&](int64_t begin) {
      Sum running = sum ? Sum{0} : Sum{1};
      for (int64_t i = 0; i < split.size; ++i) {
        const int64_t at = begin + (reverse ? split.size - 1 - i : i) * split.inner;
        const Sum value = ToSum(x.data<T>()[at]);
        const Sum next = sum ? running + value : running * value;
        y.data<T>()[at] = FromSum<T>(exclusive ? running : next);
        running = next;
      }
    });
  });
}

void InferTopk(InferContext& context) {
  if (context.input_count() != 2) context.Fail("topk takes an input and k");
  std::optional<Dims> shape;
  if (context.ranked(0)) {
    shape = context.shape(0);
    const int axis = context.Axis(context.attributes().Int("axis", -1), context.rank(0));
    const Dims* k = context.elements(1);
    if (k != nullptr && k->size() != 1) context.Fail("k of topk is one number, not {}", k->size());
    const Dim count = k != nullptr ? k->front() : context.symbols().Fresh();
    if (count.known() &&
        (count.value() < 0 || ((*shape)[axis].known() && count.value() > (*shape)[axis].value()))) {
      context.Fail("cannot take the top {} of axis {} of {}", count.value(), axis,
                   context.Print(*shape));
    }
    (*shape)[axis] = count;
  }
  context.Set(0, context.dtype(0), shape);
  if (context.output_count() > 1) context.Set(1, DType::kInt64, shape);
}

void ComputeTopk(ComputeContext& context) {
  const Tensor& x = context.input(0);
  Tensor& values = context.Allocate(0);
  int64_t* indices = context.output_count() > 1 ? context.Allocate(1).data<int64_t>() : nullptr;
  const AxisSplit split = SplitByAttribute(context, x, -1);
  const int64_t k = ToInts(context.input(1))[0];
  if (k == 0) return;  // all there are of an axis without elements
  const bool largest = context.attributes().Int("largest", 1) != 0;
  DispatchReal(x.dtype(), "topk", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    std::vector<int64_t> order(split.size);
    ForEachLine(split, [&](int64_t begin) {
      const auto at = [&](int64_t i) {
        return static_cast<C>(x.data<T>()[begin + i * split.inner]);
      };
      std::iota(order.begin(), order.end(), 0);
      // Of equal elements, the one with the lower index comes first.
      std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        const bool before = largest ? Before(at(b), at(a)) : Before(at(a), at(b));
        const bool after = largest ? Before(at(a), at(b)) : Before(at(b), at(a));
        return before || (!after && a < b);
      });
      const int64_t target =
          begin / (split.size * split.inner) * k * split.inner + begin % split.inner;
      for (int64_t i = 0; i < k; ++i) {
        values.data<T>()[target + i * split.inner] = x.data<T>()[begin + order[i] * split.inner];
        if (indices != nullptr) indices[target + i * split.inner] = order[i];
      }
    });
  });
}

}  // namespace

const CoreOp arg_reduce = {
    .name = "arg_reduce", .inputs = "t", .infer = InferArgReduce, .reference = ComputeArgReduce};
const CoreOp cumulative = {
    .name = "cumulative", .inputs = "t", .infer = InferCumulative, .reference = ComputeCumulative};
const CoreOp topk = {.name = "topk",
                     .inputs = "tt",
                     .outputs = {2, 2},
                     .infer = InferTopk,
                     .reference = ComputeTopk};

}  // namespace sardonyx::core
