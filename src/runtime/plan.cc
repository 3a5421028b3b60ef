#include "runtime/plan.h"

#include <algorithm>
#include <cstring>
#include <deque>

#include "ops/core/core.h"
#include "runtime/memory_planner.h"
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
  PlanMaker(Program& program, std::vector<std::vector<int64_t>> input_dims)
      : program_(program), input_dims_(std::move(input_dims)) {}

  std::shared_ptr<const Plan> Run() {
    plan_ = std::make_shared<Plan>();
    const size_t count = program_.values().size();
    facts_.resize(count, nullptr);
    plan_->values.resize(count);
    roots_.resize(count, -1);
    offsets_.resize(count, 0);
    last_use_.resize(count, -1);
    constant_ids_.resize(count);
    AddInputsAndConstants();
    const auto& nodes = program_.graph().nodes();
    for (size_t i = 0; i < nodes.size(); ++i) AddNode(*nodes[i], program_.node_ids()[i]);
    AddOutputs();
    FindLastUses();
    PlaceValues();
    FillAddresses();
    return plan_;
  }

 private:
  // What is known of memory: a root is a block of its own; other values lie in their root.
  struct Block {
    int first = -1;
    int last = -1;
    int64_t bytes = 0;
    int output = -1;      // lies in the buffer of that output
    bool placed = false;  // an input, a constant or a dynamic value: not the arena's
  };

  const Fact& Keep(Fact fact) { return kept_.emplace_back(std::move(fact)); }

  void SetStatic(int id, const Fact& fact) {
    PlannedValue& value = plan_->values[id];
    value.dtype = fact.type.dtype;
    value.dims.clear();
    for (Dim dim : *fact.shape) value.dims.push_back(dim.value());
    ElementCount(value.dims);  // throws when it overflows
    value.is_static = fact.type.is_tensor() && fact.type.dtype != DType::kString;
  }

  void AddInputsAndConstants() {
    const Graph& graph = program_.graph();
    for (size_t i = 0; i < graph.inputs.size(); ++i) {
      Fact fact;
      fact.type = graph.inputs[i]->fact.type;
      plan_->key.push_back(static_cast<int64_t>(input_dims_[i].size()));
      plan_->key.insert(plan_->key.end(), input_dims_[i].begin(), input_dims_[i].end());
      const int id = static_cast<int>(i);
      if (fact.type.is_tensor()) {
        fact.shape.emplace(input_dims_[i].begin(), input_dims_[i].end());
        SetStatic(id, fact);
      }
      PlannedValue& value = plan_->values[id];
      value.dtype = fact.type.dtype;
      if (value.is_static) {
        value.address = {kBaseFirst + id, 0};
      } else {
        value.dynamic = plan_->dynamic_count++;
      }
      roots_[id] = id;
      facts_[id] = &Keep(std::move(fact));
    }
    for (size_t id = graph.inputs.size(); id < program_.values().size(); ++id) {
      const Value* value = program_.values()[id];
      if (!value->is_constant()) continue;
      facts_[id] = &value->fact;
      SetConstant(static_cast<int>(id), value->fact.constant);
      constant_ids_[id] = program_.constant_id(static_cast<int>(id));
    }
  }

  void SetConstant(int id, Tensor tensor) {
    PlannedValue& value = plan_->values[id];
    value.constant = tensor;
    value.dtype = tensor.dtype();
    value.dims = tensor.dims();
    value.is_static = tensor.dtype() != DType::kString;
    value.address = {kBaseConstant, static_cast<int64_t>(reinterpret_cast<intptr_t>(tensor.raw()))};
    roots_[id] = id;
  }

  void AddNode(const Node& node, const Program::NodeIds& ids) {
    arguments_.clear();
    for (int id : ids.inputs) arguments_.push_back(id >= 0 ? facts_[id] : nullptr);
    std::vector<Fact> inferred = Infer(node, arguments_, symbols_);
    if (FoldKnown(node, ids, inferred)) return;
    bool is_static = !IsControl(node.op);
    for (int id : ids.inputs) {
      if (id >= 0 && !plan_->values[id].is_static) is_static = false;
    }
    for (size_t i = 0; i < inferred.size(); ++i) {
      const int id = ids.outputs[i];
      try {
        if (inferred[i].static_shape()) SetStatic(id, inferred[i]);
      } catch (const Error& error) {
        if (node.origin == nullptr) throw;
        throw Error(error.code(), Print(*node.origin) + ": " + error.what());
      }
      if (!plan_->values[id].is_static) is_static = false;
      plan_->values[id].dtype = inferred[i].type.dtype;
      roots_[id] = id;
      facts_[id] = &Keep(std::move(inferred[i]));
    }
    Step step;
    step.node = &node;
    step.inputs = ids.inputs;
    step.outputs = ids.outputs;
    if (!is_static) {
      AlignConstants(step);
      step.kind = IsControl(node.op) ? Step::Kind::kControl : Step::Kind::kDynamic;
      step.implementation = IsControl(node.op) ? "program" : "at run time";
      for (int id : ids.outputs) plan_->values[id].dynamic = plan_->dynamic_count++;
      plan_->steps.push_back(std::move(step));
      return;
    }
    inputs_.clear();
    outputs_.clear();
    for (int id : ids.inputs) inputs_.push_back(OperandOf(id));
    for (int id : ids.outputs) outputs_.push_back(OperandOf(id));
    if (AddViews(node, ids)) return;
    Bind(node, &step);
    plan_->steps.push_back(std::move(step));
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
    for (size_t i = 0; i < results.size(); ++i) {
      SetConstant(ids.outputs[i], results[i]);
      facts_[ids.outputs[i]] = &Keep(Fact::Of(results[i]));
    }
    return true;
  }

  Operand OperandOf(int id) const {
    if (id < 0) return {};
    const PlannedValue& value = plan_->values[id];
    return {value.dtype, value.dims, value.constant.defined() ? &value.constant : nullptr,
            constant_ids_[id]};
  }

  bool AddViews(const Node& node, const Program::NodeIds& ids) {
    if (ids.inputs.empty() || ids.inputs[0] < 0) return false;
    std::vector<int64_t> offsets;
    for (size_t i = 0; i < ids.outputs.size(); ++i) {
      offsets.push_back(ViewOffset(node, inputs_, outputs_, i));
      if (offsets.back() < 0) return false;
    }
    const int from = ids.inputs[0];
    for (size_t i = 0; i < ids.outputs.size(); ++i) {
      const int to = ids.outputs[i];
      roots_[to] = roots_[from];
      offsets_[to] = offsets_[from] + offsets[i];
      const PlannedValue& source = plan_->values[from];
      if (source.constant.defined()) {
        // A view of a constant is a constant: kernels may pack it.
        PlannedValue& value = plan_->values[to];
        SetConstant(to, Tensor(value.dtype, value.dims,
                               static_cast<char*>(source.constant.raw()) + offsets[i],
                               source.constant.owner()));
        constant_ids_[to] = {constant_ids_[from].base, constant_ids_[from].offset + offsets[i]};
        offsets_[to] = 0;
      }
    }
    return true;
  }

  void Bind(const Node& node, Step* step) {
    const BindRequest request{node, inputs_, outputs_, program_.packs(),
                              program_.options().threads};
    for (const Implementation& candidate : program_.device().Implementations(*node.op)) {
      BindResult result = candidate.bind(request);
      if (Bound* bound = std::get_if<Bound>(&result)) {
        step->bound = std::move(*bound);
        step->implementation = candidate.name;
        AlignConstants(*step);
        DropPacked(*step);
        return;
      }
      step->refusals.push_back(
          fmt::format("{}: {}", candidate.name, std::get<std::string>(result)));
    }
    step->kind = Step::Kind::kReference;
    step->implementation = "reference";
    AlignConstants(*step);
  }

  // Weights that a step reads as they are must be aligned for their type; a copy serves all plans.
  void AlignConstants(const Step& step) {
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const int id = step.inputs[i];
      if (id < 0 || !plan_->values[id].constant.defined()) continue;
      if (i < 32 && ((step.bound.packed >> i) & 1) != 0) continue;
      const Tensor& constant = plan_->values[id].constant;
      if (constant.raw() == nullptr) throw ConstantDropped{};
      if (IsAligned(constant)) continue;
      auto copy = program_.packs().Get(
          constant, constant_ids_[id], "aligned", constant.bytes(),
          [](const Tensor& source, void* to) { std::memcpy(to, source.raw(), source.bytes()); });
      void* data = const_cast<void*>(copy.get());
      SetConstant(id, Tensor(constant.dtype(), constant.dims(), data, std::move(copy)));
    }
  }

  // Weights that only this step uses, and only packed, need no memory of their own any more.
  void DropPacked(const Step& step) {
    for (size_t i = 0; i < step.inputs.size() && i < 32; ++i) {
      const int id = step.inputs[i];
      if (id < 0 || ((step.bound.packed >> i) & 1) == 0 || !program_.Drop(id)) continue;
      SetConstant(id, program_.values()[id]->fact.constant);
    }
  }

  void AddOutputs() {
    for (int id : program_.output_ids()) plan_->outputs.push_back({id, false});
  }

  void FindLastUses() {
    const int end = static_cast<int>(plan_->steps.size());
    for (int s = 0; s < end; ++s) {
      for (int id : plan_->steps[s].inputs) {
        if (id >= 0) last_use_[id] = s;
      }
    }
    for (const Plan::Output& output : plan_->outputs) last_use_[output.value] = end;
    std::vector<int> last_of_all = last_use_;  // of the value and of its views
    for (size_t id = 0; id < roots_.size(); ++id) {
      if (roots_[id] < 0) continue;
      int& last = last_of_all[roots_[id]];
      last = std::max(last, last_use_[id]);
    }
    for (size_t id = 0; id < plan_->values.size(); ++id) {
      const int last = last_of_all[id];
      if (plan_->values[id].dynamic >= 0 && last >= 0 && last < end) {
        plan_->steps[last].releases.push_back(plan_->values[id].dynamic);
      }
    }
  }

  void PlaceValues() {
    const int end = static_cast<int>(plan_->steps.size());
    blocks_.resize(plan_->values.size());
    for (size_t id = 0; id < plan_->values.size(); ++id) {
      const int root = roots_[id];
      if (root < 0) continue;
      Block& block = blocks_[root];
      block.last = std::max(block.last, last_use_[id]);
      const PlannedValue& value = plan_->values[root];
      block.placed = value.dynamic >= 0 || value.address.base != kBaseAbsent;
    }
    for (int s = 0; s < end; ++s) ShareOrOpen(s);
    // Outputs are written in place where nothing else claims the block.
    for (size_t i = 0; i < plan_->outputs.size(); ++i) {
      const int id = plan_->outputs[i].value;
      if (!plan_->values[id].is_static || plan_->values[id].constant.defined()) continue;
      Block& block = blocks_[roots_[id]];
      const PlannedValue& value = plan_->values[id];
      if (block.placed || block.output >= 0 || offsets_[id] != 0 ||
          block.bytes != ByteSize(value.dtype, ElementCount(value.dims))) {
        continue;
      }
      block.output = static_cast<int>(i);
      plan_->outputs[i].in_place = true;
    }
    std::vector<Lifetime> lifetimes;
    std::vector<int> owners;  // a root, or -1 - step for scratch
    for (size_t id = 0; id < blocks_.size(); ++id) {
      Block& block = blocks_[id];
      if (roots_[id] != static_cast<int>(id) || block.placed || block.first < 0) continue;
      if (block.output >= 0) {
        plan_->values[id].address = {OutputBase(block.output), 0};
        continue;
      }
      lifetimes.push_back({block.bytes, block.first, std::max(block.first, block.last), 0});
      owners.push_back(static_cast<int>(id));
    }
    for (int s = 0; s < end; ++s) {
      if (plan_->steps[s].bound.scratch_bytes > 0) {
        lifetimes.push_back({plan_->steps[s].bound.scratch_bytes, s, s, 0});
        owners.push_back(-1 - s);
      }
    }
    plan_->arena_bytes = PlanMemory(&lifetimes);
    for (size_t i = 0; i < lifetimes.size(); ++i) {
      const Address address{kBaseArena, lifetimes[i].offset};
      if (owners[i] >= 0) {
        plan_->values[owners[i]].address = address;
      } else {
        plan_->steps[-1 - owners[i]].scratch = address;
      }
    }
  }

  // Output 0 takes over the block of an input that ends here, else opens its own.
  void ShareOrOpen(int s) {
    Step& step = plan_->steps[s];
    if (step.kind == Step::Kind::kDynamic || step.kind == Step::Kind::kControl) return;
    for (size_t o = 0; o < step.outputs.size(); ++o) {
      const int id = step.outputs[o];
      const PlannedValue& value = plan_->values[id];
      const int64_t bytes = ByteSize(value.dtype, ElementCount(value.dims));
      if (o == 0 && ShareInput(step, s, id, bytes)) continue;
      Block& block = blocks_[id];
      block.first = s;
      block.bytes = bytes;
    }
  }

  bool ShareInput(const Step& step, int s, int output, int64_t bytes) {
    for (size_t i = 0; i < step.inputs.size() && i < 32; ++i) {
      const int input = step.inputs[i];
      if (input < 0 || ((step.bound.inplace >> i) & 1) == 0) continue;
      const int root = roots_[input];
      Block& block = blocks_[root];
      if (block.placed || block.last != s || block.bytes != bytes || offsets_[input] != 0) continue;
      const bool alone = std::none_of(step.inputs.begin(), step.inputs.end(), [&](int other) {
        return other >= 0 && other != input && roots_[other] == root;
      });
      if (!alone) continue;
      block.last = std::max(block.last, blocks_[output].last);
      for (int& r : roots_) {
        if (r == output) r = root;
      }
      return true;
    }
    return false;
  }

  int32_t OutputBase(int output) const {
    return kBaseFirst + static_cast<int32_t>(program_.graph().inputs.size()) + output;
  }

  void FillAddresses() {
    const int32_t dynamic_base = OutputBase(static_cast<int>(program_.graph().outputs.size()));
    for (size_t id = 0; id < plan_->values.size(); ++id) {
      PlannedValue& value = plan_->values[id];
      if (value.constant.defined()) continue;
      if (value.dynamic >= 0) {
        value.address = {dynamic_base + value.dynamic, 0};
        continue;
      }
      const int root = roots_[id];
      if (root < 0) continue;
      const PlannedValue& base = plan_->values[root];
      value.address = base.dynamic >= 0
                          ? Address{dynamic_base + base.dynamic, offsets_[id]}
                          : Address{base.address.base, base.address.offset + offsets_[id]};
    }
    for (Step& step : plan_->steps) {
      step.first_address = static_cast<uint32_t>(plan_->addresses.size());
      plan_->max_operands =
          std::max({plan_->max_operands, step.inputs.size(), step.outputs.size()});
      for (int id : step.inputs) {
        plan_->addresses.push_back(id >= 0 ? plan_->values[id].address : Address{});
      }
      for (int id : step.outputs) plan_->addresses.push_back(plan_->values[id].address);
    }
  }

  Program& program_;
  std::vector<std::vector<int64_t>> input_dims_;
  std::shared_ptr<Plan> plan_;
  SymbolTable symbols_;  // for dimensions that depend on data
  std::deque<Fact> kept_;
  std::vector<const Fact*> facts_;
  std::vector<const Fact*> arguments_;
  std::vector<Operand> inputs_, outputs_;
  std::vector<int> roots_;
  std::vector<int64_t> offsets_;  // in the root, bytes
  std::vector<int> last_use_;
  std::vector<Block> blocks_;
  std::vector<ConstantId> constant_ids_;
};

}  // namespace

std::shared_ptr<const Plan> MakePlan(Program& program,
                                     std::vector<std::vector<int64_t>> input_dims) {
  return PlanMaker(program, std::move(input_dims)).Run();
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
                        step.implementation,
                        output.is_static ? PrintDims(output.dims) : std::string("?"), buffer);
    for (const std::string& refusal : step.refusals) text += "       refused " + refusal + "\n";
  }
  text += fmt::format("arena: {} bytes, steps: {}\n", plan.arena_bytes, plan.steps.size());
  return text;
}

}  // namespace sardonyx
