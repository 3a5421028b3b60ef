#pragma once
// The three linear maps of Winograd convolution over channels-last tensors, vectors over channels.
// See conv_winograd.cc for their order, and Lavin and Gray, "Fast Algorithms for Convolutional
// Neural Networks" (2015) for the algorithm.

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/conv.h"
#include "kernels/gemm_block.h"

namespace sardonyx {

// Tiles of m x m output pixels of a convolution, 3 x 3 or 5 x 5, of stride 1 or 2. Stride 2 is a
// sum over the phases of the input: along each axis the even pixels under a tile meet two (three)
// taps, which F(m, 2) does with m + 1 products, and the odd ones the tap (two) between, which takes
// m. These come last; those of a single tap share their weights. A tile at an edge that has but
// count < m pixels of an axis takes fewer of the points, at the same transformed weights.
struct WinogradForm {
  int m, stride, kernel = 3;
  bool operator==(const WinogradForm&) const = default;
  constexpr int Taps() const { return stride == 1 ? kernel : (kernel + 1) / 2; }
  constexpr int Side() const { return Products(m); }  // positions of an axis
  constexpr int Positions() const { return Side() * Side(); }
  // Transformed weights of an axis.
  constexpr int Weights() const { return kernel == 3 ? m + 2 : Side(); }
  constexpr int WeightAt(int position) const { return std::min(position, Weights() - 1); }
  constexpr int Products(int count) const {
    return stride == 1 ? count + kernel - 1 : 2 * count + kernel - 2;
  }
  // Whether `count` pixels of an axis take this position: points in order, infinity, odd pixels
  // or, of two taps, their points and infinity.
  constexpr bool Takes(int count, int position) const {
    const int infinity = m + Taps() - 2;
    return position < count + Taps() - 2 || position == infinity ||
           (position > infinity && position <= infinity + count) || position == infinity + m + 1;
  }
};

// Of an axis before the two that tiles lie in, the outermost of three, the direct sum is taken: a
// slice of the output is a sum over the slices of the kernel, whose inputs are as many more
// channels.
inline int64_t SlicedChannels(const ConvShape& s) { return s.kernel[0] * s.cin; }
inline int64_t OutSlices(const ConvShape& s) { return s.batch * s.out[0]; }

// Where a tile begins in the output, of which slice of all items, and how many pixels it has.
struct WinogradPlace {
  int64_t slice, h, w;
  int rows, columns;
};

// The tiles of all slices, numbered so that those that take a position are neighbours: those cut at
// the right edge alone, whole ones, those cut below, those cut at both.
class WinogradTiles {
 public:
  WinogradTiles(const ConvShape& s, WinogradForm form)
      : form_(form),
        rows_(s.out[1] / form.m),
        columns_(s.out[2] / form.m),
        last_rows_(static_cast<int>(s.out[1] % form.m)),
        last_columns_(static_cast<int>(s.out[2] % form.m)),
        right_(last_columns_ > 0 ? OutSlices(s) * rows_ : 0),
        whole_(right_ + OutSlices(s) * rows_ * columns_),
        below_(whole_ + (last_rows_ > 0 ? OutSlices(s) * columns_ : 0)),
        count_(below_ + (last_rows_ > 0 && last_columns_ > 0 ? OutSlices(s) : 0)) {}

  int64_t count() const { return count_; }
  // Rows of all positions' matrices.
  int64_t Products(const ConvShape& s) const {
    const auto axis = [this](int64_t whole, int last) {
      return whole * form_.Side() + (last > 0 ? form_.Products(last) : 0);
    };
    return OutSlices(s) * axis(rows_, last_rows_) * axis(columns_, last_columns_);
  }
  WinogradPlace At(int64_t tile) const {
    const int m = form_.m;
    if (tile < right_) return {tile / rows_, tile % rows_ * m, columns_ * m, m, last_columns_};
    if (tile < whole_) {
      const int64_t line = (tile - right_) / columns_;
      return {line / rows_, line % rows_ * m, (tile - right_) % columns_ * m, m, m};
    }
    if (tile < below_) {
      tile -= whole_;
      return {tile / columns_, rows_ * m, tile % columns_ * m, last_rows_, m};
    }
    return {tile - below_, rows_ * m, columns_ * m, last_rows_, last_columns_};
  }
  // The tiles [first, second) that take position (i, j).
  std::pair<int64_t, int64_t> Taking(int i, int j) const {
    return {form_.Takes(last_columns_, j) ? 0 : right_, !form_.Takes(last_rows_, i)     ? whole_
                                                        : form_.Takes(last_columns_, j) ? count_
                                                                                        : below_};
  }

 private:
  WinogradForm form_;
  int64_t rows_, columns_;  // of a slice, whole
  int last_rows_, last_columns_;
  int64_t right_, whole_, below_, count_;  // where each kind ends
};

// The transformed values of tile first + r at position t of the form's positions are
// data[t * t_stride + r * ld ...], one a channel, those of each slice of the kernel in turn.
struct WinogradValues {
  float* data;
  int64_t t_stride, ld;

  WinogradValues From(int64_t channel) const { return {data + channel, t_stride, ld}; }
};

struct WinogradTransforms {
  // Transforms the input under tiles first ... first + count - 1.
  void (*input)(const ConvShape& shape, const float* x, int64_t first, int64_t count,
                const WinogradValues& to);
  // Transforms products of `channels` channels back and stores the output pixels of the tiles, with
  // the epilogue; y and the epilogue begin at the first of these channels of pixel 0.
  void (*output)(const ConvShape& shape, const WinogradValues& from, int64_t first, int64_t count,
                 int64_t channels, float* y, const TileEpilogue& epilogue);
  // Transforms kernels [count, kernel, kernel, width] into Weights()^2 panels [count, width], each
  // t_stride behind the one before. The width is a multiple of kPanelGranule.
  void (*weights)(int64_t count, int64_t width, const float* kernels, float* to, int64_t t_stride);
};

// For the forms in SARDONYX_WINOGRAD_FORMS.
WinogradTransforms TransformsOf(WinogradForm form);

}  // namespace sardonyx
