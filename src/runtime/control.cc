// Steps that run other programs: If, Loop, Scan, and nodes that are lowered when they run.

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "ops/core/control.h"
#include "ops/core/core.h"
#include "runtime/executor.h"

namespace sardonyx {
namespace {

bool Truth(const Datum& datum) {
  const Tensor* tensor = datum.tensor();
  if (tensor == nullptr || tensor->dtype() != DType::kBool || tensor->size() != 1) {
    Fail(ErrorCode::kInvalidModel, "the condition must be one bool, is {}",
         tensor != nullptr ? fmt::format("{}{}", Name(tensor->dtype()), PrintDims(tensor->dims()))
                           : "no tensor");
  }
  return tensor->data<bool>()[0];
}

int64_t ItemOr(const std::vector<int64_t>& values, size_t i, int64_t otherwise) {
  return i < values.size() ? values[i] : otherwise;
}

// A scalar in memory that nobody else holds.
template <typename T>
void SetScalar(Datum* datum, T value) {
  if (IsSole(*datum)) {
    static_cast<T*>(datum->tensor()->raw())[0] = value;
  } else {
    *datum = MakeScalar<T>(value);
  }
}

const Tensor& PartOf(const Datum& datum) {
  if (datum.tensor() == nullptr) Fail(ErrorCode::kInvalidModel, "only tensors can be stacked");
  return *datum.tensor();
}

// What iterations give, one behind the other along a new axis. Along the first it is copied into
// its place at once, so that the next iteration may write over the part.
class Stacking {
 public:
  // `expected`: iterations at most.
  Stacking(int64_t expected, int64_t axis, bool reverse)
      : expected_(expected), axis_(axis), reverse_(reverse) {}

  void Add(const Tensor& part) {
    if (axis_ != 0 || reverse_ || part.dtype() == DType::kString || IsPacked(part.dtype())) {
      parts_.push_back(part);
      return;
    }
    if (count_ == capacity_) Grow(part);
    if (!std::equal(part.dims().begin(), part.dims().end(), memory_.dims().begin() + 1,
                    memory_.dims().end())) {
      Fail(ErrorCode::kInvalidModel, "iterations give {} and {}; these cannot be stacked",
           PrintDims(std::span(memory_.dims()).subspan(1)), PrintDims(part.dims()));
    }
    if (part.bytes() > 0) {
      std::memcpy(static_cast<char*>(memory_.raw()) + count_ * part.bytes(), part.raw(),
                  part.bytes());
    }
    ++count_;
  }

  Tensor Take(const Fact& element) {
    if (count_ == 0) {
      if (reverse_) std::reverse(parts_.begin(), parts_.end());
      return core::Stack(parts_, element, axis_);
    }
    if (count_ == capacity_) return std::move(memory_);
    std::vector<int64_t> dims = memory_.dims();
    dims[0] = count_;
    return Tensor(memory_.dtype(), std::move(dims), memory_.raw(), memory_.owner());
  }

 private:
  // Room for all if that is little, else twice the room there is.
  void Grow(const Tensor& part) {
    constexpr int64_t kLittle = 1 << 20;
    const int64_t least = kLittle / std::max<int64_t>(part.bytes(), 1);
    capacity_ = std::clamp<int64_t>(2 * capacity_, std::min(least + 1, expected_), expected_);
    std::vector<int64_t> dims = memory_.defined() ? memory_.dims() : part.dims();
    if (!memory_.defined()) dims.insert(dims.begin(), 0);
    dims[0] = capacity_;
    Tensor larger(part.dtype(), std::move(dims));
    if (memory_.bytes() > 0) std::memcpy(larger.raw(), memory_.raw(), memory_.bytes());
    memory_ = std::move(larger);
  }

  int64_t expected_, axis_;
  bool reverse_;
  Tensor memory_;
  int64_t count_ = 0, capacity_ = 0;
  std::vector<Tensor> parts_;  // where they cannot be copied yet
};

}  // namespace

void Executor::RunControl(const Step& step) {
  const Node& node = *step.node;
  if (node.op == &core::if_) return RunIf(step);
  std::vector<Datum> results;
  if (node.op == &core::loop) {
    results = RunLoop(step);
  } else if (node.op == &core::scan) {
    results = RunScan(step);
  } else {
    std::vector<Datum> inputs, present;
    for (int id : step.inputs) {
      inputs.push_back(id >= 0 ? Read(id) : Datum());
      if (id >= 0) present.push_back(inputs.back());
    }
    // Inputs of the lowered graph are those that the node has.
    results = program_.Deferred(node, inputs)->Run(present, Inner());
  }
  for (size_t i = 0; i < step.outputs.size() && i < results.size(); ++i) {
    Store(step.outputs[i], std::move(results[i]), step);
  }
}

void Executor::RunIf(const Step& step) {
  std::vector<Datum>&inputs = state_.branch_inputs, &outputs = state_.branch_outputs;
  inputs.resize(std::max(inputs.size(), step.inputs.size()));
  for (size_t i = 0; i < step.inputs.size(); ++i) ReadInto(step.inputs[i], &inputs[i]);
  // What an earlier run left where nobody holds it any more is written over.
  outputs.resize(step.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::optional<Datum>& before = state_.branched[plan_.values[step.outputs[i]].dynamic];
    if (!before) before.emplace();
    outputs[i].value.swap(before->value);
  }
  const auto branch = step.node->attributes.Body(Truth(inputs[0]) ? "then_branch" : "else_branch");
  Program::Series(program_.Body(*branch), Inner())
      .Run(std::span(inputs).subspan(1, step.inputs.size() - 1), &outputs);
  for (Datum& input : inputs) {
    if (input.tensor() == nullptr || input.tensor()->owner()) input = Datum();
  }
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    Store(step.outputs[i], std::move(outputs[i]), step);
  }
}

