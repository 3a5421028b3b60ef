#pragma once
// What other constants hold, on which a packed form depends beside the one that it is kept for.

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>

#include "runtime/device.h"

namespace sardonyx::cpu {

// For the name of a layout: a hash of the constant input's elements, "-" if the node has none. They
// are read each time.
inline std::string ContentsOf(const BindRequest& request, size_t input) {
  if (!request.has(input)) return "-";
  const Tensor& tensor = *request.inputs[input].constant;
  if (tensor.raw() == nullptr && tensor.bytes() > 0) throw ConstantDropped{};
  const std::string_view bytes(static_cast<const char*>(tensor.raw()),
                               static_cast<size_t>(tensor.bytes()));
  return fmt::format("{:x}", std::hash<std::string_view>()(bytes));
}

}  // namespace sardonyx::cpu
