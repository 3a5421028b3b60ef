#include "kernels/group_moments.h"

#include "devices/cpu/families.h"
#include "kernels/scratch_slots.h"

namespace sardonyx::cpu {
namespace {

BindResult BindChannelsLast(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  if (x.dtype != DType::kFloat32 && x.dtype != DType::kFloat64) {
    return Refuse("element type is {}", Name(x.dtype));
  }
  if (request.has(1) && request.inputs[1].dtype != x.dtype) {
    return Refuse("the scale is {}", Name(request.inputs[1].dtype));
  }
  if (x.size() == 0) return Refuse("no elements");
  const int64_t batch = x.dims.front(), channels = x.dims.back();
  const int64_t pixels = x.size() / (batch * channels);
  const int64_t groups = request.node.attributes.Int("groups");
  const double epsilon = request.node.attributes.Float("epsilon", 1e-5);
  Bound bound;
  bound.scratch_bytes = static_cast<int64_t>(MostScratchBytes(request.threads, [&](int threads) {
    return GroupMomentsScratchBytes(batch, pixels, channels, groups, threads);
  }));
  const auto with = [&](auto tag) -> BindResult {
    using T = typename decltype(tag)::type;
    bound.run = [=, scales = request.has(1)](const StepArgs& args) {
      GroupMoments(
          GroupMomentsArgs<T>{.x = static_cast<const T*>(args.in[0]),
                              .scale = scales ? static_cast<const T*>(args.in[1]) : nullptr,
                              .mean = static_cast<T*>(args.out[0]),
                              .factor = static_cast<T*>(args.out[1]),
                              .batch = batch,
                              .pixels = pixels,
                              .channels = channels,
                              .groups = groups,
                              .epsilon = epsilon},
          args.scratch, args.parallel);
    };
    return std::move(bound);
  };
  return x.dtype == DType::kFloat32 ? with(TypeTag<float>{}) : with(TypeTag<double>{});
}

constexpr Implementation kList[] = {{"channels last", BindChannelsLast}};

}  // namespace

std::span<const Implementation> GroupMomentsList() { return kList; }

}  // namespace sardonyx::cpu
