// MatMulNBits, an operation of its own: the packed weights are unpacked a few
// rows at a time. At accuracy_level 4 devices may round A to bytes; this reference does not. Codes
// of 4 bits may stand for numbers that a table gives (`values`), in place of themselves less a zero
// point.

#include <algorithm>

#include "ops/core/products.h"
#include "ops/core/reference.h"
#include "ops/lowering.h"

namespace sardonyx {

namespace core {
namespace {

enum Input : size_t { kA, kB, kScales, kZeroPoints, kGroups, kBias };

struct Blocks {
  int64_t k, n, bits, size, count,
      bytes;  // count and bytes: blocks of a row, bytes of a block
};

Blocks BlocksOf(const Attributes& attributes) {
  Blocks b{attributes.Int("K"),
           attributes.Int("N"),
           attributes.Int("bits", 4),
           attributes.Int("block_size"),
           0,
           0};
  constexpr int64_t kMost = int64_t{1} << 31;
  if (b.k < 1 || b.n < 1 || b.k > kMost || b.n > kMost) {
    Fail(ErrorCode::kInvalidModel, "weights of {} rows and {} columns", b.n, b.k);
  }
  if (b.bits != 2 && b.bits != 4 && b.bits != 8) {
    Fail(ErrorCode::kInvalidModel, "attribute bits is {}, not 2, 4 or 8", b.bits);
  }
  if (b.size < 16 || b.size > kMost || (b.size & (b.size - 1)) != 0) {
    Fail(ErrorCode::kInvalidModel, "attribute block_size is {}, not a power of two from 16 on",
         b.size);
  }
  b.count = (b.k + b.size - 1) / b.size;
  b.bytes = b.size * b.bits / 8;
  if (const size_t count = attributes.Floats("values").size(); count != 0) {
    if (count != 16 || b.bits != 4) {
      Fail(ErrorCode::kInvalidModel,
           "attribute values has {} elements for codes of {} bits, not 16 for 4", count, b.bits);
    }
  }
  return b;
}

int64_t PackedZeroPoints(const Blocks& b) { return (b.count * b.bits + 7) / 8; }

// Weights and their parameters may be flat or have axes: the number of elements
// counts.
void CheckCount(InferContext& context, size_t input, std::string_view name, int64_t expected) {
  if (!context.has(input) || !context.ranked(input)) return;
  std::vector<int64_t> sizes;
  if (KnownSizes(context.shape(input), &sizes) && ElementCount(sizes) != expected) {
    context.Fail("{} is {}, which are not {} elements", name, context.Print(context.shape(input)),
                 expected);
  }
}

void InferMatMulNBits(InferContext& context) {
  if (!context.has(kA) || !context.has(kB) || !context.has(kScales)) {
    context.Fail("takes A, B and scales");
  }
  const Blocks b = BlocksOf(context.attributes());
  const DType type = context.dtype(kA);
  if (context.dtype(kB) != DType::kUInt8) {
    context.Fail("B is {}, not uint8", Name(context.dtype(kB)));
  }
  for (const size_t input : {size_t{kScales}, size_t{kBias}}) {
    if (context.has(input) && context.dtype(input) != type) {
      context.Fail("A is {}, but scales or bias are {}", Name(type), Name(context.dtype(input)));
    }
  }
  if (!context.attributes().Floats("values").empty() && context.has(kZeroPoints)) {
    context.Fail("codes of a table have no zero points");
  }
  CheckCount(context, kB, "B", b.n * b.count * b.bytes);
  CheckCount(context, kScales, "scales", b.n * b.count);
  if (context.has(kZeroPoints)) {
    const bool packed = context.dtype(kZeroPoints) == DType::kUInt8;
    CheckCount(context, kZeroPoints, "zero_points", b.n * (packed ? PackedZeroPoints(b) : b.count));
  }
  CheckCount(context, kBias, "bias", b.n);
  if (context.has(kGroups) && context.ranked(kGroups) && context.rank(kGroups) == 1) {
    const Dim groups = context.shape(kGroups)[0];
    if (groups.known() && groups.value() < b.k) {
      context.Fail("g_idx has {} elements for {} columns", groups.value(), b.k);
    }
  }
  if (!context.ranked(kA)) return context.Set(0, type, {});
  Dims shape = context.shape(kA);
  if (shape.empty()) context.Fail("A is a scalar");
  if (shape.back().known() && shape.back().value() != b.k) {
    context.Fail("A is {}, but the weights have {} columns", context.Print(shape), b.k);
  }
  shape.back() = b.n;
  context.Set(0, type, std::move(shape));
}

std::vector<float> Floats(const Tensor& tensor) {
  std::vector<float> values(tensor.size());
  ConvertElements(tensor.dtype(), tensor.raw(), DType::kFloat32, values.data(), tensor.size(),
                  true);
  return values;
}

// Row-wise scales and the products of scale and zero point: weight = scale *
// code - shift.
struct Parameters {
  std::vector<double> values;  // of codes; empty: their own
  std::vector<float> scales, shifts;
  std::vector<int64_t> group_of;  // of each column; empty: columns in order
};

Parameters ReadParameters(ComputeContext& context, const Blocks& b) {
  Parameters p{context.attributes().Floats("values"), Floats(context.input(kScales)), {}, {}};
  p.shifts.resize(p.scales.size());
  std::vector<float> zeros;
  const bool given = context.has(kZeroPoints);
  const bool packed = given && context.input(kZeroPoints).dtype() == DType::kUInt8;
  if (given && !packed) zeros = Floats(context.input(kZeroPoints));
  const int bits = static_cast<int>(b.bits);
  for (int64_t row = 0; row < b.n; ++row) {
    for (int64_t block = 0; block < b.count; ++block) {
      const int64_t at = row * b.count + block;
      float zero = p.values.empty() ? static_cast<float>(1 << (bits - 1)) : 0.0f;
      if (packed) {
        const uint8_t* codes =
            context.input(kZeroPoints).data<uint8_t>() + row * PackedZeroPoints(b);
        zero = static_cast<float>(bits == 8 ? codes[block] : ReadPacked(codes, bits, block));
      } else if (given) {
        zero = zeros[at];
      }
      p.shifts[at] = zero * p.scales[at];
    }
  }
  if (context.has(kGroups)) p.group_of = ReadIndices(context.input(kGroups), b.count, "group");
  return p;
}

// Weights of one block in float32.
void UnpackBlock(int64_t bits, const std::vector<double>& values, const uint8_t* codes, float scale,
                 float shift, int64_t count, float* weights) {
  if (bits == 8) {
    for (int64_t i = 0; i < count; ++i) weights[i] = static_cast<float>(codes[i]) * scale - shift;
    return;
  }
  float table[16];
  const uint32_t mask = (1u << bits) - 1;
  for (uint32_t code = 0; code <= mask; ++code) {
    const float value =
        values.empty() ? static_cast<float>(code) : static_cast<float>(values[code]);
    table[code] = value * scale - shift;
  }
  const int64_t per_byte = 8 / bits;
  for (int64_t begin = 0; begin < count; begin += per_byte) {
    uint32_t byte = *codes++;
    const int64_t end = std::min(count, begin + per_byte);
    for (int64_t i = begin; i < end; ++i, byte >>= bits) weights[i] = table[byte & mask];
  }
}

// A row of weights in float32.
void UnpackRow(const Blocks& b, const Parameters& p, const uint8_t* codes, int64_t row,
               float* weights) {
  const float *scales = p.scales.data() + row * b.count, *shifts = p.shifts.data() + row * b.count;
  codes += row * b.count * b.bytes;
  if (p.group_of.empty()) {
    for (int64_t block = 0; block < b.count; ++block) {
      UnpackBlock(b.bits, p.values, codes + block * b.bytes, scales[block], shifts[block],
                  std::min(b.size, b.k - block * b.size), weights + block * b.size);
    }
    return;
  }
  UnpackBlock(b.bits, p.values, codes, 1, 0, b.k, weights);
  for (int64_t i = 0; i < b.k; ++i) {
    weights[i] = weights[i] * scales[p.group_of[i]] - shifts[p.group_of[i]];
  }
}

void ComputeMatMulNBits(ComputeContext& context) {
  const Blocks b = BlocksOf(context.attributes());
  const Parameters p = ReadParameters(context, b);
  const std::vector<float> a = Floats(context.input(kA));
  const std::vector<float> bias =
      context.has(kBias) ? Floats(context.input(kBias)) : std::vector<float>(b.n);
  const auto* codes = context.input(kB).data<uint8_t>();
  const int64_t rows = static_cast<int64_t>(a.size()) / b.k;
  Tensor sums(DType::kFloat64, {rows, b.n});
  // A panel of unpacked rows stays in the cache while all of A passes by.
  constexpr int64_t kPanel = 16;
  std::vector<float> panel(kPanel * b.k);
  for (int64_t begin = 0; begin < b.n; begin += kPanel) {
    const int64_t count = std::min(kPanel, b.n - begin);
    for (int64_t i = 0; i < count; ++i) {
      UnpackRow(b, p, codes, begin + i, panel.data() + i * b.k);
    }
    double* y = sums.data<double>() + begin;
    MultiplyRows(DType::kFloat32, a.data(), panel.data(), rows, count, b.k, y, b.n);
    for (int64_t m = 0; m < rows; ++m) {
      for (int64_t i = 0; i < count; ++i) y[m * b.n + i] += bias[begin + i];
    }
  }
  Tensor& result = context.Allocate(0);
  ConvertElements(DType::kFloat64, sums.raw(), result.dtype(), result.raw(), result.size(), true);
}

}  // namespace

const CoreOp matmul_nbits = {.name = "matmul_nbits",
                             .inputs = "tttt?t?t?",
                             .infer = InferMatMulNBits,
                             .reference = ComputeMatMulNBits};

}  // namespace core

namespace ops::contrib {

Outputs LowerMatMulNBits(Lowering& op) {
  if (op.Int("weight_prepacked") != 0) {
    op.Unsupported("weights prepacked for a GPU (weight_prepacked {})", op.Int("weight_prepacked"));
  }
  return op.builder().Make(core::matmul_nbits, op.inputs,
                           {{"K", op.Int("K")},
                            {"N", op.Int("N")},
                            {"bits", op.Int("bits", 4)},
                            {"block_size", op.Int("block_size")},
                            {"accuracy_level", op.Int("accuracy_level")}});
}

}  // namespace ops::contrib
}  // namespace sardonyx
