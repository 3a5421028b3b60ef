#include <algorithm>
#include <chrono>
#include <set>
#include <unordered_set>

#include "ops/core/core.h"
#include "passes/passes.h"

namespace sardonyx {
namespace {

// A local pass that still changes something after this many rounds is going in circles.
constexpr int kMaxRounds = 200;
constexpr size_t kMaxNearMisses = 200;
// How much larger folding may make the constants of a model: so many bytes, or so many times.
constexpr int64_t kLeastGrowth = int64_t{1} << 30;
constexpr int64_t kMostGrowth = 8;

bool IsAlive(const Graph& graph, const Node& node) {
  return std::any_of(node.outputs.begin(), node.outputs.end(), [&](const Value* output) {
    return !output->users.empty() || graph.IsOutput(output);
  });
}

// Weights that only dead nodes still name give their memory back at once: a pass that folds a model
// full of them would else hold two forms of all until the sweep.
void ReleaseConstants(const Graph& graph, const Node& node) {
  constexpr int64_t kLeast = 16 << 10;
  if (IsAlive(graph, node)) return;
  for (Value* input : node.inputs) {
    if (input == nullptr || !input->is_constant() || graph.IsOutput(input)) continue;
    Tensor& constant = input->fact.constant;
    if (constant.bytes() < kLeast || constant.dtype() == DType::kString) continue;
    const bool is_used = std::any_of(input->users.begin(), input->users.end(),
                                     [&](const Node* user) { return IsAlive(graph, *user); });
    if (!is_used) constant = Tensor(constant.dtype(), constant.dims(), nullptr, nullptr);
  }
}

int RunLocal(const Pass& pass, PassContext& context, PassRecord* record) {
  Graph& graph = context.graph;
  int changes = 0;
  for (int round = 0;; ++round) {
    std::vector<Node*> nodes;
    for (const auto& node : graph.nodes()) nodes.push_back(node.get());
    std::vector<std::pair<const Node*, std::string>> misses;  // put into words at the end alone
    int changed = 0;
    for (Node* node : nodes) {
      if (!IsAlive(graph, *node)) continue;
      Rewrite rewrite = pass.rewrite(*node, context);
      if (auto* patch = std::get_if<Patch>(&rewrite)) {
        graph.Splice(std::move(patch->nodes));
        for (auto& [from, to] : patch->replacements) {
          const bool tells_more = to->fact.Knowledge() > from->fact.Knowledge();
          graph.ReplaceUses(from, to);
          if (tells_more) graph.Refine(to);
        }
        ReleaseConstants(graph, *node);
        ++changed;
      } else if (auto* failed = std::get_if<CheckFailed>(&rewrite)) {
        misses.emplace_back(node, std::move(failed->reason));
      }
    }
    if (changed == 0) {
      std::set<std::string> words;
      for (const auto& [node, reason] : misses) {
        words.insert(fmt::format("{}: {}", node->origin ? Print(*node->origin) : "node", reason));
      }
      for (const std::string& miss : words) {
        if (record->near_misses.size() < kMaxNearMisses) record->near_misses.push_back(miss);
      }
      return changes;
    }
    changes += changed;
    graph.SortAndSweep();
    if (round == kMaxRounds) {
      Fail(ErrorCode::kInternal, "pass '{}' does not come to an end", pass.name);
    }
  }
}

// Of the graph and its bodies, each constant once a graph.
int64_t ConstantBytes(const Graph& graph) {
  std::unordered_set<const Value*> constants;
  int64_t bytes = 0;
  for (const auto& node : graph.nodes()) {
    for (const Value* input : node->inputs) {
      if (input != nullptr && input->is_constant() && constants.insert(input).second) {
        bytes += input->fact.constant.bytes();
      }
    }
    for (const auto& [name, attribute] : node->attributes.items()) {
      const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute);
      if (body != nullptr) bytes += ConstantBytes(**body);
    }
  }
  return bytes;
}

void OptimizeGraph(Graph& graph, bool is_body, const OptimizeOptions& options, int64_t& growth_left,
                   std::vector<PassRecord>* records) {
  const auto optimize_bodies = [&] {
    for (const auto& node : graph.nodes()) {
      for (const auto& [name, attribute] : node->attributes.items()) {
        if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute)) {
          OptimizeGraph(**body, true, options, growth_left, records);
        }
      }
    }
  };
  PassContext context{graph, options.fold, growth_left, is_body};
  if (!context.fold) {
    context.fold = [](const Node& node, const std::vector<Tensor>& inputs) {
      std::vector<Datum> data;
      for (const Tensor& tensor : inputs) {
        data.push_back(tensor.defined() ? Datum(Aligned(tensor)) : Datum());
      }
      std::vector<Tensor> results;
      for (const Datum& datum : RunReference(node, data)) {
        results.push_back(datum.tensor() != nullptr ? *datum.tensor() : Tensor());
      }
      return results;
    };
  }
  if (options.trace) options.trace("", graph);
  graph.SortAndSweep();
  for (size_t i = 0; i < Pipeline().size(); ++i) {
    const Pass& pass = Pipeline()[i];
    if (!pass.outside_in && (i == 0 || Pipeline()[i - 1].outside_in)) optimize_bodies();
    const bool disabled = std::find(options.disabled.begin(), options.disabled.end(), pass.name) !=
                          options.disabled.end();
    if (disabled) continue;
    PassRecord& record = (*records)[i];
    const auto start = std::chrono::steady_clock::now();
    const int changes = WithContext(fmt::format("pass '{}'", pass.name), [&] {
      const int count = pass.run != nullptr ? pass.run(context) : RunLocal(pass, context, &record);
      if (count == 0) return 0;
      if (pass.run != nullptr) graph.SortAndSweep();
      Verify(graph);
      return count;
    });
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    record.changes += changes;
    record.milliseconds += time.count();
    if (changes > 0 && options.trace) options.trace(pass.name, graph);
  }
}

}  // namespace

