#include "table.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace sardonyx::cli {
namespace {

// Columns that a terminal needs for UTF-8 text of single-width characters.
size_t WidthOf(const std::string& text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; });
}

}  // namespace

void PrintTable(const std::vector<std::vector<std::string>>& rows,
                const std::vector<size_t>& right) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], WidthOf(row[i]));
  }
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - WidthOf(row[i]), ' ');
      const bool to_right = std::find(right.begin(), right.end(), i) != right.end();
      line += "  " + (to_right ? space + row[i] : row[i] + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print("{}\n", line);
  }
}

std::string PrintShape(const std::vector<int64_t>& dims) {
  return fmt::format("[{}]", fmt::join(dims, ","));
}

std::string PrintShape(const ValueInfo& info) {
  if (!info.has_shape) return "any shape";
  std::vector<std::string> sizes;
  for (const Dimension& dim : info.shape) {
    sizes.push_back(dim.value >= 0 ? std::to_string(dim.value)
                                   : (dim.symbol.empty() ? "?" : dim.symbol));
  }
  return fmt::format("[{}]", fmt::join(sizes, ","));
}

std::string PrintBytes(double bytes) {
  for (const char* unit : {"B", "KiB", "MiB"}) {
    if (bytes < 1024) return fmt::format("{:.{}f} {}", bytes, unit[1] == '\0' ? 0 : 1, unit);
    bytes /= 1024;
  }
  return fmt::format("{:.2f} GiB", bytes);
}

}  // namespace sardonyx::cli
