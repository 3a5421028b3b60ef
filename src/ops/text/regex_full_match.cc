#include <re2/re2.h>

#include "ops/core/reference.h"
#include "ops/lowering.h"
#include "ops/text/text.h"

namespace sardonyx {
namespace core {
namespace {

re2::RE2::Options QuietOptions() {
  re2::RE2::Options options;
  options.set_log_errors(false);
  return options;
}

void InferRegexFullMatch(InferContext& context) {
  text::ExpectStrings(context, 0);
  const std::string pattern(context.attributes().String("pattern"));
  const re2::RE2 regex(pattern, QuietOptions());
  if (!regex.ok()) {
    context.Fail("'{}' is no regular expression of RE2: {}", pattern, regex.error());
  }
  context.Set(0, DType::kBool, context.input(0).shape);
}

void ComputeRegexFullMatch(ComputeContext& context) {
  const Tensor& x = context.input(0);
  const re2::RE2 regex(std::string(context.attributes().String("pattern")), QuietOptions());
  bool* y = context.Allocate(0).data<bool>();
  for (int64_t i = 0; i < x.size(); ++i) {
    y[i] = re2::RE2::FullMatch(x.data<std::string>()[i], regex);
  }
}

}  // namespace

const CoreOp regex_full_match = {.name = "regex_full_match",
                                 .inputs = "t",
                                 .infer = InferRegexFullMatch,
                                 .reference = ComputeRegexFullMatch};

}  // namespace core

namespace ops {

Outputs LowerRegexFullMatch(Lowering& op) {
  if (!op.HasAttribute("pattern")) op.Fail("attribute pattern is missing");
  return op.builder().Make(core::regex_full_match, {op.in(0)}, {{"pattern", op.String("pattern")}});
}

}  // namespace ops
}  // namespace sardonyx
