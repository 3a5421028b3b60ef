#include "devices/cpu/families.h"
#include "kernels/normalization.h"

namespace sardonyx::cpu {
namespace {

BindResult BindRows(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  if (x.dtype != DType::kFloat32 && x.dtype != DType::kFloat64) {
    return Refuse("element type is {}", Name(x.dtype));
  }
  if (x.size() == 0) return Refuse("no elements");
  const Attributes& attributes = request.node.attributes;
  int64_t axis = attributes.Int("axis", -1);
  if (axis < 0) axis += x.rank();
  int64_t rows = 1, n = 1;
  for (int64_t i = 0; i < axis; ++i) rows *= x.dims[i];
  for (int64_t i = axis; i < x.rank(); ++i) n *= x.dims[i];
  for (size_t i = 1; i < request.inputs.size(); ++i) {
    const Operand& parameter = request.inputs[i];
    if (!parameter.present()) continue;
    if (parameter.dtype != x.dtype || parameter.size() != n) {
      return Refuse("scale or bias is {}{}, not {} of {} elements", Name(parameter.dtype),
                    PrintDims(parameter.dims), Name(x.dtype), n);
    }
  }
  const bool rms = attributes.Int("rms") != 0;
  const double epsilon = attributes.Float("epsilon", 1e-5);
  const bool scale = request.has(1), bias = request.has(2);
  const size_t outputs = request.outputs.size();
  for (const Operand& output : request.outputs) {
    if (output.dtype != x.dtype) return Refuse("an output is {}", Name(output.dtype));
  }
  Bound bound;
  bound.inplace = 1;
  const auto with = [&](auto tag) -> BindResult {
    using T = typename decltype(tag)::type;
    bound.run = [=, epsilon = static_cast<T>(epsilon)](const StepArgs& args) {
      auto in = [&](size_t i) { return static_cast<const T*>(args.in[i]); };
      auto out = [&](size_t i) { return i < outputs ? static_cast<T*>(args.out[i]) : nullptr; };
      NormalizeRows(RowNorm<T>{.x = in(0),
                               .scale = scale ? in(1) : nullptr,
                               .bias = bias ? in(2) : nullptr,
                               .y = out(0),
                               .rows = rows,
                               .n = n,
                               .epsilon = epsilon,
                               .rms = rms,
                               .mean = out(1),
                               .inv_std_dev = out(2)},
                    args.parallel);
    };
    return std::move(bound);
  };
  return x.dtype == DType::kFloat32 ? with(TypeTag<float>{}) : with(TypeTag<double>{});
}

constexpr Implementation kList[] = {{"rows", BindRows}};

}  // namespace

std::span<const Implementation> LayerNormList() { return kList; }

}  // namespace sardonyx::cpu
