#include <numeric>

#include "ops/lowering.h"

namespace sardonyx::ops {

// Without perm the axes are reversed.
Outputs LowerTranspose(Lowering& op) {
  const Val x = op.in(0);
  if (op.HasAttribute("perm")) return Transpose(x, op.Ints("perm"));
  std::vector<int64_t> reversed(x.rank());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  return Transpose(x, reversed);
}

}  // namespace sardonyx::ops
