#include "kernels/repeat.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "base/round.h"
#include "kernels/slices.h"

namespace sardonyx {
namespace {

// A block lies in the first-level cache beside its copies, or in the second one; fewer bytes of an
// index of the outer dimensions than these cost less than the call that makes a block.
constexpr int64_t kMostBlock = 64 << 10, kLeastCopied = 1024;
constexpr int64_t kCopiesOfTask = 8;
// Rows that lie in the input are copied from there as fast.
constexpr int64_t kLongRow = 32;
// Copies are copied together up to so much.
constexpr int64_t kTogether = 16 << 10;

using Dim = StridedCopyPlan::Dim;

// Where block number `i` is: of the outer dimensions' index i / blocks.
struct Place {
  int64_t in = 0, out = 0;
};
Place PlaceOf(const RepeatPlan& plan, int64_t index) {
  Place place;
  for (auto dim = plan.outer.rbegin(); dim != plan.outer.rend(); ++dim) {
    place.in += index % dim->size * dim->in_stride;
    place.out += index % dim->size * dim->out_stride;
    index /= dim->size;
  }
  return place;
}

// Further blocks behind the one at `first`.
void CopyBlocks(const RepeatPlan& plan, char* first, int64_t copies) {
  if (plan.block_step != plan.block_bytes) {
    for (int64_t i = 1; i <= copies; ++i) {
      std::memcpy(first + i * plan.block_step, first, static_cast<size_t>(plan.block_bytes));
    }
    return;
  }
  const int64_t most = std::max<int64_t>(1, kTogether / plan.block_bytes);
  for (int64_t made = 1; made <= copies;) {
    const int64_t count = std::min({made, most, copies + 1 - made});
    std::memcpy(first + made * plan.block_bytes, first,
                static_cast<size_t>(count * plan.block_bytes));
    made += count;
  }
}

}  // namespace

RepeatPlan PrepareRepeat(std::span<const int64_t> dims, std::span<const int64_t> in_strides,
                         std::span<const int64_t> out_strides, int element_bytes) {
  RepeatPlan plan;
  std::vector<Dim> all;
  int64_t bytes = element_bytes;
  for (size_t i = 0; i < dims.size(); ++i) {
    bytes *= dims[i];
    if (dims[i] != 1) all.push_back({dims[i], in_strides[i], out_strides[i]});
  }
  // The outermost dimensions that repeat a block small enough, whose elements lie dense.
  size_t first = 0, end = 0;
  for (; bytes > 0 && first < all.size(); ++first) {
    if (all[first].in_stride != 0 || all[first].out_stride < 0) continue;
    int64_t repeats = 1;
    for (end = first; end < all.size() && all[end].in_stride == 0; ++end) repeats *= all[end].size;
    int64_t elements = 1;
    bool is_dense = end < all.size(), is_row = true;
    for (size_t i = all.size(); i-- > end;) {
      is_dense = is_dense && all[i].out_stride == elements;
      is_row = is_row && all[i].in_stride == elements;
      elements *= all[i].size;
    }
    for (size_t i = first; i + 1 < end; ++i) {
      is_dense = is_dense && all[i].out_stride == all[i + 1].out_stride * all[i + 1].size;
    }
    const int64_t size = elements * element_bytes;
    const bool is_long_row = is_row && size >= kLongRow;
    if (is_dense && !is_long_row && size <= kMostBlock && size * repeats >= kLeastCopied) {
      plan.blocks = repeats;
      plan.block_bytes = size;
      plan.block_step = all[end - 1].out_stride * element_bytes;
      break;
    }
    first = end - 1;
  }
  const size_t begin = plan.blocks > 1 ? end : 0;
  for (size_t i = 0; plan.blocks > 1 && i < first; ++i) {
    plan.outer.push_back(
        {all[i].size, all[i].in_stride * element_bytes, all[i].out_stride * element_bytes});
  }
  std::vector<int64_t> sizes, from, to;
  for (size_t i = begin; i < all.size(); ++i) {
    sizes.push_back(all[i].size);
    from.push_back(all[i].in_stride);
    to.push_back(all[i].out_stride);
  }
  if (bytes == 0) sizes.assign(1, 0), from.assign(1, 1), to.assign(1, 1);
  plan.block = PrepareStridedCopy(sizes, from, to, element_bytes);
  plan.tasks = TaskCount(5e-5 * static_cast<double>(bytes));
  // Each task makes its first block anew.
  int64_t outer = 1;
  for (const Dim& dim : plan.outer) outer *= dim.size;
  plan.tasks = std::min(plan.tasks, std::max(outer, CeilDiv(outer * plan.blocks, kCopiesOfTask)));
  return plan;
}

void Repeat(const RepeatPlan& plan, const void* in, void* out, const Parallel& par) {
  if (plan.blocks == 1) return StridedCopy(plan.block, in, out, par);
  int64_t all = plan.blocks;
  for (const Dim& dim : plan.outer) all *= dim.size;
  const int64_t tasks = par.threads == 1 ? 1 : std::min(plan.tasks, all);
  par.For(tasks, [&](int64_t task) {
    const int64_t end = all * (task + 1) / tasks;
    for (int64_t i = all * task / tasks, next; i < end; i = next) {
      next = std::min(end, (i / plan.blocks + 1) * plan.blocks);
      const Place place = PlaceOf(plan, i / plan.blocks);
      char* const to = static_cast<char*>(out) + place.out + i % plan.blocks * plan.block_step;
      StridedCopy(plan.block, static_cast<const char*>(in) + place.in, to, Parallel{});
      CopyBlocks(plan, to, next - i - 1);
    }
  });
}

}  // namespace sardonyx