std::vector<Datum> Executor::RunLoop(const Step& step) {
  const Node& node = *step.node;
  const auto body = node.attributes.Body("body");
  Program& program = program_.Body(*body);
  const size_t carried = node.attributes.Int("carried");
  auto given = [&](size_t i) { return i < step.inputs.size() && step.inputs[i] >= 0; };
  int64_t limit = std::numeric_limits<int64_t>::max();
  if (given(0)) limit = ToInts(*Read(step.inputs[0]).tensor()).at(0);
  bool running = !given(1) || Truth(Read(step.inputs[1]));
  std::vector<Datum> inputs(std::max<size_t>(step.inputs.size(), 2)), outputs;
  for (size_t i = 2; i < step.inputs.size(); ++i) {
    if (given(i)) inputs[i] = Read(step.inputs[i]);
  }
  std::vector<Stacking> parts(body->outputs.size() - 1 - carried, Stacking(limit, 0, false));
  Program::Series series(program, Inner());
  for (int64_t iteration = 0; running && iteration < limit; ++iteration) {
    SetScalar<int64_t>(&inputs[0], iteration);
    SetScalar<bool>(&inputs[1], running);
    series.Run(inputs, &outputs);
    running = Truth(outputs[0]);
    for (size_t i = 0; i < parts.size(); ++i) parts[i].Add(PartOf(outputs[1 + carried + i]));
    // What was carried in is where the next iteration writes.
    for (size_t i = 0; i < carried; ++i) inputs[2 + i].value.swap(outputs[1 + i].value);
  }
  std::vector<Datum> results;
  for (size_t i = 0; i < carried; ++i) results.push_back(std::move(inputs[2 + i]));
  for (size_t i = 0; i < parts.size(); ++i) {
    results.push_back(parts[i].Take(body->outputs[1 + carried + i]->fact));
  }
  return results;
}

std::vector<Datum> Executor::RunScan(const Step& step) {
  const Node& node = *step.node;
  const Attributes& attributes = node.attributes;
  const auto body = attributes.Body("body");
  Program& program = program_.Body(*body);
  const size_t scanned = attributes.Int("scan_inputs");
  const size_t states = step.inputs.size() - attributes.Int("captures") - scanned;
  std::vector<Datum> inputs;
  for (int id : step.inputs) inputs.push_back(Read(id));
  std::vector<Tensor> sources;
  std::vector<int64_t> axes;
  int64_t length = 0;
  for (size_t i = 0; i < scanned; ++i) {
    sources.push_back(*inputs[states + i].tensor());
    int64_t axis = ItemOr(attributes.Ints("input_axes"), i, 0);
    if (axis < 0) axis += sources[i].rank();
    axes.push_back(axis);
    if (i > 0 && sources[i].dims().at(axis) != length) {
      Fail(ErrorCode::kInvalidModel, "scanned inputs have {} and {} elements along their scan axes",
           length, sources[i].dims()[axis]);
    }
    length = sources[i].dims().at(axis);
  }
  std::vector<Stacking> parts;
  for (size_t i = 0; i < body->outputs.size() - states; ++i) {
    parts.emplace_back(length, ItemOr(attributes.Ints("output_axes"), i, 0),
                       ItemOr(attributes.Ints("output_directions"), i, 0) != 0);
  }
  std::vector<Datum> outputs;
  Program::Series series(program, Inner());
  for (int64_t t = 0; t < length; ++t) {
    for (size_t i = 0; i < scanned; ++i) {
      const bool reverse = ItemOr(attributes.Ints("input_directions"), i, 0) != 0;
      inputs[states + i] = core::SliceAt(sources[i], axes[i], reverse ? length - 1 - t : t);
    }
    series.Run(inputs, &outputs);
    for (size_t i = 0; i < parts.size(); ++i) parts[i].Add(PartOf(outputs[states + i]));
    for (size_t i = 0; i < states; ++i) inputs[i].value.swap(outputs[i].value);
  }
  std::vector<Datum> results;
  for (size_t i = 0; i < states; ++i) results.push_back(std::move(inputs[i]));
  for (size_t i = 0; i < parts.size(); ++i) {
    results.push_back(parts[i].Take(body->outputs[states + i]->fact));
  }
  return results;
}

}  // namespace sardonyx
