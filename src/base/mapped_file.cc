#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace sardonyx {
namespace {

std::string Reason(int error) { return std::generic_category().message(error); }

// Closes a descriptor when the scope ends.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(value_); }
  int value() const { return value_; }

 private:
  int value_;
};

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::Open(const std::string& path) {
  if (path.empty()) Fail(ErrorCode::kNotFound, "cannot open a file: the path is empty");
  if (path.find('\0') != std::string::npos) {
    Fail(ErrorCode::kNotFound, "{}...: cannot open the file: the path holds a zero", path.c_str());
  }
  // O_NONBLOCK: opening a named pipe must fail below, not wait for a writer.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    Fail(ErrorCode::kNotFound, "{}: cannot open the file: {}", path, Reason(errno));
  }
  return FromDescriptor(descriptor, path);
}

std::shared_ptr<const MappedFile> MappedFile::FromDescriptor(int descriptor,
                                                             const std::string& path) {
  const Descriptor file(descriptor);
  struct stat status = {};
  if (fstat(file.value(), &status) != 0) {
    Fail(ErrorCode::kNotFound, "{}: cannot read the file's size: {}", path, Reason(errno));
  }
  if (S_ISDIR(status.st_mode)) Fail(ErrorCode::kNotFound, "{}: is a folder, not a file", path);
  if (!S_ISREG(status.st_mode)) {
    Fail(ErrorCode::kNotFound, "{}: is not a regular file (a pipe, device or socket)", path);
  }
  const auto size = static_cast<size_t>(status.st_size);
  const char* data = nullptr;
  if (size > 0) {
    void* address = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.value(), 0);
    if (address == MAP_FAILED) {
      Fail(ErrorCode::kOutOfMemory, "{}: cannot map {} bytes: {}", path, size, Reason(errno));
    }
    data = static_cast<const char*>(address);
  }
  return std::shared_ptr<const MappedFile>(
      new MappedFile(data, size, path, {status.st_dev, status.st_ino}));
}

MappedFile::MappedFile(const char* data, size_t size, std::string path, Identity identity)
    : data_(data), size_(size), path_(std::move(path)), identity_(identity) {}

void MappedFile::DropPages(const void* part, int64_t size, bool is_followed) const {
  // A page that is read brings those with it that the system cached together, up to 2 MiB, which
  // begin at multiples of their size: they go together, too.
  constexpr size_t kUnit = 2 << 20;
  // The mapping begins at a page, so offsets tell where the others begin.
  const auto offset = static_cast<size_t>(static_cast<const char*>(part) - data_);
  const size_t begin = offset / kUnit * kUnit, last = offset + static_cast<size_t>(size);
  const size_t end = std::min((is_followed ? last : last + kUnit - 1) / kUnit * kUnit, size_);
  // Only advice: when it fails, nothing but memory is lost.
  if (begin < end) madvise(const_cast<char*>(data_) + begin, end - begin, MADV_DONTNEED);
}

void MappedFile::Read(const void* part, int64_t size, void* to) const {
  // Opened when needed and not before: a model may have a file for each of hundreds of weights.
  std::call_once(opened_, [&] {
    descriptor_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status = {};
    if (descriptor_ < 0 ||
        (fstat(descriptor_, &status) == 0 && Identity{status.st_dev, status.st_ino} == identity_)) {
      return;
    }
    close(descriptor_);
    descriptor_ = -1;
  });
  const auto* const from = static_cast<const char*>(part);
  auto* const bytes = static_cast<char*>(to);
  int64_t done = 0;
  while (descriptor_ >= 0 && done < size) {
    const ssize_t count =
        pread(descriptor_, bytes + done, static_cast<size_t>(size - done), from - data_ + done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += count;
  }
  std::copy(from + done, from + size, bytes + done);
}

MappedFile::~MappedFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
}

}  // namespace sardonyx
