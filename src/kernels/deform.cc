#include "kernels/deform.h"

#include <algorithm>

#include "base/round.h"
#include "kernels/sample.h"
#include "kernels/scratch_slots.h"
#include "kernels/transpose.h"

namespace sardonyx {
namespace {

constexpr int64_t kTile = 64;  // output positions
constexpr int64_t kMost = 4;   // taps of one

// The two pixels around a point of an axis that are in the image.
struct AxisTaps {
  int count = 0;
  int32_t pixel[2];
  float weight[2];

  AxisTaps(int64_t at, float moved, int64_t size) {
    const double x = static_cast<double>(at) + moved;
    if (!(x > -1 && x < static_cast<double>(size))) return;  // nor a NaN
    int64_t below = static_cast<int64_t>(x);
    below -= static_cast<double>(below) > x;
    const double rest = x - static_cast<double>(below);
    if (below >= 0) Add(below, 1 - rest);
    if (below + 1 < size) Add(below + 1, rest);
  }

 private:
  void Add(int64_t at, double w) {
    pixel[count] = static_cast<int32_t>(at);
    weight[count++] = static_cast<float>(w);
  }
};

int64_t ImageBytes(const DeformShape& shape) {
  return AlignBytes(shape.batch * shape.channels * shape.rows.size * shape.columns.size * 4);
}
int64_t SlotBytes(const DeformShape& shape) {
  return kTile * (kMost * static_cast<int64_t>(sizeof(Tap)) + 4) +
         AlignBytes(kTile * shape.channels / shape.groups * 4);
}

}  // namespace

int64_t DeformColumnsScratchBytes(const DeformShape& shape, int threads) {
  return ImageBytes(shape) + ScratchSlots::CountFor(threads) * SlotBytes(shape);
}

void DeformColumns(const DeformShape& shape, const float* x, const float* offset, const float* mask,
                   float* y, void* scratch, const Parallel& par) {
  const DeformAxis &rows = shape.rows, &columns = shape.columns;
  const int64_t pixels = rows.size * columns.size, area = shape.area(), out = shape.out();
  const int64_t together = shape.channels / shape.groups;
  auto* turned = static_cast<float*>(scratch);
  ToChannelsLast(x, shape.batch, shape.channels, pixels, turned, par);
  ScratchSlots slots(static_cast<std::byte*>(scratch) + ImageBytes(shape), SlotBytes(shape),
                     ScratchSlots::CountFor(par.threads));
  const int64_t tiles = (out + kTile - 1) / kTile;
  par.For(shape.batch * shape.groups * tiles, [&](int64_t task) {
    const ScratchSlots::Lease lease(slots);
    auto* taps = reinterpret_cast<Tap*>(lease.floats());
    auto* counts = reinterpret_cast<int32_t*>(taps + kTile * kMost);
    auto* sums = reinterpret_cast<float*>(counts + kTile);
    const int64_t group = task / tiles, first = task % tiles * kTile;  // group: of all images
    const int64_t count = std::min(kTile, out - first);
    const int64_t image = group / shape.groups, channel = group % shape.groups * together;
    for (int64_t t = 0; t < area; ++t) {
      const float* moved = offset + (group * area + t) * 2 * out + first;
      const float* scale = mask != nullptr ? mask + (group * area + t) * out + first : nullptr;
      for (int64_t p = 0; p < count; ++p) {
        const int64_t o = first + p;
        const AxisTaps down(
            o / columns.out * rows.stride + t / columns.kernel * rows.dilation - rows.pad, moved[p],
            rows.size);
        const AxisTaps across(
            o % columns.out * columns.stride + t % columns.kernel * columns.dilation - columns.pad,
            moved[out + p], columns.size);
        Tap* to = taps + p * kMost;
        for (int i = 0; i < down.count; ++i) {
          const float weight = scale != nullptr ? down.weight[i] * scale[p] : down.weight[i];
          for (int j = 0; j < across.count; ++j) {
            *to++ = {down.pixel[i] * static_cast<int32_t>(columns.size) + across.pixel[j],
                     weight * across.weight[j]};
          }
        }
        counts[p] = static_cast<int32_t>(to - (taps + p * kMost));
      }
      SumTaps(turned + image * pixels * shape.channels + channel, shape.channels, together, taps,
              counts, kMost, count, sums);
      TransposeMatrix(sums, together,
                      y + ((image * shape.channels + channel) * area + t) * out + first, area * out,
                      together, count);
    }
  });
}

}  // namespace sardonyx
