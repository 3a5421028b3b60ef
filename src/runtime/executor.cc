#include "runtime/executor.h"

#include <algorithm>
#include <cstring>

#include "base/out_of_memory.h"
#include "ops/core/core.h"
#include "runtime/arena_guard.h"

namespace sardonyx {
namespace {

Operand OperandOf(const Datum& datum, const Tensor** constant) {
  const Tensor* tensor = datum.tensor();
  if (tensor == nullptr) return {};
  *constant = tensor;
  return {tensor->dtype(), tensor->dims()};
}

// What inference cannot know of a tensor's dimensions is kFound.
std::vector<int64_t> DimsOf(const Fact& fact) {
  std::vector<int64_t> dims;
  for (Dim dim : *fact.shape) dims.push_back(dim.known() ? dim.value() : kFound);
  return dims;
}

// Constants that inference reads are few and small; larger ones only cost time.
Fact FactOf(const Datum& datum, const Type& type) {
  const Tensor* tensor = datum.tensor();
  if (tensor == nullptr) {
    Fact fact;
    fact.type = type;
    return fact;
  }
  if (tensor->size() <= 1024) return Fact::Of(*tensor);
  Fact fact;
  fact.type = tensor->dtype();
  fact.shape.emplace(tensor->dims().begin(), tensor->dims().end());
  return fact;
}

// Whether what is bound for the ones suits the others.
bool AreAlike(std::span<const Operand> some, std::span<const Operand> others) {
  return std::equal(some.begin(), some.end(), others.begin(), others.end(),
                    [](const Operand& a, const Operand& b) {
                      if (a.dtype != b.dtype || a.dims != b.dims || a.id != b.id) return false;
                      if (a.constant == nullptr || b.constant == nullptr)
                        return a.constant == b.constant;
                      return a.id.base != 0 || BitEqual(*a.constant, *b.constant);
                    });
}

// Whether a value of this type and shape may be written where the datum lies.
bool IsPlace(const Datum& datum, DType dtype, const std::vector<int64_t>& dims) {
  return IsSole(datum) && dtype != DType::kString && datum.tensor()->dtype() == dtype &&
         datum.tensor()->dims() == dims;
}

// Copies to another place, large tensors with all threads.
void CopyTo(void* to, const Tensor& from, const Parallel& parallel) {
  constexpr int64_t kPart = int64_t{128} << 10, kMostTasks = 32;
  const int64_t bytes = from.bytes(), tasks = std::clamp<int64_t>(bytes / kPart, 1, kMostTasks);
  parallel.For(bytes == 0 ? 0 : tasks, [&](int64_t task) {
    const int64_t begin = bytes / tasks * task;
    const int64_t end = task + 1 == tasks ? bytes : begin + bytes / tasks;
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from.raw()) + begin,
                static_cast<size_t>(end - begin));
  });
}

Tensor OwnCopy(const Tensor& tensor, BufferPool& pool) {
  if (tensor.dtype() == DType::kString) return Copy(tensor);
  Tensor copy = pool.Allocate(tensor.dtype(), tensor.dims());
  if (tensor.bytes() > 0) std::memcpy(copy.raw(), tensor.raw(), tensor.bytes());
  return copy;
}

Type TypeOf(const Node& node, size_t i) { return node.inputs[i]->fact.type; }

}  // namespace

void Executor::Run(std::span<const Datum> inputs, std::vector<Datum>* outputs) {
  outputs->resize(plan_.outputs.size());
  Prepare(inputs, outputs);
  for (const Step& step : plan_.steps) {
    try {
      const auto run = [&] {
        return NamingMemory(step.node->op->name, [&] { return RunStep(step); });
      };
      if (options_.profiler == nullptr) {
        run();
      } else {
        const auto start = Profiler::Clock::now();
        const std::string_view implementation = run();
        const auto end = Profiler::Clock::now();
        const PlannedValue& output = plan_.values[step.outputs[0]];
        const Tensor* made =
            output.dynamic >= 0 ? state_.dynamic[output.dynamic].tensor() : nullptr;
        options_.profiler->Record(*step.node, implementation,
                                  made != nullptr ? made->dims() : output.dims, start, end,
                                  options_.depth);
      }
    } catch (const Error& error) {
      if (step.node->origin == nullptr) throw;
      const std::string name = Print(*step.node->origin);
      if (std::string_view(error.what()).find(name) != std::string_view::npos) throw;
      throw Error(error.code(), name + ": " + error.what());
    }
    for (int dynamic : step.releases) Release(dynamic);
  }
  for (size_t i = 0; i < outputs->size(); ++i) {
    if (plan_.outputs[i].in_place) continue;
    Datum& output = (*outputs)[i];
    const int id = plan_.outputs[i].value;
    Datum datum = Read(id);
    const Tensor* tensor = datum.tensor();
    // Weights, inputs and the arena are not the caller's to keep; a second name of one output is.
    const bool own =
        plan_.values[id].dynamic >= 0 && tensor != nullptr && tensor->owner() &&
        std::none_of(inputs.begin(), inputs.end(), [&](const Datum& input) {
          return input.tensor() != nullptr && input.tensor()->owner() == tensor->owner();
        });
    if (tensor == nullptr || own) {
      output = std::move(datum);
    } else if (tensor->dtype() == DType::kString) {
      output = Copy(*tensor);
    } else {
      if (!IsPlace(output, tensor->dtype(), tensor->dims())) {
        output = AllocateOutput(i, tensor->dtype(), tensor->dims());
      }
      CopyTo(output.tensor()->raw(), *tensor, parallel_);
    }
  }
  for (int dynamic = 0; dynamic < plan_.dynamic_count; ++dynamic) Release(dynamic);
}

