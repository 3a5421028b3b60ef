#include "ir/core_op.h"

#include "base/out_of_memory.h"

namespace sardonyx {
namespace {

template <typename Body>
decltype(auto) Named(const Node& node, Body&& body) {
  try {
    return NamingMemory(node.op->name, body);
  } catch (const Error& error) {
    if (node.origin == nullptr) throw;
    const std::string name = Print(*node.origin);
    // A node that is lowered when it runs consists of nodes of its name.
    if (std::string_view(error.what()).starts_with(name)) throw;
    throw Error(error.code(), name + ": " + error.what());
  }
}

// An attribute may have said anything.
void CheckElementTypes(const Type& type) {
  if (static_cast<int>(type.dtype) >= kDTypeCount) {
    Fail(ErrorCode::kInvalidModel, "there is no element type {}", static_cast<int>(type.dtype));
  }
  if (type.element != nullptr) CheckElementTypes(*type.element);
}

}  // namespace

const Dims* InferContext::elements(size_t i) const {
  return has(i) && inputs_[i]->elements ? &*inputs_[i]->elements : nullptr;
}

bool InferContext::Ints(size_t i, std::vector<int64_t>* values) const {
  const Dims* dims = elements(i);
  if (dims == nullptr) {
    const Tensor* tensor = constant(i);
    if (tensor == nullptr || !IsInteger(tensor->dtype())) return false;
    *values = ToInts(*tensor);
    return true;
  }
  values->clear();
  for (Dim dim : *dims) {
    if (!dim.known()) return false;
    values->push_back(dim.value());
  }
  return true;
}

const Tensor* InferContext::constant(size_t i) const {
  return has(i) && inputs_[i]->constant.defined() ? &inputs_[i]->constant : nullptr;
}

void InferContext::Set(size_t output, DType dtype, std::optional<Dims> shape) {
  Fact& fact = outputs_[output];
  fact = Fact();
  fact.type = dtype;
  fact.shape = std::move(shape);
}

int InferContext::Axis(int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank) {
    Fail("axis {} is outside [{},{}] of a tensor of rank {}", axis, -rank, rank - 1, rank);
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Dims InferContext::Broadcast(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims result = longer;
  const size_t offset = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    const Dim x = longer[offset + i], y = shorter[i];
    if (x.known() && y.known() && !(x == y) && !(x == 1) && !(y == 1)) {
      Fail("cannot broadcast {} with {}: sizes {} and {} differ and neither is 1", Print(a),
           Print(b), x.value(), y.value());
    }
    result[offset + i] = symbols_.Broadcast(x, y);
  }
  return result;
}

std::string InferContext::Print(const Dims& dims) const {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ",";
    text += symbols_.Print(dims[i]);
  }
  return text + "]";
}

std::vector<Fact> Infer(const Node& node, std::span<const Fact* const> inputs,
                        SymbolTable& symbols) {
  std::vector<Fact> outputs(node.outputs.size());
  InferContext context(node, inputs, outputs, symbols);
  Named(node, [&] {
    node.op->infer(context);
    for (const Fact& output : outputs) CheckElementTypes(output.type);
  });
  return outputs;
}

Tensor& ComputeContext::Allocate(size_t output) {
  const Fact& fact = inferred_[output];
  if (!fact.ranked()) {
    Fail(ErrorCode::kInvalidModel, "{}: output {} has no known rank", node_.op->name, output);
  }
  std::vector<int64_t> dims;
  for (Dim dim : *fact.shape) {
    if (!dim.known()) Fail(ErrorCode::kInternal, "{}: a dimension depends on data", node_.op->name);
    dims.push_back(dim.value());
  }
  return Allocate(output, fact.type.dtype, std::move(dims));
}

Fact FactOf(const Datum& datum) {
  if (const Tensor* tensor = datum.tensor()) return Fact::Of(*tensor);
  Fact fact;
  Type element;
  if (const Sequence* sequence = datum.sequence()) {
    fact.type.kind = Type::Kind::kSequence;
    if (!sequence->empty()) element = FactOf(sequence->front()).type;
  } else if (const Map* map = datum.map()) {
    fact.type.kind = Type::Kind::kMap;
    fact.type.dtype = map->keys.dtype();
    if (!map->values.empty()) element = FactOf(map->values.front()).type;
  } else {
    fact.type.kind = Type::Kind::kOptional;
  }
  fact.type.element = std::make_shared<const Type>(std::move(element));
  return fact;
}

std::vector<Datum> RunReference(const Node& node, std::span<const Datum> inputs) {
  std::vector<Fact> facts(inputs.size());
  std::vector<const Fact*> pointers(inputs.size(), nullptr);
  for (size_t i = 0; i < inputs.size(); ++i) {
    // An absent input and an empty optional look alike; the node knows.
    if (!inputs[i].has_value() && node.input(i) == nullptr) continue;
    facts[i] = FactOf(inputs[i]);
    pointers[i] = &facts[i];
  }
  SymbolTable symbols;
  const std::vector<Fact> inferred = Infer(node, pointers, symbols);
  std::vector<Datum> outputs(node.outputs.size());
  ComputeContext context(node, inputs, inferred, outputs);
  Named(node, [&] { node.op->reference(context); });
  return outputs;
}

}  // namespace sardonyx
