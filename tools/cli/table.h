#pragma once
// Text in columns.

#include <string>
#include <vector>

#include "sardonyx/sardonyx.hpp"

namespace sardonyx::cli {

// Prints rows with columns as wide as their widest cell, two spaces between and two in front. The
// columns named by `right` (from 0) are aligned to the right.
void PrintTable(const std::vector<std::vector<std::string>>& rows,
                const std::vector<size_t>& right = {});

// "[1,3,224,224]", "[batch,3,?]"
std::string PrintShape(const std::vector<int64_t>& dims);
std::string PrintShape(const ValueInfo& info);
// "12.3 MiB"
std::string PrintBytes(double bytes);

}  // namespace sardonyx::cli
