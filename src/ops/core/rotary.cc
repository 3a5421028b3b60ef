// Pairs of features turned by an angle: (a, b) becomes (a cos - b sin, a sin + b cos). Attribute
// `turned`: the features at the front that are; a pair is a feature of the first half of them and
// its like of the second, or (`interleaved`) two neighbours. ONNX RotaryEmbedding-23.

#include "ops/core/core.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

// Whether tables may be broadcast to `angles`, as far as sizes are known.
bool Fits(const Dims& tables, const Dims& angles) {
  if (tables.size() != angles.size() || (tables[3].known() && !(tables[3] == angles[3]))) {
    return false;
  }
  for (size_t i = 0; i < 3; ++i) {
    const bool known = tables[i].known() && angles[i].known();
    if (known && !(tables[i] == Dim(1)) && !(tables[i] == angles[i])) return false;
  }
  return true;
}

void InferRotary(InferContext& context) {
  const DType type = context.dtype(0);
  const int64_t turned = context.attributes().Int("turned");
  if (!IsFloat(type)) context.Fail("rotary takes floats, not {}", Name(type));
  if (turned < 0 || turned % 2 != 0) context.Fail("{} features cannot be turned in pairs", turned);
  std::optional<Dims> shape;
  if (context.ranked(0)) {
    shape = context.shape(0);
    if (shape->size() != 4) context.Fail("rotary takes rank 4, not {}", context.Print(*shape));
    if (shape->back().known() && shape->back().value() < turned) {
      context.Fail("{} has no {} features to turn", context.Print(*shape), turned);
    }
    Dims angles = *shape;
    angles.back() = Dim(turned / 2);
    for (size_t i = 1; i <= 2; ++i) {
      if (!context.ranked(i)) continue;
      if (!Fits(context.shape(i), angles)) {
        context.Fail("{} {} do not fit {} with {} features to turn", i == 1 ? "cosines" : "sines",
                     context.Print(context.shape(i)), context.Print(*shape), turned);
      }
    }
  }
  context.Set(0, type, std::move(shape));
}

void ComputeRotary(ComputeContext& context) {
  const Tensor& x = context.input(0);
  Tensor& y = context.Allocate(0);
  const int64_t pairs = context.attributes().Int("turned") / 2, features = x.dims()[3];
  const bool interleaved = context.attributes().Int("interleaved") != 0;
  const std::vector<double> cosines = ToDoubles(context.input(1)),
                            sines = ToDoubles(context.input(2));
  std::vector<double> values = ToDoubles(x);
  std::vector<int64_t> angles = x.dims();
  angles[3] = pairs;
  Walk walk(angles, {BroadcastStrides(context.input(1).dims(), angles),
                     BroadcastStrides(context.input(2).dims(), angles)});
  for (int64_t i = 0; !walk.done(); ++i, walk.Next()) {
    const int64_t row = i / pairs * features, pair = i % pairs;
    double& a = values[row + (interleaved ? 2 * pair : pair)];
    double& b = values[row + (interleaved ? 2 * pair + 1 : pair + pairs)];
    const double cosine = cosines[walk[0]], sine = sines[walk[1]], real = a * cosine - b * sine;
    b = a * sine + b * cosine;
    a = real;
  }
  ConvertElements(DType::kFloat64, values.data(), y.dtype(), y.raw(), y.size(), false);
}

}  // namespace

const CoreOp rotary = {
    .name = "rotary", .inputs = "ttt", .infer = InferRotary, .reference = ComputeRotary};

}  // namespace sardonyx::core