void Executor::Prepare(std::span<const Datum> inputs, std::vector<Datum>* outputs) {
  if (state_.arena.bytes() < plan_.arena_bytes) AllocateArena();
  state_.bases.assign(kBaseFirst + inputs.size() + outputs->size() + plan_.dynamic_count, nullptr);
  state_.dynamic.resize(plan_.dynamic_count);
  state_.branched.resize(plan_.dynamic_count);
  state_.inputs.resize(std::max(state_.inputs.size(), plan_.max_operands));
  state_.outputs.resize(std::max(state_.outputs.size(), plan_.max_operands));
  state_.bases[kBaseArena] = static_cast<char*>(state_.arena.raw());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const PlannedValue& value = plan_.values[i];
    if (value.dynamic >= 0) {
      state_.dynamic[value.dynamic] = inputs[i];
    } else {
      state_.bases[kBaseFirst + i] = static_cast<char*>(inputs[i].tensor()->raw());
    }
  }
  for (size_t i = 0; i < outputs->size(); ++i) {
    if (!plan_.outputs[i].in_place) continue;
    const PlannedValue& value = plan_.values[plan_.outputs[i].value];
    Datum& output = (*outputs)[i];
    if (!IsPlace(output, value.dtype, value.dims)) {
      output = AllocateOutput(i, value.dtype, value.dims);
    }
    state_.bases[kBaseFirst + inputs.size() + i] = static_cast<char*>(output.tensor()->raw());
  }
}

void Executor::AllocateArena() {
  // With room for shapes that grow; pages that nothing touches cost nothing.
  const bool again = state_.arena.defined();
  state_.arena = Tensor();
  try {
    state_.arena = Tensor(DType::kUInt8, {plan_.arena_bytes + (again ? plan_.arena_bytes / 8 : 0)});
  } catch (const Error& error) {
    const Step* largest = nullptr;
    int64_t most = 0;
    for (const Step& step : plan_.steps) {
      for (int id : step.outputs) {
        const PlannedValue& value = plan_.values[id];
        if (value.address.base != kBaseArena) continue;
        const int64_t bytes = value.bytes();
        if (bytes > most) most = bytes, largest = &step;
      }
    }
    if (largest == nullptr || largest->node->origin == nullptr) throw;
    throw Error(error.code(),
                fmt::format("{} for values between steps, {} of them for what {} computes",
                            error.what(), most, Print(*largest->node->origin)));
  }
}

Tensor Executor::AllocateOutput(size_t index, DType dtype, const std::vector<int64_t>& dims) {
  try {
    return program_.buffers_->Allocate(dtype, dims);
  } catch (const Error& error) {
    throw Error(error.code(),
                fmt::format("output '{}' of shape {}: {}", program_.graph().outputs[index]->name,
                            PrintDims(dims), error.what()));
  }
}

std::string_view Executor::RunStep(const Step& step) {
  switch (step.kind) {
    case Step::Kind::kBound: RunBound(step); break;
    case Step::Kind::kReference: RunReferenceStep(step); break;
    case Step::Kind::kDynamic: return RunDynamic(step);
    case Step::Kind::kControl: RunControl(step); break;
  }
  return step.binding->implementation;
}

