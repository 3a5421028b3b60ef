#include "ops/core/products.h"

#include <algorithm>

#include "base/cast.h"
#include "ops/core/interpret.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

// Bytes of b's rows that stay in the cache while rows of a pass by.
constexpr int64_t kPanelBytes = 1 << 17;

// Largest magnitude of integers of at most 32 bits.
int64_t Magnitude(const Tensor& x) {
  return DispatchReal(x.dtype(), "product", [&](auto tag) -> int64_t {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      const T* values = x.data<T>();
      T low = 0, high = 0;
      for (int64_t i = 0; i < x.size(); ++i) {
        low = std::min(low, values[i]);
        high = std::max(high, values[i]);
      }
      return std::max(-static_cast<int64_t>(low), static_cast<int64_t>(high));
    }
    return 0;
  });
}

template <typename T>
int32_t Dot(const T* a, const T* b, int64_t k)
  requires(sizeof(T) == 2)
{
  int32_t sum = 0;
  for (int64_t p = 0; p < k; ++p) sum += int32_t{a[p]} * int32_t{b[p]};
  return sum;
}

template <typename T>
T Dot(const T* a, const T* b, int64_t k)
  requires(std::is_unsigned_v<T>)
{
  T sum = 0;
  for (int64_t p = 0; p < k; ++p) sum += a[p] * b[p];
  return sum;
}

// Several sums at once, for additions of floats stay in order.
template <typename T>
double Dot(const T* a, const T* b, int64_t k)
  requires(std::is_floating_point_v<T>)
{
  constexpr int64_t kLanes = 8;
  double sums[kLanes] = {};
  int64_t p = 0;
  for (; p + kLanes <= k; p += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += static_cast<double>(a[p + lane]) * static_cast<double>(b[p + lane]);
    }
  }
  for (; p < k; ++p) sums[0] += static_cast<double>(a[p]) * static_cast<double>(b[p]);
  for (int64_t lane = 1; lane < kLanes; ++lane) sums[0] += sums[lane];
  return sums[0];
}

template <typename T, typename Sum>
void Multiply(const void* left, const void* right, int64_t m, int64_t n, int64_t k, void* result,
              int64_t y_stride) {
  const T *a = static_cast<const T*>(left), *b = static_cast<const T*>(right);
  Sum* y = static_cast<Sum*>(result);
  const int64_t row_bytes = std::max<int64_t>(k, 1) * static_cast<int64_t>(sizeof(T));
  const int64_t panel = std::max<int64_t>(kPanelBytes / row_bytes, 1);
  for (int64_t begin = 0; begin < n; begin += panel) {
    const int64_t end = std::min(n, begin + panel);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = begin; j < end; ++j) y[i * y_stride + j] = Dot(a + i * k, b + j * k, k);
    }
  }
}

template <typename T>
void TransposeAs(const void* from, int64_t rows, int64_t columns, void* to) {
  constexpr int64_t kTile = 16;
  const T* a = static_cast<const T*>(from);
  T* b = static_cast<T*>(to);
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      for (int64_t r = r0; r < std::min(rows, r0 + kTile); ++r) {
        for (int64_t c = c0; c < std::min(columns, c0 + kTile); ++c) {
          b[c * rows + r] = a[r * columns + c];
        }
      }
    }
  }
}

}  // namespace

DType ProductType(const Tensor& a, const Tensor& b, int64_t length) {
  const DType type = a.dtype();
  if (type == DType::kFloat64) return DType::kFloat64;
  if (IsFloat(type)) return DType::kFloat32;
  if (BitWidth(type) > 32) return DType::kInt64;
  const int64_t largest_a = Magnitude(a), largest_b = Magnitude(b);
  constexpr int64_t kMost16 = (int64_t{1} << 15) - 1, kMost32 = (int64_t{1} << 31) - 1;
  const bool small = largest_a <= kMost16 && largest_b <= kMost16;
  // Both factors below 2^15: only the number of products can overflow.
  const int64_t product = small ? std::max<int64_t>(largest_a * largest_b, 1) : 0;
  return small && length <= kMost32 / product ? DType::kInt16 : DType::kInt32;
}

DType SumTypeOf(DType product_type) {
  switch (product_type) {
    case DType::kInt16: return DType::kInt32;
    case DType::kInt32: return DType::kUInt32;
    case DType::kInt64: return DType::kUInt64;
    default: return DType::kFloat64;
  }
}

