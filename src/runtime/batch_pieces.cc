#include "runtime/batch_pieces.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "ops/core/core.h"
#include "runtime/plan.h"

namespace sardonyx {
namespace {

enum class Part : uint8_t {
  kShared,  // the same for every row
  kRows,    // axis 0 is the batch
  kSizes,   // follows from shapes, the batch's size perhaps among them
};

// Follows the batch through a graph, node by node.
class BatchWalk {
 public:
  explicit BatchWalk(const Graph& graph) : graph_(graph) {}

  BatchInputs Run() {
    if (graph_.inputs.empty() || !LeadsWithSymbol(*graph_.inputs[0])) return {};
    batch_ = (*graph_.inputs[0]->fact.shape)[0];
    BatchInputs result;
    for (const Value* input : graph_.inputs) {
      if (!input->fact.type.is_tensor() || !input->fact.ranked()) return {};
      const Dims& shape = *input->fact.shape;
      result.push_back(!shape.empty() && shape[0] == batch_);
      parts_[input] = result.back() ? Part::kRows : Part::kShared;
      for (size_t i = result.back() ? 1 : 0; i < shape.size(); ++i) {
        if (shape[i] == batch_) return {};
        others_.push_back(shape[i]);
      }
    }
    for (const auto& node : graph_.nodes()) {
      const std::optional<Part> part = PartOf(*node);
      if (!part) return {};
      for (const Value* output : node->outputs) {
        if (output == nullptr) continue;
        if (*part == Part::kRows && !HasRows(*output)) return {};
        parts_[output] = *part;
      }
    }
    for (const Value* output : graph_.outputs) {
      if (output->producer == nullptr || parts_.at(output) != Part::kRows) return {};
    }
    return result;
  }

 private:
  static bool LeadsWithSymbol(const Value& value) {
    return value.fact.type.is_tensor() && value.fact.ranked() && value.fact.rank() > 0 &&
           !(*value.fact.shape)[0].known();
  }
  bool HasRows(const Value& value) const {
    return value.fact.type.is_tensor() && value.fact.ranked() && value.fact.rank() > 0 &&
           (*value.fact.shape)[0] == batch_;
  }
  Part PartOf(const Value* value) const {
    if (value == nullptr || value->is_constant()) return Part::kShared;
    return parts_.at(value);
  }
  bool Is(const Value* value, Part part) const { return PartOf(value) == part; }

  std::optional<Part> PartOf(const Node& node) const {
    if (!node.op->is_pure) return {};
    bool rows = false, sizes = false;
    for (const Value* input : node.inputs) {
      rows |= Is(input, Part::kRows);
      sizes |= Is(input, Part::kSizes);
    }
    if (node.op == &core::shape || node.op == &core::size) sizes |= rows;
    if (rows && !(node.op == &core::shape || node.op == &core::size)) {
      if (KeepsRows(node)) return Part::kRows;
      return {};
    }
    if (!sizes) return Part::kShared;
    // Equal values in new rows.
    const bool fills = node.op == &core::constant_of_shape ||
                       (node.op == &core::expand && Is(node.input(0), Part::kShared) &&
                        Broadcasts(*node.input(0), *node.output()));
    if (fills && HasRows(*node.output())) return Part::kRows;
    return Independent(*node.output()) ? Part::kShared : Part::kSizes;
  }

  // A shape or size that does not speak of the batch.
  bool Independent(const Value& value) const {
    const auto& elements = value.fact.elements;
    return elements && std::all_of(elements->begin(), elements->end(), [&](Dim dim) {
             return dim.known() || std::find(others_.begin(), others_.end(), dim) != others_.end();
           });
  }

  // Whether an operand that all rows share has nothing along the batch of that result.
  static bool Broadcasts(const Value& operand, const Value& result) {
    return operand.fact.ranked() && (operand.fact.rank() < result.fact.rank() ||
                                     (operand.fact.rank() > 0 && (*operand.fact.shape)[0] == 1));
  }
  // An elementwise operand of that result: rows to rows, or alike for all.
  bool Aligned(const Value* operand, const Value& result) const {
    if (operand == nullptr) return true;
    if (Is(operand, Part::kRows)) return operand->fact.rank() == result.fact.rank();
    return Is(operand, Part::kShared) &&
           (operand->fact.rank() == 0 || Broadcasts(*operand, result));
  }
  bool AllAligned(const Node& node, size_t first) const {
    return std::all_of(node.inputs.begin() + std::min(first, node.inputs.size()), node.inputs.end(),
                       [&](const Value* input) { return Aligned(input, *node.output()); });
  }
  bool AllShared(const Node& node, size_t first) const {
    return std::all_of(node.inputs.begin() + std::min(first, node.inputs.size()), node.inputs.end(),
                       [&](const Value* input) { return Is(input, Part::kShared); });
  }
  bool AllRows(const Node& node, size_t first, size_t end) const {
    return std::all_of(node.inputs.begin() + first, node.inputs.begin() + end,
                       [&](const Value* input) { return Is(input, Part::kRows); });
  }
  static bool LeavesFirst(const Node& node, std::string_view perm) {
    const std::vector<int64_t>& axes = node.attributes.Ints(perm);
    return axes.empty() || axes[0] == 0;
  }
  // Attribute `axis`, or an element of `axes`, other than the first.
  static bool Behind(const Node& node, int64_t axis) {
    return axis > 0 || (axis < 0 && axis > -node.input(0)->fact.rank());
  }