void Executor::RunBound(const Step& step) {
  const Address* address = &plan_.addresses[step.first_address];
  const size_t inputs = step.inputs.size();
  for (size_t i = 0; i < inputs; ++i, ++address) {
    state_.inputs[i] = address->base >= 0 ? Pointer(*address) : nullptr;
  }
  for (size_t i = 0; i < step.outputs.size(); ++i, ++address) {
    state_.outputs[i] = Pointer(*address);
  }
  const StepArgs args{.in = state_.inputs.data(),
                      .out = state_.outputs.data(),
                      .scratch = step.scratch.base >= 0 ? Pointer(step.scratch) : nullptr,
                      .parallel = parallel_};
  ArenaGuard guard(state_.arena.raw(), state_.arena.bytes());
  if constexpr (ArenaGuard::kOn) {
    for (const auto ids : {step.inputs, step.outputs}) {
      for (const int id : ids) {
        const PlannedValue* value = id >= 0 ? &plan_.values[id] : nullptr;
        if (value == nullptr || value->address.base != kBaseArena) continue;
        guard.Open(Pointer(value->address), value->spanned_bytes());
      }
    }
    guard.Open(args.scratch, step.binding->bound.scratch_bytes);
  }
  step.binding->bound.run(args);
}

void Executor::RunReferenceStep(const Step& step) {
  std::vector<Datum> inputs;
  for (int id : step.inputs) inputs.push_back(id >= 0 ? Read(id) : Datum());
  const std::vector<Datum> results = RunReference(*step.node, inputs);
  for (size_t i = 0; i < results.size(); ++i) {
    const PlannedValue& value = plan_.values[step.outputs[i]];
    const Tensor* tensor = results[i].tensor();
    if (tensor == nullptr || tensor->dims() != value.dims || tensor->dtype() != value.dtype) {
      Fail(ErrorCode::kInternal, "the reference of '{}' gives {}{}, inference said {}{}",
           step.node->op->name, tensor != nullptr ? Name(tensor->dtype()) : "no tensor",
           tensor != nullptr ? PrintDims(tensor->dims()) : "", Name(value.dtype),
           PrintDims(value.dims));
    }
    if (tensor->bytes() > 0) {
      std::memcpy(Pointer(value.address), tensor->raw(), tensor->bytes());
    }
  }
}

Datum Executor::Read(int id) const {
  const PlannedValue& value = plan_.values[id];
  if (value.constant.defined()) return Aligned(value.constant);
  if (value.dynamic >= 0) return state_.dynamic[value.dynamic];
  return Tensor(value.dtype, value.dims, Pointer(value.address), nullptr);
}

void Executor::ReadInto(int id, Datum* to) const {
  const PlannedValue& value = plan_.values[id];
  const Tensor* tensor = value.constant.defined() ? &value.constant : nullptr;
  if (value.dynamic >= 0) tensor = state_.dynamic[value.dynamic].tensor();
  if ((value.dynamic >= 0 && tensor == nullptr) || (tensor != nullptr && !IsAligned(*tensor))) {
    *to = Read(id);  // a sequence, a map, or weights that must be copied
    return;
  }
  std::vector<int64_t> dims;
  // The list of dimensions that is there already moves on: `to` is given another tensor.
  if (to->tensor() != nullptr)
    dims = std::move(const_cast<std::vector<int64_t>&>(to->tensor()->dims()));
  dims = tensor != nullptr ? tensor->dims() : value.dims;
  void* const data = tensor != nullptr ? tensor->raw() : Pointer(value.address);
  *to = Tensor(tensor != nullptr ? tensor->dtype() : value.dtype, std::move(dims), data, nullptr);
}

void Executor::Release(int dynamic) {
  Datum& datum = state_.dynamic[dynamic];
  std::optional<Datum>& branched = state_.branched[dynamic];
  if (branched && IsSole(datum)) *branched = std::move(datum);
  datum = Datum();
}

void Executor::Store(int id, Datum datum, const Step& step) {
  const PlannedValue& value = plan_.values[id];
  if (const Tensor* tensor = datum.tensor()) {
    if (value.is_static && (tensor->dims() != value.dims || tensor->dtype() != value.dtype)) {
      Fail(ErrorCode::kInvalidModel, "'{}' gives {}{} where {}{} was expected", step.node->op->name,
           Name(tensor->dtype()), PrintDims(tensor->dims()), Name(value.dtype),
           PrintDims(value.dims));
    }
    if (!tensor->owner()) datum = OwnCopy(*tensor, *program_.buffers_);
    state_.bases[value.address.base] = static_cast<char*>(datum.tensor()->raw());
  }
  state_.dynamic[value.dynamic] = std::move(datum);
}

