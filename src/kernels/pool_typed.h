#pragma once
// Windows of pooling, and its plain loops for every type (see kernels/pool.h).

#include <algorithm>
#include <limits>

#include "kernels/pool.h"
#include "kernels/slices.h"

namespace sardonyx {

// The part of one window that lies in the input.
struct PoolWindow {
  int64_t offset = 0;              // of its first element, channel 0, in x
  std::array<int64_t, 3> first{};  // the same as indices
  std::array<int64_t, 3> count{};  // elements along each axis, 0 if none is in the input
  std::array<int64_t, 3> step{};   // between them, in elements of x
  int64_t counted = 0;             // what an average divides by

  // What an average multiplies by; of nothing it is 0.
  float Factor() const { return counted == 0 ? 0.0f : 1.0f / static_cast<float>(counted); }
};

// What one axis of the window of output `o` has.
struct PoolSpan {
  int64_t first = 0;   // index of its first element that is in the input
  int64_t count = 0;   // elements in the input
  int64_t padded = 0;  // and in the padded input

  PoolSpan(const PoolShape& shape, int axis, int64_t o) {
    const int64_t start = o * shape.stride[axis] - shape.pad_begin[axis];
    const int64_t step = shape.dilation[axis], kernel = shape.kernel[axis];
    if (start >= 0 && start + (kernel - 1) * step < shape.in[axis]) {
      first = start;
      count = padded = kernel;
      return;
    }
    // Kernel positions from the first at or beyond `from` to the last before `to`.
    const auto position = [&](int64_t limit) {
      const int64_t apart = limit - start + step - 1;
      return std::clamp<int64_t>(step == 1 ? apart : apart / step, 0, kernel);
    };
    const int64_t begin = start < 0 ? position(0) : 0;
    const int64_t end = start < shape.in[axis] ? position(shape.in[axis]) : 0;
    count = std::max<int64_t>(0, end - begin);
    first = count == 0 ? 0 : start + begin * step;
    const int64_t padded_end = shape.in[axis] + shape.pad_end[axis];
    padded = start < padded_end ? position(padded_end) : 0;
  }
};

// Windows of the output row number `row` of batch * out[0] * out[1].
class PoolRowWindows {
 public:
  PoolRowWindows(const PoolShape& shape, int64_t row) : shape_(shape) {
    const int64_t plane = shape.in[0] * shape.in[1] * shape.in[2];
    const int64_t pixel = shape.XStride();
    image_ = row / (shape.out[0] * shape.out[1]) * plane * pixel;
    stride_ = {shape.in[1] * shape.in[2] * pixel, shape.in[2] * pixel, pixel};
    for (int axis = 0; axis < 3; ++axis) window_.step[axis] = stride_[axis] * shape.dilation[axis];
    Place(0, row / shape.out[1] % shape.out[0]);
    Place(1, row % shape.out[1]);
  }

  // The window of output column o, until the next call.
  const PoolWindow& At(int64_t o, bool include_pad) {
    Place(2, o);
    window_.offset = image_;
    for (int axis = 0; axis < 3; ++axis) window_.offset += window_.first[axis] * stride_[axis];
    const auto& counts = include_pad ? padded_ : window_.count;
    window_.counted = counts[0] * counts[1] * counts[2];
    return window_;
  }

 private:
  void Place(int axis, int64_t o) {
    const PoolSpan span(shape_, axis, o);
    window_.first[axis] = span.first;
    window_.count[axis] = span.count;
    padded_[axis] = span.padded;
  }

  const PoolShape& shape_;
  PoolWindow window_;
  std::array<int64_t, 3> stride_, padded_{};
  int64_t image_ = 0;
};

// Calls body(row) for each output row; an element of the window costs 1 / `speed` nanoseconds.
template <typename Body>
void ForEachPoolRow(const PoolShape& shape, int64_t speed, const Parallel& par, Body&& body) {
  const int64_t rows = shape.batch * shape.out[0] * shape.out[1];
  const int64_t volume = shape.kernel[0] * shape.kernel[1] * shape.kernel[2];
  const Slices slices = Slice(rows, shape.out[2] * shape.channels * volume / speed + 4);
  par.For(slices.tasks, [&](int64_t task) {
    for (int64_t row = slices.Begin(task); row < slices.End(task, rows); ++row) body(row);
  });
}

// Calls body(y's offset, window, channel) for each output element.
template <typename Body>
void ForEachPoolWindow(const PoolShape& shape, bool include_pad, const Parallel& par, Body&& body) {
  ForEachPoolRow(shape, 1, par, [&](int64_t row) {
    PoolRowWindows windows(shape, row);
    for (int64_t o = 0; o < shape.out[2]; ++o) {
      const PoolWindow& window = windows.At(o, include_pad);
      for (int64_t c = 0; c < shape.channels; ++c) {
        body((row * shape.out[2] + o) * shape.channels + c, window, c);
      }
    }
  });
}

// Calls body(element, i, j, k) for each element of the window, in the input's order.
template <typename T, typename Body>
void ForEachInWindow(const PoolWindow& window, const T* x, Body&& body) {
  for (int64_t i = 0; i < window.count[0]; ++i) {
    for (int64_t j = 0; j < window.count[1]; ++j) {
      for (int64_t k = 0; k < window.count[2]; ++k) {
        body(x[window.offset + i * window.step[0] + j * window.step[1] + k * window.step[2]], i, j,
             k);
      }
    }
  }
}

template <typename T>
void MaxPoolElements(const PoolShape& shape, const T* x, T* y, int64_t* indices,
                     PoolIndexOrder order, const Parallel& par) {
  using Limits = std::numeric_limits<T>;
  const std::array<int64_t, 3> in = shape.in;
  const int64_t plane = in[0] * in[1] * in[2],
                out_plane = shape.out[0] * shape.out[1] * shape.out[2];
  ForEachPoolWindow(shape, false, par, [&](int64_t at, const PoolWindow& window, int64_t c) {
    T best = Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    int64_t index = -1;
    ForEachInWindow(window, x + c, [&](T v, int64_t i, int64_t j, int64_t k) {
      if (index >= 0 && !(v > best)) return;
      best = v;
      const int64_t a = window.first[0] + i * shape.dilation[0];
      const int64_t b = window.first[1] + j * shape.dilation[1];
      const int64_t e = window.first[2] + k * shape.dilation[2];
      index = order == PoolIndexOrder::kRowMajor ? (a * in[1] + b) * in[2] + e
                                                 : (e * in[1] + b) * in[0] + a;
    });
    y[at] = best;
    if (indices == nullptr) return;
    const int64_t image = at / shape.channels / out_plane;
    indices[at] = index < 0 ? -1 : (image * shape.channels + c) * plane + index;
  });
}

}  // namespace sardonyx
