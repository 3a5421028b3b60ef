#include "runtime/program.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <unordered_set>

#include "ops/core/deferred.h"
#include "runtime/executor.h"

namespace sardonyx {
namespace {

constexpr size_t kMaxStates = 16;    // runs at once that keep their arena for the next
constexpr size_t kMaxDeferred = 64;  // lowered forms of deferred nodes

bool AreFor(std::span<const int64_t> planned, std::span<const int64_t> dims) {
  return std::equal(planned.begin(), planned.end(), dims.begin(), dims.end(),
                    [](int64_t a, int64_t b) { return a == b || a == kAnySize; });
}

// Where two keys differ; nothing if it is in a rank.
std::vector<size_t> Differences(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<size_t> places;
  if (a.size() != b.size()) return {};
  for (size_t begin = 0, end; begin < a.size(); begin = end) {
    if (a[begin] != b[begin]) return {};
    end = begin + 1 + static_cast<size_t>(a[begin]);
    for (size_t i = begin + 1; i < end; ++i) {
      if (a[i] != b[i]) places.push_back(i);
    }
  }
  return places;
}

// Whether the plan is for inputs of these shapes.
bool IsFor(const Plan& plan, std::span<const Datum> inputs) {
  size_t at = 0;
  for (const Datum& input : inputs) {
    const Tensor* tensor = input.tensor();
    const size_t rank = tensor != nullptr ? tensor->dims().size() : 0;
    if (at + 1 + rank > plan.key.size() || plan.key[at] != static_cast<int64_t>(rank)) return false;
    if (rank > 0 && !AreFor(std::span(plan.key).subspan(at + 1, rank), tensor->dims())) {
      return false;
    }
    at += 1 + rank;
  }
  return true;
}

// A run of a plan that chooses its number of threads (null: of one thread).
class TimedRun {
 public:
  using Clock = std::chrono::steady_clock;

  TimedRun(ThreadChoice* choice, bool may_time) : choice_(choice) {
    if (choice == nullptr) return;
    if (!may_time) {
      ticket_.threads = choice->threads();
      return;
    }
    ticket_ = choice->Begin();
    if (ticket_.is_timed) begin_ = Clock::now();
  }
  TimedRun(const TimedRun&) = delete;
  ~TimedRun() {
    if (ticket_.is_timed) choice_->End(ticket_, ns_);
  }

  int threads() const { return ticket_.threads; }
  void Succeeded() {
    if (ticket_.is_timed) ns_ = std::chrono::nanoseconds(Clock::now() - begin_).count();
  }

 private:
  ThreadChoice* choice_;
  ThreadChoice::Ticket ticket_{1, false};
  Clock::time_point begin_;
  int64_t ns_ = -1;
};

}  // namespace

Program::Program(std::shared_ptr<Graph> graph, const Device& device,
                 std::shared_ptr<PackCache> packs, ProgramOptions options)
    : graph_(std::move(graph)),
      device_(device),
      packs_(std::move(packs)),
      options_(std::move(options)),
      values_(Number(*graph_)) {
  static std::atomic<uint64_t> next_serial = 1;
  serial_ = next_serial++;
  std::unordered_map<const Value*, int> ids;
  for (size_t id = 0; id < values_.size(); ++id) ids[values_[id]] = static_cast<int>(id);
  auto id_of = [&](const Value* value) { return value != nullptr ? ids.at(value) : -1; };
  for (const Value* value : values_) {
    external_.push_back(value->is_constant() && options_.is_external &&
                        options_.is_external(value->fact.constant));
  }
  // Bodies are small: their weights stay.
  ProgramOptions inner = options_;
  inner.restore = nullptr;
  for (const auto& node : graph_->nodes()) {
    NodeIds& entry = node_ids_.emplace_back();
    for (const Value* input : node->inputs) entry.inputs.push_back(id_of(input));
    for (const Value* output : node->outputs) entry.outputs.push_back(id_of(output));
    for (const auto& [name, attribute] : node->attributes.items()) {
      if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute)) {
        bodies_[body->get()] = std::make_unique<Program>(*body, device_, packs_, inner);
      }
    }
  }
  for (const Value* output : graph_->outputs) output_ids_.push_back(id_of(output));
}

