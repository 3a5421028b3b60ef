#pragma once
// Large batches run in pieces: where each row of the outputs follows from the same row of the
// inputs, a few rows at a time go through the whole model, so that what one step writes is still
// in the cache when the next one reads it, and the arena is that of a piece.

#include <cstdint>
#include <vector>

#include "ir/graph.h"

namespace sardonyx {

struct Plan;

// Which inputs have the batch as axis 0; the others serve every row.
using BatchInputs = std::vector<bool>;

// The inputs to cut if every output's row i (index of axis 0) depends on row i of these alone, as
// far as the operations known here tell; empty otherwise. The batch is the symbol that leads the
// shape of the first input.
BatchInputs FindBatch(const Graph& graph);

// How many of `batch` rows to run at a time, by the memory traffic that it saves against the
// weights that are read again for each piece; `batch` if all at once is best.
int64_t PieceSize(const Plan& plan, int64_t batch);

}  // namespace sardonyx
