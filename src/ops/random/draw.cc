#include "ops/random/draw.h"

#include "ops/core/fits.h"

#include <cmath>

namespace sardonyx::ops {

void AddSeed(const Lowering& op, Attributes* attributes) {
  const Attribute* given = op.attributes.Find("seed");
  if (given == nullptr) return;
  int64_t seed = 0;
  if (const double* number = std::get_if<double>(given)) {
    if (std::isnan(*number)) return;
    if (std::fabs(*number) >= 0x1p63) op.Fail("the seed {} is no 64-bit integer", *number);
    seed = static_cast<int64_t>(*number);
  } else {
    seed = op.Int("seed");
  }
  attributes->Set("seed", int64_t{static_cast<uint32_t>(seed)});
}

RandomStream StreamOf(const Attributes& attributes) {
  if (attributes.Find("seed") == nullptr) return RandomStream(std::nullopt);
  return RandomStream(static_cast<uint32_t>(attributes.Int("seed")));
}

void SetDrawnShape(InferContext& context, DType dtype) {
  if (context.dtype(0) != DType::kInt64) {
    context.Fail("the shape to draw is {}, not int64", Name(context.dtype(0)));
  }
  if (context.ranked(0) && context.rank(0) != 1) {
    context.Fail("the shape to draw has rank {}, not 1", context.rank(0));
  }
  const Dims* given = context.elements(0);
  if (given != nullptr) {
    for (Dim dim : *given) {
      if (dim.known() && dim.value() < 0) {
        context.Fail("random numbers of the shape {}: a negative size", context.Print(*given));
      }
    }
    return context.Set(0, dtype, *given);
  }
  if (!context.ranked(0) || !context.shape(0)[0].known()) return context.Set(0, dtype, {});
  Dims shape(static_cast<size_t>(core::RankFrom(context, 0)));
  for (Dim& dim : shape) dim = context.symbols().Fresh();
  context.Set(0, dtype, std::move(shape));
}

}  // namespace sardonyx::ops
