#pragma once
// From a model file to the graph of core operations: every node is validated, brought to the newest
// form of its operator, and lowered; functions are inlined; bodies become closed graphs.

#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "onnx/reader.h"

namespace sardonyx::onnx {

struct ImportOptions {
  // Names of values of the main graph that are outputs too, after the model's own.
  std::vector<std::string> extra_outputs;
  // Inputs with an initializer (a default value) that the caller wants to give itself; all others
  // of that kind are constants.
  std::vector<std::string> overridden_inputs;
  // Sizes of inputs are each its own, also those that the model calls by one name.
  bool names_apart = false;
};

struct ImportedModel {
  std::unique_ptr<Graph> graph;
  // Names by position; two outputs may be the same value under two names.
  std::vector<std::string> input_names;
  std::vector<std::string> output_names;
  // Inputs that have a default and are therefore not in input_names.
  std::vector<std::string> default_inputs;
};

// Throws sardonyx::Error naming the file and the node. Validates the model first.
ImportedModel ImportModel(const std::shared_ptr<const ModelFile>& file,
                          const ImportOptions& options = {});
// The same for messages of the file that are given away: their long lists move to the graph.
ImportedModel ImportModel(const ModelFile& file, ModelProto messages,
                          const ImportOptions& options = {});

// Whether an operator of that domain ("" is the default) can run: it has a lowering, or a body of
// the standard.
bool IsSupported(std::string_view domain, std::string_view name);

}  // namespace sardonyx::onnx