bool IsNarrowed(DType type, DType stored) { return type == DType::kFloat32 && IsHalf(stored); }

Tensor ConvertedTo(const Tensor& x, DType type) {
  if (x.dtype() == type) return x;
  Tensor y(type, x.dims());
  ConvertElements(x.dtype(), x.raw(), type, y.raw(), x.size(), true);
  return y;
}

void TransposeMatrix(const void* a, int64_t rows, int64_t columns, int64_t bytes, void* b) {
  switch (bytes) {
    case 2: return TransposeAs<uint16_t>(a, rows, columns, b);
    case 4: return TransposeAs<uint32_t>(a, rows, columns, b);
    default: return TransposeAs<uint64_t>(a, rows, columns, b);
  }
}

void MultiplyRows(DType type, const void* a, const void* b, int64_t m, int64_t n, int64_t k,
                  void* y, int64_t y_stride) {
  switch (type) {
    case DType::kInt16: return Multiply<int16_t, int32_t>(a, b, m, n, k, y, y_stride);
    case DType::kInt32: return Multiply<uint32_t, uint32_t>(a, b, m, n, k, y, y_stride);
    case DType::kInt64: return Multiply<uint64_t, uint64_t>(a, b, m, n, k, y, y_stride);
    case DType::kFloat32: return Multiply<float, double>(a, b, m, n, k, y, y_stride);
    default: return Multiply<double, double>(a, b, m, n, k, y, y_stride);
  }
}

void CheckIntegerOperands(InferContext& context) {
  if (!context.has(0) || !context.has(1)) context.Fail("an integer product takes two operands");
  for (size_t i = 0; i < 2; ++i) {
    const DType type = context.dtype(i);
    if (type != DType::kInt8 && type != DType::kUInt8) {
      context.Fail("operand {} of an integer product is {}, not int8 or uint8", i, Name(type));
    }
    if (!context.has(i + 2)) continue;
    if (context.dtype(i + 2) != type) {
      context.Fail("the zero point of operand {} is {}, not {}", i, Name(context.dtype(i + 2)),
                   Name(type));
    }
    if (!context.ranked(i) || !context.ranked(i + 2)) continue;
    if (context.rank(i + 2) > context.rank(i)) {
      context.Fail("a zero point {} does not broadcast to {}", context.Print(context.shape(i + 2)),
                   context.Print(context.shape(i)));
    }
    context.Broadcast(context.shape(i + 2), context.shape(i));
  }
}

Tensor CenteredInput(ComputeContext& context, size_t operand) {
  const Tensor& x = context.input(operand);
  Expression center;
  center.inputs = {x.dtype()};
  center.code = {{Fn::kCast, DType::kInt32, {0}}};
  std::vector<Tensor> operands{x};
  if (context.has(operand + 2)) {
    center.inputs.push_back(x.dtype());
    center.code = {{Fn::kCast, DType::kInt32, {0}},
                   {Fn::kCast, DType::kInt32, {1}},
                   {Fn::kSub, DType::kInt32, {2, 3}}};
    operands.push_back(context.input(operand + 2));
  }
  Tensor y(DType::kInt32, x.dims());
  Interpret(center, operands, y);
  return y;
}

Dims Permuted(InferContext& context, Dims dims, std::string_view attribute) {
  const auto& perm = context.attributes().Ints(attribute);
  if (perm.empty()) return dims;
  if (perm.size() != dims.size()) {
    context.Fail("{} has {} axes for a tensor of rank {}", attribute, perm.size(), dims.size());
  }
  Dims result;
  for (int64_t axis : perm)
    result.push_back(dims[context.Axis(axis, static_cast<int>(dims.size()))]);
  return result;
}

Tensor Permute(const Tensor& x, const std::vector<int64_t>& perm) {
  if (perm.empty()) return x;
  const std::vector<int64_t> own = RowMajorStrides(x.dims());
  std::vector<int64_t> dims, strides;
  for (int64_t axis : perm) {
    dims.push_back(x.dims()[axis]);
    strides.push_back(own[axis]);
  }
  Tensor y(x.dtype(), dims);
  const int64_t width = ByteSize(x.dtype(), 1);
  char* out = static_cast<char*>(y.raw());
  for (Walk walk(dims, {strides}); !walk.done(); walk.Next(), out += width) {
    std::memcpy(out, static_cast<const char*>(x.raw()) + walk[0] * width, width);
  }
  return y;
}

}  // namespace sardonyx::core
