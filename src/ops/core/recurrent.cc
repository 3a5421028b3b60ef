// LSTM, GRU and simple RNN, as the equations of ONNX LSTM-22, GRU-22 and RNN-22 say.

#include <algorithm>
#include <cmath>

#include "ops/core/core.h"
#include "ops/core/fits.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

enum class Cell { kLstm, kGru, kRnn };

struct CellTraits {
  int64_t gates;
  std::vector<std::string> activations;  // the standard's, of one direction
};

const CellTraits& TraitsOf(Cell cell) {
  static const CellTraits kTraits[] = {
      {4, {"Sigmoid", "Tanh", "Tanh"}}, {3, {"Sigmoid", "Tanh"}}, {1, {"Tanh"}}};
  return kTraits[static_cast<int>(cell)];
}

Cell CellOf(const Node& node) {
  return node.op == &lstm ? Cell::kLstm : node.op == &gru ? Cell::kGru : Cell::kRnn;
}

// Inputs in ONNX's order; from kInitialC on the LSTM's alone. Behind them what X, W and R of bytes
// stand for, (code - zero point) * scale: a parameter for X, one for each row of W and R. The state
// is then quantised in each step as well, all sequences in one range.
enum Input : size_t {
  kX,
  kW,
  kR,
  kB,
  kSequenceLens,
  kInitialH,
  kInitialC,
  kPeepholes,
  kXScale,
  kXZero,
  kWScale,
  kWZero,
  kRScale,
  kRZero
};

int64_t Directions(const Attributes& attributes) {
  const std::string_view direction = attributes.String("direction", "forward");
  if (direction == "forward" || direction == "reverse") return 1;
  if (direction == "bidirectional") return 2;
  Fail(ErrorCode::kInvalidModel, "direction '{}' is none of forward, reverse, bidirectional",
       direction);
}

void CheckShape(InferContext& context, size_t input, std::string_view name, const Dims& expected) {
  if (!context.has(input) || !context.ranked(input)) return;
  const Dims& shape = context.shape(input);
  if (!Fits(shape, expected)) {
    context.Fail("{}: input {} is {}, expected {}", context.node().op->name, name,
                 context.Print(shape), context.Print(expected));
  }
}

// Parameters of W and R are [directions, rows].
void InferBytes(InferContext& context, const Dims& rows) {
  struct Codes {
    Input codes, scale, zero;
    std::string_view name;
    Dims parameters;
  };
  for (const auto& [codes, scale, zero, name, parameters] :
       {Codes{kX, kXScale, kXZero, "X", {}}, Codes{kW, kWScale, kWZero, "W", rows},
        Codes{kR, kRScale, kRZero, "R", rows}}) {
    const DType type = context.dtype(codes);
    if (!IsByte(type) || !context.has(scale) || context.dtype(scale) != DType::kFloat32 ||
        (context.has(zero) && context.dtype(zero) != type)) {
      context.Fail("{}: {} is no bytes with a scale in float32 and a zero point of their type",
                   context.node().op->name, name);
    }
    CheckShape(context, scale, fmt::format("the scale of {}", name), parameters);
    CheckShape(context, zero, fmt::format("the zero point of {}", name), parameters);
  }
}

