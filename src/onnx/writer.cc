#include "onnx/writer.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <protozero/varint.hpp>
#include <system_error>

#include "base/error.h"
#include "onnx/fields.h"

namespace sardonyx::onnx {
namespace {

// A negative number takes ten bytes, also in a 32-bit field.
template <typename T>
uint64_t VarintOf(T value) {
  if constexpr (std::is_signed_v<T>) {
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  } else {
    return value;
  }
}

uint64_t VarintSize(uint64_t value) {
  return static_cast<uint64_t>(protozero::length_of_varint(value));
}

template <typename T>
uint64_t NumberSize(T value) {
  if constexpr (std::is_integral_v<T>) {
    return VarintSize(VarintOf(value));
  } else {
    return sizeof(T);
  }
}

template <typename T>
uint64_t PackedSize(const std::vector<T>& values) {
  if constexpr (!std::is_integral_v<T>) return values.size() * sizeof(T);
  uint64_t size = 0;
  for (const T value : values) size += NumberSize(value);
  return size;
}

uint64_t TagSize(uint32_t number) { return VarintSize(uint64_t{number} << 3); }
uint64_t DelimitedSize(uint64_t payload) { return VarintSize(payload) + payload; }

// Calls visit(row, member) for every field of the message, in order.
template <typename M, typename Visit>
void ForEachField(const M& message, Visit&& visit) {
  std::apply([&](const auto&... rows) { (visit(rows, message.*rows.member), ...); },
             FieldTable<M>::kRows);
}

// First pass: the length of every nested message, in the order in which the second pass needs them.
class Measure {
 public:
  template <typename M>
  uint64_t Message(const M& message) {
    uint64_t size = 0;
    ForEachField(message, [&](const auto& row, const auto& member) {
      size += Member(row.number, row.rule, member);
    });
    for (const std::string_view field : message.unknown_fields) size += field.size();
    return size;
  }
  std::vector<uint64_t> TakeLengths() { return std::move(lengths_); }

 private:
  template <typename T>
  uint64_t Member(uint32_t number, FieldRule, const Field<T>& field) {
    return field.has_value() ? TagSize(number) + Value(*field) : 0;
  }
  template <typename T>
  uint64_t Member(uint32_t number, FieldRule, const Box<T>& box) {
    return box.has_value() ? TagSize(number) + Value(*box) : 0;
  }
  template <typename T>
  uint64_t Member(uint32_t number, FieldRule rule, const std::vector<T>& values) {
    if (values.empty()) return 0;
    if constexpr (kIsNumber<T>) {
      const uint64_t payload = PackedSize(values);
      if (rule == FieldRule::kPacked) return TagSize(number) + DelimitedSize(payload);
      return TagSize(number) * values.size() + payload;
    } else {
      uint64_t size = TagSize(number) * values.size();
      for (const T& value : values) size += Value(value);
      return size;
    }
  }
  template <typename T>
  uint64_t Value(const T& value) {
    if constexpr (kIsNumber<T>) {
      return NumberSize(value);
    } else if constexpr (kIsText<T>) {
      return DelimitedSize(value.size());
    } else {
      const size_t slot = lengths_.size();
      lengths_.push_back(0);
      const uint64_t size = Message(value);
      lengths_[slot] = size;
      return DelimitedSize(size);
    }
  }

  std::vector<uint64_t> lengths_;
};

// Second pass: writes to Sink, which has Append(std::string_view).
template <typename Sink>
class Emit {
 public:
  Emit(std::vector<uint64_t> lengths, Sink& sink) : lengths_(std::move(lengths)), sink_(sink) {}

  template <typename M>
  void Message(const M& message) {
    ForEachField(message, [&](const auto& row, const auto& member) {
      Member(row.number, row.rule, member);
    });
    for (const std::string_view field : message.unknown_fields) sink_.Append(field);
  }

