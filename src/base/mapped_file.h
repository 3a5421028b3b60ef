#pragma once
// Read-only views of whole files through the page cache.

#include <cstddef>
#include <memory>
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

  // Gives the memory of the pages in and around `part` (of bytes()) back; they are read again when
  // touched. For parts that were copied elsewhere, which would otherwise count twice.
  void DropPages(std::string_view part) const;

 private:
  MappedFile(const char* data, size_t size, std::string path);

  const char* data_;
  size_t size_;
  std::string path_;
};

}  // namespace sardonyx
