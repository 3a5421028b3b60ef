#include "onnx/reader.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <protozero/exception.hpp>
#include <protozero/varint.hpp>

#include "base/error.h"
#include "onnx/external_data.h"
#include "onnx/fields.h"

namespace sardonyx::onnx {
namespace {

static_assert(std::endian::native == std::endian::little, "ONNX data is little-endian");

// One field as it stands in the file.
struct WireField {
  uint32_t number = 0;
  WireType type = WireType::unknown;
  uint64_t varint = 0;       // varint
  std::string_view payload;  // fixed32, fixed64, length_delimited
  std::string_view tag;
  std::string_view raw;  // tag and value
};

// Where the reader stands and what it may still use.
struct ReadState {
  struct Step {
    const char* field;
    int64_t index;  // -1: not repeated
  };
  std::vector<Step> path;
  int nesting_left;
  int64_t bytes_left;

  void Take(int64_t bytes) {
    bytes_left -= bytes;
    if (bytes_left < 0) {
      Fail(ErrorCode::kLimitExceeded,
           "the model unfolds to more than the limit of ReadOptions::max_decoded_bytes");
    }
  }
};

// "graph.node[12].attribute[0].t"
std::string PathText(const std::vector<ReadState::Step>& path) {
  std::string text;
  for (const auto& step : path) {
    if (!text.empty()) text += '.';
    text += step.field;
    if (step.index >= 0) text += fmt::format("[{}]", step.index);
  }
  return text;
}

uint64_t DecodeVarint(const char** position, const char* end) {
  return protozero::decode_varint(position, end);
}

std::string_view TakeBytes(const char** position, const char* end, uint64_t size) {
  const auto left = static_cast<uint64_t>(end - *position);
  if (size > left) {
    Fail(ErrorCode::kInvalidModel, "a field claims {} bytes where {} are left (truncated?)", size,
         left);
  }
  const std::string_view bytes(*position, static_cast<size_t>(size));
  *position += size;
  return bytes;
}

void SkipGroup(const char** position, const char* end, uint32_t number, ReadState& state);

WireField NextField(const char** position, const char* end, ReadState& state) {
  WireField field;
  const char* begin = *position;
  const uint64_t tag = DecodeVarint(position, end);
  field.tag = {begin, static_cast<size_t>(*position - begin)};
  field.type = static_cast<WireType>(tag & 7);
  if (tag >> 3 == 0 || tag >> 32 != 0) {
    Fail(ErrorCode::kInvalidModel, "{} is no field number", tag >> 3);
  }
  field.number = static_cast<uint32_t>(tag >> 3);
  switch (tag & 7) {
    case 0: field.varint = DecodeVarint(position, end); break;
    case 1: field.payload = TakeBytes(position, end, 8); break;
    // protozero's own reader keeps lengths in 32 bits; files may be larger.
    case 2: field.payload = TakeBytes(position, end, DecodeVarint(position, end)); break;
    case 3: SkipGroup(position, end, field.number, state); break;
    case 5: field.payload = TakeBytes(position, end, 4); break;
    default: Fail(ErrorCode::kInvalidModel, "{} is no field type", tag & 7);
  }
  field.raw = {begin, static_cast<size_t>(*position - begin)};
  return field;
}

// Groups (field types 3 and 4) are protobuf's old way to nest; ONNX has none, unknown fields may.
void SkipGroup(const char** position, const char* end, uint32_t number, ReadState& state) {
  if (--state.nesting_left < 0) Fail(ErrorCode::kLimitExceeded, "groups nest too deep");
  while (true) {
    const char* before = *position;
    const uint64_t tag = DecodeVarint(position, end);
    if ((tag & 7) == 4) {
      if (tag >> 3 != number) Fail(ErrorCode::kInvalidModel, "a group does not end");
      break;
    }
    *position = before;
    NextField(position, end, state);
  }
  ++state.nesting_left;
}

template <typename T>
struct IsField : std::false_type {};
template <typename T>
struct IsField<Field<T>> : std::true_type {
  using Value = T;
};
template <typename T>
struct IsBox : std::false_type {};
template <typename T>
struct IsBox<Box<T>> : std::true_type {};

template <typename T>
T ScalarOf(const WireField& field) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(field.varint);
  } else if constexpr (kIsText<T>) {
    return field.payload;
  } else {
    T value;
    field.payload.copy(reinterpret_cast<char*>(&value), sizeof value);
    return value;
  }
}

