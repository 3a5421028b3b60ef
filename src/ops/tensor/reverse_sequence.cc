#include <numeric>

#include "ops/lowering.h"

namespace sardonyx::ops {

// The first lengths[b] steps of batch element b in reverse, the others as they are.
Outputs LowerReverseSequence(Lowering& op) {
  const Val x = op.in(0), lengths = Unsqueeze(op.in(1), {1});
  const int time = x.Axis(op.Int("time_axis", 0)), batch = x.Axis(op.Int("batch_axis", 1));
  if (time + batch != 1)
    op.Fail("time_axis and batch_axis are {} and {}, not 0 and 1", time, batch);
  std::vector<int64_t> swapped(x.rank());
  std::iota(swapped.begin(), swapped.end(), 0);
  if (time == 0) std::swap(swapped[0], swapped[1]);
  const Val steps = Unsqueeze(Positions(SizeOf(x, time)), {0});
  const Val sources = Where(Less(steps, lengths), lengths - 1.0 - steps, steps);
  const Val y = op.builder().Make(core::gather_nd, {Transpose(x, swapped), Unsqueeze(sources, {2})},
                                  {{"batch_dims", int64_t{1}}});
  return Transpose(y, swapped);
}

}  // namespace sardonyx::ops
