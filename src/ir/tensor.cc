#include "ir/tensor.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/huge_page.h"
#include "base/out_of_memory.h"

namespace sardonyx {
namespace {

constexpr size_t kAlignment = 64;

// Large memory lies in huge pages: activations and packed weights are walked at strides that miss
// the translation buffer at every line otherwise.
void* AllocateBytes(size_t bytes) {
  const size_t huge = HugePagesFor(bytes), alignment = huge == 0 ? kAlignment : kHugePage;
  void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
#if defined(MADV_HUGEPAGE)
  if (memory != nullptr && huge > 0) madvise(memory, huge, MADV_HUGEPAGE);
#endif
  return memory;
}

std::shared_ptr<const void> Allocate(DType dtype, int64_t count, void** data) {
  if (dtype == DType::kString) {
    auto strings = NamingMemory(fmt::format("{} strings", count),
                                [&] { return std::make_shared<std::vector<std::string>>(count); });
    *data = strings->data();
    return strings;
  }
  const size_t bytes = static_cast<size_t>(std::max<int64_t>(ByteSize(dtype, count), 1));
  void* memory = AllocateBytes(bytes);
  if (memory == nullptr) Fail(ErrorCode::kOutOfMemory, "cannot allocate {} bytes", bytes);
  *data = memory;
  return std::shared_ptr<const void>(memory,
                                     [](const void* p) { std::free(const_cast<void*>(p)); });
}

}  // namespace

int64_t ElementCount(std::span<const int64_t> dims) {
  int64_t count = 1;
  bool empty = false;
  for (int64_t dim : dims) {
    if (dim < 0) {
      Fail(ErrorCode::kInvalidArgument, "the shape {} has a negative dimension", PrintDims(dims));
    }
    if (dim == 0) empty = true;
    if (dim > 1 && __builtin_mul_overflow(count, dim, &count)) count = -1;
    if (count < 0 || count > (int64_t{1} << 56)) {
      if (empty) break;
      // A later zero still makes the product zero.
      if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return 0;
      Fail(ErrorCode::kInvalidArgument, "the shape {} has more elements than can be addressed",
           PrintDims(dims));
    }
  }
  return empty ? 0 : count;
}

std::string PrintDims(std::span<const int64_t> dims) {
  return fmt::format("[{}]", fmt::join(dims, ","));
}

std::vector<int64_t> RowMajorStrides(std::span<const int64_t> dims) {
  std::vector<int64_t> strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

Tensor::Tensor(DType dtype, std::vector<int64_t> dims)
    : dtype_(dtype), dims_(std::move(dims)), size_(ElementCount(dims_)) {
  owner_ = Allocate(dtype_, size_, &data_);
}

Tensor::Tensor(DType dtype, std::vector<int64_t> dims, void* data,
               std::shared_ptr<const void> owner)
    : dtype_(dtype),
      dims_(std::move(dims)),
      size_(ElementCount(dims_)),
      data_(data),
      owner_(std::move(owner)) {}

int64_t Tensor::bytes() const { return ByteSize(dtype_, size_); }

Tensor Tensor::Reshaped(std::vector<int64_t> dims) const {
  if (ElementCount(dims) != size_) {
    Fail(ErrorCode::kInvalidArgument, "cannot view {} as {}", PrintDims(dims_), PrintDims(dims));
  }
  return Tensor(dtype_, std::move(dims), data_, owner_);
}

Tensor MakeFilled(DType dtype, std::vector<int64_t> dims, double value) {
  Tensor result(dtype, std::move(dims));
  const int64_t count = result.size();
  if (dtype == DType::kComplex64) {
    std::fill_n(result.data<std::complex<float>>(), count, static_cast<float>(value));
  } else if (dtype == DType::kComplex128) {
    std::fill_n(result.data<std::complex<double>>(), count, value);
  } else if (dtype == DType::kString) {
    if (value != 0) Fail(ErrorCode::kInternal, "strings cannot be filled with a number");
  } else if (BitWidth(dtype) <= 8 && dtype != DType::kInt8 && dtype != DType::kUInt8 &&
             dtype != DType::kBool && value == 0) {
    std::memset(result.raw(), 0, result.bytes());
  } else {
    DispatchReal(dtype, "filling a tensor", [&](auto tag) {
      using T = typename decltype(tag)::type;
      std::fill_n(result.data<T>(), count, static_cast<T>(value));
    });
  }
  return result;
}

std::vector<int64_t> ToInts(const Tensor& tensor) {
  std::vector<int64_t> result(tensor.size());
  DispatchReal(tensor.dtype(), "reading integers", [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_integral_v<T>) {
      const T* data = tensor.data<T>();
      for (int64_t i = 0; i < tensor.size(); ++i) result[i] = static_cast<int64_t>(data[i]);
    } else {
      Fail(ErrorCode::kInvalidArgument, "expected integers, got {}", Name(tensor.dtype()));
    }
  });
  return result;
}

std::vector<double> ToDoubles(const Tensor& tensor) {
  std::vector<double> result(tensor.size());
  DispatchReal(tensor.dtype(), "reading numbers", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* data = tensor.data<T>();
    for (int64_t i = 0; i < tensor.size(); ++i) {
      result[i] = static_cast<double>(static_cast<ComputeType<T>>(data[i]));
    }
  });
  return result;
}

bool BitEqual(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.dims() != b.dims()) return false;
  if (a.raw() == b.raw()) return true;
  if (a.dtype() == DType::kString) {
    return std::equal(a.data<std::string>(), a.data<std::string>() + a.size(),
                      b.data<std::string>());
  }
  return a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

bool IsAligned(const Tensor& tensor) {
  const int width = std::clamp(BitWidth(tensor.dtype()) / 8, 1, 8);
  return reinterpret_cast<uintptr_t>(tensor.raw()) % width == 0;
}

Tensor Aligned(const Tensor& tensor) { return IsAligned(tensor) ? tensor : Copy(tensor); }

Tensor Copy(const Tensor& tensor) {
  Tensor result(tensor.dtype(), tensor.dims());
  if (tensor.dtype() == DType::kString) {
    std::copy_n(tensor.data<std::string>(), tensor.size(), result.data<std::string>());
  } else if (tensor.bytes() > 0) {
    std::memcpy(result.raw(), tensor.raw(), tensor.bytes());
  }
  return result;
}

}  // namespace sardonyx