  // Of a node with rows among its inputs: whether its outputs are rows of the same.
  bool KeepsRows(const Node& node) const {
    const CoreOp* op = node.op;
    const Value* x = node.input(0);
    if (op->expression != nullptr || op == &core::fused) return AllAligned(node, 0);
    if (op == &core::matmul || op == &core::integer_matmul) return KeepsRowsOfProduct(node);
    if (op == &core::attention) {
      // Masks broadcast to the scores, whose axis 0 is the batch as well.
      return LeavesFirst(node, "perm_q") && LeavesFirst(node, "perm_k") &&
             LeavesFirst(node, "perm_v") && LeavesFirst(node, "perm_y") && x->fact.rank() == 4 &&
             node.input(1)->fact.rank() == 4 && node.input(2)->fact.rank() == 4 &&
             AllRows(node, 0, 3) && AllAligned(node, 3);
    }
    if (op == &core::gather && Is(x, Part::kShared)) {
      return node.attributes.Int("axis") == 0 && Is(node.input(1), Part::kRows);
    }
    if (op == &core::concat) {
      return AllRows(node, 0, node.inputs.size()) && Behind(node, node.attributes.Int("axis"));
    }
    // In all that follows the first input alone has rows.
    if (!Is(x, Part::kRows)) return false;
    if (op == &core::conv || op == &core::conv_transpose || op == &core::integer_conv) {
      return LeavesFirst(node, "perm_x") && LeavesFirst(node, "perm_y") &&
             Is(node.input(1), Part::kShared) && AllAligned(node, 2);
    }
    // Views keep the order of elements, so the same first size means the same rows.
    if (op->is_view) return HasRows(*node.output());
    if (op == &core::resize || op == &core::expand) {
      return node.output()->fact.ranked() && node.output()->fact.rank() == x->fact.rank();
    }
    if (!AllShared(node, 1)) return false;
    if (op == &core::max_pool) return node.outputs.size() == 1 || node.outputs[1] == nullptr;
    if (op == &core::average_pool || op == &core::lp_pool || op == &core::group_moments)
      return true;
    if (op == &core::transpose)
      return LeavesFirst(node, "perm") && !node.attributes.Ints("perm").empty();
    if (op == &core::softmax || op == &core::layer_norm || op == &core::split ||
        op == &core::cumulative || op == &core::arg_reduce || op == &core::topk ||
        op == &core::gather) {
      return node.attributes.Find("axis") != nullptr && Behind(node, node.attributes.Int("axis"));
    }
    if (op == &core::reduce) {
      const std::vector<int64_t>& axes = node.attributes.Ints("axes");
      return node.attributes.Find("axes") != nullptr &&
             std::all_of(axes.begin(), axes.end(),
                         [&](int64_t axis) { return Behind(node, axis); });
    }
    if (op == &core::slice || op == &core::pad) {
      const Value* axes = node.input(3);
      if (op == &core::pad && axes == nullptr) {
        const auto& pads = node.input(1)->fact.elements;
        return pads && (*pads)[0] == 0 && (*pads)[pads->size() / 2] == 0;
      }
      if (axes == nullptr || !axes->fact.elements) return false;
      return std::all_of(axes->fact.elements->begin(), axes->fact.elements->end(),
                         [&](Dim axis) { return axis.known() && Behind(node, axis.value()); });
    }
    return false;
  }

  bool KeepsRowsOfProduct(const Node& node) const {
    const Value *a = node.input(0), *b = node.input(1);
    if (!LeavesFirst(node, "perm_a") || !LeavesFirst(node, "perm_b") ||
        !LeavesFirst(node, "perm_y") || !AllAligned(node, 2)) {
      return false;
    }
    if (Is(a, Part::kShared)) {  // matrices that one multiplies
      return a->fact.ranked() && a->fact.rank() == 2 && Is(b, Part::kRows) && b->fact.rank() >= 3;
    }
    if (!Is(a, Part::kRows)) return false;
    const int rank = a->fact.rank();
    if (Is(b, Part::kRows)) return rank >= 3 && b->fact.rank() == rank;
    // Rows of a matrix, or matrices that all meet the same one.
    const bool is_matrix = rank == 2 && node.attributes.Int("trans_a") == 0;
    return Is(b, Part::kShared) && (is_matrix || rank >= 3) && b->fact.ranked() &&
           (b->fact.rank() == 2 || (b->fact.rank() < rank) ||
            (b->fact.rank() == rank && (*b->fact.shape)[0] == 1));
  }

  const Graph& graph_;
  Dim batch_;
  Dims others_;
  std::unordered_map<const Value*, Part> parts_;
};

// What is taken to stay in the last level of cache from one step to the next, beside what else the
// machine does. Fixed, since what systems say of that level is often the sum of many cores' shares.
constexpr int64_t kCacheBytes = 8 << 20;

}  // namespace

BatchInputs FindBatch(const Graph& graph) { return BatchWalk(graph).Run(); }

int64_t PieceSize(const Plan& plan, int64_t batch) {
  // Scratch grows with the threads, of which no result may depend: a piece is another shape.
  if (plan.live_bytes <= kCacheBytes) return batch;
  int64_t weights = 0, written = 0;
  for (const PlannedValue& value : plan.values) {
    if (value.constant.defined()) weights += value.constant.bytes();
  }
  for (const Step& step : plan.steps) {
    if (step.kind != Step::Kind::kBound && step.kind != Step::Kind::kReference) return batch;
    for (int output : step.outputs) {
      if (output >= 0) {
        const PlannedValue& value = plan.values[output];
        written += value.bytes();
      }
    }
  }
  const int64_t most = std::max<int64_t>(kCacheBytes / (plan.live_bytes / batch + 1), 1);
  const int64_t pieces = (batch + most - 1) / most;
  // What is written need not be fetched again, but weights are.
  if (weights * (pieces - 1) >= written) return batch;
  return (batch + pieces - 1) / pieces;
}

}  // namespace sardonyx
