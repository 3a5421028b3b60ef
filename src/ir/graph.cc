#include "ir/graph.h"

#include <algorithm>
#include <bit>
#include <unordered_set>
#include <utility>

#include "ir/core_op.h"

namespace sardonyx {
namespace {

constexpr int64_t kMaxElements = 1024;  // of a tensor that counts as a shape computation

// Numbers pointers in the order in which they come. The graph is swept and verified after every
// pass: a table of the standard library, with an allocation a pointer, would take a tenth of the
// time that loading takes.
class Numbering {
 public:
  static constexpr uint32_t kNone = ~uint32_t{0};

  explicit Numbering(size_t most) : slots_(std::bit_ceil(2 * most + 1), {nullptr, kNone}) {}

  uint32_t Add(const void* pointer) {
    auto& [key, number] = slots_[SlotOf(pointer)];
    if (number == kNone) {
      key = pointer;
      number = count_++;
    }
    return number;
  }
  // kNone if it has no number.
  uint32_t Find(const void* pointer) const { return slots_[SlotOf(pointer)].second; }

 private:
  size_t SlotOf(const void* pointer) const {
    const size_t mask = slots_.size() - 1;
    size_t slot = (reinterpret_cast<uintptr_t>(pointer) >> 4) * 0x9e3779b97f4a7c15 >> 20 & mask;
    while (slots_[slot].second != kNone && slots_[slot].first != pointer) slot = (slot + 1) & mask;
    return slot;
  }

  std::vector<std::pair<const void*, uint32_t>> slots_;
  uint32_t count_ = 0;
};

template <typename T>
const T& Get(const Attribute& attribute, std::string_view name) {
  const T* value = std::get_if<T>(&attribute);
  if (value == nullptr) {
    Fail(ErrorCode::kInternal, "attribute '{}' of a core operation has another type", name);
  }
  return *value;
}

bool SameAttribute(const Attribute& a, const Attribute& b) {
  if (a.index() != b.index()) return false;
  if (const Tensor* tensor = std::get_if<Tensor>(&a)) return BitEqual(*tensor, std::get<Tensor>(b));
  return std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, Tensor>) {
          return false;
        } else {
          return value == std::get<T>(b);
        }
      },
      a);
}

void RemoveUser(Value* value, Node* node) {
  auto it = std::find(value->users.begin(), value->users.end(), node);
  if (it != value->users.end()) value->users.erase(it);
}

}  // namespace

bool Type::operator==(const Type& other) const {
  if (kind != other.kind || dtype != other.dtype) return false;
  if (!element || !other.element) return element == other.element;
  return *element == *other.element;
}

std::string Print(const Type& type) {
  switch (type.kind) {
    case Type::Kind::kTensor: return fmt::format("tensor({})", Name(type.dtype));
    case Type::Kind::kSequence: return fmt::format("seq({})", Print(*type.element));
    case Type::Kind::kOptional: return fmt::format("optional({})", Print(*type.element));
    case Type::Kind::kMap: return fmt::format("map({},{})", Name(type.dtype), Print(*type.element));
  }
  return "";
}

namespace {

// Nothing for a text that is no type, or one that nests without end.
std::optional<Type> ParseType(std::string_view text, int depth) {
  constexpr int kMostDepth = 128;
  const auto inside = [&](std::string_view prefix) -> std::optional<std::string_view> {
    if (!text.starts_with(prefix) || !text.ends_with(')')) return {};
    return text.substr(prefix.size(), text.size() - prefix.size() - 1);
  };
  const auto wrap = [&](Type::Kind kind, DType dtype, std::string_view text_inside) {
    std::optional<Type> element = ParseType(text_inside, depth + 1);
    if (!element) return element;
    Type type;
    type.kind = kind;
    type.dtype = dtype;
    type.element = std::make_shared<const Type>(*std::move(element));
    return std::optional(type);
  };
  if (depth == kMostDepth) return {};
  if (const auto element = inside("seq(")) {
    return wrap(Type::Kind::kSequence, DType::kUndefined, *element);
  }
  if (const auto value = inside("optional(")) {
    return wrap(Type::Kind::kOptional, DType::kUndefined, *value);
  }
  const auto pair = inside("map(");
  const size_t comma = pair ? pair->find(',') : std::string_view::npos;
  const auto name = inside("tensor(");
  const DType dtype = DTypeFromName(name                              ? *name
                                    : comma != std::string_view::npos ? pair->substr(0, comma)
                                                                      : "");
  if (dtype == DType::kUndefined) return {};
  return name ? std::optional<Type>(dtype) : wrap(Type::Kind::kMap, dtype, pair->substr(comma + 1));
}

}  // namespace

