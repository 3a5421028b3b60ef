#include "kernels/rotary.h"

#include "devices/cpu/families.h"

namespace sardonyx::cpu {
namespace {

// Elements a step of each axis but the last of a dense table, 0 where it has but one.
void TableSteps(const Operand& table, int64_t* steps) {
  int64_t step = table.dims[3];
  for (int axis = 2; axis >= 0; --axis) {
    steps[axis] = table.dims[axis] == 1 ? 0 : step;
    step *= table.dims[axis];
  }
}

BindResult BindRotary(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  for (const Operand& input : request.inputs) {
    if (input.dtype != DType::kFloat32) return Refuse("an operand is {}", Name(input.dtype));
  }
  const Attributes& attributes = request.node.attributes;
  RotaryShape shape{.outer = x.dims[0],
                    .middle = x.dims[1],
                    .rows = x.dims[2],
                    .features = x.dims[3],
                    .turned = attributes.Int("turned"),
                    .interleaved = attributes.Int("interleaved") != 0,
                    .cosine_steps = {},
                    .sine_steps = {}};
  TableSteps(request.inputs[1], shape.cosine_steps);
  TableSteps(request.inputs[2], shape.sine_steps);
  Bound bound;
  bound.inplace = 1;
  bound.run = [shape](const StepArgs& args) {
    Rotate(shape, static_cast<const float*>(args.in[0]), static_cast<const float*>(args.in[1]),
           static_cast<const float*>(args.in[2]), static_cast<float*>(args.out[0]), args.parallel);
  };
  return bound;
}

constexpr Implementation kList[] = {{"pairs", BindRotary}};

}  // namespace

std::span<const Implementation> RotaryList() { return kList; }

}  // namespace sardonyx::cpu
