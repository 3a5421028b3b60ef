#include "kernels/recurrent.h"

#include <algorithm>
#include <cstring>

#include "base/round.h"
#include "kernels/conv_int8.h"
#include "kernels/crew.h"
#include "kernels/gemm.h"
#include "kernels/recurrent_bytes.h"
#include "kernels/recurrent_step.h"
#include "kernels/targets.h"

namespace sardonyx {
namespace {

int64_t Gates(RecurrentCell cell) {
  return cell == RecurrentCell::kLstm ? 4 : cell == RecurrentCell::kGru ? 3 : 1;
}
int64_t Directions(const RecurrentOptions& options) {
  return options.direction == RecurrentDirection::kBidirectional ? 2 : 1;
}
size_t FloatBytes(int64_t count) { return AlignBytes(static_cast<size_t>(count) * sizeof(float)); }

// Hands out pieces of a buffer, each 64-byte aligned; of none, to learn the size.
class Pieces {
 public:
  explicit Pieces(const void* begin) : begin_(reinterpret_cast<uintptr_t>(begin)), at_(begin_) {}
  template <typename T = float>
  T* Take(size_t bytes) {
    T* piece = reinterpret_cast<T*>(at_);
    at_ += AlignBytes(bytes);
    return piece;
  }
  size_t size() const { return at_ - begin_; }

