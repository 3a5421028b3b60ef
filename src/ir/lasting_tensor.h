#pragma once
// Memory for what stays as long as a model is loaded.

#include "ir/tensor.h"

namespace sardonyx {

// Gives tensors for weights in the form in which they are used, each before the last one: plans
// pack their steps from the last to the first, and what a kernel fetches beyond the end of its
// weights is to be the next step's. They lie in huge pages: a page of the usual size costs a fault
// for every 4 KiB, which takes longer than packing them. What is freed goes back to the system by
// its whole pages: the allocator's heap would keep them, and the next form of the weights rarely
// fits the hole. Not for what is allocated in every run. For one thread at a time; the tensors
// outlive it.
class LastingMemory {
 public:
  LastingMemory() = default;
  LastingMemory(const LastingMemory&) = delete;
  LastingMemory& operator=(const LastingMemory&) = delete;
  ~LastingMemory() { Trim(); }

  Tensor Allocate(DType dtype, std::vector<int64_t> dims);
  // Gives back what nobody has of the last huge page. It comes again when it is written.
  void Trim();

 private:
  std::shared_ptr<char> region_;
  size_t left_ = 0;  // bytes at the region's begin that nobody has
};

// A place for one tensor at a time that is needed for a moment: fresh memory for each would cost
// more for its pages than for its bytes.
class StagingMemory {
 public:
  // The tensor itself if it is aligned for its elements, else a copy, valid until the next.
  Tensor Aligned(const Tensor& tensor);
  void Drop() { region_ = nullptr; }

 private:
  std::shared_ptr<char> region_;
};

}  // namespace sardonyx
