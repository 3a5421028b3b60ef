#pragma once
// The epilogue of a matmul or convolution node, as the kernel applies it or as a second sweep.

#include <memory>
#include <optional>
#include <vector>

#include "kernels/elementwise.h"
#include "runtime/device.h"

namespace sardonyx::cpu {

// The epilogue's further operands are the node's inputs from `first_operand` on, broadcast against
// output 0. Holds no pointer of a run, so it is shared by runs.
class EpilogueBinding {
 public:
  // `layout` says how the kernel sees the output: dimensions [batch0, batch1, rows, columns] as
  // groups of adjacent output dimensions, each a half-open range of their indices.
  struct Layout {
    std::pair<int, int> batch[2] = {{0, 0}, {0, 0}};
    std::pair<int, int> rows;
    std::pair<int, int> columns;
  };
  EpilogueBinding(const BindRequest& request, size_t first_operand, const Layout& layout);

  // True if the kernel applies all of it.
  bool fused() const { return sweep_ == nullptr; }
  // The input that is added to every element when the tile is stored, -1 if there is none.
  int Residual() const;
  // Bytes from what belongs to a row of the output to what belongs to the next, in such an input.
  int64_t RowBytes(size_t input) const {
    const EpilogueOperand& operand = operands_[input - first_];
    return ByteSize(operand.type, operand.row_stride);
  }
  // Calls body(Epilogue) with the operands of this run in place.
  template <typename Body>
  void With(const StepArgs& args, Body&& body) const {
    if (!expression_ || sweep_) {
      body(Epilogue{});
      return;
    }
    EpilogueOperand operands[kMaxOperands];
    for (size_t i = 0; i < operands_.size(); ++i) {
      operands[i] = operands_[i];
      operands[i].data = args.in[first_ + i];
    }
    body(Epilogue{&*expression_, operands, &simple_});
  }
  // After the kernel: applies what was not fused to the whole output in place.
  void Finish(const StepArgs& args) const;

 private:
  static constexpr size_t kMaxOperands = 16;
  size_t first_;
  std::shared_ptr<const Expression> expression_;
  std::vector<EpilogueOperand> operands_;
  std::optional<SimpleEpilogue> simple_;
  std::shared_ptr<const ElementwiseKernel> sweep_;
};

}  // namespace sardonyx::cpu
