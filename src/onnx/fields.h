#pragma once
// One row a field of every message: number, name, member, and how it is written. Reader and writer
// are both loops over these rows. Rows stand in the order of their numbers, in which protobuf
// writes.

#include <cstdint>
#include <protozero/types.hpp>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "onnx/model.h"

namespace sardonyx::onnx {

enum class FieldRule : uint8_t {
  kPlain,
  kPacked,  // written as one run of numbers (both forms are read)
  kOneOf,   // of a message's kOneOf fields the last one read wins
};

template <typename Message, typename Member>
struct FieldRow {
  uint32_t number;
  const char* name;
  Member Message::* member;
  FieldRule rule = FieldRule::kPlain;
};
template <typename Message, typename Member>
FieldRow(uint32_t, const char*, Member Message::*) -> FieldRow<Message, Member>;
template <typename Message, typename Member>
FieldRow(uint32_t, const char*, Member Message::*, FieldRule) -> FieldRow<Message, Member>;

template <typename Message>
struct FieldTable;

// How members are written, by their types: numbers, texts, else messages.
using WireType = protozero::pbf_wire_type;
template <typename T>
inline constexpr bool kIsNumber = std::is_arithmetic_v<T>;
template <typename T>
inline constexpr bool kIsText = std::is_same_v<T, std::string_view>;
template <typename T>
inline constexpr WireType kWireTypeOf = std::is_integral_v<T>       ? WireType::varint
                                        : std::is_same_v<T, float>  ? WireType::fixed32
                                        : std::is_same_v<T, double> ? WireType::fixed64
                                                                    : WireType::length_delimited;

#define SARDONYX_FIELDS(Message, ...)                           \
  template <>                                                   \
  struct FieldTable<Message> {                                  \
    using M = Message;                                          \
    static constexpr const char* kName = #Message;              \
    static constexpr auto kRows = std::make_tuple(__VA_ARGS__); \
  }
#define F(number, member) \
  FieldRow { number, #member, &M::member }
#define PACKED(number, member) \
  FieldRow { number, #member, &M::member, FieldRule::kPacked }
#define ONE_OF(number, member) \
  FieldRow { number, #member, &M::member, FieldRule::kOneOf }

SARDONYX_FIELDS(StringStringEntryProto, F(1, key), F(2, value));
SARDONYX_FIELDS(OperatorSetIdProto, F(1, domain), F(2, version));
SARDONYX_FIELDS(TensorProto::Segment, F(1, begin), F(2, end));
SARDONYX_FIELDS(TensorProto, F(1, dims), F(2, data_type), F(3, segment), PACKED(4, float_data),
                PACKED(5, int32_data), F(6, string_data), PACKED(7, int64_data), F(8, name),
                F(9, raw_data), PACKED(10, double_data), PACKED(11, uint64_data), F(12, doc_string),
                F(13, external_data), F(14, data_location), F(16, metadata_props));
SARDONYX_FIELDS(SparseTensorProto, F(1, values), F(2, indices), F(3, dims));
SARDONYX_FIELDS(TensorShapeProto::Dimension, ONE_OF(1, dim_value), ONE_OF(2, dim_param),
                F(3, denotation));
SARDONYX_FIELDS(TensorShapeProto, F(1, dim));
SARDONYX_FIELDS(TypeProto::Tensor, F(1, elem_type), F(2, shape));
SARDONYX_FIELDS(TypeProto::Sequence, F(1, elem_type));
SARDONYX_FIELDS(TypeProto::Map, F(1, key_type), F(2, value_type));
SARDONYX_FIELDS(TypeProto::Optional, F(1, elem_type));
SARDONYX_FIELDS(TypeProto::SparseTensor, F(1, elem_type), F(2, shape));
SARDONYX_FIELDS(TypeProto::Opaque, F(1, domain), F(2, name));
SARDONYX_FIELDS(TypeProto, ONE_OF(1, tensor_type), ONE_OF(4, sequence_type), ONE_OF(5, map_type),
                F(6, denotation), ONE_OF(7, opaque_type), ONE_OF(8, sparse_tensor_type),
                ONE_OF(9, optional_type));
SARDONYX_FIELDS(ValueInfoProto, F(1, name), F(2, type), F(3, doc_string), F(4, metadata_props));
SARDONYX_FIELDS(AttributeProto, F(1, name), F(2, f), F(3, i), F(4, s), F(5, t), F(6, g),
                F(7, floats), F(8, ints), F(9, strings), F(10, tensors), F(11, graphs),
                F(13, doc_string), F(14, tp), F(15, type_protos), F(20, type), F(21, ref_attr_name),
                F(22, sparse_tensor), F(23, sparse_tensors));
SARDONYX_FIELDS(IntIntListEntryProto, F(1, key), F(2, value));
SARDONYX_FIELDS(SimpleShardedDimProto, ONE_OF(1, dim_value), ONE_OF(2, dim_param),
                F(3, num_shards));
SARDONYX_FIELDS(ShardedDimProto, F(1, axis), F(2, simple_sharding));
SARDONYX_FIELDS(ShardingSpecProto, F(1, tensor_name), F(2, device), F(3, index_to_device_group_map),
                F(4, sharded_dim));
SARDONYX_FIELDS(NodeDeviceConfigurationProto, F(1, configuration_id), F(2, sharding_spec),
                F(3, pipeline_stage));
SARDONYX_FIELDS(NodeProto, F(1, input), F(2, output), F(3, name), F(4, op_type), F(5, attribute),
                F(6, doc_string), F(7, domain), F(8, overload), F(9, metadata_props),
                F(10, device_configurations));
SARDONYX_FIELDS(TensorAnnotation, F(1, tensor_name), F(2, quant_parameter_tensor_names));
SARDONYX_FIELDS(GraphProto, F(1, node), F(2, name), F(5, initializer), F(10, doc_string),
                F(11, input), F(12, output), F(13, value_info), F(14, quantization_annotation),
                F(15, sparse_initializer), F(16, metadata_props));
SARDONYX_FIELDS(TrainingInfoProto, F(1, initialization), F(2, algorithm),
                F(3, initialization_binding), F(4, update_binding));
SARDONYX_FIELDS(FunctionProto, F(1, name), F(4, input), F(5, output), F(6, attribute), F(7, node),
                F(8, doc_string), F(9, opset_import), F(10, domain), F(11, attribute_proto),
                F(12, value_info), F(13, overload), F(14, metadata_props));
SARDONYX_FIELDS(DeviceConfigurationProto, F(1, name), F(2, num_devices), F(3, device));
SARDONYX_FIELDS(ModelProto, F(1, ir_version), F(2, producer_name), F(3, producer_version),
                F(4, domain), F(5, model_version), F(6, doc_string), F(7, graph),
                F(8, opset_import), F(14, metadata_props), F(20, training_info), F(25, functions),
                F(26, configuration));
SARDONYX_FIELDS(SequenceProto, F(1, name), F(2, elem_type), F(3, tensor_values),
                F(4, sparse_tensor_values), F(5, sequence_values), F(6, map_values),
                F(7, optional_values));
SARDONYX_FIELDS(MapProto, F(1, name), F(2, key_type), F(3, keys), F(4, string_keys), F(5, values));
SARDONYX_FIELDS(OptionalProto, F(1, name), F(2, elem_type), F(3, tensor_value),
                F(4, sparse_tensor_value), F(5, sequence_value), F(6, map_value),
                F(7, optional_value));

#undef SARDONYX_FIELDS
#undef F
#undef PACKED
#undef ONE_OF

}  // namespace sardonyx::onnx
