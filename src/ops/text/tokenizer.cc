// Tokenizer of com.microsoft: strings cut at separators, into matches of an expression, or into
// characters.

#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <memory>
#include <optional>

#include "ops/core/reference.h"
#include "ops/lowering.h"
#include "ops/text/text.h"

namespace sardonyx {
namespace core {
namespace {

using std::string_view;
constexpr size_t kNone = string_view::npos;
// What stands around the tokens of a string where `mark` asks for it.
constexpr char kStartOfText[] = "\x02", kEndOfText[] = "\x03";

// Where a match begins and ends; {kNone, kNone}: there is none.
struct Span {
  size_t begin = kNone, end = kNone;
};

bool IsContinuation(char c) { return (c & 0xc0) == 0x80; }

// Bytes from `at` on to the next character of text that is valid; 1 at its end.
size_t CharacterBytes(string_view text, size_t at) {
  size_t end = at + 1;
  while (end < text.size() && IsContinuation(text[end])) ++end;
  return end - at;
}

bool HasCharacters(string_view text, size_t count) {
  if (text.size() < count) return false;
  if (text.size() >= 4 * count) return true;  // no character has more bytes
  return text.size() -
             static_cast<size_t>(std::count_if(text.begin(), text.end(), IsContinuation)) >=
         count;
}

// How many bytes of a pattern are one character or class of characters; 0: it begins otherwise.
size_t ClassBytes(string_view pattern) {
  constexpr string_view kClasses = "sSdDwW", kOperators = "^$|()*+?{}]";
  if (pattern.empty() || (pattern[0] & 0x80) != 0) return 0;
  if (pattern[0] == '\\') {
    if (pattern.size() == 1) return 0;
    const char escaped = pattern[1];
    const bool is_sign = std::ispunct(static_cast<unsigned char>(escaped)) != 0;
    return is_sign || kClasses.find(escaped) != kNone ? 2 : 0;
  }
  if (pattern[0] != '[') return kOperators.find(pattern[0]) == kNone ? 1 : 0;
  size_t at = pattern.size() > 1 && pattern[1] == '^' ? 2 : 1;
  for (const size_t first = at; at < pattern.size(); ++at) {
    if (pattern[at] == '[') return 0;  // [:alpha:]
    if (pattern[at] == ']' && at > first) return at + 1;
    if (pattern[at] == '\\') ++at;
  }
  return 0;
}

// An expression that is looked for in texts. What RE2 pays for a match it need not pay for the
// commonest ones, a class of characters by itself or with a plus ([a-z0-9]+): there it is asked
// once for each character what belongs to the class.
class Pattern {
 public:
  explicit Pattern(string_view pattern) : expression_(text::Expression(pattern, true)) {
    const size_t bytes = ClassBytes(pattern);
    repeated_ = bytes > 0 && pattern.substr(bytes) == "+";
    if (repeated_ || (bytes > 0 && bytes == pattern.size())) {
      class_ = text::Expression(pattern.substr(0, bytes), true);
    }
  }

  // The first match at `from` or behind it, the longest of those that begin there; what is before
  // counts for ^ and \b.
  Span Find(string_view text, size_t from) {
    if (class_ != nullptr) return FindOfClass(text, from);
    re2::StringPiece match;
    if (!expression_->Match(re2::StringPiece(text), from, text.size(), re2::RE2::UNANCHORED, &match,
                            1)) {
      return {};
    }
    const auto begin = static_cast<size_t>(match.data() - text.data());
    return {begin, begin + match.size()};
  }

 private:
  Span FindOfClass(string_view text, size_t from) {
    size_t bytes = 1;
    while (from < text.size() && !InClass(text, from, bytes)) from += bytes;
    if (from >= text.size()) return {};
    size_t end = from + bytes;
    while (repeated_ && end < text.size() && InClass(text, end, bytes)) end += bytes;
    return {from, end};
  }

