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

// Whole windows of the commonest size, without loops.
template <typename T, class D>
HWY_INLINE void MaxOfNine(D d, const PoolWindow& window, const T* x, T* y) {
  const int64_t row = window.step[1], column = window.step[2];
  const auto of_row = [&](const T* at) HWY_ATTR {
    return hn::Max(hn::Max(hn::LoadU(d, at), hn::LoadU(d, at + column)),
                   hn::LoadU(d, at + 2 * column));
  };
  hn::StoreU(hn::Max(hn::Max(of_row(x), of_row(x + row)), of_row(x + 2 * row)), d, y);
}

// A vector of channels of one output element; x is at the window's first element.
template <typename T, class D>
HWY_INLINE void MaxChannels(D d, const PoolWindow& window, const T* x, T* y) {
  if (window.count == std::array<int64_t, 3>{1, 3, 3}) return MaxOfNine(d, window, x, y);
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
