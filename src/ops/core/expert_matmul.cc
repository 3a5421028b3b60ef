// Rows times the matrices of the experts chosen for each: y[r, s] = x[r] * w[experts[r, s]]^T
// (+ bias[experts[r, s]]). Weights are [E,N,K], with `trans_w` [E,K,N], of x's type or narrowed as
// those of matmul; or with `bits` codes in uint8, packed along K from the low bits on, and each is
// (code - zero) * scale with a scale and a zero point (absent: half of the range) for `block_size`
// of them. An expert counts from the end if it is negative. One row of x, or of experts, is for all
// of the other.

#include <algorithm>

#include "ops/core/core.h"
#include "ops/core/fits.h"
#include "ops/core/products.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

enum Input : size_t { kX, kWeights, kExperts, kBias, kScales, kZeros };

// Bits of a code; 0: weights are numbers.
int64_t BitsOf(InferContext& context) {
  const int64_t bits = context.attributes().Int("bits");
  if (bits != 0 && bits != 2 && bits != 4 && bits != 8) {
    context.Fail("attribute bits is {}, not 2, 4 or 8", bits);
  }
  if (bits != 0 && context.attributes().Int("block_size") < 1) {
    context.Fail("attribute block_size is {}", context.attributes().Int("block_size"));
  }
  return bits;
}

void Expect(InferContext& context, size_t input, std::string_view name, const Dims& expected) {
  if (!context.has(input) || !context.ranked(input)) return;
  const Dims& shape = context.shape(input);
  if (Fits(shape, expected)) return;
  context.Fail("{} is {}, but must be {}", name, context.Print(shape), context.Print(expected));
}

void InferExpertMatmul(InferContext& context) {
  for (const size_t input : {kX, kWeights, kExperts}) {
    if (!context.has(input)) context.Fail("takes x, weights and experts");
  }
  const int64_t bits = BitsOf(context);
  const DType type = context.dtype(kX), stored = context.dtype(kWeights);
  if (bits != 0 ? stored != DType::kUInt8 : stored != type && !IsNarrowed(type, stored)) {
    context.Fail("x is {}, and weights cannot be {}", Name(type), Name(stored));
  }
  if (type != DType::kFloat32 && !IsHalf(type)) {
    context.Fail("x is {}, not float, float16 or bfloat16", Name(type));
  }
  if (context.dtype(kExperts) != DType::kInt64) {
    context.Fail("experts are {}, not int64", Name(context.dtype(kExperts)));
  }
  if (bits != 0 && !context.has(kScales)) context.Fail("codes have no scales");
  const bool trans_w = context.attributes().Int("trans_w") != 0;
  if (bits != 0 && trans_w) context.Fail("codes lie along K, without trans_w");
  for (const size_t input : {kBias, kScales, kZeros}) {
    if (context.has(input) && context.dtype(input) != type) {
      context.Fail("x is {}, but input {} is {}", Name(type), size_t{input},
                   Name(context.dtype(input)));
    }
  }
  SymbolTable& symbols = context.symbols();
  const auto shape = [&](size_t input, std::string_view name, size_t rank) {
    if (!context.ranked(input)) {
      Dims any;
      for (size_t i = 0; i < rank; ++i) any.push_back(symbols.Fresh());
      return any;
    }
    if (context.shape(input).size() != rank) {
      context.Fail("{} are {}, but must have {} axes", name, context.Print(context.shape(input)),
                   rank);
    }
    return context.shape(input);
  };
  const Dims x = shape(kX, "x", 2), experts = shape(kExperts, "experts", 2),
             given = shape(kWeights, "weights", 3);
  const Dims w{given[0], given[trans_w ? 2 : 1], given[trans_w ? 1 : 2]};
  const auto is_one = [](Dim rows) { return rows == Dim(1); };
  if (x[0].known() && experts[0].known() && x[0] != experts[0] && !is_one(x[0]) &&
      !is_one(experts[0])) {
    context.Fail("x is {}, but experts are {}", context.Print(x), context.Print(experts));
  }
  if (x[1].known() && w[2].known()) {
    const int64_t k = x[1].value(), held = w[2].value();
    if (bits == 0 ? held != k : k > INT64_MAX / 8 || k * bits % 8 != 0 || held != k * bits / 8) {
      context.Fail("x is {}, but weights are {}", context.Print(x), context.Print(given));
    }
  }
  Expect(context, kBias, "bias", {w[0], w[1]});
  if (bits != 0 && x[1].known()) {
    const int64_t block = context.attributes().Int("block_size"), k = x[1].value();
    const Dims blocks{w[0], w[1], Dim(k / block + (k % block != 0))};
    Expect(context, kScales, "scales", blocks);
    Expect(context, kZeros, "zero points", blocks);
  }
  const Dim rows = context.Broadcast({x[0]}, {experts[0]})[0];
  context.Set(0, type, Dims{rows, experts[1], w[1]});
}