// Inputs first, then values in the order in which nodes name them, then outputs no node names.
std::vector<Value*> Program::Number(const Graph& graph) {
  std::vector<Value*> values;
  std::unordered_set<const Value*> seen;
  auto add = [&](Value* value) {
    if (value != nullptr && seen.insert(value).second) values.push_back(value);
  };
  for (Value* input : graph.inputs) add(input);
  for (const auto& node : graph.nodes()) {
    for (Value* input : node->inputs) add(input);
    for (Value* output : node->outputs) add(output);
  }
  for (Value* output : graph.outputs) add(output);
  return values;
}

ConstantId Program::constant_id(int id) const {
  // Addresses of user space leave the top bit free.
  if (external_[id]) return {reinterpret_cast<uintptr_t>(values_[id]->fact.constant.raw()), 0};
  return {(uint64_t{1} << 63) | (serial_ << 32) | static_cast<uint64_t>(id), 0};
}

bool Program::Drop(int id, const Node& node, size_t index) {
  Value* value = values_[id];
  if (!options_.restore || external_[id] || !value->is_constant() ||
      value->fact.constant.bytes() <= kMostKept || graph_->IsOutput(value)) {
    return false;
  }
  auto& uses = packed_uses_[id];
  uses.emplace(&node, index);
  if (uses.size() < value->users.size()) return false;
  const Tensor& constant = value->fact.constant;
  value->fact.constant = Tensor(constant.dtype(), constant.dims(), nullptr, nullptr);
  return true;
}

void Program::Restore() {
  packed_uses_.clear();  // a use that packed it may want it as it is by now
  const std::shared_ptr<Graph> again = options_.restore();
  const std::vector<Value*> values = Number(*again);
  if (values.size() != values_.size()) {
    Fail(ErrorCode::kInternal, "a graph made again has {} values, not {}", values.size(),
         values_.size());
  }
  for (size_t id = 0; id < values.size(); ++id) {
    Tensor& constant = values_[id]->fact.constant;
    if (!values_[id]->is_constant() || constant.raw() != nullptr) continue;
    const Tensor& fresh = values[id]->fact.constant;
    if (fresh.dims() != constant.dims() || fresh.dtype() != constant.dtype()) {
      Fail(ErrorCode::kInternal, "a graph made again has other constants");
    }
    constant = fresh;
  }
}

Program::~Program() = default;

Program& Program::Body(const Graph& body) { return *bodies_.at(&body); }

std::shared_ptr<const Plan> Program::PlanFor(const std::vector<std::vector<int64_t>>& input_dims) {
  std::vector<int64_t> key;
  for (const auto& dims : input_dims) {
    key.push_back(static_cast<int64_t>(dims.size()));
    key.insert(key.end(), dims.begin(), dims.end());
  }
  if (auto plan = FindPlan(key)) return plan;
  std::lock_guard one_at_a_time(plan_mutex_);
  // Another thread may have made it meanwhile.
  std::shared_ptr<const Plan> plan = FindPlan(key);
  if (plan != nullptr) return plan;
  auto make = [&](const std::vector<std::vector<int64_t>>& dims) {
    try {
      return MakePlan(*this, memo_, dims);
    } catch (const ConstantDropped&) {
      if (!options_.restore) {
        Fail(ErrorCode::kInvalidModel, "the value of a constant is missing");
      }
      Restore();
      return MakePlan(*this, memo_, dims);
    }
  };
  std::shared_ptr<Plan> made = make(input_dims);
  if ((made->piece = FindPiece(*made, input_dims)) > 0) {
    auto make_rows = [&](int64_t count) {
      std::vector<std::vector<int64_t>> dims = input_dims;
      for (size_t i = 0; i < dims.size(); ++i) {
        if ((*batch_)[i]) dims[i][0] = count;
      }
      return make(dims);
    };
    made->part = make_rows(made->piece);
    if (const int64_t rest = input_dims[0][0] % made->piece) made->rest = make_rows(rest);
  }
  if (auto any = PlanForAnySize(*made, input_dims)) made = std::move(any);
  plan = std::move(made);
  std::lock_guard lock(mutex_);
  plans_.insert(plans_.begin(), plan);
  if (plans_.size() > std::max<size_t>(options_.max_plans, 1)) plans_.pop_back();
  return plan;
}

