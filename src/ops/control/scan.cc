#include "ops/lowering.h"

namespace sardonyx::ops {

// Scan-9 and later: (states..., scanned..., captures...).
Outputs LowerScan(Lowering& op) {
  if (op.version() == 8) op.Unsupported("Scan of opset 8 (with a batch axis) is not implemented");
  const auto body = op.attributes.Body("body");
  Attributes attributes;
  attributes.Set("body", body);
  attributes.Set("captures", op.Int("captures"));
  attributes.Set("scan_inputs", op.Int("num_scan_inputs"));
  attributes.Set("input_axes", op.Ints("scan_input_axes"));
  attributes.Set("input_directions", op.Ints("scan_input_directions"));
  attributes.Set("output_axes", op.Ints("scan_output_axes"));
  attributes.Set("output_directions", op.Ints("scan_output_directions"));
  if (op.output_count() > body->outputs.size()) {
    op.Fail("has {} outputs, but its body gives {}", op.output_count(), body->outputs.size());
  }
  return op.builder().MakeMany(core::scan, op.inputs, std::move(attributes),
                               static_cast<int>(op.output_count()));
}

}  // namespace sardonyx::ops
