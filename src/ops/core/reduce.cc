// Reductions over axes. An empty set has the sum 0, the product 1, the logarithm of a sum of
// nothing is -infinity, and minimum and maximum are the type's bounds, as in the ONNX standard; its
// mean is NaN.

#include <cmath>
#include <limits>

#include "ops/core/core.h"
#include "ops/core/modest.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

enum class Kind {
  kSum,
  kMean,
  kMax,
  kMin,
  kProd,
  kL1,
  kL2,
  kSumSquare,
  kLogSum,
  kLogSumExp,
  kByteSum,
  kRange
};

constexpr std::string_view kKinds[] = {"sum",     "mean",        "max",      "min",
                                       "prod",    "l1",          "l2",       "sum_square",
                                       "log_sum", "log_sum_exp", "byte_sum", "range"};

Kind KindOf(const Attributes& attributes) {
  const std::string_view name = attributes.String("kind");
  for (size_t i = 0; i < std::size(kKinds); ++i) {
    if (kKinds[i] == name) return static_cast<Kind>(i);
  }
  Fail(ErrorCode::kInternal, "reduce: there is no kind '{}'", name);
}

bool AllAxes(const Attributes& attributes) { return attributes.Find("axes") == nullptr; }

// Which axes are reduced.
template <typename Context>
std::vector<bool> ReducedAxes(Context& context, int rank) {
  std::vector<bool> reduced(rank, AllAxes(context.attributes()));
  for (int64_t axis : context.attributes().Ints("axes")) {
    if (axis < -rank || axis >= rank) {
      Fail(ErrorCode::kInvalidModel, "cannot reduce axis {} of a tensor of rank {}", axis, rank);
    }
    reduced[axis < 0 ? axis + rank : axis] = true;
  }
  return reduced;
}

void PropagateElements(InferContext& context, Kind kind) {
  const Dims* elements = context.elements(0);
  if (elements == nullptr || context.rank(0) != 1) return;
  if (!AllAxes(context.attributes()) && context.attributes().Ints("axes").empty()) return;
  SymbolTable& symbols = context.symbols();
  if (elements->empty() && kind != Kind::kSum && kind != Kind::kProd) return;
  Dim result = kind == Kind::kProd ? Dim(1) : kind == Kind::kSum ? Dim(0) : elements->front();
  for (Dim element : *elements) {
    const bool adds = kind == Kind::kSum || kind == Kind::kProd;
    if (adds && (!IsModest(result) || !IsModest(element))) return;
    switch (kind) {
      case Kind::kSum: result = symbols.Add(result, element); break;
      case Kind::kProd: result = symbols.Mul(result, element); break;
      case Kind::kMin: result = symbols.Min(result, element); break;
      case Kind::kMax: result = symbols.Max(result, element); break;
      default: return;
    }
  }
  const bool wraps = context.dtype(0) == DType::kInt32 && result.known() &&
                     result.value() != static_cast<int32_t>(result.value());
  if (!wraps) context.SetElements(0, {result});
}

// The sum of bytes is of int32, all others of the type that is reduced.
DType ResultType(Kind kind, DType type) {
  if (kind != Kind::kByteSum) return type;
  if (IsByte(type)) return DType::kInt32;
  Fail(ErrorCode::kInvalidModel, "reduce: the elements of a byte_sum are {}", Name(type));
}

void InferReduce(InferContext& context) {
  const Kind kind = KindOf(context.attributes());
  const DType type = ResultType(kind, context.dtype(0));
  const bool keep = context.attributes().Int("keepdims", 1) != 0;
  if ((kind == Kind::kRange) != (context.output_count() == 2)) {
    context.Fail("reduce: a range alone has two results, the least and the greatest element");
  }
  if (kind == Kind::kRange) {
    if (keep || !AllAxes(context.attributes())) context.Fail("reduce: a range is of all elements");
    context.Set(0, type, Dims{});
    return context.Set(1, type, Dims{});
  }
  if (!context.ranked(0)) {
    // All axes without keepdims leave a scalar, whatever the rank.
    if (AllAxes(context.attributes()) && !keep) return context.Set(0, type, Dims{});
    return context.Set(0, type, {});
  }
  const std::vector<bool> reduced = ReducedAxes(context, context.rank(0));
  Dims shape;
  for (size_t i = 0; i < reduced.size(); ++i) {
    if (!reduced[i]) {
      shape.push_back(context.shape(0)[i]);
    } else if (keep) {
      shape.push_back(1);
    }
  }
  context.Set(0, type, std::move(shape));
  if (context.dtype(0) != DType::kBool) PropagateElements(context, kind);
}

// Values of one output's set are fed in order; Finish gives the result.
template <typename T>
class Reducer {
 public:
  using C = ComputeType<T>;
  using Sum = SumType<T>;
  explicit Reducer(Kind kind) : kind_(kind) {
    if (kind == Kind::kProd) sum_ = 1;
    if (kind == Kind::kMax) extreme_ = LeastOf<C>();
    if (kind == Kind::kMin) extreme_ = GreatestOf<C>();
    if (kind == Kind::kLogSumExp) largest_ = -std::numeric_limits<double>::infinity();
  }

