#include "ops/contrib/standard.h"
#include "ops/nn/window.h"

namespace sardonyx::ops::contrib {

Outputs LowerExpandDims(Lowering& op) {
  const std::vector<int64_t> axis = op.in(1).ints();
  if (axis.size() != 1) op.Fail("axis has {} elements, not 1", axis.size());
  return Unsqueeze(op.in(0), axis);
}

Outputs LowerTrilu(Lowering& op) { return Standard(op, "Trilu", op.inputs, op.attributes); }

Outputs LowerGatherND(Lowering& op) { return Standard(op, "GatherND", op.inputs); }

// Bounds may be vectors of one element.
Outputs LowerRange(Lowering& op) {
  std::vector<Val> bounds;
  for (size_t i = 0; i < 3; ++i) {
    const Val bound = op.has(i) ? op.in(i) : op.builder().Scalar(op.in(0).dtype(), 1);
    bounds.push_back(Reshape(bound, std::vector<int64_t>{}));
  }
  return Standard(op, "Range", bounds);
}

// Amounts may come as one row of a matrix, the value as a vector of one element.
Outputs LowerPad(Lowering& op) {
  std::vector<Val> inputs = {op.in(0), Reshape(op.in(1), std::vector<int64_t>{-1})};
  if (op.has(2)) inputs.push_back(Reshape(op.in(2), std::vector<int64_t>{}));
  return Standard(op, "Pad", inputs, op.attributes);
}

// Values in the order in which they first occur.
Outputs LowerUnique(Lowering& op) {
  const Attributes attributes{{"sorted", int64_t{0}}};
  const std::vector<Val> results = Standard(op, "Unique", {op.in(0)}, attributes, 4).values;
  return {results[0], results[2], results[3]};
}

// The modes have the names of the standard's first version.
Outputs LowerGridSample(Lowering& op) {
  Attributes attributes = op.attributes;
  const std::string mode = op.String("mode", "bilinear");
  if (mode == "bilinear") attributes.Set("mode", std::string("linear"));
  if (mode == "bicubic") attributes.Set("mode", std::string("cubic"));
  return Standard(op, "GridSample", op.inputs, attributes);
}

Outputs LowerNhwcMaxPool(Lowering& op) {
  const std::vector<int64_t>& kernel = op.Ints("kernel_shape");
  Attributes attributes = Window(op, op.in(0).rank() - 2, kernel);
  attributes.Set("kernel", kernel);
  attributes.Set("ceil_mode", op.Int("ceil_mode"));
  return op.builder().Make(core::max_pool, {op.in(0)}, attributes);
}

}  // namespace sardonyx::ops::contrib
