#include "zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "fmt/format.h"
#include "sardonyx/error.hpp"

// Layout: APPNOTE.TXT of PKWARE, sections 4.3.7 (local header), 4.3.12 (directory), 4.3.16 (end)
// and 4.5.3 (64-bit sizes).

namespace sardonyx::cli {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kDirectoryEntry = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50;
constexpr uint32_t kEnd64Locator = 0x07064b50;
constexpr uint32_t kEnd64 = 0x06064b50;
constexpr uint32_t kIn64 = 0xffffffff;

class Reader {
 public:
  Reader(std::string_view bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  [[noreturn]] void Fail(std::string_view what) const {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: no valid .npz file: {}", path_, what));
  }
  template <typename T>
  T At(uint64_t offset) const {
    T value;
    std::memcpy(&value, Slice(offset, sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string_view Slice(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) Fail("it is cut off");
    return bytes_.substr(offset, size);
  }
  uint64_t size() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
  const std::string& path_;
};

struct Entry {
  std::string name;
  uint64_t packed, unpacked, offset;
  uint16_t method;
  uint32_t crc;
};

// Replaces sizes that stand in the extra field by those.
void Read64(const Reader& reader, uint64_t at, uint64_t size, Entry* entry) {
  const uint64_t end = at + size;
  while (at + 4 <= end) {
    const auto id = reader.At<uint16_t>(at);
    const auto length = reader.At<uint16_t>(at + 2);
    uint64_t field = at + 4;
    at = field + length;
    if (id != 1) continue;
    for (uint64_t* value : {&entry->unpacked, &entry->packed, &entry->offset}) {
      if (*value != kIn64) continue;
      *value = reader.At<uint64_t>(field);
      field += 8;
    }
  }
}

std::vector<Entry> ReadDirectory(const Reader& reader) {
  constexpr uint64_t kEndSize = 22;
  constexpr uint64_t kMaxComment = 65535;
  if (reader.size() < kEndSize) reader.Fail("it is too short");
  uint64_t end = reader.size() - kEndSize;
  const uint64_t lowest = end > kMaxComment ? end - kMaxComment : 0;
  while (reader.At<uint32_t>(end) != kEnd) {
    if (end-- == lowest) reader.Fail("it is no zip archive");
  }
  uint64_t count = reader.At<uint16_t>(end + 10);
  uint64_t at = reader.At<uint32_t>(end + 16);
  if (end >= 20 && reader.At<uint32_t>(end - 20) == kEnd64Locator) {
    const auto end64 = reader.At<uint64_t>(end - 12);
    if (reader.At<uint32_t>(end64) != kEnd64) reader.Fail("its directory is damaged");
    count = reader.At<uint64_t>(end64 + 32);
    at = reader.At<uint64_t>(end64 + 48);
  }
  std::vector<Entry> entries;
  for (uint64_t i = 0; i < count; ++i) {
    if (reader.At<uint32_t>(at) != kDirectoryEntry) reader.Fail("its directory is damaged");
    if ((reader.At<uint16_t>(at + 8) & 1) != 0) reader.Fail("it is encrypted");
    const auto name_size = reader.At<uint16_t>(at + 28);
    const auto extra_size = reader.At<uint16_t>(at + 30);
    const auto comment_size = reader.At<uint16_t>(at + 32);
    Entry entry{std::string(reader.Slice(at + 46, name_size)),
                reader.At<uint32_t>(at + 20),
                reader.At<uint32_t>(at + 24),
                reader.At<uint32_t>(at + 42),
                reader.At<uint16_t>(at + 10),
                reader.At<uint32_t>(at + 16)};
    Read64(reader, at + 46 + name_size, extra_size, &entry);
    entries.push_back(std::move(entry));
    at += 46 + name_size + extra_size + comment_size;
  }
  return entries;
}

std::string Inflate(const Reader& reader, std::string_view packed, uint64_t size) {
  // deflate cannot shrink by more: the size of a damaged archive must not exhaust memory.
  constexpr uint64_t kMaxRatio = 1040;
  if (size > (packed.size() + 1) * kMaxRatio) reader.Fail("an entry's size is impossible");
  std::string out(size, '\0');
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) reader.Fail("zlib cannot start");
  constexpr uint64_t kStep = 1U << 30;
  uint64_t in_left = packed.size();
  uint64_t out_left = size;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  int result = Z_OK;
  while (result == Z_OK) {
    if (stream.avail_in == 0) {
      stream.avail_in = static_cast<uInt>(std::min(in_left, kStep));
      in_left -= stream.avail_in;
    }
    if (stream.avail_out == 0) {
      stream.avail_out = static_cast<uInt>(std::min(out_left, kStep));
      out_left -= stream.avail_out;
    }
    result = inflate(&stream, Z_NO_FLUSH);
  }
  const bool whole = result == Z_STREAM_END && out_left == 0 && stream.avail_out == 0;
  inflateEnd(&stream);
  if (!whole) reader.Fail("an entry is damaged");
  return out;
}

uint32_t Crc(std::string_view content) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
}

template <typename T>
void Put(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(T));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> ReadZip(std::string_view bytes,
                                                         const std::string& path) {
  const Reader reader(bytes, path);
  std::vector<std::pair<std::string, std::string>> files;
  for (const Entry& entry : ReadDirectory(reader)) {
    if (reader.At<uint32_t>(entry.offset) != kLocalHeader) reader.Fail("an entry is damaged");
    const uint64_t data = entry.offset + 30 + reader.At<uint16_t>(entry.offset + 26) +
                          reader.At<uint16_t>(entry.offset + 28);
    const std::string_view packed = reader.Slice(data, entry.packed);
    if (entry.method == 0) {
      files.emplace_back(entry.name, packed);
    } else if (entry.method == 8) {
      files.emplace_back(entry.name, Inflate(reader, packed, entry.unpacked));
    } else {
      reader.Fail(fmt::format("entry '{}' is packed by method {}", entry.name, entry.method));
    }
    if (Crc(files.back().second) != entry.crc) reader.Fail("an entry is damaged");
  }
  return files;
}

std::string WriteZip(const std::vector<std::pair<std::string, std::string>>& entries) {
  constexpr uint16_t kVersion64 = 45;
  constexpr uint16_t kDay = 33;  // 1980-01-01: equal content gives equal archives
  std::string out;
  std::string directory;
  for (const auto& [name, content] : entries) {
    const uint64_t offset = out.size();
    const uint64_t size = content.size();
    const uint32_t crc = Crc(content);
    auto common = [&](std::string* to, uint16_t extra_size) {
      Put(to, kVersion64);
      Put<uint16_t>(to, 0);  // flags
      Put<uint16_t>(to, 0);  // stored
      Put<uint16_t>(to, 0);  // time
      Put(to, kDay);
      Put(to, crc);
      Put(to, kIn64);
      Put(to, kIn64);
      Put(to, static_cast<uint16_t>(name.size()));
      Put(to, extra_size);
    };
    Put(&out, kLocalHeader);
    common(&out, 20);
    out += name;
    Put<uint16_t>(&out, 1);
    Put<uint16_t>(&out, 16);
    Put(&out, size);
    Put(&out, size);
    out += content;

    Put(&directory, kDirectoryEntry);
    Put(&directory, kVersion64);
    common(&directory, 28);
    Put<uint16_t>(&directory, 0);  // comment
    Put<uint16_t>(&directory, 0);  // disk
    Put<uint16_t>(&directory, 0);  // internal attributes
    Put<uint32_t>(&directory, 0);  // external attributes
    Put(&directory, kIn64);
    directory += name;
    Put<uint16_t>(&directory, 1);
    Put<uint16_t>(&directory, 24);
    Put(&directory, size);
    Put(&directory, size);
    Put(&directory, offset);
  }
  const uint64_t start = out.size();
  const uint64_t count = entries.size();
  out += directory;
  const uint64_t end64 = out.size();
  Put(&out, kEnd64);
  Put<uint64_t>(&out, 44);
  Put(&out, kVersion64);
  Put(&out, kVersion64);
  Put<uint32_t>(&out, 0);
  Put<uint32_t>(&out, 0);
  Put(&out, count);
  Put(&out, count);
  Put<uint64_t>(&out, directory.size());
  Put(&out, start);
  Put(&out, kEnd64Locator);
  Put<uint32_t>(&out, 0);
  Put(&out, end64);
  Put<uint32_t>(&out, 1);
  Put(&out, kEnd);
  Put<uint16_t>(&out, 0);
  Put<uint16_t>(&out, 0);
  Put<uint16_t>(&out, 0xffff);
  Put<uint16_t>(&out, 0xffff);
  Put(&out, kIn64);
  Put(&out, kIn64);
  Put<uint16_t>(&out, 0);
  return out;
}

}  // namespace sardonyx::cli
