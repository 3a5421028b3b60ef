#pragma once
// What every command that runs a model takes.

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "inputs.h"

namespace sardonyx::cli {

struct ModelArguments {
  std::string model;
  int threads = 0;
  std::vector<std::string> disabled_passes;
  std::string tuning = "estimate";
  bool no_winograd = false;
  bool recompile = false;
  InputArguments inputs;

  // MODEL, --threads, --shape, --tuning, --no-winograd, --disable-pass; and --recompile, where
  // MODEL may be an engine file.
  void AddTo(CLI::App& command, bool engine_files = true);
  // --input, --seed
  void AddInputsTo(CLI::App& command);
  Options SessionOptions() const;
};

}  // namespace sardonyx::cli
