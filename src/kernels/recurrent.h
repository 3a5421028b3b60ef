#pragma once
// LSTM, GRU and simple RNN, float32, in the layouts of ONNX with layout 0. H is the hidden size, D
// the number of directions (1 or 2), G the number of gates: 4 (LSTM: i, o, f, c), 3 (GRU: z, r, h)
// or 1.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/dtype.h"
#include "base/thread_pool.h"

namespace sardonyx {

enum class RecurrentCell : uint8_t { kLstm, kGru, kRnn };
enum class RecurrentDirection : uint8_t { kForward, kReverse, kBidirectional };

// f(x) with ONNX's formulas; alpha and beta where the formula has them.
struct RecurrentActivation {
  enum class Kind : uint8_t {
    kSigmoid,
    kTanh,
    kRelu,
    kAffine,
    kLeakyRelu,
    kThresholdedRelu,
    kScaledTanh,
    kHardSigmoid,
    kElu,
    kSoftsign,
    kSoftplus,
  };
  Kind kind = Kind::kTanh;
  float alpha = 0.0f, beta = 0.0f;
};

struct RecurrentOptions {
  RecurrentCell cell = RecurrentCell::kLstm;
  RecurrentDirection direction = RecurrentDirection::kForward;
  int64_t input_size = 0, hidden_size = 0;
  // Of recurrent weights, also as they are packed: float32 or float16. Of an LSTM int8 or uint8
  // too: so is W then, X is uint8, and the state is quantised in each step to the range of all
  // sequences.
  DType r_type = DType::kFloat32;
  bool has_clip = false;
  float clip = 0.0f;                 // bounds the argument of every activation to [-clip, clip]
  bool input_forget = false;         // LSTM: f = 1 - i
  bool linear_before_reset = false;  // GRU
  // Of each direction: LSTM f, g, h; GRU f, g; RNN f.
  std::array<std::array<RecurrentActivation, 3>, 2> activations;
};
// Options with the standard's activations: LSTM sigmoid, tanh, tanh; GRU sigmoid, tanh; RNN tanh.
RecurrentOptions DefaultRecurrentOptions(RecurrentCell cell, RecurrentDirection direction,
                                         int64_t input_size, int64_t hidden_size);

// Rows [first, first + count) of a matrix that is read once, in parts; valid until the next call.
using RecurrentRows = std::function<const void*(int64_t first, int64_t count)>;

// What is packed, once for constant weights: w [D * G * H, input_size] of float32 or bytes,
// r [D * G * H, H] of r_type, b [D, 2 * G * H] or null, peepholes [D, 3 * H] (i, o, f) or null
// (LSTM alone). Bytes have scales [D * G * H] and zero points of their own type, or null: 0.
struct RecurrentWeights {
  RecurrentRows w, r;
  const float *b = nullptr, *peepholes = nullptr;
  const float *w_scales = nullptr, *r_scales = nullptr;
  const uint8_t *w_zeros = nullptr, *r_zeros = nullptr;
};
// The packed form depends on the SIMD target that runs; 64-byte aligned.
size_t RecurrentPackedBytes(const RecurrentOptions& options);
void RecurrentPack(const RecurrentOptions& options, const RecurrentWeights& weights, void* packed,
                   const Parallel& par);

// Whether it pays to keep recurrent weights of float16 for so many sequences: steps of few are
// bound by reading them, and widening takes an instruction.
bool RecurrentKeepsHalves(int64_t batch);

struct RecurrentRun {
  int64_t steps = 0, batch = 0;  // T, B
  const void* x = nullptr;       // [T, B, input_size], float32 or uint8
  float x_scale = 1;             // of uint8
  uint8_t x_zero = 0;
  const int32_t* sequence_lens = nullptr;  // [B], each within [0, T]; null: T for all
  const float* initial_h = nullptr;        // [D, B, H]; null: zeros
  const float* initial_c = nullptr;        // [D, B, H]; null: zeros (LSTM alone)
  float* y = nullptr;                      // [T, D, B, H], or null; 0 beyond a sequence's end
  float* y_h = nullptr;                    // [D, B, H], or null: the state after the last step
  float* y_c = nullptr;                    // [D, B, H], or null (LSTM alone)
};

// Runs all steps. scratch: RecurrentScratchBytes for par.threads, 64-byte aligned. Outputs may not
// overlap inputs.
size_t RecurrentScratchBytes(const RecurrentOptions& options, int64_t steps, int64_t batch,
                             int threads);
void Recurrent(const RecurrentOptions& options, const void* packed, const RecurrentRun& run,
               void* scratch, const Parallel& par);

}  // namespace sardonyx
