#include "ops/core/reference.h"

#include <algorithm>

#include "ops/core/interpret.h"

namespace sardonyx::core {

Walk::Walk(std::vector<int64_t> dims, std::vector<Strides> strides)
    : dims_(std::move(dims)),
      strides_(std::move(strides)),
      index_(dims_.size(), 0),
      offsets_(strides_.size(), 0),
      done_(std::find(dims_.begin(), dims_.end(), 0) != dims_.end()) {}

void Walk::Next() {
  for (size_t axis = dims_.size(); axis-- > 0;) {
    if (++index_[axis] < dims_[axis]) {
      for (size_t i = 0; i < offsets_.size(); ++i) offsets_[i] += strides_[i][axis];
      return;
    }
    index_[axis] = 0;
    for (size_t i = 0; i < offsets_.size(); ++i) {
      offsets_[i] -= strides_[i][axis] * (dims_[axis] - 1);
    }
  }
  done_ = true;
}

Walk::Strides BroadcastStrides(std::span<const int64_t> dims, std::span<const int64_t> to) {
  Walk::Strides strides(to.size(), 0);
  const std::vector<int64_t> own = RowMajorStrides(dims);
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != 1) strides[to.size() - dims.size() + i] = own[i];
  }
  return strides;
}

int64_t ProductOf(std::span<const int64_t> dims, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t i = begin; i < end; ++i) product *= dims[i];
  return product;
}

AxisSplit SplitAt(std::span<const int64_t> dims, int axis) {
  const size_t at = static_cast<size_t>(axis);
  return {ProductOf(dims, 0, at), dims[at], ProductOf(dims, at + 1, dims.size())};
}

void CopyStrided(const Tensor& from, int64_t from_offset, Walk::Strides from_strides, Tensor& to,
                 int64_t to_offset, Walk::Strides to_strides, const std::vector<int64_t>& dims) {
  // The last axes, if they lie in one piece on both sides, are copied as such.
  int64_t run = 1;
  size_t outer = dims.size();
  while (outer > 0 && (dims[outer - 1] == 1 ||
                       (from_strides[outer - 1] == run && to_strides[outer - 1] == run))) {
    run *= dims[--outer];
  }
  const int64_t width = BitWidth(from.dtype()) / 8;
  if (run > 1 && from.dtype() != DType::kString && !IsPacked(from.dtype())) {
    from_strides.resize(outer);
    to_strides.resize(outer);
    const auto* source = static_cast<const char*>(from.raw()) + from_offset * width;
    char* target = static_cast<char*>(to.raw()) + to_offset * width;
    Walk walk({dims.begin(), dims.begin() + static_cast<int64_t>(outer)},
              {std::move(from_strides), std::move(to_strides)});
    for (; !walk.done(); walk.Next()) {
      std::memcpy(target + walk[1] * width, source + walk[0] * width,
                  static_cast<size_t>(run * width));
    }
    return;
  }
  // Else the last axis that has more than one is walked in even steps.
  outer = dims.size();
  while (outer > 1 && dims[outer - 1] == 1) --outer;
  const bool has_axis = outer > 0 && ElementCount(dims) > 0;
  const int64_t count = has_axis ? dims[outer - 1] : ElementCount(dims);
  const int64_t from_step = has_axis ? from_strides[outer - 1] : 0;
  const int64_t to_step = has_axis ? to_strides[outer - 1] : 0;
  if (has_axis) --outer;
  from_strides.resize(outer);
  to_strides.resize(outer);
  Walk walk({dims.begin(), dims.begin() + static_cast<int64_t>(outer)},
            {std::move(from_strides), std::move(to_strides)});
  for (; count > 0 && !walk.done(); walk.Next()) {
    const int64_t source = from_offset + walk[0], target = to_offset + walk[1];
    CopyElements(from, to, count, [&](int64_t i) {
      return std::pair<int64_t, int64_t>(source + i * from_step, target + i * to_step);
    });
  }
}

void Fill(Tensor& to, const Tensor* value) {
  if (value != nullptr) {
    CopyElements(*value, to, to.size(),
                 [](int64_t i) { return std::pair<int64_t, int64_t>(0, i); });
  } else if (to.dtype() == DType::kString) {
    std::fill_n(to.data<std::string>(), to.size(), std::string());
  } else if (to.bytes() > 0) {
    std::memset(to.raw(), 0, to.bytes());
  }
}

std::vector<int64_t> ReadIndices(const Tensor& indices, int64_t size, std::string_view what) {
  std::vector<int64_t> result = ToInts(indices);
  for (int64_t& index : result) {
    if (index < -size || index >= size) {
      Fail(ErrorCode::kInvalidArgument, "{} {} is outside [{},{}]", what, index, -size, size - 1);
    }
    if (index < 0) index += size;
  }
  return result;
}

bool KnownSizes(const Dims& dims, std::vector<int64_t>* sizes) {
  sizes->clear();
  for (Dim dim : dims) {
    if (!dim.known()) return false;
    sizes->push_back(dim.value());
  }
  return true;
}

void SetWithEpilogue(InferContext& context, DType dtype, std::optional<Dims> shape, size_t first) {
  const Expression* epilogue = context.attributes().Expr("epilogue");
  if (epilogue == nullptr) {
    if (context.input_count() > first) {
      context.Fail("{} inputs, but without an epilogue there are {}", context.input_count(), first);
    }
    context.Set(0, dtype, std::move(shape));
    return;
  }
  const size_t given = std::max(context.input_count(), first) - first + 1;
  if (epilogue->inputs.size() != given) {
    context.Fail("the epilogue has {} inputs, the node has {} for it", epilogue->inputs.size(),
                 given);
  }
  for (size_t i = 0; i < epilogue->inputs.size(); ++i) {
    const DType type = i == 0 ? dtype : context.dtype(first + i - 1);
    if (type != epilogue->inputs[i]) {
      context.Fail("input {} of the epilogue is {}, not {}", i, Name(epilogue->inputs[i]),
                   Name(type));
    }
    if (i == 0 || !shape || !context.ranked(first + i - 1)) continue;
    const Dims& operand = context.shape(first + i - 1);
    if (operand.size() > shape->size()) {
      context.Fail("an operand {} of the epilogue does not broadcast to {}", context.Print(operand),
                   context.Print(*shape));
    }
    const Dims joined = context.Broadcast(operand, *shape);
    for (size_t axis = 0; axis < joined.size(); ++axis) {
      if (joined[axis].known() && (*shape)[axis].known() && !(joined[axis] == (*shape)[axis])) {
        context.Fail("an operand {} of the epilogue does not broadcast to {}",
                     context.Print(operand), context.Print(*shape));
      }
    }
  }
  context.Set(0, epilogue->ResultType(), std::move(shape));
}

void FinishWithEpilogue(ComputeContext& context, Tensor result, size_t first) {
  const Expression* epilogue = context.attributes().Expr("epilogue");
  if (epilogue == nullptr) return context.Set(0, std::move(result));
  std::vector<Tensor> operands{std::move(result)};
  for (size_t i = first; i < context.input_count(); ++i) operands.push_back(context.input(i));
  Interpret(*epilogue, operands, context.Allocate(0));
}

}  // namespace sardonyx::core
