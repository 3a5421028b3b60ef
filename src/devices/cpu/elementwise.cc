#include "kernels/elementwise.h"

#include "devices/cpu/families.h"
#include "kernels/narrow.h"

namespace sardonyx::cpu {
namespace {

BindResult BindTiles(const BindRequest& request) {
  std::vector<DType> types;
  for (const Operand& input : request.inputs) types.push_back(input.dtype);
  const Expression expression = request.node.op->expression(request.node, types);
  // A cast with a rounding of its own has no expression.
  if (expression.inputs.size() != request.inputs.size()) return Refuse("no expression says it");
  const Operand& output = request.outputs[0];
  std::vector<int64_t> strides;
  for (const Operand& input : request.inputs) {
    const std::vector<int64_t> own = BroadcastStrides(input.dims, output.dims);
    strides.insert(strides.end(), own.begin(), own.end());
  }
  std::string why;
  const ElementwiseKernel kernel = PrepareElementwise(expression, output.dims, strides, &why);
  if (!kernel) return why;
  Bound bound;
  bound.run = [kernel](const StepArgs& args) {
    RunElementwise(kernel, args.in, args.out[0], args.parallel);
  };
  for (size_t i = 0; i < request.inputs.size() && i < 32; ++i) {
    const Operand& input = request.inputs[i];
    if (input.dtype == output.dtype && input.size() == output.size()) bound.inplace |= 1u << i;
  }
  return bound;
}

constexpr Implementation kList[] = {{"tiles", BindTiles}};

}  // namespace

std::span<const Implementation> ElementwiseList() { return kList; }

Tensor WidenedHalves(const Tensor& tensor) {
  if (tensor.dtype() != DType::kFloat16 && tensor.dtype() != DType::kBFloat16) return tensor;
  Tensor wide(DType::kFloat32, tensor.dims());
  WidenHalves(tensor.dtype(), tensor.raw(), tensor.size(), wide.data<float>(), Parallel{});
  return wide;
}

std::vector<int64_t> BroadcastStrides(const std::vector<int64_t>& operand,
                                      std::span<const int64_t> dims) {
  std::vector<int64_t> strides(dims.size(), 0);
  int64_t stride = 1;
  for (size_t i = 0; i < operand.size(); ++i) {
    const size_t from_end = operand.size() - 1 - i;
    if (operand[from_end] != 1) strides[dims.size() - 1 - i] = stride;
    stride *= operand[from_end];
  }
  return strides;
}

}  // namespace sardonyx::cpu
