// BitCast: the same bits as elements of another type of the same width, an operation of its own.

#include "ops/core/element_type.h"
#include "ops/core/reference.h"
#include "ops/lowering.h"

namespace sardonyx {

namespace core {
namespace {

void InferBitCast(InferContext& context) {
  if (context.input_count() != 1) context.Fail("bit_cast takes one input");
  const DType from = context.dtype(0), type = ElementType(context.attributes(), "to");
  if (from == DType::kString || type == DType::kString) {
    context.Fail("cannot take the bits of {} as {}: strings have none", Name(from), Name(type));
  }
  if (BitWidth(from) != BitWidth(type)) {
    context.Fail("cannot take the {} bits of {} as {}, which has {}", BitWidth(from), Name(from),
                 Name(type), BitWidth(type));
  }
  context.Set(0, type, context.ranked(0) ? std::optional(context.shape(0)) : std::nullopt);
}

void ComputeBitCast(ComputeContext& context) {
  const Tensor& x = context.input(0);
  Tensor& y = context.Allocate(0);
  if (x.bytes() > 0) std::memcpy(y.raw(), x.raw(), x.bytes());
  if (y.dtype() != DType::kBool) return;
  // Any bit makes a true one: other bytes are no bool in C++.
  for (uint8_t *byte = y.data<uint8_t>(), *end = byte + y.size(); byte < end; ++byte) {
    *byte = *byte != 0;
  }
}

}  // namespace

const CoreOp bit_cast = {
    .name = "bit_cast", .inputs = "t", .infer = InferBitCast, .reference = ComputeBitCast};

}  // namespace core

namespace ops {

Outputs LowerBitCast(Lowering& op) {
  return op.builder().Make(core::bit_cast, {op.in(0)}, {{"to", op.Int("to")}});
}

}  // namespace ops
}  // namespace sardonyx
