// The text form of a graph, line by line:
//
//   graph main
//   input x: float[batch,3,224,224]
//   const w: float[2] = {1, 2}
//   y = conv(x, w) {group=1, pads=[1,1,1,1]}  # node 'conv1' (Conv-11)
//   values, indices = topk(y, k) {axis=-1}
//   output y
//
// An absent input is "_". Bodies are attributes: name=graph { ... } on lines of their own.

#include "ir/text.h"

#include <cctype>
#include <charconv>
#include <map>
#include <unordered_map>

namespace sardonyx {
namespace {

constexpr int64_t kShownElements = 64;

class Printer {
 public:
  std::string Print(const Graph& graph, const std::string& indent) {
    Graph& mutable_graph = const_cast<Graph&>(graph);  // symbols() has no const form
    SymbolTable& symbols = mutable_graph.symbols();
    std::string text = fmt::format("{}graph {}\n", indent, Quoted(graph.name));
    for (const Value* input : graph.inputs) {
      text += fmt::format("{}input {}: {}\n", indent, NameOf(input), Describe(input->fact, symbols));
    }
    for (const auto& node : graph.nodes()) {
      for (const Value* input : node->inputs) PrintConstant(input, indent, &text);
      text += indent + PrintNode(*node, symbols, indent);
    }
    for (const Value* output : graph.outputs) PrintConstant(output, indent, &text);
    for (const Value* output : graph.outputs) {
      text += fmt::format("{}output {}\n", indent, NameOf(output));
    }
    return text;
  }

 private:
  static std::string Quoted(std::string_view name) {
    bool plain = !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0;
    for (char c : name) {
      plain = plain && (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' ||
                        c == '/' || c == '@');
    }
    if (plain && name != "_") return std::string(name);
    std::string text = "\"";
    for (char c : name) {
      if (c == '"' || c == '\\') text += '\\';
      text += c == '\n' ? ' ' : c;
    }
    return text + '"';
  }

  std::string NameOf(const Value* value) {
    if (value == nullptr) return "_";
    auto it = names_.find(value);
    if (it != names_.end()) return it->second;
    std::string name = Quoted(value->name);
    if (value->name.empty() || !used_.emplace(name, 0).second) {
      do {
        name = fmt::format("@{}", next_++);
      } while (!used_.emplace(name, 0).second);
    }
    names_[value] = name;
    return name;
  }

  static std::string Describe(const Fact& fact, SymbolTable& symbols) {
    if (!fact.type.is_tensor()) return sardonyx::Print(fact.type);
    std::string text(Name(fact.type.dtype));
    if (!fact.ranked()) return text;
    text += '[';
    for (size_t i = 0; i < fact.shape->size(); ++i) {
      if (i > 0) text += ',';
      text += symbols.Print((*fact.shape)[i]);
    }
    return text + ']';
  }

  static std::string Elements(const Tensor& tensor) {
    std::string text = "{";
    for (int64_t i = 0; i < tensor.size(); ++i) {
      if (i > 0) text += ", ";
      if (tensor.dtype() == DType::kString) {
        text += "\"" + Quoted("\"" + tensor.data<std::string>()[i]).substr(3);
      } else if (IsInteger(tensor.dtype()) || tensor.dtype() == DType::kBool) {
        text += std::to_string(ToInts(tensor)[i]);
      } else {
        text += fmt::format("{}", ToDoubles(tensor)[i]);
      }
    }
    return text + "}";
  }

  static bool IsShown(const Tensor& tensor) {
    const bool readable = BitWidth(tensor.dtype()) >= 8 && tensor.dtype() != DType::kComplex64 &&
                          tensor.dtype() != DType::kComplex128 &&
                          (BitWidth(tensor.dtype()) > 8 || !IsFloat(tensor.dtype()));
    return readable && tensor.size() <= kShownElements;
  }

  void PrintConstant(const Value* value, const std::string& indent, std::string* text) {
    if (value == nullptr || !value->is_constant() || value->is_input || names_.contains(value)) return;
    const Tensor& tensor = value->fact.constant;
    *text += fmt::format("{}const {}: {}{}", indent, NameOf(value), Name(tensor.dtype()),
                         PrintDims(tensor.dims()));
    *text += IsShown(tensor) ? fmt::format(" = {}\n", Elements(tensor)) : " = ...\n";
  }

  std::string PrintNode(const Node& node, SymbolTable& symbols, const std::string& indent) {
    std::string inputs, attributes, bodies;
    for (const Value* input : node.inputs) {
      inputs += (inputs.empty() ? "" : ", ") + NameOf(input);
    }
    for (const auto& [name, value] : node.attributes.items()) {
      if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&value)) {
        bodies += fmt::format("{}  {} = {{\n{}{}  }}\n", indent, name,
                              Printer().Print(**body, indent + "    "), indent);
      } else {
        attributes += fmt::format("{}{}={}", attributes.empty() ? "" : ", ", name, Text(value));
      }
    }
    std::string outputs, facts;
    for (const Value* output : node.outputs) {
      outputs += (outputs.empty() ? "" : ", ") + NameOf(output);
      facts += (facts.empty() ? "" : ", ") + Describe(output->fact, symbols);
    }
    std::string line = fmt::format("{} = {}({})", outputs, node.op->name, inputs);
    if (!attributes.empty()) line += " {" + attributes + "}";
    line += "  # " + facts;
    if (node.origin != nullptr) line += ", " + sardonyx::Print(*node.origin);
    return line + "\n" + bodies;
  }

