#pragma once
// Inputs of a run from the command line.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sardonyx/sardonyx.hpp"

namespace sardonyx::cli {

struct InputArguments {
  // "name=file.npy", "name=file.pb", "name=random", "name=number", "name=file.npz" or "file.npz".
  std::vector<std::string> inputs;
  // "name=1x3x224x224" of an input, or "symbol=4" of a named dimension.
  std::vector<std::string> shapes;
  uint64_t seed = 0;
};

// Shapes of the inputs that are tensors: as given, or as declared, with 1 for sizes that neither
// says. Each such size is told on the standard error stream. Throws Error for names that are not
// there.
NamedShapes ResolveShapes(const std::vector<ValueInfo>& inputs, const InputArguments& arguments);

// Values of all inputs; those not given are random. Throws Error.
NamedData MakeInputs(const std::vector<ValueInfo>& inputs, const InputArguments& arguments);

}  // namespace sardonyx::cli
