// unique, of elements; slices of a tensor are compared by the reference.

#include "kernels/unique.h"

#include <cstdint>
#include <limits>

#include "devices/cpu/families.h"

namespace sardonyx::cpu {
namespace {

BindResult BindUnique(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const bool slices = request.node.attributes.Find("axis") != nullptr && x.rank() != 1;
  if (slices) return Refuse("slices of a tensor of rank {}", x.rank());
  UniqueShape shape{.count = x.size(),
                    .element_bytes = BitWidth(x.dtype) / 8,
                    .order = OrderedBits::kUnsigned,
                    .sorted = request.node.attributes.Int("sorted", 1) != 0};
  if (!OrderOf(x.dtype, &shape.order)) return Refuse("element type is {}", Name(x.dtype));
  if (shape.count == 0 || shape.count > std::numeric_limits<uint32_t>::max()) {
    return Refuse("{} elements", shape.count);
  }
  const size_t outputs = request.outputs.size();
  Bound bound;
  bound.scratch_bytes = UniqueScratchBytes(shape);
  bound.run = [=](const StepArgs& args) {
    const int64_t count = FindUnique(shape, args.in[0], args.scratch, args.parallel);
    const auto list = [&](size_t i) -> int64_t* {
      if (i >= outputs) return nullptr;
      return static_cast<int64_t*>((*args.place)(i, {count}));
    };
    void* const values = (*args.place)(0, {count});
    auto* const inverse = outputs > 2 ? static_cast<int64_t*>(args.out[2]) : nullptr;
    WriteUnique(shape, args.in[0], count, args.scratch, {values, list(1), inverse, list(3)},
                args.parallel);
  };
  return bound;
}

constexpr Implementation kUnique[] = {{"sort", BindUnique, true}};

}  // namespace

std::span<const Implementation> UniqueList() { return kUnique; }

}  // namespace sardonyx::cpu
