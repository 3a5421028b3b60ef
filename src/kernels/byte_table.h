#pragma once
// Functions of a byte as a table of its 256 values.

#include <cstdint>

#include "base/thread_pool.h"

namespace sardonyx {

// out[i] = table[in[i]] for i < count; `out` may be `in`.
void LookUpBytes(const uint8_t* table, const uint8_t* in, int64_t count, uint8_t* out,
                 const Parallel& par);

}  // namespace sardonyx
