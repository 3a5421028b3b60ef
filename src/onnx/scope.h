#pragma once
// Names of a graph under import. A body's scope captures what it uses from the scopes around it.

#include <functional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "onnx/model.h"

namespace sardonyx::onnx {

class Scope {
 public:
  using TensorReader = std::function<Tensor(const TensorProto&)>;

  Scope(Graph& graph, Scope* outer, TensorReader read)
      : graph_(graph), outer_(outer), read_(std::move(read)) {}

  // Of the same graph: what is bound here hides what `outer` binds, and the rest is shared.
  explicit Scope(Scope& outer)
      : graph_(outer.graph_), outer_(&outer), read_(outer.read_), overlay_(true) {}
  Scope(const Scope&) = delete;

  Graph& graph() { return graph_; }
  void Bind(std::string_view name, Value* value) { values_[name] = value; }
  // A function's formal parameter; null: the call left it out.
  void BindParameter(std::string_view name, Value* value) {
    if (value != nullptr) {
      values_[name] = value;
    } else {
      absent_.insert(name);
    }
  }
  bool IsAbsentParameter(std::string_view name) const { return absent_.contains(name); }
  // Read when first used.
  void AddInitializer(std::string_view name, const TensorProto* tensor) {
    initializers_[name] = tensor;
  }

  // The value of that name, in this graph: bound here, an initializer, or captured from outside.
  // Null if there is none. Constants are copied rather than captured. The name is kept as it is:
  // its memory must last as long as the scope.
  Value* Find(std::string_view name) {
    if (auto it = values_.find(name); it != values_.end()) return it->second;
    if (auto it = initializers_.find(name); it != initializers_.end()) {
      return values_[it->first] = graph_.AddConstant(read_(*it->second), std::string(name));
    }
    Value* outside = outer_ != nullptr ? outer_->Find(name) : nullptr;
    if (outside == nullptr || overlay_) return outside;
    if (outside->is_constant()) {
      return values_[name] = graph_.AddConstant(outside->fact.constant, outside->name);
    }
    for (const auto& [from, inner] : captures_) {
      if (from == outside) return values_[name] = inner;
    }
    Value* inner = graph_.AddInput(std::string(name), outside->fact);
    captures_.emplace_back(outside, inner);
    return values_[name] = inner;
  }

  // Captured values in order of first use: outside, inside.
  const std::vector<std::pair<Value*, Value*>>& captures() const { return captures_; }

 private:
  Graph& graph_;
  Scope* outer_;
  TensorReader read_;
  bool overlay_ = false;
  std::unordered_map<std::string_view, Value*> values_;
  std::unordered_map<std::string_view, const TensorProto*> initializers_;
  std::unordered_set<std::string_view> absent_;
  std::vector<std::pair<Value*, Value*>> captures_;
};

}  // namespace sardonyx::onnx
