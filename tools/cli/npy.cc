#include "npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"

// Format: numpy.lib.format in the NumPy manual.

namespace sardonyx::cli {
namespace {

[[noreturn]] void Fail(const std::string& path, std::string_view what) {
  throw Error(ErrorCode::kInvalidArgument, fmt::format("{}: {}", path, what));
}

struct Header {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
  size_t data = 0;  // offset of the first element
};

// The text after "'key':" of the dictionary.
std::string_view FieldOf(std::string_view text, std::string_view key, const std::string& path) {
  const size_t at = text.find(fmt::format("'{}':", key));
  if (at == std::string_view::npos) Fail(path, fmt::format("the header lacks '{}'", key));
  text.remove_prefix(at + key.size() + 3);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return text;
}

Header ReadHeader(std::string_view bytes, const std::string& path) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  if (bytes.size() < 10 || bytes.substr(0, 6) != kMagic) Fail(path, "is no .npy file");
  const auto major = static_cast<uint8_t>(bytes[6]);
  if (major < 1 || major > 3) Fail(path, fmt::format(".npy format {} is not known", major));
  uint32_t length = 0;
  const size_t start = major == 1 ? 10 : 12;
  if (bytes.size() < start) Fail(path, "is cut off");
  std::memcpy(&length, bytes.data() + 8, start - 8);
  if (bytes.size() - start < length) Fail(path, "is cut off");
  const std::string_view text = bytes.substr(start, length);

  Header header;
  header.data = start + length;
  std::string_view descr = FieldOf(text, "descr", path);
  if (descr.empty() || descr[0] != '\'') Fail(path, "holds a structured array; ONNX has none");
  header.descr = descr.substr(1, descr.find('\'', 1) - 1);
  header.fortran_order = FieldOf(text, "fortran_order", path).substr(0, 4) == "True";
  std::string_view shape = FieldOf(text, "shape", path);
  shape = shape.substr(0, shape.find(')'));
  for (size_t i = 0; i < shape.size();) {
    if (shape[i] < '0' || shape[i] > '9') {
      ++i;
      continue;
    }
    int64_t size = 0;
    const auto [end, error] = std::from_chars(shape.data() + i, shape.data() + shape.size(), size);
    if (error != std::errc()) Fail(path, "has a size that is too large");
    header.shape.push_back(size);
    i = end - shape.data();
  }
  return header;
}

struct NumpyType {
  std::string_view descr;  // without the byte order
  DType dtype;
};
constexpr std::array<NumpyType, 14> kTypes = {{
    {"f4", DType::kFloat32},
    {"f8", DType::kFloat64},
    {"f2", DType::kFloat16},
    {"i1", DType::kInt8},
    {"i2", DType::kInt16},
    {"i4", DType::kInt32},
    {"i8", DType::kInt64},
    {"u1", DType::kUInt8},
    {"u2", DType::kUInt16},
    {"u4", DType::kUInt32},
    {"u8", DType::kUInt64},
    {"b1", DType::kBool},
    {"c8", DType::kComplex64},
    {"c16", DType::kComplex128},
}};

// Null for the types that NumPy itself does not have.
const NumpyType* NumpyTypeOf(DType dtype) {
  const auto* type = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const NumpyType& each) { return each.dtype == dtype; });
  return type == kTypes.end() ? nullptr : type;
}

DType TypeOf(std::string_view descr, const std::string& path) {
  if (descr.size() > 1 && descr[0] == '>' && descr != ">b1") {
    Fail(path, fmt::format("holds big-endian '{}'; save it in the machine's order", descr));
  }
  const std::string_view kind = descr.empty() ? descr : descr.substr(1);
  for (const NumpyType& type : kTypes) {
    if (type.descr == kind) return type.dtype;
  }
  Fail(path, fmt::format("holds elements of type '{}', which ONNX does not have", descr));
}

// Elements in the order of C from that of Fortran.
std::string ToRowMajor(std::string_view data, const std::vector<int64_t>& shape, size_t item) {
  std::string out(data.size(), '\0');
  if (out.empty()) return out;  // `item` may be 0 as well
  std::vector<int64_t> index(shape.size());
  std::vector<size_t> strides(shape.size());
  size_t stride = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    strides[i] = stride;
    stride *= shape[i];
  }
  for (size_t at = 0; at + item <= out.size(); at += item) {
    size_t from = 0;
    for (size_t i = 0; i < shape.size(); ++i) from += index[i] * strides[i];
    std::memcpy(out.data() + at, data.data() + from * item, item);
    for (size_t i = shape.size(); i-- > 0;) {
      if (++index[i] < shape[i]) break;
      index[i] = 0;
    }
  }
  return out;
}

int64_t CountOf(const std::vector<int64_t>& shape, const std::string& path) {
  int64_t count = 1;
  for (int64_t size : shape) {
    if (__builtin_mul_overflow(count, size, &count)) Fail(path, "has a shape that overflows");
  }
  return count;
}

std::string_view DataOf(std::string_view bytes, const Header& header, int64_t count, size_t item,
                        const std::string& path) {
  const std::string_view data = bytes.substr(header.data);
  if (item == 0 || static_cast<uint64_t>(count) > data.size() / item) {
    if (count > 0) Fail(path, fmt::format("is cut off: {} bytes of data", data.size()));
  }
  return data.substr(0, count * item);
}

