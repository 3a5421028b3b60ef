#pragma once
// Times of steps, attributed to the ONNX nodes that they came from.

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace sardonyx {

class Profiler {
 public:
  using Clock = std::chrono::steady_clock;
  struct Event {
    std::string node;       // ONNX node name
    std::string op_type;    // ONNX operator
    std::string_view core;  // core operation
    std::string_view implementation;
    std::string shape;  // of output 0
    int64_t start_ns;   // since the profiler was made
    int64_t duration_ns;
    int depth;  // 0: main graph, 1: body of a control node, ...
  };

  void Record(const Node& node, std::string_view implementation, const std::vector<int64_t>& dims,
              Clock::time_point start, Clock::time_point end, int depth);
  std::vector<Event> events() const;
  void Clear();

  // Trace-event format of chrome://tracing and Perfetto.
  std::string ChromeTrace() const;
  // A table by operator and implementation: share, total, calls.
  std::string Summary() const;

 private:
  mutable std::mutex mutex_;
  const Clock::time_point begin_ = Clock::now();
  std::vector<Event> events_;
};

}  // namespace sardonyx
