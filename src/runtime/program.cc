#include "runtime/program.h"

#include <algorithm>

#include "ops/core/control.h"
#include "runtime/executor.h"

namespace sardonyx {
namespace {

constexpr size_t kMaxStates = 16;    // runs at once that keep their arena for the next
constexpr size_t kMaxDeferred = 64;  // lowered forms of deferred nodes

}  // namespace

Program::Program(std::shared_ptr<const Graph> graph, const Device& device,
                 std::shared_ptr<PackCache> packs, ProgramOptions options)
    : graph_(std::move(graph)),
      device_(device),
      packs_(std::move(packs)),
      options_(std::move(options)) {
  std::unordered_map<const Value*, int> ids;
  auto id_of = [&](const Value* value) {
    if (value == nullptr) return -1;
    auto [it, inserted] = ids.try_emplace(value, static_cast<int>(values_.size()));
    if (inserted) values_.push_back(value);
    return it->second;
  };
  for (const Value* input : graph_->inputs) id_of(input);
  for (const auto& node : graph_->nodes()) {
    NodeIds& entry = node_ids_.emplace_back();
    for (const Value* input : node->inputs) entry.inputs.push_back(id_of(input));
    for (const Value* output : node->outputs) entry.outputs.push_back(id_of(output));
    for (const auto& [name, attribute] : node->attributes.items()) {
      if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute)) {
        bodies_[body->get()] = std::make_unique<Program>(*body, device_, packs_, options_);
      }
    }
  }
  for (const Value* output : graph_->outputs) output_ids_.push_back(id_of(output));
}

Program::~Program() = default;

Program& Program::Body(const Graph& body) { return *bodies_.at(&body); }

std::shared_ptr<const Plan> Program::PlanFor(const std::vector<std::vector<int64_t>>& input_dims) {
  std::vector<int64_t> key;
  for (const auto& dims : input_dims) {
    key.push_back(static_cast<int64_t>(dims.size()));
    key.insert(key.end(), dims.begin(), dims.end());
  }
  {
    std::lock_guard lock(mutex_);
    auto it = std::find_if(plans_.begin(), plans_.end(),
                           [&](const auto& plan) { return plan->key == key; });
    if (it != plans_.end()) {
      std::rotate(plans_.begin(), it, it + 1);
      return plans_.front();
    }
  }
  auto plan = MakePlan(*this, input_dims);
  std::lock_guard lock(mutex_);
  plans_.insert(plans_.begin(), plan);
  if (plans_.size() > std::max<size_t>(options_.max_plans, 1)) plans_.pop_back();
  return plan;
}

size_t Program::plan_count() const {
  std::lock_guard lock(mutex_);
  return plans_.size();
}

std::vector<Datum> Program::Run(std::span<const Datum> inputs, const RunOptions& options) {
  std::shared_ptr<const Plan> plan;
  {
    // The common case, the shapes of the last run, allocates nothing.
    std::lock_guard lock(mutex_);
    for (size_t i = 0; i < plans_.size() && plan == nullptr; ++i) {
      const std::vector<int64_t>& key = plans_[i]->key;
      size_t at = 0;
      bool same = true;
      for (const Datum& input : inputs) {
        const Tensor* tensor = input.tensor();
        const size_t rank = tensor != nullptr ? tensor->dims().size() : 0;
        same = at + 1 + rank <= key.size() && key[at] == static_cast<int64_t>(rank) &&
               (rank == 0 ||
                std::equal(tensor->dims().begin(), tensor->dims().end(), key.begin() + at + 1));
        if (!same) break;
        at += 1 + rank;
      }
      if (!same) continue;
      if (i > 0) std::rotate(plans_.begin(), plans_.begin() + i, plans_.begin() + i + 1);
      plan = plans_.front();
    }
  }
  if (plan == nullptr) {
    std::vector<std::vector<int64_t>> dims;
    for (const Datum& input : inputs) {
      dims.push_back(input.tensor() != nullptr ? input.tensor()->dims() : std::vector<int64_t>());
    }
    plan = PlanFor(dims);
  }
  std::unique_ptr<RunState> state = TakeState();
  std::vector<Datum> outputs = Executor(*this, *plan, *state, options).Run(inputs);
  ReturnState(std::move(state));
  return outputs;
}

std::unique_ptr<Program::RunState> Program::TakeState() {
  std::lock_guard lock(mutex_);
  if (states_.empty()) return std::make_unique<RunState>();
  std::unique_ptr<RunState> state = std::move(states_.back());
  states_.pop_back();
  return state;
}

void Program::ReturnState(std::unique_ptr<RunState> state) {
  std::lock_guard lock(mutex_);
  if (states_.size() < kMaxStates) states_.push_back(std::move(state));
}

std::shared_ptr<Program> Program::Deferred(const Node& node, std::span<const Datum> inputs) {
  // By shapes alone if that is enough to lower it, else by the values of small inputs as well.
  for (const bool with_values : {false, true}) {
    std::vector<Fact> facts;
    facts.reserve(inputs.size());
    std::vector<const Fact*> pointers;
    std::string key(1, with_values ? 'v' : 's');
    for (const Datum& input : inputs) {
      const Tensor* tensor = input.tensor();
      if (tensor == nullptr) {
        pointers.push_back(nullptr);
        key += '-';
        continue;
      }
      Fact fact;
      if (with_values && tensor->size() <= 1024) {
        fact = Fact::Of(Copy(*tensor));
        if (tensor->dtype() != DType::kString) {
          key.append(static_cast<const char*>(tensor->raw()), tensor->bytes());
        } else {
          for (int64_t i = 0; i < tensor->size(); ++i) key += tensor->data<std::string>()[i] + '\0';
        }
      } else {
        fact.type = tensor->dtype();
        fact.shape.emplace(tensor->dims().begin(), tensor->dims().end());
      }
      key += PrintDims(tensor->dims());
      facts.push_back(std::move(fact));
      pointers.push_back(&facts.back());
    }
    {
      std::lock_guard lock(mutex_);
      for (auto it = deferred_.begin(); it != deferred_.end(); ++it) {
        if (it->node != &node || it->key != key) continue;
        deferred_.splice(deferred_.begin(), deferred_, it);
        return deferred_.front().program;
      }
    }
    auto lowered = core::LowerDeferred(node, pointers, std::make_shared<SymbolTable>());
    if (lowered == nullptr) continue;
    if (options_.optimize) options_.optimize(*lowered);
    lowered->SortAndSweep();
    // Its constants are of this lowering alone: they must not fill the cache of the model.
    auto program = std::make_shared<Program>(lowered, device_, std::make_shared<PackCache>(), options_);
    std::lock_guard lock(mutex_);
    deferred_.push_front({&node, key, program});
    if (deferred_.size() > kMaxDeferred) deferred_.pop_back();
    return program;
  }
  Fail(ErrorCode::kUnsupported, "what must be known of its inputs is too large to look at");
}

}  // namespace sardonyx
