// What the kernels of depthwise lines share. Included once a target, after hwy/highway.h.

#if defined(SARDONYX_CONV_DEPTHWISE_LINE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_CONV_DEPTHWISE_LINE_INL_H_
#undef SARDONYX_CONV_DEPTHWISE_LINE_INL_H_
#else
#define SARDONYX_CONV_DEPTHWISE_LINE_INL_H_
#endif

#include "hwy/highway.h"
#include "kernels/conv_depthwise_line.h"
#include "kernels/finish_pixels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {

// Channels of which a tile of pixels is done before the next tile: many, for memory gives whole
// pixels faster than parts; of a large kernel no more than the first-level cache keeps until then.
constexpr int64_t ChannelsTogether(int64_t kernel, int64_t lanes, int64_t channels) {
  return kernel == 3 || kernel == 4 ? channels : 4 * lanes;
}

}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#endif  // include guard of each target
