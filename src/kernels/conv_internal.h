#pragma once
// The algorithms behind kernels/conv.h: one set of functions each. Those that every algorithm has
// are called through the table in conv.cc.

#include <cstddef>
#include <cstdint>

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
  return TaskCount(flops * 1e-5 + bytes * 5e-5, most);
}

namespace conv_gemm {
size_t PackedBytes(const ConvShape& shape);
void Pack(const ConvShape& shape, const float* weights, float* packed, const Parallel& par);
size_t ScratchBytes(const ConvShape& shape, int threads);
void Run(const ConvShape& shape, const float* x, const float* packed, float* y,
         const Epilogue& epilogue, void* scratch, const Parallel& par);

// Whether sums are stored once, complete.
bool StoresOnce(const ConvShape& shape);

// Gathers rows of the matrix that a convolution multiplies: for the `rows` output pixels from
// `first` on, one behind the other or one `below` the other, of group `group`, the values k0 ... k0
// + kc - 1, in order (kernel position, channel), into to[row * ldto]. Up to kGatherSlack floats
// behind each row may be overwritten.
inline constexpr int64_t kGatherSlack = 16;
void Gather(const ConvShape& shape, int64_t group, const float* x, int64_t first, int64_t rows,
            int64_t k0, int64_t kc, float* to, int64_t ldto, bool below = false);
}  // namespace conv_gemm

namespace conv_depthwise {
std::string_view Refusal(const ConvShape& shape);
size_t PackedBytes(const ConvShape& shape);
void Pack(const ConvShape& shape, const float* weights, float* packed, const Parallel& par);
size_t ScratchBytes(const ConvShape& shape, int threads);
void Run(const ConvShape& shape, const float* x, const float* packed, float* y,
         const Epilogue& epilogue, void* scratch, const Parallel& par);
// y[p][c] = x[p][c] * w[c] of `pixels` pixels so far apart, added to what y holds if `accumulate`.
void AddProducts(const float* x, int64_t x_step, const float* w, float* y, int64_t y_step,
                 int64_t pixels, int64_t channels, bool accumulate);
}  // namespace conv_depthwise

namespace conv_phases {
std::string_view Refusal(const ConvShape& shape);
// Multiplications of all tiles, and what their transformed input takes.
double Products(const ConvShape& shape);
double TransformedBytes(const ConvShape& shape);
size_t PackedBytes(const ConvShape& shape);
void Pack(const ConvShape& shape, const float* weights, float* packed, const Parallel& par);
size_t ScratchBytes(const ConvShape& shape, int threads);
void Run(const ConvShape& shape, const float* x, const float* packed, float* y,
         const Epilogue& epilogue, void* scratch, const Parallel& par);
}  // namespace conv_phases

namespace conv_lines {
std::string_view Refusal(const ConvShape& shape);
// Multiplications of all tiles, and what their transformed input and products take.
double Products(const ConvShape& shape);
double TransformedBytes(const ConvShape& shape);
size_t PackedBytes(const ConvShape& shape);
void Pack(const ConvShape& shape, const float* weights, float* packed, const Parallel& par);
size_t ScratchBytes(const ConvShape& shape, int threads);
void Run(const ConvShape& shape, const float* x, const float* packed, float* y,
         const Epilogue& epilogue, void* scratch, const Parallel& par);
}  // namespace conv_lines

namespace conv_strips {
std::string_view Refusal(const ConvShape& shape);
// Multiplications of all strips.
double Products(const ConvShape& shape);
size_t PackedBytes(const ConvShape& shape);
void Pack(const ConvShape& shape, const float* weights, float* packed, const Parallel& par);
size_t ScratchBytes(const ConvShape& shape, int threads);
void Run(const ConvShape& shape, const float* x, const float* packed, float* y,
         const Epilogue& epilogue, void* scratch, const Parallel& par);
}  // namespace conv_strips

namespace conv_transpose_few {
bool Takes(const ConvShape& shape);
size_t PackedBytes(const ConvShape& shape);
void Pack(const ConvShape& shape, const float* weights, float* packed, const Parallel& par);
size_t ScratchBytes(const ConvShape& shape, int threads);
void Run(const ConvShape& shape, const float* x, const float* packed, float* y,
         const Epilogue& epilogue, void* scratch, const Parallel& par);
}  // namespace conv_transpose_few

// Of each form in SARDONYX_WINOGRAD_FORMS.
template <WinogradForm kForm>
struct ConvWinograd {
  static std::string_view Refusal(const ConvShape& shape);
  // How many products a transformed weight takes as long as, if weights are packed as they are and
  // transformed in each run; else 0.
  static int TransformProducts(const ConvShape& shape);
  // " scaled" where the taps of packed weights are, for a transform in registers.
  static std::string_view PackedForm(const ConvShape& shape);
  static size_t PackedBytes(const ConvShape& shape);
  static void Pack(const ConvShape& shape, const float* weights, float* packed,
                   const Parallel& par);
  static size_t ScratchBytes(const ConvShape& shape, int threads);
  static void Run(const ConvShape& shape, const float* x, const float* packed, float* y,
                  const Epilogue& epilogue, void* scratch, const Parallel& par);
};
#define SARDONYX_EXTERN(algorithm, name, m, stride, kernel) \
  extern template struct ConvWinograd<WinogradForm{m, stride, kernel}>;
SARDONYX_WINOGRAD_FORMS(SARDONYX_EXTERN)
#undef SARDONYX_EXTERN

}  // namespace sardonyx
