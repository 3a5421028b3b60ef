#include "kernels/col2im.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/col2im.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>

#include "kernels/add_row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

// The blocks [first, last) whose position t lies in the image.
struct Inside {
  int64_t first, last, at;  // at: of the first one

  Inside(const Col2ImAxis& axis, int64_t t) {
    const int64_t shift = t * axis.dilation - axis.pad;
    first = shift >= 0 ? 0 : (-shift + axis.stride - 1) / axis.stride;
    last = axis.size > shift ? (axis.size - shift + axis.stride - 1) / axis.stride : 0;
    last = std::min(last, axis.count);
    at = first * axis.stride + shift;
  }
};

void AddSteps(const float* from, int64_t count, int64_t stride, float* to) {
  if (stride == 1) return AddRow(from, count, to);
  for (int64_t c = 0; c < count; ++c) to[c * stride] += from[c];
}

void AddBlocks(const Col2ImAxis& rows, const Col2ImAxis& columns, const float* x, float* image) {
  const int64_t area = rows.block * columns.block;
  std::fill(image, image + rows.size * columns.size, 0.0f);
  for (int64_t t = 0; t < area; ++t) {
    const Inside down(rows, t / columns.block), across(columns, t % columns.block);
    const int64_t count = across.last - across.first;
    for (int64_t r = down.first; r < down.last; ++r) {
      const int64_t at = (down.at + (r - down.first) * rows.stride) * columns.size + across.at;
      AddSteps(x + (t * rows.count + r) * columns.count + across.first, count, columns.stride,
               image + at);
    }
  }
}

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(AddBlocks);

void Col2Im(int64_t images, const Col2ImAxis& rows, const Col2ImAxis& columns, const float* x,
            float* y, const Parallel& par) {
  const int64_t values = rows.block * columns.block * rows.count * columns.count;  // an image
  const int64_t together = std::max<int64_t>(1, 100'000 / (values + 1));           // a task
  par.For((images + together - 1) / together, [&](int64_t task) {
    for (int64_t i = task * together; i < std::min(images, (task + 1) * together); ++i) {
      HWY_DYNAMIC_DISPATCH(AddBlocks)
      (rows, columns, x + i * values, y + i * rows.size * columns.size);
    }
  });
}

}  // namespace sardonyx
#endif
