#include "api/describe.h"

#include "onnx/importer.h"
#include "onnx/types.h"

namespace sardonyx {

ValueInfo DescribeValue(const onnx::ValueInfoProto& proto) {
  ValueInfo info;
  info.name = proto.name.Get();
  if (!proto.type) return info;
  const onnx::TypeProto& type = *proto.type;
  const bool says_something = type.tensor_type || type.sparse_tensor_type || type.sequence_type ||
                              type.optional_type || type.map_type;
  if (!says_something) return info;
  SymbolTable symbols;
  const Fact fact = onnx::ToFact(*proto.type, symbols);
  info.type = (type.sparse_tensor_type ? "sparse_" : "") + Print(fact.type);
  if (fact.type.is_tensor()) info.dtype = fact.type.dtype;
  info.has_shape = fact.ranked();
  if (!fact.ranked()) return info;
  for (Dim dim : *fact.shape) {
    const std::string text = symbols.Print(dim);
    if (dim.known()) {
      info.shape.push_back({dim.value(), ""});
    } else {
      info.shape.push_back({-1, text[0] == '?' ? "" : text});
    }
  }
  return info;
}

}  // namespace sardonyx