 private:
  uintptr_t begin_, at_;
};

// GRU without linear_before_reset multiplies z and r by h, but its third gate by r * h: its
// recurrent weights are two groups of panels.
int64_t FirstGates(const RecurrentOptions& options) {
  const bool in_two = options.cell == RecurrentCell::kGru && !options.linear_before_reset;
  return in_two ? 2 : Gates(options.cell);
}

struct PackedDirection {
  void* w;                       // GemmPackB of [input, G * H], or ConvInt8Pack of bytes
  void* r_first;                 // panels
  void* r_second;                // panels of GRU's h, or none
  RecurrentByteWeights r_bytes;  // rather than r_first
  float* w_scales;               // [G * H], of bytes alone
  uint8_t* w_zeros;
  float* bias;         // [G * H]: of w and r; of w alone for GRU's h if linear_before_reset
  float* bias_second;  // [H]: GRU's Rbh if linear_before_reset
  float* peepholes;    // [3 * H], LSTM alone
};

// The product of x with weights of bytes.
ConvShape ByteProjection(const RecurrentOptions& options, int64_t rows) {
  ConvShape shape;
  shape.cin = shape.x_stride = options.input_size;
  shape.cout = shape.y_stride = Gates(options.cell) * options.hidden_size;
  shape.in[2] = shape.out[2] = rows;
  return shape;
}

PackedDirection LayOut(const RecurrentOptions& options, Pieces& pieces) {
  const int64_t hidden = options.hidden_size, columns = Gates(options.cell) * hidden;
  const int64_t first = FirstGates(options), second = Gates(options.cell) - first;
  PackedDirection layout{};
  if (IsByte(options.r_type)) {
    const size_t of_columns = FloatBytes(ByteColumns(hidden));
    layout.w = pieces.Take<void>(ConvInt8PackedBytes(ByteProjection(options, 1)));
    layout.w_scales = pieces.Take(FloatBytes(columns));
    layout.w_zeros = pieces.Take<uint8_t>(static_cast<size_t>(columns));
    layout.r_bytes.panels = pieces.Take<void>(RecurrentPanelBytes(hidden));
    layout.r_bytes.scales = pieces.Take(of_columns);
    layout.r_bytes.row_factors = pieces.Take<int32_t>(of_columns);
    layout.r_bytes.sums = pieces.Take<int32_t>(of_columns);
  } else {
    const auto panel_bytes = [&](int64_t gates) {
      const int64_t bits = PanelElements(hidden, gates) * BitWidth(options.r_type);
      return static_cast<size_t>(bits / 8);
    };
    layout.w = pieces.Take<void>(GemmPackedBytes(options.input_size, columns));
    layout.r_first = pieces.Take<void>(panel_bytes(first));
    layout.r_second = pieces.Take<void>(panel_bytes(second));
  }
  layout.bias = pieces.Take(FloatBytes(columns + kInt8ColumnSlack));
  if (options.cell == RecurrentCell::kGru) layout.bias_second = pieces.Take(FloatBytes(hidden));
  if (options.cell == RecurrentCell::kLstm) layout.peepholes = pieces.Take(FloatBytes(3 * hidden));
  return layout;
}

size_t DirectionBytes(const RecurrentOptions& options) {
  Pieces none(nullptr);
  LayOut(options, none);
  return none.size();
}

PackedDirection LayOut(const RecurrentOptions& options, const void* packed, int64_t direction) {
  Pieces pieces(static_cast<const char*>(packed) +
                static_cast<size_t>(direction) * DirectionBytes(options));
  return LayOut(options, pieces);
}

// Rows [hidden, hidden] of r, those of one gate of so many, in the panels of RecurrentBlocks.
template <typename T>
void PackPanels(const T* r, int64_t hidden, int64_t gate, int64_t gates, T* packed) {
  constexpr int64_t kTogether = 32;  // inputs whose columns stay in the cache
  for (int64_t block = 0; block < UnitBlocks(hidden); ++block) {
    for (int64_t first = 0; first < hidden; first += kTogether) {
      const int64_t count = std::min(kTogether, hidden - first);
      for (int64_t lane = 0; lane < kUnits; ++lane) {
        const int64_t unit = block * kUnits + lane;
        const T* from = r + unit * hidden + first;
        T* to = packed + gate * kUnits + lane;
        for (int64_t i = 0; i < count; ++i) {
          to[i * gates * kUnits] = unit < hidden ? from[i] : T{0};
        }
      }
      packed += count * gates * kUnits;
    }
  }
}

// Steps whose input is projected at once: enough rows to feed the matrix product, few enough to
// stay in the cache.
int64_t ChunkSteps(int64_t steps, int64_t batch) {
  return std::clamp<int64_t>(256 / std::max<int64_t>(batch, 1), 1, std::max<int64_t>(steps, 1));
}

GemmShape Projection(const RecurrentOptions& options, int64_t rows) {
  GemmShape shape;
  shape.m = rows;
  shape.n = Gates(options.cell) * options.hidden_size;
  shape.k = options.input_size;
  shape.lda = shape.k;
  shape.ldb = shape.k;
  shape.b_transposed = true;
  shape.ldc = shape.n;
  return shape;
}

struct DirectionScratch {
  float* z;     // [chunk * B, G * H]
  float* h[2];  // [B, H] each: of steps in turn
  float *c, *second;
  float* scales;  // [G * H], of sums of products with x in bytes
  char* codes;    // of the state, for each part of a crew
  void* product;  // what the product with x wants
};

// For so many threads of this direction.
DirectionScratch LayOut(const RecurrentOptions& options, int64_t steps, int64_t batch, int threads,
                        Pieces& pieces) {
  const int64_t rows = ChunkSteps(steps, batch) * batch, state = batch * options.hidden_size;
  const int64_t last_rows = steps % ChunkSteps(steps, batch) * batch;
  const int64_t columns = Gates(options.cell) * options.hidden_size;
  const bool of_bytes = IsByte(options.r_type);
  const auto product_bytes = [&](int64_t count) {
    return of_bytes ? ConvInt8ScratchBytes(ByteProjection(options, count), threads)
                    : GemmScratchBytes(Projection(options, count), true, threads);
  };
  DirectionScratch layout{};
  layout.z = pieces.Take(FloatBytes(rows * columns));
  for (float*& h : layout.h) h = pieces.Take(FloatBytes(state));
  layout.c = pieces.Take(FloatBytes(state));
  layout.second = pieces.Take(FloatBytes(state));
  if (of_bytes) {
    layout.scales = pieces.Take(FloatBytes(columns + kInt8ColumnSlack));
    layout.codes = pieces.Take<char>(static_cast<size_t>(std::min(threads, kMostCrew)) *
                                     RecurrentCodesBytes(options.hidden_size, batch));
  }
  layout.product = pieces.Take<void>(std::max(product_bytes(rows), product_bytes(last_rows)));
  return layout;
}

// Recurrent weights that a thread's second-level cache holds, or most of them.
constexpr int64_t kNearBytes = 2 << 20;

// Whether the directions run one after the other with all threads, rather than side by side, each
// with its share of the threads. A thread then reads a smaller part of a direction's weights in
// each step, which its cache still holds from the step before.
bool TakesTurns(const RecurrentOptions& options, int threads) {
  const int64_t bytes =
      PanelElements(options.hidden_size, Gates(options.cell)) * BitWidth(options.r_type) / 8;
  return Directions(options) == 2 && threads > 1 && bytes / (threads / 2) > kNearBytes;
}

int DirectionThreads(const RecurrentOptions& options, int threads) {
  if (TakesTurns(options, threads)) return threads;
  return std::max(1, threads / static_cast<int>(Directions(options)));
}

size_t DirectionScratchBytes(const RecurrentOptions& options, int64_t steps, int64_t batch,
                             int threads) {
  Pieces none(nullptr);
  LayOut(options, steps, batch, DirectionThreads(options, threads), none);
  return none.size();
}

// Threads that share the units of a step: each has a microsecond of work between two waits.
int StepThreads(const RecurrentOptions& options, int64_t batch, int64_t steps, int threads) {
  const double weights = static_cast<double>(Gates(options.cell)) *
                         static_cast<double>(options.hidden_size * options.hidden_size);
  // At 80 GB/s of weights and 100 GFLOP/s; a byte costs a fourth of a float.
  const double ns = weights * std::max(0.05, 0.02 * static_cast<double>(batch)) *
                    (IsByte(options.r_type) ? 0.25 : 1);
  if (ns * static_cast<double>(steps) < 20'000) return 1;
  const int64_t most = std::min<int64_t>(
      {threads, kMostCrew, UnitBlocks(options.hidden_size), static_cast<int64_t>(ns / 1200)});
  return static_cast<int>(std::max<int64_t>(most, 1));
}

class DirectionRun {
 public:
  DirectionRun(const RecurrentOptions& options, const void* packed, const RecurrentRun& run,
               Pieces scratch, int64_t direction, const Parallel& par)
      : options_(options),
        weights_(LayOut(options, packed, direction)),
        run_(run),
        scratch_(LayOut(options, run.steps, run.batch, par.threads, scratch)),
        direction_(direction),
        hidden_(options.hidden_size),
        columns_(Gates(options.cell) * options.hidden_size),
        reverse_(options.direction == RecurrentDirection::kReverse || direction == 1),
        par_(par) {}

  void Run() {
    if (IsByte(options_.r_type)) {
      const float* const scales = weights_.w_scales;
      for (int64_t i = 0; i < columns_; ++i) scratch_.scales[i] = run_.x_scale * scales[i];
      std::fill_n(scratch_.scales + columns_, kInt8ColumnSlack, 0.0f);
      const int32_t* const factors = weights_.r_bytes.row_factors;
      sums_rows_ =
          std::any_of(factors, factors + ByteColumns(hidden_), [](int32_t f) { return f != 0; });
    }
    const int64_t state = run_.batch * hidden_;
    const auto start = [&](float* to, const float* initial) {
      if (initial == nullptr) {
        std::fill_n(to, state, 0.0f);
      } else {
        std::copy_n(initial + direction_ * state, state, to);
      }
    };
    start(scratch_.h[0], run_.initial_h);
    start(scratch_.c, run_.initial_c);
    begins_at_zero_ = std::all_of(scratch_.h[0], scratch_.h[0] + state,
                                  [](float value) { return value == 0.0f; });
    const int64_t chunk = ChunkSteps(run_.steps, run_.batch);
    for (int64_t done = 0; done < run_.steps; done += chunk) {
      const int64_t count = std::min(chunk, run_.steps - done);
      const int64_t first = reverse_ ? run_.steps - done - count : done;
      Project(first, count);
      RunSteps(done, count);
    }
    const float* const h = scratch_.h[run_.steps % 2];
    if (run_.y_h != nullptr) std::copy_n(h, state, run_.y_h + direction_ * state);
    if (run_.y_c != nullptr) std::copy_n(scratch_.c, state, run_.y_c + direction_ * state);
  }

 private:
  // z = x * W^T + bias for `count` steps.
  void Project(int64_t first, int64_t count) {
    const int64_t rows = count * run_.batch, skipped = first * run_.batch * options_.input_size;
    if (rows == 0) return;
    if (IsByte(options_.r_type)) {
      const Int8Rescale rescale{.scale = scratch_.scales, .offset = weights_.bias};
      Int8ConvArgs args;
      args.x = static_cast<const uint8_t*>(run_.x) + skipped;
      args.x_zero = run_.x_zero;
      args.packed = weights_.w;
      args.w_signed = options_.r_type == DType::kInt8;
      args.w_zeros = weights_.w_zeros;
      args.w_zero_count = columns_;
      args.y = scratch_.z;
      args.rescale = &rescale;
      return ConvInt8(ByteProjection(options_, rows), args, scratch_.product, par_);
    }
    static const Expression add = {
        {DType::kFloat32, DType::kFloat32}, {}, {{Fn::kAdd, DType::kFloat32, {0, 1, 0}}}};
    const EpilogueOperand bias{.data = weights_.bias, .column_stride = 1};
    Gemm(Projection(options_, rows), static_cast<const float*>(run_.x) + skipped, nullptr,
         static_cast<const float*>(weights_.w), scratch_.z, {&add, &bias}, scratch_.product, par_);
  }

  // Steps [done, done + count) in the order in which they run, whose z are there.
  void RunSteps(int64_t done, int64_t count) {
    using Kind = RecurrentPhase::Kind;
    const int64_t state = run_.batch * hidden_, blocks = UnitBlocks(hidden_);
    const bool in_two = FirstGates(options_) < Gates(options_.cell);
    const int threads = StepThreads(options_, run_.batch, count, par_.threads);
    const auto body = [&](int64_t index, int part) {
      const int64_t n = in_two ? index / 2 : index;
      const bool is_second = in_two && index % 2 == 1;
      RecurrentPhase phase{};
      phase.kind = options_.cell == RecurrentCell::kLstm  ? Kind::kLstm
                   : options_.cell == RecurrentCell::kRnn ? Kind::kRnn
                   : !in_two                              ? Kind::kLinearGru
                   : is_second                            ? Kind::kGruState
                                                          : Kind::kGruGates;
      phase.multiplies_second = is_second;
      phase.zero_state = begins_at_zero_ && done + n == 0;
      phase.options = &options_;
      phase.activations = options_.activations[direction_].data();
      phase.batch = run_.batch;
      phase.gates = Gates(options_.cell);
      phase.t = reverse_ ? run_.steps - 1 - done - n : done + n;
      phase.sequence_lens = run_.sequence_lens;
      phase.panels = is_second ? weights_.r_second : weights_.r_first;
      phase.z = scratch_.z + (reverse_ ? count - 1 - n : n) * run_.batch * columns_;
      phase.h = scratch_.h[(done + n) % 2];
      phase.h_next = scratch_.h[(done + n + 1) % 2];
      phase.c = scratch_.c;
      phase.second = scratch_.second;
      if (run_.y != nullptr) {
        phase.y = run_.y + (phase.t * Directions(options_) + direction_) * state;
      }
      phase.peepholes = weights_.peepholes;
      phase.bias_second = weights_.bias_second;
      RecurrentCodes codes;
      if (IsByte(options_.r_type)) {
        const size_t bytes = RecurrentCodesBytes(hidden_, run_.batch);
        codes = QuantizeState(phase, weights_.r_bytes, sums_rows_,
                              scratch_.codes + static_cast<size_t>(part) * bytes);
        phase.codes = &codes;
      }
      // Every other step goes through the weights backwards, so that it begins with those that the
      // step before has left in the second-level cache.
      RecurrentBlocks(phase, blocks * part / threads, blocks * (part + 1) / threads, n % 2 == 1);
    };
    Crew(in_two ? 2 * count : count, threads, body).Run(par_);
  }

  const RecurrentOptions& options_;
  const PackedDirection weights_;
  const RecurrentRun& run_;
  const DirectionScratch scratch_;
  const int64_t direction_, hidden_, columns_;
  const bool reverse_;
  bool begins_at_zero_ = false;
  bool sums_rows_ = false;  // of state in bytes, for weights with zero points
  const Parallel& par_;
};

// Matrices of one direction, whose rows begin at `begin` of those that are given.
void PackFloats(const RecurrentOptions& options, const RecurrentWeights& weights, int64_t begin,
                const PackedDirection& to, const Parallel& par) {
  const int64_t hidden = options.hidden_size, input = options.input_size;
  const int64_t gates = Gates(options.cell), first = FirstGates(options);
  // Whole panels of about a MiB.
  const int64_t step = std::max<int64_t>((int64_t{1} << 18) / (input + 1) / 64 * 64, 64);
  for (int64_t column = 0; column < gates * hidden; column += step) {
    const int64_t count = std::min(step, gates * hidden - column);
    const void* rows = weights.w(begin + column, count);
    GemmPackB(input, count, static_cast<const float*>(rows), input, true,
              static_cast<float*>(to.w) + column * input, par);
  }
  for (int64_t gate = 0; gate < gates; ++gate) {
    const void* rows = weights.r(begin + gate * hidden, hidden);
    const bool is_first = gate < first;
    void* const panels = is_first ? to.r_first : to.r_second;
    const int64_t among = is_first ? first : gates - first, at = is_first ? gate : gate - first;
    if (options.r_type == DType::kFloat16) {
      PackPanels(static_cast<const uint16_t*>(rows), hidden, at, among,
                 static_cast<uint16_t*>(panels));
    } else {
      PackPanels(static_cast<const float*>(rows), hidden, at, among, static_cast<float*>(panels));
    }
  }
}

void PackBytes(const RecurrentOptions& options, const RecurrentWeights& weights, int64_t begin,
               const PackedDirection& to, const Parallel& par) {
  const int64_t hidden = options.hidden_size, columns = Gates(options.cell) * hidden;
  const bool is_signed = options.r_type == DType::kInt8;
  ConvInt8Pack(ByteProjection(options, 1),
               {.data = weights.w(begin, columns),
                .is_signed = is_signed,
                .n_stride = options.input_size,
                .c_stride = 1},
               to.w, par);
  std::copy_n(weights.w_scales + begin, columns, to.w_scales);
  if (weights.w_zeros == nullptr) {
    std::fill_n(to.w_zeros, columns, uint8_t{0});
  } else {
    std::copy_n(weights.w_zeros + begin, columns, to.w_zeros);
  }
  PackRecurrentBytes(
      static_cast<const uint8_t*>(weights.r(begin, columns)), is_signed, weights.r_scales + begin,
      weights.r_zeros == nullptr ? nullptr : weights.r_zeros + begin, hidden, to.r_bytes);
}

}  // namespace

RecurrentOptions DefaultRecurrentOptions(RecurrentCell cell, RecurrentDirection direction,
                                         int64_t input_size, int64_t hidden_size) {
  RecurrentOptions options;
  options.cell = cell;
  options.direction = direction;
  options.input_size = input_size;
  options.hidden_size = hidden_size;
  const RecurrentActivation sigmoid = {RecurrentActivation::Kind::kSigmoid, 0.0f, 0.0f};
  const RecurrentActivation tanh = {RecurrentActivation::Kind::kTanh, 0.0f, 0.0f};
  for (auto& activations : options.activations) {
    activations = {cell == RecurrentCell::kRnn ? tanh : sigmoid, tanh, tanh};
  }
  return options;
}

size_t RecurrentPackedBytes(const RecurrentOptions& options) {
  return static_cast<size_t>(Directions(options)) * DirectionBytes(options);
}

void RecurrentPack(const RecurrentOptions& options, const RecurrentWeights& weights, void* packed,
                   const Parallel& par) {
  const int64_t hidden = options.hidden_size, columns = Gates(options.cell) * hidden;
  for (int64_t direction = 0; direction < Directions(options); ++direction) {
    const PackedDirection to = LayOut(options, packed, direction);
    if (IsByte(options.r_type)) {
      PackBytes(options, weights, direction * columns, to, par);
    } else {
      PackFloats(options, weights, direction * columns, to, par);
    }
    const float* bias = weights.b == nullptr ? nullptr : weights.b + direction * 2 * columns;
    const int64_t third = options.cell == RecurrentCell::kGru ? 2 * hidden : columns;
    for (int64_t i = 0; i < columns; ++i) {
      const bool apart = i >= third && options.linear_before_reset;
      to.bias[i] = bias == nullptr ? 0.0f : bias[i] + (apart ? 0.0f : bias[columns + i]);
      if (i >= third) {
        to.bias_second[i - third] = bias != nullptr && apart ? bias[columns + i] : 0.0f;
      }
    }
    std::fill_n(to.bias + columns, kInt8ColumnSlack, 0.0f);
    const float* peepholes = weights.peepholes;
    for (int64_t i = 0; i < 3 * hidden && to.peepholes != nullptr; ++i) {
      to.peepholes[i] = peepholes == nullptr ? 0.0f : peepholes[direction * 3 * hidden + i];
    }
  }
}

bool RecurrentKeepsHalves(int64_t batch) { return batch < 4 && TargetName() != "baseline"; }

size_t RecurrentScratchBytes(const RecurrentOptions& options, int64_t steps, int64_t batch,
                             int threads) {
  return static_cast<size_t>(Directions(options)) *
         DirectionScratchBytes(options, steps, batch, threads);
}

void Recurrent(const RecurrentOptions& options, const void* packed, const RecurrentRun& run,
               void* scratch, const Parallel& par) {
  const int64_t directions = Directions(options);
  const size_t bytes = DirectionScratchBytes(options, run.steps, run.batch, par.threads);
  const Parallel each = {par.pool, DirectionThreads(options, par.threads)};
  const auto run_direction = [&](int64_t direction) {
    const Pieces own(static_cast<char*>(scratch) + direction * bytes);
    DirectionRun(options, packed, run, own, direction, each).Run();
  };
  const int64_t work = run.steps * run.batch * Gates(options.cell) * options.hidden_size *
                       (options.input_size + options.hidden_size);
  if (work < 1'000'000 || TakesTurns(options, par.threads)) {
    for (int64_t direction = 0; direction < directions; ++direction) run_direction(direction);
  } else {
    par.For(directions, run_direction);
  }
}

}  // namespace sardonyx