template <typename T>
void ReadPacked(std::string_view payload, std::vector<T>& values, ReadState& state) {
  if constexpr (std::is_floating_point_v<T>) {
    if (payload.size() % sizeof(T) != 0) {
      Fail(ErrorCode::kInvalidModel, "{} bytes are no whole number of {}-byte values",
           payload.size(), sizeof(T));
    }
    state.Take(static_cast<int64_t>(payload.size()));
    const size_t count = values.size();
    values.resize(count + payload.size() / sizeof(T));
    if (!payload.empty()) std::memcpy(values.data() + count, payload.data(), payload.size());
  } else {
    const auto count =
        std::count_if(payload.begin(), payload.end(), [](char c) { return (c & 0x80) == 0; });
    state.Take(count * static_cast<int64_t>(sizeof(T)));
    values.reserve(values.size() + static_cast<size_t>(count));
    const char* position = payload.data();
    const char* end = position + payload.size();
    while (position != end) values.push_back(static_cast<T>(DecodeVarint(&position, end)));
  }
}

// What follows a tag of the type's own.
template <typename T>
T TakeValue(const char** position, const char* end) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(DecodeVarint(position, end));
  } else if constexpr (kIsText<T>) {
    return TakeBytes(position, end, DecodeVarint(position, end));
  } else {
    T value;
    std::memcpy(&value, TakeBytes(position, end, sizeof value).data(), sizeof value);
    return value;
  }
}

// A repeated field is mostly written in one piece, and lists may be long: the elements that follow
// the first are counted before they are read, so that memory is taken once.
template <typename T>
void ReadRun(const WireField& first, const char** position, const char* end, std::vector<T>& values,
             ReadState& state) {
  const auto take_tag = [&, tag = first.tag](const char** at) {
    if (static_cast<size_t>(end - *at) < tag.size() || **at != tag[0]) return false;
    if (tag.size() > 1 && std::memcmp(*at, tag.data(), tag.size()) != 0) return false;
    *at += tag.size();
    return true;
  };
  size_t count = 1;
  for (const char* at = *position; take_tag(&at); ++count) TakeValue<T>(&at, end);
  state.Take(static_cast<int64_t>(count * sizeof(T)));
  if (values.empty()) values.reserve(count);
  values.push_back(ScalarOf<T>(first));
  while (take_tag(position)) values.push_back(TakeValue<T>(position, end));
}

template <typename M>
void ReadMessage(std::string_view bytes, M& message, ReadState& state);

template <typename M>
void ReadChild(std::string_view bytes, M& message, const char* field, int64_t index,
               ReadState& state) {
  if (--state.nesting_left < 0) {
    Fail(ErrorCode::kLimitExceeded, "messages nest deeper than the limit of {}",
         "ReadOptions::max_nesting");
  }
  state.path.push_back({field, index});
  ReadMessage(bytes, message, state);
  state.path.pop_back();
  ++state.nesting_left;
}

template <typename M>
void ResetOneOf(M& message) {
  const auto reset = [&](const auto& row) {
    if constexpr (requires { (message.*row.member).reset(); }) {
      if (row.rule == FieldRule::kOneOf) (message.*row.member).reset();
    }
  };
  std::apply([&](const auto&... rows) { (reset(rows), ...); }, FieldTable<M>::kRows);
}

