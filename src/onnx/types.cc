#include "onnx/types.h"

#include <algorithm>
#include <map>

namespace sardonyx::onnx {
namespace {

// Some exporters write these for "not known", of dimensions that have nothing to do with each
// other.
bool IsName(std::string_view dim_param) {
  return !dim_param.empty() && dim_param != "?" && dim_param != "-1" && dim_param != "None";
}

bool HoldsMaps(const Type& type) {
  return type.kind == Type::Kind::kMap || (type.element != nullptr && HoldsMaps(*type.element));
}

// Whether a map, or a sequence of maps, is among the types.
bool AllowsMaps(const TypeSet& types, const Type& type) {
  const bool sequence = type.kind == Type::Kind::kSequence;
  const Type& map = sequence ? *type.element : type;
  if (map.kind != Type::Kind::kMap) return false;
  constexpr std::pair<DType, DType> kKinds[kMapKindCount] = {
      {DType::kInt64, DType::kFloat32},  {DType::kInt64, DType::kFloat64},
      {DType::kInt64, DType::kString},   {DType::kString, DType::kFloat32},
      {DType::kString, DType::kFloat64}, {DType::kString, DType::kInt64}};
  const auto* kind =
      std::find(std::begin(kKinds), std::end(kKinds), std::pair(map.dtype, map.element->dtype));
  const int bits = sequence ? types.sequence_map : types.map;
  return map.element->is_tensor() && kind != std::end(kKinds) &&
         ((bits >> (kind - kKinds)) & 1) != 0;
}

}  // namespace

Type ToType(const TypeProto& proto) {
  Type type;
  if (proto.tensor_type) {
    type = ToDType(proto.tensor_type->elem_type.Get());
  } else if (proto.sparse_tensor_type) {
    type = ToDType(proto.sparse_tensor_type->elem_type.Get());
  } else if (proto.sequence_type && proto.sequence_type->elem_type) {
    type.kind = Type::Kind::kSequence;
    type.element = std::make_shared<const Type>(ToType(*proto.sequence_type->elem_type));
  } else if (proto.optional_type && proto.optional_type->elem_type) {
    type.kind = Type::Kind::kOptional;
    type.element = std::make_shared<const Type>(ToType(*proto.optional_type->elem_type));
  } else if (proto.map_type && proto.map_type->value_type) {
    type.kind = Type::Kind::kMap;
    type.dtype = ToDType(proto.map_type->key_type.Get());
    type.element = std::make_shared<const Type>(ToType(*proto.map_type->value_type));
  } else {
    Fail(ErrorCode::kInvalidModel, "a value's type is empty or incomplete");
  }
  return type;
}

Fact ToFact(const TypeProto& proto, SymbolTable& symbols) {
  Fact fact;
  fact.type = ToType(proto);
  const TensorShapeProto* shape = nullptr;
  if (proto.tensor_type) shape = proto.tensor_type->shape.get();
  if (proto.sparse_tensor_type) shape = proto.sparse_tensor_type->shape.get();
  if (shape == nullptr) return fact;
  fact.shape.emplace();
  for (const TensorShapeProto::Dimension& dim : shape->dim) {
    if (dim.dim_value && dim.dim_value.Get() >= 0) {
      fact.shape->push_back(dim.dim_value.Get());
    } else if (IsName(dim.dim_param.Get())) {
      fact.shape->push_back(symbols.Named(std::string(dim.dim_param.Get())));
    } else {
      fact.shape->push_back(symbols.Fresh());
    }
  }
  return fact;
}

void CheckTypes(const OpSchema& schema, const std::vector<Val>& inputs) {
  std::map<std::string_view, std::pair<size_t, Type>> bound;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const FormalParameter* parameter = InputParameter(schema, i);
    if (parameter == nullptr || !inputs[i]) continue;
    const DType dtype = inputs[i].dtype();
    const TypeSet allowed = TypesOf(schema, *parameter);
    if (!inputs[i].type().is_tensor() && !HoldsMaps(inputs[i].type())) continue;
    const bool allows = inputs[i].type().is_tensor()
                            ? AllowsTensor(allowed, dtype) || dtype == DType::kUndefined
                            : AllowsMaps(allowed, inputs[i].type());
    if (!allows) {
      Fail(ErrorCode::kInvalidModel, "input {} ('{}') is {}, which {}-{} does not allow", i,
           parameter->name, Print(inputs[i].type()), schema.name, schema.since_version);
    }
    const bool variadic_mix =
        parameter->option == ParameterOption::kVariadic && !parameter->homogeneous;
    if (variadic_mix || parameter->type.find('(') != std::string_view::npos) continue;
    auto [it, inserted] = bound.try_emplace(parameter->type, i, inputs[i].type());
    if (!inserted && !(it->second.second == inputs[i].type())) {
      Fail(ErrorCode::kInvalidModel, "inputs {} and {} must have one type ({}), but are {} and {}",
           it->second.first, i, parameter->type, Print(it->second.second), Print(inputs[i].type()));
    }
  }
}

std::vector<Type> OutputTypes(const OpSchema* schema, const NodeProto& node,
                              const std::vector<Val>& inputs) {
  std::vector<Type> types(node.output.size());
  if (schema == nullptr) return types;
  for (size_t i = 0; i < types.size(); ++i) {
    const FormalParameter* output = OutputParameter(*schema, i);
    if (output == nullptr) continue;
    if (output->type.starts_with("tensor(")) {
      types[i] = DTypeFromName(output->type.substr(7, output->type.size() - 8));
      continue;
    }
    for (size_t j = 0; j < inputs.size(); ++j) {
      const FormalParameter* input = InputParameter(*schema, j);
      if (inputs[j] && input != nullptr && input->type == output->type) {
        types[i] = inputs[j].type();
        break;
      }
    }
  }
  return types;
}

}  // namespace sardonyx::onnx
