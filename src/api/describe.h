#pragma once
// Declarations of a model in the words of the public interface.

#include "onnx/model.h"
#include "sardonyx/sardonyx.hpp"

namespace sardonyx {

// Type and shape of an input or output as the model declares them.
ValueInfo DescribeValue(const onnx::ValueInfoProto& proto);

}  // namespace sardonyx