// True when the field is the row's, of the type it must be; what follows of a repeated scalar is
// read as well. (As in protobuf, a known number with
// another type is an unknown field.)
template <typename M, typename Member>
bool ReadField(const WireField& field, const FieldRow<M, Member>& row, const char** position,
               const char* end, M& message, ReadState& state) {
  if (field.number != row.number) return false;
  Member& member = message.*row.member;
  if constexpr (IsField<Member>::value) {
    using T = typename IsField<Member>::Value;
    if (field.type != kWireTypeOf<T>) return false;
    if (row.rule == FieldRule::kOneOf) ResetOneOf(message);
    member = ScalarOf<T>(field);
  } else if constexpr (IsBox<Member>::value) {
    if (field.type != WireType::length_delimited) return false;
    if (!member.has_value()) {
      if (row.rule == FieldRule::kOneOf) ResetOneOf(message);
      state.Take(sizeof *member);
      member.emplace();
    }
    ReadChild(field.payload, *member, row.name, -1, state);  // a second occurrence merges
  } else {
    using T = typename Member::value_type;
    if constexpr (!kIsNumber<T> && !kIsText<T>) {
      if (field.type != WireType::length_delimited) return false;
      state.Take(sizeof(T));
      const auto index = static_cast<int64_t>(member.size());
      ReadChild(field.payload, member.emplace_back(), row.name, index, state);
    } else {
      if (field.type == kWireTypeOf<T>) {
        ReadRun(field, position, end, member, state);
      } else if (kIsNumber<T> && field.type == WireType::length_delimited) {
        if constexpr (std::is_arithmetic_v<T>) ReadPacked(field.payload, member, state);
      } else {
        return false;
      }
    }
  }
  return true;
}

template <typename M>
void ReadMessage(std::string_view bytes, M& message, ReadState& state) {
  const char* position = bytes.data();
  const char* end = position + bytes.size();
  while (position != end) {
    const WireField field = NextField(&position, end, state);
    const bool known = std::apply(
        [&](const auto&... rows) {
          return (ReadField(field, rows, &position, end, message, state) || ...);
        },
        FieldTable<M>::kRows);
    if (!known) {
      state.Take(sizeof(std::string_view));
      message.unknown_fields.push_back(field.raw);
    }
  }
}

// Reads the bytes as one message M; `error_head` begins what is said of them when they are not one.
template <typename M>
M Parse(std::string_view bytes, const ReadOptions& options, std::string_view error_head) {
  ReadState state{{}, options.max_nesting, options.max_decoded_bytes};
  M message;
  const auto fail = [&](ErrorCode code, std::string_view reason) {
    const std::string path = PathText(state.path);
    Fail(code, "{}: {}{}{}", error_head, path.empty() ? "" : "at ", path.empty() ? "" : path + ": ",
         reason);
  };
  try {
    ReadMessage(bytes, message, state);
  } catch (const protozero::end_of_buffer_exception&) {
    fail(ErrorCode::kInvalidModel, "the bytes end within a field (truncated?)");
  } catch (const protozero::exception& error) {
    fail(ErrorCode::kInvalidModel, error.what());
  } catch (const Error& error) {
    fail(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    fail(ErrorCode::kOutOfMemory, "out of memory while reading");
  }
  return message;
}

// What a file that is no ONNX model seems to be; empty when nothing comes to mind.
std::string_view GuessFormat(std::string_view bytes) {
  const auto begins = [&](std::string_view magic) {
    return bytes.substr(0, magic.size()) == magic;
  };
  if (begins("version https://git-lfs")) {
    return "; it is a Git LFS pointer: fetch the file itself with `git lfs pull`";
  }
  if (begins("PK\x03\x04"))
    return "; it is a ZIP archive (a PyTorch checkpoint?): export it to ONNX";
  if (begins("\x89HDF")) return "; it is an HDF5 file (a Keras model?): export it to ONNX";
  if (begins("\x1f\x8b")) return "; it is compressed with gzip: unpack it";
  if (bytes.size() >= 8 && bytes.substr(4, 4) == "TFL3") return "; it is a TensorFlow Lite model";
  if (bytes.size() >= 8 && bytes.substr(4, 4) == "ORTM") {
    return "; it is in ONNX Runtime's own format: load the .onnx file that it was made from";
  }
  if (begins("<!DOCTYPE") || begins("<html") || begins("<?xml")) {
    return "; it is a web page or XML text";
  }
  if (begins("{")) return "; it seems to be JSON text";
  if (begins("ir_version:") || begins("ir_version :") || begins("<\n")) {
    return "; it seems to be a model in text form: convert it with onnx.save";
  }
  return {};
}

std::shared_ptr<ModelFile> ReadModel(std::string name, std::string_view bytes,
                                     std::shared_ptr<const void> owner,
                                     std::shared_ptr<const MappedFile> mapping,
                                     const std::string& folder, const ReadOptions& options) {
  if (bytes.empty()) Fail(ErrorCode::kInvalidModel, "{}: not an ONNX model: it is empty", name);
  auto file = std::make_shared<ModelFile>();
  file->name = std::move(name);
  file->bytes = bytes;
  file->owner = std::move(owner);
  file->mapping = std::move(mapping);
  file->options = options;
  file->external_files =
      std::make_shared<ExternalFiles>(folder, file->mapping != nullptr ? file->name : "");
  const std::string_view guess = GuessFormat(bytes);
  try {
    file->model = ParseAgain(*file);
  } catch (const Error& error) {
    throw Error(error.code(), error.what() + std::string(guess));
  }
  if (!file->model.graph) {
    Fail(ErrorCode::kInvalidModel, "{}: not an ONNX model: it has no graph{}", file->name, guess);
  }
  // Lists were copied; names, which were not, come back when they are read.
  if (file->mapping != nullptr) {
    file->mapping->DropPages(bytes.data(), static_cast<int64_t>(bytes.size()));
  }
  return file;
}

}  // namespace

