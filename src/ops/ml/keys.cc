#include "ops/ml/keys.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sardonyx::ops::ml {
namespace {

// Positions of the keys in ascending order, NaN last, one for each different key.
template <typename T>
std::vector<int64_t> Order(const Tensor& keys, Repeated repeated) {
  const T* key = keys.data<T>();
  const auto less = [key](int64_t a, int64_t b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(key[b])) return !std::isnan(key[a]);
    }
    return key[a] < key[b];
  };
  std::vector<int64_t> order(keys.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  // Of equal keys, the one that counts comes first.
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    if (less(a, b) || less(b, a)) return less(a, b);
    return repeated == Repeated::kLast ? a > b : a < b;
  });
  const auto same = [&](int64_t a, int64_t b) { return !less(a, b) && !less(b, a); };
  order.erase(std::unique(order.begin(), order.end(), same), order.end());
  return order;
}

std::vector<int64_t> OrderOf(const Tensor& keys, Repeated repeated) {
  switch (keys.dtype()) {
    case DType::kString: return Order<std::string>(keys, repeated);
    case DType::kFloat32: return Order<float>(keys, repeated);
    case DType::kFloat64: return Order<double>(keys, repeated);
    case DType::kInt16: return Order<int16_t>(keys, repeated);
    case DType::kInt32: return Order<int32_t>(keys, repeated);
    case DType::kInt64: return Order<int64_t>(keys, repeated);
    default: Fail(ErrorCode::kInvalidModel, "keys cannot be of type {}", Name(keys.dtype()));
  }
}

}  // namespace

Val Translate(Lowering& op, Val x, const Tensor& keys, Val values, Repeated repeated,
              bool required) {
  if (keys.rank() != 1)
    op.Fail("the keys must be a vector, not of shape {}", PrintDims(keys.dims()));
  if (x.dtype() != keys.dtype()) {
    op.Fail("the input is {}, but the keys are {}", Name(x.dtype()), Name(keys.dtype()));
  }
  Builder& builder = op.builder();
  std::vector<int64_t> order = OrderOf(Aligned(keys), repeated);
  const Val sorted = Gather(builder.Constant(keys), builder.Ints(order), 0);
  order.push_back(keys.size());
  const Val found = builder.Make(core::lookup, {x, sorted}, {{"required", int64_t{required}}});
  if (!values) {
    const bool same = std::is_sorted(order.begin(), order.end()) &&
                      static_cast<int64_t>(order.size()) == keys.size() + 1;
    return same ? found : Gather(builder.Ints(order), found, 0);
  }
  return Gather(Gather(values, builder.Ints(order), 0), found, 0);
}

Tensor StringsOrInts(Lowering& op, std::string_view strings, std::string_view ints) {
  const bool has_strings = !op.attributes.Strings(strings).empty();
  if (has_strings == !op.Ints(ints).empty()) {
    op.Fail("give one of {} and {}, not {}", strings, ints, has_strings ? "both" : "none");
  }
  return has_strings ? MakeVector(op.attributes.Strings(strings)) : MakeVector(op.Ints(ints));
}

}  // namespace sardonyx::ops::ml
