#pragma once
// Convolutions on each target beside loops in float64.

#include <cstdint>
#include <vector>

#include "conv_shape.h"
#include "each_target.h"
#include "kernels/conv.h"

namespace sardonyx {

// What follows the sums.
enum class Finish {
  kNone,
  kBiasRelu,
  kResidual,
  kInterpreted,
  kSilu,
  kHardSwish,
  kLargeBias,
  kSiluThenResidual
};

// The sum and the sum of magnitudes of every output, [pixels, cout], of x and weights of ONNX.
struct ConvSums {
  std::vector<double> sum, size;
};
ConvSums DirectConv(const ConvShape& s, bool transposed, const float* x, const float* w);

// [batch, pixels, cin] as [batch, cin, pixels].
Floats AsPlanes(const ConvShape& s, const Floats& x);

// One algorithm, on one thread and on two. strided: pixels of x and y lie apart.
void CheckConv(ConvShape s, ConvAlgorithm algorithm, bool transposed, Finish finish,
               bool strided = false);

// Every algorithm that takes the shape, with every kind of epilogue.
void CheckConv(const ConvShape& s);
void CheckTransposed(const ConvShape& s);

// A kernel of planes, with and without an epilogue.
using ConvOfPlanes = void (*)(const ConvShape&, const float* x, const float* weights, float* y,
                              const Epilogue&, const Parallel&);
void CheckConvOfPlanes(const ConvShape& s, bool transposed, ConvOfPlanes run);

}  // namespace sardonyx