Type TypeFromText(std::string_view text) {
  if (std::optional<Type> type = ParseType(text, 0)) return *std::move(type);
  Fail(ErrorCode::kInvalidModel, "'{}' is no type; types are as tensor(float), seq(tensor(int64))",
       text.substr(0, 100));
}

std::string Print(const Origin& origin) {
  return fmt::format("node '{}' ({}-{})", origin.name, origin.op_type, origin.version);
}

bool Fact::static_shape() const {
  return shape && std::all_of(shape->begin(), shape->end(), [](Dim dim) { return dim.known(); });
}

bool Fact::known() const {
  return constant.defined() ||
         (static_shape() && elements &&
          std::all_of(elements->begin(), elements->end(), [](Dim dim) { return dim.known(); }));
}

Tensor Fact::ToTensor() const {
  if (constant.defined()) return constant;
  std::vector<int64_t> dims;
  for (Dim dim : *shape) dims.push_back(dim.value());
  Tensor tensor(type.dtype, std::move(dims));
  DispatchReal(type.dtype, "a shape computation", [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t i = 0; i < elements->size(); ++i) {
      tensor.data<T>()[i] = static_cast<T>((*elements)[i].value());
    }
  });
  return tensor;
}

int64_t Fact::Knowledge() const {
  const auto count = [](const std::optional<Dims>& dims) {
    return dims ? 1 + std::ranges::count_if(*dims, [](Dim dim) { return dim.known(); }) : 0;
  };
  // Of larger constants inference reads no elements.
  const bool is_small = constant.defined() && constant.size() <= kMaxElements;
  return count(shape) + count(elements) + (is_small ? 1 : 0);
}

Fact Fact::Of(Tensor tensor) {
  Fact fact;
  fact.type = tensor.dtype();
  fact.shape.emplace(tensor.dims().begin(), tensor.dims().end());
  if (tensor.rank() <= 1 && tensor.size() <= kMaxElements &&
      (tensor.dtype() == DType::kInt64 || tensor.dtype() == DType::kInt32 ||
       tensor.dtype() == DType::kBool)) {
    const std::vector<int64_t> ints = ToInts(tensor);
    fact.elements.emplace(ints.begin(), ints.end());
  }
  fact.constant = std::move(tensor);
  return fact;
}

Attributes::Attributes(std::initializer_list<std::pair<std::string_view, Attribute>> items) {
  for (const auto& [name, value] : items) Set(name, value);
}

const Attribute* Attributes::Find(std::string_view name) const {
  for (const auto& [key, value] : items_) {
    if (key == name) return &value;
  }
  return nullptr;
}

void Attributes::Set(std::string_view name, Attribute value) {
  auto it =
      std::lower_bound(items_.begin(), items_.end(), name,
                       [](const auto& item, std::string_view key) { return item.first < key; });
  if (it != items_.end() && it->first == name) {
    it->second = std::move(value);
  } else {
    items_.emplace(it, std::string(name), std::move(value));
  }
}

void Attributes::Erase(std::string_view name) {
  std::erase_if(items_, [&](const auto& item) { return item.first == name; });
}

int64_t Attributes::Int(std::string_view name, int64_t otherwise) const {
  const Attribute* found = Find(name);
  return found != nullptr ? Get<int64_t>(*found, name) : otherwise;
}

