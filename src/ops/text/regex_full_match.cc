#include <re2/re2.h>

#include "ops/core/reference.h"
#include "ops/lowering.h"
#include "ops/text/text.h"

namespace sardonyx {
namespace core {
namespace {

void InferRegexFullMatch(InferContext& context) {
  text::ExpectStrings(context, 0);
  text::ExpectExpression(context, context.attributes().String("pattern"), false);
  context.Set(0, DType::kBool, context.input(0).shape);
}

void ComputeRegexFullMatch(ComputeContext& context) {
  const Tensor& x = context.input(0);
  const auto regex = text::Expression(context.attributes().String("pattern"), false);
  bool* y = context.Allocate(0).data<bool>();
  for (int64_t i = 0; i < x.size(); ++i) {
    y[i] = re2::RE2::FullMatch(x.data<std::string>()[i], *regex);
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