std::shared_ptr<Plan> Program::PlanForAnySize(const Plan& plan,
                                              std::vector<std::vector<int64_t>> input_dims) {
  constexpr size_t kMostTried = 8;
  std::vector<size_t> places;
  {
    std::lock_guard lock(mutex_);
    if (plans_.size() < 2) return nullptr;
    places = Differences(plan.key, plans_[0]->key);
    if (places.empty() || places != Differences(plans_[0]->key, plans_[1]->key)) return nullptr;
  }
  if (plan.piece > 0 || loosened_.size() >= kMostTried || !loosened_.insert(places).second) {
    return nullptr;
  }
  std::unordered_set<const Node*> left;
  for (const Step& step : plan.steps) {
    if (step.kind == Step::Kind::kDynamic || step.kind == Step::Kind::kControl) {
      left.insert(step.node);
    }
  }
  size_t place = 0;
  for (size_t input = 0; input < input_dims.size(); ++input) {
    ++place;  // of the rank
    for (int64_t& dim : input_dims[input]) {
      if (!std::ranges::binary_search(places, place++)) continue;
      dim = kAnySize;
      for (const Node* user : graph_->inputs[input]->users) {
        if (!left.contains(user)) return nullptr;
      }
    }
  }
  try {
    std::shared_ptr<Plan> any = MakePlan(*this, memo_, input_dims);
    const bool has_same_steps = std::ranges::equal(
        plan.steps, any->steps,
        [](const Step& a, const Step& b) { return a.node == b.node && a.kind == b.kind; });
    return has_same_steps ? any : nullptr;
  } catch (const Error&) {  // the sizes must be known
    return nullptr;
  } catch (const ConstantDropped&) {  // a step that packed it is left to the runs
    return nullptr;
  }
}

std::shared_ptr<const Plan> Program::FindPlan(const std::vector<int64_t>& key) {
  std::lock_guard lock(mutex_);
  auto it = std::find_if(plans_.begin(), plans_.end(),
                         [&](const auto& plan) { return AreFor(plan->key, key); });
  if (it == plans_.end()) return nullptr;
  std::rotate(plans_.begin(), it, it + 1);
  return plans_.front();
}

size_t Program::plan_count() const {
  std::lock_guard lock(mutex_);
  return plans_.size();
}

std::vector<Datum> Program::Run(std::span<const Datum> inputs, const RunOptions& options) {
  std::vector<Datum> outputs;
  Series(*this, options).Run(inputs, &outputs);
  return outputs;
}

void Program::Series::Run(std::span<const Datum> inputs, std::vector<Datum>* outputs) {
  if (plan_ == nullptr || !IsFor(*plan_, inputs)) plan_ = program_.PlanOf(inputs);
  if (plan_->piece > 0) {
    *outputs = program_.RunPieces(inputs, *plan_, options_);
    return;
  }
  // A run that fails takes its state along.
  std::unique_ptr<RunState> state = std::move(state_);
  if (state == nullptr) state = program_.TakeState();
  TimedRun run(plan_->thread_choice.get(), options_.profiler == nullptr);
  Executor(program_, *plan_, *state, options_, run.threads()).Run(inputs, outputs);
  run.Succeeded();
  state_ = std::move(state);
}

std::shared_ptr<const Plan> Program::PlanOf(std::span<const Datum> inputs) {
  {
    // The common case, the shapes of an earlier run, allocates nothing.
    std::lock_guard lock(mutex_);
    auto it = std::find_if(plans_.begin(), plans_.end(),
                           [&](const auto& plan) { return IsFor(*plan, inputs); });
    if (it != plans_.end()) {
      std::rotate(plans_.begin(), it, it + 1);
      return plans_.front();
    }
  }
  std::vector<std::vector<int64_t>> dims;
  for (const Datum& input : inputs) {
    dims.push_back(input.tensor() != nullptr ? input.tensor()->dims() : std::vector<int64_t>());
  }
  return PlanFor(dims);
}