void InferRecurrent(InferContext& context) {
  const Cell cell = CellOf(context.node());
  const int64_t gates = TraitsOf(cell).gates, directions = Directions(context.attributes());
  const bool batch_first = context.attributes().Int("layout") != 0;
  if (context.input_count() < 3) context.Fail("{} takes X, W and R", context.node().op->name);
  SymbolTable& symbols = context.symbols();
  const int64_t given = context.attributes().Int("hidden_size");
  Dim hidden = given > 0 ? Dim(given) : symbols.Fresh();
  if (context.ranked(kR) && context.rank(kR) == 3 && context.shape(kR)[2].known()) {
    hidden = context.shape(kR)[2];
    if (given > 0 && !(hidden == given)) {
      context.Fail("{}: hidden_size is {}, but R is {}", context.node().op->name, given,
                   context.Print(context.shape(kR)));
    }
  }
  Dim steps = symbols.Fresh(), batch = symbols.Fresh(), input_size = symbols.Fresh();
  if (context.ranked(kX)) {
    if (context.rank(kX) != 3) {
      context.Fail("{}: X has three dimensions, not {}", context.node().op->name,
                   context.Print(context.shape(kX)));
    }
    const Dims& x = context.shape(kX);
    steps = x[batch_first ? 1 : 0];
    batch = x[batch_first ? 0 : 1];
    input_size = x[2];
  }
  const Dim rows = symbols.Mul(hidden, Dim(gates)), d = directions;
  CheckShape(context, kW, "W", {d, rows, input_size});
  CheckShape(context, kR, "R", {d, rows, hidden});
  CheckShape(context, kB, "B", {d, symbols.Mul(rows, Dim(2))});
  CheckShape(context, kSequenceLens, "sequence_lens", {batch});
  const Dims state = batch_first ? Dims{batch, d, hidden} : Dims{d, batch, hidden};
  CheckShape(context, kInitialH, "initial_h", state);
  if (cell == Cell::kLstm) {
    CheckShape(context, kInitialC, "initial_c", state);
    CheckShape(context, kPeepholes, "P", {d, symbols.Mul(hidden, Dim(3))});
  }
  const bool of_bytes = IsInteger(context.dtype(kX));
  if (of_bytes) InferBytes(context, {d, rows});
  const DType type = of_bytes ? DType::kFloat32 : context.dtype(kX);
  context.Set(0, type, batch_first ? Dims{batch, steps, d, hidden} : Dims{steps, d, batch, hidden});
  for (size_t i = 1; i < context.output_count(); ++i) context.Set(i, type, state);
}

struct Activation {
  std::string name;
  double alpha = 0, beta = 0;

  double operator()(double x) const {
    if (name == "Sigmoid") return 1 / (1 + std::exp(-x));
    if (name == "Tanh") return std::tanh(x);
    if (name == "Relu") return std::max(x, 0.0);
    if (name == "Affine") return alpha * x + beta;
    if (name == "LeakyRelu") return x >= 0 ? x : alpha * x;
    if (name == "ThresholdedRelu") return x >= alpha ? x : 0;
    if (name == "ScaledTanh") return alpha * std::tanh(beta * x);
    if (name == "HardSigmoid") return std::clamp(alpha * x + beta, 0.0, 1.0);
    if (name == "Elu") return x >= 0 ? x : alpha * std::expm1(x);
    if (name == "Softsign") return x / (1 + std::abs(x));
    return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));  // Softplus
  }
};

struct ActivationRow {
  std::string_view name;
  int parameters;  // 0, alpha, or alpha and beta
  double alpha, beta;
};

// Defaults are those of the ONNX operators of these names.
constexpr ActivationRow kActivations[] = {
    {"Sigmoid", 0, 0, 0},      {"Tanh", 0, 0, 0},
    {"Relu", 0, 0, 0},         {"Affine", 2, 1, 0},
    {"LeakyRelu", 1, 0.01, 0}, {"ThresholdedRelu", 1, 1, 0},
    {"ScaledTanh", 2, 1, 1},   {"HardSigmoid", 2, 0.2, 0.5},
    {"Elu", 1, 1, 0},          {"Softsign", 0, 0, 0},
    {"Softplus", 0, 0, 0},
};

bool SameName(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  });
}