  // Whether the character at `at` is of the class, and how many bytes it has.
  bool InClass(string_view text, size_t at, size_t& bytes) {
    const auto first = static_cast<unsigned char>(text[at]);
    if (first < ascii_.size() && ascii_[first] != Answer::kUnknown) {
      bytes = 1;
      return ascii_[first] == Answer::kYes;
    }
    bytes = CharacterBytes(text, at);
    const bool is = re2::RE2::FullMatch(re2::StringPiece(text.substr(at, bytes)), *class_);
    if (first < ascii_.size()) ascii_[first] = is ? Answer::kYes : Answer::kNo;
    return is;
  }

  enum class Answer : uint8_t { kUnknown, kYes, kNo };
  std::shared_ptr<const re2::RE2> expression_, class_;
  bool repeated_ = false;
  std::array<Answer, 128> ascii_{};
};

using Words = std::vector<string_view>;

void AddCharacters(string_view text, Words& words) {
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = CharacterBytes(text, at);
    words.push_back(text.substr(at, bytes));
    at += bytes;
  }
}

// Throws where text is not UTF-8.
void ExpectUtf8(string_view text) {
  size_t at = 0;
  uint64_t bits = 0;
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t bytes;
    std::memcpy(&bytes, text.data() + at, 8);
    bits |= bytes;
  }
  for (; at < text.size(); ++at) bits |= static_cast<unsigned char>(text[at]);
  if ((bits & 0x8080808080808080U) != 0) text::Decode(text, "Tokenizer");
}

// What lies between matches of the separator. One that matches nothing takes a character with it,
// as in ONNX Runtime.
void AddBetween(Pattern& separator, string_view text, size_t fewest, Words& words) {
  size_t at = 0;
  while (at <= text.size()) {
    const Span match = separator.Find(text, at);
    const string_view word = text.substr(at, std::min(match.begin, text.size()) - at);
    if (HasCharacters(word, fewest)) words.push_back(word);
    if (match.begin == kNone) return;
    at = match.end > match.begin ? match.end : match.end + CharacterBytes(text, match.end);
  }
}

// Matches, one behind the other. Within one that is too short, another may begin.
void AddMatches(Pattern& token, string_view text, size_t fewest, Words& words) {
  size_t at = 0;
  while (at <= text.size()) {
    const Span match = token.Find(text, at);
    if (match.begin == kNone) return;
    const string_view word = text.substr(match.begin, match.end - match.begin);
    const bool taken = HasCharacters(word, fewest);
    if (taken) words.push_back(word);
    at = taken ? match.end : match.begin + CharacterBytes(text, match.begin);
  }
}

void InferTokenize(InferContext& context) {
  text::ExpectStrings(context, 0);
  const Attributes& attributes = context.attributes();
  text::ExpectExpression(context, attributes.String("tokenexp"), true);
  for (const std::string& separator : attributes.Strings("separators")) {
    text::ExpectExpression(context, separator, true);
  }
  if (!context.ranked(0)) return context.Set(0, DType::kString, {});
  const Dims& shape = context.shape(0);
  if (shape.empty() || shape.size() > 2) {
    context.Fail("tokenize takes strings [C] or [N,C], not {}", context.Print(shape));
  }
  // Of no strings, a result of their rank.
  const bool none = std::any_of(shape.begin(), shape.end(),
                                [](Dim dim) { return dim.known() && dim.value() == 0; });
  Dims result = shape;
  if (none) {
    result.back() = Dim(0);
  } else {
    result.push_back(context.symbols().Fresh());
  }
  context.Set(0, DType::kString, std::move(result));
}

// Words of all strings, one string behind the other, and how many each has.
struct Cut {
  Words words;
  std::vector<int64_t> counts;
  int64_t widest = 0;
};

Cut CutStrings(const Attributes& attributes, const Tensor& x) {
  const auto fewest = static_cast<size_t>(std::max<int64_t>(1, attributes.Int("mincharnum", 1)));
  const string_view token = attributes.String("tokenexp");
  std::vector<Pattern> separators;
  for (const std::string& pattern : attributes.Strings("separators")) {
    separators.emplace_back(pattern);
  }
  std::optional<Pattern> tokens;
  if (!token.empty()) tokens.emplace(token);
  Cut cut;
  if (!tokens && separators.empty()) {
    size_t bytes = 0;
    for (int64_t i = 0; i < x.size(); ++i) bytes += x.data<std::string>()[i].size();
    cut.words.reserve(bytes);
  }
  Words pieces, parts;
  for (int64_t i = 0; i < x.size(); ++i) {
    const std::string& text = x.data<std::string>()[i];
    ExpectUtf8(text);
    const size_t before = cut.words.size();
    if (tokens) {
      AddMatches(*tokens, text, fewest, cut.words);
    } else if (separators.empty()) {
      AddCharacters(text, cut.words);
    } else if (separators.size() == 1) {
      AddBetween(separators[0], text, fewest, cut.words);
    } else {
      pieces.assign(1, text);
      for (Pattern& separator : separators) {
        parts.clear();
        for (const string_view piece : pieces) AddBetween(separator, piece, fewest, parts);
        pieces.swap(parts);
      }
      cut.words.insert(cut.words.end(), pieces.begin(), pieces.end());
    }
    cut.counts.push_back(static_cast<int64_t>(cut.words.size() - before));
    cut.widest = std::max(cut.widest, cut.counts.back());
  }
  return cut;
}

void ComputeTokenize(ComputeContext& context) {
  const Tensor& x = context.input(0);
  if (x.size() == 0) {
    context.Allocate(0);
    return;
  }
  const Attributes& attributes = context.attributes();
  const Cut cut = CutStrings(attributes, x);
  // Where no string has a word, there are no marks either.
  const bool mark = attributes.Int("mark") != 0 && cut.widest > 0;
  const int64_t width = cut.widest + (mark ? 2 : 0);
  const string_view pad = attributes.String("pad_value");
  std::vector<int64_t> dims = x.dims();
  dims.push_back(width);
  std::string* y = context.Allocate(0, DType::kString, dims).data<std::string>();
  auto word = cut.words.begin();
  for (const int64_t count : cut.counts) {
    std::string* const end = y + width;
    if (mark) *y++ = kStartOfText;
    for (int64_t i = 0; i < count; ++i, ++word, ++y) {
      word->size() == 1 ? y->push_back(word->front()) : static_cast<void>(*y = *word);
    }
    if (mark) *y++ = kEndOfText;
    if (pad.empty()) y = end;
    while (y < end) *y++ = pad;
  }
}

}  // namespace

const CoreOp tokenize = {
    .name = "tokenize", .inputs = "t", .infer = InferTokenize, .reference = ComputeTokenize};

}  // namespace core

namespace ops::contrib {

Outputs LowerTokenizer(Lowering& op) {
  const int64_t fewest = op.Int("mincharnum");
  if (fewest < 1) op.Fail("mincharnum is {}, not positive", fewest);
  std::vector<std::string> separators = op.attributes.Strings("separators");
  std::string token = op.String("tokenexp");
  if (separators.empty() && token.empty()) op.Fail("there are neither separators nor a tokenexp");
  // Separators come first where there are both.
  if (!separators.empty()) token.clear();
  if (token == "." || (separators.size() == 1 && separators[0].empty())) {
    if (fewest > 1) op.Fail("characters are not tokens of mincharnum {}", fewest);
    token.clear();
    separators.clear();
  }
  return op.builder().Make(core::tokenize, {op.in(0)},
                           {{"separators", std::move(separators)},
                            {"tokenexp", token},
                            {"mark", int64_t{op.Int("mark") != 0}},
                            {"mincharnum", fewest},
                            {"pad_value", op.String("pad_value")}});
}

}  // namespace ops::contrib
}  // namespace sardonyx
