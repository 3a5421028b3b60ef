#include "runtime/plan.h"

#include <algorithm>
#include <cstring>

#include "ops/core/core.h"
#include "runtime/bands.h"
#include "runtime/parts.h"
#include "runtime/placement.h"
#include "runtime/program.h"

namespace sardonyx {
namespace {

// Shape arithmetic: what is computed while the plan is made.
constexpr int64_t kFoldedElements = 1024;

bool IsControl(const CoreOp* op) {
  return op == &core::if_ || op == &core::loop || op == &core::scan || op == &core::deferred;
}

class PlanMaker {
 public:
  PlanMaker(Program& program, PlanMemo& memo, const std::vector<std::vector<int64_t>>& input_dims)
      : program_(program), memo_(memo), input_dims_(input_dims) {}

  std::shared_ptr<Plan> Run() {
    const size_t count = program_.values().size();
    plan_ = std::make_shared<Plan>();
    const int threads = program_.options().threads;
    if (threads > 1) plan_->thread_choice = std::make_unique<ThreadChoice>(threads);
    changed_.resize(count, !memo_.is_valid);
    roots_.resize(count, -1);
    offsets_.resize(count, 0);
    if (!memo_.is_valid) AddConstants(count);
    memo_.is_valid = false;  // should an error leave it half made
    AddInputs();
    for (size_t id = 0; id < count; ++id) {
      if (memo_.values[id].constant.defined()) roots_[id] = static_cast<int>(id);
    }
    const auto& nodes = program_.graph().nodes();
    for (size_t i = 0; i < nodes.size(); ++i) {
      AddNode(*nodes[i], program_.node_ids()[i], &memo_.choices[i]);
    }
    BindSteps();
    memo_.is_valid = true;
    plan_->values = memo_.values;
    AddOutputs();
    PlaceParts(plan_.get(), {&roots_, &offsets_}, [this](const Step& s) { return BindApart(s); });
    if (program_.options().bands) JoinIntoBands(plan_.get(), roots_, threads);
    PlaceValues(plan_.get(), {&roots_, &offsets_}, program_.graph().inputs.size());
    program_.packs().Rest();
    return plan_;
  }

 private:
  // Takes a new fact of a value that is not constant.
  void SetFact(int id, Fact fact) {
    PlannedValue& value = memo_.values[id];
    const PlannedValue before = std::move(value);
    value = {};
    value.dtype = fact.type.dtype;
    if (fact.static_shape()) {
      for (Dim dim : *fact.shape) value.dims.push_back(dim.value());
      ElementCount(value.dims);  // throws when it overflows
      value.is_static = fact.type.is_tensor() && fact.type.dtype != DType::kString;
    }
    // Elements may have symbols, which are of one plan alone.
    changed_[id] = changed_[id] || !value.is_static || fact.elements || !before.is_static ||
                   memo_.facts[id].elements || before.constant.defined() ||
                   before.dtype != value.dtype || before.dims != value.dims;
    memo_.facts[id] = std::move(fact);
    memo_.constant_ids[id] = {};
    roots_[id] = id;
  }

  // A value that is constant in this plan. The same one stays what it was: bindings that are shared
  // may refer to its memory.
  void SetKnown(int id, const Tensor& tensor) {
    const Tensor& before = memo_.values[id].constant;
    roots_[id] = id;
    if (!changed_[id] && before.defined() && before.raw() != nullptr &&
        memo_.constant_ids[id] == ConstantId() && BitEqual(before, tensor)) {
      return;
    }
    changed_[id] = true;
    SetConstant(id, tensor);
    memo_.facts[id] = Fact::Of(tensor);
    memo_.constant_ids[id] = {};
  }

  void AddConstants(size_t count) {
    memo_ = {};
    memo_.choices.resize(program_.graph().nodes().size());
    memo_.facts.resize(count);
    memo_.values.resize(count);
    memo_.constant_ids.resize(count);
    for (size_t id = program_.graph().inputs.size(); id < count; ++id) {
      const Value* value = program_.values()[id];
      if (!value->is_constant()) continue;
      memo_.facts[id] = value->fact;
      SetConstant(static_cast<int>(id), value->fact.constant);
      memo_.constant_ids[id] = program_.constant_id(static_cast<int>(id));
    }
  }

