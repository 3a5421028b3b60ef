#include "kernels/recurrent.h"

#include <algorithm>
#include <cstring>

#include "kernels/gemm.h"
#include "kernels/recurrent_step.h"
#include "kernels/slices.h"

namespace sardonyx {
namespace {

int64_t Gates(RecurrentCell cell) {
  return cell == RecurrentCell::kLstm ? 4 : cell == RecurrentCell::kGru ? 3 : 1;
}
int64_t Directions(const RecurrentOptions& options) {
  return options.direction == RecurrentDirection::kBidirectional ? 2 : 1;
}
size_t RoundUp(size_t bytes) { return (bytes + 63) / 64 * 64; }
size_t FloatBytes(int64_t count) { return RoundUp(static_cast<size_t>(count) * sizeof(float)); }

// Hands out pieces of a buffer, each 64-byte aligned.
class Pieces {
 public:
  explicit Pieces(void* begin) : at_(static_cast<char*>(begin)) {}
  template <typename T = float>
  T* Take(size_t bytes) {
    T* piece = reinterpret_cast<T*>(at_);
    at_ += RoundUp(bytes);
    return piece;
  }

 private:
  char* at_;
};

// The recurrent weights come in two groups of columns: the first is multiplied by h, the second (h
// of GRU, else empty) by h or by r * h.
int64_t FirstColumns(const RecurrentOptions& options) {
  return (options.cell == RecurrentCell::kGru ? 2 : Gates(options.cell)) * options.hidden_size;
}

struct PackedDirection {
  float* w;            // GemmPackB of [input, G * H]
  float* r_first;      // panels
  float* r_second;     // panels of GRU's h
  float* bias;         // [G * H]: of w and r; of w alone for GRU's h if linear_before_reset
  float* bias_second;  // [H]: GRU's Rbh if linear_before_reset
  float* peepholes;    // [3 * H], LSTM alone
};

size_t DirectionBytes(const RecurrentOptions& options) {
  const int64_t hidden = options.hidden_size, columns = Gates(options.cell) * hidden;
  size_t bytes = RoundUp(GemmPackedBytes(options.input_size, columns)) +
                 FloatBytes(PanelFloats(hidden, FirstColumns(options))) + FloatBytes(columns);
  if (options.cell == RecurrentCell::kGru) {
    bytes += FloatBytes(PanelFloats(hidden, hidden)) + FloatBytes(hidden);
  }
  if (options.cell == RecurrentCell::kLstm) bytes += FloatBytes(3 * hidden);
  return bytes;
}

PackedDirection Layout(const RecurrentOptions& options, void* packed, int64_t direction) {
  const int64_t hidden = options.hidden_size, columns = Gates(options.cell) * hidden;
  Pieces pieces(static_cast<char*>(packed) + direction * DirectionBytes(options));
  PackedDirection layout{};
  layout.w = pieces.Take(GemmPackedBytes(options.input_size, columns));
  layout.r_first = pieces.Take(FloatBytes(PanelFloats(hidden, FirstColumns(options))));
  layout.bias = pieces.Take(FloatBytes(columns));
  if (options.cell == RecurrentCell::kGru) {
    layout.r_second = pieces.Take(FloatBytes(PanelFloats(hidden, hidden)));
    layout.bias_second = pieces.Take(FloatBytes(hidden));
  }
  if (options.cell == RecurrentCell::kLstm) layout.peepholes = pieces.Take(FloatBytes(3 * hidden));
  return layout;
}

// The rows of r [columns, k] as panels: kPanelWidth columns, all k of them, then the next.
void PackPanels(const float* r, int64_t k, int64_t columns, float* packed) {
  for (int64_t first = 0; first < columns; first += kPanelWidth) {
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = first; j < first + kPanelWidth; ++j) {
        *packed++ = j < columns ? r[j * k + i] : 0.0f;
      }
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
  float *z, *h, *c, *second;  // [chunk * B, G * H], [B, H] each
  float **h_rows, **z_rows, **second_rows;
  int64_t* active;  // batch items of the step
  void* gemm;
};

int DirectionThreads(const RecurrentOptions& options, int threads) {
  return std::max(1, threads / static_cast<int>(Directions(options)));
}

size_t DirectionScratchBytes(const RecurrentOptions& options, int64_t steps, int64_t batch,
                             int threads) {
  const int64_t rows = ChunkSteps(steps, batch) * batch, state = batch * options.hidden_size;
  const auto gemm_bytes = [&](int64_t count) {
    return GemmScratchBytes(Projection(options, count), true, DirectionThreads(options, threads));
  };
  const int64_t last_rows = steps % ChunkSteps(steps, batch) * batch;
  return FloatBytes(rows * Gates(options.cell) * options.hidden_size) + 3 * FloatBytes(state) +
         4 * RoundUp(static_cast<size_t>(batch) * 8) +
         RoundUp(std::max(gemm_bytes(rows), gemm_bytes(last_rows)));
}

DirectionScratch Layout(const RecurrentOptions& options, int64_t steps, int64_t batch,
                        void* scratch) {
  const int64_t rows = ChunkSteps(steps, batch) * batch, state = batch * options.hidden_size;
  const size_t pointers = static_cast<size_t>(batch) * 8;
  Pieces pieces(scratch);
  DirectionScratch layout{};
  layout.z = pieces.Take(FloatBytes(rows * Gates(options.cell) * options.hidden_size));
  layout.h = pieces.Take(FloatBytes(state));
  layout.c = pieces.Take(FloatBytes(state));
  layout.second = pieces.Take(FloatBytes(state));
  layout.h_rows = pieces.Take<float*>(pointers);
  layout.z_rows = pieces.Take<float*>(pointers);
  layout.second_rows = pieces.Take<float*>(pointers);
  layout.active = pieces.Take<int64_t>(pointers);
  layout.gemm = pieces.Take<void>(0);
  return layout;
}

// c[i] (+)= a[i] * panels for all rows, over threads if that pays. Every other step goes through
// the weights backwards, so that it begins with those that the step before has left in the
// second-level cache.
void Multiply(float* const* a, float* const* c, int64_t rows, int64_t k, const float* panels,
              int64_t columns, bool accumulate, bool backwards, const Parallel& par) {
  const int64_t count = (columns + kPanelWidth - 1) / kPanelWidth;
  const int64_t tasks = Slice(count, rows * k * kPanelWidth / 32).tasks;
  par.For(tasks, [&](int64_t index) {
    const int64_t task = backwards ? tasks - 1 - index : index;
    PanelMatmul(a, c, rows, k, panels, count * task / tasks, count * (task + 1) / tasks, columns,
                accumulate, backwards);
  });
}

class DirectionRun {
 public:
  DirectionRun(const RecurrentOptions& options, const void* packed, const RecurrentRun& run,
               void* scratch, int64_t direction, const Parallel& par)
      : options_(options),
        weights_(Layout(options, const_cast<void*>(packed), direction)),
        run_(run),
        scratch_(Layout(options, run.steps, run.batch, scratch)),
        direction_(direction),
        hidden_(options.hidden_size),
        columns_(Gates(options.cell) * options.hidden_size),
        reverse_(options.direction == RecurrentDirection::kReverse || direction == 1),
        par_(par) {}

