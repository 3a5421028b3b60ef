#include "kernels/lookup.h"

#include <algorithm>

#include "devices/cpu/families.h"

namespace sardonyx::cpu {
namespace {

template <typename T>
BindResult BindTyped(const BindRequest& request) {
  const Operand& keys = request.inputs[1];
  const int64_t count = keys.size();
  const std::string layout = "positions of keys";
  const auto table = request.packs.Get(
      *keys.constant, keys.id, layout, KeyTableBytes<T>(count),
      [&](const Tensor& from, void* to) { FillKeyTable(from.data<T>(), count, to); });
  const auto fits = [&] { return KeyTableFits<T>(count, table.get()); };
  if (!request.packs.IsSound({keys.id}, layout, count, fits)) {
    Fail(ErrorCode::kInvalidModel, "the packed table of keys is damaged");
  }
  Bound bound;
  bound.run = [table, count, n = request.inputs[0].size(),
               required = request.node.attributes.Int("required") != 0](const StepArgs& args) {
    auto* y = static_cast<int64_t*>(args.out[0]);
    LookUp(static_cast<const T*>(args.in[0]), n, static_cast<const T*>(args.in[1]), table.get(),
           count, y, args.parallel);
    const int64_t absent = required ? std::find(y, y + n, count) - y : n;
    if (absent < n) {
      Fail(ErrorCode::kInvalidArgument, "element {} of the input is none of the {} categories",
           absent, count);
    }
  };
  return bound;
}

BindResult BindHashed(const BindRequest& request) {
  if (request.inputs[1].constant == nullptr) return Refuse("the keys are computed");
  switch (request.inputs[0].dtype) {
    case DType::kString: return BindTyped<std::string>(request);
    case DType::kFloat32: return BindTyped<float>(request);
    case DType::kFloat64: return BindTyped<double>(request);
    case DType::kInt16: return BindTyped<int16_t>(request);
    case DType::kInt32: return BindTyped<int32_t>(request);
    case DType::kInt64: return BindTyped<int64_t>(request);
    default: return Refuse("keys of type {}", Name(request.inputs[0].dtype));
  }
}

constexpr Implementation kList[] = {{"hashed", BindHashed}};

}  // namespace

std::span<const Implementation> LookupList() { return kList; }

}  // namespace sardonyx::cpu