std::string_view Executor::RunDynamic(const Step& step) {
  const Node& node = *step.node;
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
    facts.push_back(id >= 0 ? FactOf(inputs[i], TypeOf(node, i)) : Fact());
    pointers.push_back(id >= 0 ? &facts.back() : nullptr);
  }
  SymbolTable symbols;
  const std::vector<Fact> inferred = Infer(node, pointers, symbols);
  if (node.op->is_view && inputs[0].tensor() != nullptr && inferred[0].static_shape() &&
      inferred[0].type.dtype != DType::kString) {
    Store(step.outputs[0], inputs[0].tensor()->Reshaped(DimsOf(inferred[0])), step);
    return "view";
  }
  if (const std::string_view ran = RunLateBound(step, inputs, inferred); !ran.empty()) return ran;
  std::vector<Datum> results = RunReference(node, inputs);
  for (size_t i = 0; i < results.size(); ++i) Store(step.outputs[i], std::move(results[i]), step);
  return "reference";
}

std::string_view Executor::RunLateBound(const Step& step, std::span<const Datum> inputs,
                                        std::span<const Fact> inferred) {
  if (program_.device().Implementations(*step.node->op).empty()) return {};
  bool finds_sizes = false;
  for (const Fact& fact : inferred) {
    if (!fact.type.is_tensor() || fact.type.dtype == DType::kString || !fact.ranked()) return {};
    finds_sizes = finds_sizes || !fact.static_shape();
  }
  std::vector<Operand> operands, results;
  std::vector<const void*> in;
  operands.reserve(inputs.size());
  in.reserve(inputs.size());
  results.reserve(inferred.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor* tensor = nullptr;
    operands.push_back(OperandOf(inputs[i], &tensor));
    in.push_back(tensor != nullptr ? tensor->raw() : nullptr);
    if (tensor == nullptr) continue;
    const bool weight = program_.values()[step.inputs[i]]->is_constant();
    if (weight) operands.back().id = program_.constant_id(step.inputs[i]);
    // Small operands (axes, sizes, scales) are known now; large ones only if they are weights.
    if (weight || (i > 0 && tensor->size() <= 64)) operands.back().constant = tensor;
  }
  // Allocated before anything computes with their sizes: impossible ones are refused here.
  std::vector<Tensor> tensors(inferred.size());
  std::vector<void*> out(inferred.size(), nullptr);
  const StepArgs::PlaceOutput place = [&](size_t i, const std::vector<int64_t>& dims) {
    tensors[i] = program_.buffers_->Allocate(results[i].dtype, dims);
    return out[i] = tensors[i].raw();
  };
  for (size_t i = 0; i < inferred.size(); ++i) {
    results.push_back({inferred[i].type.dtype, DimsOf(inferred[i])});
    if (inferred[i].static_shape()) place(i, results[i].dims);
  }
  const auto store = [&] {
    for (size_t i = 0; i < tensors.size(); ++i) {
      Store(step.outputs[i], std::move(tensors[i]), step);
    }
  };
  if (!finds_sizes && HasNoElements(results)) {
    store();
    return kNothingToDo;
  }
  const Program::LateBinding* binding = LateBindingOf(*step.node, operands, results, finds_sizes);
  if (binding == nullptr) return {};
  const Bound& bound = binding->bound;
  const Tensor scratch = program_.buffers_->Allocate(DType::kUInt8, {bound.scratch_bytes});
  bound.run({.in = in.data(),
             .out = out.data(),
             .scratch = scratch.raw(),
             .parallel = parallel_,
             .place = &place});
  store();
  return binding->implementation;
}

const Program::LateBinding* Executor::LateBindingOf(const Node& node,
                                                    std::span<const Operand> inputs,
                                                    std::span<const Operand> outputs,
                                                    bool finds_sizes) {
  auto& bindings = state_.late_bindings;
  if (const auto found = bindings.find(&node); found != bindings.end()) {
    if (AreAlike(found->second.inputs, inputs) && AreAlike(found->second.outputs, outputs)) {
      return &found->second;
    }
  }
  // It may outlive the values of this run.
  Program::LateBinding made{
      {inputs.begin(), inputs.end()}, {outputs.begin(), outputs.end()}, {}, {}, {}};
  for (Operand& input : made.inputs) {
    if (input.constant == nullptr) continue;
    const bool is_weight = input.id.base != 0;
    made.constants.push_back(
        std::make_unique<const Tensor>(is_weight ? *input.constant : Copy(*input.constant)));
    input.constant = made.constants.back().get();
  }
  const ProgramOptions& options = program_.options();
  const BindRequest request{
      node, made.inputs, made.outputs, program_.packs(), options.threads, options.winograd};
  for (const Implementation& candidate : program_.device().Implementations(*node.op)) {
    if (candidate.finds_sizes != finds_sizes) continue;
    BindResult result = candidate.bind(request);
    Bound* bound = std::get_if<Bound>(&result);
    if (bound == nullptr) continue;
    made.bound = std::move(*bound);
    made.implementation = candidate.name;
    return &bindings.insert_or_assign(&node, std::move(made)).first->second;
  }
  return nullptr;
}

}  // namespace sardonyx