// UTF-8 of a code point.
void AppendUtf8(char32_t code, std::string* out) {
  if (code < 0x80) {
    *out += static_cast<char>(code);
  } else if (code < 0x800) {
    *out += {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3f))};
  } else if (code < 0x10000) {
    *out += {static_cast<char>(0xe0 | (code >> 12)), static_cast<char>(0x80 | ((code >> 6) & 0x3f)),
             static_cast<char>(0x80 | (code & 0x3f))};
  } else {
    *out +=
        {static_cast<char>(0xf0 | (code >> 18)), static_cast<char>(0x80 | ((code >> 12) & 0x3f)),
         static_cast<char>(0x80 | ((code >> 6) & 0x3f)), static_cast<char>(0x80 | (code & 0x3f))};
  }
}

Tensor ReadText(std::string_view bytes, const Header& header, const std::string& path) {
  const bool wide = header.descr[1] == 'U';
  size_t characters = 0;
  std::from_chars(header.descr.data() + 2, header.descr.data() + header.descr.size(), characters);
  if (characters > (1U << 28)) Fail(path, "holds text of an impossible length");
  const size_t item = characters * (wide ? 4 : 1);
  const int64_t count = CountOf(header.shape, path);
  std::string data(DataOf(bytes, header, count, item, path));
  if (header.fortran_order) data = ToRowMajor(data, header.shape, item);
  Tensor tensor(DType::kString, header.shape);
  for (int64_t i = 0; i < count; ++i) {
    std::string& text = tensor.data<std::string>()[i];
    const char* from = data.data() + i * item;
    if (wide) {
      for (size_t c = 0; c < characters; ++c) {
        char32_t code;
        std::memcpy(&code, from + 4 * c, 4);
        if (code == 0) break;
        AppendUtf8(code, &text);
      }
    } else {
      text.assign(from, strnlen(from, characters));
    }
  }
  return tensor;
}

std::string MakeHeader(std::string_view descr, const std::vector<int64_t>& dims) {
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                 descr, fmt::join(dims, ", "), dims.size() == 1 ? "," : "");
  const size_t unpadded = 10 + text.size() + 1;
  text.append((64 - unpadded % 64) % 64, ' ');
  text += '\n';
  std::string out = "\x93NUMPY";
  const auto length = static_cast<uint16_t>(text.size());
  out += {1, 0, static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  return out + text;
}

std::string WriteText(const Tensor& tensor) {
  size_t longest = 1;
  const auto* begin = tensor.data<std::string>();
  for (int64_t i = 0; i < tensor.size(); ++i) longest = std::max(longest, begin[i].size());
  // Bytes, not characters: text that is no UTF-8 must survive too.
  std::string out = MakeHeader(fmt::format("|S{}", longest), tensor.dims());
  for (int64_t i = 0; i < tensor.size(); ++i) {
    out += begin[i];
    out.append(longest - begin[i].size(), '\0');
  }
  return out;
}

// Bytes of an element in a file, where packed ones take a byte each.
size_t ItemBytes(DType dtype) { return (DTypeBits(dtype) + 7U) / 8U; }

}  // namespace

Tensor ReadNpy(std::string_view bytes, const std::string& path, DType wanted) {
  const Header header = ReadHeader(bytes, path);
  if (header.descr.size() > 1 && (header.descr[1] == 'U' || header.descr[1] == 'S')) {
    return ReadText(bytes, header, path);
  }
  // The types of ml_dtypes are saved as opaque bytes ('V1', 'V2'); so may be read plain unsigned
  // ones.
  DType dtype = DType::kUndefined;
  const std::string_view kind = std::string_view(header.descr).substr(header.descr.empty() ? 0 : 1);
  const bool raw = kind == "V1" || kind == "V2" || kind == "u1" || kind == "u2";
  const size_t raw_item = raw ? kind.back() - '0' : 0;
  if (raw && NumpyTypeOf(wanted) == nullptr && raw_item == ItemBytes(wanted)) {
    dtype = wanted;
  } else {
    dtype = TypeOf(header.descr, path);
  }
  const size_t item = ItemBytes(dtype);
  const int64_t count = CountOf(header.shape, path);
  std::string data(DataOf(bytes, header, count, item, path));
  if (header.fortran_order) data = ToRowMajor(data, header.shape, item);
  if (DTypeBits(dtype) % 8 != 0) {
    return Packed(dtype, header.shape, reinterpret_cast<const uint8_t*>(data.data()));
  }
  Tensor tensor(dtype, header.shape);
  if (count > 0) std::memcpy(tensor.raw(), data.data(), data.size());
  return tensor;
}

std::string WriteNpy(const Tensor& tensor) {
  const DType dtype = tensor.dtype();
  if (dtype == DType::kString) return WriteText(tensor);
  if (const NumpyType* type = NumpyTypeOf(dtype)) {
    const char order = DTypeBits(dtype) == 8 ? '|' : '<';
    std::string out = MakeHeader(fmt::format("{}{}", order, type->descr), tensor.dims());
    if (tensor.size() > 0) out.append(static_cast<const char*>(tensor.raw()), tensor.bytes());
    return out;
  }
  const bool is_signed = dtype == DType::kInt4 || dtype == DType::kInt2;
  return WriteNpy(Converted(tensor, DTypeIsFloat(dtype) ? DType::kFloat32
                                    : is_signed         ? DType::kInt8
                                                        : DType::kUInt8));
}

}  // namespace sardonyx::cli
