#include "onnx/attribute_defaults.h"

namespace sardonyx::onnx {

void AddDefaults(const OpSchema& schema, Attributes* attributes) {
  for (const AttributeSchema& attribute : schema.attributes) {
    if (!attribute.has_default) continue;
    switch (attribute.type) {
      case AttributeType::kFloat:
        attributes->Set(attribute.name, static_cast<double>(attribute.f));
        break;
      case AttributeType::kInt: attributes->Set(attribute.name, attribute.i); break;
      case AttributeType::kString:
        attributes->Set(attribute.name, std::string(attribute.strings[0]));
        break;
      case AttributeType::kInts:
        attributes->Set(attribute.name,
                        std::vector<int64_t>(attribute.ints.begin(), attribute.ints.end()));
        break;
      case AttributeType::kStrings:
        attributes->Set(attribute.name, std::vector<std::string>(attribute.strings.begin(),
                                                                 attribute.strings.end()));
        break;
      default: break;
    }
  }
}

AttributeProto DefaultProto(const AttributeSchema& schema) {
  AttributeProto proto;
  proto.name = schema.name;
  proto.type = static_cast<int32_t>(schema.type);
  switch (schema.type) {
    case AttributeType::kFloat: proto.f = schema.f; break;
    case AttributeType::kInt: proto.i = schema.i; break;
    case AttributeType::kString: proto.s = schema.strings[0]; break;
    case AttributeType::kInts: proto.ints.assign(schema.ints.begin(), schema.ints.end()); break;
    case AttributeType::kStrings:
      proto.strings.assign(schema.strings.begin(), schema.strings.end());
      break;
    default: break;
  }
  return proto;
}

}  // namespace sardonyx::onnx
