#pragma once
// What the operators on strings share.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/core_op.h"

namespace re2 {
class RE2;
}

namespace sardonyx::text {

// Fails unless input `i` holds strings.
void ExpectStrings(const InferContext& context, size_t i);

// A compiled regular expression of RE2, which `longest` makes prefer the longest match to the first
// alternative. The last ones that were asked for are kept: compiling takes longer than to run over
// a short text.
std::shared_ptr<const re2::RE2> Expression(std::string_view pattern, bool longest);
// Fails unless the pattern is one.
void ExpectExpression(const InferContext& context, std::string_view pattern, bool longest);

// The code points of UTF-8 text; throws kInvalidArgument, naming `what`, where it is none.
std::vector<int32_t> Decode(std::string_view text, std::string_view what);
std::string Encode(const std::vector<int32_t>& code_points);

// Whitespace as Unicode has it: separators, and what bidirectional text treats as such.
bool IsSpace(int32_t code_point);

// Case mappings of Unicode, with those that change the number of characters. They depend on the
// language alone ("tr_TR.UTF-8": Turkish), never on the C library's locale.
enum class Case { kLower, kUpper, kFold };
std::string ChangeCase(std::string_view text, Case to, std::string_view locale,
                       std::string_view what);

}  // namespace sardonyx::text
