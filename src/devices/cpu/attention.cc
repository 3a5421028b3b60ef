#include "kernels/attention.h"

#include "devices/cpu/families.h"

namespace sardonyx::cpu {
namespace {

// Sizes and strides of an operand seen through a permutation.
struct View {
  View(const Operand& x, const std::vector<int64_t>& perm) {
    const std::vector<int64_t> own = Strides(x);
    for (int64_t i = 0; i < x.rank(); ++i) {
      const int64_t axis = perm.empty() ? i : perm[i];
      dims.push_back(x.dims[axis]);
      strides.push_back(own[axis]);
    }
  }
  std::vector<int64_t> dims, strides;
};

// The dimensions before heads as one; false if the strides do not allow it. Sizes of 1 are
// broadcast.
bool MergeBatch(const std::vector<int64_t>& dims, const std::vector<int64_t>& own,
                const std::vector<int64_t>& strides, int64_t* stride) {
  *stride = 0;
  int64_t inner = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == 1) continue;
    const int64_t step = own[i] == 1 ? 0 : strides[i];
    if (inner == 1) {
      *stride = step;
    } else if (step != *stride * inner) {
      return false;
    }
    inner *= dims[i];
  }
  return true;
}

// Sizes and strides of the operands, and the dimensions of the scores. Why the kernel cannot take
// them; empty if it can.
std::string ReadLayout(const BindRequest& request, AttentionShape* shape,
                       std::vector<int64_t>* scores) {
  const Attributes& attributes = request.node.attributes;
  const View q(request.inputs[0], attributes.Ints("perm_q"));
  const View k(request.inputs[1], attributes.Ints("perm_k"));
  const View v(request.inputs[2], attributes.Ints("perm_v"));
  const int rank = static_cast<int>(q.dims.size()), heads = rank - 3, rows = rank - 2,
            features = rank - 1;
  shape->queries = q.dims[rows];
  shape->keys = k.dims[rows];
  shape->size = q.dims[features];
  shape->width = v.dims[features];
  shape->heads = q.dims[heads];
  if (request.outputs[0].size() == 0 || shape->keys == 0) return "no elements";
  shape->group = shape->heads / k.dims[heads];

  // The result in the order of the operands.
  View y(request.outputs[0], {});
  const std::vector<int64_t> y_dims = y.dims, y_strides = y.strides;
  const auto& perm_y = attributes.Ints("perm_y");
  for (int i = 0; i < rank && !perm_y.empty(); ++i) {
    y.dims[perm_y[i]] = y_dims[i];
    y.strides[perm_y[i]] = y_strides[i];
  }
  *scores = y.dims;
  scores->back() = shape->keys;
  const std::vector<int64_t> batch(y.dims.begin(), y.dims.begin() + heads);
  for (int64_t size : batch) shape->batch *= size;
  const auto place = [&](const View& view, int64_t(&stride)[3]) {
    stride[1] = view.strides[heads];
    stride[2] = view.strides[rows];
    return MergeBatch(batch, view.dims, view.strides, &stride[0]);
  };
  if (!place(q, shape->q_stride) || !place(k, shape->k_stride) || !place(v, shape->v_stride) ||
      !place(y, shape->y_stride)) {
    return "batch dimensions that do not merge";
  }
  if (k.strides[features] != 1 && shape->size > 1) {
    if (k.strides[rows] != 1 && shape->keys > 1) return "neither dimension of keys is dense";
    shape->k_transposed = true;
    shape->k_stride[2] = k.strides[features];
  }
  for (const View* view : {&q, &v, &static_cast<const View&>(y)}) {
    if (view->strides[features] != 1 && view->dims[features] > 1) {
      return "features are not contiguous";
    }
  }
  return "";
}

// The strides of a mask over scores of these dimensions, those of the batch as one; false if it
// cannot be read by such.
bool PlaceMask(const Operand& operand, const std::vector<int64_t>& scores, int64_t* stride) {
  const std::vector<int64_t> strides = BroadcastStrides(operand.dims, scores);
  const std::vector<int64_t> batch(scores.begin(), scores.end() - 3);
  const std::vector<int64_t> leading(strides.begin(), strides.end() - 3);
  std::copy(strides.end() - 3, strides.end(), stride + 1);
  return MergeBatch(batch, batch, leading, stride);
}

BindResult BindAttention(const BindRequest& request) {
  const Attributes& attributes = request.node.attributes;
  for (size_t i = 0; i < 3; ++i) {
    if (request.inputs[i].dtype != DType::kFloat32) {
      return Refuse("element type is {}", Name(request.inputs[i].dtype));
    }
  }
  AttentionShape shape;
  std::vector<int64_t> scores;
  if (std::string why = ReadLayout(request, &shape, &scores); !why.empty()) return why;
  AttentionMask mask;
  // What is alike for all keys has no stride of these.
  const auto place_row = [&](size_t input, int64_t(&to)[3]) {
    int64_t stride[4] = {};
    if (request.has(input) && !PlaceMask(request.inputs[input], scores, stride)) return false;
    std::copy_n(stride, 3, to);
    return true;
  };
  const bool masked = request.has(3), counted = request.has(4), begins = request.has(5);
  const bool sunk = request.has(6);
  if ((masked && !PlaceMask(request.inputs[3], scores, mask.stride)) ||
      !place_row(4, mask.count_stride) || !place_row(5, mask.first_stride) ||
      !place_row(6, mask.sink_stride)) {
    return Refuse("batch dimensions of the mask do not merge");
  }
  const std::string_view causal = attributes.String("causal"), zeros = attributes.String("zeros");
  shape.scale = static_cast<float>(attributes.Float("scale", 1));
  shape.softcap = static_cast<float>(attributes.Float("softcap"));
  shape.causal = !causal.empty();
  shape.ahead = causal == "last" ? shape.keys - shape.queries : 0;
  shape.zero_blind = zeros == "blind";
  shape.zero_nan = zeros == "nan";
  shape.rounding =
      static_cast<DType>(attributes.Int("rounding", static_cast<int64_t>(DType::kFloat32)));
  if (sunk && shape.rounding != DType::kFloat32) return "a sink beside weights that are rounded";

  Bound bound;
  bound.scratch_bytes = static_cast<int64_t>(AttentionScratchBytes(shape, request.threads));
  bound.apart = bound.apart_axes = 0b111;
  const bool bytes = masked && request.inputs[3].dtype == DType::kBool;
  bound.run = [=](const StepArgs& args) {
    AttentionMask given = mask;
    if (masked && bytes) given.seen = static_cast<const uint8_t*>(args.in[3]);
    if (masked && !bytes) given.terms = static_cast<const float*>(args.in[3]);
    if (counted) given.counts = static_cast<const int64_t*>(args.in[4]);
    if (begins) given.firsts = static_cast<const int64_t*>(args.in[5]);
    if (sunk) given.sinks = static_cast<const float*>(args.in[6]);
    Attention(shape, static_cast<const float*>(args.in[0]), static_cast<const float*>(args.in[1]),
              static_cast<const float*>(args.in[2]), given, static_cast<float*>(args.out[0]),
              args.scratch, args.parallel);
  };
  return bound;
}

constexpr Implementation kList[] = {{"blocks", BindAttention}};

}  // namespace

std::span<const Implementation> AttentionList() { return kList; }

}  // namespace sardonyx::cpu
