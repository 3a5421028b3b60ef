#include "ops/lowering.h"

namespace sardonyx::ops {

namespace {

// One batch element's part of a value whose first axis is the batch.
Fact ElementOf(const Fact& fact) {
  Fact part;
  part.type = fact.type;
  if (!fact.ranked()) return part;
  if (fact.rank() == 0) {
    Fail(ErrorCode::kInvalidModel, "states and scanned inputs of opset 8 have a batch axis");
  }
  part.shape = Dims(fact.shape->begin() + 1, fact.shape->end());
  return part;
}

// Scan-8: (sequence_lens?, states..., scanned..., captures...), all with a batch axis. A scan over
// the batch whose body scans one sequence: as much of it as its length says, the stacked outputs
// filled up with zeros.
Outputs LowerBatchedScan(Lowering& op, const std::shared_ptr<Graph>& body) {
  Builder& b = op.builder();
  const size_t captures = static_cast<size_t>(op.Int("captures"));
  const size_t scanned = static_cast<size_t>(op.Int("num_scan_inputs"));
  if (op.inputs.size() < 1 + scanned + captures) op.Fail("scans more inputs than it has");
  const size_t own = op.inputs.size() - captures;  // sequence_lens, states and scanned
  const size_t states = own - 1 - scanned;
  auto each = std::make_shared<Graph>(b.graph().shared_symbols());
  Builder inner(*each);
  inner.SetOrigin(b.origin());
  std::vector<Val> outer_inputs, inputs;
  Val length, full;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!op.has(i)) {
      if (i == 0) continue;
      op.Fail("input {} is left out", i);
    }
    Fact fact = i < own ? ElementOf(op.inputs[i].fact()) : op.inputs[i].fact();
    fact.constant = Tensor();
    Val value = inner.Wrap(each->AddInput("", std::move(fact)));
    outer_inputs.push_back(op.inputs[i]);
    if (i == 0) {
      length = Reshape(value, std::vector<int64_t>{1});
      continue;
    }
    if (length && i > states && i < own) {
      if (!full) full = SizeOf(value, 0);
      value = inner.Make(core::slice, {value, inner.Ints({0}), length, inner.Ints({0})});
    }
    inputs.push_back(value);
  }
  std::vector<Val> outputs = inner.MakeMany(core::scan, inputs,
                                            {{"body", body},
                                             {"captures", static_cast<int64_t>(captures)},
                                             {"scan_inputs", static_cast<int64_t>(scanned)},
                                             {"input_directions", op.Ints("directions")}},
                                            static_cast<int>(body->outputs.size()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (length && i >= states) {
      const Val missing = Concat({inner.Ints({0}), full - length}, 0);
      outputs[i] = inner.Make(core::pad, {outputs[i], missing, Val{}, inner.Ints({0})},
                              {{"mode", std::string("constant")}});
    }
    each->outputs.push_back(outputs[i].value);
  }
  return b.MakeMany(core::scan, outer_inputs,
                    {{"body", each},
                     {"captures", static_cast<int64_t>(captures)},
                     {"scan_inputs", static_cast<int64_t>(outer_inputs.size() - captures)}},
                    static_cast<int>(op.output_count()));
}

}  // namespace

// Scan-9 and later: (states..., scanned..., captures...).
Outputs LowerScan(Lowering& op) {
  const auto body = op.attributes.Body("body");
  if (op.output_count() > body->outputs.size()) {
    op.Fail("has {} outputs, but its body gives {}", op.output_count(), body->outputs.size());
  }
  const auto formals = static_cast<int64_t>(body->inputs.size());
  const int64_t states = formals - op.Int("captures") - op.Int("num_scan_inputs");
  if (states > static_cast<int64_t>(body->outputs.size())) {
    op.Fail("carries {} values, but its body has {} outputs", states, body->outputs.size());
  }
  if (op.version() == 8) return LowerBatchedScan(op, body);
  Attributes attributes;
  attributes.Set("body", body);
  attributes.Set("captures", op.Int("captures"));
  attributes.Set("scan_inputs", op.Int("num_scan_inputs"));
  attributes.Set("input_axes", op.Ints("scan_input_axes"));
  attributes.Set("input_directions", op.Ints("scan_input_directions"));
  attributes.Set("output_axes", op.Ints("scan_output_axes"));
  attributes.Set("output_directions", op.Ints("scan_output_directions"));
  return op.builder().MakeMany(core::scan, op.inputs, std::move(attributes),
                               static_cast<int>(op.output_count()));
}

}  // namespace sardonyx::ops
