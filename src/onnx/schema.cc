#include "onnx/schema.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/dtype.h"
#include "base/error.h"

namespace sardonyx::onnx {
namespace {

#include "onnx/function_bodies.inc"
#include "onnx/schema_table.inc"

// The other tables name their rows alike.
namespace experimental {
#include "onnx/experimental_table.inc"
}

namespace contributed {
#include "onnx/contributed_table.inc"
}

constexpr auto kKnownDomains = [] {
  std::array<DomainInfo, std::size(kDomains) + 1> domains;
  std::ranges::copy(kDomains, domains.begin());
  domains.back() = contributed::kDomain;
  return domains;
}();

// The standard's first: what the others have of the default domain is older than it.
std::array<std::span<const OpSchema>, 3> Tables() {
  return {kSchemas, experimental::kSchemas, contributed::kSchemas};
}

std::span<const OpSchema> VersionsIn(std::span<const OpSchema> table, std::string_view domain,
                                     std::string_view name) {
  const auto key = [](const OpSchema& schema) { return std::pair(schema.domain, schema.name); };
  const auto range =
      std::ranges::equal_range(table, std::pair(CanonicalDomain(domain), name), {}, key);
  return {range.begin(), range.end()};
}

bool IsMessageType(AttributeType type) {
  return type == AttributeType::kGraph || type == AttributeType::kTensor ||
         type == AttributeType::kSparseTensor || type == AttributeType::kTypeProto;
}

// "2", "at least 1", "1 to 3".
std::string Range(int least, int most) {
  if (most == kUnbounded) return fmt::format("at least {}", least);
  if (least == most) return fmt::format("{}", least);
  return fmt::format("{} to {}", least, most);
}

std::string ParameterNames(std::span<const FormalParameter> parameters) {
  std::string text;
  for (const FormalParameter& parameter : parameters) {
    if (!text.empty()) text += ", ";
    text += parameter.name;
    if (parameter.option == ParameterOption::kOptional) text += "?";
    if (parameter.option == ParameterOption::kVariadic) text += "...";
  }
  return text;
}

void CheckParameters(std::string_view kind, const std::vector<std::string_view>& names, int least,
                     int most, std::span<const FormalParameter> parameters, const OpSchema& schema,
                     std::vector<std::string>& faults) {
  const auto count = static_cast<int64_t>(names.size());
  if (count < least || count > most) {
    faults.push_back(fmt::format("has {} {}s, but {} takes {} ({})", count, kind, schema.name,
                                 Range(least, most), ParameterNames(parameters)));
    return;
  }
  for (size_t i = 0; i < names.size() && i < parameters.size(); ++i) {
    if (names[i].empty() && parameters[i].option == ParameterOption::kSingle) {
      faults.push_back(
          fmt::format("the required {} {} '{}' is left out", kind, i, parameters[i].name));
    }
  }
}

// The types of all fields that hold a value.
std::vector<AttributeType> FilledFields(const AttributeProto& attribute) {
  std::vector<AttributeType> types;
  const auto add = [&](bool filled, AttributeType type) {
    if (filled) types.push_back(type);
  };
  add(attribute.f.has_value(), AttributeType::kFloat);
  add(attribute.i.has_value(), AttributeType::kInt);
  add(attribute.s.has_value(), AttributeType::kString);
  add(attribute.t.has_value(), AttributeType::kTensor);
  add(attribute.g.has_value(), AttributeType::kGraph);
  add(attribute.sparse_tensor.has_value(), AttributeType::kSparseTensor);
  add(attribute.tp.has_value(), AttributeType::kTypeProto);
  add(!attribute.floats.empty(), AttributeType::kFloats);
  add(!attribute.ints.empty(), AttributeType::kInts);
  add(!attribute.strings.empty(), AttributeType::kStrings);
  add(!attribute.tensors.empty(), AttributeType::kTensors);
  add(!attribute.graphs.empty(), AttributeType::kGraphs);
  add(!attribute.sparse_tensors.empty(), AttributeType::kSparseTensors);
  add(!attribute.type_protos.empty(), AttributeType::kTypeProtos);
  return types;
}

std::string AttributeNames(const OpSchema& schema) {
  std::string text;
  for (const AttributeSchema& attribute : schema.attributes) {
    if (!text.empty()) text += ", ";
    text += attribute.name;
  }
  return text.empty() ? "none" : text;
}

void CheckAttribute(const AttributeProto& attribute, const OpSchema& schema, bool in_function,
                    std::vector<std::string>& faults) {
  const std::string_view name = attribute.name.Get();
  const AttributeSchema* expected = schema.FindAttribute(name);
  if (expected == nullptr) {
    // Names that begin with two underscores are left to tools (as in onnx's own checker).
    if (name.substr(0, 2) != "__") {
      faults.push_back(fmt::format("the attribute '{}' is unknown; {} of opset {} has: {}", name,
                                   schema.name, schema.since_version, AttributeNames(schema)));
    }
    return;
  }
  const AttributeType type = TypeOf(attribute);
  if (type != expected->type) {
    faults.push_back(fmt::format("the attribute '{}' has type {}, but must be {}", name, Name(type),
                                 Name(expected->type)));
    return;
  }
  if (attribute.ref_attr_name.has_value() && !attribute.ref_attr_name->empty()) {
    if (!in_function) {
      faults.push_back(
          fmt::format("the attribute '{}' refers to the attribute '{}' of a function, but the node "
                      "is in none",
                      name, *attribute.ref_attr_name));
    }
    return;
  }
  const std::vector<AttributeType> filled = FilledFields(attribute);
  for (const AttributeType field : filled) {
    if (field != type) {
      faults.push_back(
          fmt::format("the attribute '{}' is declared {}, but holds a value of type {}", name,
                      Name(type), Name(field)));
      return;
    }
  }
  // Files written by proto3 leave zeros and empty strings out; a message cannot be left out.
  if (filled.empty() && IsMessageType(type)) {
    faults.push_back(fmt::format("the attribute '{}' of type {} has no value", name, Name(type)));
  }
}

const FormalParameter* ParameterAt(std::span<const FormalParameter> parameters, size_t index) {
  if (index < parameters.size()) return &parameters[index];
  if (parameters.empty() || parameters.back().option != ParameterOption::kVariadic) return nullptr;
  return &parameters.back();
}

}  // namespace

const AttributeSchema* OpSchema::FindAttribute(std::string_view attribute) const {
  for (const AttributeSchema& candidate : attributes) {
    if (candidate.name == attribute) return &candidate;
  }
  return nullptr;
}

std::span<const OpSchema> AllSchemas() { return kSchemas; }

std::span<const OpSchema> ExperimentalSchemas() { return experimental::kSchemas; }
std::span<const OpSchema> ContributedSchemas() { return contributed::kSchemas; }

std::span<const OpSchema> SchemaVersions(std::string_view domain, std::string_view name) {
  for (const auto table : Tables()) {
    if (const auto versions = VersionsIn(table, domain, name); !versions.empty()) return versions;
  }
  return {};
}

const OpSchema* FindSchema(std::string_view domain, std::string_view name, int64_t opset_version) {
  const OpSchema* newest = nullptr;
  for (const auto table : Tables()) {
    for (const OpSchema& schema : VersionsIn(table, domain, name)) {
      if (schema.since_version <= opset_version) newest = &schema;
    }
    if (newest != nullptr) break;
  }
  return newest;
}

std::span<const DomainInfo> KnownDomains() { return kKnownDomains; }

int NewestOpset(std::string_view domain) {
  for (const DomainInfo& info : kKnownDomains) {
    if (info.domain == CanonicalDomain(domain)) return info.newest_opset;
  }
  return 0;
}

std::string_view FunctionBody(const OpSchema& schema, int64_t opset_version) {
  if (schema.bodies.empty()) return {};
  const FunctionBodyEntry* chosen = &schema.bodies.front();
  for (const FunctionBodyEntry& entry : schema.bodies) {
    if (entry.since_opset <= opset_version) chosen = &entry;
  }
  return chosen->bytes;
}

TypeSet TypesOf(const OpSchema& schema, const FormalParameter& parameter) {
  for (const TypeConstraint& constraint : schema.type_constraints) {
    if (constraint.name == parameter.type) return constraint.types;
  }
  // Else the type itself: the generator lets only "tensor(...)" pass.
  constexpr std::string_view kHead = "tensor(";
  const std::string_view type = parameter.type;
  TypeSet types;
  if (type.substr(0, kHead.size()) == kHead && type.back() == ')') {
    const DType element = DTypeFromName(type.substr(kHead.size(), type.size() - kHead.size() - 1));
    types.tensor = uint32_t{1} << static_cast<int>(element);
  }
  return types;
}

bool Allows(const TypeSet& types, const Type& type) {
  const auto has = [](uint32_t set, DType dtype) { return (set >> static_cast<int>(dtype)) & 1; };
  const auto map_bit = [](const Type& map) -> uint32_t {
    constexpr std::pair<DType, DType> kKinds[kMapKindCount] = {
        {DType::kInt64, DType::kFloat32},  {DType::kInt64, DType::kFloat64},
        {DType::kInt64, DType::kString},   {DType::kString, DType::kFloat32},
        {DType::kString, DType::kFloat64}, {DType::kString, DType::kInt64}};
    for (int i = 0; i < kMapKindCount; ++i) {
      if (kKinds[i] == std::pair(map.dtype, map.element->dtype)) return 1u << i;
    }
    return 0;
  };
  if (type.is_tensor()) return has(types.tensor, type.dtype);
  if (type.kind == Type::Kind::kMap) return (types.map & map_bit(type)) != 0;
  const Type& element = *type.element;
  if (type.kind == Type::Kind::kSequence) {
    if (element.kind == Type::Kind::kMap) return (types.sequence_map & map_bit(element)) != 0;
    return element.is_tensor() && has(types.sequence, element.dtype);
  }
  if (element.is_tensor()) return has(types.optional, element.dtype);
  return element.kind == Type::Kind::kSequence && element.element->is_tensor() &&
         has(types.optional_sequence, element.element->dtype);
}

const FormalParameter* InputParameter(const OpSchema& schema, size_t index) {
  return ParameterAt(schema.inputs, index);
}
const FormalParameter* OutputParameter(const OpSchema& schema, size_t index) {
  return ParameterAt(schema.outputs, index);
}

std::string DescribeNode(const NodeProto& node, int64_t version) {
  std::string text;
  if (!node.name.Get().empty()) {
    text = fmt::format("node '{}'", *node.name);
  } else {
    const auto named = std::ranges::find_if(node.output, [](auto name) { return !name.empty(); });
    text = named == node.output.end() ? "node without name and output"
                                      : fmt::format("node that makes '{}'", *named);
  }
  const std::string_view domain = CanonicalDomain(node.domain.Get());
  text += fmt::format(" ({}{}{}", domain, domain.empty() ? "" : "::", node.op_type.Get());
  if (version > 0) text += fmt::format("-{}", version);
  return text + ")";
}

std::vector<std::string> NodeFaults(const NodeProto& node, const OpSchema& schema,
                                    bool in_function) {
  std::vector<std::string> faults;
  // GroupNormalization-18 was withdrawn in favour of 21, but is what models of opset 18 to 20 mean.
  const bool has_successor_only = SchemaVersions(schema.domain, schema.name).front().deprecated;
  if (schema.deprecated && !has_successor_only) {
    faults.push_back(fmt::format(
        "{} is deprecated since opset {}: export the model again, or convert it to a newer opset",
        schema.name, schema.since_version));
    return faults;
  }
  CheckParameters("input", node.input, schema.min_inputs, schema.max_inputs, schema.inputs, schema,
                  faults);
  CheckParameters("output", node.output, schema.min_outputs, schema.max_outputs, schema.outputs,
                  schema, faults);
  for (const AttributeProto& attribute : node.attribute) {
    const std::string_view name = attribute.name.Get();
    if (FindAttribute(node, name) != &attribute) {
      faults.push_back(fmt::format("the attribute '{}' is given twice", name));
    } else {
      CheckAttribute(attribute, schema, in_function, faults);
    }
  }
  for (const AttributeSchema& attribute : schema.attributes) {
    if (attribute.required && FindAttribute(node, attribute.name) == nullptr) {
      faults.push_back(fmt::format("the required attribute '{}' of type {} is missing",
                                   attribute.name, Name(attribute.type)));
    }
  }
  return faults;
}

void ValidateNode(std::string_view model, const NodeProto& node, const OpSchema& schema,
                  bool in_function) {
  const std::vector<std::string> faults = NodeFaults(node, schema, in_function);
  if (faults.empty()) return;
  Fail(ErrorCode::kInvalidModel, "{}: {}: {}", model, DescribeNode(node, schema.since_version),
       fmt::join(faults, "; "));
}

}  // namespace sardonyx::onnx
