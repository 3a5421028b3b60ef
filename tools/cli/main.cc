// The command line `sardonyx`.

#include <algorithm>
#include <exception>
#include <new>

#include "commands.h"
#include "fmt/format.h"
#include "sardonyx/sardonyx.hpp"

namespace sardonyx::cli {
namespace {

int Main(int argc, char** argv) {
  CLI::App app("Runs ONNX models.", "sardonyx");
  app.set_version_flag("--version", fmt::format("sardonyx {}", Version()));
  app.require_subcommand(1);
  Run run;
  AddRun(app, &run);
  AddBench(app, &run);
  AddCompile(app, &run);
  AddInspect(app, &run);
  AddExplain(app, &run);
  // Behind the commands, which would take it over.
  app.footer(
      "'sardonyx COMMAND --help' tells more. For example:\n"
      "  sardonyx inspect model.onnx\n"
      "  sardonyx run model.onnx --input x=photo.npy --output results\n"
      "  sardonyx bench model.onnx --shape x=1x3x224x224 --threads 2 --seconds 5\n"
      "  sardonyx compile model.onnx --shape x=1x3x224x224 --output model.sdx");
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  const bool known = argc < 2 || argv[1][0] == '-' ||
                     std::any_of(
                         commands.begin(), commands.end(),
                         [&](const CLI::App* command) { return command->get_name() == argv[1]; });
  if (!known) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("there is no command '{}'; 'sardonyx --help' lists them", argv[1]));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }
  run();
  return 0;
}

}  // namespace
}  // namespace sardonyx::cli

int main(int argc, char** argv) {
  try {
    return sardonyx::cli::Main(argc, argv);
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "sardonyx: out of memory\n");
  } catch (const std::exception& error) {
    fmt::print(stderr, "sardonyx: {}\n", error.what());
  }
  return 1;
}
