#pragma once
// Memory for what stays as long as a model is loaded.

#include "ir/tensor.h"

namespace sardonyx {

// A tensor for weights in the form in which they are used. A large one has pages of its own, which
// go back to the system when it is freed: the allocator's heap would keep them, and the next form
// of the weights rarely fits the hole. Too slow for what is allocated in every run.
Tensor LastingTensor(DType dtype, std::vector<int64_t> dims);

}  // namespace sardonyx
