// Max pooling of bytes: vectors over channels.

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool_int8.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/pool_typed.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Whole windows of the commonest sizes, without loops.
template <int kSide, typename T, class D>
HWY_INLINE void MaxOfSquare(D d, const PoolWindow& window, const T* x, T* y) {
  auto most = hn::LoadU(d, x);
#pragma GCC unroll 9
  for (int i = 1; i < kSide * kSide; ++i) {
    const int64_t at = i / kSide * window.step[1] + i % kSide * window.step[2];
    most = hn::Max(most, hn::LoadU(d, x + at));
  }
  hn::StoreU(most, d, y);
}

// A vector of channels of one output element; x is at the window's first element.
template <typename T, class D>
HWY_INLINE void MaxChannels(D d, const PoolWindow& window, const T* x, T* y) {
  if (window.count == std::array<int64_t, 3>{1, 2, 2}) return MaxOfSquare<2>(d, window, x, y);
  if (window.count == std::array<int64_t, 3>{1, 3, 3}) return MaxOfSquare<3>(d, window, x, y);
  auto most = hn::Set(d, std::numeric_limits<T>::lowest());
  for (int64_t i = 0; i < window.count[0]; ++i) {
    for (int64_t j = 0; j < window.count[1]; ++j) {
      const T* row = x + i * window.step[0] + j * window.step[1];
      for (int64_t k = 0; k < window.count[2]; ++k, row += window.step[2]) {
        most = hn::Max(most, hn::LoadU(d, row));
      }
    }
  }
  hn::StoreU(most, d, y);
}

// All channels; the last vector overlaps the one before. False if they are fewer than a vector.
template <typename T, class D>
HWY_INLINE bool MaxVectors(D d, const PoolWindow& window, const T* x, T* y, int64_t channels) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (channels < lanes) return false;
  int64_t c = 0;
  for (; c + lanes <= channels; c += lanes) MaxChannels(d, window, x + c, y + c);
  if (c < channels) MaxChannels(d, window, x + channels - lanes, y + channels - lanes);
  return true;
}

template <typename T>
HWY_INLINE void MaxRow(const PoolShape& shape, const T* x, T* y, int64_t row) {
  PoolRowWindows windows(shape, row);
  for (int64_t o = 0; o < shape.out[2]; ++o, y += shape.channels) {
    const PoolWindow& window = windows.At(o, false);
    const T* from = x + window.offset;
    if (MaxVectors(hn::ScalableTag<T>(), window, from, y, shape.channels)) continue;
    if (MaxVectors(hn::CappedTag<T, 32>(), window, from, y, shape.channels)) continue;
    if (MaxVectors(hn::CappedTag<T, 16>(), window, from, y, shape.channels)) continue;
    for (int64_t c = 0; c < shape.channels; ++c) {
      MaxChannels(hn::CappedTag<T, 1>(), window, from + c, y + c);
    }
  }
}

void MaxRowUnsigned(const PoolShape& shape, const uint8_t* x, uint8_t* y, int64_t row) {
  MaxRow(shape, x, y, row);
}
void MaxRowSigned(const PoolShape& shape, const int8_t* x, int8_t* y, int64_t row) {
  MaxRow(shape, x, y, row);
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(MaxRowUnsigned);
HWY_EXPORT(MaxRowSigned);

template <>
void MaxPool<uint8_t>(const PoolShape& shape, const uint8_t* x, uint8_t* y, int64_t* indices,
                      PoolIndexOrder order, const Parallel& par) {
  if (indices != nullptr) return MaxPoolElements(shape, x, y, indices, order, par);
  ForEachPoolRow(shape, 16, par, [&](int64_t row) {
    HWY_DYNAMIC_DISPATCH(MaxRowUnsigned)(shape, x, y + row * shape.out[2] * shape.channels, row);
  });
}

template <>
void MaxPool<int8_t>(const PoolShape& shape, const int8_t* x, int8_t* y, int64_t* indices,
                     PoolIndexOrder order, const Parallel& par) {
  if (indices != nullptr) return MaxPoolElements(shape, x, y, indices, order, par);
  ForEachPoolRow(shape, 16, par, [&](int64_t row) {
    HWY_DYNAMIC_DISPATCH(MaxRowSigned)(shape, x, y + row * shape.out[2] * shape.channels, row);
  });
}

}  // namespace sardonyx
#endif  // HWY_ONCE
