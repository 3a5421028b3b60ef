// sardonyx compile: a model as an engine file.

#include <chrono>
#include <memory>

#include "commands.h"
#include "fmt/format.h"
#include "model_arguments.h"

namespace sardonyx::cli {
namespace {

struct Arguments {
  ModelArguments model;
  std::string output;
  bool compact = false;
};

void CompileModel(const Arguments& arguments) {
  const Options options = arguments.model.SessionOptions();
  CompileOptions compile;
  compile.compact = arguments.compact;
  compile.shapes = {ResolveShapes(Inspect(arguments.model.model).inputs, arguments.model.inputs)};
  const auto start = std::chrono::steady_clock::now();
  Compile(arguments.model.model, arguments.output, options, compile);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  fmt::print("wrote {} in {:.2f} s\n", arguments.output, elapsed.count());
}

}  // namespace

void AddCompile(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand(
      "compile", "Write a model as an engine file, which loads in milliseconds on this machine");
  auto arguments = std::make_shared<Arguments>();
  arguments->model.AddTo(*command, /*engine_files=*/false);
  command->add_option("-o,--output", arguments->output, "engine file to write, by custom .sdx")
      ->required()
      ->type_name("FILE");
  command->add_flag("--compact", arguments->compact,
                    "leave out weights that the given shapes need in packed form alone; other "
                    "shapes may then need the model beside the engine file");
  command->callback([arguments, run] { *run = [arguments] { CompileModel(*arguments); }; });
}

}  // namespace sardonyx::cli
