#include "ops/control/body.h"

#include <algorithm>
#include <unordered_map>

#include "ops/core/control.h"
#include "ops/nn/attention.h"

namespace sardonyx::ops {
namespace {

using Given = std::span<const Fact* const>;  // facts of the node's inputs, null where absent

void SetLoopInputs(Given inputs, std::vector<Fact>& formals) {
  for (size_t i = 0; i < formals.size() && i < 2; ++i) {
    formals[i] = Fact();
    formals[i].type = i == 0 ? DType::kInt64 : DType::kBool;
    formals[i].shape.emplace();
  }
  for (size_t i = 2; i < formals.size() && i < inputs.size(); ++i) {
    if (inputs[i] != nullptr) formals[i] = core::Variable(*inputs[i]);
  }
}

void SetSequenceMapInputs(Given inputs, std::vector<Fact>& formals) {
  for (size_t i = 0; i < formals.size() && i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) continue;
    const Type& type = inputs[i]->type;
    const bool one_by_one = type.kind == Type::Kind::kSequence;
    formals[i] = one_by_one ? Fact() : core::Variable(*inputs[i]);
    if (one_by_one) formals[i].type = *type.element;
  }
}

// The scores: [batch,heads,queries,keys].
void SetModifierInput(Given inputs, const Attributes& attributes, SymbolTable& symbols,
                      std::vector<Fact>& formals) {
  if (formals.size() != 1 || inputs.size() < 2 || !inputs[0] || !inputs[1]) {
    Fail(ErrorCode::kInvalidModel, "a modifier takes one input, has {}", formals.size());
  }
  const Fact &q = *inputs[0], &k = *inputs[1];
  formals[0] = Fact();
  formals[0].type = FlexPrecision(attributes, q.type.dtype);
  formals[0].shape = Dims(4);
  for (int axis = 0; axis < 4; ++axis) {
    const Fact& from = axis == 3 ? k : q;
    const size_t at = axis == 3 ? 2 : static_cast<size_t>(axis);
    const bool known = from.ranked() && from.rank() == 4;
    (*formals[0].shape)[axis] = known ? (*from.shape)[at] : symbols.Fresh();
  }
}

void SetScanInputs(Given inputs, const Attributes& attributes, std::vector<Fact>& formals) {
  const size_t scanned = attributes.Int("num_scan_inputs");
  // Scan-8 has the lengths of sequences before, and a batch axis in all.
  const bool batched = inputs.size() == formals.size() + 1;
  if (batched) inputs = inputs.subspan(1);
  if (scanned > inputs.size() || inputs.size() != formals.size()) {
    Fail(ErrorCode::kInvalidModel, "the body takes {} inputs, the node has {}, {} of them scanned",
         formals.size(), inputs.size(), scanned);
  }
  const size_t states = inputs.size() - scanned;
  const std::vector<int64_t> axes = attributes.Ints("scan_input_axes");
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) continue;
    formals[i] = core::Variable(*inputs[i]);
    if (batched && formals[i].ranked() && formals[i].rank() > 0) {
      formals[i].shape->erase(formals[i].shape->begin());
    }
    if (i < states || !formals[i].ranked()) continue;
    int64_t axis = i - states < axes.size() ? axes[i - states] : 0;
    if (axis < 0) axis += formals[i].rank();
    if (axis < 0 || axis >= formals[i].rank()) {
      Fail(ErrorCode::kInvalidModel, "scan axis {} is outside the rank {} of input {}", axis,
           formals[i].rank(), i);
    }
    formals[i].shape->erase(formals[i].shape->begin() + axis);
  }
}

// A subgraph that is called for several sizes may not mean the same by a name as the graph around.
void ForgetNamesOfSizes(SymbolTable& symbols, std::vector<Fact>& formals) {
  for (Fact& formal : formals) {
    if (!formal.ranked()) continue;
    for (Dim& dim : *formal.shape) {
      if (!dim.known()) dim = symbols.Fresh();
    }
  }
}

}  // namespace

