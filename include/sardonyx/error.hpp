#pragma once
// The one exception type of Sardonyx. Part of the public interface.

#include <stdexcept>
#include <string>

#include "sardonyx/export.hpp"

namespace sardonyx {

enum class ErrorCode {
  kNotFound,         // a file (model, external data, input) does not exist or cannot be opened
  kInvalidModel,     // the model breaks a rule of the ONNX standard
  kUnsupported,      // legal, but not implemented
  kInvalidArgument,  // what the caller passed does not fit the model
  kOutOfMemory,      // an allocation failed or would exceed a limit
  kLimitExceeded,    // a limit of the options was reached (nesting, dimensions, sizes)
  kInternal,         // a bug in Sardonyx
};

// Thrown at the border where the user's input is known to be wrong. what() is a full sentence that
// names the model, the node, the operator and the value concerned, as far as they are known.
class SARDONYX_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const { return code_; }

 private:
  ErrorCode code_;
};

}  // namespace sardonyx
