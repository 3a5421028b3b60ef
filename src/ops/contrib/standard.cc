#include "ops/contrib/standard.h"

namespace sardonyx::ops::contrib {

Outputs Standard(Lowering& op, std::string_view name, std::vector<Val> inputs,
                 Attributes attributes, size_t outputs) {
  const OnnxOp* entry = FindOnnxOp("", name);
  if (entry == nullptr) op.Unsupported("operator {} of the standard is not implemented", name);
  constexpr int kNewest = 28;  // at least the version of every operator
  Lowering standard(op.builder(), "", std::string(name), kNewest, std::move(attributes),
                    std::move(inputs), std::vector<bool>(outputs, true));
  return entry->lower(standard);
}

}  // namespace sardonyx::ops::contrib
