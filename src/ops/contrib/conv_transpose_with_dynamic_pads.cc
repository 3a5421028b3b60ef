#include "ops/contrib/standard.h"

namespace sardonyx::ops::contrib {

// ConvTranspose whose pads are an input. Automatic padding to a multiple of the input's size takes
// their place; any other leaves them as they are.
Outputs LowerConvTransposeWithDynamicPads(Lowering& op) {
  Attributes attributes = op.attributes;
  const std::string auto_pad = op.String("auto_pad", "NOTSET");
  if (auto_pad != "SAME_UPPER" && auto_pad != "SAME_LOWER") {
    attributes.Set("auto_pad", "NOTSET");
    if (op.has(2)) {
      const Val w = op.in(1);
      const std::vector<int64_t> pads = op.in(2).ints();
      const int rank = w.ranked() ? w.rank() : op.in(0).rank();
      if (pads.size() != 2 * static_cast<size_t>(rank - 2)) {
        op.Fail("Pads has {} values, not two for each of {} spatial axes", pads.size(), rank - 2);
      }
      for (const int64_t pad : pads) {
        if (pad < 0) op.Fail("Pads has the negative value {}", pad);
      }
      attributes.Set("pads", pads);
    }
  }
  return Standard(op, "ConvTranspose", {op.in(0), op.in(1), op.in(3)}, std::move(attributes));
}

}  // namespace sardonyx::ops::contrib
