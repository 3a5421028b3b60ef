#include "files.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "fmt/format.h"
#include "sardonyx/error.hpp"

namespace sardonyx::cli {
namespace {

[[noreturn]] void Fail(ErrorCode code, const std::string& path, const char* what) {
  throw Error(code, fmt::format("{}: {}: {}", path, what, std::strerror(errno)));
}

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

}  // namespace

std::string ReadFile(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) Fail(ErrorCode::kNotFound, path, "cannot open the file");
  std::string content;
  char buffer[1 << 16];
  while (const size_t count = std::fread(buffer, 1, sizeof(buffer), file.get())) {
    content.append(buffer, count);
  }
  if (std::ferror(file.get()) != 0) Fail(ErrorCode::kNotFound, path, "cannot read the file");
  return content;
}

void WriteFile(const std::string& path, std::string_view content) {
  File file(std::fopen(path.c_str(), "wb"), &std::fclose);
  if (file == nullptr) Fail(ErrorCode::kInvalidArgument, path, "cannot write the file");
  const bool whole = std::fwrite(content.data(), 1, content.size(), file.get()) == content.size();
  if (std::fclose(file.release()) != 0 || !whole) {
    Fail(ErrorCode::kInvalidArgument, path, "cannot write the file");
  }
}

bool EndsWith(std::string_view text, std::string_view ending) {
  return text.size() >= ending.size() && text.substr(text.size() - ending.size()) == ending;
}

}  // namespace sardonyx::cli