// The functions of all directions in order. Alphas and betas go to those functions that have them.
std::vector<Activation> ReadActivations(const Attributes& attributes, Cell cell,
                                        int64_t directions) {
  std::vector<std::string> names = attributes.Strings("activations");
  const std::vector<std::string>& standard = TraitsOf(cell).activations;
  for (int64_t d = 0; attributes.Strings("activations").empty() && d < directions; ++d) {
    names.insert(names.end(), standard.begin(), standard.end());
  }
  if (names.size() != standard.size() * static_cast<size_t>(directions)) {
    Fail(ErrorCode::kInvalidModel, "{} activations are given, {} are needed", names.size(),
         standard.size() * static_cast<size_t>(directions));
  }
  const std::vector<double>&alphas = attributes.Floats("activation_alpha"),
        &betas = attributes.Floats("activation_beta");
  size_t next_alpha = 0, next_beta = 0;
  std::vector<Activation> result;
  for (const std::string& name : names) {
    const auto* row =
        std::find_if(std::begin(kActivations), std::end(kActivations),
                     [&](const ActivationRow& entry) { return SameName(entry.name, name); });
    if (row == std::end(kActivations)) {
      Fail(ErrorCode::kInvalidModel, "there is no activation '{}'", name);
    }
    Activation activation{std::string(row->name), row->alpha, row->beta};
    if (row->parameters > 0 && next_alpha < alphas.size()) activation.alpha = alphas[next_alpha++];
    if (row->parameters > 1 && next_beta < betas.size()) activation.beta = betas[next_beta++];
    result.push_back(std::move(activation));
  }
  return result;
}

// One direction's parameters and the state of one sequence of the batch.
struct Step {
  Cell cell;
  int64_t hidden, input_size;
  const double *w, *r, *b, *peepholes;  // b and peepholes may be null
  const Activation* activations;
  double clip;  // infinite: none
  bool input_forget, linear_before_reset;

  double Activate(int which, double x) const {
    return activations[which](std::clamp(x, -clip, clip));
  }
  double Bias(int64_t row, int64_t rows) const { return b != nullptr ? b[row] + b[rows + row] : 0; }
  // Row of W times x.
  double FromInput(int64_t row, const double* x) const {
    double sum = 0;
    for (int64_t i = 0; i < input_size; ++i) sum += w[row * input_size + i] * x[i];
    return sum;
  }
  // Row of R times h.
  double FromState(int64_t row, const std::vector<double>& h) const {
    double sum = 0;
    for (int64_t i = 0; i < hidden; ++i) sum += r[row * hidden + i] * h[i];
    return sum;
  }

  void Run(const double* x, std::vector<double>& h, std::vector<double>& c) const {
    switch (cell) {
      case Cell::kLstm: return RunLstm(x, h, c);
      case Cell::kGru: return RunGru(x, h);
      case Cell::kRnn: return RunRnn(x, h);
    }
  }

  void RunLstm(const double* x, std::vector<double>& h, std::vector<double>& c) const {
    std::vector<double> next(h);
    for (int64_t k = 0; k < hidden; ++k) {
      // Gates in the order i, o, f, c; peepholes i, o, f.
      const auto gate = [&](int64_t g) {
        const int64_t row = g * hidden + k;
        return FromInput(row, x) + FromState(row, h) + Bias(row, 4 * hidden);
      };
      const auto peep = [&](int64_t g) {
        return peepholes != nullptr ? peepholes[g * hidden + k] : 0;
      };
      const double i = Activate(0, gate(0) + peep(0) * c[k]);
      const double f = input_forget ? 1 - i : Activate(0, gate(2) + peep(2) * c[k]);
      c[k] = f * c[k] + i * Activate(1, gate(3));
      const double o = Activate(0, gate(1) + peep(1) * c[k]);
      next[k] = o * Activate(2, c[k]);
    }
    h = std::move(next);
  }

