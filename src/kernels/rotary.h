#pragma once
// Rotary position embedding: pairs of features turned by angles.

#include <cstdint>

#include "base/thread_pool.h"

namespace sardonyx {

struct RotaryShape {
  int64_t outer, middle, rows, features;  // of x
  int64_t turned;                         // even, at most features
  bool interleaved;                       // pairs are neighbours, not halves of what is turned
  // Elements between the tables' rows along outer, middle and rows; 0 where they are the same.
  int64_t cosine_steps[3], sine_steps[3];
};

// (a, b) becomes (a cos - b sin, a sin + b cos); a row of a table has turned / 2. Features from
// `turned` on stay. y may be x.
void Rotate(const RotaryShape& shape, const float* x, const float* cosine, const float* sine,
            float* y, const Parallel& par);

}  // namespace sardonyx
