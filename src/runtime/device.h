#pragma once
// What a device offers: for each core operation an ordered list of implementations, best first. The
// first that accepts a node's types and shapes is bound to them and becomes a step of a plan.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/thread_pool.h"
#include "ir/core_op.h"
#include "runtime/pack_cache.h"

namespace sardonyx {

// A tensor operand of a step: all known but where its memory will be.
struct Operand {
  DType dtype = DType::kUndefined;  // undefined: an absent optional operand
  std::vector<int64_t> dims;
  // Its value, if it never changes. Without memory (raw() is null) if it was packed and dropped:
  // then only the PackCache knows it, under its id.
  const Tensor* constant = nullptr;
  ConstantId id = {};

  bool present() const { return dtype != DType::kUndefined; }
  int rank() const { return static_cast<int>(dims.size()); }
  int64_t size() const {
    int64_t count = 1;
    for (int64_t dim : dims) count *= dim;
    return count;
  }
};

// Where the operands of one run of a step are. Inputs and outputs are dense, row-major, aligned to
// the element at least; outputs do not overlap inputs but as `inplace` allowed. Scratch is aligned
// to 64 bytes.
struct StepArgs {
  const void* const* in;
  void* const* out;
  void* scratch;
  Parallel parallel;
};

// Lines first ... end - 1 of an image.
struct LineRange {
  int64_t first = 0, end = 0;
  int64_t count() const { return end - first; }
};

// How a step over images [batch, lines, ...] makes a few lines of output 0 from those of input 0
// that they follow from. Each line comes out the same, bit by bit, whichever are made with it.
struct LineKernel {
  int64_t batch = 1;
  int64_t in_lines = 0, in_bytes = 0;  // lines of an image, bytes of a line
  int64_t out_lines = 0, out_bytes = 0;
  // Line i follows from the lines [i * stride - pad, i * stride - pad + window) that exist.
  int64_t window = 1, stride = 1, pad = 0;
  int64_t weight_bytes = 0;
  std::function<int64_t(LineRange out)> scratch_bytes;
  // Input 0 and output 0 point to the first line that is read, and to the first that is made.
  std::function<void(const StepArgs&, int64_t image, LineRange out)> run;

  // Whether every line follows from some line.
  bool HasWindows() const { return pad < window && (out_lines - 1) * stride - pad < in_lines; }
  LineRange Reads(LineRange out) const {
    return {std::max<int64_t>(0, out.first * stride - pad),
            std::min(in_lines, (out.end - 1) * stride - pad + window)};
  }
};

// An implementation bound to a node and shapes.
struct Bound {
  std::function<void(const StepArgs&)> run;
  int64_t scratch_bytes = 0;
  // Bit i: output 0 may lie where input i lies, if they have equal bytes.
  uint32_t inplace = 0;
  // Bit i: constant input i was packed and is not read when the step runs.
  uint32_t packed = 0;
  std::shared_ptr<const LineKernel> lines;  // null if it makes all lines or none
};

struct BindRequest {
  const Node& node;
  std::span<const Operand> inputs;
  std::span<const Operand> outputs;
  PackCache& packs;  // constants in the layout that a kernel wants, made once a program
  int threads;
  bool winograd = true;  // whether convolutions may run by Winograd's transforms
  // The implementation that is to accept if it can run this, though another is expected to be
  // faster: it was measured, or is about to be.
  std::string_view wanted = {};

  bool has(size_t input) const { return input < inputs.size() && inputs[input].present(); }
};

// A bound implementation, or the reason why not.
using BindResult = std::variant<Bound, std::string>;

struct Implementation {
  std::string_view name;  // "winograd", "direct", ...
  BindResult (*bind)(const BindRequest&);
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;
  // Best first; may be empty. The reference compute stands behind every list.
  virtual std::span<const Implementation> Implementations(const CoreOp& op) const = 0;
  // Two steps as one that makes a few lines of the value between them at a time, while they are in
  // the cache; nothing where that is not expected to be faster. Input 0 of `second` is output 0 of
  // `first`; the inputs are those of `first`, so many, then the others of `second`.
  virtual std::optional<Bound> Join(const Bound& first, size_t first_inputs, const Bound& second,
                                    size_t second_inputs, int threads) const = 0;
};

}  // namespace sardonyx