std::vector<PassRecord> Optimize(Graph& graph, const OptimizeOptions& options) {
  std::vector<PassRecord> records;
  for (const Pass& pass : Pipeline()) records.push_back({pass.name, 0, 0, {}});
  for (const std::string& name : options.disabled) {
    const bool known = std::any_of(Pipeline().begin(), Pipeline().end(),
                                   [&](const Pass& pass) { return pass.name == name; });
    if (!known) {
      std::string names;
      for (const Pass& pass : Pipeline())
        names += (names.empty() ? "" : ", ") + std::string(pass.name);
      Fail(ErrorCode::kInvalidArgument, "there is no pass '{}' to disable; passes are {}", name,
           names);
    }
  }
  // Halves become floats and bytes may become doubles, but a small model is not to fill the memory.
  int64_t growth_left = std::max(kLeastGrowth, ConstantBytes(graph) * kMostGrowth);
  OptimizeGraph(graph, false, options, growth_left, &records);
  return records;
}

namespace passes {

bool HasOneUser(const Graph& graph, const Value* value) {
  return !value->users.empty() && !graph.IsOutput(value) &&
         std::all_of(value->users.begin(), value->users.end(),
                     [&](const Node* user) { return user == value->users[0]; });
}

bool IsFrom(const Value* value, const CoreOp& op) {
  return value != nullptr && value->producer != nullptr && value->producer->op == &op;
}

bool IsPointwise(const Node& node) {
  if (node.op != &core::conv) return false;
  const auto are = [](const std::vector<int64_t>& numbers, int64_t number) {
    return std::all_of(numbers.begin(), numbers.end(), [=](int64_t n) { return n == number; });
  };
  const Fact& weights = node.input(1)->fact;
  return are(node.attributes.Ints("pads"), 0) && are(node.attributes.Ints("strides"), 1) &&
         weights.ranked() &&
         std::all_of(weights.shape->begin() + 2, weights.shape->end(),
                     [](Dim dim) { return dim == 1; });
}

bool IsProductOfChannels(const Node& node) {
  return IsPointwise(node) && node.attributes.Int("group", 1) == 1;
}

bool IsPlainProduct(const Node& node) {
  if (node.op != &core::matmul || node.inputs.size() != 2) return false;
  for (const char* attribute : {"perm_a", "perm_b", "perm_y", "epilogue"}) {
    if (node.attributes.Find(attribute) != nullptr) return false;
  }
  return node.attributes.Int("trans_a") == 0;
}

bool IsOne(const Value* value) {
  return value == nullptr || (value->fact.static_shape() &&
                              std::all_of(value->fact.shape->begin(), value->fact.shape->end(),
                                          [](Dim dim) { return dim == 1; }));
}

bool IsVector(const Value* value, int64_t count) {
  if (!value->is_constant()) return false;
  const std::vector<int64_t>& dims = value->fact.constant.dims();
  return !dims.empty() && dims.back() == count && value->fact.constant.size() == count;
}

bool IsConstantOf(const Value* value, double number) {
  if (value == nullptr || !value->is_constant()) return false;
  const Tensor& tensor = value->fact.constant;
  const bool readable =
      BitWidth(tensor.dtype()) >= 8 &&
      (IsInteger(tensor.dtype()) || (IsFloat(tensor.dtype()) && BitWidth(tensor.dtype()) > 8));
  if (!readable || tensor.size() == 0 || tensor.size() > 4096) return false;
  const std::vector<double> values = ToDoubles(Aligned(tensor));
  return std::all_of(values.begin(), values.end(), [&](double v) { return v == number; });
}

bool IsComputedAsFloat32(const Value* value) {
  const DType type = value->fact.type.dtype;
  return type == DType::kFloat32 || IsHalf(type);
}

bool SameShape(const Value* a, const Value* b) {
  return a->fact.ranked() && b->fact.ranked() && *a->fact.shape == *b->fact.shape;
}

std::vector<int64_t> Inverse(const std::vector<int64_t>& perm) {
  std::vector<int64_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[perm[i]] = static_cast<int64_t>(i);
  return inverse;
}

std::vector<int64_t> ChannelsLast(int64_t rank) {
  std::vector<int64_t> perm = {0};
  for (int64_t axis = 2; axis < rank; ++axis) perm.push_back(axis);
  perm.push_back(1);
  return perm;
}

int64_t PixelsOf(const Dims& shape) {
  int64_t pixels = 1;
  for (size_t i = 1; i + 1 < shape.size(); ++i) {
    if (!shape[i].known()) return 0;
    pixels *= shape[i].value();
  }
  return pixels;
}

}  // namespace passes
}  // namespace sardonyx
