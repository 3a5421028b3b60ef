#include "inputs.h"

#include <algorithm>
#include <charconv>
#include <complex>
#include <map>
#include <optional>
#include <set>

#include "files.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "npy.h"
#include "zip.h"

namespace sardonyx::cli {
namespace {

[[noreturn]] void Fail(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

const ValueInfo* Find(const std::vector<ValueInfo>& inputs, std::string_view name) {
  auto it = std::find_if(inputs.begin(), inputs.end(),
                         [&](const ValueInfo& info) { return info.name == name; });
  return it == inputs.end() ? nullptr : &*it;
}

std::string NamesOf(const std::vector<ValueInfo>& inputs) {
  std::vector<std::string> names;
  for (const ValueInfo& info : inputs) names.push_back(info.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// "name=value" at the first '=', or after the longest input's name that may hold one itself.
std::optional<std::pair<std::string, std::string>> Split(const std::vector<ValueInfo>& inputs,
                                                         const std::string& text) {
  size_t at = text.find('=');
  for (const ValueInfo& info : inputs) {
    const size_t length = info.name.size();
    if (text.size() > length && text[length] == '=' && text.compare(0, length, info.name) == 0) {
      at = length;
    }
  }
  if (at == std::string::npos || at == 0) return std::nullopt;
  return std::pair(text.substr(0, at), text.substr(at + 1));
}

std::vector<int64_t> ParseShape(const std::string& argument, std::string_view text) {
  std::vector<int64_t> shape;
  if (text.empty()) return shape;  // no dimensions
  while (true) {
    int64_t size = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    if (error != std::errc() || size < 0) {
      Fail(fmt::format("--shape {}: a shape is sizes between 'x', as in x=1x3x224x224", argument));
    }
    shape.push_back(size);
    text.remove_prefix(end - text.data());
    if (text.empty()) return shape;
    if (text[0] != 'x' && text[0] != ',') {
      Fail(fmt::format("--shape {}: a shape is sizes between 'x', as in x=1x3x224x224", argument));
    }
    text.remove_prefix(1);
  }
}

struct GivenShapes {
  std::map<std::string, std::vector<int64_t>> inputs;
  std::map<std::string, int64_t> symbols;
};

GivenShapes ParseShapes(const std::vector<ValueInfo>& inputs,
                        const std::vector<std::string>& arguments) {
  std::set<std::string> symbols;
  for (const ValueInfo& info : inputs) {
    for (const Dimension& dim : info.shape) {
      if (!dim.symbol.empty()) symbols.insert(dim.symbol);
    }
  }
  GivenShapes given;
  for (const std::string& argument : arguments) {
    const auto parts = Split(inputs, argument);
    if (!parts) Fail(fmt::format("--shape {}: is not NAME=SIZES, as in x=1x3x224x224", argument));
    const std::vector<int64_t> shape = ParseShape(argument, parts->second);
    bool is_first = true;
    if (Find(inputs, parts->first) != nullptr) {
      is_first = given.inputs.emplace(parts->first, shape).second;
    } else if (symbols.contains(parts->first) && shape.size() == 1) {
      const auto [it, inserted] = given.symbols.emplace(parts->first, shape[0]);
      is_first = inserted || it->second == shape[0];
    } else {
      Fail(fmt::format("--shape {}: the model has no input '{}'; its inputs are {}{}", argument,
                       parts->first, NamesOf(inputs),
                       symbols.empty()
                           ? ""
                           : fmt::format(", its named dimensions {}", fmt::join(symbols, ", "))));
    }
    if (!is_first) Fail(fmt::format("--shape {}: another was given before", argument));
  }
  return given;
}

bool IsTensor(const ValueInfo& info) { return info.dtype != DType::kUndefined; }

std::vector<int64_t> ShapeOf(const ValueInfo& info, const GivenShapes& given,
                             std::map<std::string, int64_t>* symbols) {
  if (auto it = given.inputs.find(info.name); it != given.inputs.end()) return it->second;
  std::vector<int64_t> shape;
  if (!info.has_shape) {
    fmt::print(stderr, "note: the shape of input '{}' is not known: one element of rank 0\n",
               info.name);
    return shape;
  }
  for (size_t i = 0; i < info.shape.size(); ++i) {
    const Dimension& dim = info.shape[i];
    if (dim.value >= 0) {
      shape.push_back(dim.value);
    } else if (auto it = symbols->find(dim.symbol); !dim.symbol.empty() && it != symbols->end()) {
      shape.push_back(it->second);
    } else {
      if (dim.symbol.empty()) {
        fmt::print(stderr,
                   "note: dimension {} of input '{}' is taken as 1; --shape {}=... sets it\n", i,
                   info.name, info.name);
      } else {
        fmt::print(stderr, "note: dimension '{}' is taken as 1; --shape {}=N sets it\n", dim.symbol,
                   dim.symbol);
        (*symbols)[dim.symbol] = 1;
      }
      shape.push_back(1);
    }
  }
  return shape;
}

// A stream of numbers that depends on the seed and the input's name alone: splitmix64.
class Random {
 public:
  Random(uint64_t seed, std::string_view name) : state_(seed) {
    for (const char c : name) state_ = (state_ ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  }
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  double Uniform() { return static_cast<double>(Next() >> 40) / (1 << 24); }

 private:
  uint64_t state_;
};

// Numbers (float64) as elements of any type but strings.
Tensor Typed(const Tensor& numbers, DType dtype) {
  const bool wide = dtype == DType::kComplex128;
  if (!wide && dtype != DType::kComplex64) return Converted(numbers, dtype);
  Tensor tensor(dtype, numbers.dims());
  for (int64_t i = 0; i < numbers.size(); ++i) {
    const double real = numbers.data<double>()[i];
    if (wide) {
      tensor.data<std::complex<double>>()[i] = real;
    } else {
      tensor.data<std::complex<float>>()[i] = static_cast<float>(real);
    }
  }
  return tensor;
}

// Real numbers lie in [0, 1). Integers and bools are 0 or 1: whatever they count or select, these
// two are mostly valid.
Tensor RandomTensor(const ValueInfo& info, const std::vector<int64_t>& shape, uint64_t seed) {
  Random random(seed, info.name);
  if (info.dtype == DType::kString) {
    Tensor tensor(info.dtype, shape);
    for (int64_t i = 0; i < tensor.size(); ++i) {
      tensor.data<std::string>()[i] = static_cast<char>('a' + random.Next() % 26);
    }
    return tensor;
  }
  if (info.dtype == DType::kFloat32) {
    Tensor tensor(info.dtype, shape);
    for (int64_t i = 0; i < tensor.size(); ++i) {
      tensor.data<float>()[i] = static_cast<float>(random.Uniform());
    }
    return tensor;
  }
  const bool whole = DTypeIsInteger(info.dtype) || info.dtype == DType::kBool;
  Tensor numbers(DType::kFloat64, shape);
  for (int64_t i = 0; i < numbers.size(); ++i) {
    numbers.data<double>()[i] = whole ? static_cast<double>(random.Next() & 1) : random.Uniform();
  }
  return Typed(numbers, info.dtype);
}

std::optional<double> ParseNumber(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Tensor Filled(const ValueInfo& info, const std::vector<int64_t>& shape, double value) {
  Tensor numbers(DType::kFloat64, shape);
  std::fill_n(numbers.data<double>(), numbers.size(), value);
  return Typed(numbers, info.dtype);
}

using Archive = std::vector<std::pair<std::string, std::string>>;

std::string EntryName(const std::string& entry) {
  return EndsWith(entry, ".npy") ? entry.substr(0, entry.size() - 4) : entry;
}

Tensor FromArchive(const Archive& archive, const ValueInfo& info, const std::string& path) {
  for (const auto& [entry, bytes] : archive) {
    if (EntryName(entry) == info.name || archive.size() == 1) {
      return ReadNpy(bytes, path + ":" + entry, info.dtype);
    }
  }
  std::vector<std::string> held;
  for (const auto& [entry, bytes] : archive) held.push_back(EntryName(entry));
  Fail(fmt::format("{}: holds no array '{}', only {}", path, info.name, fmt::join(held, ", ")));
}

// "seq(...)", "map(...)" and "optional(...)" have files of their own kinds.
std::string_view KindOf(const ValueInfo& info) {
  if (info.type.starts_with("seq(")) return "sequence";
  if (info.type.starts_with("map(")) return "map";
  if (info.type.starts_with("optional(")) return "optional";
  return "tensor";
}

// Reads a value; nullopt if the text asks for a random one.
std::optional<Datum> ReadValue(const ValueInfo& info, const std::string& text) {
  if (text == "random") return std::nullopt;
  if (EndsWith(text, ".npz")) return FromArchive(ReadZip(ReadFile(text), text), info, text);
  if (EndsWith(text, ".npy")) return ReadNpy(ReadFile(text), text, info.dtype);
  if (EndsWith(text, ".pb")) {
    try {
      return ReadProtobuf(ReadFile(text), KindOf(info));
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("{}: {}", text, error.what()));
    }
  }
  Fail(fmt::format(
      "--input {}={}: a value is a .npy, .npz or .pb file, 'random', or a number to fill with",
      info.name, text));
}

// What --input says: values that were read, and numbers to fill inputs with.
struct GivenValues {
  std::map<std::string, Datum> read;
  std::map<std::string, double> filled;
};

void ReadInput(const std::vector<ValueInfo>& inputs, const std::string& argument,
               GivenValues* given) {
  const auto known = [&](const std::string& name) -> const ValueInfo& {
    const ValueInfo* info = Find(inputs, name);
    if (info != nullptr) return *info;
    Fail(fmt::format("--input {}: the model has no input '{}'; its inputs are {}", argument, name,
                     NamesOf(inputs)));
  };
  const auto parts = Split(inputs, argument);
  if (!parts && EndsWith(argument, ".npz")) {
    for (const auto& [entry, bytes] : ReadZip(ReadFile(argument), argument)) {
      const ValueInfo& info = known(EntryName(entry));
      given->read[info.name] = ReadNpy(bytes, argument + ":" + entry, info.dtype);
    }
    return;
  }
  if (!parts) {
    Fail(fmt::format("--input {}: is not NAME=FILE, NAME=NUMBER, NAME=random or FILE.npz",
                     argument));
  }
  const ValueInfo& info = known(parts->first);
  const std::optional<double> number = ParseNumber(parts->second);
  if (number && IsTensor(info) && info.dtype != DType::kString) {
    given->filled[info.name] = *number;
  } else if (std::optional<Datum> value = ReadValue(info, parts->second)) {
    given->read[info.name] = std::move(*value);
  }
}

// Arguments of --shape for the inputs that were not read: as given, and as the named dimensions of
// the arrays that were read tell.
std::vector<std::string> ShapesOfRest(const std::vector<ValueInfo>& inputs,
                                      const std::vector<ValueInfo>& rest,
                                      std::vector<std::string> shapes,
                                      const std::map<std::string, Datum>& read) {
  std::erase_if(shapes, [&](const std::string& shape) {
    const auto parts = Split(inputs, shape);
    return parts && read.contains(parts->first);
  });
  std::set<std::string> told;
  for (const auto& [name, datum] : read) {
    const ValueInfo& info = *Find(inputs, name);
    for (size_t i = 0; datum.tensor() != nullptr && i < info.shape.size(); ++i) {
      const std::string& symbol = info.shape[i].symbol;
      const bool needed = std::any_of(rest.begin(), rest.end(), [&](const ValueInfo& other) {
        return std::any_of(other.shape.begin(), other.shape.end(),
                           [&](const Dimension& dim) { return dim.symbol == symbol; });
      });
      if (symbol.empty() || !needed || i >= datum.tensor()->dims().size()) continue;
      if (!told.insert(symbol).second) continue;  // two sizes are told of by the run
      shapes.push_back(fmt::format("{}={}", symbol, datum.tensor()->dims()[i]));
    }
  }
  return shapes;
}

}  // namespace

NamedShapes ResolveShapes(const std::vector<ValueInfo>& inputs, const InputArguments& arguments) {
  const GivenShapes given = ParseShapes(inputs, arguments.shapes);
  std::map<std::string, int64_t> symbols = given.symbols;
  // Shapes given for one input tell the named dimensions of the others.
  for (const auto& [name, shape] : given.inputs) {
    const ValueInfo& info = *Find(inputs, name);
    for (size_t i = 0; i < shape.size() && i < info.shape.size(); ++i) {
      if (!info.shape[i].symbol.empty()) symbols.emplace(info.shape[i].symbol, shape[i]);
    }
  }
  NamedShapes shapes;
  for (const ValueInfo& info : inputs) {
    if (IsTensor(info)) shapes.emplace_back(info.name, ShapeOf(info, given, &symbols));
  }
  return shapes;
}

NamedData MakeInputs(const std::vector<ValueInfo>& inputs, const InputArguments& arguments) {
  GivenValues given;
  for (const std::string& argument : arguments.inputs) ReadInput(inputs, argument, &given);
  auto& [read, filled] = given;
  std::vector<ValueInfo> rest;  // whose shapes are needed
  for (const ValueInfo& info : inputs) {
    if (!read.contains(info.name) && IsTensor(info)) rest.push_back(info);
  }
  InputArguments for_rest = arguments;
  for_rest.shapes = ShapesOfRest(inputs, rest, arguments.shapes, read);
  for (const auto& [name, shape] : ResolveShapes(rest, for_rest)) {
    const ValueInfo& info = *Find(inputs, name);
    auto it = filled.find(name);
    try {
      read[name] = it != filled.end() ? Filled(info, shape, it->second)
                                      : RandomTensor(info, shape, arguments.seed);
    } catch (const Error& error) {
      throw Error(error.code(), fmt::format("input '{}' of shape [{}]: {}", name,
                                            fmt::join(shape, ","), error.what()));
    }
  }

  NamedData data;
  for (const ValueInfo& info : inputs) {
    auto it = read.find(info.name);
    if (it != read.end()) {
      data.emplace_back(info.name, it->second);
    } else if (!info.type.starts_with("optional(")) {
      Fail(fmt::format("input '{}' is {}: give it as --input {}=FILE.pb", info.name, info.type,
                       info.name));
    }
  }
  return data;
}

}  // namespace sardonyx::cli
