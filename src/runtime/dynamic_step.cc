// Steps whose shapes are known when they run: inferred, bound and given memory then. As long as the
// operands of a step are as they were, what was found stays.
#include <algorithm>
#include <cstring>

#include "ops/core/core.h"
#include "runtime/executor.h"

namespace sardonyx {
namespace {

// More floats than tell sizes or scales, and more integers than sizes of parts.
constexpr int64_t kFewFloats = 64, kFewIntegers = 1024;
// Inputs of so many elements are constants to what is bound: axes, sizes and scales.
constexpr int64_t kFewConstants = 64;

// What inference cannot know of a tensor's dimensions is kFound.
std::vector<int64_t> DimsOf(const Fact& fact) {
  std::vector<int64_t> dims;
  for (Dim dim : *fact.shape) dims.push_back(dim.known() ? dim.value() : kFound);
  return dims;
}

// Whether sizes may follow from the elements of this input. The first is data, but for a shape or
// where a range begins; elementwise nodes have data alone.
bool MayTellSizes(const Node& node, size_t input, const Tensor& tensor) {
  const DType dtype = tensor.dtype();
  const bool is_integer = IsInteger(dtype) || dtype == DType::kBool;
  if (node.op->expression != nullptr || dtype == DType::kString) return false;
  if (tensor.size() > (is_integer ? kFewIntegers : kFewFloats)) return false;
  return input > 0 || is_integer || tensor.size() == 1;
}

// What inference is told of an input. It sees no elements that RunAgain does not compare.
Fact FactOf(const Node& node, size_t input, const Datum& datum) {
  const Tensor* tensor = datum.tensor();
  if (tensor != nullptr && MayTellSizes(node, input, *tensor)) return Fact::Of(*tensor);
  Fact fact;
  fact.type = tensor == nullptr ? node.inputs[input]->fact.type : Type(tensor->dtype());
  if (tensor != nullptr) fact.shape.emplace(tensor->dims().begin(), tensor->dims().end());
  return fact;
}

bool AreAlike(const Operand& a, const Operand& b) {
  return a.dtype == b.dtype && a.dims == b.dims && a.constant == b.constant && a.id == b.id;
}

}  // namespace

std::string_view Executor::RunDynamic(const Step& step) {
  const Node& node = *step.node;
  Program::LateBinding& late = state_.late_bindings[&node];
  if (RunAgain(step, late)) return late.implementation;
  late.suits = false;
  // A sequence holds on to its parts and a view is its input, so these must own their memory, and
  // the caller must not get weights to write to.
  const bool keeps = node.op->is_view ||
                     std::any_of(node.outputs.begin(), node.outputs.end(), [](const Value* output) {
                       return !output->fact.type.is_tensor();
                     });
  std::vector<Datum> inputs;
  std::vector<Fact> facts;
  std::vector<const Fact*> pointers;
  inputs.reserve(step.inputs.size());
  facts.reserve(step.inputs.size());
  pointers.reserve(step.inputs.size());
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const int id = step.inputs[i];
    inputs.push_back(id >= 0 ? Read(id) : Datum());
    const bool weight = id >= 0 && plan_.values[id].constant.defined();
    if (keeps && inputs[i].tensor() != nullptr && (weight || !inputs[i].tensor()->owner())) {
      inputs[i] = OwnCopy(*inputs[i].tensor(), *program_.buffers_);
    }
    facts.push_back(id >= 0 ? FactOf(node, i, inputs[i]) : Fact());
    pointers.push_back(id >= 0 ? &facts.back() : nullptr);
  }
  SymbolTable symbols;
  const std::vector<Fact> inferred = Infer(node, pointers, symbols);
  NoteInputs(step, inputs, late);
  if (node.op->is_view && inputs[0].tensor() != nullptr && inferred[0].static_shape() &&
      inferred[0].type.dtype != DType::kString) {
    late.Forget();
    late.outputs.assign(1, {inferred[0].type.dtype, DimsOf(inferred[0])});
    late.implementation = "view";
    late.is_view = late.suits = true;
    Store(step.outputs[0], inputs[0].tensor()->Reshaped(late.outputs[0].dims), step);
    return late.implementation;
  }
  if (RunLateBound(step, inferred, late)) return late.implementation;
  std::vector<Datum> results = RunReference(node, inputs);
  for (size_t i = 0; i < results.size(); ++i) Store(step.outputs[i], std::move(results[i]), step);
  return "reference";
}

void Executor::NoteInputs(const Step& step, std::span<const Datum> inputs,
                          Program::LateBinding& late) {
  if (late.inputs.size() != inputs.size()) {
    late.Forget();
    late.inputs.assign(inputs.size(), {});
    late.known.assign(inputs.size(), {});
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor* const tensor = inputs[i].tensor();
    state_.inputs[i] = tensor != nullptr ? tensor->raw() : nullptr;
    Tensor& known = late.known[i];
    Operand operand;
    bool stays = !known.defined();  // whether what is known is so already
    if (tensor != nullptr) {
      operand.dtype = tensor->dtype();
      operand.dims = tensor->dims();
      const bool is_weight = program_.values()[step.inputs[i]]->is_constant();
      if (is_weight) operand.id = program_.constant_id(step.inputs[i]);
      const bool tells = is_weight || MayTellSizes(*step.node, i, *tensor);
      stays = known.defined() == tells && (!tells || is_weight || BitEqual(known, *tensor));
      if (is_weight || (tells && i > 0 && tensor->size() <= kFewConstants)) {
        operand.constant = &known;
        if (!stays) late.Forget();
      }
      if (!stays) known = is_weight ? *tensor : tells ? Copy(*tensor) : Tensor();
    } else {
      known = Tensor();
    }
    if (AreAlike(late.inputs[i], operand)) continue;
    late.Forget();
    late.inputs[i] = std::move(operand);
  }
}

