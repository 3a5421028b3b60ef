#pragma once
// Computing nodes whose inputs are all constants, on the device that will run the rest.

#include <vector>

#include "runtime/device.h"

namespace sardonyx {

// Outputs of the node for its inputs (undefined tensors: absent); with the first implementation
// that accepts, else with the reference compute.
std::vector<Tensor> FoldOnDevice(const Node& node, const std::vector<Tensor>& inputs,
                                 const Device& device, int threads, bool winograd);

}  // namespace sardonyx
