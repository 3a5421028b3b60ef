// Writing by index into a copy of the input, single elements along an axis or slices by index
// vectors; where several updates meet, they are reduced in order, or the last one stays.

#include "ops/core/core.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

Fn ReductionOf(const Attributes& attributes, bool* reduces) {
  const std::string_view name = attributes.String("reduction", "none");
  *reduces = name != "none";
  if (name == "none" || name == "add") return Fn::kAdd;
  if (name == "mul") return Fn::kMul;
  if (name == "max") return Fn::kMax;
  if (name == "min") return Fn::kMin;
  Fail(ErrorCode::kInvalidModel, "reduction '{}' is none of none, add, mul, max, min", name);
}

void CheckOperands(InferContext& context) {
  const std::string_view name = context.node().op->name;
  if (context.input_count() != 3) context.Fail("{} takes an input, indices and updates", name);
  if (!IsInteger(context.dtype(1))) {
    context.Fail("indices of {} are integers, not {}", name, Name(context.dtype(1)));
  }
  if (context.dtype(0) != context.dtype(2)) {
    context.Fail("{}: updates are {} and the input is {}", name, Name(context.dtype(2)),
                 Name(context.dtype(0)));
  }
  bool reduces;
  const Fn reduction = ReductionOf(context.attributes(), &reduces);
  const bool is_complex =
      context.dtype(0) == DType::kComplex64 || context.dtype(0) == DType::kComplex128;
  if (is_complex && (reduction == Fn::kMax || reduction == Fn::kMin)) {
    context.Fail("complex numbers have no order for reduction '{}'",
                 context.attributes().String("reduction"));
  }
}

void SetLikeInput(InferContext& context) {
  std::optional<Dims> shape;
  if (context.ranked(0)) shape = context.shape(0);
  context.Set(0, context.dtype(0), std::move(shape));
}

bool Differ(Dim a, Dim b) { return a.known() && b.known() && !(a == b); }

void InferScatterElements(InferContext& context) {
  CheckOperands(context);
  if (context.ranked(0) && context.ranked(1) && context.ranked(2)) {
    const Dims &x = context.shape(0), &indices = context.shape(1), &updates = context.shape(2);
    bool fits = indices.size() == x.size() && updates.size() == x.size();
    for (size_t i = 0; fits && i < x.size(); ++i) fits = !Differ(indices[i], updates[i]);
    if (!fits) {
      context.Fail("cannot scatter {} into {} by indices {}", context.Print(updates),
                   context.Print(x), context.Print(indices));
    }
    const int axis = context.Axis(context.attributes().Int("axis"), context.rank(0));
    for (size_t i = 0; i < x.size(); ++i) {
      if (static_cast<int>(i) != axis && x[i].known() && indices[i].known() &&
          indices[i].value() > x[i].value()) {
        context.Fail("cannot scatter by indices {} into {}: axis {} is too long",
                     context.Print(indices), context.Print(x), i);
      }
    }
  }
  SetLikeInput(context);
}

void InferScatterNd(InferContext& context) {
  CheckOperands(context);
  if (context.ranked(0) && context.ranked(1) && context.ranked(2)) {
    const Dims &x = context.shape(0), &indices = context.shape(1), &updates = context.shape(2);
    const bool has_length = !indices.empty() && indices.back().known();
    bool fits = !indices.empty() && (!has_length || indices.back().value() <= context.rank(0));
    if (fits && has_length) {
      Dims expected(indices.begin(), indices.end() - 1);
      expected.insert(expected.end(), x.begin() + indices.back().value(), x.end());
      fits = expected.size() == updates.size();
      for (size_t i = 0; fits && i < expected.size(); ++i) fits = !Differ(expected[i], updates[i]);
    }
    if (!fits) {
      context.Fail("cannot scatter {} into {} by index vectors {}", context.Print(updates),
                   context.Print(x), context.Print(indices));
    }
  }
  SetLikeInput(context);
}

template <typename T, typename Targets>
void ReduceComplex(const Tensor& updates, Tensor& y, int64_t count, Fn reduction,
                   Targets&& targets) {
  using C = std::complex<T>;
  for (int64_t i = 0; i < count; ++i) {
    C& target = y.data<C>()[targets(i)];
    const C update = updates.data<C>()[i];
    target = reduction == Fn::kAdd ? target + update : target * update;
  }
}

