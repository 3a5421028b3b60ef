#pragma once
// Convolution and transposed convolution in float32 over channels-last activations, 1 to 3 spatial
// dimensions.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "base/thread_pool.h"
#include "kernels/epilogue.h"

namespace sardonyx {

// Three spatial dimensions, the outermost first; a convolution of fewer has leading ones (1-D:
// {1, 1, L}), with kernel 1, stride 1, dilation 1 and no padding there.
//
// Input x is [batch, in[0], in[1], in[2], cin], output y is [batch, out[0], out[1], out[2], cout];
// both channels-last, pixels dense in that order, a pixel x_stride (>= cin) or y_stride (>= cout)
// floats after the one before, so that either may be a range of channels of a wider tensor.
// For output position o and kernel position t the input position is
// o * stride + t * dilation - pad_begin; outside of the input it counts as zeros (so pad_end is
// whatever `out` implies). cin and cout count all groups.
struct ConvShape {
  int64_t batch = 1;
  int64_t in[3] = {1, 1, 1};
  int64_t cin = 0;
  int64_t out[3] = {1, 1, 1};
  int64_t cout = 0;
  int64_t kernel[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1};
  int64_t dilation[3] = {1, 1, 1};
  int64_t pad_begin[3] = {0, 0, 0};
  int64_t groups = 1;
  int64_t x_stride = 0;
  int64_t y_stride = 0;
  bool x_planes = false;  // x is [batch, cin, in[0], in[1], in[2]], dense; x_stride is cin

