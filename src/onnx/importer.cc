#include "onnx/importer.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "onnx/attribute_defaults.h"
#include "onnx/differentiated.h"
#include "onnx/node_order.h"
#include "onnx/schema.h"
#include "onnx/scope.h"
#include "onnx/tensor_data.h"
#include "onnx/types.h"
#include "onnx/validate.h"
#include "ops/control/body.h"
#include "ops/gradient/gradient.h"
#include "ops/lowering.h"
#include "ops/vocabulary.h"

namespace sardonyx::onnx {
namespace {

constexpr int kMaxFunctionDepth = 64;

// What a node inside a function body may refer to: the attributes of the call.
using AttributeMap = std::map<std::string_view, const AttributeProto*>;

// The surroundings of a list of nodes: their opset versions and, in a function, its arguments.
struct Surroundings {
  const std::vector<OperatorSetIdProto>* opsets;
  const AttributeMap* arguments = nullptr;
  std::shared_ptr<const Origin> call =
      nullptr;  // nodes of an inlined standard function carry its origin
  int depth = 0;
  const std::vector<NodeProto>* nodes = nullptr;  // the list itself
  std::vector<NodeProto>* own_nodes = nullptr;    // the same if its lists of numbers may be taken
  bool may_fail = false;  // in a branch: nodes that cannot work for what they are given stay whole
};

class Importer {
 public:
  // `own`: the model, if nobody else reads it.
  Importer(const ModelFile& file, const ModelProto& model, ModelProto* own)
      : file_(file), model_(model), own_(own) {}

  ImportedModel Run(const ImportOptions& options) {
    const GraphProto& proto = *model_.graph;
    ImportedModel result;
    result.graph = std::make_unique<Graph>();
    Graph& graph = *result.graph;
    graph.name = proto.name.Get();
    Scope scope(graph, nullptr, [this](const TensorProto& t) { return ReadTensor(t, file_); });
    std::set<std::string_view> defaults;
    for (const TensorProto& tensor : proto.initializer) {
      scope.AddInitializer(tensor.name.Get(), &tensor);
      defaults.insert(tensor.name.Get());
    }
    for (const SparseTensorProto& tensor : proto.sparse_initializer) {
      const std::string_view name = tensor.values ? tensor.values->name.Get() : "";
      scope.Bind(name, graph.AddConstant(ReadSparseTensor(tensor, file_), std::string(name)));
      defaults.insert(name);
    }
    for (const ValueInfoProto& input : proto.input) {
      const std::string name(input.name.Get());
      const bool overridden =
          std::find(options.overridden_inputs.begin(), options.overridden_inputs.end(), name) !=
          options.overridden_inputs.end();
      if (defaults.contains(name) && !overridden) {
        result.default_inputs.push_back(name);
        continue;
      }
      if (!input.type) {
        Fail(ErrorCode::kInvalidModel, "input '{}' of the graph has no type", name);
      }
      Fact fact = ToFact(*input.type, graph.symbols());
      if (options.names_apart && fact.ranked()) {
        for (Dim& dim : *fact.shape) dim = dim.known() ? dim : graph.symbols().Fresh();
      }
      scope.Bind(input.name.Get(), graph.AddInput(name, std::move(fact)));
      result.input_names.push_back(name);
    }
    ImportNodes(proto.node, scope,
                {.opsets = &model_.opset_import,
                 .own_nodes = own_ != nullptr ? &own_->graph->node : nullptr});
    for (const ValueInfoProto& output : proto.output) {
      AddOutput(output.name.Get(), scope, &result);
    }
    for (const std::string& name : options.extra_outputs) AddOutput(name, scope, &result);
    KeepNamesApart(graph);
    return result;
  }

 private:
  void AddOutput(std::string_view name, Scope& scope, ImportedModel* result) {
    Value* value = scope.Find(name);
    if (value == nullptr) {
      Fail(ErrorCode::kInvalidArgument,
           "the graph has no value '{}' to give as an output; the model's outputs are {}", name,
           fmt::join(result->output_names, ", "));
    }
    result->graph->outputs.push_back(value);
    result->output_names.emplace_back(name);
  }

