#include "kernels/det.h"

#include "devices/cpu/families.h"

namespace sardonyx::cpu {
namespace {

// `scratch` and `run` of a function over matrices of floats and one over those of doubles.
template <typename Scratch, typename Run>
BindResult BindMatrices(const BindRequest& request, Scratch scratch, Run run) {
  const Operand& x = request.inputs[0];
  if (x.size() == 0) return Refuse("no elements");
  const int64_t n = x.dims.back(), count = x.size() / (n * n);
  Bound bound;
  bound.scratch_bytes = scratch(count, n, request.threads);
  const auto with = [&](auto tag) -> BindResult {
    using T = typename decltype(tag)::type;
    bound.run = [=](const StepArgs& args) {
      run(static_cast<const T*>(args.in[0]), count, n, static_cast<T*>(args.out[0]), args.scratch,
          args.parallel);
    };
    return std::move(bound);
  };
  if (x.dtype == DType::kFloat32) return with(TypeTag<float>{});
  if (x.dtype == DType::kFloat64) return with(TypeTag<double>{});
  return Refuse("element type is {}", Name(x.dtype));
}

BindResult BindDet(const BindRequest& request) {
  return BindMatrices(request, DeterminantsScratchBytes,
                      [](auto... arguments) { Determinants(arguments...); });
}

BindResult BindInverse(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  if (x.dims[x.rank() - 2] != x.dims.back()) return Refuse("the matrices are not square");
  return BindMatrices(request, InversesScratchBytes,
                      [](auto... arguments) { Inverses(arguments...); });
}

constexpr Implementation kDet[] = {{"elimination", BindDet}};
constexpr Implementation kInverse[] = {{"elimination", BindInverse}};

}  // namespace

std::span<const Implementation> DetList() { return kDet; }
std::span<const Implementation> InverseList() { return kInverse; }

}  // namespace sardonyx::cpu
