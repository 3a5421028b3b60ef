#pragma once
// The messages of the ONNX format (onnx-ml.proto and onnx-data.proto, IR version 14) as plain
// structs. Names are the standard's. Strings and bytes point into the file they were read from, so
// a message must not outlive its ModelFile (reader.h).

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "sardonyx/dtype.hpp"

namespace sardonyx::onnx {

// An optional scalar, string or bytes field. Get() is protobuf's getter: the value, or zero or the
// empty string when the field is absent.
template <typename T>
struct Field : std::optional<T> {
  using std::optional<T>::optional;
  T Get() const { return this->value_or(T{}); }
};
using Text = Field<std::string_view>;

// An optional message field: a heap value that copies deeply, so that messages can nest in
// themselves and absent ones cost one pointer.
template <typename T>
class Box {
 public:
  Box() = default;
  Box(const Box& other) : value_(other.value_ ? std::make_unique<T>(*other.value_) : nullptr) {}
  Box(Box&& other) noexcept = default;
  Box& operator=(const Box& other) {
    if (this != &other) value_ = other.value_ ? std::make_unique<T>(*other.value_) : nullptr;
    return *this;
  }
  Box& operator=(Box&& other) noexcept = default;

  bool has_value() const { return value_ != nullptr; }
  explicit operator bool() const { return has_value(); }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return value_.get(); }
  const T* operator->() const { return value_.get(); }
  T* get() { return value_.get(); }
  const T* get() const { return value_.get(); }
  T& emplace() {
    value_ = std::make_unique<T>();
    return *value_;
  }
  void reset() { value_.reset(); }

 private:
  std::unique_ptr<T> value_;
};

// Raw fields (tag and value) that this version of the format does not know, in file order.
using UnknownFields = std::vector<std::string_view>;

inline constexpr int64_t kNewestIrVersion = 14;

struct StringStringEntryProto {
  Text key;
  Text value;
  UnknownFields unknown_fields;
};

struct OperatorSetIdProto {
  Text domain;
  Field<int64_t> version;
  UnknownFields unknown_fields;
};

struct TensorProto {
  enum DataLocation : int32_t { DEFAULT = 0, EXTERNAL = 1 };
  struct Segment {
    Field<int64_t> begin;
    Field<int64_t> end;
    UnknownFields unknown_fields;
  };

  std::vector<int64_t> dims;
  Field<int32_t> data_type;  // a DType, unchecked
  Box<Segment> segment;
  std::vector<float> float_data;
  std::vector<int32_t> int32_data;
  std::vector<std::string_view> string_data;
  std::vector<int64_t> int64_data;
  Text name;
  Text doc_string;
  Text raw_data;
  std::vector<StringStringEntryProto> external_data;
  Field<int32_t> data_location;  // a DataLocation, unchecked
  std::vector<double> double_data;
  std::vector<uint64_t> uint64_data;
  std::vector<StringStringEntryProto> metadata_props;
  UnknownFields unknown_fields;
};

struct SparseTensorProto {
  Box<TensorProto> values;
  Box<TensorProto> indices;
  std::vector<int64_t> dims;
  UnknownFields unknown_fields;
};

struct TensorShapeProto {
  // At most one of dim_value and dim_param is present.
  struct Dimension {
    Field<int64_t> dim_value;
    Text dim_param;
    Text denotation;
    UnknownFields unknown_fields;
  };
  std::vector<Dimension> dim;
  UnknownFields unknown_fields;
};

// At most one of the members *_type is present.
struct TypeProto {
  struct Tensor {
    Field<int32_t> elem_type;  // a DType, unchecked
    Box<TensorShapeProto> shape;
    UnknownFields unknown_fields;
  };
  struct Sequence {
    Box<TypeProto> elem_type;
    UnknownFields unknown_fields;
  };
  struct Map {
    Field<int32_t> key_type;  // a DType, unchecked
    Box<TypeProto> value_type;
    UnknownFields unknown_fields;
  };
  struct Optional {
    Box<TypeProto> elem_type;
    UnknownFields unknown_fields;
  };
  struct SparseTensor {
    Field<int32_t> elem_type;  // a DType, unchecked
    Box<TensorShapeProto> shape;
    UnknownFields unknown_fields;
  };
  struct Opaque {
    Text domain;
    Text name;
    UnknownFields unknown_fields;
  };

