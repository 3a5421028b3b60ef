#include "kernels/col2im.h"

#include <algorithm>

namespace sardonyx {
namespace {

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

}  // namespace

void Col2Im(int64_t images, const Col2ImAxis& rows, const Col2ImAxis& columns, const float* x,
            float* y, const Parallel& par) {
  const int64_t blocks = rows.count * columns.count, pixels = rows.size * columns.size;
  const int64_t area = rows.block * columns.block;
  const int64_t together = std::max<int64_t>(1, 40'000 / (area * blocks + 1));  // images a task
  par.For((images + together - 1) / together, [&](int64_t task) {
    for (int64_t i = task * together; i < std::min(images, (task + 1) * together); ++i) {
      float* image = y + i * pixels;
      std::fill(image, image + pixels, 0.0f);
      for (int64_t t = 0; t < area; ++t) {
        const Inside down(rows, t / columns.block), across(columns, t % columns.block);
        const float* plane = x + (i * area + t) * blocks;
        for (int64_t r = down.first; r < down.last; ++r) {
          const float* from = plane + r * columns.count;
          float* to = image + (down.at + (r - down.first) * rows.stride) * columns.size + across.at;
          const int64_t count = across.last - across.first;
          if (columns.stride == 1) {
            for (int64_t c = 0; c < count; ++c) to[c] += from[across.first + c];
          } else {
            for (int64_t c = 0; c < count; ++c) to[c * columns.stride] += from[across.first + c];
          }
        }
      }
    }
  });
}

}  // namespace sardonyx