int64_t Program::FindPiece(const Plan& plan, const std::vector<std::vector<int64_t>>& input_dims) {
  if (input_dims.empty() || input_dims[0].empty() || input_dims[0][0] < 2) return 0;
  const int64_t batch = input_dims[0][0];
  const int64_t piece = PieceSize(plan, batch);
  const bool in_place = std::all_of(plan.outputs.begin(), plan.outputs.end(),
                                    [](const Plan::Output& output) { return output.in_place; });
  if (piece >= batch || !in_place) return 0;
  if (!batch_) batch_ = FindBatch(*graph_);
  return batch_->empty() ? 0 : piece;
}

std::vector<Datum> Program::RunPieces(std::span<const Datum> inputs, const Plan& plan,
                                      const RunOptions& options) {
  const int64_t batch = inputs[0].tensor()->dims()[0];
  // Rows [first, first + count) of a tensor whose axis 0 is the batch; owned, so that a run writes
  // its outputs there.
  auto rows = [&](const Tensor& tensor, int64_t first, int64_t count) {
    std::vector<int64_t> dims = tensor.dims();
    dims[0] = count;
    const int64_t row_bytes = static_cast<int64_t>(tensor.bytes()) / batch;
    return Tensor(tensor.dtype(), std::move(dims),
                  static_cast<char*>(tensor.raw()) + first * row_bytes,
                  std::shared_ptr<const void>(tensor.raw(), [](const void*) {}));
  };
  std::vector<Datum> outputs;
  for (const Plan::Output& output : plan.outputs) {
    const PlannedValue& value = plan.values[output.value];
    outputs.emplace_back(buffers_->Allocate(value.dtype, value.dims));
  }
  std::unique_ptr<RunState> state = TakeState();
  for (int64_t first = 0; first < batch; first += plan.piece) {
    const int64_t count = std::min(plan.piece, batch - first);
    std::vector<Datum> some;
    std::vector<Datum> places;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensor& input = *inputs[i].tensor();
      some.emplace_back((*batch_)[i] ? rows(input, first, count) : input);
    }
    for (const Datum& output : outputs) {
      places.emplace_back(rows(*output.tensor(), first, count));
    }
    const Plan& part = count == plan.piece ? *plan.part : *plan.rest;
    Executor(*this, part, *state, options, options_.threads).Run(some, &places);
  }
  ReturnState(std::move(state));
  return outputs;
}

std::unique_ptr<Program::RunState> Program::TakeState() {
  std::lock_guard lock(mutex_);
  if (states_.empty()) return std::make_unique<RunState>();
  // The one that this thread had last, else the one used last.
  auto it = std::find_if(states_.rbegin(), states_.rend(), [](const auto& state) {
    return state->user == std::this_thread::get_id();
  });
  if (it == states_.rend()) it = states_.rbegin();
  std::unique_ptr<RunState> state = std::move(*it);
  states_.erase(std::next(it).base());
  return state;
}

void Program::ReturnState(std::unique_ptr<RunState> state) {
  state->user = std::this_thread::get_id();
  std::lock_guard lock(mutex_);
  if (states_.size() < kMaxStates) states_.push_back(std::move(state));
}

std::optional<std::shared_ptr<Program>> Program::FindDeferred(const Node& node,
                                                              const std::string& key) {
  std::lock_guard lock(mutex_);
  for (auto it = deferred_.begin(); it != deferred_.end(); ++it) {
    if (it->node != &node || it->key != key) continue;
    deferred_.splice(deferred_.begin(), deferred_, it);
    return it->program;
  }
  return {};
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
    const std::optional<std::shared_ptr<Program>> known = FindDeferred(node, key);
    if (known && *known == nullptr) continue;
    if (known) return *known;
    auto lowered = core::LowerDeferred(node, pointers, std::make_shared<SymbolTable>());
    std::shared_ptr<Program> program;
    if (lowered != nullptr) {
      if (options_.optimize) options_.optimize(*lowered);
      lowered->SortAndSweep();
      // Its constants are of this lowering alone: they must not fill the cache of the model.
      ProgramOptions options = options_;
      options.restore = nullptr;
      program = std::make_shared<Program>(lowered, device_, std::make_shared<PackCache>(), options);
    }
    std::lock_guard lock(mutex_);
    deferred_.push_front({&node, key, program});
    if (deferred_.size() > kMaxDeferred) deferred_.pop_back();
    if (program != nullptr) return program;
  }
  Fail(ErrorCode::kUnsupported, "what must be known of its inputs is too large to look at");
}

}  // namespace sardonyx
