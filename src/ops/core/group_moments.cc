// Mean and scale/deviation of x [N, spatial..., C] over the spatial axes and the channels of each
// of `groups` groups of equal size: what a group normalisation of channels that lie last subtracts
// and multiplies by, (x - mean) * factor. Both are [N, 1..., C], equal for the channels of a group
// but for their scale [C].

#include <cmath>

#include "ops/core/core.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

void InferGroupMoments(InferContext& context) {
  const DType type = context.dtype(0);
  if (!IsFloat(type)) context.Fail("group_moments takes floats, not {}", Name(type));
  const int64_t groups = context.attributes().Int("groups");
  if (groups < 1) context.Fail("group_moments of {} groups", groups);
  std::optional<Dims> shape;
  if (context.ranked(0)) {
    shape = context.shape(0);
    if (shape->size() < 2) context.Fail("group_moments of a tensor of rank {}", shape->size());
    const Dim channels = shape->back();
    if (channels.known() && channels.value() % groups != 0) {
      context.Fail("{} channels cannot be cut into {} groups", channels.value(), groups);
    }
    if (context.has(1) && context.ranked(1)) {
      const Dims& scale = context.shape(1);
      const bool fits = scale.size() == 1 && (!scale[0].known() || !channels.known() ||
                                              scale[0].value() == channels.value());
      if (!fits) {
        context.Fail("a scale {} is not one of {}", context.Print(scale), context.Print(*shape));
      }
    }
    std::fill(shape->begin() + 1, shape->end() - 1, Dim(1));
  }
  for (size_t i = 0; i < context.output_count(); ++i) context.Set(i, type, shape);
}

void ComputeGroupMoments(ComputeContext& context) {
  const Tensor& x = context.input(0);
  const double epsilon = context.attributes().Float("epsilon", 1e-5);
  const int64_t batch = x.dims()[0], channels = x.dims().back();
  const int64_t pixels = ProductOf(x.dims(), 1, x.rank() - 1);
  const int64_t per_group = channels / context.attributes().Int("groups");
  const std::vector<double> values = ToDoubles(x);
  const std::vector<double> scale =
      context.has(1) ? ToDoubles(context.input(1)) : std::vector<double>(channels, 1.0);
  std::vector<double> means(batch * channels), factors(batch * channels);
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t first = 0; first < channels; first += per_group) {
      const auto sum_of = [&](auto&& term) {
        double sum = 0;
        for (int64_t p = 0; p < pixels; ++p) {
          for (int64_t c = first; c < first + per_group; ++c) {
            sum += term(values[(n * pixels + p) * channels + c]);
          }
        }
        return sum / static_cast<double>(pixels * per_group);
      };
      const double mean = sum_of([](double value) { return value; });
      const double variance = sum_of([&](double value) { return (value - mean) * (value - mean); });
      for (int64_t c = first; c < first + per_group; ++c) {
        means[n * channels + c] = mean;
        factors[n * channels + c] = scale[c] / std::sqrt(variance + epsilon);
      }
    }
  }
  const auto store = [](const std::vector<double>& from, Tensor& to) {
    ConvertElements(DType::kFloat64, from.data(), to.dtype(), to.raw(), to.size(), false);
  };
  store(means, context.Allocate(0));
  store(factors, context.Allocate(1));
}

}  // namespace

const CoreOp group_moments = {.name = "group_moments",
                              .inputs = "tt?",
                              .outputs = {2, 2},
                              .infer = InferGroupMoments,
                              .reference = ComputeGroupMoments};

}  // namespace sardonyx::core