  void Run() {
    const int64_t state = run_.batch * hidden_;
    const auto start = [&](float* to, const float* initial) {
      if (initial == nullptr) {
        std::fill_n(to, state, 0.0f);
      } else {
        std::copy_n(initial + direction_ * state, state, to);
      }
    };
    start(scratch_.h, run_.initial_h);
    start(scratch_.c, run_.initial_c);
    const int64_t chunk = ChunkSteps(run_.steps, run_.batch);
    for (int64_t done = 0; done < run_.steps; done += chunk) {
      const int64_t count = std::min(chunk, run_.steps - done);
      const int64_t first = reverse_ ? run_.steps - done - count : done;
      Project(first, count);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t offset = reverse_ ? count - 1 - i : i;
        Step(first + offset, scratch_.z + offset * run_.batch * columns_);
      }
    }
    if (run_.y_h != nullptr) std::copy_n(scratch_.h, state, run_.y_h + direction_ * state);
    if (run_.y_c != nullptr) std::copy_n(scratch_.c, state, run_.y_c + direction_ * state);
  }

 private:
  // z = x * W^T for `count` steps.
  void Project(int64_t first, int64_t count) {
    const int64_t rows = count * run_.batch;
    if (rows == 0) return;
    const float* x = run_.x + first * run_.batch * options_.input_size;
    Gemm(Projection(options_, rows), x, nullptr, weights_.w, scratch_.z, Epilogue{}, scratch_.gemm,
         par_);
  }

  float* OutputRow(int64_t t, int64_t item) const {
    if (run_.y == nullptr) return nullptr;
    return run_.y + ((t * Directions(options_) + direction_) * run_.batch + item) * hidden_;
  }

