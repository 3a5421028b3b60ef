#include "kernels/recurrent_bytes.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/recurrent_bytes.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/round.h"
#include "kernels/gemm_int8.h"
#include "kernels/int8_panel.h"
#include "kernels/reduce.h"
#include "kernels/tile_ops.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using DI = hn::CappedTag<int32_t, kBlockColumns>;
using D = hn::RebindToFloat<DI>;

// What the sums of columns begin with, and what they are multiplied by.
void PrepareColumns(const RecurrentCodes& codes, int64_t first, int64_t count, int32_t* init,
                    float* scales) {
  const D d;
  const DI di;
  const auto minus_zero = hn::Set(di, -codes.zero);
  const auto scale = hn::Set(d, codes.scale);
  for (int64_t j = 0; j < count; j += static_cast<int64_t>(hn::Lanes(d))) {
    hn::Store(hn::Mul(minus_zero, hn::Load(di, codes.weights->sums + first + j)), di, init + j);
    hn::Store(hn::Mul(scale, hn::Load(d, codes.weights->scales + first + j)), d, scales + j);
  }
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(PrepareColumns);

namespace {

int64_t Groups(int64_t hidden) { return CeilDiv(hidden, 4); }

// Bytes of a row of codes: rows a multiple of 1 KiB apart would share sets of the cache.
int64_t RowBytes(int64_t hidden) {
  const int64_t bytes = AlignBytes(Groups(hidden) * (Int8Widens() ? 8 : 4));
  return bytes % 1024 == 0 ? bytes + 64 : bytes;
}

}  // namespace

size_t RecurrentPanelBytes(int64_t hidden) {
  return static_cast<size_t>(ByteColumns(hidden) * Groups(hidden) * 4);
}

void PackRecurrentBytes(const uint8_t* r, bool is_signed, const float* scales, const uint8_t* zeros,
                        int64_t hidden, const RecurrentByteWeights& packed) {
  const int64_t width = Int8PanelWidth(), groups = Groups(hidden);
  const uint8_t flip = is_signed ? 0 : 0x80;
  auto* panel = static_cast<int8_t*>(packed.panels);
  std::memset(panel, 0, RecurrentPanelBytes(hidden));
  for (int64_t column = 0; column < ByteColumns(hidden); ++column) {
    const int64_t unit = column / kBlockColumns * kUnits + column % kUnits;
    const int64_t row = column % kBlockColumns / kUnits * hidden + unit, lane = column % width;
    int32_t sum = 0, zero = 0;
    for (int64_t k = 0; k < hidden && unit < hidden; ++k) {
      const auto weight = static_cast<int8_t>(r[row * hidden + k] ^ flip);
      panel[(k / 4 * width + lane) * 4 + k % 4] = weight;
      sum += weight;
    }
    if (unit < hidden) zero = static_cast<int8_t>((zeros == nullptr ? 0 : zeros[row]) ^ flip);
    packed.scales[column] = unit < hidden ? scales[row] : 0;
    packed.row_factors[column] = -zero;
    packed.sums[column] = sum - static_cast<int32_t>(hidden) * zero;
    if (lane < width - 1) continue;
    if (Int8Widens()) Int8OrderPairs(panel, groups);
    panel += width * groups * 4;
  }
}

size_t RecurrentCodesBytes(int64_t hidden, int64_t batch) {
  return AlignBytes(static_cast<size_t>(batch) * sizeof(int32_t)) +
         AlignBytes(static_cast<size_t>(hidden)) + static_cast<size_t>(batch * RowBytes(hidden));
}

RecurrentCodes QuantizeState(const RecurrentPhase& phase, const RecurrentByteWeights& weights,
                             bool sums_rows, void* scratch) {
  const int64_t hidden = phase.options->hidden_size, row_bytes = RowBytes(hidden);
  auto* const row_sums = static_cast<int32_t*>(scratch);
  auto* const row = static_cast<uint8_t*>(scratch) + AlignBytes(phase.batch * 4);
  uint8_t* const rows = row + AlignBytes(hidden);
  float low = 0, high = 0;
  for (int64_t item = 0; item < phase.batch; ++item) {
    if (!phase.GoesOn(item)) continue;
    const auto [least, most] = Range(phase.h + item * hidden, hidden);
    low = std::min(low, least);
    high = std::max(high, most);
  }
  RecurrentCodes codes{.weights = &weights, .rows = rows, .row_bytes = row_bytes};
  codes.scale = (high > low ? high - low : 1.0f) / 255;
  const float zero = std::nearbyint(std::clamp(-low / codes.scale, 0.0f, 255.0f));
  codes.zero = static_cast<int32_t>(zero);
  if (sums_rows) codes.row_sums = row_sums;
  static const TileFn quantize = QuantizeTileFn(TileOpcode::kQuantize, DType::kUInt8, 0b11110);
  const float bounds[] = {0, 255};
  const bool widens = Int8Widens();
  int64_t count = 0;
  for (int64_t item = 0; item < phase.batch; ++item) {
    if (!phase.GoesOn(item)) continue;
    uint8_t* const to = rows + count * row_bytes;
    uint8_t* const bytes = widens ? row : to;
    quantize({{phase.h + item * hidden, &codes.scale, &zero, bounds, bounds + 1}, bytes, hidden});
    if (sums_rows) Int8SumRows(bytes, hidden, 1, hidden, false, row_sums + count);
    if (widens) {
      Int8Widen(bytes, hidden, 1, hidden, false, reinterpret_cast<int16_t*>(to), row_bytes / 2);
    } else {
      std::fill(to + hidden, to + row_bytes, 0);
    }
    ++count;
  }
  return codes;
}

void RecurrentByteSums(const RecurrentCodes& codes, int64_t hidden, int64_t row, int64_t rows,
                       int64_t first, int64_t last, float* sums) {
  static constexpr float kNoOffsets[kMostBlocks * kBlockColumns] = {};
  alignas(64) int32_t init[kMostBlocks * kBlockColumns];
  alignas(64) float scales[kMostBlocks * kBlockColumns];
  const int64_t from = first * kBlockColumns, columns = (last - first) * kBlockColumns;
  HWY_DYNAMIC_DISPATCH(PrepareColumns)(codes, from, columns, init, scales);
  const Int8Rescale rescale{.scale = scales, .offset = kNoOffsets};
  Int8BlockArgs block{};
  block.a = codes.rows + row * codes.row_bytes;
  block.a_bytes = codes.row_bytes;
  block.rows = rows;
  block.groups = Groups(hidden);
  block.b = static_cast<const std::byte*>(codes.weights->panels) + from * block.groups * 4;
  block.n1 = columns;
  block.init = init;
  block.row_factor = codes.weights->row_factors + from;
  if (codes.row_sums != nullptr) block.row_sums = codes.row_sums + row;
  block.store = {.rescale = &rescale, .y = sums, .y_stride = columns};
  Int8Block(block);
}

}  // namespace sardonyx
#endif  // HWY_ONCE
