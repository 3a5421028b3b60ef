#pragma once
// Which implementation is fastest, found by running the candidates on the shapes at hand; the one
// that the device would take unless another is clearly faster.

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "runtime/device.h"

namespace sardonyx {

// The choices of one session, by what they depend on. Safe to use from many threads.
class Tuner {
 public:
  // Told of each choice when it is made, as a line.
  using Progress = std::function<void(const std::string& line)>;
  using Choices = std::map<std::string, std::string>;

  // `measure`: whether what has no choice yet is measured; else it is left to the device.
  Tuner(bool measure, Progress progress, Choices choices = {})
      : measure_(measure), progress_(std::move(progress)), choices_(std::move(choices)) {}

  // The name of the implementation to bind, empty if the device is to decide: no choice is known,
  // or there is none to make. Constants of the request must have their memory.
  std::string Choose(const BindRequest& request, std::span<const Implementation> candidates);

  Choices choices() const;

 private:
  const bool measure_;
  const Progress progress_;
  mutable std::mutex mutex_;  // of the choices; held while measuring, so that nothing runs beside
  Choices choices_;
};

}  // namespace sardonyx
