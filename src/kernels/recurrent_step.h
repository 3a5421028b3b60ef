#pragma once
// The inner loops of kernels/recurrent.h: the product of a few state vectors with packed recurrent
// weights, and the gates of the units that it is for.

#include <cstdint>

#include "kernels/recurrent.h"

namespace sardonyx {

// Hidden units come in blocks of so many. Packed weights have a panel for each block, [H, gates *
// kUnits], the columns gate by gate, those beyond the last unit zero.
inline constexpr int64_t kUnits = 16;
inline int64_t UnitBlocks(int64_t hidden) { return (hidden + kUnits - 1) / kUnits; }
inline int64_t PanelElements(int64_t hidden, int64_t gates) {
  return UnitBlocks(hidden) * kUnits * gates * hidden;
}

struct RecurrentCodes;

// One step of all batch items, or half of one: GRU without linear_before_reset takes two, and of
// its two groups of panels (z and r; h) one each. State is [batch, H].
struct RecurrentPhase {
  enum class Kind : uint8_t { kLstm, kRnn, kLinearGru, kGruGates, kGruState } kind;
  bool multiplies_second = false;  // rather than h
  bool zero_state = false;         // h is: products with it are zero, no weights are read
  const RecurrentOptions* options = nullptr;
  const RecurrentActivation* activations = nullptr;
  int64_t batch = 0, gates = 0, t = 0;
  const int32_t* sequence_lens = nullptr;  // items that are over keep their state
  const void* panels = nullptr;            // of options->r_type
  const RecurrentCodes* codes = nullptr;   // of bytes, rather than panels
  float* z = nullptr;  // [batch, gates, H]: x W^T and biases; kGruGates leaves its first gate there
  const float* h = nullptr;
  float* h_next = nullptr;
  float* c = nullptr;                  // LSTM
  float* second = nullptr;             // r * h of GRU
  float* y = nullptr;                  // or null
  const float* peepholes = nullptr;    // LSTM
  const float* bias_second = nullptr;  // GRU with linear_before_reset

  bool GoesOn(int64_t item) const { return sequence_lens == nullptr || t < sequence_lens[item]; }
};

// Blocks [first, last) of units, in this order or backwards. What blocks compute does not depend on
// other blocks.
void RecurrentBlocks(const RecurrentPhase& phase, int64_t first, int64_t last, bool backwards);

}  // namespace sardonyx
