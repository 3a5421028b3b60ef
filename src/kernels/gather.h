#pragma once
// Gather and scatter in all ONNX forms. Indices are int32_t or int64_t; a negative one counts from
// the end of its axis. Every function checks each index and returns the position, in the flattened
// index tensor, of the first that is out of range, or -1 when all are good; after a bad index the
// output's contents are unspecified, but nothing outside it is touched.

#include <cstdint>
#include <span>

#include "base/thread_pool.h"

namespace sardonyx {

// The position of the first index outside of [-axis, axis), or -1: for who reads the data himself.
template <typename Index>
int64_t FirstBadIndex(const Index* indices, int64_t count, int64_t axis);

// out[o, i, :] = data[o, indices[i], :] for data [outer, axis, row_bytes bytes] at any address.
template <typename Index>
int64_t GatherRows(const void* data, const Index* indices, void* out, int64_t outer, int64_t axis,
                   int64_t row_bytes, int64_t count, const Parallel& par);

// GatherElements: out and indices have shape index_dims, data has data_dims of the same rank; off
// the axis index_dims is at most data_dims. element_bytes: 1, 2, 4, 8 or 16.
template <typename Index>
int64_t GatherElements(const void* data, const Index* indices, void* out,
                       std::span<const int64_t> data_dims, std::span<const int64_t> index_dims,
                       int64_t axis, int element_bytes, const Parallel& par);

// GatherND: data is [batch, dims..., slice_bytes bytes], indices [batch, count, dims.size()], out
// [batch, count, slice_bytes bytes]. A bad position is that of the coordinate.
int64_t GatherNd(const void* data, const int64_t* indices, void* out, int64_t batch,
                 std::span<const int64_t> dims, int64_t count, int64_t slice_bytes,
                 const Parallel& par);

enum class ScatterReduction : uint8_t { kNone, kAdd, kMul, kMin, kMax };

// ScatterElements: out already holds the data, of shape data_dims; updates and indices have shape
// index_dims. Updates that meet do so in their order, so with kNone the last of them wins.
// T: float, double, int8_t, uint8_t, int16_t, uint16_t, int32_t, uint32_t, int64_t, uint64_t. Other
// types of the same width may be passed as an unsigned one with kNone.
template <typename T, typename Index>
int64_t ScatterElements(T* out, const Index* indices, const T* updates,
                        std::span<const int64_t> data_dims, std::span<const int64_t> index_dims,
                        int64_t axis, ScatterReduction reduction, const Parallel& par);

// ScatterND: out already holds the data [dims..., slice elements], indices is [count, dims.size()],
// updates [count, slice]. The same types.
template <typename T>
int64_t ScatterNd(T* out, const int64_t* indices, const T* updates, std::span<const int64_t> dims,
                  int64_t count, int64_t slice, ScatterReduction reduction, const Parallel& par);

}  // namespace sardonyx
