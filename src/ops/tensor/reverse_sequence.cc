#include "ops/lowering.h"

namespace sardonyx::ops {

// The first lengths[b] steps of batch element b in reverse, the others as they are.
Outputs LowerReverseSequence(Lowering& op) {
  const Val x = op.in(0);
  const int64_t time = x.Axis(op.Int("time_axis", 0)), batch = x.Axis(op.Int("batch_axis", 1));
  if (time + batch != 1)
    op.Fail("time_axis and batch_axis are {} and {}, not 0 and 1", time, batch);
  const Val steps = Unsqueeze(Positions(SizeOf(x, time)), {batch});
  const Val own = Unsqueeze(Positions(SizeOf(x, batch)), {time});
  const Val lengths = Unsqueeze(op.in(1), {time});
  const Val sources = Where(Less(steps, lengths), lengths - 1.0 - steps, steps);
  // Both axes are walked as one; a length that is too large makes an index that is, too.
  const Val size = SizeOf(x, 0) * SizeOf(x, 1);
  const Val flat = time == 0 ? sources * SizeOf(x, 1) + own : own * SizeOf(x, 1) + sources;
  const Val indices = Where(LessEqual(lengths, SizeOf(x, time)), flat, size);
  const Val rows = Reshape(x, Concat({size, ShapeOf(x, 2, x.rank())}, 0), true);
  return Gather(rows, indices, 0);
}

}  // namespace sardonyx::ops
