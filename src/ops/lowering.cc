#include "ops/lowering.h"

#include <unordered_map>

namespace sardonyx::ops {

#define SARDONYX_OP(name) Outputs Lower##name(Lowering& op);
#define SARDONYX_OP_ADAPTED(name)    \
  Outputs Lower##name(Lowering& op); \
  void Adapt##name(Lowering& op);
#define SARDONYX_DOMAIN_OP(domain, space, name) \
  namespace space {                             \
  Outputs Lower##name(Lowering& op);            \
  }
#define SARDONYX_DOMAIN_OP_ADAPTED(domain, space, name) \
  namespace space {                                     \
  Outputs Lower##name(Lowering& op);                    \
  void Adapt##name(Lowering& op);                       \
  }
#include "ops/all.inc"
#undef SARDONYX_OP
#undef SARDONYX_OP_ADAPTED
#undef SARDONYX_DOMAIN_OP
#undef SARDONYX_DOMAIN_OP_ADAPTED

namespace {

constexpr OnnxOp kTable[] = {
#define SARDONYX_OP(name) {"", #name, &Lower##name, nullptr},
#define SARDONYX_OP_ADAPTED(name) {"", #name, &Lower##name, &Adapt##name},
#define SARDONYX_DOMAIN_OP(domain, space, name) {domain, #name, &space::Lower##name, nullptr},
#define SARDONYX_DOMAIN_OP_ADAPTED(domain, space, name) \
  {domain, #name, &space::Lower##name, &space::Adapt##name},
#include "ops/all.inc"
#undef SARDONYX_OP
#undef SARDONYX_OP_ADAPTED
#undef SARDONYX_DOMAIN_OP
#undef SARDONYX_DOMAIN_OP_ADAPTED
};

}  // namespace

DType Lowering::DTypeAttribute(std::string_view name, DType otherwise) const {
  const int64_t code = Int(name);
  if (code == 0) return otherwise;  // absent, or UNDEFINED, as models write "not given"
  if (code < 0 || code >= kDTypeCount) {
    Fail("attribute '{}' is {}, which is no element type", name, code);
  }
  return static_cast<DType>(code);
}

const OnnxOp* FindOnnxOp(std::string_view domain, std::string_view name) {
  static const auto kIndex = [] {
    std::unordered_map<std::string_view, std::vector<const OnnxOp*>> index;
    for (const OnnxOp& op : kTable) index[op.name].push_back(&op);
    return index;
  }();
  auto it = kIndex.find(name);
  if (it == kIndex.end()) return nullptr;
  for (const OnnxOp* op : it->second) {
    if (op->domain == domain) return op;
  }
  return nullptr;
}

void Lowering::SetInput(size_t i, Val value) {
  if (inputs.size() <= i) inputs.resize(i + 1);
  inputs[i] = value;
}

void Lowering::AttributeToInput(std::string_view name, size_t i) {
  if (HasAttribute(name)) {
    SetInput(i, builder_.Ints(Ints(name)));
    attributes.Erase(name);
  }
}

namespace {

// Lists too long to be copied for the rare case that a node is deferred. Whatever changes them does
// so when nothing can be unknown any more.
bool IsLong(const Attribute& attribute) {
  constexpr size_t kLong = 4096;
  return std::visit(
      [](const auto& value) {
        if constexpr (requires { value.capacity(); }) return value.size() >= kLong;
        return false;
      },
      attribute);
}

}  // namespace

std::vector<Val> Lower(Lowering& op, const std::vector<Type>& output_types, bool may_fail) {
  const OnnxOp* entry = FindOnnxOp(op.domain(), op.op_type());
  if (entry == nullptr) {
    Fail(ErrorCode::kUnsupported, "operator {} of domain '{}' is not implemented", op.op_type(),
         op.domain());
  }
  // As the model means it: a deferred node is adapted again when it is lowered.
  Attributes attributes;
  for (const auto& [name, value] : op.attributes.items()) {
    if (!IsLong(value)) attributes.Set(name, value);
  }
  const std::vector<Val> inputs = op.inputs;
  try {
    if (entry->adapt != nullptr) entry->adapt(op);
    return entry->lower(op).values;
  } catch (const NotYetKnown&) {
  } catch (const Error& error) {
    if (!may_fail || !IsFaultOfInputs(error)) throw;
    attributes.Set("@failed", int64_t{1});
  }
  for (const auto& [name, value] : op.attributes.items()) {
    if (IsLong(value)) attributes.Set(name, value);
  }
  attributes.Set("@domain", op.domain());
  attributes.Set("@op_type", op.op_type());
  attributes.Set("@version", int64_t{op.version()});
  std::vector<int64_t> wanted, types;
  for (size_t i = 0; i < op.output_count(); ++i) {
    wanted.push_back(op.wants(i));
    const bool typed = i < output_types.size() && output_types[i].is_tensor();
    types.push_back(typed ? static_cast<int64_t>(output_types[i].dtype) : 0);
  }
  attributes.Set("@wanted", wanted);
  attributes.Set("@types", types);
  return op.builder().MakeMany(core::deferred, inputs, std::move(attributes),
                               static_cast<int>(op.output_count()));
}

}  // namespace sardonyx::ops
