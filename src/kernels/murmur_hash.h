#pragma once
// MurmurHash3_x86_32 (Austin Appleby) of each element.

#include <cstdint>
#include <string>

#include "base/thread_pool.h"

namespace sardonyx {

// Of elements of `words` (1 or 2) times 4 bytes, in x[count * words].
void MurmurHash(const uint32_t* x, int64_t count, int words, uint32_t seed, uint32_t* y,
                const Parallel& par);
void MurmurHash(const std::string* x, int64_t count, uint32_t seed, uint32_t* y,
                const Parallel& par);

}  // namespace sardonyx