  void AddInputs() {
    const Graph& graph = program_.graph();
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      Fact fact;
      fact.type = graph.inputs[i]->fact.type;
      plan_->key.push_back(static_cast<int64_t>(input_dims_[i].size()));
      plan_->key.insert(plan_->key.end(), input_dims_[i].begin(), input_dims_[i].end());
      const int id = static_cast<int>(i);
      if (fact.type.is_tensor()) {
        fact.shape.emplace();
        for (const int64_t size : input_dims_[i]) {
          fact.shape->push_back(size == kAnySize ? symbols_.Fresh() : Dim(size));
        }
      }
      SetFact(id, std::move(fact));
      PlannedValue& value = memo_.values[id];
      if (value.is_static) {
        value.address = {kBaseFirst + id, 0};
      } else {
        value.dynamic = plan_->dynamic_count++;
      }
    }
  }

  void SetConstant(int id, Tensor tensor) {
    PlannedValue& value = memo_.values[id];
    value = {};
    value.dtype = tensor.dtype();
    value.dims = tensor.dims();
    value.is_static = tensor.dtype() != DType::kString;
    value.address = {kBaseConstant, static_cast<int64_t>(reinterpret_cast<intptr_t>(tensor.raw()))};
    value.constant = std::move(tensor);
    roots_[id] = id;
  }

  void AddNode(const Node& node, const Program::NodeIds& ids, PlanMemo::Choice* choice) {
    using Outcome = PlanMemo::Outcome;
    const bool again = choice->outcome != Outcome::kNew && choice->outcome != Outcome::kDynamic &&
                       std::none_of(ids.inputs.begin(), ids.inputs.end(),
                                    [&](int id) { return id >= 0 && changed_[id]; });
    if (!again) {
      for (int id : ids.outputs) changed_[id] = choice->outcome == Outcome::kNew;
      Choose(node, ids, choice);
    }
    if (choice->outcome == Outcome::kFolded) return;
    if (choice->outcome == Outcome::kView) return AddViews(ids, *choice);
    Step step;
    step.kind = choice->kind;
    step.node = &node;
    step.inputs = ids.inputs;
    step.outputs = ids.outputs;
    step.binding = choice->binding;
    for (int id : ids.outputs) roots_[id] = id;
    if (choice->outcome == Outcome::kDynamic) {
      for (int id : ids.outputs) memo_.values[id].dynamic = plan_->dynamic_count++;
    }
    choices_.push_back(choice);
    plan_->steps.push_back(std::move(step));
  }

  // The last steps first: while the largest weights, which are theirs, are packed and dropped,
  // those of the others are not packed yet.
  void BindSteps() {
    for (size_t s = plan_->steps.size(); s-- > 0;) {
      Step& step = plan_->steps[s];
      const bool is_new = step.binding == nullptr;
      if (is_new) {
        Bind(step, choices_[s]);
        step.kind = choices_[s]->kind;
        step.binding = choices_[s]->binding;
      }
      AlignConstants(step);
      if (is_new) DropPacked(step);
    }
  }

  void Choose(const Node& node, const Program::NodeIds& ids, PlanMemo::Choice* choice) {
    using Outcome = PlanMemo::Outcome;
    arguments_.clear();
    for (int id : ids.inputs) arguments_.push_back(id >= 0 ? &memo_.facts[id] : nullptr);
    std::vector<Fact> inferred = Infer(node, arguments_, symbols_);
    choice->binding = nullptr;
    choice->outcome = Outcome::kFolded;
    if (FoldKnown(node, ids, inferred)) return;
    bool is_static = !IsControl(node.op);
    for (int id : ids.inputs) {
      if (id >= 0 && !memo_.values[id].is_static) is_static = false;
    }
    for (size_t i = 0; i < inferred.size(); ++i) {
      const int id = ids.outputs[i];
      try {
        SetFact(id, std::move(inferred[i]));
      } catch (const Error& error) {
        if (node.origin == nullptr) throw;
        throw Error(error.code(), Print(*node.origin) + ": " + error.what());
      }
      if (!memo_.values[id].is_static) is_static = false;
    }
    if (!is_static) {
      static const auto program = std::make_shared<const Binding>(Binding{"program", {}, {}});
      static const auto late = std::make_shared<const Binding>(Binding{"at run time", {}, {}});
      for (int id : ids.outputs) changed_[id] = true;
      choice->outcome = Outcome::kDynamic;
      choice->kind = IsControl(node.op) ? Step::Kind::kControl : Step::Kind::kDynamic;
      choice->binding = IsControl(node.op) ? program : late;
      return;
    }
    FindOperands(ids.inputs, ids.outputs);
    choice->outcome = FindViews(node, ids, choice) ? Outcome::kView : Outcome::kStep;
    if (choice->outcome == Outcome::kStep && program_.options().tuner) {
      choice->measured = program_.options().tuner->Choose(
          RequestOf(node), program_.device().Implementations(*node.op));
    }
  }