  void ImportNodes(const std::vector<NodeProto>& nodes, Scope& scope, const Surroundings& around) {
    Surroundings within = around;
    within.nodes = &nodes;
    if (within.own_nodes != &nodes) within.own_nodes = nullptr;  // a body's
    for (const NodeProto& node : nodes) ImportNode(node, scope, within);
  }

  void ImportNode(const NodeProto& node, Scope& scope, const Surroundings& around) {
    const std::string_view domain = CanonicalDomain(node.domain.Get());
    const int64_t opset = ImportedOpset(*around.opsets, domain);
    if (const FunctionProto* function = FindFunction(model_, node)) {
      WithContext(DescribeNode(node, opset), [&] { InlineCall(node, *function, scope, around); });
      return;
    }
    const OpSchema* schema = FindSchema(domain, node.op_type.Get(), opset);
    auto origin = around.call;
    if (origin == nullptr) {
      Origin made;
      made.name = node.name.Get();
      if (made.name.empty() && !node.output.empty()) made.name = node.output[0];
      made.op_type =
          (domain.empty() ? "" : std::string(domain) + ".") + std::string(node.op_type.Get());
      made.version = schema != nullptr ? schema->since_version : static_cast<int>(opset);
      origin = std::make_shared<const Origin>(std::move(made));
    }
    Builder builder(scope.graph());
    builder.SetOrigin(origin);
    try {
      LowerNode(node, domain, opset, schema, builder, scope, around);
    } catch (const Error& error) {
      // Errors of inference name the node already.
      const std::string name = Print(*origin);
      if (std::string_view(error.what()).find(name) != std::string_view::npos) throw;
      throw Error(error.code(), name + ": " + error.what());
    }
  }

  void LowerNode(const NodeProto& node, std::string_view domain, int64_t opset,
                 const OpSchema* schema, Builder& builder, Scope& scope,
                 const Surroundings& around) {
    std::vector<Val> inputs;
    for (std::string_view name : node.input) {
      Value* value = name.empty() ? nullptr : scope.Find(name);
      if (value == nullptr && !name.empty()) {
        Fail(ErrorCode::kInvalidModel, "input '{}' is not defined", name);
      }
      inputs.push_back(value != nullptr ? builder.Wrap(value) : Val{});
    }
    if (schema != nullptr) CheckTypes(*schema, inputs);
    if (IsGradient(domain, node.op_type.Get())) {
      return ImportGradient(node, builder, inputs, scope, around);
    }
    const bool lowered = ops::FindOnnxOp(domain, node.op_type.Get()) != nullptr;
    if (!lowered && schema != nullptr) {
      const std::string_view body = FunctionBody(*schema, ImportedOpset(*around.opsets, ""));
      if (!body.empty()) {
        const FunctionProto function = ParseFunction(body, "function body of the standard");
        InlineStandard(node, *schema, function, builder.origin(), scope, around);
        return;
      }
    }
    Attributes attributes;
    if (schema != nullptr) AddDefaults(*schema, &attributes);
    std::vector<const AttributeProto*> graphs;
    NodeProto* own = around.own_nodes != nullptr
                         ? &(*around.own_nodes)[&node - around.own_nodes->data()]
                         : nullptr;
    for (size_t i = 0; i < node.attribute.size(); ++i) {
      const AttributeProto& given = node.attribute[i];
      const AttributeProto* attribute = Resolve(given, around);
      if (attribute == nullptr) continue;
      if (TypeOf(*attribute) == AttributeType::kGraph) {
        graphs.push_back(attribute);
      } else if (own != nullptr) {
        attributes.Set(given.name.Get(), TakeAttribute(&own->attribute[i]));
      } else {
        attributes.Set(given.name.Get(), ToAttribute(*attribute));
      }
    }
    if (!graphs.empty()) ImportBodies(node, graphs, builder, scope, around, &inputs, &attributes);
    std::vector<bool> wanted;
    for (std::string_view name : node.output) wanted.push_back(!name.empty());
    ops::Lowering lowering(builder, std::string(domain), std::string(node.op_type.Get()),
                           schema != nullptr ? schema->since_version : static_cast<int>(opset),
                           std::move(attributes), std::move(inputs), wanted);
    std::vector<Type> types = OutputTypes(schema, node, lowering.inputs);
    for (size_t i = 0; i < types.size(); ++i) {
      if (types[i].is_tensor() && types[i].dtype == DType::kUndefined) {
        types[i] = DeclaredType(node.output[i]);
      }
    }
    const std::vector<Val> outputs = ops::Lower(lowering, types, around.may_fail);
    for (size_t i = 0; i < node.output.size(); ++i) {
      if (node.output[i].empty()) continue;
      if (i >= outputs.size() || !outputs[i]) {
        Fail(ErrorCode::kUnsupported, "output {} ('{}') is not implemented", i, node.output[i]);
      }
      Bind(node.output[i], outputs[i].value, scope);
    }
  }

