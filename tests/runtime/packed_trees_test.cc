// What packing an ensemble of trees refuses.

#include <gtest/gtest.h>

#include "run_graph.h"

namespace sardonyx {
namespace {

// Two branches go on to the same leaves, which no importer makes.
TEST(PackedTrees, NodesHaveOneParent) {
  const auto program = MakeProgram(R"(graph g
input x: float[2,3]
const nodes: uint8[5,8] = {0, 0, 0, 63, 0, 16, 0, 0, 0, 0, 0, 63, 1, 48, 0, 0, 0, 0, 0, 63, 1, 48, 0, 0, 0, 0, 192, 127, 0, 48, 0, 0, 0, 0, 192, 127, 0, 64, 0, 0}
const trees: int32[2] = {0, 2}
const none: int32[0] = {}
const offsets: int64[0] = {}
const weights: double[5] = {0, 0, 0, 2, 1}
y = tree_ensemble(x, nodes, trees, none, offsets, none, weights) {absent_is_nan=0, aggregate=1, any=0, dtype=1, features=2, missing=0, one_vote=1, set_words=0, targets=1, votes=1}
output y
)");
  try {
    program->PlanFor({{2, 3}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string_view(error.what()).find("nodes of a tree have two parents"),
              std::string_view::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace sardonyx