std::vector<float> Floats(const Tensor& tensor) {
  std::vector<float> values(tensor.size());
  ConvertElements(tensor.dtype(), tensor.raw(), DType::kFloat32, values.data(), tensor.size(),
                  true);
  return values;
}

// The matrix of one expert, [n, k].
class Matrices {
 public:
  Matrices(const ComputeContext& context, int64_t n, int64_t k)
      : weights_(context.input(kWeights)),
        n_(n),
        k_(k),
        trans_(context.attributes().Int("trans_w") != 0),
        bits_(static_cast<int>(context.attributes().Int("bits"))),
        block_(context.attributes().Int("block_size", 1)) {
    if (bits_ == 0) return;
    blocks_ = k / block_ + (k % block_ != 0);
    scales_ = Floats(context.input(kScales));
    if (context.has(kZeros)) zeros_ = Floats(context.input(kZeros));
  }

  Tensor At(int64_t expert) const {
    const int64_t bytes = weights_.bytes() / weights_.dims()[0];
    const char* from = static_cast<const char*>(weights_.raw()) + expert * bytes;
    Tensor matrix(DType::kFloat32, {trans_ ? k_ : n_, trans_ ? n_ : k_});
    float* to = matrix.data<float>();
    if (bits_ == 0) {
      ConvertElements(weights_.dtype(), from, DType::kFloat32, to, n_ * k_, true);
      return trans_ ? Permute(matrix, {1, 0}) : matrix;
    }
    const auto* codes = reinterpret_cast<const uint8_t*>(from);
    for (int64_t j = 0; j < n_; ++j, codes += k_ * bits_ / 8) {
      for (int64_t i = 0; i < k_; ++i) {
        const int64_t at = (expert * n_ + j) * blocks_ + i / block_;
        const float zero = zeros_.empty() ? static_cast<float>(1 << (bits_ - 1)) : zeros_[at];
        const auto code = bits_ == 8 ? codes[i] : ReadPacked(codes, bits_, i);
        *to++ = (static_cast<float>(code) - zero) * scales_[at];
      }
    }
    return matrix;
  }

 private:
  const Tensor& weights_;
  int64_t n_, k_;
  bool trans_;
  int bits_;
  int64_t block_, blocks_ = 1;
  std::vector<float> scales_, zeros_;
};

void ComputeExpertMatmul(ComputeContext& context) {
  Tensor& y = context.Allocate(0);
  const int64_t rows = y.dims()[0], slots = y.dims()[1], n = y.dims()[2];
  const int64_t k = context.input(kX).dims()[1], count = context.input(kWeights).dims()[0];
  const bool one_row = context.input(kX).dims()[0] == 1;
  if (y.size() == 0) return;
  std::vector<int64_t> experts = ReadIndices(context.input(kExperts), count, "expert");
  const auto chosen = static_cast<int64_t>(experts.size());
  experts.resize(static_cast<size_t>(rows * slots));
  for (int64_t i = chosen; i < rows * slots; ++i) experts[i] = experts[i - chosen];  // of one row
  const std::vector<float> x = Floats(context.input(kX));
  const std::vector<float> bias =
      context.has(kBias) ? Floats(context.input(kBias)) : std::vector<float>(count * n);
  const Matrices matrices(context, n, k);
  Tensor sums(DType::kFloat64, {rows, slots, n});
  for (int64_t expert = 0; expert < count; ++expert) {
    if (std::find(experts.begin(), experts.end(), expert) == experts.end()) continue;
    const Tensor matrix = matrices.At(expert);
    for (int64_t i = 0; i < rows * slots; ++i) {
      if (experts[i] != expert) continue;
      double* to = sums.data<double>() + i * n;
      MultiplyRows(DType::kFloat32, x.data() + (one_row ? 0 : i / slots * k), matrix.raw(), 1, n, k,
                   to, n);
      for (int64_t j = 0; j < n; ++j) to[j] += bias[expert * n + j];
    }
  }
  ConvertElements(DType::kFloat64, sums.raw(), y.dtype(), y.raw(), y.size(), true);
}

}  // namespace

const CoreOp expert_matmul = {.name = "expert_matmul",
                              .inputs = "tttt?t?t?",
                              .infer = InferExpertMatmul,
                              .reference = ComputeExpertMatmul};

}  // namespace sardonyx::core
