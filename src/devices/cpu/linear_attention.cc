#include "kernels/linear_attention.h"

#include <cmath>

#include "devices/cpu/families.h"

namespace sardonyx::cpu {
namespace {

enum Input : size_t { kQuery, kKey, kValue, kPast, kDecay, kBeta };

BindResult BindLinearAttention(const BindRequest& request) {
  for (const Operand& input : request.inputs) {
    if (input.present() && input.dtype != DType::kFloat32) {
      return Refuse("an operand is {}", Name(input.dtype));
    }
  }
  const Operand &q = request.inputs[kQuery], &k = request.inputs[kKey], &v = request.inputs[kValue];
  if (q.size() == 0 || k.size() == 0 || v.size() == 0) return Refuse("no elements");
  const Attributes& attributes = request.node.attributes;
  LinearAttentionShape shape;
  shape.batch = q.dims[0];
  shape.tokens = q.dims[1];
  shape.heads = attributes.Int("kv_num_heads");
  shape.group = attributes.Int("q_num_heads") / shape.heads;
  shape.keys = k.dims[2] / shape.heads;
  shape.values = v.dims[2] / shape.heads;
  shape.q_stride = q.RowStride();
  shape.k_stride = k.RowStride();
  shape.v_stride = v.RowStride();
  shape.y_stride = request.outputs[0].RowStride();
  if (request.has(kDecay)) {
    const Operand& decay = request.inputs[kDecay];
    shape.decay_stride = decay.RowStride();
    const bool per_head = decay.dims[2] == shape.heads;
    shape.decay = per_head ? LinearAttentionShape::Decay::kHead : LinearAttentionShape::Decay::kKey;
  }
  if (request.has(kBeta)) {
    const Operand& beta = request.inputs[kBeta];
    shape.beta_stride = beta.RowStride();
    shape.has_beta = true;
    shape.beta_per_head = beta.dims[2] == shape.heads;
  }
  const double scale = attributes.Float("scale");
  shape.scale =
      static_cast<float>(scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(shape.keys)));
  Bound bound;
  bound.scratch_bytes = static_cast<int64_t>(LinearAttentionScratchBytes(shape, request.threads));
  bound.apart = ~(1u << kPast);
  bound.apart_output = true;
  bound.run = [shape, inputs = request.inputs.size(),
               has_last = request.outputs.size() > 1](const StepArgs& args) {
    const auto in = [&](size_t i) {
      return i < inputs ? static_cast<const float*>(args.in[i]) : nullptr;
    };
    LinearAttention(shape,
                    {.q = in(kQuery),
                     .k = in(kKey),
                     .v = in(kValue),
                     .past = in(kPast),
                     .decay = in(kDecay),
                     .beta = in(kBeta),
                     .y = static_cast<float*>(args.out[0]),
                     .present = has_last ? static_cast<float*>(args.out[1]) : nullptr},
                    args.scratch, args.parallel);
  };
  return bound;
}

constexpr Implementation kList[] = {{"blocks of columns", BindLinearAttention}};

}  // namespace

std::span<const Implementation> LinearAttentionList() { return kList; }

}  // namespace sardonyx::cpu