  // The nodes between xs, zs and y once more, with the node's inputs in place of xs and zs, and
  // then their derivatives. Where these inputs are xs and zs themselves, passes merge what stands
  // twice.
  void ImportGradient(const NodeProto& node, Builder& builder, const std::vector<Val>& inputs,
                      Scope& outer, const Surroundings& around) {
    const auto &xs = StringsOf(node, "xs"), &zs = StringsOf(node, "zs");
    if (inputs.size() != xs.size() + zs.size() || node.output.size() > xs.size()) {
      Fail(ErrorCode::kInvalidModel, "{} inputs and {} outputs for {} xs and {} zs", inputs.size(),
           node.output.size(), xs.size(), zs.size());
    }
    Graph& graph = outer.graph();
    Scope scope(outer);
    std::vector<Val> variables;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string_view name = i < xs.size() ? xs[i] : zs[i - xs.size()];
      if (name.empty() || !inputs[i]) {
        Fail(ErrorCode::kInvalidModel, "input {}, or its name in xs or zs, is empty", i);
      }
      Value* value = inputs[i].value;
      // A value of its own: constants are not computed away, and equal inputs stay apart.
      if (i < xs.size()) {
        Node* copy = graph.Append(graph.MakeNode(
            core::Elementwise(Fn::kCast), {value},
            {{"to", static_cast<int64_t>(value->fact.type.dtype)}}, 1, builder.origin()));
        value = copy->output();
        variables.push_back(builder.Wrap(value));
      }
      scope.Bind(name, value);
    }
    const size_t start = graph.nodes().size();
    for (const NodeProto* inner : DifferentiatedNodes(*around.nodes, node)) {
      ImportNode(*inner, scope, around);
    }
    const std::vector<const Node*> nodes = TakeCopies(graph, start);
    Value* y = scope.Find(StringOf(node, "y"));
    if (y == nullptr) {
      Fail(ErrorCode::kInvalidModel, "y is '{}', which is not defined", StringOf(node, "y"));
    }
    const std::vector<Val> gradients = ops::Gradients(builder, builder.Wrap(y), variables, nodes);
    for (size_t i = 0; i < node.output.size(); ++i) {
      if (!node.output[i].empty()) Bind(node.output[i], gradients[i].value, outer);
    }
  }

  static void Bind(std::string_view name, Value* value, Scope& scope) {
    if (value->name.empty() && !value->is_constant()) value->name = name;
    scope.Bind(name, value);
  }

  // The attribute itself, or the function's argument that it refers to; null if that was not given.
  static const AttributeProto* Resolve(const AttributeProto& attribute,
                                       const Surroundings& around) {
    const std::string_view reference = attribute.ref_attr_name.Get();
    if (reference.empty()) return &attribute;
    if (around.arguments == nullptr) {
      Fail(ErrorCode::kInvalidModel, "attribute '{}' refers to '{}' outside of a function",
           attribute.name.Get(), reference);
    }
    auto it = around.arguments->find(reference);
    return it != around.arguments->end() ? it->second : nullptr;
  }

  // Leaves no list behind.
  Attribute TakeAttribute(AttributeProto* attribute) {
    if (TypeOf(*attribute) == AttributeType::kInts) return std::move(attribute->ints);
    Attribute result = ToAttribute(*attribute);
    attribute->floats = {};
    attribute->strings = {};
    return result;
  }