  static std::string Text(const Attribute& attribute) {
    return std::visit(
        [](const auto& value) -> std::string {
          using T = std::decay_t<decltype(value)>;
          if constexpr (std::is_same_v<T, int64_t>) {
            return std::to_string(value);
          } else if constexpr (std::is_same_v<T, double>) {
            const std::string text = fmt::format("{}", value);
            return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
          } else if constexpr (std::is_same_v<T, std::string>) {
            return "\"" + Quoted("\"" + value).substr(3);
          } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
            return fmt::format("[{}]", fmt::join(value, ","));
          } else if constexpr (std::is_same_v<T, std::vector<double>>) {
            return fmt::format("f[{}]", fmt::join(value, ","));
          } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
            return fmt::format("s[{}]", fmt::join(value, ","));
          } else if constexpr (std::is_same_v<T, Tensor>) {
            return fmt::format("{}{} {}", Name(value.dtype()), PrintDims(value.dims()),
                               IsShown(value) ? Elements(value) : "...");
          } else if constexpr (std::is_same_v<T, Expression>) {
            return "<" + value.Print() + ">";
          } else {
            return "";
          }
        },
        attribute);
  }

  std::unordered_map<const Value*, std::string> names_;
  std::map<std::string, int> used_;
  int next_ = 0;
};

class Parser {
 public:
  Parser(std::string_view text, const std::function<const CoreOp*(std::string_view)>& find)
      : text_(text), find_(find) {}

  std::unique_ptr<Graph> Run() {
    auto graph = std::make_unique<Graph>();
    ParseInto(*graph, "");
    return graph;
  }

 private:
  template <typename... Args>
  [[noreturn]] void Wrong(fmt::format_string<Args...> text, Args&&... args) const {
    Fail(ErrorCode::kInvalidArgument, "line {}: {}", line_,
         fmt::format(text, std::forward<Args>(args)...));
  }

  // Reads lines up to the end or a line that is `close`.
  void ParseInto(Graph& graph, std::string_view close) {
    std::map<std::string, Value*> values;
    Node* last = nullptr;
    while (NextLine()) {
      if (!close.empty() && rest_ == close) return;
      const std::string word = PeekWord();
      if (word == "graph") {
        Word();
        graph.name = Word();
      } else if (word == "input" || word == "const") {
        Word();
        const std::string name = Word();
        Expect(':');
        ParseValue(graph, name, word == "const", &values);
      } else if (word == "output") {
        Word();
        graph.outputs.push_back(Lookup(values, Word()));
      } else if (last != nullptr && rest_.ends_with("= {") ) {
        const std::string name = Word();
        auto body = std::make_shared<Graph>(graph.shared_symbols());
        ParseInto(*body, "}");
        last->attributes.Set(name, std::move(body));
      } else {
        last = ParseNode(graph, &values);
      }
    }
    if (!close.empty()) Wrong("a body is not closed");
  }

  Value* Lookup(const std::map<std::string, Value*>& values, const std::string& name) const {
    if (name == "_") return nullptr;
    auto it = values.find(name);
    if (it == values.end()) Wrong("'{}' is not defined", name);
    return it->second;
  }

  void ParseValue(Graph& graph, const std::string& name, bool constant,
                  std::map<std::string, Value*>* values) {
    const DType dtype = DTypeFromName(Word());
    if (dtype == DType::kUndefined) Wrong("unknown element type");
    Fact fact;
    fact.type = dtype;
    if (Accept('[')) {
      fact.shape.emplace();
      while (!Accept(']')) {
        const std::string dim = Word();
        int64_t size = 0;
        const auto [end, error] = std::from_chars(dim.data(), dim.data() + dim.size(), size);
        if (error == std::errc() && end == dim.data() + dim.size()) {
          fact.shape->push_back(size);
        } else {
          fact.shape->push_back(dim == "?" ? graph.symbols().Fresh() : graph.symbols().Named(dim));
        }
        Accept(',');
      }
    }
    if (!constant) {
      (*values)[name] = graph.AddInput(name, std::move(fact));
      return;
    }
    std::vector<int64_t> dims;
    for (Dim dim : *fact.shape) dims.push_back(dim.value());
    Expect('=');
    (*values)[name] = graph.AddConstant(ParseTensor(dtype, dims), name);
  }

