#pragma once
// Making, reading and comparing tensors.

#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "sardonyx/tensor.hpp"

namespace sardonyx {

// Product of dimensions; throws kInvalidArgument for a negative one or when it exceeds 2^62.
int64_t ElementCount(std::span<const int64_t> dims);

// "[2,3,224]".
std::string PrintDims(std::span<const int64_t> dims);

// Row-major strides in elements.
std::vector<int64_t> RowMajorStrides(std::span<const int64_t> dims);

template <typename T>
Tensor MakeScalar(T value) {
  Tensor result(kDTypeOf<T>, {});
  result.data<T>()[0] = std::move(value);
  return result;
}

// Rank 1.
template <typename T>
Tensor MakeVector(const std::vector<T>& values) {
  Tensor result(kDTypeOf<T>, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) result.data<T>()[i] = values[i];
  return result;
}

// A tensor of `dims` whose every element is `value` rounded to a real, bool or complex type.
Tensor MakeFilled(DType dtype, std::vector<int64_t> dims, double value);

// Elements of an integer or bool tensor as int64; throws kInvalidArgument for other types.
std::vector<int64_t> ToInts(const Tensor& tensor);
// Elements of any real tensor (8 bits and more) as double.
std::vector<double> ToDoubles(const Tensor& tensor);

// Same type, dimensions and bytes (string elements compared by content).
bool BitEqual(const Tensor& a, const Tensor& b);

// The tensor itself, or a copy if its memory is not aligned for its element type, as that of large
// weights in a model file may be.
Tensor Aligned(const Tensor& tensor);
bool IsAligned(const Tensor& tensor);

// A deep copy.
Tensor Copy(const Tensor& tensor);

}  // namespace sardonyx
