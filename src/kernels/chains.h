#pragma once
// How many terms of a sum are added one to the other.

#include <cstdint>

namespace sardonyx {

// What a chain of additions loses grows with its length, fastest with terms of one sign: longer
// sums are made of several chains, on every target.
inline constexpr int64_t kOneChain = 448;

}  // namespace sardonyx
