#pragma once
// The inner loops of kernels/recurrent.h: the product of a few state vectors with packed recurrent
// weights, and the gates of one batch item.

#include <cstdint>

#include "kernels/recurrent.h"

namespace sardonyx {

// Packed weights are panels of this many columns, each [k, kPanelWidth], the last filled with
// zeros.
inline constexpr int64_t kPanelWidth = 64;
inline int64_t PanelFloats(int64_t k, int64_t columns) {
  return (columns + kPanelWidth - 1) / kPanelWidth * kPanelWidth * k;
}

// c[i][j] (+)= sum over k of a[i][k] * panels(k, j), for rows i and the columns j < columns of the
// panels [first, last), taken in this order or backwards.
void PanelMatmul(float* const* a, float* const* c, int64_t rows, int64_t k, const float* panels,
                 int64_t first, int64_t last, int64_t columns, bool accumulate, bool backwards);

// One batch item at one step. z holds x W^T + h R^T without biases, [G * H].
struct RecurrentRow {
  float* z = nullptr;
  const float* bias = nullptr;
  const float* bias_second = nullptr;
  const float* peepholes = nullptr;
  float* second =
      nullptr;  // [H], GRU: h Rh^T going in if linear_before_reset, else r * h coming out
  float* h = nullptr;
  float* c = nullptr;
  float* y = nullptr;  // [H] or null: gets h too
  const RecurrentActivation* activations = nullptr;
};

void LstmRow(const RecurrentOptions& options, const RecurrentRow& row);
void RnnRow(const RecurrentOptions& options, const RecurrentRow& row);
// GRU in two: z and r (both left in row.z), then the new state. Between them the caller adds
// (r * h) Rh^T to the third gate, unless linear_before_reset.
void GruGatesRow(const RecurrentOptions& options, const RecurrentRow& row);
void GruStateRow(const RecurrentOptions& options, const RecurrentRow& row);

}  // namespace sardonyx