std::vector<Fact> BodyInputs(std::string_view op_type, std::span<const Fact* const> inputs,
                             std::span<const Fact> declared, const Attributes& attributes,
                             SymbolTable& symbols) {
  std::vector<Fact> formals(declared.begin(), declared.end());
  if (op_type == "Loop") {
    SetLoopInputs(inputs, formals);
  } else if (op_type == "Scan") {
    SetScanInputs(inputs, attributes, formals);
  } else if (op_type == "SequenceMap") {
    SetSequenceMapInputs(inputs, formals);
  } else if (op_type == "FlexAttention") {
    SetModifierInput(inputs, attributes, symbols, formals);
  } else {
    ForgetNamesOfSizes(symbols, formals);
  }
  return formals;
}

std::vector<int> CarriedFormals(std::string_view op_type, size_t formals,
                                const Attributes& attributes) {
  if (op_type == "Loop") return core::Carried(formals, 2, formals, 1);
  if (op_type != "Scan") return {};
  const size_t scanned = std::min<size_t>(formals, attributes.Int("num_scan_inputs"));
  return core::Carried(formals, 0, formals - scanned, 0);
}

bool RelaxCarried(const Graph& body, std::span<const int> carried, std::vector<Fact>* formals,
                  Dims* forgotten) {
  bool changed = false;
  for (size_t i = 0; i < carried.size() && i < formals->size(); ++i) {
    if (carried[i] < 0 || carried[i] >= static_cast<int>(body.outputs.size())) continue;
    changed |= core::Relax(&(*formals)[i], body.outputs[carried[i]]->fact, *body.shared_symbols(),
                           forgotten);
  }
  return changed;
}

std::vector<Val> Inline(Builder& builder, const Graph& body, std::span<const Val> arguments) {
  if (arguments.size() != body.inputs.size()) {
    Fail(ErrorCode::kInvalidModel, "the body '{}' takes {} inputs, given {}", body.name,
         body.inputs.size(), arguments.size());
  }
  std::unordered_map<const Value*, Val> values;
  for (size_t i = 0; i < arguments.size(); ++i) values[body.inputs[i]] = arguments[i];
  const auto map = [&](const Value* value) -> Val {
    if (value == nullptr) return {};
    if (const auto it = values.find(value); it != values.end()) return it->second;
    return values[value] = builder.Constant(value->fact.constant);
  };
  const auto origin = builder.origin();
  for (const auto& node : body.nodes()) {
    std::vector<Val> inputs;
    for (const Value* input : node->inputs) inputs.push_back(map(input));
    builder.SetOrigin(node->origin);
    const std::vector<Val> outputs = builder.MakeMany(*node->op, inputs, node->attributes,
                                                      static_cast<int>(node->outputs.size()));
    for (size_t i = 0; i < outputs.size(); ++i) values[node->outputs[i]] = outputs[i];
  }
  builder.SetOrigin(origin);
  std::vector<Val> results;
  for (const Value* output : body.outputs) results.push_back(map(output));
  return results;
}

std::shared_ptr<Graph> Bind(const Graph& body, std::span<const Val> bound,
                            std::vector<Val>* captures) {
  auto result = std::make_shared<Graph>(body.shared_symbols());
  result->name = body.name;
  Builder builder(*result);
  const auto add_input = [&](const std::string& name, Fact fact) {
    fact.constant = Tensor();
    return builder.Wrap(result->AddInput(name, std::move(fact)));
  };
  std::vector<Val> arguments(body.inputs.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Value& formal = *body.inputs[i];
    if (!bound[i]) arguments[i] = add_input(formal.name, formal.fact);
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!bound[i]) continue;
    if (bound[i].is_constant()) {
      arguments[i] = builder.Constant(bound[i].constant());
      continue;
    }
    arguments[i] = add_input(body.inputs[i]->name, bound[i].fact());
    captures->push_back(bound[i]);
  }
  for (const Val output : Inline(builder, body, arguments)) {
    result->outputs.push_back(output.value);
  }
  return result;
}

}  // namespace sardonyx::ops
