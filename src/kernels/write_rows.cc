#include "kernels/write_rows.h"

#include <algorithm>
#include <cstring>

#include "kernels/slices.h"

namespace sardonyx {
namespace {

// Rows [begin, end) of one line of y.
void WriteLine(const WriteRowsShape& s, const char* x, const char* rows, int64_t first, char* y,
               int64_t begin, int64_t end) {
  for (int64_t row = begin, next; row < end; row = next) {
    const int64_t behind = row - first + (row < first ? s.length : 0);  // the first of `rows`
    char* const to = y + row * s.row_bytes;
    const auto bytes = [&] { return static_cast<size_t>((next - row) * s.row_bytes); };
    if (behind < s.count) {
      next = std::min({end, s.length, row + s.count - behind});
      std::memcpy(to, rows + behind * s.row_bytes, bytes());
      continue;
    }
    next = std::min(end, row < first ? first : s.length);
    if (row >= s.own) {
      std::memset(to, 0, bytes());
      continue;
    }
    next = std::min(next, s.own);
    if (x != y) std::memcpy(to, x + row * s.row_bytes, bytes());
  }
}

}  // namespace

void WriteRows(const WriteRowsShape& s, const void* x, const void* rows, const int64_t* first,
               void* y, const Parallel& par) {
  const int64_t all = s.items * s.lines * s.length;
  const int64_t moved = x == y ? s.items * s.lines * s.count : all;
  const int64_t tasks = std::min(
      all, TaskCount(5e-5 * static_cast<double>(moved) * static_cast<double>(s.row_bytes)));
  par.For(tasks, [&](int64_t task) {
    const int64_t end = all * (task + 1) / tasks;
    for (int64_t row = all * task / tasks, next; row < end; row = next) {
      const int64_t line = row / s.length, begin = line * s.length;
      next = std::min(end, begin + s.length);
      WriteLine(s, static_cast<const char*>(x) + line * s.own * s.row_bytes,
                static_cast<const char*>(rows) + line * s.count * s.row_bytes,
                first[line / s.lines], static_cast<char*>(y) + begin * s.row_bytes, row - begin,
                next - begin);
    }
  });
}

}  // namespace sardonyx
