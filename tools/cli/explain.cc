// sardonyx explain: what each step of a model runs on, and why.

#include <memory>

#include "commands.h"
#include "fmt/format.h"
#include "model_arguments.h"

namespace sardonyx::cli {
namespace {

struct Arguments {
  ModelArguments model;
  bool graph = false;
};

void ExplainModel(const Arguments& arguments) {
  const Session session(arguments.model.model, arguments.model.SessionOptions());
  if (arguments.graph) fmt::print("{}\n", session.GraphText());
  fmt::print("{}", session.Explain(ResolveShapes(session.inputs(), arguments.model.inputs)));
}

}  // namespace

void AddExplain(CLI::App& app, Run* run) {
  CLI::App* command = app.add_subcommand(
      "explain", "Show what each step runs on, what was refused and why, and what the passes did");
  auto arguments = std::make_shared<Arguments>();
  arguments->model.AddTo(*command);
  command->add_flag("--graph", arguments->graph, "print the optimised graph first");
  command->callback([arguments, run] { *run = [arguments] { ExplainModel(*arguments); }; });
}

}  // namespace sardonyx::cli
