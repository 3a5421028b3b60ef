#include "ops/lowering.h"
#include "ops/nn/window.h"

namespace sardonyx::ops {

// Indices count in the tensor that a max pool with this window would have seen; a larger
// output_shape is filled up with zeros at the end of each axis.
Outputs LowerMaxUnpool(Lowering& op) {
  const Val x = op.in(0);
  Builder& b = op.builder();
  const std::vector<int64_t>& kernel = op.Ints("kernel_shape");
  const Attributes window = Window(op, x.rank() - 2, kernel);
  const std::vector<int64_t>&strides = window.Ints("strides"), &pads = window.Ints("pads");
  std::vector<int64_t> offset;
  for (size_t i = 0; i < kernel.size(); ++i) {
    offset.push_back(kernel[i] - strides[i] - pads[i] - pads[kernel.size() + i]);
  }
  const Val spatial = ShapeOf(x, 2, x.rank()) * b.Ints(strides) + b.Ints(offset);
  const Val shape = Concat({ShapeOf(x, 0, 2), spatial}, 0);
  const Val count = Reduce("prod", shape, {0}, true);
  const Val flat = ScatterElements(Filled(count, MakeFilled(x.dtype(), {1}, 0)),
                                   Reshape(op.in(1), std::vector<int64_t>{-1}),
                                   Reshape(x, std::vector<int64_t>{-1}), 0);
  const Val y = Reshape(flat, shape, true);
  if (!op.has(2)) return y;
  const Val zeros = b.Ints(std::vector<int64_t>(x.rank(), 0));
  return b.Make(core::pad, {y, Concat({zeros, op.in(2) - shape}, 0)},
                {{"mode", std::string("constant")}});
}

}  // namespace sardonyx::ops
