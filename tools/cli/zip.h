#pragma once
// Zip archives as .npz files are: entries stored or deflated, with the 64-bit extension.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sardonyx::cli {

// Entries (name, content) in the order of the archive's directory. Throws Error naming `path`.
std::vector<std::pair<std::string, std::string>> ReadZip(std::string_view bytes,
                                                         const std::string& path);
// An archive of stored entries.
std::string WriteZip(const std::vector<std::pair<std::string, std::string>>& entries);

}  // namespace sardonyx::cli
