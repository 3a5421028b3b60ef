#pragma once
// The passes, one function a file, and what several of them ask of a graph.

#include "passes/pass.h"

namespace sardonyx::passes {

Rewrite BindStates(Node& node, PassContext& context);
Rewrite HoistInvariants(Node& node, PassContext& context);
Rewrite HoistProducts(Node& node, PassContext& context);
Rewrite InlineIf(Node& node, PassContext& context);
Rewrite KeepBlocks(Node& node, PassContext& context);
Rewrite SinkDequantization(Node& node, PassContext& context);
Rewrite IntegerProducts(Node& node, PassContext& context);
Rewrite ExpertProducts(Node& node, PassContext& context);
Rewrite FoldConstants(Node& node, PassContext& context);
Rewrite RemoveIdentities(Node& node, PassContext& context);
int MergeDuplicates(PassContext& context);
Rewrite SinkTransposes(Node& node, PassContext& context);
Rewrite PoolPlanes(Node& node, PassContext& context);
Rewrite AbsorbPads(Node& node, PassContext& context);
Rewrite FoldScales(Node& node, PassContext& context);
Rewrite SinkResizes(Node& node, PassContext& context);
Rewrite FoldBranches(Node& node, PassContext& context);
Rewrite FoldProducts(Node& node, PassContext& context);
Rewrite FuseLayerNorm(Node& node, PassContext& context);
Rewrite FuseAttention(Node& node, PassContext& context);
Rewrite FuseRescales(Node& node, PassContext& context);
Rewrite SinkReshapes(Node& node, PassContext& context);
int FuseElementwise(PassContext& context);
Rewrite FuseQuantizedSums(Node& node, PassContext& context);
Rewrite FuseEpilogues(Node& node, PassContext& context);
Rewrite MergeProducts(Node& node, PassContext& context);
Rewrite SinkShuffles(Node& node, PassContext& context);
Rewrite ConvPlanes(Node& node, PassContext& context);
Rewrite KeepSelections(Node& node, PassContext& context);
Rewrite PoolFewPlanes(Node& node, PassContext& context);
Rewrite AbsorbTransposes(Node& node, PassContext& context);
int WidenHalves(PassContext& context);
Rewrite AbsorbCasts(Node& node, PassContext& context);

// Collects the nodes of a patch; made nodes have the origin of the node that the patch replaces.
class PatchMaker {
 public:
  PatchMaker(PassContext& context, const Node& node) : builder_(context.graph, &patch_.nodes) {
    builder_.SetOrigin(node.origin);
  }
  PatchMaker(const PatchMaker&) = delete;

  Builder& builder() { return builder_; }
  Val Wrap(Value* value) { return value != nullptr ? builder_.Wrap(value) : Val{}; }
  // Replaces outputs of a node in order; absent ones stay.
  Patch Replace(const Node& node, const std::vector<Val>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i]) patch_.replacements.emplace_back(node.outputs[i], values[i].value);
    }
    return std::move(patch_);
  }

 private:
  Patch patch_;
  Builder builder_;
};

// The product (or convolution, ...) with the elementwise node that reads it behind its epilogue,
// whose operands come after `own_inputs` of its own.
Rewrite AbsorbElementwise(const Node& node, Value* product, size_t own_inputs,
                          PassContext& context);
// The only use of the value is one node (which may use it twice), and it is no graph output.
bool HasOneUser(const Graph& graph, const Value* value);
// The value comes from a node of that operation.
bool IsFrom(const Value* value, const CoreOp& op);
// A convolution whose window and stride are one pixel, without padding; of any number of groups.
bool IsPointwise(const Node& node);
// Such a one of one group: it multiplies the channels of each pixel.
bool IsProductOfChannels(const Node& node);
// A matmul of two operands as they lie, but that the second may be transposed, and no epilogue.
bool IsPlainProduct(const Node& node);
// Absent, or of one element.
bool IsOne(const Value* value);
// A constant with one number for each of so many last elements.
bool IsVector(const Value* value, int64_t count);
// A constant all of whose elements are that number.
bool IsConstantOf(const Value* value, double number);
// Of float32, or of 16 bits and so computed in float32 and rounded where a step ends
// (widen_halves).
bool IsComputedAsFloat32(const Value* value);
// All dimensions known to be equal, symbols included.
bool SameShape(const Value* a, const Value* b);
// The permutation that undoes `perm`.
std::vector<int64_t> Inverse(const std::vector<int64_t>& perm);
// [0, 2, 3, ..., 1]
std::vector<int64_t> ChannelsLast(int64_t rank);
int64_t PixelsOf(const Dims& shape);  // of one [n, h, w, c]; 0 where an axis is not known

}  // namespace sardonyx::passes
