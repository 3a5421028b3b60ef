#pragma once
// Read-only views of whole files through the page cache.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace sardonyx {

// A file mapped into memory, unmapped with the last owner. The file must not be shortened while it
// is mapped: the operating system then kills a reader of the missing part.
class MappedFile {
 public:
  // Throws kNotFound, naming the path and the reason, when the file is absent, not readable, or not
  // a regular file. An empty file maps to an empty view.
  static std::shared_ptr<const MappedFile> Open(const std::string& path);
  // The same for an open file; closes `descriptor` in any case. `path` is for messages.
  static std::shared_ptr<const MappedFile> FromDescriptor(int descriptor, const std::string& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::string_view bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // Gives the memory of the pages in and around a part of bytes() back; they are read again when
  // touched. For parts that were copied elsewhere, which would otherwise count twice. With
  // `is_followed` what lies behind is read next: pages that it shares are left to it.
  void DropPages(const void* part, int64_t size, bool is_followed = false) const;

  // Copies a part of bytes() by reading the file, which maps nothing: to touch a page maps all that
  // the system cached with it, up to 2 MiB, and that counts as memory of the process. Takes it from
  // the mapping if the path no longer leads to this file.
  void Read(const void* part, int64_t size, void* to) const;

 private:
  // What tells a file from others, as stat has it.
  struct Identity {
    dev_t device;
    ino_t number;
    bool operator==(const Identity&) const = default;
  };
  MappedFile(const char* data, size_t size, std::string path, Identity identity);

  const char* data_;
  size_t size_;
  std::string path_;
  Identity identity_;
  mutable std::once_flag opened_;
  mutable int descriptor_ = -1;  // opened by the first Read; -1 also where that failed
};

}  // namespace sardonyx
