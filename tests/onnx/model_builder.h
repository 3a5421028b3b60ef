#pragma once
// Small models for the tests of src/onnx. Names must be literals: messages do not own their text.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "onnx/model.h"
#include "onnx/reader.h"
#include "onnx/writer.h"

namespace sardonyx::onnx {

inline NodeProto MakeNode(std::string_view op_type, std::vector<std::string_view> input,
                          std::vector<std::string_view> output, std::string_view name = {}) {
  NodeProto node;
  node.op_type = op_type;
  node.input = std::move(input);
  node.output = std::move(output);
  if (!name.empty()) node.name = name;
  return node;
}

inline AttributeProto MakeInt(std::string_view name, int64_t value) {
  AttributeProto attribute;
  attribute.name = name;
  attribute.type = static_cast<int32_t>(AttributeType::kInt);
  attribute.i = value;
  return attribute;
}

inline AttributeProto MakeGraphAttribute(std::string_view name, GraphProto graph) {
  AttributeProto attribute;
  attribute.name = name;
  attribute.type = static_cast<int32_t>(AttributeType::kGraph);
  attribute.g.emplace() = std::move(graph);
  return attribute;
}

inline ValueInfoProto MakeValue(std::string_view name) {
  ValueInfoProto value;
  value.name = name;
  return value;
}

inline GraphProto MakeGraph(std::vector<std::string_view> inputs,
                            std::vector<std::string_view> outputs, std::vector<NodeProto> nodes) {
  GraphProto graph;
  for (const auto name : inputs) graph.input.push_back(MakeValue(name));
  for (const auto name : outputs) graph.output.push_back(MakeValue(name));
  graph.node = std::move(nodes);
  return graph;
}

inline OperatorSetIdProto MakeImport(std::string_view domain, int64_t version) {
  OperatorSetIdProto import;
  if (!domain.empty()) import.domain = domain;
  import.version = version;
  return import;
}

inline ModelProto MakeModel(GraphProto graph, int64_t opset = 21) {
  ModelProto model;
  model.ir_version = 10;
  model.opset_import.push_back(MakeImport("", opset));
  model.graph.emplace() = std::move(graph);
  return model;
}

// x -> Relu -> y
inline ModelProto MakeReluModel() {
  return MakeModel(MakeGraph({"x"}, {"y"}, {MakeNode("Relu", {"x"}, {"y"}, "relu")}));
}

// Expects that body throws an Error with this code, whose message holds all these parts.
template <typename Body>
void ExpectError(ErrorCode code, const std::vector<std::string>& parts, Body&& body) {
  try {
    body();
    FAIL() << "no error; expected one with: " << (parts.empty() ? "" : parts.front());
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    for (const std::string& part : parts) {
      EXPECT_NE(std::string_view(error.what()).find(part), std::string_view::npos)
          << "'" << part << "' is not in: " << error.what();
    }
  }
}

// A folder of its own, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sardonyx-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(std::string_view name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline void WriteFile(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<int64_t>(bytes.size()));
}

}  // namespace sardonyx::onnx