  void RunGru(const double* x, std::vector<double>& h) const {
    // Gates in the order z, r, h.
    std::vector<double> update(hidden), reset(hidden), reset_state(hidden), next(hidden);
    for (int64_t k = 0; k < hidden; ++k) {
      const auto gate = [&](int64_t row) {
        return FromInput(row, x) + FromState(row, h) + Bias(row, 3 * hidden);
      };
      update[k] = Activate(0, gate(k));
      reset[k] = Activate(0, gate(hidden + k));
      reset_state[k] = reset[k] * h[k];
    }
    for (int64_t k = 0; k < hidden; ++k) {
      const int64_t row = 2 * hidden + k;
      double sum;
      if (linear_before_reset) {
        const double wb = b != nullptr ? b[row] : 0, rb = b != nullptr ? b[3 * hidden + row] : 0;
        sum = FromInput(row, x) + reset[k] * (FromState(row, h) + rb) + wb;
      } else {
        sum = FromInput(row, x) + FromState(row, reset_state) + Bias(row, 3 * hidden);
      }
      next[k] = (1 - update[k]) * Activate(1, sum) + update[k] * h[k];
    }
    h = std::move(next);
  }

  void RunRnn(const double* x, std::vector<double>& h) const {
    std::vector<double> next(hidden);
    for (int64_t k = 0; k < hidden; ++k) {
      next[k] = Activate(0, FromInput(k, x) + FromState(k, h) + Bias(k, hidden));
    }
    h = std::move(next);
  }
};

// The numbers that codes stand for, a scale and zero point for each so many; floats as they are.
std::vector<double> ReadCodes(const ComputeContext& context, Input codes, Input scale, Input zero) {
  std::vector<double> values = ToDoubles(context.input(codes));
  if (!IsInteger(context.input(codes).dtype())) return values;
  const std::vector<double> scales = ToDoubles(context.input(scale));
  const std::vector<double> zeros =
      context.has(zero) ? ToDoubles(context.input(zero)) : std::vector<double>(scales.size(), 0);
  const size_t each = std::max<size_t>(values.size() / std::max<size_t>(scales.size(), 1), 1);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = (values[i] - zeros[i / each]) * scales[i / each];
  }
  return values;
}

// Rounds the states of those sequences that go on to 256 steps of their range.
void QuantizeStates(std::vector<std::vector<double>>& states, const std::vector<int64_t>& lengths,
                    int64_t t) {
  double low = 0, high = 0;
  const auto each = [&](auto&& body) {
    for (size_t n = 0; n < states.size(); ++n) {
      if (t < lengths[n]) std::for_each(states[n].begin(), states[n].end(), body);
    }
  };
  each([&](double h) { low = std::min(low, h), high = std::max(high, h); });
  const double scale = (high > low ? high - low : 1) / 255;
  const double zero = std::nearbyint(std::clamp(-low / scale, 0.0, 255.0));
  each([&](double& h) {
    h = (std::clamp(std::nearbyint(h / scale) + zero, 0.0, 255.0) - zero) * scale;
  });
}

std::vector<double> ReadOptional(const ComputeContext& context, size_t input) {
  return context.has(input) ? ToDoubles(context.input(input)) : std::vector<double>();
}

