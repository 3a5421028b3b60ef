#include "devices/cpu/epilogue_binding.h"

#include "devices/cpu/families.h"
#include "kernels/gemm_epilogue.h"

namespace sardonyx::cpu {
namespace {

// The stride of a group of dimensions seen as one; false if it is not uniform.
bool GroupStride(std::span<const int64_t> dims, const std::vector<int64_t>& strides,
                 std::pair<int, int> range, int64_t* stride) {
  *stride = 0;
  int64_t step = 0;  // elements that the dimensions inside cover
  bool first = true;
  for (int i = range.second - 1; i >= range.first; --i) {
    if (dims[i] == 1) continue;
    if (first) {
      *stride = strides[i];
      first = false;
    } else if (strides[i] != step) {
      return false;
    }
    step = strides[i] * dims[i];
  }
  return true;
}

}  // namespace

EpilogueBinding::EpilogueBinding(const BindRequest& request, size_t first_operand,
                                 const Layout& layout)
    : first_(first_operand) {
  const Expression* expression = request.node.attributes.Expr("epilogue");
  if (expression == nullptr) return;
  expression_ = std::make_shared<const Expression>(*expression);
  const std::vector<int64_t>& dims = request.outputs[0].dims;
  bool fits = request.inputs.size() - first_ <= kMaxOperands;
  std::vector<int64_t> sweep_strides = BroadcastStrides(dims, dims);
  for (size_t i = first_; i < request.inputs.size(); ++i) {
    const std::vector<int64_t> strides = BroadcastStrides(request.inputs[i], dims);
    sweep_strides.insert(sweep_strides.end(), strides.begin(), strides.end());
    EpilogueOperand operand;
    operand.type = request.inputs[i].dtype;
    fits = fits && GroupStride(dims, strides, layout.rows, &operand.row_stride) &&
           GroupStride(dims, strides, layout.columns, &operand.column_stride) &&
           GroupStride(dims, strides, layout.batch[0], &operand.batch_stride[0]) &&
           GroupStride(dims, strides, layout.batch[1], &operand.batch_stride[1]);
    operands_.push_back(operand);
  }
  SimpleEpilogue simple;
  if (fits && MatchSimpleEpilogue(*expression_, &simple)) simple_ = simple;
  if (fits && CanPrepareEpilogue({&*expression_, operands_.data()})) return;
  std::string why;
  ElementwiseKernel kernel = PrepareElementwise(*expression_, dims, sweep_strides, &why);
  if (!kernel) Fail(ErrorCode::kInternal, "an epilogue cannot run: {}", why);
  sweep_ = std::make_shared<const ElementwiseKernel>(std::move(kernel));
}

int EpilogueBinding::Residual() const {
  if (!expression_ || sweep_) return -1;
  const Epilogue epilogue{&*expression_, operands_.data(), &simple_};
  const int operand = PreparedEpilogue(epilogue).residual();
  return operand < 0 ? -1 : static_cast<int>(first_) + operand;
}

void EpilogueBinding::Finish(const StepArgs& args) const {
  if (!sweep_) return;
  const void* in[kMaxOperands * 4];
  in[0] = args.out[0];
  for (size_t i = 0; i < operands_.size(); ++i) in[1 + i] = args.in[first_ + i];
  RunElementwise(*sweep_, in, args.out[0], args.parallel);
}

}  // namespace sardonyx::cpu
