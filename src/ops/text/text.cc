#include "ops/text/text.h"

#include <re2/re2.h>
#include <utf8proc.h>

#include <algorithm>
#include <deque>
#include <mutex>

namespace sardonyx::text {
namespace {

constexpr int32_t kCapitalDottedI = 0x130, kSmallDotlessI = 0x131, kDotAbove = 0x307;
constexpr int32_t kCapitalSigma = 0x3a3, kSmallSigma = 0x3c3, kFinalSigma = 0x3c2;
constexpr size_t kLongestFold = 4;

void AppendFold(int32_t c, std::vector<int32_t>* out) {
  int32_t folded[kLongestFold];
  int boundary = 0;
  const auto count = utf8proc_decompose_char(c, folded, kLongestFold, UTF8PROC_CASEFOLD, &boundary);
  out->insert(out->end(), folded, folded + count);
}

// A letter whose upper case is several characters ("ß") is one whose folded form is; capitals, of
// which two fold to several, stay as they are.
void AppendUpper(int32_t c, std::vector<int32_t>* out) {
  const size_t begin = out->size();
  if (utf8proc_category(c) != UTF8PROC_CATEGORY_LU) AppendFold(c, out);
  if (out->size() < begin + 2) {
    out->resize(begin);
    return out->push_back(utf8proc_toupper(c));
  }
  for (size_t i = begin; i < out->size(); ++i) (*out)[i] = utf8proc_toupper((*out)[i]);
}

bool IsCased(int32_t c) {
  const auto category = utf8proc_category(c);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

// Characters that stand between letters without ending a word: marks, modifiers, apostrophes.
bool IsCaseIgnorable(int32_t c) {
  switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: return c == '\'' || c == '.' || c == ':' || c == 0xb7 || c == 0x2019;
  }
}

// The Unicode Standard, section 3.13, table 3-17: a sigma ends a word that it does not begin.
bool IsFinalSigma(const std::vector<int32_t>& text, size_t at) {
  size_t before = at, after = at + 1;
  while (before > 0 && IsCaseIgnorable(text[before - 1])) --before;
  while (after < text.size() && IsCaseIgnorable(text[after])) ++after;
  return before > 0 && IsCased(text[before - 1]) && (after == text.size() || !IsCased(text[after]));
}

bool IsAscii(char c) { return (c & 0x80) == 0; }

}  // namespace

std::shared_ptr<const re2::RE2> Expression(std::string_view pattern, bool longest) {
  struct Compiled {
    std::string pattern;
    bool longest;
    std::shared_ptr<const re2::RE2> expression;
  };
  constexpr size_t kMost = 64;
  static std::mutex mutex;
  static std::deque<Compiled> known;  // the last one first
  {
    const std::lock_guard lock(mutex);
    for (const Compiled& each : known) {
      if (each.longest == longest && each.pattern == pattern) return each.expression;
    }
  }
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_longest_match(longest);
  auto expression = std::make_shared<const re2::RE2>(re2::StringPiece(pattern), options);
  const std::lock_guard lock(mutex);
  if (known.size() == kMost) known.pop_back();
  known.push_front({std::string(pattern), longest, expression});
  return expression;
}

void ExpectExpression(const InferContext& context, std::string_view pattern, bool longest) {
  const auto expression = Expression(pattern, longest);
  if (expression->ok()) return;
  context.Fail("'{}' is no regular expression of RE2: {}", pattern, expression->error());
}

void ExpectStrings(const InferContext& context, size_t i) {
  if (context.input_count() <= i || !context.has(i)) {
    context.Fail("input {} of {} is missing", i, context.node().op->name);
  }
  if (context.dtype(i) != DType::kString) {
    context.Fail("input {} of {} holds strings, not {}", i, context.node().op->name,
                 Name(context.dtype(i)));
  }
}

std::vector<int32_t> Decode(std::string_view text, std::string_view what) {
  std::vector<int32_t> result;
  result.reserve(text.size());
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (size_t at = 0; at < text.size();) {
    int32_t c = 0;
    const auto length =
        utf8proc_iterate(bytes + at, static_cast<utf8proc_ssize_t>(text.size() - at), &c);
    if (length <= 0) Fail(ErrorCode::kInvalidArgument, "{}: a string is not valid UTF-8", what);
    at += static_cast<size_t>(length);
    result.push_back(c);
  }
  return result;
}

std::string Encode(const std::vector<int32_t>& code_points) {
  std::string result;
  result.reserve(code_points.size());
  for (const int32_t c : code_points) {
    utf8proc_uint8_t bytes[4];
    const auto length = utf8proc_encode_char(c, bytes);
    result.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
  }
  return result;
}

bool IsSpace(int32_t code_point) {
  const utf8proc_property_t& property = *utf8proc_get_property(code_point);
  return property.category == UTF8PROC_CATEGORY_ZS ||
         property.bidi_class == UTF8PROC_BIDI_CLASS_WS ||
         property.bidi_class == UTF8PROC_BIDI_CLASS_B ||
         property.bidi_class == UTF8PROC_BIDI_CLASS_S;
}

std::string ChangeCase(std::string_view text, Case to, std::string_view locale,
                       std::string_view what) {
  const std::string_view language = locale.substr(0, locale.find_first_of("_-.@"));
  const bool turkic = language == "tr" || language == "az";
  if (!turkic && std::all_of(text.begin(), text.end(), IsAscii)) {
    std::string result(text);
    const char first = to == Case::kUpper ? 'a' : 'A';
    for (char& c : result) {
      if (c >= first && c < first + 26) c ^= 'a' ^ 'A';
    }
    return result;
  }
  const std::vector<int32_t> in = Decode(text, what);
  std::vector<int32_t> out;
  out.reserve(in.size());
  for (size_t i = 0; i < in.size(); ++i) {
    const int32_t c = in[i];
    if (turkic && to == Case::kUpper && c == 'i') {
      out.push_back(kCapitalDottedI);
    } else if (turkic && to != Case::kUpper && c == 'I') {
      out.push_back(kSmallDotlessI);
    } else if (turkic && to != Case::kUpper && c == kCapitalDottedI) {
      out.push_back('i');
    } else if (to == Case::kUpper) {
      AppendUpper(c, &out);
    } else if (to == Case::kFold) {
      AppendFold(c, &out);
    } else if (c == kCapitalDottedI) {
      out.insert(out.end(), {'i', kDotAbove});
    } else if (c == kCapitalSigma) {
      out.push_back(IsFinalSigma(in, i) ? kFinalSigma : kSmallSigma);
    } else {
      out.push_back(utf8proc_tolower(c));
    }
  }
  return Encode(out);
}

}  // namespace sardonyx::text
