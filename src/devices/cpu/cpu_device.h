#pragma once
// The CPU as a device: binds core operations to the kernels of src/kernels.

#include "runtime/device.h"

namespace sardonyx {

const Device& CpuDevice();

}  // namespace sardonyx
