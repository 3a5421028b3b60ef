#include "kernels/dynamic_time_warping.h"

#include "devices/cpu/families.h"

namespace sardonyx::cpu {
namespace {

BindResult BindWarp(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const int64_t rows = x.dims[x.rank() - 2], columns = x.dims.back();
  if (x.size() == 0) return Refuse("no elements");
  if (rows > kMostWarpRows || columns > kMostWarpColumns) {
    return Refuse("{} rows and {} columns", rows, columns);
  }
  Bound bound;
  bound.scratch_bytes = WarpScratchBytes(rows, columns);
  bound.run = [rows, columns](const StepArgs& args) {
    const auto* costs = static_cast<const float*>(args.in[0]);
    const int64_t length = FindWarpPath(costs, rows, columns, args.scratch);
    WriteWarpPath(rows, columns, length, args.scratch,
                  static_cast<int32_t*>((*args.place)(0, {2, length})));
  };
  return bound;
}

constexpr Implementation kWarp[] = {{"diagonals", BindWarp, true}};

}  // namespace

std::span<const Implementation> DynamicTimeWarpingList() { return kWarp; }

}  // namespace sardonyx::cpu
