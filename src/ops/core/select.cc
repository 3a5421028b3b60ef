// Operations that choose elements by their values or positions: nonzero, compress, one_hot, trilu.

#include <algorithm>

#include "ops/core/core.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

// Which elements are not zero (not empty), a byte each.
std::vector<uint8_t> NonzeroMask(const Tensor& x) {
  std::vector<uint8_t> mask(x.size());
  if (x.dtype() == DType::kString) {
    for (int64_t i = 0; i < x.size(); ++i) mask[i] = !x.data<std::string>()[i].empty();
    return mask;
  }
  const auto complex = [&](auto zero) {
    for (int64_t i = 0; i < x.size(); ++i) mask[i] = x.data<decltype(zero)>()[i] != zero;
  };
  if (x.dtype() == DType::kComplex64) return complex(std::complex<float>()), mask;
  if (x.dtype() == DType::kComplex128) return complex(std::complex<double>()), mask;
  DispatchReal(x.dtype(), "nonzero", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = x.data<T>();
    for (int64_t i = 0; i < x.size(); ++i) {
      mask[i] = static_cast<ComputeType<T>>(from[i]) != ComputeType<T>{0};
    }
  });
  return mask;
}

void InferNonzero(InferContext& context) {
  SymbolTable& symbols = context.symbols();
  const Dim rank = context.ranked(0) ? Dim(context.rank(0)) : symbols.Fresh();
  context.Set(0, DType::kInt64, Dims{rank, symbols.Fresh()});
}

void ComputeNonzero(ComputeContext& context) {
  const Tensor& x = context.input(0);
  const std::vector<uint8_t> mask = NonzeroMask(x);
  const int64_t count = std::count(mask.begin(), mask.end(), uint8_t{1});
  int64_t* y = context.Allocate(0, DType::kInt64, {x.rank(), count}).data<int64_t>();
  if (count == 0 || x.rank() == 0) return;
  // The places of a row of the last axis are written together, the other axes' index beside them.
  const int outer = x.rank() - 1;
  const int64_t row = x.dims().back();
  int64_t* last = y + outer * count;
  int64_t column = 0, begin = 0;
  for (Walk walk({x.dims().begin(), x.dims().end() - 1}, {}); !walk.done();
       walk.Next(), begin += row) {
    const int64_t first = column;
    for (int64_t j = 0; j < row; ++j) {
      if (column < count) last[column] = j;
      column += mask[begin + j];
    }
    for (int axis = 0; axis < outer; ++axis) {
      std::fill(y + axis * count + first, y + axis * count + column, walk.index()[axis]);
    }
  }
}

void InferCompress(InferContext& context) {
  if (context.input_count() != 2) context.Fail("compress takes an input and a condition");
  if (context.dtype(1) != DType::kBool) {
    context.Fail("the condition of compress is bool, not {}", Name(context.dtype(1)));
  }
  if (context.ranked(1) && context.rank(1) != 1) {
    context.Fail("the condition of compress is a vector, not {}", context.Print(context.shape(1)));
  }
  const Dim count = context.symbols().Fresh();
  if (context.attributes().Find("axis") == nullptr)
    return context.Set(0, context.dtype(0), Dims{count});
  if (!context.ranked(0)) return context.Set(0, context.dtype(0), {});
  Dims shape = context.shape(0);
  shape[context.Axis(context.attributes().Int("axis"), context.rank(0))] = count;
  context.Set(0, context.dtype(0), std::move(shape));
}

void ComputeCompress(ComputeContext& context) {
  const Tensor& condition = context.input(1);
  const bool flat = context.attributes().Find("axis") == nullptr;
  const Tensor x = flat ? context.input(0).Reshaped({context.input(0).size()}) : context.input(0);
  const int64_t given = flat ? 0 : context.attributes().Int("axis");
  const int axis = static_cast<int>(given < 0 ? given + x.rank() : given);
  const AxisSplit split = SplitAt(x.dims(), axis);
  std::vector<int64_t> kept;
  const bool* chosen = condition.data<bool>();
  for (int64_t i = 0; i < condition.size(); ++i) {
    if (!chosen[i]) continue;
    if (i >= split.size) {
      Fail(ErrorCode::kInvalidArgument, "compress: the condition has {} elements, the axis {}",
           condition.size(), split.size);
    }
    kept.push_back(i);
  }
  std::vector<int64_t> dims = x.dims();
  dims[axis] = static_cast<int64_t>(kept.size());
  Tensor& y = context.Allocate(0, x.dtype(), dims);
  const int64_t row = dims[axis] * split.inner;
  CopyElements(x, y, y.size(), [&](int64_t i) {
    const int64_t index = kept[i % row / split.inner];
    return std::pair((i / row * split.size + index) * split.inner + i % split.inner, i);
  });
}

