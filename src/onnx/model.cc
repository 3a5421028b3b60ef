#include "onnx/model.h"

namespace sardonyx::onnx {

AttributeType TypeOf(const AttributeProto& attribute) {
  if (attribute.type.Get() != 0) return static_cast<AttributeType>(*attribute.type);
  if (attribute.f) return AttributeType::kFloat;
  if (attribute.i) return AttributeType::kInt;
  if (attribute.s) return AttributeType::kString;
  if (attribute.t) return AttributeType::kTensor;
  if (attribute.g) return AttributeType::kGraph;
  if (attribute.sparse_tensor) return AttributeType::kSparseTensor;
  if (attribute.tp) return AttributeType::kTypeProto;
  if (!attribute.floats.empty()) return AttributeType::kFloats;
  if (!attribute.ints.empty()) return AttributeType::kInts;
  if (!attribute.strings.empty()) return AttributeType::kStrings;
  if (!attribute.tensors.empty()) return AttributeType::kTensors;
  if (!attribute.graphs.empty()) return AttributeType::kGraphs;
  if (!attribute.sparse_tensors.empty()) return AttributeType::kSparseTensors;
  if (!attribute.type_protos.empty()) return AttributeType::kTypeProtos;
  return AttributeType::kUndefined;
}

std::string_view Name(AttributeType type) {
  switch (type) {
    case AttributeType::kUndefined: return "UNDEFINED";
    case AttributeType::kFloat: return "FLOAT";
    case AttributeType::kInt: return "INT";
    case AttributeType::kString: return "STRING";
    case AttributeType::kTensor: return "TENSOR";
    case AttributeType::kGraph: return "GRAPH";
    case AttributeType::kFloats: return "FLOATS";
    case AttributeType::kInts: return "INTS";
    case AttributeType::kStrings: return "STRINGS";
    case AttributeType::kTensors: return "TENSORS";
    case AttributeType::kGraphs: return "GRAPHS";
    case AttributeType::kSparseTensor: return "SPARSE_TENSOR";
    case AttributeType::kSparseTensors: return "SPARSE_TENSORS";
    case AttributeType::kTypeProto: return "TYPE_PROTO";
    case AttributeType::kTypeProtos: return "TYPE_PROTOS";
  }
  return "UNDEFINED";
}

const AttributeProto* FindAttribute(const NodeProto& node, std::string_view name) {
  for (const AttributeProto& attribute : node.attribute) {
    if (attribute.name.Get() == name) return &attribute;
  }
  return nullptr;
}

}  // namespace sardonyx::onnx
