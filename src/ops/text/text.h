#pragma once
// What the operators on strings share.

#include <string>
#include <string_view>
#include <vector>

#include "ir/core_op.h"

namespace sardonyx::text {

// Fails unless input `i` holds strings.
void ExpectStrings(const InferContext& context, size_t i);

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