void InferOneHot(InferContext& context) {
  if (context.input_count() != 3) context.Fail("one_hot takes indices, depth and values");
  if (context.ranked(2) && !(context.shape(2) == Dims{Dim(2)}) &&
      (context.rank(2) != 1 || context.shape(2)[0].known())) {
    context.Fail("one_hot takes the values [off, on], not {}", context.Print(context.shape(2)));
  }
  if (!context.ranked(0)) return context.Set(0, context.dtype(2), {});
  Dims shape = context.shape(0);
  const int axis = context.Axis(context.attributes().Int("axis", -1), context.rank(0) + 1);
  Dim depth = context.symbols().Fresh();
  if (const Dims* elements = context.elements(1)) {
    if (elements->size() != 1) context.Fail("depth of one_hot has {} elements", elements->size());
    depth = elements->front();
  } else if (context.constant(1) != nullptr && context.constant(1)->size() == 1) {
    depth = static_cast<int64_t>(ToDoubles(*context.constant(1))[0]);
  }
  if (depth.known() && depth.value() < 0)
    context.Fail("one_hot with a negative depth {}", depth.value());
  shape.insert(shape.begin() + axis, depth);
  context.Set(0, context.dtype(2), std::move(shape));
}

void ComputeOneHot(ComputeContext& context) {
  const Tensor &indices = context.input(0), &values = context.input(2);
  Tensor& y = context.Allocate(0);
  const int64_t given = context.attributes().Int("axis", -1);
  const AxisSplit split = SplitAt(y.dims(), static_cast<int>(given < 0 ? given + y.rank() : given));
  const std::vector<double> positions = ToDoubles(indices);
  CopyElements(values, y, y.size(), [&](int64_t i) {
    const int64_t at = i / split.inner % split.size;
    double index = positions[i / (split.inner * split.size) * split.inner + i % split.inner];
    if (index < 0) index += static_cast<double>(split.size);
    return std::pair<int64_t, int64_t>(static_cast<double>(at) == index ? 1 : 0, i);
  });
}

void InferTrilu(InferContext& context) {
  if (!context.ranked(0)) return context.Set(0, context.dtype(0), {});
  if (context.rank(0) < 2) {
    context.Fail("trilu takes matrices, not {}", context.Print(context.shape(0)));
  }
  if (context.has(1) && context.input(1).static_shape()) {
    for (Dim dim : context.shape(1)) {
      if (!(dim == 1)) context.Fail("k of trilu is one number, not {}", dim.value());
    }
  }
  context.Set(0, context.dtype(0), context.shape(0));
}

void ComputeTrilu(ComputeContext& context) {
  const Tensor& x = context.input(0);
  Tensor& y = context.Allocate(0);
  const bool upper = context.attributes().Int("upper", 1) != 0;
  const int64_t k = context.has(1) ? ToInts(context.input(1))[0] : 0;
  const int64_t rows = x.dims()[x.rank() - 2], columns = x.dims().back();
  // Beyond the matrix, k changes nothing; bounded, it cannot overflow.
  const int64_t diagonal = std::clamp(k, -rows - 1, columns + 1);
  Fill(y, nullptr);
  CopyElements(x, y, x.size(), [&](int64_t i) {
    const int64_t row = i / columns % rows, column = i % columns;
    const bool kept = upper ? column >= row + diagonal : column <= row + diagonal;
    return std::pair<int64_t, int64_t>(kept ? i : -1, i);
  });
}

}  // namespace

const CoreOp nonzero = {
    .name = "nonzero", .inputs = "t", .infer = InferNonzero, .reference = ComputeNonzero};
const CoreOp compress = {
    .name = "compress", .inputs = "tt", .infer = InferCompress, .reference = ComputeCompress};
const CoreOp one_hot = {
    .name = "one_hot", .inputs = "ttt", .infer = InferOneHot, .reference = ComputeOneHot};
const CoreOp trilu = {
    .name = "trilu", .inputs = "tt?", .infer = InferTrilu, .reference = ComputeTrilu};

}  // namespace sardonyx::core
