#pragma once
// The algorithms behind kernels/conv.h.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/round.h"
#include "kernels/conv.h"
#include "kernels/gemm_block.h"
#include "kernels/gemm_epilogue.h"
#include "kernels/slices.h"
#include "kernels/winograd_transform.h"

namespace sardonyx {

inline size_t FloatBytes(int64_t count) { return static_cast<size_t>(count) * sizeof(float); }

// Strides at which consecutive rows do not fall into the same cache lines: of a matrix, and of a
// tile's transformed values.
inline int64_t Spread(int64_t floats) { return CeilDiv(floats, 16) / 2 * 32 + 16; }
inline int64_t ValuesStride(int64_t channels) {
  return channels % 512 == 0 ? channels + 16 : channels;
}

// Into how many tasks work of this many operations and bytes is worth cutting, at 100 GFLOP/s and
// 20 GB/s.
inline int64_t WantedTasks(double flops, double bytes, int64_t most = 24) {
  return TaskCount(flops * 1e-5 + bytes * 5e-5, MostTasks(most));
}

// So many parts of the columns are enough that few rows need not be cut as well: the tiles of all
// rows have more time to fetch the next panel than those of a part.
inline constexpr int64_t kManyColumnParts = 12;

// Threads have rows of their own where each gets so many: what it wrote in the step before it then
// reads in this one. Lines that another core has changed come at 10 GB/s (Emerald Rapids), and of
// fewer rows each panel of weights, which all threads then read, would come too late.
inline constexpr int64_t kOwnRows = 40;
inline int64_t OwnersOfRows(int64_t pixels, int64_t row_parts, int threads) {
  return pixels >= kOwnRows * threads ? std::min<int64_t>(threads, row_parts) : 1;
}

// Whether threads share each line of an image, for it has few of them and long ones: what kernels
// see beyond the pixels of their thread is then less than the lines above and below them.
inline bool SharesLines(const ConvShape& s) {
  return s.batch == 1 && s.out[0] == 1 && s.out[1] > 1 && s.out[1] <= 12 && s.out[2] >= 32 &&
         s.out[2] >= 4 * s.out[1];
}

// The lines of the kernel that lie inside of the input, for one line of the output.
struct KernelLines {
  static constexpr int kMost = 64;
  static bool Fit(const ConvShape& s) { return s.kernel[0] * s.kernel[1] <= kMost; }

  // d0, h0: the input position of kernel position 0.
  void Find(const ConvShape& s, int64_t d0, int64_t h0) {
    count = 0;
    int64_t before = 0, d = d0;
    for (int64_t kd = 0; kd < s.kernel[0]; ++kd, d += s.dilation[0]) {
      int64_t h = h0;
      for (int64_t kh = 0; kh < s.kernel[1]; ++kh, h += s.dilation[1], before += s.kernel[2]) {
        if (d < 0 || d >= s.in[0] || h < 0 || h >= s.in[1]) continue;
        x[count] = (d * s.in[1] + h) * s.in[2] * s.x_stride;
        w[count++] = before;
      }
    }
  }

