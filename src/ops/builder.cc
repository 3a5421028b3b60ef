#include "ops/builder.h"

#include <algorithm>

#include "ops/core/deferred.h"

namespace sardonyx {
namespace {

// Larger constants are folded by the pass, which may use the device.
constexpr int64_t kEagerElements = 1024;

bool IsSmallConstant(const Value* value) {
  return value == nullptr ||
         (value->fact.constant.defined() && value->fact.constant.size() <= kEagerElements);
}

// A few bytes may ask for a large result: constant_of_shape, expand, tile.
bool IsLarge(const Value* value) {
  if (!value->fact.static_shape()) return false;
  int64_t count = 1;
  for (Dim dim : *value->fact.shape) {
    if (dim.value() > kEagerElements) return true;
    count *= dim.value();
    if (count > kEagerElements) return true;
  }
  return false;
}

// A body may run for long, so that nothing loads: it is left to the run.
bool HasBody(const Node& node) {
  return std::any_of(
      node.attributes.items().begin(), node.attributes.items().end(),
      [](const auto& item) { return std::holds_alternative<std::shared_ptr<Graph>>(item.second); });
}

bool ComputesNow(const Node& node) {
  return !HasBody(node) && !core::HasFailed(node) && node.op->is_pure &&
         node.op->reference != nullptr && !node.inputs.empty() &&
         std::all_of(node.inputs.begin(), node.inputs.end(), IsSmallConstant) &&
         std::none_of(node.outputs.begin(), node.outputs.end(), IsLarge);
}

}  // namespace

int Val::rank() const {
  if (!ranked()) throw NotYetKnown{};
  return value->fact.rank();
}

const Dims& Val::shape() const {
  if (!ranked()) throw NotYetKnown{};
  return *value->fact.shape;
}

int64_t Val::size(int axis) const {
  const Dim dim = shape()[Axis(axis)];
  if (!dim.known()) throw NotYetKnown{};
  return dim.value();
}

const Tensor& Val::constant() const {
  if (!value->fact.constant.defined()) throw NotYetKnown{};
  return value->fact.constant;
}

std::vector<int64_t> Val::ints() const {
  if (value->fact.elements) {
    std::vector<int64_t> result;
    for (Dim dim : *value->fact.elements) {
      if (!dim.known()) throw NotYetKnown{};
      result.push_back(dim.value());
    }
    return result;
  }
  return ToInts(constant());
}

std::vector<double> Val::doubles() const { return ToDoubles(constant()); }

int Val::Axis(int64_t axis) const {
  const int count = rank();
  if (axis < -count || axis >= count) {
    Fail(ErrorCode::kInvalidModel, "axis {} is outside [{},{}] of a tensor of rank {}", axis,
         -count, count - 1, count);
  }
  return static_cast<int>(axis < 0 ? axis + count : axis);
}

std::vector<Val> Builder::MakeMany(const CoreOp& op, const std::vector<Val>& inputs,
                                   Attributes attributes, int output_count) {
  std::vector<Value*> values;
  values.reserve(inputs.size());
  for (const Val& input : inputs) values.push_back(input.value);
  while (!values.empty() && values.back() == nullptr) values.pop_back();
  auto node = graph_.MakeNode(op, values, std::move(attributes), output_count, origin_);
  std::vector<Val> results;
  if (ComputesNow(*node)) {
    std::vector<Datum> data;
    for (const Value* value : values) {
      data.push_back(value != nullptr ? Datum(value->fact.constant) : Datum());
    }
    const auto forget_use = [&] {
      for (Value* value : values) {
        if (value != nullptr) value->users.pop_back();
      }
    };
    std::vector<Datum> computed;
    try {
      computed = RunReference(*node, data);
    } catch (const Error&) {
      forget_use();  // the importer may go on without the node
      throw;
    }
    const bool all_tensors = std::all_of(computed.begin(), computed.end(), [](const Datum& datum) {
      return datum.tensor() != nullptr && datum.tensor()->size() <= kEagerElements;
    });
    if (all_tensors) {
      forget_use();
      for (const Datum& datum : computed) results.push_back(Constant(*datum.tensor()));
      return results;
    }
  }
  for (Value* output : node->outputs) results.push_back(Wrap(output));
  if (sink_ != nullptr) {
    sink_->push_back(std::move(node));
  } else {
    graph_.Append(std::move(node));
  }
  return results;
}

Val Builder::Make(const CoreOp& op, const std::vector<Val>& inputs, Attributes attributes) {
  return MakeMany(op, inputs, std::move(attributes), 1)[0];
}

Val Builder::Constant(Tensor tensor) { return Wrap(graph_.AddConstant(std::move(tensor))); }

Val Builder::Scalar(DType dtype, double value) { return Constant(MakeFilled(dtype, {}, value)); }

Val Builder::Ints(const std::vector<int64_t>& values) { return Constant(MakeVector(values)); }

}  // namespace sardonyx
