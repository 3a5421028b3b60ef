// Where each element of a tensor stands in a sorted list of keys.

#include <algorithm>
#include <cmath>

#include "ops/core/core.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

void InferLookup(InferContext& context) {
  if (context.input_count() != 2) context.Fail("lookup takes an input and keys");
  if (context.dtype(0) != context.dtype(1)) {
    context.Fail("the input is {}, but the keys are {}", Name(context.dtype(0)),
                 Name(context.dtype(1)));
  }
  if (!context.ranked(1) || context.rank(1) != 1) context.Fail("the keys of lookup are a vector");
  context.Set(0, DType::kInt64, context.input(0).shape);
}

// NaN stands behind all numbers and equals itself.
template <typename T>
bool KeyLess(const T& a, const T& b) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(b) ? !std::isnan(a) : a < b;
  } else {
    return a < b;
  }
}

template <typename T>
void FindAll(const Tensor& x, const Tensor& keys, int64_t* y) {
  const T *first = keys.data<T>(), *last = first + keys.size();
  for (int64_t i = 0; i < x.size(); ++i) {
    const T& key = x.data<T>()[i];
    const T* found = std::lower_bound(first, last, key, KeyLess<T>);
    y[i] = found != last && !KeyLess(key, *found) ? found - first : keys.size();
  }
}

void ComputeLookup(ComputeContext& context) {
  const Tensor &x = context.input(0), &keys = context.input(1);
  int64_t* y = context.Allocate(0).data<int64_t>();
  switch (x.dtype()) {
    case DType::kString: FindAll<std::string>(x, keys, y); break;
    case DType::kFloat32: FindAll<float>(x, keys, y); break;
    case DType::kFloat64: FindAll<double>(x, keys, y); break;
    case DType::kInt16: FindAll<int16_t>(x, keys, y); break;
    case DType::kInt32: FindAll<int32_t>(x, keys, y); break;
    case DType::kInt64: FindAll<int64_t>(x, keys, y); break;
    default: Fail(ErrorCode::kUnsupported, "lookup: keys of type {}", Name(x.dtype()));
  }
  if (context.attributes().Int("required") == 0) return;
  const int64_t absent = std::find(y, y + x.size(), keys.size()) - y;
  if (absent < x.size()) {
    Fail(ErrorCode::kInvalidArgument, "element {} of the input is none of the {} categories",
         absent, keys.size());
  }
}

}  // namespace

const CoreOp lookup = {
    .name = "lookup", .inputs = "tt", .infer = InferLookup, .reference = ComputeLookup};

}  // namespace sardonyx::core
