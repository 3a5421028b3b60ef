#include "ops/core/core.h"

#include <algorithm>

namespace sardonyx::core {
namespace {

std::vector<const CoreOp*> MakeTable() {
  std::vector<const CoreOp*> table = {
#define SARDONYX_CORE_OP(name) &name,
#include "ops/core/all.inc"
#undef SARDONYX_CORE_OP
  };
  for (int fn = 0; fn < kFnCount; ++fn) table.push_back(&Elementwise(static_cast<Fn>(fn)));
  std::sort(table.begin(), table.end(),
            [](const CoreOp* a, const CoreOp* b) { return a->name < b->name; });
  return table;
}

const std::vector<const CoreOp*>& Table() {
  static const std::vector<const CoreOp*> kTable = MakeTable();
  return kTable;
}

}  // namespace

std::span<const CoreOp* const> All() { return Table(); }

const CoreOp* Find(std::string_view name) {
  auto it = std::lower_bound(Table().begin(), Table().end(), name,
                             [](const CoreOp* op, std::string_view key) { return op->name < key; });
  return it != Table().end() && (*it)->name == name ? *it : nullptr;
}

}  // namespace sardonyx::core
