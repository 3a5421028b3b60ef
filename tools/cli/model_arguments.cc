#include "model_arguments.h"

#include <algorithm>

#include "fmt/format.h"

namespace sardonyx::cli {

void ModelArguments::AddTo(CLI::App& command, bool engine_files) {
  command
      .add_option("model", model,
                  engine_files ? "ONNX file, or engine file of 'sardonyx compile'" : "ONNX file")
      ->required()
      ->type_name("FILE");
  command.add_option("-t,--threads", threads, "threads a run may use; 0: all the machine gives")
      ->check(CLI::Range(0, 1024))
      ->type_name("N");
  command
      .add_option("-s,--shape", inputs.shapes,
                  "shape of an input, x=1x3x224x224, or size of a named dimension, batch=4; "
                  "1 where nothing is said")
      ->type_name("NAME=SIZES")
      ->allow_extra_args(false);
  command
      .add_option("--tuning", tuning,
                  "how kernels are chosen: by estimate, or by measure "
                  "(tries candidates on the shapes at hand, tells each)")
      ->check(CLI::IsMember({"estimate", "measure"}))
      ->capture_default_str()
      ->type_name("HOW");
  command.add_flag("--no-winograd", no_winograd,
                   "convolutions by direct sums alone: slower, rounds somewhat less");
  if (engine_files) {
    command.add_flag("--recompile", recompile,
                     "compile an engine file again, from the model it names, if it cannot be used");
  }
  command.add_option("--disable-pass", disabled_passes, "leave out a rewrite; explain lists them")
      ->type_name("NAME")
      ->allow_extra_args(false);
}

void ModelArguments::AddInputsTo(CLI::App& command) {
  command
      .add_option("-i,--input", inputs.inputs,
                  "value of an input: NAME=FILE (.npy, .npz, .pb), NAME=random, NAME=NUMBER (fills "
                  "it), or FILE.npz with arrays by name; random where nothing is said")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  command.add_option("--seed", inputs.seed, "of random inputs: reals in [0,1), integers 0 or 1")
      ->type_name("N");
}

Options ModelArguments::SessionOptions() const {
  const auto passes = PassNames();
  for (const std::string& name : disabled_passes) {
    const bool known = std::any_of(passes.begin(), passes.end(),
                                   [&](const auto& pass) { return pass.first == name; });
    if (!known) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("--disable-pass {}: there is no such pass; 'sardonyx explain' lists them",
                      name));
    }
  }
  Options options;
  options.threads = threads;
  options.disabled_passes = disabled_passes;
  options.recompile = recompile;
  options.tuning = tuning == "measure" ? Tuning::kMeasure : Tuning::kEstimate;
  options.winograd = !no_winograd;
  options.progress = [](const std::string& line) { fmt::print(stderr, "tuning {}\n", line); };
  return options;
}

}  // namespace sardonyx::cli
