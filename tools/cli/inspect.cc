// sardonyx inspect: what a model is, also if it cannot run.

#include <algorithm>
#include <memory>

#include "commands.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "sardonyx/sardonyx.hpp"
#include "table.h"

namespace sardonyx::cli {
namespace {

void PrintValues(const char* title, const std::vector<ValueInfo>& values) {
  fmt::print("{}\n", title);
  std::vector<std::vector<std::string>> rows;
  for (const ValueInfo& info : values) rows.push_back({info.name, info.type, PrintShape(info)});
  PrintTable(rows);
}

// The start of a text, on one line.
std::string OneLine(std::string text) {
  constexpr size_t kShown = 80;
  const bool is_long = text.size() > kShown;
  if (is_long) {
    text.resize(kShown);
    while (!text.empty() && (static_cast<uint8_t>(text.back()) & 0x80) != 0) text.pop_back();
  }
  for (char& c : text) {
    if (static_cast<uint8_t>(c) < 0x20) c = ' ';
  }
  return is_long ? text + " ..." : text;
}

void InspectModel(const std::string& path) {
  if (IsEngineFile(path)) {
    fmt::print("{}\n{}", path, DescribeEngine(path));
    return;
  }
  const ModelSummary summary = Inspect(path);
  std::vector<std::string> opsets;
  for (const auto& [domain, version] : summary.opsets) {
    opsets.push_back(fmt::format("{} {}", domain, version));
  }
  fmt::print("{}\n", path);
  PrintTable({{"producer", summary.producer},
              {"IR version", std::to_string(summary.ir_version)},
              {"opsets", fmt::format("{}", fmt::join(opsets, ", "))},
              {"parameters", fmt::format("{} ({})", summary.parameters,
                                         PrintBytes(static_cast<double>(summary.parameter_bytes)))},
              {"functions", std::to_string(summary.functions)}});
  PrintValues("inputs", summary.inputs);
  PrintValues("outputs", summary.outputs);

  std::vector<std::pair<std::string, int64_t>> operators(summary.operators.begin(),
                                                         summary.operators.end());
  std::sort(operators.begin(), operators.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  int64_t nodes = 0;
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, count] : operators) {
    nodes += count;
    rows.push_back({std::to_string(count), name});
  }
  fmt::print("operators ({} nodes)\n", nodes);
  PrintTable(rows, {0});
  if (!summary.metadata.empty()) {
    fmt::print("metadata\n");
    rows.clear();
    for (const auto& [key, value] : summary.metadata) rows.push_back({key, OneLine(value)});
    PrintTable(rows);
  }
  if (summary.unsupported.empty()) {
    fmt::print("every operator can run\n");
    return;
  }
  fmt::print("operators that cannot run\n");
  for (const std::string& line : summary.unsupported) fmt::print("  {}\n", line);
}

}  // namespace

void AddInspect(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand(
      "inspect", "Show inputs, outputs, opsets, operators, parameters and what cannot run");
  auto path = std::make_shared<std::string>();
  command->add_option("model", *path, "ONNX or engine file")->required()->type_name("FILE");
  command->callback([path, run] { *run = [path] { InspectModel(*path); }; });
}

}  // namespace sardonyx::cli
