#pragma once
// Computing nodes whose inputs are all constants, on the device that will run the rest.

#include <vector>

#include "ir/lasting_tensor.h"
#include "runtime/device.h"

namespace sardonyx {

// What one folding after the other uses.
struct FoldMemory {
  LastingMemory results;
  StagingMemory operand;  // the largest of a node, should it not be aligned
};

// Outputs of the node for its inputs (undefined tensors: absent); with the first implementation
// that accepts, into lasting memory, else with the reference compute.
std::vector<Tensor> FoldOnDevice(const Node& node, const std::vector<Tensor>& inputs,
                                 const Device& device, int threads, bool winograd,
                                 FoldMemory& memory);

}  // namespace sardonyx
