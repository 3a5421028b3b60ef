#pragma once
// Matrix products of float64 and of integers of 32 and 64 bits, whose sums wrap around.

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/thread_pool.h"
#include "kernels/gemm.h"

namespace sardonyx {

// float64, int32, uint32, int64, uint64.
bool IsGemmType(DType type);

// Bytes of the packed form of one K x N matrix; depends on the SIMD target that runs.
size_t GemmTypedPackedBytes(DType type, int64_t k, int64_t n);
// Packs one matrix B, laid out as `shape` says.
void GemmTypedPack(DType type, const GemmShape& shape, const void* b, void* packed,
                   const Parallel& par);

// Scratch for B packed on the way; none if it comes packed.
size_t GemmTypedScratchBytes(DType type, const GemmShape& shape, bool packed);

// All items of the batch; the same bits for any number of threads. `packed_b`, if given, holds one
// matrix that all items share, and b is not read. Only products of float64 take an epilogue with an
// expression.
void GemmTyped(DType type, const GemmShape& shape, const void* a, const void* b,
               const void* packed_b, void* c, const Epilogue& epilogue, void* scratch,
               const Parallel& par);

}  // namespace sardonyx
