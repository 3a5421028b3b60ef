#pragma once
// What flows through a model: dense tensors, and the other kinds of value of the standard.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "sardonyx/dtype.hpp"
#include "sardonyx/export.hpp"

namespace sardonyx {

// A dense, row-major array: element type, dimensions and shared memory. Copies share the memory.
// Elements below a byte are packed as in ONNX's raw_data (low bits first); strings are std::string.
class SARDONYX_API Tensor {
 public:
  Tensor() = default;
  // Allocates memory aligned to 64 bytes; numbers are left uninitialised, strings are empty.
  // Throws kInvalidArgument for a negative dimension or a size that overflows, kOutOfMemory.
  Tensor(DType dtype, std::vector<int64_t> dims);
  // Refers to memory that `owner` keeps alive (null: the caller does). `data` must hold the
  // elements; alignment to the element is required, to 64 bytes is faster.
  Tensor(DType dtype, std::vector<int64_t> dims, void* data, std::shared_ptr<const void> owner);

  bool defined() const { return dtype_ != DType::kUndefined; }
  DType dtype() const { return dtype_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t size() const { return size_; }  // elements
  int64_t bytes() const;

  void* raw() const { return data_; }
  template <typename T>
  T* data() {
    return static_cast<T*>(data_);
  }
  template <typename T>
  const T* data() const {
    return static_cast<const T*>(data_);
  }
  const std::shared_ptr<const void>& owner() const { return owner_; }

  // The same memory with other dimensions of the same product.
  Tensor Reshaped(std::vector<int64_t> dims) const;

 private:
  DType dtype_ = DType::kUndefined;
  std::vector<int64_t> dims_;
  int64_t size_ = 0;
  void* data_ = nullptr;
  std::shared_ptr<const void> owner_;
};

struct Datum;
using Sequence = std::vector<Datum>;
// Keys are an int64 or string tensor of rank 1, values one datum a key.
struct Map {
  Tensor keys;
  std::vector<Datum> values;
};

// One value of a model at run time: nothing (an empty optional), a tensor, a sequence or a map.
struct Datum {
  std::variant<std::monostate, Tensor, std::shared_ptr<const Sequence>, std::shared_ptr<const Map>>
      value;

  Datum() = default;
  Datum(Tensor tensor) : value(std::move(tensor)) {}  // NOLINT: implicit as in a variant
  Datum(std::shared_ptr<const Sequence> sequence) : value(std::move(sequence)) {}  // NOLINT
  Datum(std::shared_ptr<const Map> map) : value(std::move(map)) {}                 // NOLINT

  bool has_value() const { return value.index() != 0; }
  const Tensor* tensor() const { return std::get_if<Tensor>(&value); }
  const Sequence* sequence() const {
    auto* pointer = std::get_if<std::shared_ptr<const Sequence>>(&value);
    return pointer != nullptr ? pointer->get() : nullptr;
  }
  const Map* map() const {
    auto* pointer = std::get_if<std::shared_ptr<const Map>>(&value);
    return pointer != nullptr ? pointer->get() : nullptr;
  }
};

}  // namespace sardonyx
