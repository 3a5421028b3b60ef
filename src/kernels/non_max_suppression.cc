#include "kernels/non_max_suppression.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/non_max_suppression.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <tuple>

#include "kernels/scratch_slots.h"
#include "kernels/slices.h"

#ifndef SARDONYX_KERNELS_NON_MAX_SUPPRESSION_ROW
#define SARDONYX_KERNELS_NON_MAX_SUPPRESSION_ROW
namespace sardonyx {
namespace {

// Chosen boxes are kept a list a side, so that many are compared at once.
constexpr int64_t kSides = 5;  // left, top, right, bottom, area
constexpr int64_t kGroup = 16;

// What a row of scores needs: places for its candidates and for the sides of chosen boxes.
struct RowScratch {
  uint64_t* waiting;
  float* sides;
  int64_t step;  // from one side's list to the next, whole groups

  static int64_t Step(const NonMaxSuppressionShape& shape) {
    return (shape.places() + kGroup - 1) / kGroup * kGroup;
  }
  static int64_t Bytes(const NonMaxSuppressionShape& shape) {
    return (shape.count * 8 + Step(shape) * kSides * 4 + 63) / 64 * 64;
  }
  RowScratch(const NonMaxSuppressionShape& shape, void* memory)
      : waiting(static_cast<uint64_t*>(memory)),
        sides(reinterpret_cast<float*>(waiting + shape.count)),
        step(Step(shape)) {}
};

}  // namespace
}  // namespace sardonyx
#endif

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

struct Box {
  float left, top, right, bottom;

  Box(const float* box, bool center) {
    if (center) {
      left = box[0] - box[2] / 2, right = box[0] + box[2] / 2;
      top = box[1] - box[3] / 2, bottom = box[1] + box[3] / 2;
    } else {
      std::tie(left, right) = std::minmax(box[1], box[3]);
      std::tie(top, bottom) = std::minmax(box[0], box[2]);
    }
  }
  float area() const { return (right - left) * (bottom - top); }
};

// Whether one of the first `size` chosen boxes overlaps. Behind them, up to a whole group, lie
// boxes without an area.
bool Overlaps(const Box& box, const RowScratch& row, int64_t size, float threshold) {
  const hn::CappedTag<float, kGroup> d;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(d));
  const float own_area = box.area();
  if (!(own_area > 0)) return false;
  const auto own = hn::Set(d, own_area), most = hn::Set(d, threshold), zero = hn::Zero(d);
  const auto left = hn::Set(d, box.left), top = hn::Set(d, box.top);
  const auto right = hn::Set(d, box.right), bottom = hn::Set(d, box.bottom);
  const float* side = row.sides;
  for (int64_t i = 0; i < size; i += kLanes, side += kLanes) {
    const auto width = hn::Sub(hn::Min(right, hn::LoadU(d, side + 2 * row.step)),
                               hn::Max(left, hn::LoadU(d, side)));
    const auto height = hn::Sub(hn::Min(bottom, hn::LoadU(d, side + 3 * row.step)),
                                hn::Max(top, hn::LoadU(d, side + row.step)));
    const auto area = hn::LoadU(d, side + 4 * row.step);
    const auto meet =
        hn::And(hn::And(hn::Gt(width, zero), hn::Gt(height, zero)), hn::Gt(area, zero));
    if (hn::AllFalse(d, meet)) continue;
    const auto common = hn::Mul(width, height);
    const auto whole = hn::Sub(hn::Add(own, area), common);
    if (!hn::AllFalse(d, hn::And(meet, hn::Gt(hn::Div(common, whole), most)))) return true;
  }
  return false;
}

// A score and its box in one number: the larger comes first. -0 is 0, a NaN the least.
uint64_t KeyOf(float score, int64_t i) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);
  const uint32_t ordered = (bits >> 31) != 0 ? ~bits : bits | uint32_t{1} << 31;
  return static_cast<uint64_t>(score == score ? ordered : 0) << 32 | ~static_cast<uint32_t>(i);
}

// The keys of all candidates, in no order; returns their number.
int64_t Candidates(const NonMaxSuppressionShape& shape, const float* scores, uint64_t* keys) {
  const hn::CappedTag<float, kGroup> d;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(d));
  const auto least = hn::Set(d, shape.least_score);
  int64_t size = 0;
  for (int64_t i = 0; i < shape.count;) {
    const int64_t end = std::min(shape.count, i + kGroup);
    if (shape.has_least_score && end == i + kGroup) {
      auto above = hn::Gt(hn::LoadU(d, scores + i), least);
      for (int64_t j = kLanes; j < kGroup; j += kLanes) {
        above = hn::Or(above, hn::Gt(hn::LoadU(d, scores + i + j), least));
      }
      if (hn::AllFalse(d, above)) {
        i = end;
        continue;
      }
    }
    for (; i < end; ++i) {
      keys[size] = KeyOf(scores[i], i);
      size += !shape.has_least_score || scores[i] > shape.least_score ? 1 : 0;
    }
  }
  return size;
}

// Chooses boxes of one row of scores; returns how many.
int64_t ChooseBoxes(const NonMaxSuppressionShape& shape, const float* boxes, const float* scores,
                    int32_t* chosen, const RowScratch& row) {
  int64_t waiting = Candidates(shape, scores, row.waiting), size = 0;
  // Usually few of many are asked for: a heap sorts no others.
  std::make_heap(row.waiting, row.waiting + waiting);
  for (; waiting > 0 && size < shape.most; --waiting) {
    std::pop_heap(row.waiting, row.waiting + waiting);
    const auto i = static_cast<int32_t>(~static_cast<uint32_t>(row.waiting[waiting - 1]));
    const Box box(boxes + int64_t{i} * 4, shape.center);
    if (Overlaps(box, row, size, shape.overlap)) continue;
    const float sides[kSides] = {box.left, box.top, box.right, box.bottom, box.area()};
    for (int64_t side = 0; side < kSides; ++side) {
      float* const list = row.sides + side * row.step;
      if (size % kGroup == 0) std::fill_n(list + size, kGroup, 0.0f);
      list[size] = sides[side];
    }
    chosen[size++] = i;
  }
  return size;
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {
namespace {
HWY_EXPORT(ChooseBoxes);
}  // namespace

int64_t NonMaxSuppressionScratchBytes(const NonMaxSuppressionShape& shape, int threads) {
  return RowScratch::Bytes(shape) * ScratchSlots::CountFor(threads);
}

void NonMaxSuppression(const NonMaxSuppressionShape& shape, const float* boxes, const float* scores,
                       int32_t* chosen, int64_t* found, void* scratch, const Parallel& par) {
  ScratchSlots slots(scratch, static_cast<size_t>(RowScratch::Bytes(shape)),
                     ScratchSlots::CountFor(par.threads));
  const Slices slices = Slice(shape.rows(), shape.count);
  par.For(slices.tasks, [&](int64_t task) {
    const ScratchSlots::Lease lease(slots);
    const RowScratch memory(shape, lease.floats());
    for (int64_t row = slices.Begin(task); row < slices.End(task, shape.rows()); ++row) {
      const float* const own = boxes + row / shape.classes * shape.count * 4;
      found[row] = HWY_DYNAMIC_DISPATCH(ChooseBoxes)(shape, own, scores + row * shape.count,
                                                     chosen + row * shape.places(), memory);
    }
  });
}

}  // namespace sardonyx
#endif  // HWY_ONCE
