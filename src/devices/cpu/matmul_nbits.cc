#include <algorithm>
#include <cmath>
#include <functional>
#include <string_view>
#include <vector>

#include "base/cast.h"
#include "devices/cpu/families.h"
#include "kernels/gemm_narrow.h"

namespace sardonyx::cpu {
namespace {

enum Input : size_t { kA, kB, kScales, kZeroPoints, kGroups, kBias };

std::vector<float> Floats(const Tensor& tensor) {
  const Tensor aligned = Aligned(tensor);
  std::vector<float> values(static_cast<size_t>(aligned.size()));
  ConvertElements(aligned.dtype(), aligned.raw(), DType::kFloat32, values.data(), aligned.size(),
                  true);
  return values;
}

// Zero points of blocks: given as codes packed in each row, or in the type of A.
class ZeroPoints {
 public:
  ZeroPoints(const Operand* given, int bits, int64_t n, int64_t blocks)
      : bits_(bits), n_(n), blocks_(blocks) {
    if (given == nullptr) return;
    if (given->dtype == DType::kUInt8) {
      codes_ = Aligned(*given->constant);
    } else {
      floats_ = Floats(*given->constant);
    }
  }

  // The one of all blocks, if that is a code; found without looking at more than tells otherwise.
  int One() const {
    const float first = n_ * blocks_ > 0 ? At(0, 0) : -1.0f;
    const bool is_code =
        first >= 0 && first < static_cast<float>(1 << bits_) && first == std::trunc(first);
    if (!is_code) return NarrowMatrix::kNoZero;
    for (int64_t j = 0; j < n_; ++j) {
      for (int64_t i = 0; i < blocks_; ++i) {
        if (At(j, i) != first) return NarrowMatrix::kNoZero;
      }
    }
    return static_cast<int>(first);
  }

  // [n, blocks]
  std::vector<float> All() const {
    std::vector<float> values(static_cast<size_t>(n_ * blocks_));
    for (int64_t j = 0; j < n_; ++j) {
      for (int64_t i = 0; i < blocks_; ++i) values[j * blocks_ + i] = At(j, i);
    }
    return values;
  }

 private:
  float At(int64_t column, int64_t block) const {
    if (!floats_.empty()) return floats_[column * blocks_ + block];
    if (!codes_.defined()) return static_cast<float>(1 << (bits_ - 1));
    const int64_t row_bytes = (blocks_ * bits_ + 7) / 8;
    return static_cast<float>(
        ReadPacked(codes_.data<uint8_t>() + column * row_bytes, bits_, block));
  }

  int bits_;
  int64_t n_, blocks_;
  Tensor codes_;
  std::vector<float> floats_;
};

BindResult BindBlocks(const BindRequest& request) {
  auto given = [&](size_t i) { return request.has(i) ? &request.inputs[i] : nullptr; };
  const Attributes& attributes = request.node.attributes;
  const Operand& a = request.inputs[kA];
  if (a.dtype != DType::kFloat32) return Refuse("element type is {}, not float", Name(a.dtype));
  if (given(kGroups) != nullptr) return Refuse("columns are in groups of their own (g_idx)");
  for (const size_t i : {size_t{kB}, size_t{kScales}, size_t{kZeroPoints}}) {
    if (given(i) != nullptr && given(i)->constant == nullptr) {
      return Refuse("weights are not constant");
    }
  }
  const int bits = static_cast<int>(attributes.Int("bits", 4));
  NarrowMatrix b{bits == 2   ? DType::kUInt2
                 : bits == 4 ? DType::kUInt4
                             : DType::kUInt8,
                 attributes.Int("K"), attributes.Int("N"), attributes.Int("block_size")};
  const std::vector<double>& values = attributes.Floats("values");
  b.has_values = !values.empty();
  std::transform(values.begin(), values.end(), b.values.begin(),
                 [](double value) { return static_cast<float>(value); });
  b.rounds_a =
      attributes.Int("accuracy_level", 0) == 4 && b.block <= kMostRoundedBlock && !b.has_values;
  const int64_t m = a.size() / b.k, blocks = (b.k + b.block - 1) / b.block;
  if (m == 0) return Refuse("no elements");
  if (b.rounds_a) b.zero = ZeroPoints(given(kZeroPoints), bits, b.n, blocks).One();
  const Operand& codes = request.inputs[kB];
  // Codes may be shared by products with other scales.
  PackCache::Ids ids{codes.id, request.inputs[kScales].id};
  if (given(kZeroPoints) != nullptr) ids.push_back(given(kZeroPoints)->id);
  const auto packed = request.packs.Get(
      *codes.constant, ids,
      fmt::format("{}x{} {} bits by {}{}", b.k, b.n, bits, b.block,
                  b.has_values ? " of a table" : ""),
      static_cast<int64_t>(NarrowPackedBytes(b)), [&](const Tensor& matrix, void* to) {
        // Read while packing alone: never packed themselves, they stay in memory.
        const std::vector<float> scales = Floats(*request.inputs[kScales].constant);
        const std::vector<float> zeros = ZeroPoints(given(kZeroPoints), bits, b.n, blocks).All();
        PackNarrowBlocks(b, matrix.data<uint8_t>(), scales.data(), zeros.data(), to,
                         Parallel{&ThreadPool::Process(), request.threads});
      });
  Bound bound;
  bound.packed = 1u << kB;
  bound.scratch_bytes = static_cast<int64_t>(GemmNarrowScratchBytes(b, m, b.k, request.threads));
  const bool has_bias = given(kBias) != nullptr;
  if (has_bias && given(kBias)->dtype != DType::kFloat32) return Refuse("the bias is not float");
  Expression add{{DType::kFloat32, DType::kFloat32}, {}, {{Fn::kAdd, DType::kFloat32, {0, 1, 0}}}};
  const auto expression = std::make_shared<const Expression>(std::move(add));
  bound.run = [=](const StepArgs& args) {
    EpilogueOperand bias;
    Epilogue epilogue;
    if (has_bias) {
      bias.data = args.in[kBias];
      bias.column_stride = 1;
      epilogue = {expression.get(), &bias};
    }
    GemmNarrow(b, packed.get(), m, static_cast<const float*>(args.in[kA]), b.k,
               static_cast<float*>(args.out[0]), b.n, epilogue, args.scratch, args.parallel);
  };
  return bound;
}

constexpr Implementation kList[] = {{"gemm, blocks of codes", BindBlocks}};

}  // namespace

std::span<const Implementation> MatMulNBitsList() { return kList; }

}  // namespace sardonyx::cpu
