#pragma once
// Casts to and from numbers of 2 and 4 bits, several in a byte.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/dtype.h"
#include "base/thread_pool.h"
#include "kernels/tile_program.h"

namespace sardonyx {

struct PackedCast {
  DType from, to;
  // From such numbers: what the elements of each byte become.
  std::vector<std::byte> table;
  // To such numbers: by up to two steps to a code in the low bits of `code_bytes`.
  TileFn first = nullptr, second = nullptr;
  int code_bytes = 0;
};

// Nothing where there is none: between two such types, of strings, and of 6 bits.
std::optional<PackedCast> PreparePackedCast(DType from, DType to);

// What ConvertElements does, bounded to the largest number of a float format.
void RunPackedCast(const PackedCast& cast, const void* in, void* out, int64_t count,
                   const Parallel& par);

}  // namespace sardonyx