  Attribute ToAttribute(const AttributeProto& attribute) {
    switch (TypeOf(attribute)) {
      case AttributeType::kFloat: return static_cast<double>(attribute.f.Get());
      case AttributeType::kInt: return attribute.i.Get();
      case AttributeType::kString: return std::string(attribute.s.Get());
      case AttributeType::kFloats:
        return std::vector<double>(attribute.floats.begin(), attribute.floats.end());
      case AttributeType::kInts: return attribute.ints;
      case AttributeType::kStrings:
        return std::vector<std::string>(attribute.strings.begin(), attribute.strings.end());
      case AttributeType::kTensor: return ReadTensor(*attribute.t, file_);
      case AttributeType::kSparseTensor: return ReadSparseTensor(*attribute.sparse_tensor, file_);
      case AttributeType::kTypeProto: return Print(ToType(*attribute.tp));
      default:
        Fail(ErrorCode::kUnsupported, "attribute '{}' of type {} is not implemented",
             attribute.name.Get(), Name(TypeOf(attribute)));
    }
  }

  static bool IsStated(const TypeProto& type) {
    return type.tensor_type || type.sparse_tensor_type || type.sequence_type ||
           type.optional_type || type.map_type;
  }

  // The type that the graph declares of an output of its own; undefined for any other value.
  Type DeclaredType(std::string_view name) const {
    for (const ValueInfoProto& output : model_.graph->output) {
      if (output.name.Get() == name && output.type && IsStated(*output.type)) {
        return ToType(*output.type);
      }
    }
    return Type();
  }

  // Makes bodies of the graph attributes, with one list of captured values, which become further
  // inputs of the node; attribute "captures" counts them.
  void ImportBodies(const NodeProto& node, const std::vector<const AttributeProto*>& graphs,
                    Builder& builder, Scope& scope, const Surroundings& around,
                    std::vector<Val>* inputs, Attributes* attributes) {
    struct Imported {
      std::shared_ptr<Graph> graph;
      std::vector<std::pair<Value*, Value*>> captures;  // outer, inner
      size_t formals;
    };
    std::vector<Imported> bodies;
    std::vector<Value*> captured;
    for (const AttributeProto* attribute : graphs) {
      const GraphProto& proto = *attribute->g;
      // A branch need not be taken: exporters write both forms of what depends on a rank or a size.
      const bool is_branch = node.op_type.Get() == "If";
      auto make = [&](std::span<const Fact> formals, Surroundings within) {
        Imported body;
        body.formals = formals.size();
        const auto import = [&] {
          body.graph = ImportBody(node, proto, formals, scope, within, &body.captures);
        };
        if (within.may_fail || !is_branch) {
          import();
          return body;
        }
        try {
          import();
        } catch (const Error& error) {
          if (!ops::IsFaultOfInputs(error)) throw;
          within.may_fail = true;
          import();
        }
        return body;
      };
      std::vector<Fact> formals = FormalFacts(node, proto, *inputs, *attributes, scope);
      Imported body = make(formals, around);
      // What a loop carries may change its shape on the way: forget what one trip does not keep.
      const std::vector<int> carried =
          ops::CarriedFormals(node.op_type.Get(), formals.size(), *attributes);
      Dims forgotten;
      for (int tries = 0; ops::RelaxCarried(*body.graph, carried, &formals, &forgotten); ++tries) {
        if (tries > 64) Fail(ErrorCode::kInternal, "shapes of a loop do not settle");
        body = make(formals, around);
      }
      for (auto& [outer, inner] : body.captures) {
        if (std::find(captured.begin(), captured.end(), outer) == captured.end()) {
          captured.push_back(outer);
        }
      }
      bodies.push_back(std::move(body));
    }
    for (size_t i = 0; i < bodies.size(); ++i) {
      Imported& body = bodies[i];
      body.graph->inputs.resize(body.formals);
      for (Value* outer : captured) {
        auto it = std::find_if(body.captures.begin(), body.captures.end(),
                               [&](const auto& pair) { return pair.first == outer; });
        if (it != body.captures.end()) {
          body.graph->inputs.push_back(it->second);
        } else {
          body.graph->AddInput(outer->name, WithoutConstant(outer->fact));
        }
      }
      KeepNamesApart(*body.graph);
      attributes->Set(graphs[i]->name.Get(), body.graph);
    }
    attributes->Set("captures", static_cast<int64_t>(captured.size()));
    for (Value* outer : captured) inputs->push_back(builder.Wrap(outer));
  }

