#include "onnx/tensor_data.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "base/cast.h"
#include "base/dtype.h"
#include "base/error.h"
#include "onnx/external_data.h"

namespace sardonyx::onnx {
namespace {

// Dims of the message, checked: none negative, and the product of those that are not zero (so that
// strides cannot overflow either) within 2^62 bits.
int64_t CheckedCount(const std::vector<int64_t>& dims) {
  int64_t product = 1;
  bool empty = false;
  for (const int64_t dim : dims) {
    if (dim < 0) {
      Fail(ErrorCode::kInvalidModel, "the shape {} has a negative dimension", PrintDims(dims));
    }
    if (dim == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(product, dim, &product) || product > int64_t{1} << 54) {
      Fail(ErrorCode::kInvalidModel, "the shape {} has more elements than can be addressed",
           PrintDims(dims));
    }
  }
  return empty ? 0 : product;
}

DType CheckedType(const TensorProto& tensor) {
  const int32_t number = tensor.data_type.Get();
  const DType type = ToDType(number);
  if (type == DType::kUndefined) {
    Fail(ErrorCode::kInvalidModel, "the element type {} is not one of the ONNX standard (1 to {})",
         number, kDTypeCount - 1);
  }
  return type;
}

size_t AlignmentOf(DType type) {
  switch (type) {
    case DType::kComplex64: return alignof(float);
    case DType::kComplex128: return alignof(double);
    default: return std::max<size_t>(1, static_cast<size_t>(BitWidth(type)) / 8);
  }
}

// A bool must be 0 or 1 in memory; files are free to hold other bytes.
bool HasOtherThanZeroAndOne(std::string_view bytes) {
  return std::any_of(bytes.begin(), bytes.end(), [](char c) { return (c & ~1) != 0; });
}

constexpr size_t kInPlaceBytes = 64 << 10;

// `bytes` hold exactly the elements; they lie in `mapping` when that is not null.
Tensor FromBytes(DType type, const std::vector<int64_t>& dims, std::string_view bytes,
                 const std::shared_ptr<const void>& owner, const MappedFile* mapping) {
  const bool aligned = reinterpret_cast<uintptr_t>(bytes.data()) % AlignmentOf(type) == 0;
  const bool rewrite = type == DType::kBool && HasOtherThanZeroAndOne(bytes);
  // Large weights stay in the file even where protobuf left them misaligned: most are packed once
  // and never read as they are; whoever reads them element by element calls Aligned()
  // (ir/tensor.h).
  const bool large = bytes.size() >= kInPlaceBytes;
  // Small ones of a file are copied: they lie between large ones, and each that a run reads would
  // map up to 2 MiB around it. Tensors do not write through memory they do not own, so the
  // const_cast is never a write.
  if ((large || (aligned && mapping == nullptr)) && !rewrite && !bytes.empty()) {
    return Tensor(type, dims, const_cast<char*>(bytes.data()), owner);
  }
  Tensor copy(type, dims);
  if (!bytes.empty()) std::memcpy(copy.raw(), bytes.data(), bytes.size());
  if (mapping != nullptr && large) {
    mapping->DropPages(bytes.data(), static_cast<int64_t>(bytes.size()));
  }
  if (rewrite) {
    auto* values = copy.data<uint8_t>();
    for (int64_t i = 0; i < copy.size(); ++i) values[i] = values[i] != 0;
  }
  return copy;
}

Tensor FromRawData(DType type, const std::vector<int64_t>& dims, int64_t count,
                   const TensorProto& tensor, const ModelFile& file) {
  const std::string_view bytes = *tensor.raw_data;
  const int64_t expected = ByteSize(type, count);
  if (static_cast<int64_t>(bytes.size()) != expected) {
    Fail(ErrorCode::kInvalidModel, "raw_data has {} bytes, but {}{} takes {}", bytes.size(),
         Name(type), PrintDims(dims), expected);
  }
  return FromBytes(type, dims, bytes, file.owner, file.mapping.get());
}

Tensor FromExternalData(DType type, const std::vector<int64_t>& dims, int64_t count,
                        const TensorProto& tensor, const ModelFile& file) {
  if (type == DType::kString) {
    Fail(ErrorCode::kInvalidModel, "strings cannot be external data");
  }
  const ExternalDataInfo info = ReadExternalDataInfo(tensor);
  const auto expected = static_cast<uint64_t>(ByteSize(type, count));
  if (info.length && *info.length != expected) {
    Fail(ErrorCode::kInvalidModel,
         "external data '{}': the length is given as {}, but {}{} takes {}", info.location,
         *info.length, Name(type), PrintDims(dims), expected);
  }
  const std::shared_ptr<const MappedFile> data = file.external_files->Open(info.location);
  const std::string_view bytes = data->bytes();
  if (info.offset > bytes.size() || expected > bytes.size() - info.offset) {
    Fail(
        ErrorCode::kInvalidModel,
        "external data '{}': the file is too short: it has {} bytes, but {}{} takes {} from offset "
        "{}",
        info.location, bytes.size(), Name(type), PrintDims(dims), expected, info.offset);
  }
  return FromBytes(type, dims, bytes.substr(info.offset, expected), data, data.get());
}

void CheckFieldCount(std::string_view field, size_t found, int64_t expected, DType type,
                     const std::vector<int64_t>& dims) {
  if (static_cast<int64_t>(found) != expected) {
    Fail(ErrorCode::kInvalidModel, "{} has {} values, but {}{} takes {}", field, found, Name(type),
         PrintDims(dims), expected);
  }
}

template <typename T>
Tensor FromWideField(std::string_view field, const std::vector<T>& values, DType type,
                     const std::vector<int64_t>& dims, int64_t expected) {
  CheckFieldCount(field, values.size(), expected, type, dims);
  Tensor result(type, dims);
  if (!values.empty()) std::memcpy(result.raw(), values.data(), values.size() * sizeof(T));
  return result;
}

// Writes each value into `bits` bits, low bits first; refuses values that fit neither signed nor
// unsigned.
template <typename T>
void PackNarrow(const std::vector<T>& values, int bits, DType type, Tensor& result) {
  auto* out = result.data<uint8_t>();
  std::memset(out, 0, static_cast<size_t>(result.bytes()));
  const int64_t most = (int64_t{1} << bits) - 1;
  const int64_t least = -(int64_t{1} << (bits - 1));
  size_t position = 0;
  for (const T value : values) {
    const auto wide = static_cast<int64_t>(value);
    if (wide < least || wide > most) {
      Fail(ErrorCode::kInvalidModel, "the value {} does not fit into an element of type {}", value,
           Name(type));
    }
    const uint64_t pattern = static_cast<uint64_t>(wide) & static_cast<uint64_t>(most);
    for (int done = 0; done < bits;) {
      const int shift = static_cast<int>(position % 8);
      const int taken = std::min(bits - done, 8 - shift);
      out[position / 8] |= static_cast<uint8_t>((pattern >> done) << shift);
      done += taken;
      position += static_cast<size_t>(taken);
    }
  }
}

Tensor FromInt32Data(DType type, const std::vector<int64_t>& dims, int64_t count,
                     const TensorProto& tensor) {
  const std::vector<int32_t>& values = tensor.int32_data;
  if (type == DType::kInt32) return FromWideField("int32_data", values, type, dims, count);
  // An entry is one element, but a whole byte of 2- and 4-bit elements.
  const int width = BitWidth(type);
  const bool entry_is_byte = width == 2 || width == 4;
  const int64_t expected = entry_is_byte ? ByteSize(type, count) : count;
  CheckFieldCount("int32_data", values.size(), expected, type, dims);
  Tensor result(type, dims);
  if (count == 0) return result;
  if (type == DType::kBool) {
    std::transform(values.begin(), values.end(), result.data<bool>(),
                   [](int32_t value) { return value != 0; });
  } else {
    PackNarrow(values, entry_is_byte ? 8 : width, type, result);
  }
  return result;
}

Tensor FromStrings(const std::vector<int64_t>& dims, int64_t count, const TensorProto& tensor) {
  CheckFieldCount("string_data", tensor.string_data.size(), count, DType::kString, dims);
  Tensor result(DType::kString, dims);
  std::transform(tensor.string_data.begin(), tensor.string_data.end(), result.data<std::string>(),
                 [](std::string_view text) { return std::string(text); });
  return result;
}

Tensor FromTypedFields(DType type, const std::vector<int64_t>& dims, int64_t count,
                       const TensorProto& tensor) {
  switch (type) {
    case DType::kFloat32: return FromWideField("float_data", tensor.float_data, type, dims, count);
    case DType::kComplex64:
      return FromWideField("float_data", tensor.float_data, type, dims, 2 * count);
    case DType::kFloat64:
      return FromWideField("double_data", tensor.double_data, type, dims, count);
    case DType::kComplex128:
      return FromWideField("double_data", tensor.double_data, type, dims, 2 * count);
    case DType::kInt64: return FromWideField("int64_data", tensor.int64_data, type, dims, count);
    case DType::kUInt64: return FromWideField("uint64_data", tensor.uint64_data, type, dims, count);
    case DType::kUInt32: {
      CheckFieldCount("uint64_data", tensor.uint64_data.size(), count, type, dims);
      Tensor result(type, dims);
      std::transform(tensor.uint64_data.begin(), tensor.uint64_data.end(), result.data<uint32_t>(),
                     [](uint64_t value) {
                       if (value > UINT32_MAX) {
                         Fail(ErrorCode::kInvalidModel,
                              "the value {} does not fit into an element of type uint32", value);
                       }
                       return static_cast<uint32_t>(value);
                     });
      return result;
    }
    case DType::kString: return FromStrings(dims, count, tensor);
    default: return FromInt32Data(type, dims, count, tensor);
  }
}

Tensor ReadChecked(const TensorProto& tensor, const ModelFile& file) {
  const DType type = CheckedType(tensor);
  const int64_t count = CheckedCount(tensor.dims);
  if (tensor.segment) {
    Fail(ErrorCode::kUnsupported, "the tensor is stored in segments, which ONNX never defined");
  }
  switch (tensor.data_location.Get()) {
    case TensorProto::DEFAULT: break;
    case TensorProto::EXTERNAL: return FromExternalData(type, tensor.dims, count, tensor, file);
    default:
      Fail(ErrorCode::kInvalidModel, "data_location {} is neither DEFAULT (0) nor EXTERNAL (1)",
           *tensor.data_location);
  }
  if (tensor.raw_data && type == DType::kString) {
    Fail(ErrorCode::kInvalidModel, "strings must be in string_data, not in raw_data");
  }
  if (tensor.raw_data) return FromRawData(type, tensor.dims, count, tensor, file);
  return FromTypedFields(type, tensor.dims, count, tensor);
}

// Copies element `from` of `values` to element `to` of `dense`.
void CopyElement(const Tensor& values, int64_t from, Tensor& dense, int64_t to) {
  if (values.dtype() == DType::kString) {
    dense.data<std::string>()[to] = values.data<std::string>()[from];
    return;
  }
  if (IsPacked(values.dtype())) {
    const int bits = BitWidth(values.dtype());
    WritePacked(dense.raw(), bits, to, ReadPacked(values.raw(), bits, from));
    return;
  }
  const auto width = static_cast<size_t>(BitWidth(values.dtype())) / 8;
  std::memcpy(static_cast<char*>(dense.raw()) + static_cast<size_t>(to) * width,
              static_cast<const char*>(values.raw()) + static_cast<size_t>(from) * width, width);
}

// The dense position that the sparse tensor's index `i` names.
int64_t DensePosition(const Tensor& indices, int64_t i, const std::vector<int64_t>& dims,
                      int64_t count) {
  const int64_t* index = indices.data<int64_t>();
  const auto refuse = [&](int64_t value, int64_t limit) {
    Fail(ErrorCode::kInvalidModel, "index {} of value {} is not within 0 to {}", value, i,
         limit - 1);
  };
  if (indices.rank() == 1) {
    if (index[i] < 0 || index[i] >= count) refuse(index[i], count);
    return index[i];
  }
  int64_t position = 0;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    const int64_t value = index[i * static_cast<int64_t>(dims.size()) + static_cast<int64_t>(axis)];
    if (value < 0 || value >= dims[axis]) refuse(value, dims[axis]);
    position = position * dims[axis] + value;
  }
  return position;
}

Tensor ReadSparse(const SparseTensorProto& sparse, const ModelFile& file) {
  const int64_t count = CheckedCount(sparse.dims);
  const Tensor values = ReadChecked(*sparse.values, file);
  if (values.rank() != 1) {
    Fail(ErrorCode::kInvalidModel, "the values have the shape {}, but must have rank 1",
         PrintDims(values.dims()));
  }
  const int64_t bytes = ByteSize(values.dtype(), count);
  if (bytes > file.options.max_dense_bytes) {
    Fail(ErrorCode::kLimitExceeded,
         "the dense form {} takes {} bytes, more than the limit of {} "
         "(ReadOptions::max_dense_bytes)",
         PrintDims(sparse.dims), bytes, file.options.max_dense_bytes);
  }
  const int64_t stored = values.size();
  Tensor indices(DType::kInt64, {0});
  if (sparse.indices) indices = ReadChecked(*sparse.indices, file);
  const bool linear = indices.dims() == std::vector<int64_t>{stored};
  const bool tuples =
      indices.dims() == std::vector<int64_t>{stored, static_cast<int64_t>(sparse.dims.size())};
  if (indices.dtype() != DType::kInt64 || !(linear || tuples)) {
    Fail(ErrorCode::kInvalidModel, "the indices are {}{}, but must be int64[{}] or int64[{},{}]",
         Name(indices.dtype()), PrintDims(indices.dims()), stored, stored, sparse.dims.size());
  }
  Tensor dense(values.dtype(), sparse.dims);
  if (values.dtype() != DType::kString && bytes > 0) {
    std::memset(dense.raw(), 0, static_cast<size_t>(bytes));
  }
  int64_t last = -1;
  for (int64_t i = 0; i < stored; ++i) {
    const int64_t position = DensePosition(indices, i, sparse.dims, count);
    if (position <= last) {
      Fail(ErrorCode::kInvalidModel, "the indices are not in ascending order without repetition");
    }
    last = position;
    CopyElement(values, i, dense, position);
  }
  return dense;
}

}  // namespace

Tensor ReadTensor(const TensorProto& tensor, const ModelFile& file) {
  return WithContext(fmt::format("tensor '{}'", tensor.name.Get()),
                     [&] { return ReadChecked(tensor, file); });
}

Tensor ReadSparseTensor(const SparseTensorProto& tensor, const ModelFile& file) {
  if (!tensor.values) Fail(ErrorCode::kInvalidModel, "a sparse tensor has no values");
  return WithContext(fmt::format("sparse tensor '{}'", tensor.values->name.Get()),
                     [&] { return ReadSparse(tensor, file); });
}

TensorProto WriteTensor(const Tensor& tensor, std::string_view name) {
  TensorProto result;
  result.dims = tensor.dims();
  result.data_type = static_cast<int32_t>(tensor.dtype());
  if (!name.empty()) result.name = name;
  if (tensor.dtype() == DType::kString) {
    const auto* strings = tensor.data<std::string>();
    result.string_data.assign(strings, strings + tensor.size());
  } else {
    result.raw_data = std::string_view(static_cast<const char*>(tensor.raw()),
                                       static_cast<size_t>(tensor.bytes()));
  }
  return result;
}

}  // namespace sardonyx::onnx
