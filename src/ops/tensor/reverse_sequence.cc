#include "ops/lowering.h"

namespace sardonyx::ops {

// The first lengths[b] steps of batch element b in reverse, the others as they are.
Outputs LowerReverseSequence(Lowering& op) {
  const Val x = op.in(0);
  const int64_t time = x.Axis(op.Int("time_axis", 0)), batch = x.Axis(op.Int("batch_axis", 1));
  if (time + batch != 1)
    op.Fail("time_axis and batch_axis are {} and {}, not 0 and 1", time, batch);
  const Val steps = Unsqueeze(Positions(SizeOf(x, time)), {batch});
  const Val lengths = Unsqueeze(op.in(1), {time});
  const Val sources = Where(Less(steps, lengths), lengths - 1.0 - steps, steps);
  Val indices = Unsqueeze(sources, {2});
  if (time == 0) {
    const Val own = Expand(Unsqueeze(Positions(SizeOf(x, batch)), {time}), ShapeOf(sources));
    indices = Concat({indices, Unsqueeze(own, {2})}, 2);
  }
  return op.builder().Make(core::gather_nd, {x, indices},
                           {{"batch_dims", batch == 0 ? int64_t{1} : int64_t{0}}});
}

}  // namespace sardonyx::ops
