// The text form of a graph, line by line:
//
//   graph main
//   input x: float[batch,3,224,224]
//   const w: float[2] = {1, 2}
//   y = conv(x, w) {group=1, pads=[1,1,1,1]}  # node 'conv1' (Conv-11)
//   values, indices = topk(y, k) {axis=-1}
//   output y
//
// An absent input is "_". Bodies are attributes on lines of their own, below their node:
//
//   y = if_(c, x)
//     then_branch = {
//       graph then
//       ...
//     }
//
// Names of other than letters, digits and "_./@" stand in quotes. Values without a name are shown
// as
// @0, @1, ... and lose that name when read.

#include "ir/text.h"

#include <cctype>
#include <charconv>
#include <map>
#include <tuple>
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
      text +=
          fmt::format("{}input {}: {}\n", indent, NameOf(input), Describe(input->fact, symbols));
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
    return InQuotes(name);
  }

  static std::string InQuotes(std::string_view text) {
    std::string result = "\"";
    for (char c : text) {
      if (c == '"' || c == '\\') result += '\\';
      result += c == '\n' ? std::string("\\n") : std::string(1, c);
    }
    return result + '"';
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
    const Tensor aligned = Aligned(tensor);
    std::string text = "{";
    for (int64_t i = 0; i < tensor.size(); ++i) {
      if (i > 0) text += ", ";
      if (tensor.dtype() == DType::kString) {
        text += InQuotes(tensor.data<std::string>()[i]);
      } else if (IsInteger(tensor.dtype()) || tensor.dtype() == DType::kBool) {
        text += std::to_string(ToInts(aligned)[i]);
      } else if (tensor.dtype() == DType::kFloat32) {
        text += fmt::format("{}", aligned.data<float>()[i]);
      } else {
        text += fmt::format("{}", ToDoubles(aligned)[i]);
      }
    }
    return text + "}";
  }

  static bool IsShown(const Tensor& tensor) {
    const DType dtype = tensor.dtype();
    const bool readable = dtype == DType::kString || dtype == DType::kBool ||
                          (BitWidth(dtype) >= 8 && IsInteger(dtype)) ||
                          (BitWidth(dtype) >= 16 && IsFloat(dtype));
    return readable && tensor.size() <= kShownElements;
  }

  void PrintConstant(const Value* value, const std::string& indent, std::string* text) {
    if (value == nullptr || !value->is_constant() || value->is_input || names_.contains(value))
      return;
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
            return InQuotes(value);
          } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
            return fmt::format("[{}]", fmt::join(value, ","));
          } else if constexpr (std::is_same_v<T, std::vector<double>>) {
            return fmt::format("f[{}]", fmt::join(value, ","));
          } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
            std::vector<std::string> quoted;
            for (const std::string& text : value) quoted.push_back(InQuotes(text));
            return fmt::format("s[{}]", fmt::join(quoted, ","));
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

  using Values = std::map<std::string, Value*>;

  // Reads lines up to the end or a line that is `close`.
  void ParseInto(Graph& graph, std::string_view close) {
    Values values;
    while (NextLine()) {
      if (!close.empty() && rest_ == close) return;
      const std::string word = Keyword();
      if (word == "graph") {
        graph.name = Word();
      } else if (word == "input" || word == "const") {
        const std::string name = Word();
        Expect(':');
        Value* value = word == "input" ? ParseInput(graph, name) : ParseConstant(graph, name);
        Define(name, value, &values);
      } else if (word == "output") {
        graph.outputs.push_back(Lookup(values, Word()));
      } else {
        ParseNode(graph, &values);
      }
      ExpectEnd();
    }
    if (!close.empty()) Wrong("a body is not closed");
  }

  Value* Lookup(const Values& values, const std::string& name) const {
    auto it = values.find(name);
    if (it == values.end()) Wrong("'{}' is not defined", name);
    return it->second;
  }

  void Define(const std::string& name, Value* value, Values* values) const {
    if (!values->emplace(name, value).second) Wrong("'{}' is defined twice", name);
    value->name = name[0] == '@' ? "" : name;
  }

  // The word that a line of another kind than a node begins with; a value may have such a name.
  std::string Keyword() {
    for (const std::string_view word : {"graph", "input", "const", "output"}) {
      if (!rest_.starts_with(word) || rest_.size() <= word.size() || rest_[word.size()] != ' ')
        continue;
      const std::string_view after = rest_.substr(rest_.find_first_not_of(' ', word.size()));
      if (after[0] == '=' || after[0] == ',') continue;
      rest_ = after;
      return std::string(word);
    }
    return "";
  }

  Value* ParseInput(Graph& graph, const std::string& name) {
    Fact fact;
    SkipSpace();
    const std::string_view line = rest_;
    const std::string word = Word();
    if (Accept('(')) {
      fact.type = TypeFromText(line);
      rest_ = {};
    } else {
      fact.type = TypeNamed(word);
      if (Accept('[')) fact.shape = ParseDims(graph.symbols());
    }
    return graph.AddInput(name, std::move(fact));
  }

  DType TypeNamed(const std::string& name) const {
    const DType dtype = DTypeFromName(name);
    if (dtype == DType::kUndefined) Wrong("there is no element type '{}'", name);
    return dtype;
  }

  // Sizes, names, "?" for a symbol of its own. An expression of names is taken for a name.
  Dims ParseDims(SymbolTable& symbols) {
    Dims dims;
    while (!Accept(']')) {
      size_t size = 0;
      for (int depth = 0; size < rest_.size(); ++size) {
        const char c = rest_[size];
        if (depth == 0 && (c == ',' || c == ']')) break;
        depth += c == '(' ? 1 : c == ')' ? -1 : 0;
      }
      const std::string dim(rest_.substr(0, size));
      if (dim.empty()) Wrong("a dimension is missing");
      rest_.remove_prefix(size);
      int64_t number = 0;
      const auto [end, error] = std::from_chars(dim.data(), dim.data() + dim.size(), number);
      if (error == std::errc() && end == dim.data() + dim.size()) {
        dims.push_back(number);
      } else {
        dims.push_back(dim == "?" ? symbols.Fresh() : symbols.Named(dim));
      }
      Accept(',');
    }
    return dims;
  }

  std::vector<int64_t> ParseSizes() {
    std::vector<int64_t> sizes;
    Expect('[');
    while (!Accept(']')) {
      sizes.push_back(Integer(Word()));
      Accept(',');
    }
    return sizes;
  }

  int64_t Integer(const std::string& word) const {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) Wrong("'{}' is no integer", word);
    return value;
  }

  double Number(const std::string& word) const {
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    if (*end != '\0') Wrong("'{}' is no number", word);
    return value;
  }

  Value* ParseConstant(Graph& graph, const std::string& name) {
    const DType dtype = TypeNamed(Word());
    const std::vector<int64_t> sizes = ParseSizes();
    Expect('=');
    return graph.AddConstant(ParseTensor(dtype, sizes), name);
  }

  // Elements in braces; one stands for all.
  Tensor ParseTensor(DType dtype, const std::vector<int64_t>& dims) {
    Tensor tensor(dtype, dims);
    Expect('{');
    std::vector<std::string> words;
    while (!Accept('}')) {
      words.push_back(Word());
      Accept(',');
    }
    const bool repeated = words.size() == 1;
    if (!repeated && static_cast<int64_t>(words.size()) != tensor.size()) {
      Wrong("{} elements for shape {}", words.size(), PrintDims(dims));
    }
    const auto word = [&](int64_t i) -> const std::string& { return words[repeated ? 0 : i]; };
    if (dtype == DType::kString) {
      for (int64_t i = 0; i < tensor.size(); ++i) tensor.data<std::string>()[i] = word(i);
      return tensor;
    }
    DispatchReal(dtype, "a constant", [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (int64_t i = 0; i < tensor.size(); ++i) {
        if constexpr (std::is_integral_v<T>) {
          tensor.data<T>()[i] = static_cast<T>(Integer(word(i)));
        } else {
          tensor.data<T>()[i] = static_cast<T>(static_cast<ComputeType<T>>(Number(word(i))));
        }
      }
    });
    return tensor;
  }

  void ParseNode(Graph& graph, Values* values) {
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
      const bool absent = rest_[0] == '_' && (rest_.size() == 1 || IsEnd(rest_[1]));
      const std::string name = Word();
      inputs.push_back(absent ? nullptr : Lookup(*values, name));
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
    ExpectEnd();
    ParseBodies(graph, &attributes);
    Node* node = graph.Append(graph.MakeNode(*op, inputs, std::move(attributes),
                                             static_cast<int>(outputs.size()), nullptr));
    for (size_t i = 0; i < outputs.size(); ++i) Define(outputs[i], node->outputs[i], values);
  }

  // Bodies below a node.
  void ParseBodies(Graph& graph, Attributes* attributes) {
    while (true) {
      const auto before = std::tuple(text_, rest_, line_);
      if (!NextLine() || !rest_.ends_with("= {")) {
        std::tie(text_, rest_, line_) = before;
        return;
      }
      const std::string name = Word();
      auto body = std::make_shared<Graph>(graph.shared_symbols());
      ParseInto(*body, "}");
      rest_ = {};
      attributes->Set(name, std::move(body));
    }
  }

  Attribute ParseAttribute() {
    SkipSpace();
    if (!rest_.empty() && rest_[0] == '[') return ParseSizes();
    if (Accept('<')) {
      const size_t end = rest_.find('>');
      if (end == std::string_view::npos) Wrong("an expression is not closed");
      const std::string_view text = rest_.substr(0, end);
      rest_.remove_prefix(end + 1);
      return Expression::Parse(text);
    }
    if (!rest_.empty() && rest_[0] == '"') return Word();
    const std::string word = Word();
    if (!rest_.empty() && rest_[0] == '[') {
      if (word == "f") return ParseList<double>([&] { return Number(Word()); });
      if (word == "s") return ParseList<std::string>([&] { return Word(); });
      const DType dtype = TypeNamed(word);
      const std::vector<int64_t> dims = ParseSizes();
      return ParseTensor(dtype, dims);
    }
    if (word.find_first_of(".en") != std::string::npos) return Number(word);
    return Integer(word);
  }

  template <typename T, typename Item>
  std::vector<T> ParseList(Item&& item) {
    std::vector<T> items;
    Expect('[');
    while (!Accept(']')) {
      items.push_back(item());
      Accept(',');
    }
    return items;
  }

  bool NextLine() {
    while (!text_.empty()) {
      const size_t end = std::min(text_.find('\n'), text_.size());
      rest_ = text_.substr(0, end);
      text_.remove_prefix(std::min(end + 1, text_.size()));
      ++line_;
      CutComment();
      while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_.back())) != 0) {
        rest_.remove_suffix(1);
      }
      SkipSpace();
      if (!rest_.empty()) return true;
    }
    return false;
  }

  void CutComment() {
    bool quoted = false;
    for (size_t i = 0; i < rest_.size(); ++i) {
      if (quoted && rest_[i] == '\\') {
        ++i;
      } else if (rest_[i] == '"') {
        quoted = !quoted;
      } else if (rest_[i] == '#' && !quoted) {
        rest_ = rest_.substr(0, i);
      }
    }
  }

  void SkipSpace() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_[0])) != 0) {
      rest_.remove_prefix(1);
    }
  }

  static bool IsEnd(char c) {
    return std::string_view(" ,:=()[]{}<>\"").find(c) != std::string_view::npos;
  }

  std::string Word() {
    SkipSpace();
    std::string word;
    if (Accept('"')) {
      while (!rest_.empty() && rest_[0] != '"') {
        const bool escaped = rest_[0] == '\\' && rest_.size() > 1;
        if (escaped) rest_.remove_prefix(1);
        word += escaped && rest_[0] == 'n' ? '\n' : rest_[0];
        rest_.remove_prefix(1);
      }
      if (rest_.empty()) Wrong("a quoted name is not closed");
      rest_.remove_prefix(1);
      return word;
    }
    while (!rest_.empty() && !IsEnd(rest_[0])) {
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

  void ExpectEnd() {
    SkipSpace();
    if (!rest_.empty()) Wrong("'{}' is too much", rest_);
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
