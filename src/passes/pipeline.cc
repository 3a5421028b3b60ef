// The passes in the order they run.

#include "passes/passes.h"

namespace sardonyx {

const std::vector<Pass>& Pipeline() {
  using namespace passes;  // NOLINT: a table reads better without
  static const std::vector<Pass> kPipeline = {
      {"bind_states", "weights among the states of a loop are constants of its body", BindStates,
       nullptr, true},
      {"hoist_invariants", "what each iteration would do again", HoistInvariants, nullptr, true},
      {"hoist_products", "of constants, and while they are nodes of their own", HoistProducts,
       nullptr, true},
      {"inline_if", "a known condition leaves one branch for all later passes to see", InlineIf},
      {"keep_blocks", "weights in blocks must not be folded into floats", KeepBlocks},
      {"sink_dequantization", "what only moves elements moves bytes", SinkDequantization},
      {"integer_products", "before weights are folded to floats: products of bytes stay such",
       IntegerProducts},
      {"merge_imported_duplicates", "what is said twice is folded once", nullptr, MergeDuplicates},
      {"fold_constants", "later passes look for constants", FoldConstants},
      {"remove_identities", "what does nothing hides patterns", RemoveIdentities},
      {"merge_duplicates", "equal nodes become one before fusions decide who uses what", nullptr,
       MergeDuplicates},
      {"expert_products", "a matrix for each row need not be copied", ExpertProducts},
      {"sink_transposes",
       "spatial operations are channels-last: transposes around them move down until they cancel",
       SinkTransposes},
      {"fold_sunk_constants", "sinking transposed constants", FoldConstants},
      {"pool_planes", "transposes that still stand around a pool", PoolPlanes},
      {"absorb_pads", "a convolution pads for free", AbsorbPads},
      {"fold_scales", "factors on channels (BatchNorm) go into the weights", FoldScales},
      {"merge_sunk_duplicates", "sinking and scaling make equal nodes", nullptr, MergeDuplicates},
      {"fold_scaled_weights", "which are constants again", FoldConstants},
      {"fold_branches", "a sum of convolutions is one, and a factor on it goes into its weights",
       FoldBranches},
      {"fold_branch_weights", "which are constants again", FoldConstants},
      {"sink_resizes", "the fewer pixels, the fewer products", SinkResizes},
      {"fold_split_weights", "which are constants again", FoldConstants},
      {"fold_products", "two products in a row, of weights alone", FoldProducts},
      {"fold_joined_weights", "which are constants again", FoldConstants},
      {"fold_joined_scales", "the first one's bias meets the second's", FoldScales},
      {"fuse_layer_norm", "while its steps are nodes of their own", FuseLayerNorm},
      {"fuse_attention", "while its factors and masks are nodes of their own", FuseAttention},
      {"fuse_rescales", "what makes bytes of the sums of a product belongs to the product",
       FuseRescales},
      {"sink_reshapes", "what follows a product is next to it", SinkReshapes},
      {"fuse_elementwise", "a chain is one sweep over memory", nullptr, FuseElementwise},
      {"fuse_quantized_sums", "a chain that adds two quantised products joins one of them",
       FuseQuantizedSums},
      {"fuse_epilogues", "and none behind a product or convolution", FuseEpilogues},
      {"merge_products", "of one operand, with their whole epilogues, for one attention",
       MergeProducts},
      {"fold_merged_weights", "which are constants again", FoldConstants},
      {"sink_shuffles", "shuffled channels, once a depthwise convolution has its whole epilogue",
       SinkShuffles},
      {"fold_shuffled_weights", "which are constants again", FoldConstants},
      {"keep_selections", "filters of one weight give exact numbers, once all weights are known",
       KeepSelections},
      {"conv_planes", "transposes that still stand around a convolution", ConvPlanes},
      {"pool_few_planes",
       "a pool of few channels; transposes that convolutions of planes have left", PoolFewPlanes},
      {"absorb_transposes", "a product reads and writes through strides", AbsorbTransposes},
      {"widen_halves", "after all that looks for patterns: halves are computed in float32", nullptr,
       WidenHalves},
      {"fuse_roundings", "sweeps that round join their neighbours", nullptr, FuseElementwise},
      {"absorb_casts", "of what rounds and widens, what still stands beside a normalisation",
       AbsorbCasts, nullptr},
  };
  return kPipeline;
}

}  // namespace sardonyx
