#include "kernels/recurrent.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "random_data.h"

namespace sardonyx {
namespace {

using Kind = RecurrentActivation::Kind;

double Activate(const RecurrentActivation& f, double x) {
  const double a = f.alpha, b = f.beta;
  switch (f.kind) {
    case Kind::kSigmoid: return 1 / (1 + std::exp(-x));
    case Kind::kTanh: return std::tanh(x);
    case Kind::kRelu: return std::max(0.0, x);
    case Kind::kAffine: return a * x + b;
    case Kind::kLeakyRelu: return x >= 0 ? x : a * x;
    case Kind::kThresholdedRelu: return x >= a ? x : 0;
    case Kind::kScaledTanh: return a * std::tanh(b * x);
    case Kind::kHardSigmoid: return std::clamp(a * x + b, 0.0, 1.0);
    case Kind::kElu: return x >= 0 ? x : a * (std::exp(x) - 1);
    case Kind::kSoftsign: return x / (1 + std::abs(x));
    case Kind::kSoftplus: return std::log1p(std::exp(x));
  }
  return 0;
}

// Bytes of a matrix, with a scale and a zero point for each row, and the numbers they stand for.
struct Codes {
  std::vector<uint8_t> codes, zeros;
  std::vector<float> scales, values;
};

Codes MakeCodes(int64_t rows, int64_t width, bool is_signed, uint32_t seed) {
  Codes made;
  for (float code : test::RandomFloats(rows * width, seed, 0, 256)) {
    made.codes.push_back(static_cast<uint8_t>(std::min(code, 255.0f)));
  }
  made.scales = test::RandomFloats(rows, seed + 100, 0.0001f, 0.0005f);
  const auto value = [&](uint8_t code) {
    return is_signed ? int32_t{static_cast<int8_t>(code)} : int32_t{code};
  };
  for (int64_t row = 0; row < rows; ++row) {
    made.zeros.push_back(static_cast<uint8_t>((is_signed ? 0 : 128) + row % 7));
    for (int64_t i = row * width; i < (row + 1) * width; ++i) {
      made.values.push_back(static_cast<float>(value(made.codes[i]) - value(made.zeros[row])) *
                            made.scales[row]);
    }
  }
  return made;
}

struct Data {
  int64_t steps, batch, directions, gates;
  std::vector<float> x, w, r, b, p, h, c;
  std::vector<int32_t> lens;
  Codes x_codes, w_codes, r_codes;  // of bytes
};

Data MakeData(const RecurrentOptions& o, int64_t steps, int64_t batch, bool with_lens) {
  Data data;
  data.steps = steps;
  data.batch = batch;
  data.directions = o.direction == RecurrentDirection::kBidirectional ? 2 : 1;
  data.gates = o.cell == RecurrentCell::kLstm ? 4 : o.cell == RecurrentCell::kGru ? 3 : 1;
  const int64_t rows = data.directions * data.gates * o.hidden_size;
  const float size = 1.0f / std::sqrt(static_cast<float>(o.hidden_size));
  data.x = test::RandomFloats(steps * batch * o.input_size, 1);
  data.w = test::RandomFloats(rows * o.input_size, 2, -size, size);
  data.r = test::RandomFloats(rows * o.hidden_size, 3, -size, size);
  if (o.r_type == DType::kFloat16) {
    for (float& weight : data.r) weight = Half(weight);
  }
  if (IsByte(o.r_type)) {
    const bool is_signed = o.r_type == DType::kInt8;
    data.x_codes = MakeCodes(1, steps * batch * o.input_size, false, 1);
    data.w_codes = MakeCodes(rows, o.input_size, is_signed, 2);
    data.r_codes = MakeCodes(rows, o.hidden_size, is_signed, 3);
    data.x = data.x_codes.values;
    data.w = data.w_codes.values;
    data.r = data.r_codes.values;
  }
  data.b = test::RandomFloats(2 * rows, 4);
  data.p = test::RandomFloats(data.directions * 3 * o.hidden_size, 5);
  data.h = test::RandomFloats(data.directions * batch * o.hidden_size, 6);
  data.c = test::RandomFloats(data.directions * batch * o.hidden_size, 7);
  for (int64_t i = 0; i < batch && with_lens; ++i) {
    data.lens.push_back(static_cast<int32_t>((steps - i % (steps + 1)) % (steps + 1)));
  }
  return data;
}

struct Result {
  std::vector<double> y, h, c;
};

// Rounds the states of those sequences that go on to 256 steps of the range of all of them and 0.
template <typename GoesOn>
void QuantizeStates(double* h, int64_t batch, int64_t hidden, GoesOn goes_on) {
  double low = 0, high = 0;
  for (int64_t i = 0; i < batch * hidden; ++i) {
    if (!goes_on(i / hidden)) continue;
    low = std::min(low, h[i]);
    high = std::max(high, h[i]);
  }
  const double scale = (high > low ? high - low : 1) / 255, zero = std::nearbyint(-low / scale);
  for (int64_t i = 0; i < batch * hidden; ++i) {
    if (!goes_on(i / hidden)) continue;
    h[i] = (std::clamp(std::nearbyint(h[i] / scale) + zero, 0.0, 255.0) - zero) * scale;
  }
}

// The standard's equations, an element at a time.
Result Expected(const RecurrentOptions& o, const Data& data) {
  const int64_t hidden = o.hidden_size, batch = data.batch, gates = data.gates;
  Result result;
  result.y.assign(data.steps * data.directions * batch * hidden, 0.0);
  result.h.assign(data.h.begin(), data.h.end());
  result.c.assign(data.c.begin(), data.c.end());
  for (int64_t d = 0; d < data.directions; ++d) {
    const auto& f = o.activations[d];
    const bool reverse = d == 1 || o.direction == RecurrentDirection::kReverse;
    const float* bias = data.b.data() + d * 2 * gates * hidden;
    const float* p = data.p.data() + d * 3 * hidden;
    const auto act = [&](int k, double x) {
      if (o.has_clip) x = std::clamp<double>(x, -o.clip, o.clip);
      return Activate(f[k], x);
    };
    const auto length_of = [&](int64_t n) { return data.lens.empty() ? data.steps : data.lens[n]; };
    for (int64_t s = 0; s < data.steps; ++s) {
      const int64_t t = reverse ? data.steps - 1 - s : s;
      if (IsByte(o.r_type)) {
        QuantizeStates(result.h.data() + d * batch * hidden, batch, hidden,
                       [&](int64_t n) { return t < length_of(n); });
      }
      for (int64_t n = 0; n < batch; ++n) {
        if (t >= length_of(n)) continue;
        double* h = result.h.data() + (d * batch + n) * hidden;
        double* c = result.c.data() + (d * batch + n) * hidden;
        const auto input = [&](int64_t row) {
          double sum = bias[row];
          for (int64_t i = 0; i < o.input_size; ++i) {
            sum += static_cast<double>(data.x[(t * batch + n) * o.input_size + i]) *
                   data.w[(d * gates * hidden + row) * o.input_size + i];
          }
          return sum;
        };
        const auto recurrent = [&](int64_t row, const std::vector<double>& state) {
          double sum = bias[gates * hidden + row];
          for (int64_t i = 0; i < hidden; ++i) {
            sum += state[i] * data.r[(d * gates * hidden + row) * hidden + i];
          }
          return sum;
        };
        const std::vector<double> old(h, h + hidden);
        std::vector<double> reset(hidden), reset_h(hidden);
        for (int64_t j = 0; j < hidden && o.cell == RecurrentCell::kGru; ++j) {
          reset[j] = act(0, input(hidden + j) + recurrent(hidden + j, old));
          reset_h[j] = reset[j] * old[j];
        }
        for (int64_t j = 0; j < hidden; ++j) {
          const auto both = [&](int64_t g) {
            return input(g * hidden + j) + recurrent(g * hidden + j, old);
          };
          if (o.cell == RecurrentCell::kRnn) {
            h[j] = act(0, both(0));
          } else if (o.cell == RecurrentCell::kGru) {
            const double z = act(0, both(0));
            const double fresh =
                act(1, input(2 * hidden + j) + (o.linear_before_reset
                                                    ? reset[j] * recurrent(2 * hidden + j, old)
                                                    : recurrent(2 * hidden + j, reset_h)));
            h[j] = (1 - z) * fresh + z * old[j];
          } else {
            const double in = act(0, both(0) + p[j] * c[j]);
            const double forget =
                o.input_forget ? 1 - in : act(0, both(2) + p[2 * hidden + j] * c[j]);
            c[j] = forget * c[j] + in * act(1, both(3));
            h[j] = act(0, both(1) + p[hidden + j] * c[j]) * act(2, c[j]);
          }
        }
        std::copy_n(h, hidden, &result.y[((t * data.directions + d) * batch + n) * hidden]);
      }
    }
  }
  return result;
}

void ExpectNear(const std::vector<float>& got, const std::vector<double>& expected, double error) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], expected[i], error + 1e-5 * std::abs(expected[i])) << "at " << i;
  }
}

