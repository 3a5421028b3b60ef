#include "runtime/profiler.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "ir/core_op.h"

namespace sardonyx {

void Profiler::Record(const Node& node, std::string_view implementation,
                      const std::vector<int64_t>& dims, Clock::time_point start,
                      Clock::time_point end, int depth) {
  using std::chrono::duration_cast;
  using std::chrono::nanoseconds;
  Event event{.node = node.origin ? node.origin->name : "",
              .op_type = node.origin ? node.origin->op_type : "",
              .core = node.op->name,
              .implementation = implementation,
              .shape = PrintDims(dims),
              .start_ns = duration_cast<nanoseconds>(start - begin_).count(),
              .duration_ns = duration_cast<nanoseconds>(end - start).count(),
              .depth = depth};
  std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
}

std::vector<Profiler::Event> Profiler::events() const {
  std::lock_guard lock(mutex_);
  return events_;
}

void Profiler::Clear() {
  std::lock_guard lock(mutex_);
  events_.clear();
}

std::string Profiler::ChromeTrace() const {
  nlohmann::json trace = nlohmann::json::array();
  for (const Event& event : events()) {
    trace.push_back({{"name", event.node},
                     {"cat", event.op_type},
                     {"ph", "X"},
                     {"ts", event.start_ns / 1e3},
                     {"dur", event.duration_ns / 1e3},
                     {"pid", 1},
                     {"tid", 1},
                     {"args",
                      {{"operator", event.op_type},
                       {"core", event.core},
                       {"implementation", event.implementation},
                       {"output", event.shape}}}});
  }
  // Names may hold any bytes.
  return nlohmann::json{{"traceEvents", trace}, {"displayTimeUnit", "ms"}}.dump(
      1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string Profiler::Summary() const {
  struct Line {
    int64_t ns = 0;
    int64_t calls = 0;
  };
  std::map<std::string, Line> lines;
  int64_t total = 0;
  for (const Event& event : events()) {
    // Time of a control node contains its body's.
    if (event.depth == 0) total += event.duration_ns;
    Line& line =
        lines[fmt::format("{:<22}{:<18}{}", event.op_type, event.core, event.implementation)];
    line.ns += event.duration_ns;
    ++line.calls;
  }
  std::vector<std::pair<std::string, Line>> sorted(lines.begin(), lines.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  std::string text = fmt::format("{:>7} {:>10} {:>7}  {:<22}{:<18}{}\n", "share", "ms", "calls",
                                 "operator", "core operation", "implementation");
  for (const auto& [name, line] : sorted) {
    text += fmt::format("{:>6.1f}% {:>10.3f} {:>7}  {}\n",
                        total > 0 ? 100.0 * line.ns / total : 0.0, line.ns / 1e6, line.calls, name);
  }
  return text;
}

}  // namespace sardonyx