  Tensor ParseTensor(DType dtype, const std::vector<int64_t>& dims) {
    Tensor tensor(dtype, dims);
    Expect('{');
    std::vector<double> numbers;
    while (!Accept('}')) {
      numbers.push_back(std::strtod(Word().c_str(), nullptr));
      Accept(',');
    }
    const bool repeated = numbers.size() == 1;
    if (!repeated && static_cast<int64_t>(numbers.size()) != tensor.size()) {
      Wrong("{} elements for shape {}", numbers.size(), PrintDims(dims));
    }
    DispatchReal(dtype, "a constant", [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (int64_t i = 0; i < tensor.size(); ++i) {
        tensor.data<T>()[i] = static_cast<T>(numbers[repeated ? 0 : i]);
      }
    });
    return tensor;
  }

  Node* ParseNode(Graph& graph, std::map<std::string, Value*>* values) {
    std::vector<std::string> outputs;
    do outputs.push_back(Word());
    while (Accept(','));
    Expect('=');
    const std::string op_name = Word();
    const CoreOp* op = find_(op_name);
    if (op == nullptr) Wrong("there is no core operation '{}'", op_name);
    std::vector<Value*> inputs;
    Expect('(');
    while (!Accept(')')) {
      inputs.push_back(Lookup(*values, Word()));
      Accept(',');
    }
    Attributes attributes;
    if (Accept('{')) {
      while (!Accept('}')) {
        const std::string name = Word();
        Expect('=');
        attributes.Set(name, ParseAttribute());
        Accept(',');
      }
    }
    Node* node = graph.Append(graph.MakeNode(*op, inputs, std::move(attributes),
                                             static_cast<int>(outputs.size()), nullptr));
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i][0] != '@') node->outputs[i]->name = outputs[i];
      (*values)[outputs[i]] = node->outputs[i];
    }
    return node;
  }

  Attribute ParseAttribute() {
    SkipSpace();
    if (Accept('[')) {
      std::vector<int64_t> ints;
      while (!Accept(']')) {
        ints.push_back(std::strtoll(Word().c_str(), nullptr, 10));
        Accept(',');
      }
      return ints;
    }
    if (Accept('<')) {
      const size_t end = rest_.find('>');
      if (end == std::string_view::npos) Wrong("an expression is not closed");
      const std::string_view text = rest_.substr(0, end);
      rest_.remove_prefix(end + 1);
      return Expression::Parse(text);
    }
    if (!rest_.empty() && rest_[0] == '"') return Word();
    const std::string word = Word();
    if (const DType dtype = DTypeFromName(word); dtype != DType::kUndefined && Accept('[')) {
      std::vector<int64_t> dims;
      while (!Accept(']')) {
        dims.push_back(std::strtoll(Word().c_str(), nullptr, 10));
        Accept(',');
      }
      return ParseTensor(dtype, dims);
    }
    if (word.find_first_of(".en") != std::string::npos) return std::strtod(word.c_str(), nullptr);
    return static_cast<int64_t>(std::strtoll(word.c_str(), nullptr, 10));
  }

  bool NextLine() {
    while (!text_.empty()) {
      const size_t end = std::min(text_.find('\n'), text_.size());
      rest_ = text_.substr(0, end);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      ++line_;
      if (const size_t comment = rest_.find("#"); comment != std::string_view::npos) {
        rest_ = rest_.substr(0, comment);
      }
      while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_.back())) != 0) {
        rest_.remove_suffix(1);
      }
      SkipSpace();
      if (!rest_.empty()) return true;
    }
    return false;
  }

  void SkipSpace() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_[0])) != 0) {
      rest_.remove_prefix(1);
    }
  }

  std::string PeekWord() {
    const std::string_view saved = rest_;
    std::string word = Word();
    rest_ = saved;
    return word;
  }

  std::string Word() {
    SkipSpace();
    std::string word;
    if (Accept('"')) {
      while (!rest_.empty() && rest_[0] != '"') {
        if (rest_[0] == '\\' && rest_.size() > 1) rest_.remove_prefix(1);
        word += rest_[0];
        rest_.remove_prefix(1);
      }
      Expect('"');
      return word;
    }
    while (!rest_.empty() && std::string_view(" ,:=()[]{}<>\"").find(rest_[0]) == std::string_view::npos) {
      word += rest_[0];
      rest_.remove_prefix(1);
    }
    if (word.empty()) Wrong("a name is missing before '{}'", rest_.substr(0, 20));
    return word;
  }

  bool Accept(char c) {
    SkipSpace();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void Expect(char c) {
    if (!Accept(c)) Wrong("expected '{}' before '{}'", c, rest_.substr(0, 20));
  }

  std::string_view text_;
  std::string_view rest_;  // of the present line
  int line_ = 0;
  const std::function<const CoreOp*(std::string_view)>& find_;
};

}  // namespace

std::string PrintGraph(const Graph& graph) { return Printer().Print(graph, ""); }

std::unique_ptr<Graph> ParseGraph(std::string_view text,
                                  const std::function<const CoreOp*(std::string_view)>& find) {
  return Parser(text, find).Run();
}

}  // namespace sardonyx
