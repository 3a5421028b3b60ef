#include "engine/graph_codec.h"

#include <algorithm>

#include "ir/tensor.h"
#include "ops/core/core.h"
#include "ops/core/signature.h"
#include "ops/core/tables.h"

namespace sardonyx::engine {
namespace {

constexpr int kMaxDepth = 32;  // of bodies within bodies
constexpr size_t kMaxRank = 64;
constexpr size_t kMaxTypeText = 512;  // bounds the nesting of types
constexpr uint32_t kAbsent = 0xffffffff;

enum class DimKind : uint8_t { kKnown, kNamed, kOther };

}  // namespace

// ---- writing

void GraphWriter::Write(const Graph& graph) {
  const uint32_t number = graphs_++;
  const SymbolTable& symbols = *graph.shared_symbols();
  std::unordered_map<const Value*, uint32_t> numbers;
  const auto add = [&](const Value* value) {
    const auto next = static_cast<uint32_t>(numbers.size());
    if (!numbers.emplace(value, next).second) return false;
    places_[value] = {number, next};
    return true;
  };
  to_.Text(graph.name);
  to_.Count(graph.inputs.size());
  for (const Value* input : graph.inputs) {
    add(input);
    to_.Text(input->name);
    WriteFact(input->fact, symbols);
  }
  std::vector<const Value*> constants;
  const auto collect = [&](const Value* value) {
    if (value != nullptr && value->is_constant() && add(value)) constants.push_back(value);
  };
  for (const auto& node : graph.nodes()) {
    for (const Value* input : node->inputs) collect(input);
  }
  for (const Value* output : graph.outputs) collect(output);
  to_.Count(constants.size());
  for (const Value* constant : constants) {
    to_.Text(constant->name);
    WriteTensor(constant->fact.constant);
  }
  to_.Count(graph.nodes().size());
  for (const auto& node : graph.nodes()) {
    WriteNode(*node, numbers);
    for (const Value* output : node->outputs) add(output);
  }
  to_.Count(graph.outputs.size());
  for (const Value* output : graph.outputs) to_.Number(numbers.at(output));
}

void GraphWriter::WriteNode(const Node& node,
                            const std::unordered_map<const Value*, uint32_t>& numbers) {
  to_.Text(node.op->name);
  WriteOrigin(node.origin.get());
  to_.Count(node.inputs.size());
  for (const Value* input : node.inputs) {
    to_.Number(input != nullptr ? numbers.at(input) : kAbsent);
  }
  to_.Count(node.outputs.size());
  for (const Value* output : node.outputs) to_.Text(output->name);
  to_.Count(node.attributes.items().size());
  for (const auto& [name, attribute] : node.attributes.items()) {
    to_.Text(name);
    WriteAttribute(attribute);
  }
}

void GraphWriter::WriteAttribute(const Attribute& attribute) {
  to_.Number(static_cast<uint8_t>(attribute.index()));
  std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_arithmetic_v<T>) {
          to_.Number(value);
        } else if constexpr (std::is_same_v<T, std::string>) {
          to_.Text(value);
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          to_.Texts(value);
        } else if constexpr (std::is_same_v<T, Tensor>) {
          WriteTensor(value);
        } else if constexpr (std::is_same_v<T, std::shared_ptr<Graph>>) {
          Write(*value);
        } else if constexpr (std::is_same_v<T, Expression>) {
          to_.Text(value.Print());
        } else {
          to_.Numbers(value);
        }
      },
      attribute);
}

void GraphWriter::WriteFact(const Fact& fact, const SymbolTable& symbols) {
  to_.Text(Print(fact.type));
  WriteDims(fact.shape, symbols);
  WriteDims(fact.elements, symbols);
}

void GraphWriter::WriteDims(const std::optional<Dims>& dims, const SymbolTable& symbols) {
  to_.Number(static_cast<uint8_t>(dims ? 1 : 0));
  if (!dims) return;
  to_.Count(dims->size());
  for (Dim dim : *dims) {
    // A size that is computed from others is written as one of its own: what follows from it is
    // inferred from the sizes of each run.
    const std::string name = symbols.Print(dim);
    const bool computed = name.starts_with('(') || name.starts_with('?');
    const DimKind kind = dim.known() ? DimKind::kKnown
                         : computed  ? DimKind::kOther
                                     : DimKind::kNamed;
    to_.Number(kind);
    if (kind == DimKind::kKnown) to_.Number(dim.value());
    if (kind == DimKind::kNamed) to_.Text(name);
    if (kind == DimKind::kOther) to_.Number(dim.symbol());
  }
}

