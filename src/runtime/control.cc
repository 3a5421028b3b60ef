// Steps that run other programs: If, Loop, Scan, and nodes that are lowered when they run.

#include <algorithm>
#include <limits>

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

const Tensor& PartOf(const Datum& datum) {
  if (datum.tensor() == nullptr) Fail(ErrorCode::kInvalidModel, "only tensors can be stacked");
  return *datum.tensor();
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
  std::vector<std::vector<Tensor>> parts(body->outputs.size() - 1 - carried);
  for (int64_t iteration = 0; running && iteration < limit; ++iteration) {
    inputs[0] = MakeScalar<int64_t>(iteration);
    inputs[1] = MakeScalar<bool>(running);
    std::vector<Datum> outputs = program.Run(inputs, Inner());
    running = Truth(outputs[0]);
    for (size_t i = 0; i < carried; ++i) inputs[2 + i] = std::move(outputs[1 + i]);
    for (size_t i = 0; i < parts.size(); ++i) {
      parts[i].push_back(PartOf(outputs[1 + carried + i]));
    }
  }
  std::vector<Datum> results;
  for (size_t i = 0; i < carried; ++i) results.push_back(std::move(inputs[2 + i]));
  for (size_t i = 0; i < parts.size(); ++i) {
    results.push_back(core::Stack(parts[i], body->outputs[1 + carried + i]->fact, 0));
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
  std::vector<std::vector<Tensor>> parts(body->outputs.size() - states);
  for (int64_t t = 0; t < length; ++t) {
    for (size_t i = 0; i < scanned; ++i) {
      const bool reverse = ItemOr(attributes.Ints("input_directions"), i, 0) != 0;
      inputs[states + i] = core::SliceAt(sources[i], axes[i], reverse ? length - 1 - t : t);
    }
    std::vector<Datum> outputs = program.Run(inputs, Inner());
    for (size_t i = 0; i < states; ++i) inputs[i] = std::move(outputs[i]);
    for (size_t i = 0; i < parts.size(); ++i) parts[i].push_back(PartOf(outputs[states + i]));
  }
  std::vector<Datum> results;
  for (size_t i = 0; i < states; ++i) results.push_back(std::move(inputs[i]));
  for (size_t i = 0; i < parts.size(); ++i) {
    if (ItemOr(attributes.Ints("output_directions"), i, 0) != 0) {
      std::reverse(parts[i].begin(), parts[i].end());
    }
    results.push_back(core::Stack(parts[i], body->outputs[states + i]->fact,
                                  ItemOr(attributes.Ints("output_axes"), i, 0)));
  }
  return results;
}

}  // namespace sardonyx
