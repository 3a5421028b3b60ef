#include "api/check_inputs.h"

#include "ir/text.h"

namespace sardonyx {
namespace {

std::string PrintShape(const std::vector<Dimension>& shape) {
  std::vector<std::string> parts;
  for (const Dimension& dim : shape) {
    parts.push_back(dim.value >= 0 ? std::to_string(dim.value)
                                   : (dim.symbol.empty() ? "?" : dim.symbol));
  }
  return fmt::format("[{}]", fmt::join(parts, ","));
}

// Whether a datum is of that kind; an absent value fits an optional alone.
bool HasKind(const Datum& datum, const Type& type) {
  switch (type.kind) {
    case Type::Kind::kTensor: return datum.tensor() != nullptr;
    case Type::Kind::kSequence: return datum.sequence() != nullptr;
    case Type::Kind::kMap: return datum.map() != nullptr;
    case Type::Kind::kOptional: return !datum.has_value() || HasKind(datum, *type.element);
  }
  return false;
}

}  // namespace

void CheckInput(const Fact& fact, const ValueInfo& info, const Datum& datum,
                const SymbolTable& symbols, InputSizes* sizes) {
  const std::string& name = info.name;
  if (!HasKind(datum, fact.type)) {
    Fail(ErrorCode::kInvalidArgument, "input '{}' must be a {}", name, Print(fact.type));
  }
  const Tensor* tensor = datum.tensor();
  if (tensor == nullptr || !fact.type.is_tensor()) return;
  if (tensor->dtype() != fact.type.dtype) {
    Fail(ErrorCode::kInvalidArgument, "input '{}' must be {}, is tensor({})", name,
         Print(fact.type), Name(tensor->dtype()));
  }
  CheckShape(fact, info, tensor->dims(), symbols, sizes);
}

void CheckShape(const Fact& fact, const ValueInfo& info, const std::vector<int64_t>& dims,
                const SymbolTable& symbols, InputSizes* sizes) {
  const std::string& name = info.name;
  if (!fact.ranked()) return;
  if (static_cast<int>(dims.size()) != fact.rank()) {
    Fail(ErrorCode::kInvalidArgument, "input '{}' must have rank {} ({}), has shape {}", name,
         fact.rank(), PrintShape(info.shape), PrintDims(dims));
  }
  for (int i = 0; i < fact.rank(); ++i) {
    const Dim dim = (*fact.shape)[i];
    const int64_t size = dims[i];
    if (dim.known()) {
      if (size != dim.value()) {
        Fail(ErrorCode::kInvalidArgument, "input '{}' must have shape {}, has {}", name,
             PrintShape(info.shape), PrintDims(dims));
      }
      continue;
    }
    auto [it, inserted] = sizes->named.try_emplace(dim.symbol(), size, name);
    if (!inserted && it->second.first != size && sizes->conflict.empty()) {
      sizes->conflict =
          fmt::format("dimension '{}' is {} in input '{}' and {} in input '{}'", symbols.Print(dim),
                      it->second.first, it->second.second, size, name);
    }
  }
}

}  // namespace sardonyx
