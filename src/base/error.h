#pragma once
// Throwing sardonyx::Error with a formatted message, and adding context on the way up.

#include <fmt/format.h>

#include <string>
#include <utility>

#include "sardonyx/error.hpp"

namespace sardonyx {

// Throws Error(code, formatted message).
template <typename... Args>
[[noreturn]] void Fail(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) {
  throw Error(code, fmt::format(text, std::forward<Args>(args)...));
}

// Runs body; an Error that leaves it gets "<context>: " put before its message.
template <typename Body>
decltype(auto) WithContext(const std::string& context, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const Error& error) {
    throw Error(error.code(), context + ": " + error.what());
  }
}

}  // namespace sardonyx
