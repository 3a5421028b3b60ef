#include "kernels/write_rows.h"

#include "devices/cpu/families.h"
#include "ops/core/write_rows.h"

namespace sardonyx::cpu {
namespace {

BindResult BindRows(const BindRequest& request) {
  const Operand &x = request.inputs[0], &rows = request.inputs[1], &y = request.outputs[0];
  const int width = Width(x.dtype);
  if (width == 0) return NoWidth(x.dtype);
  const int64_t given = request.node.attributes.Int("axis");
  const int64_t axis = given < 0 ? given + x.rank() : given;
  WriteRowsShape shape;
  shape.own = x.dims[axis];
  shape.length = y.dims[axis];
  shape.count = rows.dims[axis];
  shape.row_bytes = width;
  for (int64_t i = axis + 1; i < x.rank(); ++i) shape.row_bytes *= x.dims[i];
  for (int64_t i = 0; i < axis; ++i) (i == 0 ? shape.items : shape.lines) *= x.dims[i];
  const bool starts = request.has(2), each = starts && request.inputs[2].size() > 1;
  const bool circular = request.node.attributes.Int("circular") != 0;
  Bound bound;
  bound.scratch_bytes = shape.items * static_cast<int64_t>(sizeof(int64_t));
  bound.inplace = 1;
  bound.run = [=](const StepArgs& args) {
    auto* const first = static_cast<int64_t*>(args.scratch);
    const auto* const start = static_cast<const int64_t*>(args.in[2]);
    for (int64_t i = 0; i < shape.items; ++i) {
      const int64_t from = starts ? start[each ? i : 0] : 0;
      first[i] = shape.count > 0 ? core::WrittenFrom(from, shape.count, shape.length, circular) : 0;
    }
    WriteRows(shape, args.in[0], args.in[1], first, args.out[0], args.parallel);
  };
  return bound;
}

constexpr Implementation kWriteRows[] = {{"rows", BindRows}};

}  // namespace

std::span<const Implementation> WriteRowsList() { return kWriteRows; }

}  // namespace sardonyx::cpu