double Attributes::Float(std::string_view name, double otherwise) const {
  const Attribute* found = Find(name);
  return found != nullptr ? Get<double>(*found, name) : otherwise;
}

std::string_view Attributes::String(std::string_view name, std::string_view otherwise) const {
  const Attribute* found = Find(name);
  return found != nullptr ? std::string_view(Get<std::string>(*found, name)) : otherwise;
}

const std::vector<int64_t>& Attributes::Ints(std::string_view name) const {
  static const std::vector<int64_t> kNone;
  const Attribute* found = Find(name);
  return found != nullptr ? Get<std::vector<int64_t>>(*found, name) : kNone;
}

const std::vector<double>& Attributes::Floats(std::string_view name) const {
  static const std::vector<double> kNone;
  const Attribute* found = Find(name);
  return found != nullptr ? Get<std::vector<double>>(*found, name) : kNone;
}

const std::vector<std::string>& Attributes::Strings(std::string_view name) const {
  static const std::vector<std::string> kNone;
  const Attribute* found = Find(name);
  return found != nullptr ? Get<std::vector<std::string>>(*found, name) : kNone;
}

const Tensor& Attributes::TensorValue(std::string_view name) const {
  static const Tensor kNone;
  const Attribute* found = Find(name);
  return found != nullptr ? Get<Tensor>(*found, name) : kNone;
}

const Expression* Attributes::Expr(std::string_view name) const {
  const Attribute* found = Find(name);
  return found != nullptr ? &Get<Expression>(*found, name) : nullptr;
}

std::shared_ptr<Graph> Attributes::Body(std::string_view name) const {
  const Attribute* found = Find(name);
  return found != nullptr ? Get<std::shared_ptr<Graph>>(*found, name) : nullptr;
}

bool Attributes::operator==(const Attributes& other) const {
  return std::equal(items_.begin(), items_.end(), other.items_.begin(), other.items_.end(),
                    [](const auto& a, const auto& b) {
                      return a.first == b.first && SameAttribute(a.second, b.second);
                    });
}

namespace {

std::vector<Fact> InferFrom(const Node& node, SymbolTable& symbols) {
  std::vector<const Fact*> facts;
  for (const Value* input : node.inputs) {
    facts.push_back(input != nullptr ? &input->fact : nullptr);
  }
  return Infer(node, facts, symbols);
}

// What either tells of one value. Dimensions that are unknown to both keep their names in the
// first, which other facts refer to.
Fact Merged(const Fact& first, Fact second) {
  const auto merge = [](const std::optional<Dims>& a, std::optional<Dims>& b) {
    if (!a) return;
    if (!b || a->size() != b->size()) {
      b = a;
      return;
    }
    for (size_t i = 0; i < a->size(); ++i) {
      if (!(*b)[i].known()) (*b)[i] = (*a)[i];
    }
  };
  merge(first.shape, second.shape);
  merge(first.elements, second.elements);
  if (first.constant.defined()) second.constant = first.constant;
  return second;
}

}  // namespace

Graph::Graph(std::shared_ptr<SymbolTable> symbols) : symbols_(std::move(symbols)) {}

Value* Graph::NewValue() { return values_.emplace_back(std::make_unique<Value>()).get(); }

Value* Graph::AddInput(std::string name, Fact fact) {
  Value* value = NewValue();
  value->name = std::move(name);
  value->fact = std::move(fact);
  value->is_input = true;
  inputs.push_back(value);
  return value;
}

Value* Graph::AddConstant(Tensor tensor, std::string name) {
  Value* value = NewValue();
  value->name = std::move(name);
  value->fact = Fact::Of(std::move(tensor));
  return value;
}

