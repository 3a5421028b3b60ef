#pragma once
// Runs an Expression over broadcast operands: a fused elementwise node as a whole, or the epilogue
// of a matrix product on rows that are still in the cache.

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>

#include "base/expression.h"
#include "base/thread_pool.h"
#include "kernels/activation.h"
#include "kernels/epilogue.h"
#include "kernels/tile_program.h"

namespace sardonyx {

// An expression made ready for operands of known shapes. Immutable, so threads may share it.
class ElementwiseKernel {
 public:
  struct Impl;
  ElementwiseKernel() = default;
  explicit ElementwiseKernel(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  explicit operator bool() const { return impl_ != nullptr; }
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

// Prepares `expression` for a row-major output of shape `dims`, dense, or with out_row_stride
// elements from one row, of the last axis, to the next. Input i's element for the output index (x0,
// x1, ...) is in[i][x0 * strides[i * rank] + x1 * strides[i * rank + 1] + ...], with strides in
// elements, 0 along broadcast dimensions; negative ones are allowed. On refusal returns an empty
// kernel and, in *why if given, the reason: an element type that is not a real number or bool, or
// more registers than the engine holds.
ElementwiseKernel PrepareElementwise(const Expression& expression, std::span<const int64_t> dims,
                                     std::span<const int64_t> strides, std::string* why = nullptr,
                                     int64_t out_row_stride = 0);

// in[i] points at the element of output index 0. No alignment is needed beyond the element's own.
// `out` may be in[i] if that input is as dense and as wide as the output; other overlap is not
// allowed. Allocates nothing.
void RunElementwise(const ElementwiseKernel& kernel, const void* const* in, void* out,
                    const Parallel& par);

// What most epilogues are: value = activation(clamp(acc + operand[addend[0]] + operand[addend[1]],
// lo, hi)), in this order of additions, rounded to a 16-bit type or multiplied by operand[scale]
// with operand[last[0]] and operand[last[1]] added. Lets a kernel apply it in registers, or nearly
// so.
struct SimpleEpilogue {
  DType sum_rounding = DType::kFloat32;  // of acc itself, ahead of all else; none
  int addend[2] = {-1, -1};              // index into Epilogue::operands, -1 for none
  float lo = -std::numeric_limits<float>::infinity();
  float hi = std::numeric_limits<float>::infinity();
  bool clamps = false;  // NaN passes through clamp
  Activation activation;
  DType rounding = DType::kFloat32;  // none; with an activation that says it
  // Like addend: what comes behind an activation.
  int scale = -1;
  int last[2] = {-1, -1};
  bool HasBehind() const { return scale >= 0 || last[0] >= 0; }
};

// True if `expression` (of float32 inputs, input 0 the accumulated value) has that form. Chains
// count as what they say: x * sigmoid(x) is a swish, and so on (kernels/tile_graph.h).
bool MatchSimpleEpilogue(const Expression& expression, SimpleEpilogue* simple);

// An epilogue made ready for its operands' strides, without heap memory: about 20 KiB, made in
// some 100 ns on the stack at the start of a kernel.
struct EpilogueKernel {
  TileProgram program;
  DType type = DType::kFloat32;  // of the accumulated values
  int64_t tile = 0;              // columns at a time
};

// True if an epilogue of this form can be prepared. `why` as in PrepareElementwise.
bool CanPrepareEpilogue(const Epilogue& epilogue, std::string* why = nullptr);
// Requires CanPrepareEpilogue and an expression.
void PrepareEpilogue(const Epilogue& epilogue, EpilogueKernel* kernel);

// Applies the epilogue to C(row .. row + rows - 1, column .. column + columns - 1) in place, of the
// item (p, q) of a batch. `c` points at C(row, column), rows are ldc apart. `epilogue` is the one
// that was prepared, though its operands' data may differ.
void ApplyEpilogue(const EpilogueKernel& kernel, const Epilogue& epilogue, int64_t p, int64_t q,
                   int64_t row, int64_t column, int64_t rows, int64_t columns, void* c,
                   int64_t ldc);

}  // namespace sardonyx