 private:
  template <typename T>
  void Member(uint32_t number, FieldRule, const Field<T>& field) {
    if (field.has_value()) Tagged(number, *field);
  }
  template <typename T>
  void Member(uint32_t number, FieldRule, const Box<T>& box) {
    if (box.has_value()) Tagged(number, *box);
  }
  template <typename T>
  void Member(uint32_t number, FieldRule rule, const std::vector<T>& values) {
    if constexpr (kIsNumber<T>) {
      if (rule == FieldRule::kPacked && !values.empty()) {
        Tag(number, WireType::length_delimited);
        Varint(PackedSize(values));
        for (const T value : values) Value(value);
        return;
      }
    }
    for (const T& value : values) Tagged(number, value);
  }
  template <typename T>
  void Tagged(uint32_t number, const T& value) {
    Tag(number, kWireTypeOf<T>);
    Value(value);
  }
  template <typename T>
  void Value(const T& value) {
    if constexpr (std::is_integral_v<T>) {
      Varint(VarintOf(value));
    } else if constexpr (std::is_floating_point_v<T>) {
      char bytes[sizeof value];
      std::memcpy(bytes, &value, sizeof value);
      sink_.Append({bytes, sizeof value});
    } else if constexpr (kIsText<T>) {
      Varint(value.size());
      sink_.Append(value);
    } else {
      Varint(lengths_[next_length_++]);
      Message(value);
    }
  }
  void Tag(uint32_t number, WireType type) {
    Varint(uint64_t{number} << 3 | static_cast<uint64_t>(type));
  }
  void Varint(uint64_t value) {
    char bytes[protozero::max_varint_length];
    const int size = protozero::write_varint(bytes, value);
    sink_.Append({bytes, static_cast<size_t>(size)});
  }

  std::vector<uint64_t> lengths_;
  size_t next_length_ = 0;
  Sink& sink_;
};

struct StringSink {
  std::string text;
  void Append(std::string_view bytes) { text.append(bytes); }
};

class FileSink {
 public:
  explicit FileSink(const std::string& path)
      : path_(path), file_(std::fopen(path.c_str(), "wbe"), &std::fclose) {
    if (file_ == nullptr) FailToWrite();
  }
  void Append(std::string_view bytes) {
    if (!bytes.empty() && std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) {
      FailToWrite();
    }
  }
  void Close() {
    if (std::fclose(file_.release()) != 0) FailToWrite();
  }

 private:
  [[noreturn]] void FailToWrite() const {
    Fail(ErrorCode::kNotFound, "{}: cannot write the file: {}", path_,
         std::generic_category().message(errno));
  }

  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

template <typename M, typename Sink>
void WriteTo(const M& message, Sink& sink) {
  Measure measure;
  measure.Message(message);
  Emit<Sink>(measure.TakeLengths(), sink).Message(message);
}

template <typename M>
std::string ToString(const M& message) {
  StringSink sink;
  Measure measure;
  sink.text.reserve(measure.Message(message));
  Emit<StringSink>(measure.TakeLengths(), sink).Message(message);
  return std::move(sink.text);
}

}  // namespace

std::string Serialize(const ModelProto& message) { return ToString(message); }
std::string Serialize(const FunctionProto& message) { return ToString(message); }
std::string Serialize(const TensorProto& message) { return ToString(message); }
std::string Serialize(const SequenceProto& message) { return ToString(message); }
std::string Serialize(const OptionalProto& message) { return ToString(message); }

void WriteModel(const ModelProto& model, const std::string& path) {
  const std::string partial = path + ".partial";
  try {
    FileSink sink(partial);
    WriteTo(model, sink);
    sink.Close();
    if (std::rename(partial.c_str(), path.c_str()) != 0) {
      Fail(ErrorCode::kNotFound, "{}: cannot write the file: {}", path,
           std::generic_category().message(errno));
    }
  } catch (...) {
    std::remove(partial.c_str());
    throw;
  }
}

}  // namespace sardonyx::onnx