  void FindOperands(std::span<const int> inputs, std::span<const int> outputs) {
    inputs_.clear();
    outputs_.clear();
    for (int id : inputs) inputs_.push_back(OperandOf(id));
    for (int id : outputs) outputs_.push_back(OperandOf(id));
  }

  // Outputs whose values follow from the shapes become constants of the plan.
  bool FoldKnown(const Node& node, const Program::NodeIds& ids, const std::vector<Fact>& inferred) {
    if (!node.op->is_pure) return false;
    const bool by_inference = std::all_of(inferred.begin(), inferred.end(),
                                          [](const Fact& fact) { return fact.known(); });
    std::vector<Tensor> results;
    if (by_inference) {
      for (const Fact& fact : inferred) results.push_back(fact.ToTensor());
    } else {
      if (IsControl(node.op)) return false;
      std::vector<Datum> data;
      for (const Fact* fact : arguments_) {
        if (fact != nullptr &&
            (!fact->constant.defined() || fact->constant.size() > kFoldedElements)) {
          return false;
        }
        data.push_back(fact != nullptr ? Datum(Aligned(fact->constant)) : Datum());
      }
      for (const Fact& fact : inferred) {
        int64_t count = 1;
        if (!fact.type.is_tensor()) return false;
        if (!fact.static_shape()) continue;  // depends on the known data: small as well
        for (Dim dim : *fact.shape) count *= std::min<int64_t>(dim.value(), kFoldedElements + 1);
        if (count > kFoldedElements) return false;
      }
      for (Datum& datum : RunReference(node, data)) {
        if (datum.tensor() == nullptr) return false;
        results.push_back(*datum.tensor());
      }
    }
    for (size_t i = 0; i < results.size(); ++i) SetKnown(ids.outputs[i], results[i]);
    return true;
  }

  Operand OperandOf(int id) const {
    if (id < 0) return {};
    const auto& values = plan_->values.empty() ? memo_.values : plan_->values;
    return values[id].AsOperand(memo_.constant_ids[id]);
  }

  bool FindViews(const Node& node, const Program::NodeIds& ids, PlanMemo::Choice* choice) const {
    choice->offsets.clear();
    if (ids.inputs.empty() || ids.inputs[0] < 0) return false;
    for (size_t i = 0; i < ids.outputs.size(); ++i) {
      choice->offsets.push_back(ViewOffset(node, inputs_, outputs_, i));
      if (choice->offsets.back() < 0) return false;
    }
    return true;
  }

  void AddViews(const Program::NodeIds& ids, const PlanMemo::Choice& choice) {
    const int from = ids.inputs[0];
    for (size_t i = 0; i < ids.outputs.size(); ++i) {
      const int to = ids.outputs[i];
      const PlannedValue& source = memo_.values[from];
      if (source.constant.defined()) {
        // A view of a constant is a constant: kernels may pack it.
        const PlannedValue& value = memo_.values[to];
        if (value.constant.defined()) continue;
        SetConstant(to, Tensor(value.dtype, value.dims,
                               static_cast<char*>(source.constant.raw()) + choice.offsets[i],
                               source.constant.owner()));
        const ConstantId id = memo_.constant_ids[from];
        memo_.constant_ids[to] = {id.base, id.offset + choice.offsets[i]};
        changed_[to] = true;
      } else {
        roots_[to] = roots_[from];
        offsets_[to] = offsets_[from] + choice.offsets[i];
      }
    }
  }

  BindRequest RequestOf(const Node& node) const {
    const ProgramOptions& options = program_.options();
    return {node, inputs_, outputs_, program_.packs(), options.threads, options.winograd};
  }

  void Bind(const Step& step, PlanMemo::Choice* choice) {
    FindOperands(step.inputs, step.outputs);
    BindRequest request = RequestOf(*step.node);
    request.wanted = choice->measured;
    auto binding = std::make_shared<Binding>();
    if (HasNoElements(outputs_)) {
      choice->kind = Step::Kind::kBound;
      binding->implementation = kNothingToDo;
      binding->bound.run = [](const StepArgs&) {};
      choice->binding = std::move(binding);
      return;
    }
    choice->kind = Step::Kind::kReference;
    binding->implementation = "reference";
    for (const Implementation& candidate : program_.device().Implementations(*step.node->op)) {
      if (!choice->measured.empty() && candidate.name != choice->measured) {
        binding->refusals.emplace_back(candidate.name,
                                       choice->measured + " was measured to be faster");
        continue;
      }
      BindResult result = candidate.bind(request);
      if (Bound* bound = std::get_if<Bound>(&result)) {
        binding->bound = std::move(*bound);
        binding->implementation = candidate.name;
        choice->kind = Step::Kind::kBound;
        break;
      }
      binding->refusals.emplace_back(candidate.name, std::move(std::get<std::string>(result)));
    }
    choice->binding = std::move(binding);
  }