// Rows of a matrix, as a buffer that each call overwrites.
template <typename T = float, typename From>
RecurrentRows RowsOf(const std::vector<From>& matrix, int64_t width) {
  return [&matrix, width, part = std::vector<T>()](int64_t first, int64_t count) mutable {
    part.assign(matrix.begin() + first * width, matrix.begin() + (first + count) * width);
    return part.data();
  };
}

void Check(const RecurrentOptions& o, int64_t steps, int64_t batch, bool with_lens,
           bool zero_state = false) {
  Data data = MakeData(o, steps, batch, with_lens);
  if (zero_state) std::fill(data.h.begin(), data.h.end(), 0.0f);
  const Result expected = Expected(o, data);
  const bool is_lstm = o.cell == RecurrentCell::kLstm, of_bytes = IsByte(o.r_type);
  // In float32 a state between two steps may be rounded to the other one.
  const double error = of_bytes ? 1e-3 : 3e-6;
  std::vector<float> first;
  for (const Parallel& par : {OneThread(), TwoThreads()}) {
    const Floats packed(RecurrentPackedBytes(o) / 4);
    RecurrentWeights weights{.w = RowsOf(data.w, o.input_size),
                             .r = RowsOf(data.r, o.hidden_size),
                             .b = data.b.data(),
                             .peepholes = is_lstm ? data.p.data() : nullptr};
    if (o.r_type == DType::kFloat16) weights.r = RowsOf<Half>(data.r, o.hidden_size);
    if (of_bytes) {
      weights.w = RowsOf<uint8_t>(data.w_codes.codes, o.input_size);
      weights.r = RowsOf<uint8_t>(data.r_codes.codes, o.hidden_size);
      weights.w_scales = data.w_codes.scales.data();
      weights.r_scales = data.r_codes.scales.data();
      weights.w_zeros = data.w_codes.zeros.data();
      weights.r_zeros = data.r_codes.zeros.data();
    }
    RecurrentPack(o, weights, packed.get(), par);
    const Floats scratch(RecurrentScratchBytes(o, steps, batch, par.threads) / 4);
    std::vector<float> y(expected.y.size()), h(expected.h.size()), c(expected.c.size());
    RecurrentRun run;
    run.steps = steps;
    run.batch = batch;
    run.x = data.x.data();
    if (of_bytes) {
      run.x = data.x_codes.codes.data();
      run.x_scale = data.x_codes.scales[0];
      run.x_zero = data.x_codes.zeros[0];
    }
    run.sequence_lens = with_lens ? data.lens.data() : nullptr;
    run.initial_h = data.h.data();
    run.initial_c = is_lstm ? data.c.data() : nullptr;
    run.y = y.data();
    run.y_h = h.data();
    run.y_c = is_lstm ? c.data() : nullptr;
    Recurrent(o, packed.get(), run, scratch.get(), par);
    ASSERT_TRUE(packed.Intact() && scratch.Intact());
    ExpectNear(y, expected.y, error);
    ExpectNear(h, expected.h, error);
    if (is_lstm) ExpectNear(c, expected.c, error);
    if (first.empty()) first = y;
    ASSERT_TRUE(test::SameBits(first, y));
  }
}

