#pragma once
// The different elements of a tensor, found by sorting them.

#include <cstdint>

#include "base/thread_pool.h"
#include "kernels/ordered_bits.h"

namespace sardonyx {

struct UniqueShape {
  int64_t count;      // elements, 1 to 2^32 - 1
  int element_bytes;  // 1, 2, 4 or 8
  OrderedBits order;
  bool sorted;  // in ascending order, NaN last; else as they first occur
};

struct UniqueOutputs {
  void* values;
  // As of ONNX Unique; each may be null.
  int64_t *first = nullptr, *inverse = nullptr, *counts = nullptr;
};

int64_t UniqueScratchBytes(const UniqueShape& shape);

// How many different elements x has; -0 is 0, and every NaN the same.
int64_t FindUnique(const UniqueShape& shape, const void* x, void* scratch, const Parallel& par);

// Writes them, and what else is wanted; `scratch` is as FindUnique left it.
void WriteUnique(const UniqueShape& shape, const void* x, int64_t different, void* scratch,
                 const UniqueOutputs& outputs, const Parallel& par);

}  // namespace sardonyx