  // A function that is called several times gives the same names, and those within it may be names
  // of the model: the first value keeps one, outputs before all others.
  static void KeepNamesApart(Graph& graph) {
    std::unordered_set<std::string_view> names;
    std::unordered_set<const Value*> kept;
    const auto keep = [&](Value* value) {
      if (value->is_constant() || value->name.empty() || !kept.insert(value).second) return;
      if (!names.insert(value->name).second) value->name.clear();
    };
    for (Value* input : graph.inputs) keep(input);
    for (Value* output : graph.outputs) keep(output);
    for (const auto& node : graph.nodes()) {
      for (Value* output : node->outputs) keep(output);
    }
  }

  static Fact WithoutConstant(Fact fact) {
    fact.constant = Tensor();
    return fact;
  }

  // Facts of a body's own inputs, by the rules of If, Loop, Scan and the like.
  std::vector<Fact> FormalFacts(const NodeProto& node, const GraphProto& body,
                                const std::vector<Val>& inputs, const Attributes& attributes,
                                Scope& scope) {
    std::vector<const Fact*> facts;
    for (const Val& input : inputs) facts.push_back(input ? &input.fact() : nullptr);
    std::vector<Fact> declared;
    for (const ValueInfoProto& input : body.input) {
      declared.push_back(input.type ? ToFact(*input.type, scope.graph().symbols()) : Fact());
    }
    return ops::BodyInputs(node.op_type.Get(), facts, declared, attributes,
                           scope.graph().symbols());
  }

  // A Loop's body is handed scalars, the iteration and the condition, but converters from
  // TensorFlow declare them vectors of one element, and slice by them.
  static bool IsScalarReadAsVector(const NodeProto& node, const GraphProto& body, size_t input) {
    if (node.op_type.Get() != "Loop" || input >= 2 || !body.input[input].type) return false;
    const TypeProto& type = *body.input[input].type;
    return type.tensor_type && type.tensor_type->shape && type.tensor_type->shape->dim.size() == 1;
  }

  std::shared_ptr<Graph> ImportBody(const NodeProto& node, const GraphProto& proto,
                                    std::span<const Fact> formals, Scope& outer,
                                    const Surroundings& around,
                                    std::vector<std::pair<Value*, Value*>>* captures) {
    auto graph = std::make_shared<Graph>(outer.graph().shared_symbols());
    graph->name = proto.name.Get();
    Scope scope(*graph, &outer, [this](const TensorProto& t) { return ReadTensor(t, file_); });
    for (const TensorProto& tensor : proto.initializer) {
      scope.AddInitializer(tensor.name.Get(), &tensor);
    }
    for (const SparseTensorProto& tensor : proto.sparse_initializer) {
      const std::string_view name = tensor.values ? tensor.values->name.Get() : "";
      scope.Bind(name, graph->AddConstant(ReadSparseTensor(tensor, file_), std::string(name)));
    }
    for (size_t i = 0; i < formals.size(); ++i) {
      const std::string_view name = proto.input[i].name.Get();
      Value* input = graph->AddInput(std::string(name), formals[i]);
      if (IsScalarReadAsVector(node, proto, i)) {
        Builder builder(*graph);
        input = Reshape(builder.Wrap(input), {1}).value;
      }
      scope.Bind(name, input);
    }
    ImportNodes(proto.node, scope, around);
    for (const ValueInfoProto& output : proto.output) {
      Value* value = scope.Find(output.name.Get());
      if (value == nullptr) {
        Fail(ErrorCode::kInvalidModel, "output '{}' of the body '{}' is not defined",
             output.name.Get(), graph->name);
      }
      graph->outputs.push_back(value);
    }
    *captures = scope.captures();
    return graph;
  }

  void InlineCall(const NodeProto& node, const FunctionProto& function, Scope& scope,
                  const Surroundings& around) {
    Surroundings inner{
        .opsets = &function.opset_import, .call = around.call, .may_fail = around.may_fail};
    InlineBody(node, function, nullptr, scope, around, inner);
  }

  void InlineStandard(const NodeProto& node, const OpSchema& schema, const FunctionProto& function,
                      std::shared_ptr<const Origin> origin, Scope& scope,
                      const Surroundings& around) {
    Surroundings inner{
        .opsets = &function.opset_import, .call = std::move(origin), .may_fail = around.may_fail};
    InlineBody(node, function, &schema, scope, around, inner);
  }

