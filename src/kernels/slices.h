#pragma once
// Cutting work for Parallel::For at boundaries that depend on the sizes and the machine alone.

#include <algorithm>
#include <cstdint>

namespace sardonyx {

struct Slices {
  int64_t tasks = 1;
  int64_t step = 0;  // items a task

  int64_t Begin(int64_t task) const { return task * step; }
  int64_t End(int64_t task, int64_t count) const { return std::min(count, (task + 1) * step); }
};

// The processors for which work is cut, at first those that the process may use. How work is cut
// may round sums otherwise, so it does not depend on the threads of a session: with any number of
// them results are the same.
int TaskProcessors();
inline constexpr int kFewProcessors = 4;
inline bool HasManyProcessors() { return TaskProcessors() > kFewProcessors; }
void SetTaskProcessorsForTest(int processors);  // 0: those again

// At most so many tasks, or two for each of up to 64 processors.
inline int64_t MostTasks(int64_t most) {
  return std::max<int64_t>(most, (std::min(TaskProcessors(), 64) + 1) / 2 * 4);
}

// Into how many tasks work of so many microseconds is cut: two of 1.3 us or more, or more of 3 us.
// To hand out one costs 0.3 to 1 us, but a step that is not cut also draws into one cache what the
// threads of the step before have in theirs, and the next step draws half of it back. Two, or a
// multiple of four, or of many processors: threads that share it end together.
inline int64_t TaskCount(double us, int64_t most) {
  const auto parts = static_cast<int64_t>(std::min(us / 3, static_cast<double>(most)));
  if (parts < 4) return us >= 2.6 && most >= 2 ? 2 : 1;
  const int64_t each = HasManyProcessors() && parts >= TaskProcessors() ? TaskProcessors() : 4;
  return parts / each * each;
}

// The processors are counted only where there is work for several, for that takes a while.
inline int64_t TaskCount(double us) { return TaskCount(us, us < 12 ? 4 : MostTasks(32)); }

// So many parts, or somewhat more, `most` at most, that threads end with together.
inline int64_t EvenParts(int64_t parts, int64_t most) {
  const int64_t processors = TaskProcessors(), each = HasManyProcessors() ? processors : 2;
  const int64_t even = (parts + each - 1) / each * each;
  return each == 2 || even <= most ? even : std::max((parts + 1) / 2 * 2, most / 2 * 2);
}

// Cuts `count` items of `cost` each (about nanoseconds, of which vectors need a few times less)
// into tasks. Items are handed out in multiples of `multiple`.
inline Slices Slice(int64_t count, int64_t cost, int64_t multiple = 1) {
  Slices slices;
  if (count <= 0) return {0, 0};
  const double us =
      4e-4 * static_cast<double>(count) * static_cast<double>(std::max<int64_t>(cost, 1));
  const int64_t tasks = std::min(count, TaskCount(us));
  slices.step = (count + tasks - 1) / tasks;
  slices.step = std::min(count, (slices.step + multiple - 1) / multiple * multiple);
  slices.tasks = (count + slices.step - 1) / slices.step;
  return slices;
}

// The parts into which rows and columns are cut, in an order in which each of `owners` has
// neighbouring rows: of these, one part of the columns after the other.
struct OwnedParts {
  int64_t row_parts, column_parts, owners = 1;

  struct Part {
    int64_t row, column;
  };
  Part At(int64_t i) const {
    if (owners == 1) return {i % row_parts, i / row_parts};
    if (owners == row_parts) return {i / column_parts, i % column_parts};
    const int64_t owner = ((i / column_parts + 1) * owners - 1) / row_parts;
    const int64_t first = row_parts * owner / owners;
    const int64_t rows = row_parts * (owner + 1) / owners - first;
    i -= first * column_parts;
    return {first + i % rows, i / rows};
  }
};

}  // namespace sardonyx
