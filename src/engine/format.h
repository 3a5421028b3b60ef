#pragma once
// The fixed part of an engine file. The rest stands in docs/engine-files.md.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/digest.h"

namespace sardonyx::engine {

inline constexpr std::string_view kMagic = "SARDONYX";
inline constexpr uint32_t kByteOrder = 0x01020304;
// To be raised when the header or the manifest's first part, the provenance, changes; all else is
// covered by the name of the build.
inline constexpr uint32_t kFormat = 2;

struct Header {
  char magic[8];
  uint32_t byte_order;
  uint32_t format;
  uint64_t file_bytes;
  uint64_t manifest_offset;
  uint64_t manifest_bytes;  // it ends with the file
  uint64_t manifest_digest;
  uint64_t reserved;
  uint64_t digest;  // of what stands before
};
static_assert(sizeof(Header) == 64);

inline uint64_t HeaderDigest(const Header& header) {
  return Digest({reinterpret_cast<const char*>(&header), offsetof(Header, digest)});
}

}  // namespace sardonyx::engine
