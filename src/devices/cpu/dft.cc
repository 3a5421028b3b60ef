#include "kernels/dft.h"

#include <memory>

#include "devices/cpu/families.h"

namespace sardonyx::cpu {
namespace {

constexpr int64_t kLongest = 1 << 14;  // of lines that stay in the cache, many side by side
constexpr int64_t kFewest = 4;         // lines, or most lanes were empty

template <typename T>
BindResult BindTyped(const BindRequest& request, const DftShape& shape, int64_t length) {
  auto plan = std::make_shared<const DftPlan<T>>(PlanDft<T>(length));
  if (plan->factors.empty()) return Refuse("a length of {} has no small factors", length);
  Bound bound;
  bound.scratch_bytes = DftScratchBytes(*plan, shape, request.threads);
  bound.run = [plan, shape](const StepArgs& args) {
    Dft(*plan, shape, static_cast<const float*>(args.in[0]), static_cast<float*>(args.out[0]),
        args.scratch, args.parallel);
  };
  return bound;
}

// In float or double, as the reference says why.
BindResult BindLines(const BindRequest& request) {
  const Operand &x = request.inputs[0], &y = request.outputs[0];
  const Attributes& attributes = request.node.attributes;
  const bool inverse = attributes.Int("inverse") != 0, onesided = attributes.Int("onesided") != 0;
  if (x.dtype != DType::kFloat32) return Refuse("element type is {}", Name(x.dtype));
  if (x.size() == 0 || y.size() == 0) return Refuse("no elements");
  if (inverse && onesided) return Refuse("half of a spectrum to real numbers");
  int64_t axis = attributes.Int("axis");
  if (axis < 0) axis += x.rank();
  DftShape shape{.outer = 1,
                 .inner = 1,
                 .size = x.dims[axis],
                 .parts = x.dims.back(),
                 .out_size = y.dims[axis],
                 .out_parts = y.dims.back(),
                 .inverse = inverse};
  for (int64_t i = 0; i < axis; ++i) shape.outer *= x.dims[i];
  for (int64_t i = axis + 1; i + 1 < x.rank(); ++i) shape.inner *= x.dims[i];
  const int64_t given = attributes.Int("length"), length = given > 0 ? given : shape.size;
  if (length > kLongest) return Refuse("lines of {} are long", length);
  if (shape.outer * shape.inner < kFewest) return Refuse("few lines");
  return shape.parts == 2 && !onesided ? BindTyped<float>(request, shape, length)
                                       : BindTyped<double>(request, shape, length);
}

constexpr Implementation kList[] = {{"lines side by side", BindLines}};

}  // namespace

std::span<const Implementation> DftList() { return kList; }

}  // namespace sardonyx::cpu
