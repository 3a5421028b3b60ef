#pragma once
// Trees of few leaves without walking down them. A tree's leaves are bits, in such an order that
// those below a node's second child come before those below its first. Each node whose feature is
// beyond its threshold removes the leaves of its second child; the first leaf that is left is the
// one that a walk would end at (QuickScorer: Lucchese et al., SIGIR 2015). Nodes are looked at in
// any order, none waits for another, and all lanes of a vector look at the same one. A node that
// asks for a category removes the leaves unless it is in its set, a word.

#include <bit>
#include <cstdint>
#include <span>

#include "base/round.h"
#include "kernels/trees.h"

namespace sardonyx {

// Rows stand in blocks of so many, interleaved: x[feature * kTreeLanes + row].
inline constexpr int64_t kTreeLanes = 16;

// A word is as wide as an order, uint32_t or uint64_t.
template <typename Order>
inline constexpr int32_t kMostMaskWords = 16 / sizeof(Order);
// Those that a tree of so many leaves has, a power of two.
template <typename Order>
int32_t MaskWords(int64_t leaves) {
  constexpr int64_t kBits = 8 * sizeof(Order);
  return static_cast<int32_t>(std::bit_ceil(static_cast<uint64_t>(CeilDiv(leaves, kBits))));
}

// Makes floats or doubles their orders (OrderOf); in `again`, if that is given, those of NaN are
// the least.
template <typename Order>
void OrderNumbers(Order* numbers, int64_t count, Order* again);

// Whether a tree of so many leaves, to which one goes `depth` steps at most, is such: the words of
// its bits, else 0.
template <typename Order>
int32_t MaskWordsOf(int64_t leaves, int64_t depth);

// To how many steps of each row's walk the masks of a tree of so many leaves come.
template <typename Order>
int64_t MaskSteps(int64_t leaves);

// Numbers of a tree's masks: for each node a threshold or a set, the feature and the words that it
// removes, those with sets behind the others; and what each leaf holds.
inline int64_t MaskNumbers(int64_t leaves, int32_t words) {
  return words == 0 ? 0 : (leaves - 1) * (2 + words) + leaves;
}

// The greatest category that a set in masks has.
inline constexpr int64_t kMostMaskedCategory = 62;

// Writes those of a tree. A node that takes NaN reads the feature `missing` behind its own.
template <typename T>
void WriteMasks(const TreeNode<T>* nodes, int64_t leaves, int64_t members, int32_t words,
                int64_t missing, const uint64_t* sets, OrderType<T>* to);

// Whether they are such as WriteMasks may have written: rows of `row_numbers` find all that they
// look for, and end at a leaf.
template <typename Order>
bool AreMasksSound(std::span<const Order> masks, int64_t leaves, int32_t words,
                   int64_t row_numbers);

// What the leaves hold at which the rows of `blocks` blocks arrive, block_numbers apart. Adds them
// to `sums` as floats or doubles if that is given.
template <typename Order>
void FindLeaves(const Order* masks, int64_t leaves, int64_t members, int32_t words, const Order* x,
                int64_t block_numbers, int64_t blocks, Order* held, double* sums);

}  // namespace sardonyx