constexpr RecurrentCell kCells[] = {RecurrentCell::kLstm, RecurrentCell::kGru, RecurrentCell::kRnn};
constexpr RecurrentDirection kDirections[] = {
    RecurrentDirection::kForward, RecurrentDirection::kReverse, RecurrentDirection::kBidirectional};

TEST(Recurrent, AgreesWithDouble) {
  test::ForEachTarget([] {
    for (RecurrentCell cell : kCells) {
      for (RecurrentDirection direction : kDirections) {
        for (int64_t hidden : {1, 5, 16, 37, 128}) {
          for (int64_t batch : {1, 2, 3, 4, 7}) {
            auto options = DefaultRecurrentOptions(cell, direction, 9, hidden);
            Check(options, 4, batch, false);
            options.linear_before_reset = true;
            options.input_forget = true;
            Check(options, 5, batch, true);
          }
        }
      }
    }
  });
}

TEST(Recurrent, ZeroState) {
  test::ForEachTarget([] {
    for (RecurrentCell cell : kCells) {
      for (int64_t batch : {1, 6}) {
        auto options = DefaultRecurrentOptions(cell, RecurrentDirection::kBidirectional, 9, 37);
        Check(options, 1, batch, false, true);
        options.linear_before_reset = true;
        Check(options, 4, batch, true, true);
      }
    }
    auto options =
        DefaultRecurrentOptions(RecurrentCell::kLstm, RecurrentDirection::kReverse, 9, 37);
    options.r_type = DType::kUInt8;
    Check(options, 3, 9, true, true);
  });
}