  Box<Tensor> tensor_type;
  Box<Sequence> sequence_type;
  Box<Map> map_type;
  Box<Optional> optional_type;
  Box<SparseTensor> sparse_tensor_type;
  Box<Opaque> opaque_type;
  Text denotation;
  UnknownFields unknown_fields;
};

struct ValueInfoProto {
  Text name;
  Box<TypeProto> type;
  Text doc_string;
  std::vector<StringStringEntryProto> metadata_props;
  UnknownFields unknown_fields;
};

// AttributeProto.AttributeType
enum class AttributeType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kInt = 2,
  kString = 3,
  kTensor = 4,
  kGraph = 5,
  kFloats = 6,
  kInts = 7,
  kStrings = 8,
  kTensors = 9,
  kGraphs = 10,
  kSparseTensor = 11,
  kSparseTensors = 12,
  kTypeProto = 13,
  kTypeProtos = 14,
};

struct GraphProto;

struct AttributeProto {
  Text name;
  Text ref_attr_name;  // inside functions: the name of the function's attribute to take
  Text doc_string;
  Field<int32_t> type;  // as in the file; TypeOf() below also knows files that lack it
  Field<float> f;
  Field<int64_t> i;
  Text s;
  Box<TensorProto> t;
  Box<GraphProto> g;
  Box<SparseTensorProto> sparse_tensor;
  Box<TypeProto> tp;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string_view> strings;
  std::vector<TensorProto> tensors;
  std::vector<GraphProto> graphs;
  std::vector<SparseTensorProto> sparse_tensors;
  std::vector<TypeProto> type_protos;
  UnknownFields unknown_fields;
};

struct IntIntListEntryProto {
  Field<int64_t> key;
  std::vector<int64_t> value;
  UnknownFields unknown_fields;
};

struct SimpleShardedDimProto {
  // At most one of dim_value and dim_param is present.
  Field<int64_t> dim_value;
  Text dim_param;
  Field<int64_t> num_shards;
  UnknownFields unknown_fields;
};

struct ShardedDimProto {
  Field<int64_t> axis;
  std::vector<SimpleShardedDimProto> simple_sharding;
  UnknownFields unknown_fields;
};

struct ShardingSpecProto {
  Text tensor_name;
  std::vector<int64_t> device;
  std::vector<IntIntListEntryProto> index_to_device_group_map;
  std::vector<ShardedDimProto> sharded_dim;
  UnknownFields unknown_fields;
};

struct NodeDeviceConfigurationProto {
  Text configuration_id;
  std::vector<ShardingSpecProto> sharding_spec;
  Field<int32_t> pipeline_stage;
  UnknownFields unknown_fields;
};

struct NodeProto {
  std::vector<std::string_view> input;  // "" stands for an optional input left out
  std::vector<std::string_view> output;
  Text name;
  Text op_type;
  Text domain;
  Text overload;
  std::vector<AttributeProto> attribute;
  Text doc_string;
  std::vector<StringStringEntryProto> metadata_props;
  std::vector<NodeDeviceConfigurationProto> device_configurations;
  UnknownFields unknown_fields;
};

struct TensorAnnotation {
  Text tensor_name;
  std::vector<StringStringEntryProto> quant_parameter_tensor_names;
  UnknownFields unknown_fields;
};

struct GraphProto {
  std::vector<NodeProto> node;
  Text name;
  std::vector<TensorProto> initializer;
  std::vector<SparseTensorProto> sparse_initializer;
  Text doc_string;
  std::vector<ValueInfoProto> input;
  std::vector<ValueInfoProto> output;
  std::vector<ValueInfoProto> value_info;
  std::vector<TensorAnnotation> quantization_annotation;
  std::vector<StringStringEntryProto> metadata_props;
  UnknownFields unknown_fields;
};

