#pragma once
// The model that an engine file was compiled from, found again beside it.

#include <memory>
#include <string>
#include <vector>

#include "engine/engine_file.h"
#include "onnx/reader.h"

namespace sardonyx {

// What an engine file at `engine` remembers of a model's files; nothing if the model has no path.
// Throws kInvalidArgument if it would replace one of them.
std::vector<engine::SourceFile> RememberSources(const onnx::ModelFile& model,
                                                const std::string& engine);

// The path of the model, whose files are all as they were. Throws kNotFound, saying what is missing
// or has changed and why the model is needed.
std::string FindSource(const engine::Provenance& provenance, const std::string& engine,
                       std::string_view why);

}  // namespace sardonyx
