// sardonyx run: one run, its outputs as a table or files.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <complex>
#include <filesystem>
#include <memory>

#include "commands.h"
#include "files.h"
#include "fmt/format.h"
#include "model_arguments.h"
#include "npy.h"
#include "table.h"
#include "zip.h"

namespace sardonyx::cli {
namespace {

struct Arguments {
  ModelArguments model;
  std::string output;
  std::string profile;
  std::vector<std::string> outputs;
};

// The elements as float64, where they are real numbers or bools.
Tensor NumbersOf(const Tensor& tensor) {
  const bool real = DTypeIsFloat(tensor.dtype()) || DTypeIsInteger(tensor.dtype());
  return real || tensor.dtype() == DType::kBool ? Converted(tensor, DType::kFloat64) : Tensor();
}

std::string PrintComplex(std::complex<double> value) {
  return fmt::format("{:.6g}{:+.6g}j", value.real(), value.imag());
}

std::string PrintElement(const Tensor& tensor, const Tensor& numbers, int64_t i) {
  switch (tensor.dtype()) {
    case DType::kString: return fmt::format("\"{}\"", tensor.data<std::string>()[i]);
    case DType::kInt64: return std::to_string(tensor.data<int64_t>()[i]);
    case DType::kUInt64: return std::to_string(tensor.data<uint64_t>()[i]);
    case DType::kComplex64: return PrintComplex(tensor.data<std::complex<float>>()[i]);
    case DType::kComplex128: return PrintComplex(tensor.data<std::complex<double>>()[i]);
    default: return fmt::format("{:.6g}", numbers.data<double>()[i]);
  }
}

std::string FirstElements(const Tensor& tensor, const Tensor& numbers) {
  constexpr int64_t kShown = 5;
  std::string text;
  for (int64_t i = 0; i < std::min(tensor.size(), kShown); ++i) {
    text += (i > 0 ? " " : "") + PrintElement(tensor, numbers, i);
  }
  return tensor.size() > kShown ? text + " ..." : text;
}

// Minimum, mean and maximum, empty for what is not a real number.
std::array<std::string, 3> Statistics(const Tensor& tensor, const Tensor& numbers) {
  if (numbers.size() == 0 || tensor.dtype() == DType::kBool) return {};
  double low = INFINITY;
  double high = -INFINITY;
  double sum = 0;
  for (int64_t i = 0; i < numbers.size(); ++i) {
    const double value = numbers.data<double>()[i];
    low = std::min(low, value);
    high = std::max(high, value);
    sum += value;
  }
  if (low > high) low = high = NAN;  // there is nothing else
  auto print = [](double value) { return fmt::format("{:.6g}", value); };
  return {print(low), print(sum / static_cast<double>(numbers.size())), print(high)};
}

void AddRows(const std::string& name, const Datum& datum,
             std::vector<std::vector<std::string>>* rows) {
  if (const Tensor* tensor = datum.tensor()) {
    const Tensor numbers = NumbersOf(*tensor);
    auto [low, mean, high] = Statistics(*tensor, numbers);
    rows->push_back({name, std::string(DTypeName(tensor->dtype())), PrintShape(tensor->dims()), low,
                     mean, high, FirstElements(*tensor, numbers)});
  } else if (const Sequence* sequence = datum.sequence()) {
    rows->push_back({name, "sequence", fmt::format("of {}", sequence->size())});
    for (size_t i = 0; i < sequence->size(); ++i) {
      AddRows(fmt::format("{}.{}", name, i), (*sequence)[i], rows);
    }
  } else if (const Map* map = datum.map()) {
    rows->push_back({name, "map", fmt::format("of {}", map->values.size())});
    for (size_t i = 0; i < map->values.size(); ++i) {
      AddRows(fmt::format("{}[{}]", name, PrintElement(map->keys, {}, static_cast<int64_t>(i))),
              map->values[i], rows);
    }
  } else {
    rows->push_back({name, "nothing"});
  }
}

using Files = std::vector<std::pair<std::string, std::string>>;

// Arrays by name; those of a sequence are numbered.
void AddFiles(const std::string& name, const Datum& datum, Files* files) {
  if (const Tensor* tensor = datum.tensor()) {
    files->emplace_back(name + ".npy", WriteNpy(*tensor));
  } else if (const Sequence* sequence = datum.sequence()) {
    for (size_t i = 0; i < sequence->size(); ++i) {
      AddFiles(fmt::format("{}.{}", name, i), (*sequence)[i], files);
    }
  } else if (datum.map() != nullptr) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("output '{}' is a map, which has no .npy file", name));
  }
}

// A name may hold what a file's name must not.
std::string FileName(std::string name) {
  for (char& c : name) {
    if (c == '/' || c == '\\' || c == ':' || static_cast<uint8_t>(c) < 0x20) c = '_';
  }
  return name;
}

void WriteOutputs(const std::string& target, const Files& files) {
  if (EndsWith(target, ".npz")) {
    WriteFile(target, WriteZip(files));
    fmt::print("wrote {}\n", target);
    return;
  }
  std::error_code error;
  std::filesystem::create_directories(target, error);
  if (error) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: cannot make the folder: {}", target, error.message()));
  }
  for (const auto& [name, content] : files) {
    const std::string path = (std::filesystem::path(target) / FileName(name)).string();
    WriteFile(path, content);
    fmt::print("wrote {}\n", path);
  }
}

void RunModel(const Arguments& arguments) {
  Session session(arguments.model.model, arguments.model.SessionOptions());
  const NamedData inputs = MakeInputs(session.inputs(), arguments.model.inputs);
  std::vector<std::string> names = arguments.outputs;
  if (names.empty()) {
    for (const ValueInfo& info : session.outputs()) names.push_back(info.name);
  }
  if (!arguments.profile.empty()) session.StartProfile();
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Datum> values = session.Run(inputs, arguments.outputs);
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;

  std::vector<std::vector<std::string>> rows = {
      {"output", "type", "shape", "min", "mean", "max", "first elements"}};
  Files files;
  for (size_t i = 0; i < values.size(); ++i) {
    AddRows(names[i], values[i], &rows);
    if (!arguments.output.empty()) AddFiles(names[i], values[i], &files);
  }
  PrintTable(rows, {3, 4, 5});
  fmt::print("ran in {:.3f} ms, threads: {}\n", elapsed.count(), session.options().threads);
  if (!arguments.output.empty()) WriteOutputs(arguments.output, files);
  if (!arguments.profile.empty()) {
    session.StopProfile();
    WriteFile(arguments.profile, session.ProfileTrace());
    fmt::print("\n{}\nwrote {} (chrome://tracing or ui.perfetto.dev show it)\n",
               session.ProfileSummary(), arguments.profile);
  }
}

}  // namespace

void AddRun(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand("run", "Run a model once, show its outputs or write them");
  auto arguments = std::make_shared<Arguments>();
  arguments->model.AddTo(*command);
  arguments->model.AddInputsTo(*command);
  command->add_option("-o,--output", arguments->output, "write outputs: a folder, or a .npz file")
      ->type_name("PATH");
  command
      ->add_option("--outputs", arguments->outputs, "values wanted: outputs, or any of the graph")
      ->type_name("A,B")
      ->delimiter(',')
      ->allow_extra_args(false);
  command->add_option("--profile", arguments->profile, "write the times of all steps as a trace")
      ->type_name("FILE.json");
  command->callback([arguments, run] { *run = [arguments] { RunModel(*arguments); }; });
}

}  // namespace sardonyx::cli