  int64_t InPixels() const { return batch * in[0] * in[1] * in[2]; }
  int64_t OutPixels() const { return batch * out[0] * out[1] * out[2]; }
  int64_t KernelSize() const { return kernel[0] * kernel[1] * kernel[2]; }
  // Multiplications and additions of the direct algorithm.
  int64_t Flops() const { return 2 * OutPixels() * KernelSize() * (cin / groups) * cout; }
};

// X(algorithm, name, m, stride, kernel): Winograd's F(m x m, kernel x kernel), at stride 2 by the
// phases of the input.
#define SARDONYX_WINOGRAD_FORMS(X)            \
  X(kWinograd4, "winograd4", 4, 1, 3)         \
  X(kWinograd2, "winograd2", 2, 1, 3)         \
  X(kStrided4, "winograd4 stride 2", 4, 2, 3) \
  X(kStrided2, "winograd2 stride 2", 2, 2, 3) \
  X(kWinograd5, "winograd2 5x5", 2, 1, 5)     \
  X(kStrided5, "winograd4 5x5 stride 2", 4, 2, 5)

enum class ConvAlgorithm : uint8_t {
  kGemm,  // implicit matrix product; 1x1 with stride 1 straight on the input; any shape, groups
  kTaps,  // a product for each kernel position, where windows mostly see padding
  kDepthwise,  // cin == cout, groups of one channel, or of 2 or 4
  kGroups,     // of few channels, the direct sum
  kPhases,     // Winograd of few channels: the phases of a stride become channels
  kStrips,     // Winograd of few channels along the last axis, in registers
  kLines,      // Winograd along one axis
#define SARDONYX_ENUM(algorithm, name, m, stride, kernel) algorithm,
  SARDONYX_WINOGRAD_FORMS(SARDONYX_ENUM)
#undef SARDONYX_ENUM
};
#define SARDONYX_NAME(algorithm, name, m, stride, kernel) , name
inline constexpr std::string_view kConvNames[] = {
    "gemm",
    "taps",
    "depthwise",
    "groups",
    "winograd of phases",
    "winograd of strips",
    "winograd of lines" SARDONYX_WINOGRAD_FORMS(SARDONYX_NAME)};
#undef SARDONYX_NAME
inline constexpr int kConvAlgorithmCount = std::size(kConvNames);
constexpr std::string_view Name(ConvAlgorithm algorithm) {
  return kConvNames[static_cast<int>(algorithm)];
}
inline bool IsWinograd(ConvAlgorithm algorithm) { return algorithm > ConvAlgorithm::kGroups; }

// Empty if `algorithm` can run the shape, else why not, in words for `explain`.
std::string_view ConvRefusal(ConvAlgorithm algorithm, const ConvShape& shape);

// The algorithm expected to be fastest; cheap enough to be asked at every plan. Which is taken
// depends on spatial sizes too, so a program whose shapes change may want several packed forms.
// allow_winograd = false keeps to the direct sum, at somewhat less rounding error.
ConvAlgorithm ChooseConv(const ConvShape& shape, bool allow_winograd = true);

// Rows [first, end) of weights along their leading axis.
struct ConvWeightRows {
  const float* data;  // of row `first`
  int64_t first, end;
};

// Packed weights depend on the algorithm, cin, cout, kernel, stride and groups alone, on their size
// and form (a suffix to the algorithm's name), which may depend on the number of pixels, and on the
// SIMD target that runs. Weights are dense [cout, cin / groups, kernel[0], kernel[1], kernel[2]],
// as in ONNX; `packed` is 64-byte aligned and complete once all rows were packed, in any order.
size_t ConvPackedBytes(ConvAlgorithm algorithm, const ConvShape& shape);
std::string_view ConvPackedForm(ConvAlgorithm algorithm, const ConvShape& shape);
void ConvPack(ConvAlgorithm algorithm, const ConvShape& shape, const ConvWeightRows& rows,
              float* packed, const Parallel& par);

// Rows that are packed together begin at a multiple of this, and end at one or at the last.
int64_t ConvPackStep(ConvAlgorithm algorithm, const ConvShape& shape);

// Bytes of scratch (64-byte aligned) for a run on at most `threads` threads; may be 0.
size_t ConvScratchBytes(ConvAlgorithm algorithm, const ConvShape& shape, int threads);

// Whether y may be the residual operand of an epilogue that is applied in registers: every element
// is read once, before it is written, and nothing else is written.
bool ConvInPlace(ConvAlgorithm algorithm, const ConvShape& shape);

// Whether pixels of x are so far apart, or lines of the cache as many as hold theirs so few, that
// those of a tile drive each other out: x_stride were better a little longer.
bool ConvCollides(ConvAlgorithm algorithm, const ConvShape& shape);

// Whether x is better copied to dense pixels than read where pixels lie apart, as some channels of
// a value with more do.
bool ConvReadsDense(ConvAlgorithm algorithm, const ConvShape& shape);

// Whether any lines of the output are, bit by bit, the convolution of the lines that they read, of
// the same packed weights and without scratch. pad_begin[1] is then what lies above these.
bool ConvByLines(ConvAlgorithm algorithm, const ConvShape& shape);

// y = epilogue(convolution). The epilogue sees y as a matrix [OutPixels(), cout]: a bias is an
// operand of strides (0, 1), a residual one of (its pixel stride, 1). y must not overlap x nor an
// operand of the epilogue (but see ConvInPlace). Bit-identical for any number of threads.
void Conv(ConvAlgorithm algorithm, const ConvShape& shape, const float* x, const float* packed,
          float* y, const Epilogue& epilogue, void* scratch, const Parallel& par);

// Transposed convolution: `shape` has the same fields, and input position i with kernel position t
// adds to output position i * stride + t * dilation - pad_begin, where that lies inside the output;
// output_padding and pad_end are in `out`. Weights are [cin, cout / groups, kernel...], as in
// ONNX's ConvTranspose. The rest is as above.
size_t ConvTransposePackedBytes(const ConvShape& shape);
std::string_view ConvTransposePackedForm(const ConvShape& shape);
void ConvTransposePack(const ConvShape& shape, const ConvWeightRows& rows, float* packed,
                       const Parallel& par);
int64_t ConvTransposePackStep(const ConvShape& shape);
size_t ConvTransposeScratchBytes(const ConvShape& shape, int threads);
void ConvTranspose(const ConvShape& shape, const float* x, const float* packed, float* y,
                   const Epilogue& epilogue, void* scratch, const Parallel& par);

}  // namespace sardonyx
