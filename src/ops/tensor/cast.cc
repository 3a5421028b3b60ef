#include <algorithm>
#include <cctype>

#include "ops/lowering.h"

namespace sardonyx::ops {

Outputs LowerCast(Lowering& op) {
  const DType to = static_cast<DType>(op.Int("to"));
  return CastTo(op.in(0), to, op.Int("saturate", 1) != 0, op.String("round_mode", "up"));
}

// Cast-1 names the type: "FLOAT", "INT64".
void AdaptCast(Lowering& op) {
  if (op.version() >= 6) return;
  std::string name = op.String("to");
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const DType type = DTypeFromName(name);
  if (type == DType::kUndefined) op.Fail("attribute to names no element type: '{}'", name);
  op.attributes.Set("to", static_cast<int64_t>(type));
}

Outputs LowerCastLike(Lowering& op) {
  return CastTo(op.in(0), op.in(1).dtype(), op.Int("saturate", 1) != 0,
                op.String("round_mode", "up"));
}

}  // namespace sardonyx::ops
