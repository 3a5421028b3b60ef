#pragma once
// How an ONNX operator is given: a function from its node, in the newest form, to core operations.
//
//   #include "ops/lowering.h"
//   namespace sardonyx::ops {
//   Outputs LowerMish(Lowering& op) {
//     const Val x = op.in(0);
//     return x * Tanh(Softplus(x));
//   }
//   }
//
// and one line in all.inc: SARDONYX_OP(Mish). An operator whose older versions differ adds
// `void AdaptMish(Lowering& op)`, which rewrites a node of op.version() into the newest form (an
// attribute that became an input, ...), and stands in all.inc as SARDONYX_OP_ADAPTED(Mish).

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ops/vocabulary.h"

namespace sardonyx::ops {

// What a lowering returns: a value for each output of the node, or fewer if the last are unused.
// An empty Val for an output that was not asked for.
struct Outputs {
  std::vector<Val> values;
  Outputs(Val value) : values{value} {}                        // NOLINT
  Outputs(std::vector<Val> list) : values(std::move(list)) {}  // NOLINT
  Outputs(std::initializer_list<Val> list) : values(list) {}   // NOLINT
};

// An ONNX node on its way down. Attributes hold what the model gave and the schema's defaults;
// floats are doubles, tensors Tensor, graphs closed bodies (see control operators).
class Lowering {
 public:
  Lowering(Builder& builder, std::string domain, std::string op_type, int version,
           Attributes attributes, std::vector<Val> inputs, std::vector<bool> wanted_outputs)
      : attributes(std::move(attributes)),
        inputs(std::move(inputs)),
        builder_(builder),
        domain_(std::move(domain)),
        op_type_(std::move(op_type)),
        version_(version),
        wanted_outputs_(std::move(wanted_outputs)) {}

  Builder& builder() { return builder_; }
  const std::string& domain() const { return domain_; }
  const std::string& op_type() const { return op_type_; }
  int version() const { return version_; }  // since_version of the operator as the model means it

  Attributes attributes;
  std::vector<Val> inputs;

  bool has(size_t i) const { return i < inputs.size() && inputs[i]; }
  Val in(size_t i) const { return i < inputs.size() ? inputs[i] : Val{}; }
  size_t output_count() const { return wanted_outputs_.size(); }
  bool wants(size_t output) const {
    return output < wanted_outputs_.size() && wanted_outputs_[output];
  }

  int64_t Int(std::string_view name, int64_t otherwise = 0) const {
    return attributes.Int(name, otherwise);
  }
  double Float(std::string_view name, double otherwise = 0) const {
    return attributes.Float(name, otherwise);
  }
  std::string String(std::string_view name, std::string_view otherwise = "") const {
    return std::string(attributes.String(name, otherwise));
  }
  const std::vector<int64_t>& Ints(std::string_view name) const { return attributes.Ints(name); }
  bool HasAttribute(std::string_view name) const { return attributes.Find(name) != nullptr; }
  // Throws kInvalidModel if the attribute is no element type.
  DType DTypeAttribute(std::string_view name, DType otherwise) const;

  // Adapters: moves an ints attribute to constant int64 input `i` (absent attribute: absent input).
  void AttributeToInput(std::string_view name, size_t i);
  void SetInput(size_t i, Val value);

  // Throws kInvalidModel (the importer adds the node's name) or kUnsupported.
  template <typename... Args>
  [[noreturn]] void Fail(fmt::format_string<Args...> text, Args&&... args) const {
    sardonyx::Fail(ErrorCode::kInvalidModel, text, std::forward<Args>(args)...);
  }
  template <typename... Args>
  [[noreturn]] void Unsupported(fmt::format_string<Args...> text, Args&&... args) const {
    sardonyx::Fail(ErrorCode::kUnsupported, text, std::forward<Args>(args)...);
  }

 private:
  Builder& builder_;
  std::string domain_;
  std::string op_type_;
  int version_;
  std::vector<bool> wanted_outputs_;
};

struct OnnxOp {
  std::string_view domain;  // "" is ai.onnx
  std::string_view name;
  Outputs (*lower)(Lowering&);
  void (*adapt)(Lowering&);  // null: every version has the newest form
};

// Null if there is no lowering.
const OnnxOp* FindOnnxOp(std::string_view domain, std::string_view name);

// Whether a node failed for what it was given, be it shapes or values.
inline bool IsFaultOfInputs(const Error& error) {
  return error.code() == ErrorCode::kInvalidModel || error.code() == ErrorCode::kInvalidArgument;
}

// Adapts and lowers a node; when something it needs is not known yet, makes a `deferred` node with
// outputs of the given types instead. So it does of a node that cannot work for what it is given if
// `may_fail`: that is for a branch that need not be taken, and is said if it is.
std::vector<Val> Lower(Lowering& op, const std::vector<Type>& output_types, bool may_fail);

}  // namespace sardonyx::ops