struct TrainingInfoProto {
  Box<GraphProto> initialization;
  Box<GraphProto> algorithm;
  std::vector<StringStringEntryProto> initialization_binding;
  std::vector<StringStringEntryProto> update_binding;
  UnknownFields unknown_fields;
};

struct FunctionProto {
  Text name;
  std::vector<std::string_view> input;
  std::vector<std::string_view> output;
  std::vector<std::string_view> attribute;      // parameters without a default value
  std::vector<AttributeProto> attribute_proto;  // parameters with one
  std::vector<NodeProto> node;
  Text doc_string;
  std::vector<OperatorSetIdProto> opset_import;
  Text domain;
  Text overload;
  std::vector<ValueInfoProto> value_info;
  std::vector<StringStringEntryProto> metadata_props;
  UnknownFields unknown_fields;
};

struct DeviceConfigurationProto {
  Text name;
  Field<int32_t> num_devices;
  std::vector<std::string_view> device;
  UnknownFields unknown_fields;
};

struct ModelProto {
  Field<int64_t> ir_version;
  std::vector<OperatorSetIdProto> opset_import;
  Text producer_name;
  Text producer_version;
  Text domain;
  Field<int64_t> model_version;
  Text doc_string;
  Box<GraphProto> graph;
  std::vector<StringStringEntryProto> metadata_props;
  std::vector<TrainingInfoProto> training_info;
  std::vector<FunctionProto> functions;
  std::vector<DeviceConfigurationProto> configuration;
  UnknownFields unknown_fields;
};

// onnx-data.proto: values outside a model, as in test data sets.

struct MapProto;
struct OptionalProto;

struct SequenceProto {
  enum DataType : int32_t {
    UNDEFINED = 0,
    TENSOR = 1,
    SPARSE_TENSOR = 2,
    SEQUENCE = 3,
    MAP = 4,
    OPTIONAL = 5
  };
  Text name;
  Field<int32_t> elem_type;  // a SequenceProto::DataType, unchecked
  std::vector<TensorProto> tensor_values;
  std::vector<SparseTensorProto> sparse_tensor_values;
  std::vector<SequenceProto> sequence_values;
  std::vector<MapProto> map_values;
  std::vector<OptionalProto> optional_values;
  UnknownFields unknown_fields;
};

struct MapProto {
  Text name;
  Field<int32_t> key_type;  // a DType, unchecked
  std::vector<int64_t> keys;
  std::vector<std::string_view> string_keys;
  Box<SequenceProto> values;
  UnknownFields unknown_fields;
};

struct OptionalProto {
  Text name;
  Field<int32_t> elem_type;  // a SequenceProto::DataType, unchecked
  Box<TensorProto> tensor_value;
  Box<SparseTensorProto> sparse_tensor_value;
  Box<SequenceProto> sequence_value;
  Box<MapProto> map_value;
  Box<OptionalProto> optional_value;
  UnknownFields unknown_fields;
};

// The attribute's type; files of IR version 1 do not state it, then it follows from the field that
// is present. kUndefined when nothing tells.
AttributeType TypeOf(const AttributeProto& attribute);
// "FLOAT", "INTS", ...: the standard's spelling.
std::string_view Name(AttributeType type);

// The node's attribute of that name, or nullptr.
const AttributeProto* FindAttribute(const NodeProto& node, std::string_view name);

// The domain as Sardonyx writes it: "" for "ai.onnx" and "", else itself.
inline std::string_view CanonicalDomain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}

// The element type with that number, kUndefined when out of range.
inline DType ToDType(int32_t data_type) {
  return data_type > 0 && data_type < kDTypeCount ? static_cast<DType>(data_type)
                                                  : DType::kUndefined;
}

}  // namespace sardonyx::onnx
