#include "onnx/external_data.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"

namespace sardonyx::onnx {
namespace {

uint64_t ReadNumber(std::string_view key, std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    Fail(ErrorCode::kInvalidModel,
         "external data: {} is '{}', but must be a decimal number from 0 to 2^64-1", key, text);
  }
  return value;
}

// The folders and the file that the location names; refuses what could lead outside.
std::vector<std::string> Components(std::string_view location) {
  const auto refuse = [&](std::string_view reason) {
    Fail(ErrorCode::kInvalidModel,
         "external data '{}': {}; external data must lie beneath the model's folder",
         location.substr(0, location.find('\0')), reason);
  };
  if (location.empty()) refuse("the location is empty");
  if (location.front() == '/') refuse("the path is absolute");
  if (location.find('\0') != std::string_view::npos) refuse("the path has a NUL character");
  std::vector<std::string> parts;
  while (!location.empty()) {
    const size_t slash = location.find('/');
    const std::string_view part = location.substr(0, slash);
    if (part == "..") refuse("the path has '..'");
    if (!part.empty() && part != ".") parts.emplace_back(part);
    location = slash == std::string_view::npos ? std::string_view() : location.substr(slash + 1);
  }
  if (parts.empty()) refuse("the path names no file");
  return parts;
}

class Folder {
 public:
  explicit Folder(int descriptor) : descriptor_(descriptor) {}
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { close(descriptor_); }
  int descriptor() const { return descriptor_; }
  void Enter(int descriptor) {
    close(descriptor_);
    descriptor_ = descriptor;
  }

 private:
  int descriptor_;
};

bool IsLink(int folder, const std::string& part) {
  struct stat status = {};
  return fstatat(folder, part.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISLNK(status.st_mode);
}

// Opens the file component by component and never through a link, so that no later change of a
// component can lead the open elsewhere. None: a component is a link, which `link` then names.
std::optional<int> OpenBeneath(const std::string& root, std::string_view location,
                               std::string* link) {
  const std::vector<std::string> parts = Components(location);
  const int start = open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (start < 0) {
    Fail(ErrorCode::kNotFound, "external data '{}': cannot open the model's folder '{}': {}",
         location, root, std::generic_category().message(errno));
  }
  Folder folder(start);
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    // O_NONBLOCK: a named pipe must be refused below, not waited for.
    const int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | (last ? O_NONBLOCK : O_DIRECTORY);
    const int next = openat(folder.descriptor(), parts[i].c_str(), flags);
    if (next < 0) {
      const int error = errno;
      if (IsLink(folder.descriptor(), parts[i])) {
        *link = parts[i];
        return std::nullopt;
      }
      Fail(ErrorCode::kNotFound, "external data '{}' in folder '{}': cannot open it: {}", location,
           root, std::generic_category().message(error));
    }
    if (last) return next;
    folder.Enter(next);
  }
  Fail(ErrorCode::kInternal, "external data '{}': no path component was opened", location);
}

// Opens a file that a link leads to, if that lies beneath the folder, or the one of the file that
// the model's path leads to.
int OpenLinked(const std::string& folder, const std::string& model, std::string_view location,
               std::string link) {
  std::error_code error;
  const auto file = std::filesystem::canonical(folder + "/" + std::string(location), error);
  if (error) {
    Fail(ErrorCode::kNotFound, "external data '{}': the symbolic link '{}' cannot be followed: {}",
         location, link, error.message());
  }
  // What cannot be resolved is empty, and holds nothing.
  for (const auto& root : {std::filesystem::canonical(folder, error),
                           std::filesystem::canonical(model, error).parent_path()}) {
    const auto beneath = file.lexically_relative(root);
    if (root.empty() || beneath.empty() || *beneath.begin() == "..") continue;
    if (const auto opened = OpenBeneath(root.string(), beneath.string(), &link)) return *opened;
  }
  Fail(ErrorCode::kInvalidModel,
       "external data '{}': the symbolic link '{}' leads to '{}', which is not beneath the model's "
       "folder; put the file itself there",
       location, link, file.string());
}

}  // namespace

ExternalDataInfo ReadExternalDataInfo(const TensorProto& tensor) {
  ExternalDataInfo info;
  bool has_location = false;
  bool has_offset = false;
  const auto once = [](bool seen, std::string_view key) {
    if (seen) Fail(ErrorCode::kInvalidModel, "external data: the key '{}' is given twice", key);
  };
  for (const StringStringEntryProto& entry : tensor.external_data) {
    const std::string_view key = entry.key.Get();
    const std::string_view value = entry.value.Get();
    if (key == "location") {
      once(std::exchange(has_location, true), key);
      info.location = value;
    } else if (key == "offset") {
      once(std::exchange(has_offset, true), key);
      info.offset = ReadNumber(key, value);
    } else if (key == "length") {
      once(info.length.has_value(), key);
      info.length = ReadNumber(key, value);
    }
  }
  if (!has_location) {
    Fail(ErrorCode::kInvalidModel, "external data: there is no 'location' that names the file");
  }
  return info;
}

std::shared_ptr<const MappedFile> ExternalFiles::Open(std::string_view location) {
  if (folder_.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "the model was given as bytes, but has external data in '{}': load it from its path, or "
         "give the folder of its external data",
         location);
  }
  const std::lock_guard lock(mutex_);
  if (const auto found = files_.find(location); found != files_.end()) return found->second;
  std::string link;
  const std::optional<int> beneath = OpenBeneath(folder_, location, &link);
  const int descriptor = beneath ? *beneath : OpenLinked(folder_, model_, location, link);
  struct stat status = {};
  if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink > 1) {
    close(descriptor);
    Fail(ErrorCode::kInvalidModel,
         "external data '{}': the file has {} hard links, so it may be a file from outside the "
         "model's folder; put a copy of its own there",
         location, status.st_nlink);
  }
  std::shared_ptr<const MappedFile> file;
  try {
    file = MappedFile::FromDescriptor(descriptor, folder_ + "/" + std::string(location));
  } catch (const Error& error) {
    const bool wrong_kind = error.code() == ErrorCode::kNotFound;
    throw Error(wrong_kind ? ErrorCode::kInvalidModel : error.code(),
                std::string("external data: ") + error.what());
  }
  files_.emplace(location, file);
  return file;
}

std::shared_ptr<const MappedFile> ExternalFiles::FileOf(std::string_view part) {
  const std::lock_guard lock(mutex_);
  for (const auto& [location, file] : files_) {
    if (Contains(*file, part)) return file;
  }
  return nullptr;
}

}  // namespace sardonyx::onnx