void GraphWriter::WriteTensor(const Tensor& tensor) {
  to_.Number(static_cast<uint8_t>(tensor.dtype()));
  if (!tensor.defined()) return;
  to_.Numbers(tensor.dims());
  if (tensor.dtype() == DType::kString) {
    for (int64_t i = 0; i < tensor.size(); ++i) to_.Text(tensor.data<std::string>()[i]);
  } else if (tensor.bytes() <= kInlineBytes) {
    to_.Aligned({static_cast<const char*>(tensor.raw()), static_cast<size_t>(tensor.bytes())},
                kAlignment);
  } else {
    to_.Number(tensor.raw() != nullptr ? store_(tensor) : kNoData);
  }
}

void GraphWriter::WriteOrigin(const Origin* origin) {
  if (origin == nullptr) return to_.Number(kAbsent);
  const auto [it, inserted] = origins_.emplace(origin, static_cast<uint32_t>(origins_.size()));
  to_.Number(it->second);
  if (!inserted) return;
  to_.Text(origin->name);
  to_.Text(origin->op_type);
  to_.Number(static_cast<int32_t>(origin->version));
}

// ---- reading

std::shared_ptr<Graph> GraphReader::ReadGraph(const std::shared_ptr<SymbolTable>& symbols,
                                              int depth) {
  if (depth > kMaxDepth) ByteReader::Damaged();
  const size_t number = values_.size();
  values_.emplace_back();
  auto graph = std::make_shared<Graph>(symbols);
  std::vector<Value*> values;
  graph->name = from_.Text();
  for (size_t left = from_.Count(); left > 0; --left) {
    std::string name = from_.Text();
    values.push_back(graph->AddInput(std::move(name), ReadFact(*symbols)));
  }
  for (size_t left = from_.Count(); left > 0; --left) {
    std::string name = from_.Text();
    Tensor tensor = ReadTensor(true);
    if (!tensor.defined()) ByteReader::Damaged();
    values.push_back(graph->AddConstant(std::move(tensor), std::move(name)));
  }
  for (size_t left = from_.Count(); left > 0; --left) ReadNode(*graph, &values, depth);
  for (size_t left = from_.Count(sizeof(uint32_t)); left > 0; --left) {
    graph->outputs.push_back(values[from_.Index(values.size())]);
  }
  Verify(*graph);
  values_[number] = std::move(values);
  return graph;
}

void GraphReader::ReadNode(Graph& graph, std::vector<Value*>* values, int depth) {
  const std::string op_name = from_.Text();
  const CoreOp* op = core::Find(op_name);
  if (op == nullptr) {
    Fail(ErrorCode::kInvalidModel, "the engine file has an unknown operation '{}'", op_name);
  }
  std::shared_ptr<const Origin> origin = ReadOrigin();
  std::vector<Value*> inputs(from_.Count(sizeof(uint32_t)));
  for (Value*& input : inputs) {
    const auto number = from_.Number<uint32_t>();
    if (number != kAbsent && number >= values->size()) ByteReader::Damaged();
    input = number != kAbsent ? (*values)[number] : nullptr;
  }
  const std::vector<std::string> names = from_.Texts();
  if (names.empty()) ByteReader::Damaged();
  Attributes attributes;
  for (size_t left = from_.Count(); left > 0; --left) {
    const std::string name = from_.Text();
    attributes.Set(name, ReadAttribute(graph.shared_symbols(), depth));
  }
  core::CheckSignature(*op, inputs, attributes, names.size());
  if (op == &core::deferred) {
    Node seen;
    seen.op = op;
    seen.inputs = inputs;
    seen.attributes = attributes;
    check_deferred_(seen);
  }
  Node* node = graph.Append(graph.MakeNode(*op, std::move(inputs), std::move(attributes),
                                           static_cast<int>(names.size()), std::move(origin)));
  core::CheckTables(*node);
  for (size_t i = 0; i < names.size(); ++i) {
    node->outputs[i]->name = names[i];
    values->push_back(node->outputs[i]);
  }
}

