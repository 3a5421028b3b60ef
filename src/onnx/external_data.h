#pragma once
// Tensor data in files beside the model, opened against a hostile model: nothing outside the
// model's folder is ever read (threats as in onnx's docs/ExternalDataSecurity.md).

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/mapped_file.h"
#include "onnx/model.h"

namespace sardonyx::onnx {

// The entries of TensorProto.external_data. "checksum" is not verified: that would read every
// weight while loading.
struct ExternalDataInfo {
  std::string_view location;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};
// Throws kInvalidModel for a missing location, a repeated key, or numbers that are not
// non-negative decimals of 64 bits. Unknown keys are ignored.
ExternalDataInfo ReadExternalDataInfo(const TensorProto& tensor);

// Whether the bytes lie in the mapping.
inline bool Contains(const MappedFile& file, std::string_view part) {
  return part.data() >= file.bytes().data() &&
         part.data() + part.size() <= file.bytes().data() + file.bytes().size();
}

// The files one model refers to, each mapped once, on first use. Safe to call from many threads.
class ExternalFiles {
 public:
  // An empty folder: the model came as bytes, Open throws. An empty path of the model: it did, and
  // its data lies in the folder.
  explicit ExternalFiles(std::string folder, std::string model = "")
      : folder_(std::move(folder)), model_(std::move(model)) {}

  // The file at that path relative to the model's folder. Symbolic links are followed to what lies
  // beneath that folder, or beneath the one of the file that the model's own path leads to: caches
  // of downloads keep all files in one folder, and links to them in another. Throws kInvalidModel
  // for a location that is empty, absolute, has "..", or leads over a link to anywhere else, to
  // anything but a regular file, or to a file with several hard links; kNotFound when absent;
  // kInvalidArgument without a folder.
  std::shared_ptr<const MappedFile> Open(std::string_view location);

  // The files opened so far, by location.
  std::map<std::string, std::shared_ptr<const MappedFile>, std::less<>> opened() {
    const std::lock_guard lock(mutex_);
    return files_;
  }
  // The one of the files opened in which the bytes lie, or null.
  std::shared_ptr<const MappedFile> FileOf(std::string_view part);

 private:
  std::string folder_, model_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const MappedFile>, std::less<>> files_;
};

}  // namespace sardonyx::onnx
