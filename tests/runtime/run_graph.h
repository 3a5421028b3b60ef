#pragma once
// Graphs as programs on the CPU, in tests.

#include <memory>
#include <string>
#include <vector>

#include "../passes/graph_text.h"
#include "devices/cpu/cpu_device.h"
#include "ops/evaluate.h"
#include "passes/pass.h"
#include "runtime/program.h"

namespace sardonyx {

inline std::unique_ptr<Program> MakeProgram(std::shared_ptr<Graph> graph, int threads = 1,
                                            size_t max_plans = 8) {
  ProgramOptions options;
  options.threads = threads;
  options.max_plans = max_plans;
  options.optimize = [](Graph& lowered) { Optimize(lowered); };
  return std::make_unique<Program>(std::move(graph), CpuDevice(), std::make_shared<PackCache>(),
                                   std::move(options));
}

inline std::unique_ptr<Program> MakeProgram(const std::string& text, int threads = 1,
                                            size_t max_plans = 8) {
  return MakeProgram(std::shared_ptr<Graph>(Parse(text)), threads, max_plans);
}

inline std::vector<std::vector<int64_t>> DimsOf(const std::vector<Datum>& inputs) {
  std::vector<std::vector<int64_t>> dims;
  for (const Datum& input : inputs) {
    dims.push_back(input.tensor() != nullptr ? input.tensor()->dims() : std::vector<int64_t>());
  }
  return dims;
}

// Random inputs of a graph; dimensions that it does not say are other ones for each seed.
inline std::vector<Datum> RandomInputs(const Graph& graph, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Datum> inputs;
  for (const Value* input : graph.inputs) {
    std::vector<int64_t> dims;
    for (const Dim dim : *input->fact.shape) {
      dims.push_back(dim.known() ? dim.value() : 5 + 6 * static_cast<int64_t>(seed));
    }
    inputs.emplace_back(RandomTensor(input->fact.type.dtype, dims, random));
  }
  return inputs;
}

inline void ExpectSameAll(const std::vector<Datum>& actual, const std::vector<Datum>& expected,
                          double tolerance = 2e-4) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    SCOPED_TRACE("output " + std::to_string(i));
    ExpectSame(actual[i], expected[i], tolerance);
  }
}

// Runs the program several times, on other numbers each time, and compares with the reference.
inline void ExpectRuns(Program& program, std::vector<Datum> inputs) {
  std::mt19937 random(3);
  for (int run = 0; run < 3; ++run) {
    const std::vector<Datum> expected = Evaluate(program.graph(), inputs);
    ExpectSameAll(program.Run(inputs), expected);
    for (Datum& input : inputs) {
      if (input.tensor() == nullptr || input.tensor()->dtype() != DType::kFloat32) continue;
      input = RandomTensor(DType::kFloat32, input.tensor()->dims(), random);
    }
  }
}

}  // namespace sardonyx