  int count = 0;
  int64_t x[kMost];  // where the line begins in the item
  int64_t w[kMost];  // and how many kernel positions are before it
};

// Input lines that `lines` output lines see, those in the padding as well.
inline int64_t LinesSeen(const ConvShape& s, int64_t lines) {
  return (lines - 1) * s.stride[1] + (s.kernel[1] - 1) * s.dilation[1] + 1;
}

// Weights in panels of `width` output channels, the groups' one behind the other: how many channels
// are packed together at least, and the panel at which such a channel begins.
inline int64_t PanelStep(const ConvShape& s, int64_t width) {
  return s.groups == 1 ? width : s.cout / s.groups;
}
inline int64_t PanelAt(const ConvShape& s, int64_t width, int64_t channel) {
  const int64_t n = s.cout / s.groups;
  return channel == s.cout ? s.groups * CeilDiv(n, width)
                           : channel / n * CeilDiv(n, width) + channel % n / width;
}

// What kernels/conv.h has of an algorithm.
struct ConvMethod {
  std::string_view (*refusal)(const ConvShape&);
  // Estimated microseconds on one thread at 100 GFLOP/s; infinite where others are always faster.
  double (*cost)(const ConvShape&);
  size_t (*packed_bytes)(const ConvShape&);
  std::string_view (*packed_form)(const ConvShape&) = [](const ConvShape&) {
    return std::string_view();
  };
  void (*pack)(const ConvShape&, const ConvWeightRows&, float* packed, const Parallel&);
  int64_t (*pack_step)(const ConvShape&) = [](const ConvShape& s) { return s.cout; };
  size_t (*scratch_bytes)(const ConvShape&, int threads);
  bool (*in_place)(const ConvShape&) = [](const ConvShape&) { return true; };
  bool (*by_lines)(const ConvShape&) = [](const ConvShape&) { return false; };
  // Whether pixels of x are so far apart that those of a tile drive each other out of the cache.
  bool (*collides)(const ConvShape&) = [](const ConvShape&) { return false; };
  bool (*reads_dense)(const ConvShape&) = [](const ConvShape&) { return false; };
  // Itself: else planes are turned to pixels before, and nothing but this and `cost` sees them.
  bool (*takes_planes)(const ConvShape&) = [](const ConvShape&) { return false; };
  void (*run)(const ConvShape&, const float* x, const float* packed, float* y, const Epilogue&,
              void* scratch, const Parallel&);
};

// Turns planes to pixels: [first, end) of an image, to [end - first, cin].
void TurnPlanes(const ConvShape& shape, const float* x, int64_t image, int64_t first, int64_t end,
                float* to);

// Each in the file of its name, but for these of Winograd, one for each of SARDONYX_WINOGRAD_FORMS.
extern const ConvMethod kConvGemm, kConvTaps, kConvDepthwise, kConvGroups, kConvPhases, kConvStrips,
    kConvLines;
extern const ConvMethod kConvWinograd[];

// The cost of products while bytes of weights come: of some megabytes from memory at each run, else
// mostly from the last-level cache.
inline double ProductCost(double products, double weight_bytes) {
  const double product = 2 * products * 1.0e-5;
  const double weights = weight_bytes * (weight_bytes > (4 << 20) ? 4.0e-5 : 1.0e-5);
  return std::max(product, weights) + 0.3 * std::min(product, weights);
}

namespace conv_gemm {
// Gathers rows of the matrix that a convolution multiplies: for the `rows` output pixels from
// `first` on, one behind the other or one `below` the other, of group `group`, the values k0 ... k0
// + kc - 1, in order (kernel position, channel), into to[row * ldto]. Up to kGatherSlack floats
// behind each row may be overwritten.
inline constexpr int64_t kGatherSlack = 16;
void Gather(const ConvShape& shape, int64_t group, const float* x, int64_t first, int64_t rows,
            int64_t k0, int64_t kc, float* to, int64_t ldto, bool below = false);

// The same of planes, for output pixels below each other, all of each row in order (kernel line,
// channel, position in the line). For one group and two dimensions.
void GatherPlanes(const ConvShape& shape, const float* x, int64_t first, int64_t rows, float* to,
                  int64_t ldto);
}  // namespace conv_gemm

namespace conv_depthwise {
// y[p][c] = x[p][c] * w[c] of `pixels` pixels so far apart, added to what y holds if `accumulate`.
void AddProducts(const float* x, int64_t x_step, const float* w, float* y, int64_t y_step,
                 int64_t pixels, int64_t channels, bool accumulate);
}  // namespace conv_depthwise

// Of a transposed convolution: the input position along an axis that kernel position t takes to
// output position o, or -1.
inline int64_t TransposedSource(const ConvShape& s, int axis, int64_t o, int64_t t) {
  const int64_t scaled = o + s.pad_begin[axis] - t * s.dilation[axis];
  if (scaled < 0 || scaled % s.stride[axis] != 0) return -1;
  return scaled / s.stride[axis] < s.in[axis] ? scaled / s.stride[axis] : -1;
}
// Of inputs of up to so many pixels, of large weights, threads share columns and not lines.
inline constexpr int64_t kSmallTransposed = 64;

namespace conv_transpose_taps {
bool Takes(const ConvShape& shape);
size_t PackedBytes(const ConvShape& shape);
void Pack(const ConvShape& shape, const ConvWeightRows& rows, float* packed, const Parallel& par);
size_t ScratchBytes(const ConvShape& shape, int threads);
void Run(const ConvShape& shape, const float* x, const float* packed, float* y,
         const Epilogue& epilogue, void* scratch, const Parallel& par);
}  // namespace conv_transpose_taps

}  // namespace sardonyx
