// Steps that run other programs: If, Loop, Scan, and nodes that are lowered when they run.

#include <algorithm>
#include <cstring>
#include <limits>

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

void CopyElements(const Tensor& from, int64_t from_at, const Tensor& to, int64_t to_at,
                  int64_t count) {
  if (from.dtype() == DType::kString) {
    std::copy_n(from.data<std::string>() + from_at, count,
                static_cast<std::string*>(to.raw()) + to_at);
  } else if (IsPacked(from.dtype())) {
    Fail(ErrorCode::kUnsupported, "iterations over elements of less than a byte ({})",
         Name(from.dtype()));
  } else if (count > 0) {
    const int64_t width = ByteSize(from.dtype(), 1);
    std::memcpy(static_cast<char*>(to.raw()) + to_at * width,
                static_cast<const char*>(from.raw()) + from_at * width, count * width);
  }
}

// Collects what iterations give and stacks it along a new axis.
class Stacker {
 public:
  Stacker(const Fact& element, int64_t axis, bool reverse)
      : element_(element), axis_(axis), reverse_(reverse) {}

  void Add(const Datum& datum) {
    const Tensor* part = datum.tensor();
    if (part == nullptr) Fail(ErrorCode::kInvalidModel, "only tensors can be stacked");
    if (!parts_.empty() && part->dims() != parts_[0].dims()) {
      Fail(ErrorCode::kInvalidModel, "iterations give {} and {}; these cannot be stacked",
           PrintDims(parts_[0].dims()), PrintDims(part->dims()));
    }
    parts_.push_back(*part);
  }

  Tensor Finish() {
    if (reverse_) std::reverse(parts_.begin(), parts_.end());
    std::vector<int64_t> dims;
    if (!parts_.empty()) {
      dims = parts_[0].dims();
    } else if (element_.ranked()) {
      for (Dim dim : *element_.shape) dims.push_back(dim.known() ? dim.value() : 0);
    }
    const int64_t rank = static_cast<int64_t>(dims.size()) + 1;
    const int64_t axis = axis_ < 0 ? axis_ + rank : axis_;
    if (axis < 0 || axis >= rank) {
      Fail(ErrorCode::kInvalidModel, "output axis {} is outside rank {}", axis_, rank);
    }
    std::vector<int64_t> stacked = dims;
    const int64_t count = static_cast<int64_t>(parts_.size());
    stacked.insert(stacked.begin() + axis, count);
    Tensor result(parts_.empty() ? element_.type.dtype : parts_[0].dtype(), stacked);
    const int64_t outer = ElementCount(std::span(dims).first(static_cast<size_t>(axis)));
    for (int64_t p = 0; p < count; ++p) {
      const int64_t inner = outer > 0 ? parts_[p].size() / outer : 0;
      for (int64_t o = 0; o < outer; ++o) {
        CopyElements(parts_[p], o * inner, result, (o * count + p) * inner, inner);
      }
    }
    return result;
  }

 private:
  const Fact& element_;
  int64_t axis_;
  bool reverse_;
  std::vector<Tensor> parts_;
};

// Position `index` along `axis`, without a copy where it is one block.
Tensor Slice(const Tensor& x, int64_t axis, int64_t index) {
  std::vector<int64_t> dims = x.dims();
  const int64_t length = dims[axis];
  const int64_t outer = ElementCount(std::span(dims).first(static_cast<size_t>(axis)));
  const int64_t inner = ElementCount(std::span(dims).subspan(static_cast<size_t>(axis) + 1));
  dims.erase(dims.begin() + axis);
  if (outer == 1 && x.dtype() != DType::kString && !IsPacked(x.dtype())) {
    return Tensor(x.dtype(), dims, static_cast<char*>(x.raw()) + ByteSize(x.dtype(), index * inner),
                  x.owner());
  }
  Tensor result(x.dtype(), dims);
  for (int64_t o = 0; o < outer; ++o) {
    CopyElements(x, (o * length + index) * inner, result, o * inner, inner);
  }
  return result;
}

}  // namespace

void Executor::RunControl(const Step& step) {
  const Node& node = *step.node;
  std::vector<Datum> results;
  if (node.op == &core::if_) {
    const auto branch =
        node.attributes.Body(Truth(Read(step.inputs[0])) ? "then_branch" : "else_branch");
    std::vector<Datum> captures;
    for (size_t i = 1; i < step.inputs.size(); ++i) captures.push_back(Read(step.inputs[i]));
    results = program_.Body(*branch).Run(captures, Inner());
  } else if (node.op == &core::loop) {
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

std::vector<Datum> Executor::RunLoop(const Step& step) {
  const Node& node = *step.node;
  const auto body = node.attributes.Body("body");
  Program& program = program_.Body(*body);
  const size_t carried = node.attributes.Int("carried");
  auto given = [&](size_t i) { return i < step.inputs.size() && step.inputs[i] >= 0; };
  int64_t limit = std::numeric_limits<int64_t>::max();
  if (given(0)) limit = ToInts(*Read(step.inputs[0]).tensor()).at(0);
  bool running = !given(1) || Truth(Read(step.inputs[1]));
  std::vector<Datum> inputs(std::max<size_t>(step.inputs.size(), 2));
  for (size_t i = 2; i < step.inputs.size(); ++i) {
    if (given(i)) inputs[i] = Read(step.inputs[i]);
  }
  std::vector<Stacker> stacks;
  for (size_t i = 1 + carried; i < body->outputs.size(); ++i) {
    stacks.emplace_back(body->outputs[i]->fact, 0, false);
  }
  for (int64_t iteration = 0; running && iteration < limit; ++iteration) {
    inputs[0] = MakeScalar<int64_t>(iteration);
    inputs[1] = MakeScalar<bool>(running);
    std::vector<Datum> outputs = program.Run(inputs, Inner());
    running = Truth(outputs[0]);
    for (size_t i = 0; i < carried; ++i) inputs[2 + i] = std::move(outputs[1 + i]);
    for (size_t i = 0; i < stacks.size(); ++i) stacks[i].Add(outputs[1 + carried + i]);
  }
  std::vector<Datum> results;
  for (size_t i = 0; i < carried; ++i) results.push_back(std::move(inputs[2 + i]));
  for (Stacker& stack : stacks) results.push_back(stack.Finish());
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
  std::vector<Stacker> stacks;
  for (size_t i = states; i < body->outputs.size(); ++i) {
    stacks.emplace_back(body->outputs[i]->fact,
                        ItemOr(attributes.Ints("output_axes"), i - states, 0),
                        ItemOr(attributes.Ints("output_directions"), i - states, 0) != 0);
  }
  for (int64_t t = 0; t < length; ++t) {
    for (size_t i = 0; i < scanned; ++i) {
      const bool reverse = ItemOr(attributes.Ints("input_directions"), i, 0) != 0;
      inputs[states + i] = Slice(sources[i], axes[i], reverse ? length - 1 - t : t);
    }
    std::vector<Datum> outputs = program.Run(inputs, Inner());
    for (size_t i = 0; i < states; ++i) inputs[i] = std::move(outputs[i]);
    for (size_t i = 0; i < stacks.size(); ++i) stacks[i].Add(outputs[states + i]);
  }
  std::vector<Datum> results;
  for (size_t i = 0; i < states; ++i) results.push_back(std::move(inputs[i]));
  for (Stacker& stack : stacks) results.push_back(stack.Finish());
  return results;
}

}  // namespace sardonyx
