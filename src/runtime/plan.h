#pragma once
// A program specialised on the shapes of its inputs: every step bound to an implementation, every
// buffer at its offset.

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "runtime/device.h"
#include "runtime/thread_choice.h"

namespace sardonyx {

class Program;

// Bases of operand addresses during a run.
enum Base : int32_t {
  kBaseAbsent = -1,
  kBaseConstant = 0,  // offset is the address
  kBaseArena = 1,
  kBaseFirst = 2,  // inputs, then outputs, then dynamic values
};

struct Address {
  int32_t base = kBaseAbsent;
  int64_t offset = 0;
};

// A value in a plan. `dims` are meaningful if `is_static`.
struct PlannedValue {
  Address address;
  DType dtype = DType::kUndefined;
  std::vector<int64_t> dims;
  int64_t row_stride = 0;  // as an Operand's, as row_axes
  int row_axes = 1;
  bool is_static = false;
  int dynamic = -1;  // index among the dynamic values: a Datum that a step produces
  Tensor constant;

  int64_t bytes() const { return ByteSize(dtype, ElementCount(dims)); }  // if dense
  // From its first element to its last, with what lies between its rows.
  int64_t spanned_bytes() const {
    const int64_t count = ElementCount(dims);
    if (row_stride == 0 || count == 0) return ByteSize(dtype, count);
    const int64_t row = ElementCount(std::span(dims).last(static_cast<size_t>(row_axes)));
    return ByteSize(dtype, (count / row - 1) * row_stride + row);
  }
  // Of a step; refers to this value's constant.
  Operand AsOperand(ConstantId id = {}) const {
    return {dtype, dims, constant.defined() ? &constant : nullptr, id, row_stride, row_axes};
  }
};

// An implementation bound to a node for certain operands; shared by the plans that have these.
struct Binding {
  std::string_view implementation;
  Bound bound;
  std::vector<std::pair<std::string_view, std::string>> refusals;  // "winograd", "kernel is 1x1"
  std::vector<std::string> joined = {};  // what a step of several runs, one by one
};

struct Step {
  enum class Kind : uint8_t {
    kBound,      // pointers in, pointers out
    kReference,  // the reference compute, then a copy to the planned place
    kDynamic,    // shapes, implementation and memory found out when it runs
    kControl,    // runs other programs
  };
  Kind kind = Kind::kBound;
  const Node* node = nullptr;
  std::shared_ptr<const Binding> binding;
  uint32_t first_address = 0;  // of inputs then outputs in Plan::addresses
  Address scratch;
  std::span<const int> inputs, outputs;  // ids of values, -1 absent; the Program's
  std::vector<int> releases;             // dynamic values that no later step reads
};

// A dimension of an input that a plan does not depend on.
inline constexpr int64_t kAnySize = -1;

struct Plan {
  std::vector<int64_t> key;  // dimensions of all inputs, each list preceded by its rank
  std::vector<Step> steps;
  std::vector<Address> addresses;
  std::vector<PlannedValue> values;            // by id
  std::deque<std::vector<int>> joined_inputs;  // of steps of several
  int64_t arena_bytes = 0;
  int64_t live_bytes = 0;  // the most that values in the arena take at once, without scratch
  // Rows of the batch to run at a time, and the plans for as many and for those that remain at the
  // end; 0: all at once, by this plan.
  int64_t piece = 0;
  std::shared_ptr<const Plan> part, rest;
  // Of runs that are not in pieces; null: one thread.
  std::unique_ptr<ThreadChoice> thread_choice;
  size_t max_operands = 0;
  int dynamic_count = 0;
  // For each output the id of its value and whether steps write it in place (base of the output);
  // else it is copied from where it is.
  struct Output {
    int value;
    bool in_place;
  };
  std::vector<Output> outputs;
};

// Where values lie, by id: in the memory of a root, so many bytes behind its begin. -1: in none.
struct Places {
  std::vector<int>* roots;
  std::vector<int64_t>* offsets;
};

// What the last plan of a program found, so that the next infers and binds only what its shapes
// change: a step of a model that decodes with a growing past changes little.
struct PlanMemo {
  enum class Outcome : uint8_t { kNew, kFolded, kView, kStep, kDynamic };
  struct Choice {
    Outcome outcome = Outcome::kNew;
    std::vector<int64_t> offsets;  // of views
    std::string measured;          // the implementation that was fastest, if they were measured
    Step::Kind kind = Step::Kind::kBound;
    std::shared_ptr<const Binding> binding;
  };
  bool is_valid = false;
  std::vector<Choice> choices;  // by node
  std::vector<Fact> facts;      // the others by id of a value
  std::vector<PlannedValue> values;
  std::vector<ConstantId> constant_ids;
};

// Throws sardonyx::Error, naming the node, where shapes do not fit. Some dimensions may be
// kAnySize; what depends on them is left to the runs.
std::shared_ptr<Plan> MakePlan(Program& program, PlanMemo& memo,
                               const std::vector<std::vector<int64_t>>& input_dims);

// A table: step, ONNX node, core operation, implementation, refused ones, output, address.
std::string Explain(const Plan& plan);

// If output `index` of the node is a dense part of input 0's memory for these operands, its offset
// in bytes; -1 otherwise. Covers views, slices and splits of leading elements, transposes of sizes
// of 1, and copies that change nothing.
int64_t ViewOffset(const Node& node, std::span<const Operand> inputs,
                   std::span<const Operand> outputs, size_t index);

// If output `index` of a slice or split is columns of input 0, a range of each row, how many bytes
// behind the row's begin they are; -1 otherwise.
int64_t ColumnsOffset(const Node& node, std::span<const Operand> inputs,
                      std::span<const Operand> outputs, size_t index);

}  // namespace sardonyx
