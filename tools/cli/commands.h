#pragma once
// The commands. Each adds itself to the command line; `run` of the one that was chosen is called
// after parsing, and throws Error.

#include <functional>

#include "CLI/CLI.hpp"

namespace sardonyx::cli {

using Run = std::function<void()>;

void AddRun(CLI::App& app, Run* run);
void AddBench(CLI::App& app, Run* run);
void AddCompile(CLI::App& app, Run* run);
void AddInspect(CLI::App& app, Run* run);
void AddExplain(CLI::App& app, Run* run);

}  // namespace sardonyx::cli
