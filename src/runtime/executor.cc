#include "runtime/executor.h"

#include <algorithm>
#include <cstring>

#include "base/out_of_memory.h"
#include "ops/core/core.h"
#include "runtime/arena_guard.h"

namespace sardonyx {
namespace {

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

}  // namespace

Tensor OwnCopy(const Tensor& tensor, BufferPool& pool) {
  if (tensor.dtype() == DType::kString) return Copy(tensor);
  Tensor copy = pool.Allocate(tensor.dtype(), tensor.dims());
  if (tensor.bytes() > 0) std::memcpy(copy.raw(), tensor.raw(), tensor.bytes());
  return copy;
}

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

}  // namespace sardonyx
