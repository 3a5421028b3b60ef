// Hyper-connections: a residual stream of C branches of H features, [...,C,H], which may come as
// [...,C * H]. All arithmetic is in float32.

#include "ops/contrib/shapes.h"

namespace sardonyx::ops::contrib {
namespace {

struct Streams {
  Val x;       // float32 [..., branches, features]
  Dims outer;  // what comes before
  Dim branches, features;
  bool flat;  // whether it came as [..., branches * features]
};

Streams StreamsOf(Lowering& op, std::string_view name) {
  const Val x = op.in(0);
  const int64_t branches = op.Int("num_branches");
  if (branches < 0) op.Fail("attribute num_branches is {}", branches);
  const int rank = x.rank();
  if (branches == 0) {
    if (rank < 2) op.Fail("{} without num_branches must have at least rank 2, not {}", name, rank);
    const Dims& dims = x.shape();
    return {Widen(x), Dims(dims.begin(), dims.end() - 2), dims[rank - 2], dims[rank - 1], false};
  }
  if (rank < 1) op.Fail("{} is a scalar", name);
  const int64_t width = x.size(-1);
  if (width < 1 || width % branches != 0) {
    op.Fail("{} has {} features, which {} branches do not divide", name, width, branches);
  }
  std::vector<int64_t> dims(rank - 1, 0);
  dims.insert(dims.end(), {branches, width / branches});
  const Val grouped = Reshape(x, dims);
  const Dims& all = x.shape();
  return {Widen(grouped), Dims(all.begin(), all.end() - 1), branches, width / branches, true};
}

// What came flat becomes so again.
Val Finish(Lowering& op, const Streams& streams, Val y) {
  const Val x = op.in(0);
  if (streams.flat) {
    std::vector<int64_t> dims(x.rank() - 1, 0);
    dims.push_back(x.size(-1));
    y = Reshape(y, dims);
  }
  return CastLike(y, x);
}

Dims With(Dims dims, std::initializer_list<Dim> more) {
  dims.insert(dims.end(), more);
  return dims;
}

// Of shape [...,C], [...,C,1], [...,C,H] or, where that is allowed, [...,C * H]: as float32 that
// broadcasts to the streams.
Val Gate(Lowering& op, Val gate, std::string_view name, const Streams& streams, bool flat) {
  const Val wide = Widen(gate);
  if (gate.rank() == static_cast<int>(streams.outer.size()) + 2) {
    const bool one = gate.shape().back() == 1;
    ExpectShape(op, gate, name,
                With(streams.outer, {streams.branches, one ? 1 : streams.features}));
    return wide;
  }
  const bool known = streams.branches.known() && streams.features.known();
  if (flat && known && streams.features.value() != 1 && gate.rank() > 0 &&
      gate.size(-1) != streams.branches.value()) {
    const int64_t count = streams.branches.value(), size = streams.features.value();
    ExpectShape(op, gate, name, With(streams.outer, {op.in(0).size(-1)}));
    std::vector<int64_t> dims(streams.outer.size(), 0);
    dims.insert(dims.end(), {count, size});
    return Reshape(wide, dims);
  }
  ExpectShape(op, gate, name, With(streams.outer, {streams.branches}));
  return Unsqueeze(wide, {-1});
}

}  // namespace

// `scale` is of all features, [C * H] or [C,H], or of those of each branch, [H].
Outputs LowerBranchwiseRMSNorm(Lowering& op) {
  const Streams streams = StreamsOf(op, "X");
  Val scale = op.in(1);
  if (scale) {
    const Dim branches = streams.branches, features = streams.features;
    if (scale.rank() == 2) {
      ExpectShape(op, scale, "scale", {branches, features});
    } else {
      ExpectRank(op, scale, "scale", 1);
      const int64_t count = streams.x.size(-2), size = streams.x.size(-1);
      const int64_t given = scale.size(0);
      if (given != size) {
        if (size < 1 || given % size != 0 || given / size != count) {
          op.Fail("scale is [{}], expected [{}] or one for each of {} branches of it", given, size,
                  count);
        }
        scale = Reshape(scale, std::vector<int64_t>{count, size});
      }
    }
    scale = Widen(scale);
  }
  const Val y = op.builder().Make(
      core::layer_norm, {streams.x, scale},
      {{"axis", int64_t{-1}}, {"epsilon", op.Float("epsilon", 1e-5)}, {"rms", int64_t{1}}});
  return Finish(op, streams, y);
}

// The sum of the branches, each times its gate.
Outputs LowerHyperConnectionPreMix(Lowering& op) {
  const Streams streams = StreamsOf(op, "streams");
  const Val gate = Gate(op, op.in(1), "pre_mix", streams, true);
  Val y = Reduce("sum", streams.x * gate, {-2}, false);
  const double scale = op.Float("reduction_scale", 1);
  if (scale != 1) y = y * scale;
  return CastLike(y, op.in(0));
}

// Branch k is the sum of all branches, each times its number for k, and of the block's output times
// the gate of k.
Outputs LowerHyperConnectionPostMix(Lowering& op) {
  const Streams streams = StreamsOf(op, "streams");
  const Val block = op.in(1), mix = op.in(3);
  ExpectShape(op, block, "block_output", With(streams.outer, {streams.features}));
  const Val gate = Gate(op, op.in(2), "post_mix", streams, false);
  Val x = streams.x;
  if (mix) {
    ExpectShape(op, mix, "stream_mix", With(streams.outer, {streams.branches, streams.branches}));
    x = MatMul(Widen(mix), x, true);
  }
  return Finish(op, streams, x + gate * Unsqueeze(Widen(block), {-2}));
}

}  // namespace sardonyx::ops::contrib
