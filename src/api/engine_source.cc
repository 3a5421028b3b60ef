#include "api/engine_source.h"

#include <filesystem>

#include "base/mapped_file.h"
#include "engine/digest.h"
#include "onnx/external_data.h"

namespace sardonyx {
namespace {

namespace fs = std::filesystem;

void CheckOther(const MappedFile& file, const std::string& engine) {
  std::error_code unknown;
  if (fs::equivalent(file.path(), engine, unknown)) {
    Fail(ErrorCode::kInvalidArgument, "the engine file would replace {}; name another", engine);
  }
}

engine::SourceFile Remember(const MappedFile& file, const fs::path& folder) {
  return {fs::proximate(file.path(), folder).string(), file.bytes().size(),
          engine::Digest(file.bytes())};
}

fs::path FolderOf(const std::string& path) { return fs::absolute(path).parent_path(); }

}  // namespace

std::vector<engine::SourceFile> RememberSources(const onnx::ModelFile& model,
                                                const std::string& engine) {
  if (model.mapping == nullptr) return {};
  CheckOther(*model.mapping, engine);
  const fs::path folder = FolderOf(engine);
  std::vector<engine::SourceFile> sources = {Remember(*model.mapping, folder)};
  for (const auto& [location, file] : model.external_files->opened()) {
    CheckOther(*file, engine);
    sources.push_back(Remember(*file, folder));
  }
  return sources;
}

std::string FindSource(const engine::Provenance& provenance, const std::string& engine,
                       std::string_view why) {
  if (provenance.sources.empty()) {
    Fail(ErrorCode::kNotFound, "{}, and the engine was not compiled from a file", why);
  }
  const fs::path folder = FolderOf(engine);
  for (const engine::SourceFile& source : provenance.sources) {
    const std::string path = (folder / source.path).lexically_normal().string();
    const std::string needed = fmt::format("{}; that needs the model it was compiled from", why);
    const auto file = WithContext(needed, [&] { return MappedFile::Open(path); });
    const engine::SourceFile now = Remember(*file, folder);
    if (now.bytes != source.bytes || now.digest != source.digest) {
      Fail(ErrorCode::kNotFound, "{}, but {} has changed since", needed, path);
    }
  }
  return (folder / provenance.sources[0].path).lexically_normal().string();
}

}  // namespace sardonyx