  void Add(T element) {
    const C value = static_cast<C>(element);
    const Sum x = ToSum(element);
    ++count_;
    switch (kind_) {
      case Kind::kProd: sum_ *= x; break;
      case Kind::kMax: extreme_ = value > extreme_ || value != value ? value : extreme_; break;
      case Kind::kMin: extreme_ = value < extreme_ || value != value ? value : extreme_; break;
      case Kind::kL1: sum_ += value < C{0} ? Sum{0} - x : x; break;
      case Kind::kL2:
      case Kind::kSumSquare: sum_ += x * x; break;
      case Kind::kLogSumExp: AddExp(static_cast<double>(value)); break;
      default: sum_ += x; break;
    }
  }

  T Finish() const {
    switch (kind_) {
      case Kind::kMax:
      case Kind::kMin: return static_cast<T>(extreme_);
      case Kind::kMean:
        if constexpr (kIsReal<T>) {
          return static_cast<T>(sum_ / static_cast<double>(count_));
        } else {
          return count_ == 0 ? T{0} : static_cast<T>(SignedSum() / Signed(count_));
        }
      case Kind::kL2: return static_cast<T>(std::sqrt(static_cast<double>(sum_)));
      case Kind::kLogSum: return FromReal(std::log(static_cast<double>(SignedSum())));
      case Kind::kLogSumExp:
        return FromReal(std::isfinite(largest_) ? largest_ + std::log(scaled_) : largest_);
      default: return FromSum<T>(sum_);
    }
  }

 private:
  using Signed = std::conditional_t<kIsReal<T>, double,
                                    std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
  Signed SignedSum() const { return static_cast<Signed>(sum_); }
  static T FromReal(double value) {
    T result;
    ConvertElements(DType::kFloat64, &value, kDTypeOf<T>, &result, 1, false);
    return result;
  }
  // The running sum is scaled by exp(-largest so far), so nothing overflows.
  void AddExp(double value) {
    if (std::isnan(value) || std::isnan(largest_)) {
      largest_ = std::numeric_limits<double>::quiet_NaN();
    } else if (value > largest_) {
      scaled_ = std::isfinite(largest_) ? scaled_ * std::exp(largest_ - value) + 1 : 1;
      largest_ = value;
    } else if (std::isfinite(largest_)) {
      scaled_ += std::exp(value - largest_);
    }
  }

  Kind kind_;
  int64_t count_ = 0;
  Sum sum_ = 0;
  C extreme_{};
  double largest_ = 0, scaled_ = 0;
};

void ComputeKind(ComputeContext& context, Kind kind, size_t output) {
  const Tensor& x = context.input(0);
  Tensor& y = context.Allocate(output);
  const std::vector<bool> reduced = ReducedAxes(context, x.rank());
  // Kept axes outside, reduced ones inside.
  const std::vector<int64_t> strides = RowMajorStrides(x.dims());
  std::vector<int64_t> kept_dims, kept_strides, reduced_dims, reduced_strides;
  for (int i = 0; i < x.rank(); ++i) {
    (reduced[i] ? reduced_dims : kept_dims).push_back(x.dims()[i]);
    (reduced[i] ? reduced_strides : kept_strides).push_back(strides[i]);
  }
  const auto reduce_as = [&](auto from, auto to) {
    using T = typename decltype(from)::type;
    using Y = typename decltype(to)::type;
    Y* out = y.data<Y>();
    for (Walk kept(kept_dims, {kept_strides}); !kept.done(); kept.Next()) {
      Reducer<Y> reducer(kind);
      for (Walk set(reduced_dims, {reduced_strides}); !set.done(); set.Next()) {
        reducer.Add(static_cast<Y>(x.data<T>()[kept[0] + set[0]]));
      }
      *out++ = reducer.Finish();
    }
  };
  if (kind == Kind::kByteSum) {
    return x.dtype() == DType::kInt8 ? reduce_as(TypeTag<int8_t>{}, TypeTag<int32_t>{})
                                     : reduce_as(TypeTag<uint8_t>{}, TypeTag<int32_t>{});
  }
  DispatchReal(x.dtype(), "reduce", [&](auto tag) { reduce_as(tag, tag); });
}

void ComputeReduce(ComputeContext& context) {
  const Kind kind = KindOf(context.attributes());
  if (kind != Kind::kRange) return ComputeKind(context, kind, 0);
  ComputeKind(context, Kind::kMin, 0);
  ComputeKind(context, Kind::kMax, 1);
}

}  // namespace

const CoreOp reduce = {.name = "reduce",
                       .inputs = "t",
                       .outputs = {1, 2},
                       .infer = InferReduce,
                       .reference = ComputeReduce};

}  // namespace sardonyx::core
