#include "ops/contrib/standard.h"

namespace sardonyx::ops::contrib {

Outputs Standard(Lowering& op, std::string_view name, std::vector<Val> inputs,
                 Attributes attributes, size_t outputs) {
  constexpr int kNewest = 28;  // at least the version of every operator
  Lowering standard(op.builder(), "", std::string(name), kNewest, std::move(attributes),
                    std::move(inputs), std::vector<bool>(outputs, true));
  return FindOnnxOp("", name)->lower(standard);
}

}  // namespace sardonyx::ops::contrib