std::shared_ptr<ModelFile> OpenModel(const std::string& path, const ReadOptions& options) {
  const auto mapping = MappedFile::Open(path);
  const std::string_view bytes = mapping->bytes();
  std::string folder = std::filesystem::path(path).parent_path().string();
  if (folder.empty()) folder = ".";
  return ReadModel(path, bytes, mapping, mapping, folder, options);
}

std::shared_ptr<ModelFile> ParseModel(std::string_view bytes, std::shared_ptr<const void> owner,
                                      const ReadOptions& options) {
  return ReadModel("model given as bytes", bytes, std::move(owner), nullptr,
                   options.external_data_folder, options);
}

ModelProto ParseAgain(const ModelFile& file) {
  return Parse<ModelProto>(file.bytes, file.options, file.name + ": not a readable ONNX model");
}

std::shared_ptr<const MappedFile> MappedFileOf(const ModelFile& file, const void* data,
                                               int64_t size) {
  const std::string_view part(static_cast<const char*>(data), static_cast<size_t>(size));
  if (file.mapping != nullptr && Contains(*file.mapping, part)) return file.mapping;
  return file.external_files->FileOf(part);
}

void DropPages(const ModelFile& file) {
  const auto drop = [](const MappedFile& mapped) {
    mapped.DropPages(mapped.bytes().data(), static_cast<int64_t>(mapped.bytes().size()));
  };
  if (file.mapping != nullptr) drop(*file.mapping);
  for (const auto& [location, mapped] : file.external_files->opened()) drop(*mapped);
}

ModelProto ParseModelProto(std::string_view bytes, std::string_view what) {
  return Parse<ModelProto>(bytes, {}, fmt::format("{}: not a readable ModelProto", what));
}
FunctionProto ParseFunction(std::string_view bytes, std::string_view what) {
  return Parse<FunctionProto>(bytes, {}, fmt::format("{}: not a readable FunctionProto", what));
}
TensorProto ParseTensor(std::string_view bytes, std::string_view what) {
  return Parse<TensorProto>(bytes, {}, fmt::format("{}: not a readable TensorProto", what));
}
SequenceProto ParseSequence(std::string_view bytes, std::string_view what) {
  return Parse<SequenceProto>(bytes, {}, fmt::format("{}: not a readable SequenceProto", what));
}
MapProto ParseMap(std::string_view bytes, std::string_view what) {
  return Parse<MapProto>(bytes, {}, fmt::format("{}: not a readable MapProto", what));
}
OptionalProto ParseOptional(std::string_view bytes, std::string_view what) {
  return Parse<OptionalProto>(bytes, {}, fmt::format("{}: not a readable OptionalProto", what));
}
TypeProto ParseType(std::string_view bytes, std::string_view what) {
  return Parse<TypeProto>(bytes, {}, fmt::format("{}: not a readable TypeProto", what));
}

}  // namespace sardonyx::onnx
