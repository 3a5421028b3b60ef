#pragma once
// Failed allocations of the standard library as errors that say what they were for.

#include <new>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace sardonyx {

// Runs body; what it cannot get memory for becomes an Error.
template <typename Body>
decltype(auto) NamingMemory(std::string_view purpose, Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (const std::bad_alloc&) {
    Fail(ErrorCode::kOutOfMemory, "there is not enough memory for {}", purpose);
  } catch (const std::length_error&) {  // a container that could hold no more
    Fail(ErrorCode::kOutOfMemory, "no memory can be large enough for {}", purpose);
  }
}

}  // namespace sardonyx