  // The step bound by its implementation to rows as they lie now; null if it refuses.
  std::shared_ptr<const Binding> BindApart(const Step& step) {
    FindOperands(step.inputs, step.outputs);
    BindRequest request = RequestOf(*step.node);
    request.wanted = step.binding->implementation;
    for (const Implementation& candidate : program_.device().Implementations(*step.node->op)) {
      if (candidate.name != request.wanted) continue;
      BindResult result = candidate.bind(request);
      Bound* bound = std::get_if<Bound>(&result);
      if (bound == nullptr) return nullptr;
      auto binding = std::make_shared<Binding>(*step.binding);
      binding->bound = std::move(*bound);
      return binding;
    }
    return nullptr;
  }

  // Weights that a step reads as they are must be aligned for their type, unless it says otherwise;
  // a copy serves all plans.
  void AlignConstants(const Step& step) {
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const int id = step.inputs[i];
      if (id < 0 || !memo_.values[id].constant.defined()) continue;
      const Bound& bound = step.binding->bound;
      if (Has(bound.packed, i)) continue;
      const Tensor constant = memo_.values[id].constant;
      if (constant.raw() == nullptr) throw ConstantDropped{};
      program_.packs().Check(constant);
      if (IsAligned(constant) || Has(bound.unaligned, i)) continue;
      auto copy = program_.packs().Get(
          constant, memo_.constant_ids[id], "aligned", constant.bytes(),
          [](const Tensor& source, void* to) { std::memcpy(to, source.raw(), source.bytes()); });
      void* data = const_cast<void*>(copy.get());
      SetConstant(id, Tensor(constant.dtype(), constant.dims(), data, std::move(copy)));
    }
  }

  // Weights that are only used packed need no memory of their own any more.
  void DropPacked(const Step& step) {
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const int id = step.inputs[i];
      if (id < 0 || !Has(step.binding->bound.packed, i)) continue;
      if (!program_.Drop(id, *step.node, i)) continue;
      memo_.facts[id] = program_.values()[id]->fact;
      SetConstant(id, memo_.facts[id].constant);
    }
  }

  void AddOutputs() {
    for (int id : program_.output_ids()) {
      const Tensor& constant = memo_.values[id].constant;
      if (constant.raw() != nullptr) program_.packs().Check(constant);
      plan_->outputs.push_back({id, false});
    }
  }

  Program& program_;
  PlanMemo& memo_;
  const std::vector<std::vector<int64_t>>& input_dims_;
  std::shared_ptr<Plan> plan_;
  SymbolTable symbols_;        // for dimensions that depend on data
  std::vector<bool> changed_;  // by id, against the plan before
  std::vector<const Fact*> arguments_;
  std::vector<PlanMemo::Choice*> choices_;  // by step
  std::vector<Operand> inputs_, outputs_;   // of the node or step at hand
  std::vector<int> roots_;
  std::vector<int64_t> offsets_;  // in the root, bytes
};

}  // namespace

std::shared_ptr<Plan> MakePlan(Program& program, PlanMemo& memo,
                               const std::vector<std::vector<int64_t>>& input_dims) {
  return PlanMaker(program, memo, input_dims).Run();
}

std::string Explain(const Plan& plan) {
  std::string text = fmt::format("{:<4} {:<39} {:<17} {:<19} {:<21} {}\n", "step", "node",
                                 "core operation", "implementation", "output", "buffer");
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const Step& step = plan.steps[s];
    const PlannedValue& output = plan.values[step.outputs[0]];
    const Address address = output.address;
    const std::string buffer = address.base == kBaseArena ? fmt::format("arena+{}", address.offset)
                               : output.dynamic >= 0      ? std::string("at run time")
                                                     : fmt::format("output+{}", address.offset);
    text += fmt::format("{:<4} {:<39} {:<17} {:<19} {:<21} {}\n", s,
                        step.node->origin ? step.node->origin->name : "", step.node->op->name,
                        step.binding->implementation,
                        output.is_static ? PrintDims(output.dims) : std::string("?"), buffer);
    for (const auto& [name, reason] : step.binding->refusals) {
      text += fmt::format("       refused {}: {}\n", name, reason);
    }
    for (const std::string& name : step.binding->joined) {
      text += fmt::format("       runs {}\n", name);
    }
  }
  if (plan.piece > 0) {
    text += fmt::format("runs in pieces of {} along the batch, each by such a plan of its own\n",
                        plan.piece);
  }
  text += fmt::format("arena: {} bytes, steps: {}\n", plan.arena_bytes, plan.steps.size());
  return text;
}

}  // namespace sardonyx
