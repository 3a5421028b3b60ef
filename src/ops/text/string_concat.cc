#include "ops/core/reference.h"
#include "ops/lowering.h"
#include "ops/text/text.h"

namespace sardonyx {
namespace core {
namespace {

void InferStringConcat(InferContext& context) {
  text::ExpectStrings(context, 0);
  text::ExpectStrings(context, 1);
  std::optional<Dims> shape;
  if (context.ranked(0) && context.ranked(1)) {
    shape = context.Broadcast(context.shape(0), context.shape(1));
  }
  context.Set(0, DType::kString, std::move(shape));
}

void ComputeStringConcat(ComputeContext& context) {
  const Tensor &a = context.input(0), &b = context.input(1);
  Tensor& y = context.Allocate(0);
  std::string* out = y.data<std::string>();
  for (Walk walk(y.dims(),
                 {BroadcastStrides(a.dims(), y.dims()), BroadcastStrides(b.dims(), y.dims())});
       !walk.done(); walk.Next()) {
    *out++ = a.data<std::string>()[walk[0]] + b.data<std::string>()[walk[1]];
  }
}

}  // namespace

const CoreOp string_concat = {.name = "string_concat",
                              .inputs = "tt",
                              .infer = InferStringConcat,
                              .reference = ComputeStringConcat};

}  // namespace core

namespace ops {

Outputs LowerStringConcat(Lowering& op) {
  return op.builder().Make(core::string_concat, {op.in(0), op.in(1)});
}

}  // namespace ops
}  // namespace sardonyx
