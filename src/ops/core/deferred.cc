#include "ops/core/deferred.h"

#include <algorithm>

#include "ops/core/core.h"
#include "ops/evaluate.h"
#include "ops/lowering.h"

namespace sardonyx::core {

std::shared_ptr<Graph> LowerDeferred(const Node& node, std::span<const Fact* const> inputs,
                                     const std::shared_ptr<SymbolTable>& symbols) {
  const Attributes& attributes = node.attributes;
  auto graph = std::make_shared<Graph>(symbols);
  Builder builder(*graph);
  builder.SetOrigin(node.origin);
  std::vector<Val> values;
  for (const Fact* fact : inputs) {
    values.push_back(fact != nullptr ? builder.Wrap(graph->AddInput("", *fact)) : Val{});
  }
  Attributes given;
  for (const auto& [name, value] : attributes.items()) {
    if (name[0] != '@') given.Set(name, value);
  }
  std::vector<bool> wanted;
  for (int64_t flag : attributes.Ints("@wanted")) wanted.push_back(flag != 0);
  ops::Lowering lowering(builder, std::string(attributes.String("@domain")),
                         std::string(attributes.String("@op_type")),
                         static_cast<int>(attributes.Int("@version")), std::move(given),
                         std::move(values), wanted);
  const ops::OnnxOp* entry = ops::FindOnnxOp(lowering.domain(), lowering.op_type());
  if (entry == nullptr) {
    Fail(ErrorCode::kInvalidModel, "operator '{}' is unknown", lowering.op_type());
  }
  try {
    if (entry->adapt != nullptr) entry->adapt(lowering);
    for (Val output : entry->lower(lowering).values) graph->outputs.push_back(output.value);
  } catch (const NotYetKnown&) {
    return nullptr;
  }
  graph->outputs.resize(node.outputs.size(), nullptr);
  for (size_t i = 0; i < graph->outputs.size(); ++i) {
    if (graph->outputs[i] == nullptr && lowering.wants(i)) {
      Fail(ErrorCode::kInvalidModel, "operator '{}' has no output {}", lowering.op_type(), i);
    }
    // Graphs have no empty outputs: nobody reads this one.
    if (graph->outputs[i] == nullptr) graph->outputs[i] = builder.Ints({}).value;
  }
  return graph;
}

bool HasFailed(const Node& node) {
  return node.op == &deferred && node.attributes.Int("@failed", 0) != 0;
}

namespace {

void InferDeferred(InferContext& context) {
  std::vector<const Fact*> facts;
  for (size_t i = 0; i < context.input_count(); ++i) {
    facts.push_back(context.has(i) ? &context.input(i) : nullptr);
  }
  // Only concrete inputs are worth lowering: with symbols the importer has tried already.
  const bool concrete =
      !HasFailed(context.node()) && std::all_of(facts.begin(), facts.end(), [](const Fact* fact) {
        return fact == nullptr || fact->static_shape();
      });
  const auto graph =
      concrete ? LowerDeferred(context.node(), facts, std::make_shared<SymbolTable>()) : nullptr;
  if (graph != nullptr) {
    for (size_t i = 0; i < context.output_count(); ++i) {
      Fact fact = graph->outputs[i] != nullptr ? graph->outputs[i]->fact : Fact();
      if (fact.shape) {
        for (Dim& dim : *fact.shape) {
          // Symbols of the lowering's own table mean nothing outside.
          if (!dim.known()) dim = context.symbols().Fresh();
        }
      }
      fact.elements.reset();
      context.Set(i, std::move(fact));
    }
    return;
  }
  for (size_t i = 0; i < context.output_count(); ++i) {
    const auto dtype = static_cast<DType>(context.attributes().Ints("@types")[i]);
    if (dtype == DType::kUndefined && context.attributes().Ints("@wanted")[i]) {
      sardonyx::Fail(ErrorCode::kUnsupported,
                     "the rank or value of an input must be known before it runs, and is not");
    }
    context.Set(i, dtype, std::nullopt);
  }
}

void ComputeDeferred(ComputeContext& context) {
  std::vector<Fact> known;
  known.reserve(context.input_count());
  std::vector<const Fact*> facts;
  std::vector<Datum> inputs;
  for (size_t i = 0; i < context.input_count(); ++i) {
    if (!context.has(i)) {
      facts.push_back(nullptr);
      continue;
    }
    inputs.push_back(context.datum(i));
    known.push_back(Fact::Of(context.input(i)));
    facts.push_back(&known.back());
  }
  auto graph = LowerDeferred(context.node(), facts, std::make_shared<SymbolTable>());
  if (graph == nullptr) Fail(ErrorCode::kInternal, "a node with known inputs cannot be lowered");
  std::vector<Datum> outputs = Evaluate(*graph, inputs);
  for (size_t i = 0; i < context.output_count(); ++i) context.Set(i, std::move(outputs[i]));
}

}  // namespace

const CoreOp deferred = {.name = "deferred",
                         .inputs = "v?*",
                         .outputs = {1, kAnyNumber},
                         .infer = InferDeferred,
                         .reference = ComputeDeferred};

}  // namespace sardonyx::core
