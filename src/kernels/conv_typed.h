#pragma once
// Convolution of the types of gemm_typed.h: windows are gathered a block at a time, as rows of a
// matrix product.

#include <cstddef>

#include "kernels/conv.h"
#include "kernels/gemm_typed.h"

namespace sardonyx {

// Bytes of the packed weights; depends on the SIMD target that runs.
size_t ConvTypedPackedBytes(DType type, const ConvShape& shape);
// Packs weights in ONNX order, [cout, cin / groups, kernel]; `turned` has room for a copy of them.
void ConvTypedPack(DType type, const ConvShape& shape, const void* weights, void* turned,
                   void* packed, const Parallel& par);

size_t ConvTypedScratchBytes(DType type, const ConvShape& shape, int threads);

// The same bits for any number of threads. Scratch is aligned to 64 bytes.
void ConvTyped(DType type, const ConvShape& shape, const void* x, const void* packed, void* y,
               void* scratch, const Parallel& par);

}  // namespace sardonyx
