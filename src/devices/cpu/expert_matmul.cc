#include <cstring>
#include <functional>
#include <string_view>
#include <vector>

#include "base/cast.h"
#include "base/round.h"
#include "devices/cpu/families.h"
#include "kernels/gemm.h"
#include "kernels/gemm_experts.h"
#include "kernels/gemv.h"

namespace sardonyx::cpu {
namespace {

enum Input : size_t { kX, kWeights, kExperts, kBias, kScales, kZeros };

// Rows of scales, or of zero points, [experts * n, blocks], with each as often as one of the
// kernel's blocks lies in one of the model's.
std::vector<float> Spread(const Tensor& tensor, int64_t rows, int64_t blocks) {
  const Tensor aligned = Aligned(tensor);
  const int64_t given = aligned.size() / rows;
  std::vector<float> values(static_cast<size_t>(aligned.size()));
  ConvertElements(aligned.dtype(), aligned.raw(), DType::kFloat32, values.data(), aligned.size(),
                  true);
  if (given == blocks) return values;
  std::vector<float> spread;
  spread.reserve(static_cast<size_t>(rows * blocks));
  for (int64_t i = 0; i < rows * blocks; ++i) {
    spread.push_back(values[static_cast<size_t>(i / blocks * given + i % blocks * given / blocks)]);
  }
  return spread;
}

// Codes of columns, which fill whole bytes, with zeros behind up to whole blocks.
std::vector<uint8_t> Padded(const uint8_t* codes, int64_t columns, int64_t bytes, int64_t padded) {
  std::vector<uint8_t> result(static_cast<size_t>(columns * padded));
  for (int64_t j = 0; j < columns; ++j) {
    std::memcpy(result.data() + j * padded, codes + j * bytes, static_cast<size_t>(bytes));
  }
  return result;
}

// What every implementation needs: sizes, or why there are no kernels.
std::string Prepare(const BindRequest& request, ExpertMatrices* b) {
  if (request.inputs[kX].dtype != DType::kFloat32) {
    return fmt::format("element type is {}, not float", Name(request.inputs[kX].dtype));
  }
  if (request.outputs[0].size() == 0) return "no elements";
  b->experts = request.inputs[kWeights].dims[0];
  b->k_first = request.node.attributes.Int("trans_w") != 0;
  b->n = request.inputs[kWeights].dims[b->k_first ? 2 : 1];
  b->k = request.inputs[kX].dims[1];
  if (b->k == 0) return "sums of nothing";
  return "";
}

// The step, once the matrices are in place. `pack` owns b.packed.
Bound Run(const BindRequest& request, ExpertMatrices b, std::shared_ptr<const void> pack) {
  const ExpertRows rows{request.inputs[kX].dims[0], request.inputs[kExperts].dims[0]};
  const int64_t slots = request.outputs[0].dims[1];
  b.packed = pack.get();
  const ExpertScratch sizes =
      GemmExpertsScratch(b, pack != nullptr, rows.Count(), slots, request.threads);
  const bool has_bias = request.has(kBias);
  Bound bound;
  bound.scratch_bytes = sizes.all;
  if (pack != nullptr) bound.packed = 1u << kWeights;
  bound.run = [b, pack = std::move(pack), rows, slots, has_bias, sizes](const StepArgs& args) {
    const auto* experts = static_cast<const int64_t*>(args.in[kExperts]);
    for (int64_t i = 0; i < rows.chosen * slots; ++i) {
      if (experts[i] < -b.experts || experts[i] >= b.experts) {
        Fail(ErrorCode::kInvalidArgument, "expert {} (element {}) of {}", experts[i], i, b.experts);
      }
    }
    ExpertMatrices matrices = b;
    if (pack == nullptr) matrices.plain = static_cast<const float*>(args.in[kWeights]);
    const auto* bias = has_bias ? static_cast<const float*>(args.in[kBias]) : nullptr;
    GemmExperts(matrices, rows, slots, static_cast<const float*>(args.in[kX]), experts, bias,
                static_cast<float*>(args.out[0]), sizes, args.scratch, args.parallel);
  };
  return bound;
}

BindResult BindFloats(const BindRequest& request) {
  ExpertMatrices b;
  if (request.node.attributes.Int("bits") != 0) return Refuse("weights are codes");
  if (std::string why = Prepare(request, &b); !why.empty()) return why;
  const Operand& weights = request.inputs[kWeights];
  const Parallel par{&ThreadPool::Process(), request.threads};
  if (weights.constant == nullptr) {
    if (weights.dtype != DType::kFloat32) return Refuse("weights are {}", Name(weights.dtype));
    return Run(request, b, nullptr);
  }
  const int64_t rows = request.outputs[0].dims[0];
  // A few rows read the weights once, at the speed of memory: packing would take a second copy.
  if (weights.dtype == DType::kFloat32 && rows <= kGemvRows && weights.constant->raw() != nullptr &&
      IsAligned(*weights.constant)) {
    return Run(request, b, nullptr);
  }
  // Float16 stays so, half of it to read.
  b.is_narrow = weights.dtype == DType::kFloat16;
  if (b.is_narrow) b.narrow = {weights.dtype, b.k, b.n, 0};
  const int64_t bytes = b.PackedBytes(), ld = b.k_first ? b.n : b.k;
  auto packed = request.packs.GetByRows(
      *weights.constant, weights.id,
      fmt::format("experts {}x{}{}{}", b.k, b.n, b.is_narrow ? " halves" : "",
                  b.k_first ? " from rows" : ""),
      bytes * b.experts, 1, [&](const Tensor& given, int64_t first, void* to) {
        to = static_cast<char*>(to) + first * bytes;
        if (b.is_narrow) {
          PackNarrowHalves(b.narrow, static_cast<const uint16_t*>(given.raw()), ld, !b.k_first, to,
                           par);
        } else {
          GemmPackB(b.k, b.n, WidenedHalves(given).data<float>(), ld, !b.k_first,
                    static_cast<float*>(to), par);
        }
      });
  return Run(request, b, std::move(packed));
}

BindResult BindCodes(const BindRequest& request) {
  const Attributes& attributes = request.node.attributes;
  const int bits = static_cast<int>(attributes.Int("bits"));
  ExpertMatrices b;
  if (bits == 0) return Refuse("weights are no codes");
  if (std::string why = Prepare(request, &b); !why.empty()) return why;
  for (const size_t i : {size_t{kWeights}, size_t{kScales}, size_t{kZeros}}) {
    if (request.has(i) && request.inputs[i].constant == nullptr) {
      return Refuse("weights are not constant");
    }
  }
  // One scale for all of a column is that of each of many blocks: sums over a block stay short.
  constexpr int64_t kBlock = 128;
  const int64_t given = attributes.Int("block_size");
  const int64_t block = given >= b.k ? std::min(kBlock, RoundUp(b.k, 16)) : given;
  if (block % 16 != 0) return Refuse("blocks of {}", given);
  b.is_narrow = true;
  b.narrow = {bits == 2   ? DType::kUInt2
              : bits == 4 ? DType::kUInt4
                          : DType::kUInt8,
              b.k, b.n, block};
  b.narrow.rounds_a = attributes.Int("accuracy_level") == 4 && block <= kMostRoundedBlock;
  const int64_t blocks = CeilDiv(b.k, block), code_bytes = b.k * bits / 8;
  const int64_t padded = blocks * block * bits / 8, bytes = b.PackedBytes();
  std::vector<float> scales, zeros;  // read while packing alone
  const Operand& weights = request.inputs[kWeights];
  PackCache::Ids ids{weights.id, request.inputs[kScales].id};
  if (request.has(kZeros)) ids.push_back(request.inputs[kZeros].id);
  auto packed = request.packs.GetByRows(
      *weights.constant, ids, fmt::format("experts {}x{} {} bits by {}", b.k, b.n, bits, block),
      bytes * b.experts, 1, [&](const Tensor& matrix, int64_t first, void* to) {
        const int64_t rows = b.experts * b.n, at = first * b.n * blocks;
        if (scales.empty()) {
          scales = Spread(*request.inputs[kScales].constant, rows, blocks);
          zeros = request.has(kZeros)
                      ? Spread(*request.inputs[kZeros].constant, rows, blocks)
                      : std::vector<float>(scales.size(), static_cast<float>(1 << (bits - 1)));
        }
        std::vector<uint8_t> copy;
        const auto* codes = matrix.data<uint8_t>();
        if (padded != code_bytes) {
          copy = Padded(codes, b.n, code_bytes, padded);
          codes = copy.data();
        }
        PackNarrowBlocks(b.narrow, codes, scales.data() + at, zeros.data() + at,
                         static_cast<char*>(to) + first * bytes,
                         Parallel{&ThreadPool::Process(), request.threads});
      });
  return Run(request, b, std::move(packed));
}

constexpr Implementation kList[] = {{"gemm, rows by expert", BindFloats},
                                    {"gemm, rows by expert, codes", BindCodes}};

}  // namespace

std::span<const Implementation> ExpertMatMulList() { return kList; }

}  // namespace sardonyx::cpu
