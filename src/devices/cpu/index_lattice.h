#pragma once
// Constant indices that go in even steps, as exporters write windows, strided views and the slices
// that are assigned to: what they name is read or written as a copy between strides, without
// looking at an index.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/device.h"

namespace sardonyx::cpu {

// The place that indices at coordinates c name is first + sum(c[d] * strides[d]).
struct IndexLattice {
  int64_t first = 0;
  std::vector<int64_t> strides;  // of each dimension of the indices; 0 for one of size 1

  // Whether no place is named twice by indices of these dimensions. May say no where it is so.
  bool IsApart(std::span<const int64_t> dims) const;
};

// The lattice of the constant `indices` (int32 or int64) into axes of sizes `axes`: places are
// those of a row-major array. With one axis each index is a place, else the last dimension of the
// indices has one for each axis. Nothing if they are no lattice, none, or outside of their axes.
std::optional<IndexLattice> LatticeOf(const BindRequest& request, const Operand& indices,
                                      std::span<const int64_t> axes, bool are_vectors);

}  // namespace sardonyx::cpu
