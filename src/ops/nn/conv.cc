#include "ops/lowering.h"
#include "ops/nn/window.h"

namespace sardonyx::ops {

namespace {

// Weights have the rank of the input, which the input may not know.
int Rank(Val x, Val w) { return w.ranked() ? w.rank() : x.rank(); }

}  // namespace

// Bias is added to the last axis, where the channels are.
Outputs LowerConv(Lowering& op) {
  const Val x = op.in(0), w = op.in(1);
  const int rank = Rank(x, w), spatial = rank - 2;
  std::vector<int64_t> kernel = op.Ints("kernel_shape");
  if (kernel.empty() && op.String("auto_pad", "NOTSET") != "NOTSET") {
    for (int i = 0; i < spatial; ++i) kernel.push_back(w.size(2 + i));
  }
  Attributes attributes = Window(op, spatial, kernel);
  attributes.Set("group", op.Int("group", 1));
  Val y = op.builder().Make(core::conv, {ToChannelsLast(x, rank), w}, attributes);
  if (op.has(2)) y = y + op.in(2);
  return ToChannelsFirst(y);
}

Outputs LowerConvTranspose(Lowering& op) {
  const Val x = op.in(0), w = op.in(1);
  const int rank = Rank(x, w), spatial = rank - 2;
  // Its automatic padding follows from the output shape: left to the core operation.
  Attributes attributes = Window(op, spatial, {});
  attributes.Set("group", op.Int("group", 1));
  if (op.HasAttribute("output_padding")) {
    attributes.Set("output_padding", op.Ints("output_padding"));
  }
  if (op.HasAttribute("output_shape")) attributes.Set("output_shape", op.Ints("output_shape"));
  Val y = op.builder().Make(core::conv_transpose, {ToChannelsLast(x, rank), w}, attributes);
  if (op.has(2)) y = y + op.in(2);
  return ToChannelsFirst(y);
}

}  // namespace sardonyx::ops
