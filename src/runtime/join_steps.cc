#include "runtime/join_steps.h"

#include <algorithm>

namespace sardonyx {
namespace {

// A value that one step writes and one other reads, as input 0.
struct Between {
  int64_t bytes;
  size_t writer, reader;
};

// One that was joined to the step behind it has no node any more.
bool ByLines(const Step& step) {
  return step.node != nullptr && step.kind == Step::Kind::kBound &&
         step.binding->bound.lines != nullptr;
}

std::vector<Between> FindBetween(const std::vector<int>& roots, const Plan& plan) {
  std::vector<int> readers(plan.values.size(), 0), writers(plan.values.size(), -1);
  for (size_t id = 0; id < roots.size(); ++id) {
    if (roots[id] >= 0 && roots[id] != static_cast<int>(id)) ++readers[roots[id]];  // a view
  }
  for (const Plan::Output& output : plan.outputs) ++readers[output.value];
  for (const Step& step : plan.steps) {
    for (int id : step.inputs) {
      if (id >= 0) ++readers[id];
    }
  }
  std::vector<Between> result;
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const Step& step = plan.steps[s];
    if (!ByLines(step)) continue;
    const int from = step.inputs[0];
    if (from >= 0 && writers[from] >= 0 && readers[from] == 1) {
      const PlannedValue& value = plan.values[from];
      result.push_back(
          {ByteSize(value.dtype, ElementCount(value.dims)), static_cast<size_t>(writers[from]), s});
    }
    writers[step.outputs[0]] = static_cast<int>(s);
  }
  std::sort(result.begin(), result.end(), [](const Between& a, const Between& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.reader < b.reader;
  });
  return result;
}

}  // namespace

void JoinSteps(const Device& device, int threads, const std::vector<int>& roots, Plan* plan) {
  std::vector<Step>& steps = plan->steps;
  for (const Between& between : FindBetween(roots, *plan)) {
    Step &first = steps[between.writer], &second = steps[between.reader];
    if (!ByLines(first) || !ByLines(second)) continue;
    std::optional<Bound> bound = device.Join(first.binding->bound, first.inputs.size(),
                                             second.binding->bound, second.inputs.size(), threads);
    if (!bound) continue;
    std::vector<int>& inputs =
        plan->joined_inputs.emplace_back(first.inputs.begin(), first.inputs.end());
    inputs.insert(inputs.end(), second.inputs.begin() + 1, second.inputs.end());
    second.inputs = inputs;
    second.binding = std::make_shared<const Binding>(Binding{"by lines", std::move(*bound), {}});
    second.joined = std::exchange(first.node, nullptr);
  }
  std::erase_if(steps, [](const Step& step) { return step.node == nullptr; });
}

}  // namespace sardonyx
