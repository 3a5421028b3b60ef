#include <algorithm>

#include "api/describe.h"
#include "base/dtype.h"
#include "kernels/targets.h"
#include "onnx/importer.h"
#include "onnx/schema.h"
#include "onnx/tensor_data.h"
#include "onnx/validate.h"
#include "ops/lowering.h"
#include "passes/pass.h"
#include "sardonyx/sardonyx.hpp"

namespace sardonyx {
namespace {

using onnx::GraphProto;

std::vector<std::string> UnsupportedLines(const onnx::ModelProto& model) {
  std::vector<std::string> lines;
  onnx::ValidateOptions options;
  options.supported = onnx::IsSupported;
  for (const onnx::UnknownOperator& op : onnx::FindUnknownOperators(model, options)) {
    constexpr size_t kShown = 5;
    const size_t shown = std::min(op.nodes.size(), kShown);
    lines.push_back(fmt::format(
        "{}{}{}: {} ({} node{}: {}{})", op.domain, op.domain.empty() ? "" : "::", op.name,
        op.reason, op.nodes.size(), op.nodes.size() == 1 ? "" : "s",
        fmt::join(op.nodes.begin(), op.nodes.begin() + static_cast<int64_t>(shown), ", "),
        op.nodes.size() > kShown ? ", ..." : ""));
  }
  return lines;
}

void CountGraph(const GraphProto& graph, ModelSummary* summary) {
  auto count = [&](const onnx::TensorProto& tensor) {
    int64_t elements = 1;
    for (int64_t dim : tensor.dims) {
      if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements)) {
        Fail(ErrorCode::kInvalidModel, "initializer '{}' has an impossible shape {}",
             tensor.name.Get(), PrintDims(tensor.dims));
      }
    }
    summary->parameters += elements;
    const DType dtype = onnx::ToDType(tensor.data_type.Get());
    if (dtype != DType::kString && elements < (int64_t{1} << 56)) {
      summary->parameter_bytes += ByteSize(dtype, elements);
    }
  };
  for (const auto& tensor : graph.initializer) count(tensor);
  for (const auto& tensor : graph.sparse_initializer) {
    if (tensor.values) count(*tensor.values);
  }
  for (const auto& node : graph.node) {
    const std::string_view domain = onnx::CanonicalDomain(node.domain.Get());
    ++summary->operators[fmt::format("{}{}{}", domain,
                                     domain.empty() ? "" : "::", node.op_type.Get())];
    // Some exporters keep weights in Constant nodes.
    const bool is_constant = domain.empty() && node.op_type.Get() == "Constant";
    for (const auto& attribute : node.attribute) {
      if (is_constant && attribute.t) count(*attribute.t);
      if (attribute.g) CountGraph(*attribute.g, summary);
      for (const auto& body : attribute.graphs) CountGraph(body, summary);
    }
  }
}

}  // namespace

ModelSummary Inspect(const std::string& path) {
  if (IsEngineFile(path)) {
    Fail(ErrorCode::kInvalidArgument,
         "{}: is an engine file, not a model; 'sardonyx inspect' says what is in it", path);
  }
  const auto file = onnx::OpenModel(path);
  return WithContext(file->name, [&] {
    const onnx::ModelProto& model = file->model;
    ModelSummary summary;
    summary.ir_version = model.ir_version.Get();
    summary.producer =
        fmt::format("{} {}", model.producer_name.Get(), model.producer_version.Get());
    for (const auto& opset : model.opset_import) {
      const std::string_view domain = onnx::CanonicalDomain(opset.domain.Get());
      summary.opsets[domain.empty() ? "ai.onnx" : std::string(domain)] = opset.version.Get();
    }
    for (const auto& input : model.graph->input) {
      const auto& initializers = model.graph->initializer;
      const bool is_default =
          std::any_of(initializers.begin(), initializers.end(),
                      [&](const auto& tensor) { return tensor.name.Get() == input.name.Get(); });
      if (!is_default) summary.inputs.push_back(DescribeValue(input));
    }
    for (const auto& output : model.graph->output) summary.outputs.push_back(DescribeValue(output));
    CountGraph(*model.graph, &summary);
    summary.functions = static_cast<int64_t>(model.functions.size());
    summary.unsupported = UnsupportedLines(model);
    for (const auto& property : model.metadata_props) {
      summary.metadata[std::string(property.key.Get())] = property.value.Get();
    }
    return summary;
  });
}

std::vector<std::pair<std::string, std::string>> PassNames() {
  std::vector<std::pair<std::string, std::string>> names;
  for (const Pass& pass : Pipeline()) names.emplace_back(pass.name, pass.reason);
  return names;
}

namespace {

// Whether the schema allows inputs of these types: each by itself, and one type for one parameter.
bool AllowsInputs(const onnx::OpSchema& schema, const std::vector<std::string>& types) {
  if (static_cast<int64_t>(types.size()) > schema.max_inputs) return false;
  std::map<std::string_view, Type> bound;
  for (size_t i = 0; i < types.size(); ++i) {
    const onnx::FormalParameter* parameter = onnx::InputParameter(schema, i);
    if (parameter == nullptr) return false;
    if (types[i].empty()) {
      if (parameter->option == onnx::ParameterOption::kSingle) return false;
      continue;
    }
    const bool bare = types[i].find('(') == std::string::npos;
    const Type type = TypeFromText(bare ? "tensor(" + types[i] + ")" : types[i]);
    if (!onnx::Allows(onnx::TypesOf(schema, *parameter), type)) return false;
    if (parameter->option == onnx::ParameterOption::kVariadic && !parameter->homogeneous) continue;
    const auto [it, inserted] = bound.try_emplace(parameter->type, type);
    if (!inserted && !(it->second == type)) return false;
  }
  return true;
}

}  // namespace

bool Supports(std::string_view op_type, std::string_view domain, int64_t opset,
              const std::vector<std::string>& types) {
  domain = onnx::CanonicalDomain(domain);
  const int newest = std::max(onnx::NewestOpset(domain), 1);
  if (opset == 0) opset = newest;
  if (opset > newest) return false;
  const onnx::OpSchema* schema = onnx::FindSchema(domain, op_type, opset);
  if (schema != nullptr && schema->deprecated) return false;
  if (schema != nullptr && !AllowsInputs(*schema, types)) return false;
  if (ops::FindOnnxOp(domain, op_type) != nullptr)
    return schema != nullptr || onnx::NewestOpset(domain) == 0;
  return schema != nullptr && !schema->bodies.empty();
}

std::string_view Version() { return SARDONYX_VERSION; }

}  // namespace sardonyx
