// A copy of x with rows of it replaced: for each item of axis 0, those along `axis` from a position
// of its own on (0 without `start`), behind the end from the first on again if circular. If `size`
// is more than x has along the axis, zeros come behind x first: so does a cache of keys grow.

#include "ops/core/write_rows.h"

#include "ops/core/core.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

constexpr size_t kRows = 1, kStart = 2, kSize = 3;

void CheckInts(InferContext& context, size_t i, std::string_view name) {
  if (context.has(i) && context.dtype(i) != DType::kInt64) {
    context.Fail("{} of write_rows is int64, not {}", name, Name(context.dtype(i)));
  }
}

// Size of x along the axis, or the size that is given.
Dim LengthOf(InferContext& context, Dim own) {
  if (!context.has(kSize)) return own;
  const Dims* given = context.elements(kSize);
  if (given == nullptr) return context.symbols().Fresh();
  if (given->size() != 1) context.Fail("size of write_rows has {} elements", given->size());
  return context.symbols().Max(own, (*given)[0]);
}

void InferWriteRows(InferContext& context) {
  CheckInts(context, kStart, "start");
  CheckInts(context, kSize, "size");
  if (context.dtype(0) != context.dtype(kRows)) {
    context.Fail("write_rows: rows are {} and the input is {}", Name(context.dtype(kRows)),
                 Name(context.dtype(0)));
  }
  if (!context.ranked(0) || !context.ranked(kRows)) return context.Set(0, context.dtype(0), {});
  Dims shape = context.shape(0);
  const Dims& rows = context.shape(kRows);
  const int axis = context.Axis(context.attributes().Int("axis"), context.rank(0));
  bool fits = shape.size() == rows.size();
  for (size_t i = 0; fits && i < rows.size(); ++i) {
    const bool along = static_cast<int>(i) == axis;
    fits = along || !shape[i].known() || !rows[i].known() || shape[i] == rows[i];
  }
  if (fits) shape[axis] = LengthOf(context, shape[axis]);
  if (!fits ||
      (rows[axis].known() && shape[axis].known() && rows[axis].value() > shape[axis].value())) {
    context.Fail("rows {} do not fit into {} along axis {}", context.Print(rows),
                 context.Print(context.shape(0)), axis);
  }
  if (context.has(kStart) && context.ranked(kStart)) {
    const Dims& start = context.shape(kStart);
    const bool one = start.empty() || (start.size() == 1 && start[0] == 1);
    const bool each = start.size() == 1 && axis > 0 &&
                      (!start[0].known() || !shape[0].known() || start[0] == shape[0]);
    if (!one && !each) {
      context.Fail("write_rows: start {} for rows of {}", context.Print(start),
                   context.Print(shape));
    }
  }
  context.Set(0, context.dtype(0), std::move(shape));
}

void ComputeWriteRows(ComputeContext& context) {
  const Tensor &x = context.input(0), &rows = context.input(kRows);
  Tensor& y = context.Allocate(0);
  const int64_t given = context.attributes().Int("axis"), rank = x.rank();
  const int axis = static_cast<int>(given < 0 ? given + rank : given);
  const std::vector<int64_t> starts =
      context.has(kStart) ? ToInts(context.input(kStart)) : std::vector<int64_t>{0};
  const bool circular = context.attributes().Int("circular") != 0;
  const int64_t length = y.dims()[axis], count = rows.dims()[axis];
  Fill(y, nullptr);
  CopyStrided(x, 0, RowMajorStrides(x.dims()), y, 0, RowMajorStrides(y.dims()), x.dims());
  Walk::Strides strides = RowMajorStrides(y.dims());
  const int64_t step = strides[axis];
  strides[axis] = 0;
  Walk walk(rows.dims(), {strides});
  CopyElements(rows, y, rows.size(), [&](int64_t i) {
    const int64_t first =
        WrittenFrom(starts[starts.size() == 1 ? 0 : walk.index()[0]], count, length, circular);
    const int64_t target = walk[0] + (first + walk.index()[axis]) % length * step;
    walk.Next();
    return std::pair<int64_t, int64_t>(i, target);
  });
}

}  // namespace

int64_t WrittenFrom(int64_t start, int64_t count, int64_t length, bool circular) {
  if (circular) return (start % length + length) % length;
  if (start < 0 || start > length - count) {
    Fail(ErrorCode::kInvalidArgument, "{} rows from {} on do not fit into {}", count, start,
         length);
  }
  return start;
}

const CoreOp write_rows = {.name = "write_rows",
                           .inputs = "ttt?t?",
                           .infer = InferWriteRows,
                           .reference = ComputeWriteRows};

}  // namespace sardonyx::core
