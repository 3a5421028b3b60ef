#pragma once
// One run of a plan: walks its steps.

#include <span>
#include <vector>

#include "runtime/program.h"

namespace sardonyx {

// Whether the datum is a tensor whose memory nobody else holds.
inline bool IsSole(const Datum& datum) {
  return datum.tensor() != nullptr && datum.tensor()->owner().use_count() == 1;
}

// A copy that owns its memory, which is of the pool.
Tensor OwnCopy(const Tensor& tensor, BufferPool& pool);

class Executor {
 public:
  Executor(Program& program, const Plan& plan, Program::RunState& state, const RunOptions& options,
           int threads)
      : program_(program),
        plan_(plan),
        state_(state),
        options_(options),
        parallel_{&ThreadPool::Process(), threads} {}

  // Outputs are made, or written over where Program::Series says so.
  void Run(std::span<const Datum> inputs, std::vector<Datum>* outputs);

 private:
  void Prepare(std::span<const Datum> inputs, std::vector<Datum>* outputs);
  void AllocateArena();
  Tensor AllocateOutput(size_t index, DType dtype, const std::vector<int64_t>& dims);
  // Returns the name of the implementation that ran.
  std::string_view RunStep(const Step& step);
  void RunBound(const Step& step);
  void RunReferenceStep(const Step& step);
  // dynamic_step.cc
  std::string_view RunDynamic(const Step& step);  // what it ran on
  // As in the run before, if the inputs are alike; else false.
  bool RunAgain(const Step& step, const Program::LateBinding& late);
  void NoteInputs(const Step& step, std::span<const Datum> inputs, Program::LateBinding& late);
  // With the first implementation that accepts what is known now; false if none does.
  bool RunLateBound(const Step& step, std::span<const Fact> inferred, Program::LateBinding& late);
  // Allocates the outputs whose sizes are known.
  void PlaceOutputs(const Step& step, const Program::LateBinding& late);
  void RunLate(const Step& step, const Program::LateBinding& late);
  void RunControl(const Step& step);  // control.cc
  void RunIf(const Step& step);
  std::vector<Datum> RunLoop(const Step& step);
  std::vector<Datum> RunScan(const Step& step);

  char* Pointer(const Address& address) const {
    return state_.bases[address.base] + address.offset;
  }
  // The value as a datum; tensors that are not dynamic are views of memory that the next steps may
  // overwrite.
  Datum Read(int id) const;
  // The same without its owner, and without allocating if `to` has held such a tensor before.
  void ReadInto(int id, Datum* to) const;
  // Takes over a computed output of a dynamic or control step; copies what does not own its memory.
  void Store(int id, Datum datum, const Step& step);
  void Release(int dynamic);
  RunOptions Inner() const { return {options_.profiler, options_.depth + 1}; }

  Program& program_;
  const Plan& plan_;
  Program::RunState& state_;
  const RunOptions& options_;
  const Parallel parallel_;
};

}  // namespace sardonyx