TEST(Recurrent, KeepsHalves) {
  test::ForEachTarget([] {
    for (RecurrentCell cell : kCells) {
      for (bool linear_before_reset : {false, true}) {
        for (int64_t hidden : {1, 37, 128}) {
          for (int64_t batch : {1, 2, 3, 4, 7}) {
            auto options =
                DefaultRecurrentOptions(cell, RecurrentDirection::kBidirectional, 9, hidden);
            options.linear_before_reset = linear_before_reset;
            options.r_type = DType::kFloat16;
            Check(options, 5, batch, true);
          }
        }
      }
    }
  });
}

TEST(Recurrent, Bytes) {
  test::ForEachTarget([] {
    for (DType type : {DType::kInt8, DType::kUInt8}) {
      for (RecurrentDirection direction : kDirections) {
        for (int64_t hidden : {1, 5, 16, 37, 128}) {
          for (int64_t batch : {1, 2, 7, 8, 11}) {
            auto options = DefaultRecurrentOptions(RecurrentCell::kLstm, direction, 9, hidden);
            options.r_type = type;
            Check(options, 4, batch, false);
            options.input_forget = true;
            Check(options, 5, batch, true);
          }
        }
      }
    }
  });
}

// Weights that the cache of one thread does not hold: directions take turns.
TEST(Recurrent, Large) {
  test::ForEachTarget([] {
    Check(DefaultRecurrentOptions(RecurrentCell::kLstm, RecurrentDirection::kBidirectional, 5, 371),
          6, 1, true);
    Check(DefaultRecurrentOptions(RecurrentCell::kGru, RecurrentDirection::kBidirectional, 5, 423),
          6, 3, true);
  });
}

TEST(Recurrent, LongAndWide) {
  test::ForEachTarget([] {
    for (RecurrentCell cell : kCells) {
      Check(DefaultRecurrentOptions(cell, RecurrentDirection::kBidirectional, 40, 200), 150, 6,
            true);
      Check(DefaultRecurrentOptions(cell, RecurrentDirection::kForward, 3, 24), 600, 1, false);
    }
  });
}

TEST(Recurrent, Clips) {
  for (RecurrentCell cell : kCells) {
    auto options = DefaultRecurrentOptions(cell, RecurrentDirection::kForward, 7, 20);
    options.has_clip = true;
    options.clip = 0.2f;
    Check(options, 4, 2, false);
  }
}

TEST(Recurrent, EveryActivation) {
  test::ForEachTarget([] {
    for (int kind = 0; kind <= static_cast<int>(Kind::kSoftplus); ++kind) {
      for (RecurrentCell cell : kCells) {
        auto options = DefaultRecurrentOptions(cell, RecurrentDirection::kBidirectional, 7, 20);
        for (auto& f : options.activations[1]) f = {static_cast<Kind>(kind), 0.3f, 0.6f};
        Check(options, 2, 2, false);
      }
    }
  });
}

TEST(Recurrent, NoStepsNoBiasNoState) {
  const auto options =
      DefaultRecurrentOptions(RecurrentCell::kLstm, RecurrentDirection::kForward, 4, 6);
  const std::vector<float> w(4 * 6 * 4, 0.1f), r(4 * 6 * 6, 0.1f);
  const Floats packed(RecurrentPackedBytes(options) / 4);
  RecurrentPack(options, {.w = RowsOf(w, 4), .r = RowsOf(r, 6)}, packed.get(), OneThread());
  const Floats scratch(RecurrentScratchBytes(options, 0, 2, 1) / 4);
  std::vector<float> h(12, 1.0f);
  RecurrentRun run;
  run.batch = 2;
  run.y_h = h.data();
  Recurrent(options, packed.get(), run, scratch.get(), OneThread());
  EXPECT_EQ(h, std::vector<float>(12, 0.0f));
}

}  // namespace
}  // namespace sardonyx
