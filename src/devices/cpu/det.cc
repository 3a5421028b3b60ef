#include "kernels/det.h"

#include "devices/cpu/families.h"

namespace sardonyx::cpu {
namespace {

BindResult BindElimination(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  if (x.dtype != DType::kFloat32) return Refuse("element type is {}", Name(x.dtype));
  if (x.size() == 0) return Refuse("no elements");
  const int64_t n = x.dims.back();
  Bound bound;
  bound.scratch_bytes = DeterminantsScratchBytes(n, request.threads);
  bound.run = [n, count = x.size() / (n * n)](const StepArgs& args) {
    Determinants(static_cast<const float*>(args.in[0]), count, n, static_cast<float*>(args.out[0]),
                 args.scratch, args.parallel);
  };
  return bound;
}

constexpr Implementation kList[] = {{"elimination", BindElimination}};

}  // namespace

std::span<const Implementation> DetList() { return kList; }

}  // namespace sardonyx::cpu
