#pragma once
// A program specialised on the shapes of its inputs: every step bound to an implementation, every
// buffer at its offset.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "runtime/device.h"

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
  bool is_static = false;
  int dynamic = -1;  // index among the dynamic values: a Datum that a step produces
  Tensor constant;
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
  std::string_view implementation;
  Bound bound;
  uint32_t first_address = 0;  // of inputs then outputs in Plan::addresses
  Address scratch;
  std::vector<int> inputs, outputs;   // ids of values, -1 absent
  std::vector<int> releases;          // dynamic values that no later step reads
  std::vector<std::string> refusals;  // "winograd: kernel is 1x1"
};

struct Plan {
  std::vector<int64_t> key;  // dimensions of all inputs, each list preceded by its rank
  std::vector<Step> steps;
  std::vector<Address> addresses;
  std::vector<PlannedValue> values;  // by id
  int64_t arena_bytes = 0;
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

// Throws sardonyx::Error, naming the node, where shapes do not fit.
std::shared_ptr<const Plan> MakePlan(Program& program,
                                     std::vector<std::vector<int64_t>> input_dims);

// A table: step, ONNX node, core operation, implementation, refused ones, output, address.
std::string Explain(const Plan& plan);

// If output `index` of the node is a dense part of input 0's memory for these operands, its offset
// in bytes; -1 otherwise. Covers views, slices and splits of leading elements, transposes of sizes
// of 1, and copies that change nothing.
int64_t ViewOffset(const Node& node, std::span<const Operand> inputs,
                   std::span<const Operand> outputs, size_t index);

}  // namespace sardonyx
