#include "kernels/dynamic_time_warping.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dynamic_time_warping.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/round.h"
#include "kernels/transpose.h"

#ifndef SARDONYX_KERNELS_DYNAMIC_TIME_WARPING
#define SARDONYX_KERNELS_DYNAMIC_TIME_WARPING
namespace sardonyx {
inline constexpr int64_t kMostWarpLanes = 16, kWarpSteps = 64;

// Where a step to an element came from: bit r of `diagonal` and of `down` is that of row r of a
// block; neither: from the column before.
struct WarpStep {
  uint16_t diagonal, down;
};
}  // namespace sardonyx
#endif

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, kMostWarpLanes>;
using V = hn::Vec<D>;

int64_t WarpLanes() { return static_cast<int64_t>(hn::Lanes(D())); }

HWY_INLINE uint16_t Bits(D d, hn::Mask<D> mask) {
  uint8_t bytes[8] = {};
  hn::StoreMaskBits(d, mask, bytes);
  uint16_t bits;
  std::memcpy(&bits, bytes, 2);
  return bits;
}

// A block of rows, one a lane. Lane r is r columns behind the first, so that a step needs nothing
// but what earlier steps made. `above`: sums of the last row before the block; becomes those of its
// own last row. `corner`: the sum before the first column of that row. `buffer` has kWarpSteps *
// lanes elements.
void WarpBlock(const float* costs, int64_t rows, int64_t columns, float corner, float* above,
               float* buffer, WarpStep* steps) {
  const D d;
  const int64_t lanes = WarpLanes(), count = columns + lanes - 1;
  const V none = hn::Set(d, std::numeric_limits<float>::infinity());
  const auto first = hn::FirstN(d, 1);
  HWY_ALIGN int32_t lane_before[kMostWarpLanes] = {};
  for (int32_t r = 1; r < lanes; ++r) lane_before[r] = r - 1;
  const auto shift = hn::SetTableIndices(d, lane_before);
  V sums = none, last_down = hn::IfThenElse(first, hn::Set(d, corner), none);
  for (int64_t begin = 0, part; begin < count; begin += part) {
    // Steps that have an element in every lane are columns of a matrix whose rows are skewed.
    const bool whole = rows == lanes && begin >= lanes - 1 && begin < columns;
    if (whole) {
      part = std::min(kWarpSteps, columns - begin);
      TransposeMatrix(costs + begin, columns - 1, buffer, lanes, part, lanes);
    } else {
      part = std::min(kWarpSteps, (begin < lanes - 1 ? lanes - 1 : count) - begin);
      if (rows < lanes) part = std::min(kWarpSteps, count - begin);
      std::fill_n(buffer, part * lanes, 0.0f);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t from = std::max<int64_t>(0, r - begin);
        const int64_t to = std::min(part, columns + r - begin);
        for (int64_t i = from; i < to; ++i) {
          buffer[i * lanes + r] = costs[r * columns + begin + i - r];
        }
      }
    }
    for (int64_t i = 0; i < part; ++i) {
      const int64_t step = begin + i;
      const V before = hn::Set(d, step < columns ? above[step] : 0);
      const V down = hn::IfThenElse(first, before, hn::TableLookupLanes(sums, shift));
      const auto diagonally = hn::And(hn::Lt(last_down, down), hn::Lt(last_down, sums));
      const auto downwards = hn::And(hn::Lt(down, last_down), hn::Lt(down, sums));
      const V least = hn::IfThenElse(diagonally, last_down, hn::IfThenElse(downwards, down, sums));
      sums = hn::Add(hn::Load(d, buffer + i * lanes), least);
      last_down = down;
      steps[step] = {Bits(d, diagonally), Bits(d, downwards)};
      if (step >= lanes - 1) above[step - lanes + 1] = hn::ExtractLane(sums, lanes - 1);
    }
  }
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {
namespace {

HWY_EXPORT(WarpLanes);
HWY_EXPORT(WarpBlock);

// What lies in the scratch.
struct Layout {
  int64_t lanes = HWY_DYNAMIC_DISPATCH(WarpLanes)();
  int64_t blocks, steps;             // of rows; of one block
  int64_t above, buffer, path, end;  // in bytes, behind the steps of all blocks

  Layout(int64_t rows, int64_t columns)
      : blocks((rows + lanes - 1) / lanes), steps(columns + lanes - 1) {
    above = AlignBytes(blocks * steps * static_cast<int64_t>(sizeof(WarpStep)));
    buffer = above + AlignBytes(columns * 4);
    path = buffer + AlignBytes(kWarpSteps * lanes * 4);
    end = path + AlignBytes((rows + columns) * 8);
  }
};

}  // namespace

int64_t WarpScratchBytes(int64_t rows, int64_t columns) { return Layout(rows, columns).end; }

int64_t FindWarpPath(const float* costs, int64_t rows, int64_t columns, void* scratch) {
  const Layout layout(rows, columns);
  auto* const memory = static_cast<std::byte*>(scratch);
  auto* const steps = static_cast<WarpStep*>(scratch);
  auto* const above = reinterpret_cast<float*>(memory + layout.above);
  auto* const buffer = reinterpret_cast<float*>(memory + layout.buffer);
  auto* const path = reinterpret_cast<int32_t*>(memory + layout.path);
  const float none = std::numeric_limits<float>::infinity();
  std::fill_n(above, columns, none);
  for (int64_t b = 0; b < layout.blocks; ++b) {
    const int64_t row = b * layout.lanes;
    HWY_DYNAMIC_DISPATCH(WarpBlock)(costs + row * columns, std::min(layout.lanes, rows - row),
                                    columns, b == 0 ? 0 : none, above, buffer,
                                    steps + b * layout.steps);
  }
  int64_t length = 0;
  for (int64_t r = rows - 1, c = columns - 1; r >= 0 && c >= 0; ++length) {
    path[2 * length] = static_cast<int32_t>(r);
    path[2 * length + 1] = static_cast<int32_t>(c);
    const int64_t lane = r % layout.lanes;
    const WarpStep step = steps[r / layout.lanes * layout.steps + c + lane];
    const bool diagonal = ((step.diagonal >> lane) & 1) != 0, down = ((step.down >> lane) & 1) != 0;
    r -= static_cast<int64_t>(diagonal || down);
    c -= static_cast<int64_t>(!down);
  }
  return length;
}

void WriteWarpPath(int64_t rows, int64_t columns, int64_t length, const void* scratch,
                   int32_t* path) {
  const auto* from = reinterpret_cast<const int32_t*>(static_cast<const std::byte*>(scratch) +
                                                      Layout(rows, columns).path);
  for (int64_t i = 0; i < length; ++i) {
    path[i] = from[2 * (length - 1 - i)];
    path[length + i] = from[2 * (length - 1 - i) + 1];
  }
}

}  // namespace sardonyx
#endif
