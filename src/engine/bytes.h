#pragma once
// Numbers and texts as bytes of an engine file, little-endian, and back. The reader trusts nothing:
// every length is compared with what is left before it is used.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"

namespace sardonyx::engine {

class ByteWriter {
 public:
  template <typename T>
  void Number(T value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void Count(size_t value) { Number(static_cast<uint32_t>(value)); }
  void Text(std::string_view text) {
    Count(text.size());
    bytes_.append(text);
  }
  template <typename T>
  void Numbers(const std::vector<T>& values) {
    Count(values.size());
    for (const T& value : values) Number(value);
  }
  void Texts(const std::vector<std::string>& values) {
    Count(values.size());
    for (const std::string& value : values) Text(value);
  }
  // Bytes that begin at a multiple of `alignment` from the start.
  void Aligned(std::string_view bytes, size_t alignment) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
    bytes_.append(bytes);
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// Throws kInvalidModel where the bytes end too early or say what cannot be.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  T Number() {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
    T value;
    std::memcpy(&value, Take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  // A number of things of which each takes at least `least` bytes.
  size_t Count(size_t least = 1) {
    const size_t count = Number<uint32_t>();
    if (count > (bytes_.size() - at_) / least) Damaged();
    return count;
  }
  // A number below `end`.
  size_t Index(size_t end) {
    const size_t index = Number<uint32_t>();
    if (index >= end) Damaged();
    return index;
  }
  std::string Text() { return std::string(Take(Count())); }
  template <typename T>
  std::vector<T> Numbers() {
    std::vector<T> values(Count(sizeof(T)));
    for (T& value : values) value = Number<T>();
    return values;
  }
  std::vector<std::string> Texts() {
    std::vector<std::string> values(Count(sizeof(uint32_t)));
    for (std::string& value : values) value = Text();
    return values;
  }
  std::string_view Aligned(size_t size, size_t alignment) {
    const size_t padding = (alignment - at_ % alignment) % alignment;
    Take(padding);
    return Take(size);
  }
  bool at_end() const { return at_ == bytes_.size(); }

  [[noreturn]] static void Damaged() {
    Fail(ErrorCode::kInvalidModel, "the engine file is damaged: its contents make no sense");
  }

 private:
  std::string_view Take(size_t size) {
    if (size > bytes_.size() - at_) Damaged();
    const std::string_view part = bytes_.substr(at_, size);
    at_ += size;
    return part;
  }

  std::string_view bytes_;
  size_t at_ = 0;
};

}  // namespace sardonyx::engine
