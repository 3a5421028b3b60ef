#pragma once
// What a device offers: for each core operation an ordered list of implementations, best first. The
// first that accepts a node's types and shapes is bound to them and becomes a step of a plan.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
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

// A dimension of an output that a step finds out when it runs.
inline constexpr int64_t kFound = -1;

// A tensor operand of a step: all known but where its memory will be.
struct Operand {
  DType dtype = DType::kUndefined;  // undefined: an absent optional operand
  std::vector<int64_t> dims;        // kFound in outputs alone (Implementation::finds_sizes)
  // Its value, if it never changes. Without memory (raw() is null) if it was packed and dropped:
  // then only the PackCache knows it, under its id.
  const Tensor* constant = nullptr;
  ConstantId id = {};
  // Elements from one row to the next where rows lie apart, between those of other values; 0 where
  // all is dense. A row is the last axis, or the last `row_axes`.
  int64_t row_stride = 0;
  int row_axes = 1;

  int64_t RowStride() const { return row_stride > 0 ? row_stride : dims.back(); }
  bool present() const { return dtype != DType::kUndefined; }
  int rank() const { return static_cast<int>(dims.size()); }
  int64_t size() const {
    int64_t count = 1;
    for (int64_t dim : dims) count *= dim;
    return count;
  }
};

// What runs where results have no elements, whatever the operation: nothing.
inline constexpr std::string_view kNothingToDo = "nothing";
inline bool HasNoElements(std::span<const Operand> results) {
  return !results.empty() && std::all_of(results.begin(), results.end(), [](const Operand& result) {
    return result.present() && result.size() == 0;
  });
}

// Where the operands of one run of a step are. Inputs and outputs are row-major, dense but for the
// rows that BindRequest said to lie apart, aligned to the element at least (see Bound::unaligned);
// outputs do not overlap inputs but as `inplace` allowed. Scratch is aligned to 64 bytes.
struct StepArgs {
  const void* const* in;
  void* const* out;
  void* scratch;
  Parallel parallel;
  // Memory for an output with a dimension kFound, once its dimensions are known; `out` has null for
  // such an output. To be called once for each of them, by the thread that runs the step.
  using PlaceOutput = std::function<void*(size_t output, std::vector<int64_t> dims)>;
  const PlaceOutput* place = nullptr;
};

// Positions along axis 1: the lines of an image whose channels are last.
struct Lines {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
};

// How a step makes some lines of output 0 from some of input 0; both have one item of a batch.
struct ByLines {
  int64_t in_lines = 0, out_lines = 0;
  // Line o of the output reads `reach` lines of the input from o * stride - pad on, but for those
  // that lie outside.
  int64_t stride = 1, pad = 0, reach = 1;
  // From the place of one line of the output to that of the next, in bytes: in each input, 0 where
  // all read the same; input 0 by its own lines.
  std::vector<int64_t> in_bytes;
  int64_t out_bytes = 0;
  int64_t line_products = 0;  // multiplications for a line of the output
  // Needs no scratch. args.in[0] is line in.begin, and what else goes line by line belongs to line
  // out.begin. Each element is what it is when the step runs at once.
  std::function<void(const StepArgs& args, Lines in, Lines out)> run;

  double Products() const {
    return static_cast<double>(line_products) * static_cast<double>(out_lines);
  }
  // The lines of input 0 that these of the output read.
  Lines Read(Lines out) const {
    const int64_t begin = out.begin * stride - pad, end = (out.end - 1) * stride - pad + reach;
    return {begin < 0 ? 0 : begin, end < in_lines ? end : in_lines};
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
  // Bit i: constant input i may lie at any address, as a model's file may have it.
  uint32_t unaligned = 0;
  // Bit i: the rows of input i may lie apart, if it is bound again to such (Operand::row_stride).
  // No other operand of a request ever has such rows.
  uint32_t apart = 0;
  uint32_t apart_axes = 0;    // bit i: such rows may be of several axes too (Operand::row_axes)
  bool apart_output = false;  // output 0 the same
  // Bit i: rows of input i are such a distance apart that they drive each other out of a cache,
  // whose sets they share; a little more would be better.
  uint32_t collide = 0;
  std::shared_ptr<const ByLines> by_lines = nullptr;  // where it can also run so
};

// Whether one of Bound's sets of inputs has this one.
inline bool Has(uint32_t inputs, size_t i) { return i < 32 && ((inputs >> i) & 1) != 0; }

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
  bool finds_sizes = false;  // takes outputs with dimensions kFound; others are not asked to
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;
  // Best first; may be empty. The reference compute stands behind every list.
  virtual std::span<const Implementation> Implementations(const CoreOp& op) const = 0;
};

}  // namespace sardonyx