std::unique_ptr<Node> Graph::MakeNode(const CoreOp& op, std::vector<Value*> inputs,
                                      Attributes attributes, int output_count,
                                      std::shared_ptr<const Origin> origin) {
  auto node = std::make_unique<Node>();
  node->op = &op;
  node->inputs = std::move(inputs);
  node->attributes = std::move(attributes);
  node->origin = std::move(origin);
  for (int i = 0; i < output_count; ++i) {
    Value* value = NewValue();
    value->index = i;
    node->outputs.push_back(value);
  }
  std::vector<Fact> inferred = InferFrom(*node, *symbols_);
  for (int i = 0; i < output_count; ++i) {
    node->outputs[i]->producer = node.get();
    node->outputs[i]->fact = std::move(inferred[i]);
  }
  for (Value* input : node->inputs) {
    if (input != nullptr) input->users.push_back(node.get());
  }
  return node;
}

Node* Graph::Append(std::unique_ptr<Node> node) {
  return nodes_.emplace_back(std::move(node)).get();
}

void Graph::ReplaceUses(Value* from, Value* to) {
  if (from == to) return;
  const std::vector<Node*> users = std::move(from->users);
  from->users.clear();
  for (Node* user : users) {
    // `users` has an entry a use, so a node that uses the value twice is met twice.
    auto it = std::find(user->inputs.begin(), user->inputs.end(), from);
    *it = to;
    to->users.push_back(user);
  }
  std::replace(outputs.begin(), outputs.end(), from, to);
  // Outputs are matched by position; the name is for people.
  if (to->name.empty()) to->name = std::exchange(from->name, "");
}

void Graph::SetInput(Node* node, size_t index, Value* value) {
  if (node->inputs[index] != nullptr) RemoveUser(node->inputs[index], node);
  node->inputs[index] = value;
  if (value != nullptr) value->users.push_back(node);
}

void Graph::Refine(Value* value) {
  std::vector<Node*> left(value->users.rbegin(), value->users.rend());
  while (!left.empty()) {
    const Node* const node = left.back();
    left.pop_back();
    const auto& outputs = node->outputs;
    if (std::ranges::all_of(outputs, [](const Value* output) { return output->fact.known(); })) {
      continue;
    }
    const std::vector<Fact> inferred = InferFrom(*node, *symbols_);
    for (size_t i = 0; i < outputs.size(); ++i) {
      Fact& fact = outputs[i]->fact;
      Fact merged = Merged(fact, inferred[i]);
      if (merged.Knowledge() <= fact.Knowledge()) continue;
      fact = std::move(merged);
      left.insert(left.end(), outputs[i]->users.rbegin(), outputs[i]->users.rend());
    }
  }
}

void Graph::Splice(std::vector<std::unique_ptr<Node>> nodes) {
  for (auto& node : nodes) nodes_.push_back(std::move(node));
}

