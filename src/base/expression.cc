#include "base/expression.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

#include "base/error.h"

namespace sardonyx {
namespace {

struct Row {
  std::string_view name;
  int arity;
  bool returns_bool;
};

constexpr std::array<Row, kFnCount> kRows = {{
#define SARDONYX_ROW(name, text, arity, is_bool) {#text, arity, is_bool},
    SARDONYX_SCALAR_FUNCTIONS(SARDONYX_ROW)
#undef SARDONYX_ROW
}};

const Row& RowOf(Fn fn) { return kRows[static_cast<size_t>(fn)]; }

constexpr size_t kMostRegisters = 255;

// Reads the text form from left to right.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text), rest_(text) {}

  Expression Parse() {
    Expression result;
    Expect('(');
    if (!At(')') && !At(';')) {
      do {
        result.inputs.push_back(Type());
      } while (Accept(','));
    }
    if (Accept(';')) {
      do {
        const double value = Number();
        Expect(':');
        result.constants.push_back({Type(), value});
      } while (Accept(','));
    }
    Expect(')');
    return Code(std::move(result));
  }

 private:
  Expression Code(Expression result) {
    if (result.inputs.size() + result.constants.size() > kMostRegisters) {
      Bad("more than 255 registers");
    }
    for (SkipSpace(); !rest_.empty(); SkipSpace()) {
      Instruction instruction{};
      const std::string_view name = Word();
      if (!FnFromName(name, &instruction.fn)) Bad("no function has this name", name);
      Expect('(');
      for (int i = 0; i < Arity(instruction.fn); ++i) {
        if (i > 0) Expect(',');
        instruction.args[i] = Register(result.registers());
      }
      Expect(')');
      Expect(':');
      instruction.type = Type();
      result.code.push_back(instruction);
      if (static_cast<size_t>(result.registers()) > kMostRegisters) Bad("more than 255 registers");
    }
    if (result.code.empty() && result.inputs.empty()) Bad("there is no result");
    return result;
  }

  [[noreturn]] void Bad(std::string_view what, std::string_view near = {}) const {
    if (near.empty()) near = rest_.substr(0, 16);
    Fail(ErrorCode::kInvalidArgument, "malformed expression '{}': {} at '{}'", text_, what, near);
  }

  void SkipSpace() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n')) rest_.remove_prefix(1);
  }
  bool At(char c) {
    SkipSpace();
    return !rest_.empty() && rest_[0] == c;
  }
  bool Accept(char c) {
    if (!At(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void Expect(char c) {
    if (!Accept(c)) Bad(fmt::format("expected '{}'", c));
  }
  std::string_view Word() {
    SkipSpace();
    size_t size = 0;
    const auto is_word = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    };
    while (size < rest_.size() && is_word(rest_[size])) ++size;
    if (size == 0) Bad("expected a name");
    const std::string_view word = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return word;
  }
  DType Type() {
    const std::string_view name = Word();
    const DType type = DTypeFromName(name);
    if (type == DType::kUndefined) Bad("no element type has this name", name);
    return type;
  }
  double Number() {
    SkipSpace();
    double value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) Bad("expected a number");
    rest_.remove_prefix(end - rest_.data());
    return value;
  }
  uint8_t Register(int defined) {
    SkipSpace();
    int value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc() || value < 0) Bad("expected a register number");
    if (value >= defined) Bad("this register has no value yet");
    rest_.remove_prefix(end - rest_.data());
    return static_cast<uint8_t>(value);
  }

  std::string_view text_;
  std::string_view rest_;
};

}  // namespace

std::string_view Name(Fn fn) { return RowOf(fn).name; }
int Arity(Fn fn) { return RowOf(fn).arity; }
bool ReturnsBool(Fn fn) { return RowOf(fn).returns_bool; }

bool FnFromName(std::string_view name, Fn* fn) {
  for (int i = 0; i < kFnCount; ++i) {
    if (kRows[i].name != name) continue;
    *fn = static_cast<Fn>(i);
    return true;
  }
  return false;
}

DType Expression::RegisterType(int index) const {
  size_t i = static_cast<size_t>(index);
  if (i < inputs.size()) return inputs[i];
  i -= inputs.size();
  if (i < constants.size()) return constants[i].type;
  return code[i - constants.size()].type;
}

std::string Expression::Print() const {
  std::string text = "(";
  for (size_t i = 0; i < inputs.size(); ++i) {
    text += fmt::format("{}{}", i > 0 ? ", " : "", Name(inputs[i]));
  }
  for (size_t i = 0; i < constants.size(); ++i) {
    // Shortest digits that read back as the same double.
    text +=
        fmt::format("{}{}:{}", i > 0 ? ", " : "; ", constants[i].value, Name(constants[i].type));
  }
  text += ")";
  for (const Instruction& instruction : code) {
    text += fmt::format(" {}(", Name(instruction.fn));
    for (int i = 0; i < Arity(instruction.fn); ++i) {
      text += fmt::format("{}{}", i > 0 ? "," : "", instruction.args[i]);
    }
    text += fmt::format("):{}", Name(instruction.type));
  }
  return text;
}

Expression Expression::Parse(std::string_view text) { return Parser(text).Parse(); }

}  // namespace sardonyx