Attribute GraphReader::ReadAttribute(const std::shared_ptr<SymbolTable>& symbols, int depth) {
  switch (from_.Number<uint8_t>()) {
    case 0: return from_.Number<int64_t>();
    case 1: return from_.Number<double>();
    case 2: return from_.Text();
    case 3: return from_.Numbers<int64_t>();
    case 4: return from_.Numbers<double>();
    case 5: return from_.Texts();
    case 6: return ReadTensor(false);
    case 7: return ReadGraph(symbols, depth + 1);
    case 8: return Expression::Parse(from_.Text());
    default: ByteReader::Damaged();
  }
}

Fact GraphReader::ReadFact(SymbolTable& symbols) {
  Fact fact;
  const std::string type = from_.Text();
  if (type.size() > kMaxTypeText) ByteReader::Damaged();
  fact.type = TypeFromText(type);
  if (from_.Number<uint8_t>() != 0) {
    fact.shape = ReadDims(symbols);
    const auto negative = [](Dim dim) { return dim.known() && dim.value() < 0; };
    if (fact.shape->size() > kMaxRank ||
        std::any_of(fact.shape->begin(), fact.shape->end(), negative)) {
      ByteReader::Damaged();
    }
  }
  if (from_.Number<uint8_t>() != 0) {
    fact.elements = ReadDims(symbols);
    const bool integers = fact.type.is_tensor() &&
                          (fact.type.dtype == DType::kInt64 || fact.type.dtype == DType::kInt32 ||
                           fact.type.dtype == DType::kBool);
    if (!integers || !fact.ranked() || fact.rank() > 1 ||
        (fact.rank() == 0 && fact.elements->size() != 1) ||
        (fact.rank() == 1 &&
         !(fact.shape->front() == static_cast<int64_t>(fact.elements->size())))) {
      ByteReader::Damaged();
    }
  }
  return fact;
}

Dims GraphReader::ReadDims(SymbolTable& symbols) {
  Dims dims(from_.Count());
  for (Dim& dim : dims) {
    switch (static_cast<DimKind>(from_.Number<uint8_t>())) {
      case DimKind::kKnown: dim = from_.Number<int64_t>(); break;
      case DimKind::kNamed: dim = symbols.Named(from_.Text()); break;
      case DimKind::kOther: {
        auto [it, inserted] = symbols_.try_emplace(from_.Number<int32_t>());
        if (inserted) it->second = symbols.Fresh();
        dim = it->second;
        break;
      }
      default: ByteReader::Damaged();
    }
  }
  return dims;
}

Tensor GraphReader::ReadTensor(bool lazy) {
  const auto number = from_.Number<uint8_t>();
  if (number >= kDTypeCount) ByteReader::Damaged();
  const auto dtype = static_cast<DType>(number);
  if (dtype == DType::kUndefined) return {};
  std::vector<int64_t> dims = from_.Numbers<int64_t>();
  if (dims.size() > kMaxRank) ByteReader::Damaged();
  const int64_t count = ElementCount(dims);
  if (dtype == DType::kString) {
    // Each takes four bytes at least: no more than the file has are allocated.
    std::vector<std::string> texts;
    for (int64_t i = 0; i < count; ++i) texts.push_back(from_.Text());
    return MakeVector(texts).Reshaped(std::move(dims));
  }
  const int64_t bytes = ByteSize(dtype, count);
  void* data = bytes <= kInlineBytes
                   ? const_cast<char*>(from_.Aligned(static_cast<size_t>(bytes), kAlignment).data())
                   : load_(from_.Number<uint32_t>(), bytes, lazy);
  return Tensor(dtype, std::move(dims), data, owner_);
}

std::shared_ptr<const Origin> GraphReader::ReadOrigin() {
  const auto number = from_.Number<uint32_t>();
  if (number == kAbsent) return nullptr;
  if (number < origins_.size()) return origins_[number];
  if (number != origins_.size()) ByteReader::Damaged();
  Origin origin;
  origin.name = from_.Text();
  origin.op_type = from_.Text();
  origin.version = from_.Number<int32_t>();
  return origins_.emplace_back(std::make_shared<const Origin>(std::move(origin)));
}

}  // namespace sardonyx::engine
