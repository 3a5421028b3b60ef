#include "ops/contrib/experts.h"
#include "ops/nn/quantization.h"

namespace sardonyx::ops::contrib {
namespace {

// The inputs of a layer.
struct Layer {
  std::string_view name;
  size_t weights, scales, bias, zero_points, global_scale;
};
constexpr size_t kNone = SIZE_MAX;
constexpr Layer kLayers[] = {
    {"fc1", 2, 3, 4, 11, 15}, {"fc2", 5, 6, 7, 12, 16}, {"fc3", 8, 9, 10, 13, kNone}};

int64_t BitsOf(const Lowering& op, ExpertLayer layer) {
  const int64_t all = op.Int("expert_weight_bits", 4);
  const int64_t bits = op.Int(fmt::format("{}_expert_weight_bits", kLayers[layer].name), all);
  if (bits != 2 && bits != 4 && bits != 8) {
    op.Fail("attribute expert_weight_bits is {} for {}, but must be 2, 4 or 8", bits,
            kLayers[layer].name);
  }
  return bits;
}

Val Needed(const Lowering& op, size_t input, std::string_view layer, std::string_view what) {
  if (input == kNone || !op.has(input)) op.Fail("{}_{} is not given", layer, what);
  return op.in(input);
}

// Zero points, packed along their last axis, as numbers of which each has a scale.
Val ZeroPoints(Builder& b, Val packed, Val scales, int64_t bits) {
  const int last = scales.rank() - 1;
  const Val all = UnpackCodes(packed, bits);
  const Val zeros = b.Make(core::slice, {all, b.Ints({0}), SizeOf(scales, last), b.Ints({last})});
  return Cast(zeros, DType::kFloat32);
}

// Integers with scales [E,N], or [E,N,K/block_size].
Val MultiplyCodes(Lowering& op, ExpertLayer at, Val rows, Val experts) {
  const Layer& layer = kLayers[at];
  Builder& b = op.builder();
  const Val codes = op.in(layer.weights);
  if (codes.dtype() != DType::kUInt8) {
    op.Fail("{}_experts_weights are {}, but integers are packed in uint8", layer.name,
            Name(codes.dtype()));
  }
  const int64_t bits = BitsOf(op, at);
  Val scales = Cast(Needed(op, layer.scales, layer.name, "scales"), DType::kFloat32);
  Val zeros;
  if (op.has(layer.zero_points)) zeros = ZeroPoints(b, op.in(layer.zero_points), scales, bits);
  int64_t block = op.Int("block_size");
  if (block > 0) {
    if (block < 16 || (block & (block - 1)) != 0) {
      op.Fail("attribute block_size is {}, not a power of two from 16 on", block);
    }
    if (scales.rank() != 3) {
      op.Fail("{}_scales have {} axes, but must have 3 with a block_size", layer.name,
              scales.rank());
    }
  } else {
    if (scales.rank() != 2) {
      op.Fail("{}_scales have {} axes, but must have 2 without a block_size", layer.name,
              scales.rank());
    }
    constexpr int64_t kMost = int64_t{1} << 40;
    if (codes.rank() != 3 || codes.size(2) > kMost) {
      op.Fail("{}_experts_weights have {} axes, but must have 3", layer.name, codes.rank());
    }
    block = std::max<int64_t>(1, codes.size(2) * 8 / bits);
    scales = Unsqueeze(scales, {2});
    if (zeros) zeros = Unsqueeze(zeros, {2});
  }
  const Val bias = op.in(layer.bias);
  return b.Make(
      core::expert_matmul, {rows, codes, experts, bias ? Widen(bias) : Val{}, scales, zeros},
      {{"bits", bits}, {"block_size", block}, {"accuracy_level", op.Int("accuracy_level")}});
}

// Codes of E2M1 as numbers: 0, 0.5, 1, 1.5, 2, 3, 4, 6, and those less than 0.
Val FromFp4(Val codes) {
  const Val c = Cast(codes, DType::kFloat32), size = Where(Greater(c, 7), c - 8, c);
  const Val value =
      Where(Greater(size, 6), size - 1, Where(Greater(size, 4), size - 2, size * 0.5));
  return Where(Greater(c, 7), -value, value);
}

// Each of scales along `axis` for `block` weights of `w`, the last one for fewer.
Val SpreadAlong(Builder& b, Val scales, Val w, int64_t axis, int64_t block) {
  const Val all = Repeat(scales, axis, b.Ints({block}));
  return b.Make(core::slice, {all, b.Ints({0}), SizeOf(w, static_cast<int>(axis)), b.Ints({axis})});
}

// Small floats: dequantised once, for they are constants.
Val MultiplyFloats(Lowering& op, const std::string& type, ExpertLayer at, Val rows, Val experts) {
  const Layer& layer = kLayers[at];
  Builder& b = op.builder();
  if (op.has(layer.zero_points)) op.Fail("{}_zero_points are given for {}", layer.name, type);
  const Val stored = op.in(layer.weights);
  const int64_t block = op.Int("block_size");
  const DType wanted = type == "fp8" ? DType::kFloat8E4M3FN : DType::kUInt8;
  if (stored.dtype() != wanted) {
    op.Fail("{}_experts_weights are {}, but must be {} for {}", layer.name, Name(stored.dtype()),
            Name(wanted), type);
  }
  if (stored.rank() != 3) {
    op.Fail("{}_experts_weights have {} axes, but must have 3", layer.name, stored.rank());
  }
  Val w = type == "fp8" ? Cast(stored, DType::kFloat32) : FromFp4(UnpackCodes(stored, 4));
  const bool is_blocked = type != "fp8" || block > 0;
  if (is_blocked) {
    Val scales = Cast(Needed(op, layer.scales, layer.name, "scales"), DType::kFloat32);
    if (scales.rank() != 3) {
      op.Fail("{}_scales have {} axes, but must have 3", layer.name, scales.rank());
    }
    if (type == "fp8") scales = SpreadAlong(b, scales, w, 1, block);
    scales = SpreadAlong(b, scales, w, 2, type == "fp8" ? block : type == "fp4" ? 32 : 16);
    w = w * scales;
  }
  if (type != "fp8" || block <= 0) {
    w = w * Reshape(Needed(op, layer.global_scale, layer.name, "global_scale"), {-1, 1, 1});
  }
  const Val bias = op.in(layer.bias);
  return b.Make(core::expert_matmul, {rows, w, experts, bias ? Widen(bias) : Val{}});
}

}  // namespace

// MoE with weights in fewer bits: integers, which stay so, or small floats.
Outputs LowerQMoE(Lowering& op) {
  const std::string type = op.String("quant_type", "int");
  if (type != "int" && type != "fp8" && type != "fp4" && type != "nvfp4") {
    op.Unsupported("attribute quant_type is '{}', but must be int, fp8, fp4 or nvfp4", type);
  }
  if (type == "int" && op.Int("weights_prepacked", -1) == 1) {
    op.Unsupported("weights prepacked for a GPU (weights_prepacked 1)");
  }
  for (size_t input = 17; input <= 20; ++input) {
    if (op.has(input)) op.Unsupported("scales of activations (input {})", input);
  }
  const bool has_fc3 = op.has(kLayers[kFc3].weights);
  // As ONNX Runtime's CPU kernel has it.
  const Routing routing{.weights = op.in(14),
                        .is_normalized = op.Int("normalize_routing_weights") != 0,
                        .is_over_chosen = true};
  return MixtureOfExperts(op, routing, has_fc3, [&](ExpertLayer layer, Val rows, Val experts) {
    return type == "int" ? MultiplyCodes(op, layer, rows, experts)
                         : MultiplyFloats(op, type, layer, rows, experts);
  });
}

}  // namespace sardonyx::ops::contrib