void ComputeRecurrent(ComputeContext& context) {
  const Attributes& attributes = context.attributes();
  const Cell cell = CellOf(context.node());
  const bool is_lstm = cell == Cell::kLstm, batch_first = attributes.Int("layout") != 0;
  const std::vector<int64_t>& x_dims = context.input(kX).dims();
  const int64_t steps = x_dims[batch_first ? 1 : 0], batch = x_dims[batch_first ? 0 : 1];
  const int64_t input_size = x_dims[2], hidden = context.input(kR).dims()[2];
  const int64_t directions = Directions(attributes), rows = TraitsOf(cell).gates * hidden;
  const bool of_bytes = IsInteger(context.input(kX).dtype());
  const std::vector<double> x = ReadCodes(context, kX, kXScale, kXZero),
                            w = ReadCodes(context, kW, kWScale, kWZero),
                            r = ReadCodes(context, kR, kRScale, kRZero),
                            b = ReadOptional(context, kB),
                            initial_h = ReadOptional(context, kInitialH),
                            initial_c =
                                is_lstm ? ReadOptional(context, kInitialC) : std::vector<double>(),
                            peepholes =
                                is_lstm ? ReadOptional(context, kPeepholes) : std::vector<double>();
  std::vector<int64_t> lengths(batch, steps);
  if (context.has(kSequenceLens)) lengths = ToInts(context.input(kSequenceLens));
  const std::vector<Activation> activations = ReadActivations(attributes, cell, directions);
  const double clip = attributes.Float("clip", 0);
  std::vector<double> y(steps * directions * batch * hidden, 0), y_h(directions * batch * hidden),
      y_c(y_h);
  for (int64_t d = 0; d < directions; ++d) {
    const Step step{
        cell,
        hidden,
        input_size,
        w.data() + d * rows * input_size,
        r.data() + d * rows * hidden,
        b.empty() ? nullptr : b.data() + d * 2 * rows,
        peepholes.empty() ? nullptr : peepholes.data() + d * 3 * hidden,
        activations.data() + d * static_cast<int64_t>(TraitsOf(cell).activations.size()),
        clip > 0 ? clip : std::numeric_limits<double>::infinity(),
        attributes.Int("input_forget") != 0,
        attributes.Int("linear_before_reset") != 0,
    };
    const bool reverse = d == 1 || attributes.String("direction", "forward") == "reverse";
    std::vector<std::vector<double>> h(batch, std::vector<double>(hidden, 0)), c(h);
    const auto state = [&](int64_t n) {
      return (batch_first ? n * directions + d : d * batch + n) * hidden;
    };
    for (int64_t n = 0; n < batch; ++n) {
      if (lengths[n] < 0 || lengths[n] > steps) {
        Fail(ErrorCode::kInvalidArgument, "sequence_lens {} is outside [0,{}]", lengths[n], steps);
      }
      if (!initial_h.empty()) std::copy_n(initial_h.begin() + state(n), hidden, h[n].begin());
      if (!initial_c.empty()) std::copy_n(initial_c.begin() + state(n), hidden, c[n].begin());
    }
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t t = reverse ? steps - 1 - i : i;
      if (of_bytes) QuantizeStates(h, lengths, t);
      for (int64_t n = 0; n < batch; ++n) {
        if (t >= lengths[n]) continue;
        step.Run(x.data() + (batch_first ? n * steps + t : t * batch + n) * input_size, h[n], c[n]);
        const int64_t at =
            batch_first ? (n * steps + t) * directions + d : (t * directions + d) * batch + n;
        std::copy(h[n].begin(), h[n].end(), y.begin() + at * hidden);
      }
    }
    for (int64_t n = 0; n < batch; ++n) {
      std::copy(h[n].begin(), h[n].end(), y_h.begin() + state(n));
      std::copy(c[n].begin(), c[n].end(), y_c.begin() + state(n));
    }
  }
  const std::vector<double>* results[] = {&y, &y_h, &y_c};
  for (size_t i = 0; i < context.output_count(); ++i) {
    Tensor& output = context.Allocate(i);
    ConvertElements(DType::kFloat64, results[i]->data(), output.dtype(), output.raw(),
                    output.size(), false);
  }
}

}  // namespace

const CoreOp lstm = {.name = "lstm",
                     .inputs = "tttt?t?t?t?t?t?t?t?t?t?t?",
                     .outputs = {1, 3},
                     .infer = InferRecurrent,
                     .reference = ComputeRecurrent};
const CoreOp gru = {.name = "gru",
                    .inputs = "tttt?t?t?",
                    .outputs = {1, 2},
                    .infer = InferRecurrent,
                    .reference = ComputeRecurrent};
const CoreOp rnn = {.name = "rnn",
                    .inputs = "tttt?t?t?",
                    .outputs = {1, 2},
                    .infer = InferRecurrent,
                    .reference = ComputeRecurrent};

}  // namespace sardonyx::core
