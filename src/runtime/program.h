#pragma once
// A compiled model: the optimised graph with packed weights. Immutable to its users; many threads
// may run it at once.

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "runtime/batch_pieces.h"
#include "runtime/buffer_pool.h"
#include "runtime/device.h"
#include "runtime/plan.h"
#include "runtime/profiler.h"
#include "runtime/tuner.h"

namespace sardonyx {

// Constants of up to so many bytes are never dropped, though all their uses are packed.
inline constexpr int64_t kMostKept = 16 << 10;

struct ProgramOptions {
  int threads = 1;
  size_t max_plans = 32;  // of the least recently used list
  bool winograd = true;   // whether convolutions may run by Winograd's transforms
  bool bands = true;      // whether steps may run some lines at a time, one behind the other
  // Passes, for graphs that are only made when shapes are known.
  std::function<void(Graph&)> optimize;
  // Makes the program's graph again, with the same values in the same order. If given, weights that
  // were folded are dropped when they are packed, and restored should another plan need them.
  std::function<std::shared_ptr<Graph>()> restore;
  // Whether the tensor's memory is the model file's or the caller's, so that dropping it gains
  // nothing.
  std::function<bool(const Tensor&)> is_external;
  // Choices of implementations by measurement; null: the device decides.
  std::shared_ptr<Tuner> tuner;
};

struct RunOptions {
  Profiler* profiler = nullptr;
  int depth = 0;  // of bodies within bodies
};

class Program {
 public:
  Program(std::shared_ptr<Graph> graph, const Device& device, std::shared_ptr<PackCache> packs,
          ProgramOptions options);
  ~Program();
  Program(const Program&) = delete;

  // Outputs for the inputs in the graph's order. Input types and ranks are the caller's to check
  // for the main graph. Throws sardonyx::Error naming the node.
  std::vector<Datum> Run(std::span<const Datum> inputs, const RunOptions& options = {});

  // Runs of one program in a row, as the iterations of a loop are. They keep one run state, and
  // their plan while shapes stay.
  class Series;

  const Graph& graph() const { return *graph_; }
  const Device& device() const { return device_; }
  PackCache& packs() { return *packs_; }
  const ProgramOptions& options() const { return options_; }

  // The plan for these shapes, made if there is none.
  std::shared_ptr<const Plan> PlanFor(const std::vector<std::vector<int64_t>>& input_dims);
  size_t plan_count() const;

  // Ids number the values of the graph: inputs first, then constants and outputs of nodes.
  struct NodeIds {
    std::vector<int> inputs, outputs;
  };
  const std::vector<NodeIds>& node_ids() const { return node_ids_; }
  const std::vector<Value*>& values() const { return values_; }
  const std::vector<int>& output_ids() const { return output_ids_; }
  // The name of a constant in the pack cache.
  ConstantId constant_id(int id) const;
  // Tells that a node has packed its input `index`, which is this constant. If it is large and the
  // program's own, its memory is given back once all its uses are packed; what remains of it has no
  // data. False if it is kept. Only while a plan is made.
  bool Drop(int id, const Node& node, size_t index);

  // The program of a body of one of this program's nodes.
  Program& Body(const Graph& body);
  // The program of a deferred node for these inputs, all of them known.
  std::shared_ptr<Program> Deferred(const Node& node, std::span<const Datum> inputs);

 private:
  friend class Executor;
  // What was found of a step whose operands are known at run alone; the next run's are mostly
  // alike.
  struct LateBinding {
    std::vector<Operand> inputs, outputs;
    // By input: weights, and elements that sizes may follow from. The inputs' constants are these.
    std::vector<Tensor> known;
    bool finds_sizes = false;
    bool suits = false;    // the next run too, if it has the same inputs
    bool is_view = false;  // of the first input; nothing is bound
    Bound bound;           // to inputs and outputs; none if there is nothing to do
    std::string_view implementation;

    void Forget() {
      bound = {};
      is_view = false;
    }
  };
  // What one run needs; kept for the next.
  struct RunState {
    std::thread::id user;  // whose caches hold it
    Tensor arena;
    std::vector<char*> bases;
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    std::vector<Datum> dynamic;
    // What a branch gave in an earlier run, by dynamic value: it is written over in the next.
    std::vector<std::optional<Datum>> branched;
    std::vector<Datum> branch_inputs, branch_outputs;
    std::unordered_map<const Node*, LateBinding> late_bindings;
  };
  // The piece in which a batch of these inputs is best run by plans for fewer rows; else 0.
  int64_t FindPiece(const Plan& plan, const std::vector<std::vector<int64_t>>& input_dims);
  std::vector<Datum> RunPieces(std::span<const Datum> inputs, const Plan& plan,
                               const RunOptions& options);
  // The plan for any size of those dimensions in which this one and its two predecessors differ, if
  // it has the same steps as this one: what depends on them was left to the runs in any case, as
  // the growing caches of a decoder may be. Else null.
  std::shared_ptr<Plan> PlanForAnySize(const Plan& plan,
                                       std::vector<std::vector<int64_t>> input_dims);
  std::shared_ptr<const Plan> FindPlan(const std::vector<int64_t>& key);
  std::shared_ptr<const Plan> PlanOf(std::span<const Datum> inputs);
  static std::vector<Value*> Number(const Graph& graph);
  void Restore();
  std::unique_ptr<RunState> TakeState();
  void ReturnState(std::unique_ptr<RunState> state);

  std::shared_ptr<Graph> graph_;
  const Device& device_;
  std::shared_ptr<PackCache> packs_;
  ProgramOptions options_;
  std::vector<Value*> values_;
  std::vector<bool> external_;  // by id: a constant whose memory is not the program's
  // By id: nodes' inputs that packed the constant.
  std::unordered_map<int, std::set<std::pair<const Node*, size_t>>> packed_uses_;
  uint64_t serial_;  // never given twice in a process
  std::vector<NodeIds> node_ids_;
  std::vector<int> output_ids_;
  std::unordered_map<const Graph*, std::unique_ptr<Program>> bodies_;
  std::shared_ptr<BufferPool> buffers_ = std::make_shared<BufferPool>();

  std::mutex plan_mutex_;                           // one plan is made at a time
  PlanMemo memo_;                                   // guarded by it
  std::set<std::vector<size_t>> loosened_;          // as well: places in keys that were tried
  std::optional<BatchInputs> batch_;                // set under it, once, before a plan needs it
  mutable std::mutex mutex_;                        // of what follows
  std::vector<std::shared_ptr<const Plan>> plans_;  // most recently used first
  std::vector<std::unique_ptr<RunState>> states_;
  struct DeferredProgram {
    const Node* node;
    std::string key;
    std::shared_ptr<Program> program;  // null: more must be known than the key says
  };
  std::optional<std::shared_ptr<Program>> FindDeferred(const Node& node, const std::string& key);
  std::list<DeferredProgram> deferred_;
};

class Program::Series {
 public:
  Series(Program& program, const RunOptions& options)
      : program_(program), options_(options), state_(program.TakeState()) {}
  Series(const Series&) = delete;
  ~Series() {
    if (state_ != nullptr) program_.ReturnState(std::move(state_));
  }

  // As Program::Run. An output that holds a tensor of the right type and dimensions that nobody
  // else holds is written in place.
  void Run(std::span<const Datum> inputs, std::vector<Datum>* outputs);

 private:
  Program& program_;
  RunOptions options_;
  std::unique_ptr<RunState> state_;
  std::shared_ptr<const Plan> plan_;
};

}  // namespace sardonyx
