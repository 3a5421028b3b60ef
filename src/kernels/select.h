#pragma once
// Tensors whose elements are chosen by their positions: triangles, ranges, one-hot vectors.

#include <cstdint>

#include "base/thread_pool.h"

namespace sardonyx {

// y [count, rows, columns] of elements of `element_bytes`: x on and above (below) the diagonal that
// begins `diagonal` columns to the right, zero elsewhere. -rows <= diagonal <= columns.
void Triangle(const void* x, void* y, int64_t count, int64_t rows, int64_t columns,
              int64_t diagonal, bool upper, int element_bytes, const Parallel& par);

// y[i] = first + i * step; floats in double, integers wrap. T: float, double, int16_t, int32_t,
// int64_t.
template <typename T>
void Range(T first, T step, T* y, int64_t count, const Parallel& par);

// y [outer, depth, inner]: values[1] at the index of its line, values[0] elsewhere and where the
// index is outside [-depth, depth). Index: int32_t, int64_t, float, double.
template <typename Index>
void OneHot(const Index* indices, const void* values, void* y, int64_t outer, int64_t depth,
            int64_t inner, int element_bytes, const Parallel& par);

}  // namespace sardonyx
