#pragma once
// Files as strings. Errors name the path and the system's reason.

#include <string>
#include <string_view>

namespace sardonyx::cli {

std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, std::string_view content);
bool EndsWith(std::string_view text, std::string_view ending);

}  // namespace sardonyx::cli
