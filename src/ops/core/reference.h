#pragma once
// What the reference computes of core operations share: walking index spaces, moving elements of
// any type, sums, and the epilogue convention.

#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/cast.h"
#include "ir/core_op.h"

namespace sardonyx::core {

// Walks the index space `dims` in row-major order; each of several operands has strides (elements
// a step) and an offset that follows. Of a space without axes: one position.
class Walk {
 public:
  using Strides = std::vector<int64_t>;
  Walk(std::vector<int64_t> dims, std::vector<Strides> strides);

  bool done() const { return done_; }
  int64_t operator[](size_t operand) const { return offsets_[operand]; }
  const std::vector<int64_t>& index() const { return index_; }
  void Next();

 private:
  std::vector<int64_t> dims_;
  std::vector<Strides> strides_;
  std::vector<int64_t> index_;
  std::vector<int64_t> offsets_;
  bool done_;
};

// Strides of an operand of `dims` as it is broadcast to `to`.
Walk::Strides BroadcastStrides(std::span<const int64_t> dims, std::span<const int64_t> to);

// Product of dims[begin, end).
int64_t ProductOf(std::span<const int64_t> dims, size_t begin, size_t end);

// Dims around an axis as [outer, size, inner].
struct AxisSplit {
  int64_t outer = 1, size = 1, inner = 1;
};
AxisSplit SplitAt(std::span<const int64_t> dims, int axis);

// Calls `positions(i)` -> {source, target} for i in [0, count) and copies these elements, whatever
// their type is; both tensors have the same. A negative source copies nothing.
template <typename Positions>
void CopyElements(const Tensor& from, Tensor& to, int64_t count, Positions&& positions) {
  const auto copy_as = [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* source = from.data<T>();
    T* target = to.data<T>();
    for (int64_t i = 0; i < count; ++i) {
      const std::pair<int64_t, int64_t> at = positions(i);
      if (at.first >= 0) target[at.second] = source[at.first];
    }
  };
  const int bits = BitWidth(from.dtype());
  if (from.dtype() == DType::kString) return copy_as(TypeTag<std::string>{});
  switch (bits) {
    case 8: return copy_as(TypeTag<uint8_t>{});
    case 16: return copy_as(TypeTag<uint16_t>{});
    case 32: return copy_as(TypeTag<uint32_t>{});
    case 64: return copy_as(TypeTag<uint64_t>{});
    case 128: return copy_as(TypeTag<std::array<uint64_t, 2>>{});
    default:
      for (int64_t i = 0; i < count; ++i) {
        const std::pair<int64_t, int64_t> at = positions(i);
        if (at.first >= 0) {
          WritePacked(to.raw(), bits, at.second, ReadPacked(from.raw(), bits, at.first));
        }
      }
  }
}

// Copies elements between strided ranges of two tensors of one type.
void CopyStrided(const Tensor& from, int64_t from_offset, Walk::Strides from_strides, Tensor& to,
                 int64_t to_offset, Walk::Strides to_strides, const std::vector<int64_t>& dims);

// Every element of `to` becomes element 0 of `value`, or zero (empty, false) if that is null.
void Fill(Tensor& to, const Tensor* value);

template <typename T>
inline constexpr bool kIsReal = !std::is_integral_v<T>;

// The type sums of T are kept in: double for floats; integers wrap around, modulo 2^64.
template <typename T>
using SumType = std::conditional_t<kIsReal<T>, double, uint64_t>;
template <typename T>
SumType<T> ToSum(T value) {
  return static_cast<SumType<T>>(static_cast<ComputeType<T>>(value));
}
template <typename T>
T FromSum(SumType<T> sum) {
  return static_cast<T>(sum);
}

// Bounds of a type: infinities where it has them.
template <typename C>
C LeastOf() {
  if constexpr (std::numeric_limits<C>::has_infinity) return -std::numeric_limits<C>::infinity();
  return std::numeric_limits<C>::lowest();
}
template <typename C>
C GreatestOf() {
  if constexpr (std::numeric_limits<C>::has_infinity) return std::numeric_limits<C>::infinity();
  return std::numeric_limits<C>::max();
}

// Elements of an integer tensor, with negative ones counted from `size`. Throws kInvalidArgument,
// naming `what`, for one outside [-size, size).
std::vector<int64_t> ReadIndices(const Tensor& indices, int64_t size, std::string_view what);

// Known sizes of a shape; false if one is symbolic.
bool KnownSizes(const Dims& dims, std::vector<int64_t>* sizes);

// The epilogue convention of matmul and the convolutions: attribute `epilogue` is an expression
// whose input 0 is the operation's own result and whose others are the node's inputs from `first`
// on, broadcast against the result. Without the attribute there are none.
void SetWithEpilogue(InferContext& context, DType dtype, std::optional<Dims> shape, size_t first);
void FinishWithEpilogue(ComputeContext& context, Tensor result, size_t first);

}  // namespace sardonyx::core
