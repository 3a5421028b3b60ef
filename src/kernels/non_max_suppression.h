#pragma once
// Of boxes that overlap, the one with the best score.

#include <cstdint>
#include <limits>

#include "base/thread_pool.h"

namespace sardonyx {

struct NonMaxSuppressionShape {
  int64_t batch = 1, classes = 1,
          count = 0;  // boxes [batch, count, 4], scores [batch, classes, count]
  int64_t most = 0;   // that are chosen of a class, not negative
  float overlap = 0;  // intersection over union above which the box of the lesser score falls
  // Only scores above it count; without it all do, a NaN as the least.
  bool has_least_score = false;
  float least_score = 0;
  bool center = false;  // boxes are (x, y, width, height) of their centres, not two corners (y, x)

  int64_t rows() const { return batch * classes; }
  // Places for the chosen of a row.
  int64_t places() const { return most < count ? most : count; }
};

int64_t NonMaxSuppressionScratchBytes(const NonMaxSuppressionShape& shape, int threads);

// chosen [rows, places]: indices of boxes of each row of scores, the best score first, of equal
// scores the first box first. found [rows]: how many these are. count < 2^31.
void NonMaxSuppression(const NonMaxSuppressionShape& shape, const float* boxes, const float* scores,
                       int32_t* chosen, int64_t* found, void* scratch, const Parallel& par);

}  // namespace sardonyx