int Graph::SortAndSweep() {
  // Depth first from the outputs, with an explicit stack; visiting in the present order keeps the
  // result stable.
  Numbering position(nodes_.size());
  for (const auto& node : nodes_) position.Add(node.get());
  const auto position_of = [&](const Value* value) -> size_t {
    const uint32_t at = position.Find(value->producer);
    if (at == Numbering::kNone) Fail(ErrorCode::kInternal, "'{}' is of no node", value->name);
    return at;
  };
  std::vector<bool> needed(nodes_.size());  // by position
  std::vector<Node*> stack;
  auto need = [&](const Value* value) {
    if (value == nullptr || value->producer == nullptr) return;
    const size_t at = position_of(value);
    if (needed[at]) return;
    needed[at] = true;
    stack.push_back(value->producer);
  };
  for (const Value* output : outputs) need(output);
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    for (const Value* input : node->inputs) need(input);
  }
  std::vector<std::unique_ptr<Node>> old = std::move(nodes_);
  nodes_.clear();
  int dropped = 0;
  for (size_t i = 0; i < old.size(); ++i) {
    if (needed[i]) continue;
    for (Value* input : old[i]->inputs) {
      if (input != nullptr) RemoveUser(input, old[i].get());
    }
    ++dropped;
  }
  std::vector<std::pair<size_t, size_t>> frames;  // node, next input
  for (size_t root = 0; root < old.size(); ++root) {
    if (!old[root] || !needed[root]) continue;
    frames.emplace_back(root, 0);
    while (!frames.empty()) {
      auto& [index, next] = frames.back();
      Node* node = old[index].get();
      if (node == nullptr) {  // placed meanwhile
        frames.pop_back();
        continue;
      }
      size_t pending = old.size();
      while (next < node->inputs.size() && pending == old.size()) {
        const Value* input = node->inputs[next++];
        if (input == nullptr || input->producer == nullptr) continue;
        const size_t at = position_of(input);
        if (old[at]) pending = at;
      }
      if (pending != old.size()) {
        if (frames.size() > old.size()) Fail(ErrorCode::kInternal, "the graph has a cycle");
        frames.emplace_back(pending, 0);
      } else {
        nodes_.push_back(std::move(old[index]));
        frames.pop_back();
      }
    }
  }
  // Values of dropped nodes and unused constants.
  std::unordered_set<const Value*> kept(inputs.begin(), inputs.end());
  kept.insert(outputs.begin(), outputs.end());
  std::erase_if(values_, [&](const auto& value) {
    const auto at = value->producer != nullptr ? position.Find(value->producer) : Numbering::kNone;
    const bool alive = at != Numbering::kNone && needed[at];
    return !alive && value->users.empty() && !kept.contains(value.get());
  });
  return dropped;
}

bool Graph::IsOutput(const Value* value) const {
  return std::find(outputs.begin(), outputs.end(), value) != outputs.end();
}

Value* Graph::Find(std::string_view name) const {
  for (const auto& value : values_) {
    if (value->name == name) return value.get();
  }
  return nullptr;
}

void Verify(const Graph& graph) {
  struct Seen {
    const Value* value;
    bool is_defined = false;
    size_t uses = 0;
  };
  size_t most = graph.inputs.size() + graph.outputs.size();
  for (const auto& node : graph.nodes()) most += node->inputs.size() + node->outputs.size();
  Numbering numbers(most);
  std::vector<Seen> seen;
  const auto at = [&](const Value* value) -> Seen& {
    const size_t number = numbers.Add(value);
    if (number == seen.size()) seen.push_back({value});
    return seen[number];
  };
  for (const Value* input : graph.inputs) at(input).is_defined = true;
  for (const auto& node : graph.nodes()) {
    if (node->op == nullptr) Fail(ErrorCode::kInternal, "a node has no operation");
    for (const Value* input : node->inputs) {
      if (input == nullptr) continue;
      Seen& use = at(input);
      ++use.uses;
      if (input->producer == nullptr && input->is_constant()) continue;
      if (!use.is_defined) {
        Fail(ErrorCode::kInternal, "'{}' uses '{}' before it is defined", node->op->name,
             input->name);
      }
    }
    for (size_t i = 0; i < node->outputs.size(); ++i) {
      const Value* output = node->outputs[i];
      if (output->producer != node.get() || output->index != static_cast<int>(i)) {
        Fail(ErrorCode::kInternal, "output {} of '{}' has a wrong producer", i, node->op->name);
      }
      at(output).is_defined = true;
    }
  }
  std::unordered_set<std::string_view> names;
  for (const auto& [value, is_defined, uses] : seen) {
    if (uses > 0 && value->users.size() != uses) {
      Fail(ErrorCode::kInternal, "value '{}' lists {} uses and has {}", value->name,
           value->users.size(), uses);
    }
    if (is_defined && !value->name.empty() && !names.insert(value->name).second) {
      Fail(ErrorCode::kInternal, "two values have the name '{}'", value->name);
    }
  }
  for (const Value* output : graph.outputs) {
    if (!at(output).is_defined && !output->is_constant()) {
      Fail(ErrorCode::kInternal, "output '{}' is not defined", output->name);
    }
  }
}

}  // namespace sardonyx
