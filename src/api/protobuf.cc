#include "base/error.h"
#include "onnx/external_data.h"
#include "onnx/reader.h"
#include "onnx/tensor_data.h"
#include "sardonyx/sardonyx.hpp"

namespace sardonyx {
namespace {

Datum FromSequence(const onnx::SequenceProto& proto, const onnx::ModelFile& file);
Datum FromMap(const onnx::MapProto& proto, const onnx::ModelFile& file);

Datum FromOptional(const onnx::OptionalProto& proto, const onnx::ModelFile& file) {
  if (proto.tensor_value) return Copy(onnx::ReadTensor(*proto.tensor_value, file));
  if (proto.sparse_tensor_value) return onnx::ReadSparseTensor(*proto.sparse_tensor_value, file);
  if (proto.sequence_value) return FromSequence(*proto.sequence_value, file);
  if (proto.map_value) return FromMap(*proto.map_value, file);
  if (proto.optional_value) return FromOptional(*proto.optional_value, file);
  return {};
}

Datum FromSequence(const onnx::SequenceProto& proto, const onnx::ModelFile& file) {
  auto sequence = std::make_shared<Sequence>();
  for (const auto& item : proto.tensor_values)
    sequence->push_back(Copy(onnx::ReadTensor(item, file)));
  for (const auto& item : proto.sparse_tensor_values) {
    sequence->push_back(onnx::ReadSparseTensor(item, file));
  }
  for (const auto& item : proto.sequence_values) sequence->push_back(FromSequence(item, file));
  for (const auto& item : proto.map_values) sequence->push_back(FromMap(item, file));
  for (const auto& item : proto.optional_values) sequence->push_back(FromOptional(item, file));
  return std::shared_ptr<const Sequence>(std::move(sequence));
}

Datum FromMap(const onnx::MapProto& proto, const onnx::ModelFile& file) {
  auto map = std::make_shared<Map>();
  if (!proto.string_keys.empty()) {
    map->keys =
        MakeVector(std::vector<std::string>(proto.string_keys.begin(), proto.string_keys.end()));
  } else {
    map->keys = MakeVector(proto.keys);
  }
  if (proto.values) map->values = *FromSequence(*proto.values, file).sequence();
  if (static_cast<int64_t>(map->values.size()) != map->keys.size()) {
    Fail(ErrorCode::kInvalidArgument, "a map has {} keys and {} values", map->keys.size(),
         map->values.size());
  }
  return std::shared_ptr<const Map>(std::move(map));
}

}  // namespace

Datum ReadProtobuf(std::string_view bytes, std::string_view type) {
  onnx::ModelFile file;
  file.name = "value given as bytes";
  file.external_files = std::make_shared<onnx::ExternalFiles>("");
  if (type == "tensor") return Copy(onnx::ReadTensor(onnx::ParseTensor(bytes, "value"), file));
  if (type == "sequence") return FromSequence(onnx::ParseSequence(bytes, "value"), file);
  if (type == "optional") return FromOptional(onnx::ParseOptional(bytes, "value"), file);
  if (type == "map") return FromMap(onnx::ParseMap(bytes, "value"), file);
  Fail(ErrorCode::kInvalidArgument, "a value is a tensor, sequence, map or optional, not '{}'",
       type);
}

}  // namespace sardonyx