  // One time step. A sequence that has not begun (in reverse) or is over leaves its state alone.
  void Step(int64_t t, float* z) {
    int64_t rows = 0;
    for (int64_t item = 0; item < run_.batch; ++item) {
      if (run_.sequence_lens != nullptr && t >= run_.sequence_lens[item]) {
        if (run_.y != nullptr) std::fill_n(OutputRow(t, item), hidden_, 0.0f);
        continue;
      }
      scratch_.active[rows] = item;
      scratch_.h_rows[rows] = scratch_.h + item * hidden_;
      scratch_.z_rows[rows] = z + item * columns_;
      scratch_.second_rows[rows] = scratch_.second + item * hidden_;
      ++rows;
    }
    if (rows == 0) return;
    Multiply(scratch_.h_rows, scratch_.z_rows, rows, hidden_, weights_.r_first,
             FirstColumns(options_), true, t % 2 == 1, par_);
    const auto for_rows = [&](auto&& body) {
      for (int64_t i = 0; i < rows; ++i) {
        RecurrentRow row;
        row.z = scratch_.z_rows[i];
        row.bias = weights_.bias;
        row.bias_second = weights_.bias_second;
        row.peepholes = weights_.peepholes;
        row.second = scratch_.second_rows[i];
        row.h = scratch_.h_rows[i];
        row.c = scratch_.c + scratch_.active[i] * hidden_;
        row.y = OutputRow(t, scratch_.active[i]);
        row.activations = options_.activations[direction_].data();
        body(row);
      }
    };
    switch (options_.cell) {
      case RecurrentCell::kLstm:
        for_rows([&](const RecurrentRow& row) { LstmRow(options_, row); });
        return;
      case RecurrentCell::kRnn:
        for_rows([&](const RecurrentRow& row) { RnnRow(options_, row); });
        return;
      case RecurrentCell::kGru: break;
    }
    if (options_.linear_before_reset) {
      Multiply(scratch_.h_rows, scratch_.second_rows, rows, hidden_, weights_.r_second, hidden_,
               false, t % 2 == 1, par_);
    }
    for_rows([&](const RecurrentRow& row) { GruGatesRow(options_, row); });
    if (!options_.linear_before_reset) {
      // The gates left r * h in `second`; its product joins the third gate's columns.
      for (int64_t i = 0; i < rows; ++i) scratch_.z_rows[i] += 2 * hidden_;
      Multiply(scratch_.second_rows, scratch_.z_rows, rows, hidden_, weights_.r_second, hidden_,
               true, t % 2 == 1, par_);
      for (int64_t i = 0; i < rows; ++i) scratch_.z_rows[i] -= 2 * hidden_;
    }
    for_rows([&](const RecurrentRow& row) { GruStateRow(options_, row); });
  }

  const RecurrentOptions& options_;
  const PackedDirection weights_;
  const RecurrentRun& run_;
  const DirectionScratch scratch_;
  const int64_t direction_, hidden_, columns_;
  const bool reverse_;
  const Parallel& par_;
};

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

void RecurrentPack(const RecurrentOptions& options, const float* w, const float* r, const float* b,
                   const float* peepholes, void* packed, const Parallel& par) {
  const int64_t hidden = options.hidden_size, input = options.input_size;
  const int64_t columns = Gates(options.cell) * hidden, first = FirstColumns(options);
  for (int64_t direction = 0; direction < Directions(options); ++direction) {
    const PackedDirection to = Layout(options, packed, direction);
    GemmPackB(input, columns, w + direction * columns * input, input, true, to.w, par);
    const float* from = r + direction * columns * hidden;
    PackPanels(from, hidden, first, to.r_first);
    if (to.r_second != nullptr) PackPanels(from + first * hidden, hidden, hidden, to.r_second);
    for (int64_t i = 0; i < columns; ++i) {
      const float* bias = b == nullptr ? nullptr : b + direction * 2 * columns;
      const bool apart = i >= first && options.linear_before_reset;
      to.bias[i] = bias == nullptr ? 0.0f : bias[i] + (apart ? 0.0f : bias[columns + i]);
      if (i >= first)
        to.bias_second[i - first] = bias != nullptr && apart ? bias[columns + i] : 0.0f;
    }
    for (int64_t i = 0; i < 3 * hidden && to.peepholes != nullptr; ++i) {
      to.peepholes[i] = peepholes == nullptr ? 0.0f : peepholes[direction * 3 * hidden + i];
    }
  }
}

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
    DirectionRun(options, packed, run, static_cast<char*>(scratch) + direction * bytes, direction,
                 each)
        .Run();
  };
  const int64_t work = run.steps * run.batch * Gates(options.cell) * options.hidden_size *
                       (options.input_size + options.hidden_size);
  if (work < 1'000'000) {
    for (int64_t direction = 0; direction < directions; ++direction) run_direction(direction);
  } else {
    par.For(directions, run_direction);
  }
}

}  // namespace sardonyx
