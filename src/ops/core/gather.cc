// Reading by index: whole slices along an axis, single elements along an axis, and slices by index
// vectors.

#include "ops/core/core.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

void CheckIndices(InferContext& context) {
  if (context.input_count() < 2)
    context.Fail("{} takes an input and indices", context.node().op->name);
  if (!IsInteger(context.dtype(1))) {
    context.Fail("indices of {} are integers, not {}", context.node().op->name,
                 Name(context.dtype(1)));
  }
}

void InferGather(InferContext& context) {
  CheckIndices(context);
  const DType type = context.dtype(0);
  if (!context.ranked(0) || !context.ranked(1)) return context.Set(0, type, {});
  const Dims& from = context.shape(0);
  const int axis = context.Axis(context.attributes().Int("axis"), context.rank(0));
  Dims shape(from.begin(), from.begin() + axis);
  shape.insert(shape.end(), context.shape(1).begin(), context.shape(1).end());
  shape.insert(shape.end(), from.begin() + axis + 1, from.end());
  const bool small = shape.size() <= 1;
  context.Set(0, type, std::move(shape));
  const Dims* elements = context.elements(0);
  std::vector<int64_t> indices;
  if (!small || elements == nullptr || context.rank(0) != 1 || !context.Ints(1, &indices)) return;
  const int64_t size = static_cast<int64_t>(elements->size());
  Dims result;
  for (int64_t index : indices) {
    if (index < -size || index >= size) {
      context.Fail("index {} is outside [{},{}] of {}", index, -size, size - 1,
                   context.Print(from));
    }
    result.push_back((*elements)[index < 0 ? index + size : index]);
  }
  context.SetElements(0, std::move(result));
}

void ComputeGather(ComputeContext& context) {
  const Tensor& x = context.input(0);
  Tensor& y = context.Allocate(0);
  const int64_t axis = context.attributes().Int("axis");
  const AxisSplit split = SplitAt(x.dims(), static_cast<int>(axis < 0 ? axis + x.rank() : axis));
  const std::vector<int64_t> indices = ReadIndices(context.input(1), split.size, "gather: index");
  const int64_t row = static_cast<int64_t>(indices.size()) * split.inner;
  CopyElements(x, y, y.size(), [&](int64_t i) {
    const int64_t outer = i / row, index = indices[i % row / split.inner];
    return std::pair((outer * split.size + index) * split.inner + i % split.inner, i);
  });
}

void InferGatherElements(InferContext& context) {
  CheckIndices(context);
  if (context.ranked(0) && context.ranked(1)) {
    const Dims &x = context.shape(0), &indices = context.shape(1);
    if (x.size() != indices.size()) {
      context.Fail("cannot gather elements of {} by indices {}: the ranks differ", context.Print(x),
                   context.Print(indices));
    }
    const int axis = context.Axis(context.attributes().Int("axis"), context.rank(0));
    for (size_t i = 0; i < x.size(); ++i) {
      if (static_cast<int>(i) != axis && x[i].known() && indices[i].known() &&
          indices[i].value() > x[i].value()) {
        context.Fail("cannot gather elements of {} by indices {}: axis {} is too long",
                     context.Print(x), context.Print(indices), i);
      }
    }
  }
  if (!context.ranked(1)) return context.Set(0, context.dtype(0), {});
  context.Set(0, context.dtype(0), context.shape(1));
}

void ComputeGatherElements(ComputeContext& context) {
  const Tensor& x = context.input(0);
  Tensor& y = context.Allocate(0);
  if (y.size() == 0) return;
  const int64_t given = context.attributes().Int("axis");
  const int64_t axis = given < 0 ? given + x.rank() : given;
  const std::vector<int64_t> indices =
      ReadIndices(context.input(1), x.dims()[axis], "gather_elements: index");
  std::vector<int64_t> strides = RowMajorStrides(x.dims());
  const int64_t step = strides[axis];
  strides[axis] = 0;
  Walk walk(y.dims(), {strides});
  CopyElements(x, y, y.size(), [&](int64_t i) {
    const std::pair<int64_t, int64_t> at(walk[0] + indices[i] * step, i);
    walk.Next();
    return at;
  });
}

void InferGatherNd(InferContext& context) {
  CheckIndices(context);
  const DType type = context.dtype(0);
  if (!context.ranked(0) || !context.ranked(1)) return context.Set(0, type, {});
  const Dims &x = context.shape(0), &indices = context.shape(1);
  const int64_t batch = context.attributes().Int("batch_dims");
  const int64_t rank = context.rank(0), index_rank = context.rank(1);
  if (index_rank == 0 || batch < 0 || batch >= index_rank || batch > rank) {
    context.Fail("cannot gather from {} by index vectors {} with {} batch dimensions",
                 context.Print(x), context.Print(indices), batch);
  }
  for (int64_t i = 0; i < batch; ++i) {
    if (x[i].known() && indices[i].known() && !(x[i] == indices[i])) {
      context.Fail("cannot gather from {} by index vectors {}: batch dimension {} differs",
                   context.Print(x), context.Print(indices), i);
    }
  }
  const Dim length = indices.back();
  if (!length.known()) return context.Set(0, type, {});
  if (length.value() > rank - batch) {
    context.Fail("cannot gather from {} by index vectors {}: they are longer than {}",
                 context.Print(x), context.Print(indices), rank - batch);
  }
  Dims shape(indices.begin(), indices.end() - 1);
  shape.insert(shape.end(), x.begin() + batch + length.value(), x.end());
  context.Set(0, type, std::move(shape));
}

void ComputeGatherNd(ComputeContext& context) {
  const Tensor &x = context.input(0), &indices = context.input(1);
  Tensor& y = context.Allocate(0);
  const size_t batch = static_cast<size_t>(context.attributes().Int("batch_dims"));
  const size_t length = static_cast<size_t>(indices.dims().back());
  const std::vector<int64_t> vectors = ToInts(indices), strides = RowMajorStrides(x.dims());
  const int64_t inner = ProductOf(x.dims(), batch + length, x.dims().size());
  const int64_t batches = ProductOf(x.dims(), 0, batch);
  const int64_t per_batch = ProductOf(indices.dims(), batch, indices.dims().size() - 1);
  const int64_t batch_stride = ProductOf(x.dims(), batch, x.dims().size());
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < batches * per_batch; ++i) {
    int64_t offset = i / per_batch * batch_stride;
    for (size_t k = 0; k < length; ++k) {
      const int64_t size = x.dims()[batch + k];
      int64_t index = vectors[i * static_cast<int64_t>(length) + static_cast<int64_t>(k)];
      if (index < -size || index >= size) {
        Fail(ErrorCode::kInvalidArgument, "gather_nd: index {} is outside [{},{}] of axis {}",
             index, -size, size - 1, batch + k);
      }
      offset += (index < 0 ? index + size : index) * strides[batch + k];
    }
    offsets.push_back(offset);
  }
  CopyElements(x, y, y.size(), [&](int64_t i) {
    return std::pair<int64_t, int64_t>(offsets[i / inner] + i % inner, i);
  });
}

}  // namespace

const CoreOp gather = {
    .name = "gather", .inputs = "tt", .infer = InferGather, .reference = ComputeGather};
const CoreOp gather_elements = {.name = "gather_elements",
                                .inputs = "tt",
                                .infer = InferGatherElements,
                                .reference = ComputeGatherElements};
const CoreOp gather_nd = {
    .name = "gather_nd", .inputs = "tt", .infer = InferGatherNd, .reference = ComputeGatherNd};

}  // namespace sardonyx::core
