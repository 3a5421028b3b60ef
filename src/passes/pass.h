#pragma once
// What a pass is, and the driver that runs the list of pipeline.cc.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/graph.h"
#include "ops/vocabulary.h"

namespace sardonyx {

// New nodes and which values they replace. Made with a Builder on `nodes`; the driver splices it
// in.
struct Patch {
  std::vector<std::unique_ptr<Node>> nodes;
  std::vector<std::pair<Value*, Value*>> replacements;  // old, new
};

struct NoMatch {};  // the pattern is not here
// The pattern is here, but a condition does not hold; `explain` shows it as a near miss.
struct CheckFailed {
  std::string reason;
};
using Rewrite = std::variant<NoMatch, CheckFailed, Patch>;

struct PassContext {
  Graph& graph;
  // Computes a node with constant inputs; on the device if the runtime gave a way, else with the
  // reference.
  std::function<std::vector<Tensor>(const Node&, const std::vector<Tensor>&)> fold;
  // Bytes by which folding may still make the model's constants larger, all its graphs together.
  int64_t& growth_left;
  bool is_body = false;  // of a branch or a loop, which need not run
};

struct Pass {
  std::string_view name;    // switches it off by name
  std::string_view reason;  // why it stands at its place in the list, a line
  // One of the two. `rewrite` is asked for every node, again and again until nothing changes.
  Rewrite (*rewrite)(Node& node, PassContext& context) = nullptr;
  // For what is not local. Returns the number of changes.
  int (*run)(PassContext& context) = nullptr;
  // Changes bodies: it runs before these go through the list themselves. Such passes come first.
  bool outside_in = false;
};

// The list, in order.
const std::vector<Pass>& Pipeline();

struct PassRecord {
  std::string_view name;
  int changes = 0;
  double milliseconds = 0;
  std::vector<std::string> near_misses;  // "node 'x' (Conv-11): reason"
};

struct OptimizeOptions {
  std::vector<std::string> disabled = {};  // names of passes
  std::function<std::vector<Tensor>(const Node&, const std::vector<Tensor>&)> fold = nullptr;
  // Told of the graph's text before the first pass ("") and after each that changed something.
  std::function<void(std::string_view pass, const Graph&)> trace = nullptr;
};

// Runs the passes on the graph and on the bodies of its nodes. Throws kInvalidArgument for a
// disabled name that is none of the list's, kInternal if a pass breaks the graph (naming the pass).
std::vector<PassRecord> Optimize(Graph& graph, const OptimizeOptions& options = {});

}  // namespace sardonyx