// Writes update i to element targets(i) of a copy of x.
template <typename Targets>
void Scatter(ComputeContext& context, int64_t count, Targets&& targets) {
  const Tensor &x = context.input(0), &updates = context.input(2);
  bool reduces;
  const Fn reduction = ReductionOf(context.attributes(), &reduces);
  Tensor y = Copy(x);
  if (!reduces) {
    CopyElements(updates, y, count,
                 [&](int64_t i) { return std::pair<int64_t, int64_t>(i, targets(i)); });
  } else if (x.dtype() == DType::kComplex64) {
    ReduceComplex<float>(updates, y, count, reduction, targets);
  } else if (x.dtype() == DType::kComplex128) {
    ReduceComplex<double>(updates, y, count, reduction, targets);
  } else {
    DispatchReal(x.dtype(), context.node().op->name, [&](auto tag) {
      using T = typename decltype(tag)::type;
      using C = ComputeType<T>;
      const T* from = updates.data<T>();
      T* to = y.data<T>();
      for (int64_t i = 0; i < count; ++i) {
        T& target = to[targets(i)];
        const C a = static_cast<C>(target), b = static_cast<C>(from[i]);
        switch (reduction) {
          case Fn::kAdd: target = FromSum<T>(ToSum(target) + ToSum(from[i])); break;
          case Fn::kMul: target = FromSum<T>(ToSum(target) * ToSum(from[i])); break;
          case Fn::kMax: target = static_cast<T>(a != a || a > b ? a : b); break;
          default: target = static_cast<T>(a != a || a < b ? a : b); break;
        }
      }
    });
  }
  context.Set(0, std::move(y));
}

void ComputeScatterElements(ComputeContext& context) {
  const Tensor &x = context.input(0), &indices = context.input(1);
  if (indices.size() == 0) return context.Set(0, x);
  const int64_t given = context.attributes().Int("axis");
  const int64_t axis = given < 0 ? given + x.rank() : given;
  const std::vector<int64_t> values =
      ReadIndices(indices, x.dims()[axis], "scatter_elements: index");
  std::vector<int64_t> strides = RowMajorStrides(x.dims());
  const int64_t step = strides[axis];
  strides[axis] = 0;
  Walk walk(indices.dims(), {strides});
  Scatter(context, indices.size(), [&](int64_t i) {
    const int64_t target = walk[0] + values[i] * step;
    walk.Next();
    return target;
  });
}

void ComputeScatterNd(ComputeContext& context) {
  const Tensor &x = context.input(0), &indices = context.input(1);
  const int64_t length = indices.dims().back();
  const std::vector<int64_t> vectors = ToInts(indices), strides = RowMajorStrides(x.dims());
  const int64_t inner = ProductOf(x.dims(), static_cast<size_t>(length), x.dims().size());
  const int64_t vector_count = ProductOf(indices.dims(), 0, indices.dims().size() - 1);
  std::vector<int64_t> offsets;
  for (int64_t i = 0; i < vector_count; ++i) {
    int64_t offset = 0;
    for (int64_t k = 0; k < length; ++k) {
      const int64_t size = x.dims()[k], index = vectors[i * length + k];
      if (index < -size || index >= size) {
        Fail(ErrorCode::kInvalidArgument, "scatter_nd: index {} is outside [{},{}] of axis {}",
             index, -size, size - 1, k);
      }
      offset += (index < 0 ? index + size : index) * strides[k];
    }
    offsets.push_back(offset);
  }
  Scatter(context, vector_count * inner, [&](int64_t i) { return offsets[i / inner] + i % inner; });
}

}  // namespace

const CoreOp scatter_elements = {.name = "scatter_elements",
                                 .inputs = "ttt",
                                 .infer = InferScatterElements,
                                 .reference = ComputeScatterElements};
const CoreOp scatter_nd = {
    .name = "scatter_nd", .inputs = "ttt", .infer = InferScatterNd, .reference = ComputeScatterNd};

}  // namespace sardonyx::core