bool Executor::RunAgain(const Step& step, const Program::LateBinding& late) {
  if (!late.suits) return false;
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    state_.inputs[i] = nullptr;
    if (step.inputs[i] < 0) continue;
    const PlannedValue& value = plan_.values[step.inputs[i]];
    const Tensor* const tensor = value.constant.defined() ? &value.constant
                                 : value.dynamic >= 0     ? state_.dynamic[value.dynamic].tensor()
                                                          : nullptr;
    if (tensor == nullptr && value.dynamic >= 0) return false;
    if (tensor != nullptr && !IsAligned(*tensor)) return false;
    const Operand& before = late.inputs[i];
    const DType dtype = tensor != nullptr ? tensor->dtype() : value.dtype;
    if (dtype != before.dtype || dtype == DType::kString) return false;
    if ((tensor != nullptr ? tensor->dims() : value.dims) != before.dims) return false;
    const void* const data = tensor != nullptr ? tensor->raw() : Pointer(value.address);
    const Tensor& known = late.known[i];
    const bool is_weight = before.id.base != 0;
    if (known.defined() && !is_weight && known.bytes() > 0 &&
        std::memcmp(known.raw(), data, static_cast<size_t>(known.bytes())) != 0) {
      return false;
    }
    state_.inputs[i] = data;
  }
  if (!late.is_view) {
    PlaceOutputs(step, late);
    RunLate(step, late);
    return true;
  }
  const PlannedValue& value = plan_.values[step.inputs[0]];
  const Tensor* const input = value.dynamic >= 0 ? state_.dynamic[value.dynamic].tensor() : nullptr;
  if (input == nullptr || !input->owner()) return false;  // it has to be copied
  Store(step.outputs[0], input->Reshaped(late.outputs[0].dims), step);
  return true;
}

bool Executor::RunLateBound(const Step& step, std::span<const Fact> inferred,
                            Program::LateBinding& late) {
  const auto implementations = program_.device().Implementations(*step.node->op);
  if (implementations.empty()) return false;
  late.finds_sizes = false;
  for (const Fact& fact : inferred) {
    if (!fact.type.is_tensor() || fact.type.dtype == DType::kString || !fact.ranked()) return false;
    late.finds_sizes = late.finds_sizes || !fact.static_shape();
  }
  late.outputs.resize(inferred.size());
  for (size_t i = 0; i < inferred.size(); ++i) {
    Operand output{inferred[i].type.dtype, DimsOf(inferred[i])};
    if (AreAlike(late.outputs[i], output)) continue;
    late.Forget();
    late.outputs[i] = std::move(output);
  }
  // Before anything computes with their sizes: impossible ones are refused here.
  PlaceOutputs(step, late);
  if (!late.finds_sizes && HasNoElements(late.outputs)) {
    late.Forget();
    late.implementation = kNothingToDo;
    return late.suits = true;
  }
  const ProgramOptions& options = program_.options();
  const BindRequest request{*step.node,       late.inputs,     late.outputs,
                            program_.packs(), options.threads, options.winograd};
  for (auto it = implementations.begin(); late.bound.run == nullptr; ++it) {
    if (it == implementations.end()) return false;
    if (it->finds_sizes != late.finds_sizes) continue;
    BindResult result = it->bind(request);
    Bound* const bound = std::get_if<Bound>(&result);
    if (bound == nullptr) continue;
    late.bound = std::move(*bound);
    late.implementation = it->name;
  }
  late.suits = true;
  RunLate(step, late);
  return true;
}

void Executor::PlaceOutputs(const Step& step, const Program::LateBinding& late) {
  for (size_t i = 0; i < late.outputs.size(); ++i) {
    const Operand& output = late.outputs[i];
    state_.outputs[i] = nullptr;
    if (std::ranges::find(output.dims, kFound) != output.dims.end()) continue;
    Tensor tensor = program_.buffers_->Allocate(output.dtype, output.dims);
    state_.outputs[i] = tensor.raw();
    Store(step.outputs[i], std::move(tensor), step);
  }
}

void Executor::RunLate(const Step& step, const Program::LateBinding& late) {
  const Bound& bound = late.bound;
  if (bound.run == nullptr) return;  // nothing to do
  Tensor scratch;
  if (bound.scratch_bytes > 0) {
    scratch = program_.buffers_->Allocate(DType::kUInt8, {bound.scratch_bytes});
  }
  StepArgs args{.in = state_.inputs.data(),
                .out = state_.outputs.data(),
                .scratch = scratch.raw(),
                .parallel = parallel_};
  if (!late.finds_sizes) return bound.run(args);
  const StepArgs::PlaceOutput place = [&](size_t i, const std::vector<int64_t>& dims) {
    Tensor tensor = program_.buffers_->Allocate(late.outputs[i].dtype, dims);
    state_.outputs[i] = tensor.raw();
    Store(step.outputs[i], std::move(tensor), step);
    return state_.outputs[i];
  };
  args.place = &place;
  bound.run(args);
}

}  // namespace sardonyx
