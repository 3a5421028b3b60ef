#include <unordered_set>

#include "ops/core/reference.h"
#include "ops/lowering.h"
#include "ops/text/text.h"

namespace sardonyx {
namespace core {
namespace {

void InferStringNormalizer(InferContext& context) {
  text::ExpectStrings(context, 0);
  const std::string_view action = context.attributes().String("case_change_action", "NONE");
  if (action != "NONE" && action != "LOWER" && action != "UPPER") {
    context.Fail("case_change_action is LOWER, UPPER or NONE, not '{}'", action);
  }
  if (!context.ranked(0)) return context.Set(0, DType::kString, {});
  Dims shape = context.shape(0);
  if ((shape.size() != 1 && shape.size() != 2) ||
      (shape.size() == 2 && shape[0].known() && shape[0].value() != 1)) {
    context.Fail("StringNormalizer takes [C] or [1,C], not {}", context.Print(shape));
  }
  // Without stop words all elements stay; there is one of none.
  const bool are_all = context.attributes().Strings("stopwords").empty();
  SymbolTable& symbols = context.symbols();
  shape.back() = are_all ? symbols.Max(shape.back(), Dim(1)) : symbols.Fresh();
  context.Set(0, DType::kString, std::move(shape));
}

// The text of the standard: an element that is a stop word goes, all others stay, and case changes
// after that. Nothing left is one empty string.
void ComputeStringNormalizer(ComputeContext& context) {
  const Tensor& x = context.input(0);
  const Attributes& attributes = context.attributes();
  const std::string_view action = attributes.String("case_change_action", "NONE");
  const std::string_view locale = attributes.String("locale");
  const auto& stopwords = attributes.Strings("stopwords");
  const auto change = [&](const std::string& text, text::Case to) {
    return text::ChangeCase(text, to, locale, "StringNormalizer");
  };
  const auto key = [&](const std::string& text) {
    return attributes.Int("is_case_sensitive") != 0 ? text : change(text, text::Case::kFold);
  };
  std::unordered_set<std::string> stops;
  for (const std::string& word : stopwords) stops.insert(key(word));
  std::vector<std::string> kept;
  for (int64_t i = 0; i < x.size(); ++i) {
    const std::string& text = x.data<std::string>()[i];
    if (!stops.empty() && stops.contains(key(text))) continue;
    kept.push_back(action == "LOWER"   ? change(text, text::Case::kLower)
                   : action == "UPPER" ? change(text, text::Case::kUpper)
                                       : text);
  }
  if (kept.empty()) kept.emplace_back();
  const Tensor y = MakeVector(kept);
  context.Set(0, x.rank() == 2 ? y.Reshaped({1, y.size()}) : y);
}

}  // namespace

const CoreOp string_normalizer = {.name = "string_normalizer",
                                  .inputs = "t",
                                  .infer = InferStringNormalizer,
                                  .reference = ComputeStringNormalizer};

}  // namespace core

namespace ops {

Outputs LowerStringNormalizer(Lowering& op) {
  return op.builder().Make(core::string_normalizer, {op.in(0)}, op.attributes);
}

}  // namespace ops
}  // namespace sardonyx
