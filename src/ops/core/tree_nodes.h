#pragma once
// How tree ensembles lie in memory. A tree is a run of nodes, its root first; the two children of a
// node stand side by side. From a node one goes to `child`, or to `child + 1` if the feature is at
// most the threshold. A leaf is its own child and has a threshold of NaN, which nothing is at most:
// whoever steps on stays there, so that trees can be walked a fixed number of steps, many rows at a
// time. Comparisons other than "at most" are brought to this form when the tables are made.

#include <cmath>
#include <cstdint>

namespace sardonyx::core {

// Any ensemble.
struct WideNode {
  double threshold;
  uint32_t bits;  // feature, and the flags below
  uint32_t child;

  static constexpr uint32_t kFeatureBits = 28;
  static constexpr uint32_t kMissing = 1U << 28;  // NaN goes to child + 1
  static constexpr uint32_t kEqual = 1U << 29;    // goes to child + 1 if equal to the threshold
  static constexpr uint32_t kMember = 1U << 30;   // ... if in the set that the threshold numbers
  uint32_t feature() const { return bits & ((1U << kFeatureBits) - 1); }
  bool missing() const { return (bits & kMissing) != 0; }
  uint32_t next() const { return child; }
};

// Float thresholds, few features, trees of up to a million nodes: half the memory traffic.
struct NarrowNode {
  float threshold;
  uint32_t bits;  // child, missing, feature

  static constexpr uint32_t kFeatureBits = 11, kChildBits = 20;
  uint32_t feature() const { return bits & ((1U << kFeatureBits) - 1); }
  bool missing() const { return ((bits >> kFeatureBits) & 1) != 0; }
  uint32_t next() const { return bits >> (kFeatureBits + 1); }
};

static_assert(sizeof(WideNode) == 16 && sizeof(NarrowNode) == 8);

}  // namespace sardonyx::core
