#include "kernels/softmax.h"

#include "devices/cpu/families.h"

namespace sardonyx::cpu {
namespace {

BindResult BindSoftmax(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  if (x.dtype != DType::kFloat32 && x.dtype != DType::kFloat64) {
    return Refuse("element type is {}", Name(x.dtype));
  }
  if (x.size() == 0) return Refuse("no elements");
  const Line line = Around(x, request.node.attributes.Int("axis", -1));
  const bool log = request.node.attributes.Int("log") != 0;
  const auto rounding = static_cast<DType>(
      request.node.attributes.Int("rounding", static_cast<int64_t>(DType::kFloat32)));
  Bound bound;
  bound.inplace = 1;
  if (rounding != DType::kFloat32) {
    if (x.dtype != DType::kFloat32) return Refuse("rounds and is not float32");
    bound.run = [line, rounding](const StepArgs& args) {
      Softmax(static_cast<const float*>(args.in[0]), static_cast<float*>(args.out[0]), line.outer,
              line.size, line.inner, false, args.parallel, rounding);
    };
    return bound;
  }
  const auto with = [&](auto tag) {
    using T = typename decltype(tag)::type;
    bound.run = [line, log](const StepArgs& args) {
      Softmax(static_cast<const T*>(args.in[0]), static_cast<T*>(args.out[0]), line.outer,
              line.size, line.inner, log, args.parallel);
    };
    return bound;
  };
  return x.dtype == DType::kFloat32 ? with(TypeTag<float>{}) : with(TypeTag<double>{});
}

constexpr Implementation kList[] = {{"one axis", BindSoftmax}};

}  // namespace

std::span<const Implementation> SoftmaxList() { return kList; }

}  // namespace sardonyx::cpu