  // The function's nodes in place of the call: its parameters are bound in a scope of their own
  // that makes nodes in the caller's graph.
  void InlineBody(const NodeProto& node, const FunctionProto& function, const OpSchema* schema,
                  Scope& scope, const Surroundings& around, Surroundings inner) {
    inner.depth = around.depth + 1;
    if (inner.depth > kMaxFunctionDepth) {
      Fail(ErrorCode::kLimitExceeded, "functions call each other more than {} levels deep",
           kMaxFunctionDepth);
    }
    AttributeMap arguments;
    std::vector<std::unique_ptr<AttributeProto>> defaults;
    for (const AttributeProto& attribute : function.attribute_proto) {
      arguments[attribute.name.Get()] = &attribute;
    }
    if (schema != nullptr) {
      for (const AttributeSchema& attribute : schema->attributes) {
        if (attribute.has_default) {
          defaults.push_back(std::make_unique<AttributeProto>(DefaultProto(attribute)));
          arguments[attribute.name] = defaults.back().get();
        }
      }
    }
    for (const AttributeProto& given : node.attribute) {
      if (const AttributeProto* attribute = Resolve(given, around)) {
        arguments[given.name.Get()] = attribute;
      }
    }
    inner.arguments = &arguments;
    Scope body(scope.graph(), nullptr,
               [this](const TensorProto& t) { return ReadTensor(t, file_); });
    for (size_t i = 0; i < function.input.size(); ++i) {
      const std::string_view name = i < node.input.size() ? node.input[i] : "";
      Value* value = name.empty() ? nullptr : scope.Find(name);
      if (value == nullptr && !name.empty()) {
        Fail(ErrorCode::kInvalidModel, "input '{}' is not defined", name);
      }
      body.BindParameter(function.input[i], value);
    }
    ImportFunctionNodes(function, body, inner);
    for (size_t i = 0; i < node.output.size() && i < function.output.size(); ++i) {
      if (node.output[i].empty()) continue;
      Value* value = body.Find(function.output[i]);
      if (value == nullptr) {
        Fail(ErrorCode::kInvalidModel, "function {} does not define its output '{}'",
             function.name.Get(), function.output[i]);
      }
      // Names of the body are not the model's: the caller's name is what users know.
      if (!value->is_input && !value->is_constant()) value->name = node.output[i];
      scope.Bind(node.output[i], value);
    }
  }

  // Inputs of a call that were left out are absent inputs of the nodes that use them.
  void ImportFunctionNodes(const FunctionProto& function, Scope& body, const Surroundings& inner) {
    std::vector<NodeProto> nodes = function.node;
    for (NodeProto& node : nodes) {
      for (std::string_view& input : node.input) {
        if (body.IsAbsentParameter(input)) input = "";
      }
    }
    ImportNodes(nodes, body, inner);
  }

  const ModelFile& file_;
  const ModelProto& model_;
  ModelProto* own_;
};

}  // namespace

bool IsSupported(std::string_view domain, std::string_view name) {
  if (ops::FindOnnxOp(domain, name) != nullptr || IsGradient(domain, name)) return true;
  for (const OpSchema& schema : SchemaVersions(domain, name)) {
    if (!schema.bodies.empty()) return true;
  }
  return false;
}

ImportedModel ImportModel(const std::shared_ptr<const ModelFile>& file,
                          const ImportOptions& options) {
  if (!ValidateModel(file->model, file->name, {.supported = IsSupported})) {
    return ImportModel(*file, ParseAgain(*file), options);
  }
  return WithContext(file->name,
                     [&] { return Importer(*file, file->model, nullptr).Run(options); });
}

ImportedModel ImportModel(const ModelFile& file, ModelProto messages,
                          const ImportOptions& options) {
  if (!ValidateModel(messages, file.name, {.supported = IsSupported})) SortNodes(messages);
  // The nodes between the ends of a Gradient are imported twice.
  const std::vector<NodeProto>& nodes = messages.graph->node;
  const bool once = std::none_of(nodes.begin(), nodes.end(), [](const NodeProto& node) {
    return IsGradient(CanonicalDomain(node.domain.Get()), node.op_type.Get());
  });
  return WithContext(
      file.name, [&] { return Importer(file, messages, once ? &messages : nullptr).Run(options); });
}

}  // namespace sardonyx::onnx
