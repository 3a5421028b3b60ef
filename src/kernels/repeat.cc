#include "kernels/repeat.h"

#include <algorithm>
#include <cstring>

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

// Of an index of the outer dimensions, in bytes.
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

// Dimensions [first, end) repeat what lies inside of them, a block of `elements`.
struct Repeated {
  size_t first, end;
  int64_t times, elements;
};

// The block inside of the dimensions from `first` on that repeat; false if its elements do not lie
// dense, or its copies in even steps, or if copying it as it is would be slower.
bool FindBlock(const std::vector<Dim>& dims, int element_bytes, Repeated* found) {
  auto& [first, end, times, elements] = *found;
  times = elements = 1;
  for (end = first; end < dims.size() && dims[end].in_stride == 0; ++end) {
    if (end > first && dims[end - 1].out_stride != dims[end].out_stride * dims[end].size) break;
    times *= dims[end].size;
  }
  if (end == first || end == dims.size() || dims[end - 1].out_stride < 0) return false;
  bool is_row = true;
  for (size_t i = dims.size(); i-- > end; elements *= dims[i].size) {
    if (dims[i].out_stride != elements) return false;
    is_row = is_row && dims[i].in_stride == elements;
  }
  const int64_t bytes = elements * element_bytes;
  return !(is_row && bytes >= kLongRow) && bytes <= kMostBlock && bytes * times >= kLeastCopied;
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
  // The outermost ones that repeat a block small enough.
  Repeated found{};
  while (found.first < all.size() && !FindBlock(all, element_bytes, &found)) ++found.first;
  size_t inside = 0;
  if (bytes > 0 && found.first < all.size()) {
    plan.blocks = found.times;
    plan.block_bytes = found.elements * element_bytes;
    plan.block_step = all[found.end - 1].out_stride * element_bytes;
    for (size_t i = 0; i < found.first; ++i) {
      plan.outer.push_back(
          {all[i].size, all[i].in_stride * element_bytes, all[i].out_stride * element_bytes});
    }
    inside = found.end;
  }
  std::vector<int64_t> sizes, from, to;
  for (size_t i = inside; i < all.size(); ++i) {
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
