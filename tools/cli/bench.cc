// sardonyx bench: how fast a model loads and runs, and the memory it takes.

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "commands.h"
#include "files.h"
#include "fmt/format.h"
#include "model_arguments.h"
#include "table.h"

namespace sardonyx::cli {
namespace {

using Clock = std::chrono::steady_clock;

double MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

double PeakBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

struct Arguments {
  ModelArguments model;
  double seconds = 5;
  std::string profile;
};

// Of some more runs, for timing the steps takes a little.
void Profile(Session& session, const NamedData& inputs, const std::string& path) {
  constexpr int kRuns = 20;
  session.StartProfile();
  for (int i = 0; i < kRuns; ++i) session.Run(inputs);
  session.StopProfile();
  WriteFile(path, session.ProfileTrace());
  fmt::print("\n{} more runs\n{}\nwrote {} (chrome://tracing or ui.perfetto.dev show it)\n", kRuns,
             session.ProfileSummary(), path);
}

// Of ascending values, by the nearest rank.
double Percentile(const std::vector<double>& sorted, double percent) {
  const auto rank = static_cast<size_t>(percent / 100 * static_cast<double>(sorted.size()));
  return sorted[std::min(rank, sorted.size() - 1)];
}

void BenchModel(const Arguments& arguments) {
  const double before = PeakBytes();
  auto start = Clock::now();
  Session session(arguments.model.model, arguments.model.SessionOptions());
  const double load = MillisecondsSince(start);
  const NamedData inputs = MakeInputs(session.inputs(), arguments.model.inputs);

  start = Clock::now();
  session.Run(inputs);
  const double first = MillisecondsSince(start);

  std::vector<double> times;
  const auto begin = Clock::now();
  do {
    start = Clock::now();
    session.Run(inputs);
    times.push_back(MillisecondsSince(start));
  } while (MillisecondsSince(begin) < arguments.seconds * 1000);
  const double total = MillisecondsSince(begin);
  std::sort(times.begin(), times.end());

  fmt::print("{}\n", arguments.model.model);
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, datum] : inputs) {
    if (const Tensor* tensor = datum.tensor()) {
      rows.push_back({"input " + name, fmt::format("{} {}", DTypeName(tensor->dtype()),
                                                   PrintShape(tensor->dims()))});
    }
  }
  auto time = [](double milliseconds) { return fmt::format("{:.3f} ms", milliseconds); };
  rows.push_back({"threads", fmt::format("{} ({})", session.options().threads, TargetName())});
  rows.push_back({"load", time(load)});
  rows.push_back({"first run", time(first)});
  rows.push_back({"runs", fmt::format("{} in {:.2f} s", times.size(), total / 1000)});
  rows.push_back({"latency min", time(times.front())});
  for (const int percent : {50, 90, 99}) {
    rows.push_back({fmt::format("latency p{}", percent), time(Percentile(times, percent))});
  }
  rows.push_back({"latency max", time(times.back())});
  rows.push_back({"throughput",
                  fmt::format("{:.2f} runs/s", static_cast<double>(times.size()) / total * 1000)});
  const double peak = PeakBytes();
  rows.push_back({"peak memory",
                  fmt::format("{} ({} before the model)", PrintBytes(peak), PrintBytes(before))});
  PrintTable(rows);
  if (!arguments.profile.empty()) Profile(session, inputs, arguments.profile);
}

}  // namespace

void AddBench(CLI::App& app, Run* run) {
  CLI::App* command =
      app.add_subcommand("bench", "Measure latency, throughput, loading and memory");
  auto arguments = std::make_shared<Arguments>();
  arguments->model.AddTo(*command);
  arguments->model.AddInputsTo(*command);
  command->add_option("--seconds", arguments->seconds, "how long to measure")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 86400.0))
      ->type_name("S");
  command->add_option("--profile", arguments->profile, "write the times of all steps as a trace")
      ->type_name("FILE.json");
  command->callback([arguments, run] { *run = [arguments] { BenchModel(*arguments); }; });
}

}  // namespace sardonyx::cli
