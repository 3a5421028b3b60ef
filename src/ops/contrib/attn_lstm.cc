#include <algorithm>
#include <cctype>
#include <limits>

#include "ops/contrib/standard.h"

namespace sardonyx::ops::contrib {
namespace {

enum Input : size_t {
  kX,
  kW,
  kR,
  kB,
  kLengths,
  kInitialH,
  kInitialC,
  kPeepholes,
  kQueryWeights,
  kMemoryWeights,
  kVector,
  kMemory,
  kMemoryLengths,
  kLayerWeights
};

struct Activation {
  std::string name;
  Attributes attributes;
};

struct ActivationRow {
  std::string_view name;
  int parameters;  // 0, alpha, or alpha and beta
};

constexpr ActivationRow kActivations[] = {
    {"Sigmoid", 0},    {"Tanh", 0},        {"Relu", 0}, {"Affine", 2},   {"LeakyRelu", 1},
    {"ScaledTanh", 2}, {"HardSigmoid", 2}, {"Elu", 1},  {"Softsign", 0}, {"ThresholdedRelu", 1},
    {"Softplus", 0},   {"Softmax", 0},
};

bool SameName(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// Three for each direction: of the gates, of the cell's input and of its output. Alphas and betas
// go to those functions that have them.
std::vector<Activation> ReadActivations(const Lowering& op, size_t directions) {
  std::vector<std::string> names = op.attributes.Strings("activations");
  if (names.empty()) {
    for (size_t d = 0; d < directions; ++d) {
      names.insert(names.end(), {"Sigmoid", "Tanh", "Tanh"});
    }
  }
  if (names.size() != 3 * directions) {
    op.Fail("{} activations are given, {} are needed", names.size(), 3 * directions);
  }
  std::vector<double> alphas = op.attributes.Floats("activation_alpha"),
                      betas = op.attributes.Floats("activation_beta");
  const auto take = [](std::vector<double>& values, std::string_view name, Activation* activation) {
    if (values.empty()) return;
    activation->attributes.Set(name, values.front());
    values.erase(values.begin());
  };
  std::vector<Activation> result;
  for (const std::string& name : names) {
    const auto* row = std::ranges::find_if(
        kActivations, [&](const ActivationRow& entry) { return SameName(entry.name, name); });
    if (row == std::end(kActivations)) op.Fail("there is no activation '{}'", name);
    Activation activation{std::string(row->name), {}};
    // Those of ONNX's first operators have no defaults.
    if (row->name == "Affine" || row->name == "ScaledTanh") {
      activation.attributes = {{"alpha", 1.0}, {"beta", row->name == "Affine" ? 0.0 : 1.0}};
    }
    if (row->parameters > 0) take(alphas, "alpha", &activation);
    if (row->parameters > 1) take(betas, "beta", &activation);
    result.push_back(std::move(activation));
  }
  return result;
}

constexpr int64_t kAny = -1;

void CheckShape(const Lowering& op, Input input, std::string_view name,
                const std::vector<int64_t>& expected) {
  if (!op.has(input)) return;
  const Dims& dims = op.in(input).shape();
  bool fits = dims.size() == expected.size();
  for (size_t i = 0; fits && i < dims.size(); ++i) {
    fits = !dims[i].known() || expected[i] == kAny || dims[i].value() == expected[i];
  }
  if (fits) return;
  std::vector<std::string> given, wanted;
  for (const Dim dim : dims) given.push_back(dim.known() ? fmt::to_string(dim.value()) : "?");
  for (const int64_t size : expected) wanted.push_back(size == kAny ? "?" : fmt::to_string(size));
  op.Fail("input {} is [{}], expected [{}]", name, fmt::join(given, ","), fmt::join(wanted, ","));
}

// Of all inputs as far as sizes are known; R has rank 3.
void CheckShapes(const Lowering& op, int64_t directions, int64_t hidden) {
  const auto size = [&](Input input, size_t axis) {
    const Dims& dims = op.in(input).shape();
    return axis < dims.size() && dims[axis].known() ? dims[axis].value() : kAny;
  };
  CheckShape(op, kX, "X", {kAny, kAny, kAny});
  CheckShape(op, kMemory, "M", {size(kX, 1), kAny, kAny});
  const int64_t batch = size(kX, 1), depth = size(kMemory, 2), attended = size(kVector, 1);
  const int64_t state = op.has(kLayerWeights) ? size(kLayerWeights, 2) : depth;
  const int64_t inputs = size(kX, 2);
  CheckShape(op, kW, "W",
             {directions, 4 * hidden, inputs == kAny || state == kAny ? kAny : inputs + state});
  CheckShape(op, kR, "R", {directions, 4 * hidden, hidden});
  CheckShape(op, kB, "B", {directions, 8 * hidden});
  CheckShape(op, kLengths, "sequence_lens", {batch});
  CheckShape(op, kInitialH, "initial_h", {directions, batch, hidden});
  CheckShape(op, kInitialC, "initial_c", {directions, batch, hidden});
  CheckShape(op, kPeepholes, "P", {directions, 3 * hidden});
  CheckShape(op, kQueryWeights, "QW", {directions, hidden, attended});
  CheckShape(op, kMemoryWeights, "MW", {directions, depth, attended});
  CheckShape(op, kVector, "V", {directions, attended});
  CheckShape(op, kMemoryLengths, "memory_seq_lens", {batch});
  CheckShape(op, kLayerWeights, "AW", {directions, depth == kAny ? kAny : depth + hidden, kAny});
}

// What holds for all steps of one direction. Values of the node here, of the body in `Step`.
struct Layer {
  size_t direction;
  bool is_reverse;
  const Activation* activations;
  int64_t hidden;
  int64_t inputs;  // features of X
};

Val OfDirection(Val x, size_t direction) {
  const auto d = static_cast<int64_t>(direction);
  return Squeeze(Slice(x, {d}, {d + 1}, {0}), {0});
}

// The body of the scan under construction: inputs are made in the order states, scanned, captures.
class Body {
 public:
  explicit Body(Lowering& op)
      : graph_(std::make_shared<Graph>(op.builder().graph().shared_symbols())), builder_(*graph_) {
    builder_.SetOrigin(op.builder().origin());
  }

  // A formal input for the value, or for a part of it along the first axis.
  Val Input(Val value, bool is_scanned = false) {
    given_.push_back(value);
    Fact fact;
    fact.type = value.type();
    fact.shape = value.fact().shape;
    if (is_scanned && fact.shape) fact.shape->erase(fact.shape->begin());
    return builder_.Wrap(graph_->AddInput("", std::move(fact)));
  }
  Val Capture(Val value) { return value ? Input(value) : Val{}; }

  Builder& builder() { return builder_; }
  const std::shared_ptr<Graph>& graph() const { return graph_; }
  const std::vector<Val>& given() const { return given_; }

 private:
  std::shared_ptr<Graph> graph_;
  Builder builder_;
  std::vector<Val> given_;
};

// The states that steps hand on, [batch, size] each.
struct States {
  Val h, c, attention;
};

// One step of the cell. `gates` [batch, 4 * hidden] is what the input adds to them.
States Step(Lowering& inner, double clip, bool couples, const Layer& layer, Val gates,
            const States& before, Val w, Val r, Val peepholes) {
  const int64_t size = layer.hidden;
  const auto activate = [&](int which, Val x) {
    if (clip > 0 && which < 2) x = Clip(x, -clip, clip);  // as ONNX Runtime, which clips no state
    const Activation& activation = layer.activations[which];
    Attributes attributes = activation.attributes;
    if (activation.name == "Softmax") attributes.Set("axis", int64_t{-1});
    return Standard(inner, activation.name, {x}, std::move(attributes)).values[0];
  };
  const Val of_attention = Slice(w, {layer.inputs}, {INT64_MAX}, {1});
  gates = gates + MatMul(Concat({before.h, before.attention}, 1), Concat({r, of_attention}, 1),
                         false, true);
  const std::vector<Val> parts = Split(gates, {size, size, size, size}, 1);  // i, o, f, c
  const auto peep = [&](Val gate, int64_t k, Val cell) {
    return peepholes ? gate + Slice(peepholes, {k * size}, {(k + 1) * size}, {0}) * cell : gate;
  };
  const Val i = activate(0, peep(parts[0], 0, before.c));
  const Val f = couples ? 1.0 - i : activate(0, peep(parts[2], 2, before.c));
  States after;
  after.c = f * before.c + i * activate(1, parts[3]);
  const Val o = activate(0, peep(parts[1], 1, after.c));
  after.h = o * activate(2, after.c);
  return after;
}

struct Ends {
  Val y, h, c;  // [steps, batch, hidden], [batch, hidden]
};

Ends RunDirection(Lowering& op, const Layer& layer) {
  const size_t d = layer.direction;
  const auto part = [&](Input i) { return op.has(i) ? OfDirection(op.in(i), d) : Val{}; };
  const Val x = op.in(kX), w = part(kW), memory = op.in(kMemory);
  const Val batch = SizeOf(x, 1);
  const auto start = [&](Val given, Val size) {
    return given ? given : Filled(Concat({batch, size}, 0), MakeFilled(x.dtype(), {1}, 0));
  };
  const Val hidden = op.builder().Ints({layer.hidden});
  const Val attended = op.has(kLayerWeights) ? SizeOf(op.in(kLayerWeights), 2) : SizeOf(memory, 2);
  Val gates = MatMul(x, Slice(w, {0}, {layer.inputs}, {1}), false, true);
  if (op.has(kB)) {
    const std::vector<Val> biases = Split(part(kB), {4 * layer.hidden, 4 * layer.hidden}, 0);
    gates = gates + (biases[0] + biases[1]);
  }
  const Val keys = MatMul(memory, part(kMemoryWeights));

  Body body(op);
  States before;
  before.h = body.Input(start(part(kInitialH), hidden));
  before.c = body.Input(start(part(kInitialC), hidden));
  before.attention = body.Input(start({}, attended));
  const Val gate = body.Input(gates, true);
  const bool is_ragged = op.has(kLengths);
  const Val step = is_ragged ? body.Input(Positions(SizeOf(x, 0)), true) : Val{};
  const int64_t scanned = is_ragged ? 2 : 1;
  const auto capture = [&](Input i) { return body.Capture(op.in(i)); };
  const auto own = [&](Val whole) { return whole ? OfDirection(whole, d) : Val{}; };
  const Val inner_w = own(capture(kW)), inner_r = own(capture(kR)),
            peepholes = own(capture(kPeepholes)), query_weights = own(capture(kQueryWeights)),
            vector = own(capture(kVector)), layer_weights = own(capture(kLayerWeights)),
            values = capture(kMemory), inner_keys = body.Capture(keys), lengths = capture(kLengths),
            memory_lengths = capture(kMemoryLengths);

  Lowering inner(body.builder(), op.domain(), op.op_type(), op.version(), {}, {}, {});
  States after = Step(inner, op.Float("clip"), op.Int("input_forget") != 0, layer, gate, before,
                      inner_w, inner_r, peepholes);
  // Bahdanau's attention.
  const Val query = Unsqueeze(MatMul(after.h, query_weights), {1});
  Val scores = Squeeze(MatMul(Tanh(inner_keys + query), Unsqueeze(vector, {1})), {2});
  if (memory_lengths) {
    const Val exists =
        Less(Positions(SizeOf(values, 1)), Unsqueeze(Cast(memory_lengths, DType::kInt64), {1}));
    scores = Where(exists, scores,
                   body.builder().Scalar(scores.dtype(), -std::numeric_limits<double>::infinity()));
  }
  after.attention = Squeeze(MatMul(Unsqueeze(Softmax(scores, -1), {1}), values), {1});
  if (layer_weights) {
    after.attention = MatMul(Concat({after.h, after.attention}, 1), layer_weights);
  }
  Val y = after.h;
  if (is_ragged) {
    const Val goes_on = Less(step, Unsqueeze(Cast(lengths, DType::kInt64), {1}));
    y = Where(goes_on, y, body.builder().Scalar(y.dtype(), 0));
    after.h = Where(goes_on, after.h, before.h);
    after.c = Where(goes_on, after.c, before.c);
    after.attention = Where(goes_on, after.attention, before.attention);
  }
  for (const Val output : {after.h, after.c, after.attention, y}) {
    body.graph()->outputs.push_back(output.value);
  }
  const std::vector<int64_t> directions(scanned, layer.is_reverse ? 1 : 0);
  const std::vector<Val> results =
      op.builder().MakeMany(core::scan, body.given(),
                            {{"body", body.graph()},
                             {"captures", static_cast<int64_t>(body.given().size()) - 3 - scanned},
                             {"scan_inputs", scanned},
                             {"input_directions", directions},
                             {"output_directions", std::vector<int64_t>{directions[0]}}},
                            4);
  return {results[3], results[0], results[1]};
}

}  // namespace

// An LSTM whose input at each step is joined with what attention gave at the step before, to a
// memory by the cell's output. States of sequences that ended stay as they are.
Outputs LowerAttnLSTM(Lowering& op) {
  for (const auto& [input, name] :
       {std::pair{kQueryWeights, "QW"}, {kMemoryWeights, "MW"}, {kVector, "V"}, {kMemory, "M"}}) {
    if (!op.has(input)) op.Fail("the input {} is missing", name);
  }
  const std::string direction = op.String("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    op.Fail("direction '{}' is none of forward, reverse, bidirectional", direction);
  }
  const size_t directions = direction == "bidirectional" ? 2 : 1;
  const std::vector<Activation> activations = ReadActivations(op, directions);
  if (op.in(kR).rank() != 3) op.Fail("R has rank {}, not 3", op.in(kR).rank());
  const int64_t hidden = op.in(kR).size(2), given = op.Int("hidden_size", hidden);
  if (given != hidden) op.Fail("hidden_size is {}, but R has {} columns", given, hidden);
  CheckShapes(op, static_cast<int64_t>(directions), hidden);
  std::vector<Val> y, h, c;
  for (size_t d = 0; d < directions; ++d) {
    const Layer layer{.direction = d,
                      .is_reverse = d == 1 || direction == "reverse",
                      .activations = activations.data() + 3 * d,
                      .hidden = hidden,
                      .inputs = op.in(kX).size(2)};
    const Ends ends = RunDirection(op, layer);
    y.push_back(Unsqueeze(ends.y, {1}));
    h.push_back(Unsqueeze(ends.h, {0}));
    c.push_back(Unsqueeze(ends.c, {0}));
  }
  return {Concat(y, 1), Concat(h, 0), Concat(c, 0)};
}

}  // namespace sardonyx::ops::contrib
