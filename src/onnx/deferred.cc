#include "onnx/deferred.h"

#include <algorithm>

#include "onnx/schema.h"

namespace sardonyx::onnx {
namespace {

// The type that an attribute of a core node has which was one of an ONNX node.
bool HasType(const Attribute& attribute, AttributeType type) {
  switch (type) {
    case AttributeType::kFloat: return std::holds_alternative<double>(attribute);
    case AttributeType::kInt: return std::holds_alternative<int64_t>(attribute);
    case AttributeType::kFloats: return std::holds_alternative<std::vector<double>>(attribute);
    case AttributeType::kInts: return std::holds_alternative<std::vector<int64_t>>(attribute);
    case AttributeType::kStrings:
      return std::holds_alternative<std::vector<std::string>>(attribute);
    case AttributeType::kTensor: return std::holds_alternative<Tensor>(attribute);
    case AttributeType::kGraph: return std::holds_alternative<std::shared_ptr<Graph>>(attribute);
    default: return true;
  }
}

void CheckNode(const Node& node, const OpSchema& schema) {
  const auto refuse = [&](std::string_view what) {
    Fail(ErrorCode::kInvalidModel, "a node of {}: {}", schema.name, what);
  };
  bool has_body = false;
  for (const auto& [name, attribute] : node.attributes.items()) {
    const AttributeSchema* known = schema.FindAttribute(name);
    if (known != nullptr && !HasType(attribute, known->type)) {
      refuse(fmt::format("attribute '{}' has another type", name));
    }
    has_body |= std::holds_alternative<std::shared_ptr<Graph>>(attribute);
  }
  for (const AttributeSchema& attribute : schema.attributes) {
    if (attribute.required && node.attributes.Find(attribute.name) == nullptr) {
      refuse(fmt::format("attribute '{}' is missing", attribute.name));
    }
  }
  const size_t count = node.inputs.size();
  // What a body uses from outside stands behind the inputs.
  if (count > static_cast<size_t>(schema.max_inputs) && !has_body) refuse("has too many inputs");
  for (size_t i = 0; i < std::max(count, static_cast<size_t>(schema.min_inputs)); ++i) {
    const FormalParameter* parameter = InputParameter(schema, i);
    if (parameter == nullptr) break;
    const Value* input = node.input(i);
    if (input == nullptr) {
      if (parameter->option != ParameterOption::kOptional) {
        refuse(fmt::format("input '{}' is missing", parameter->name));
      }
      continue;
    }
    const Type& type = input->fact.type;
    const bool is_known = !type.is_tensor() || type.dtype != DType::kUndefined;
    if (is_known && !Allows(TypesOf(schema, *parameter), type)) {
      refuse(fmt::format("input '{}' is {}", parameter->name, Print(type)));
    }
  }
}

}  // namespace

void CheckDeferred(const Node& node) {
  const Attributes& attributes = node.attributes;
  const int64_t version = attributes.Int("@version");
  const OpSchema* schema =
      FindSchema(attributes.String("@domain"), attributes.String("@op_type"), version);
  if (schema == nullptr || schema->since_version != version) {
    Fail(ErrorCode::kInvalidModel, "there is no operator {}-{}", attributes.String("@op_type"),
         version);
  }
  CheckNode(node, *schema);
}

}  // namespace sardonyx::onnx
