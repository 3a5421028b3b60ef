// Softmax and its logarithm along one axis. `rounding` float16: of halves that are kept in float32,
// exponentials and sum are rounded as those of halves are.

#include <algorithm>
#include <cmath>

#include "ops/core/core.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

void InferSoftmax(InferContext& context) {
  if (!IsFloat(context.dtype(0))) {
    context.Fail("softmax takes floats, not {}", Name(context.dtype(0)));
  }
  if (!context.ranked(0)) return context.Set(0, context.dtype(0), {});
  context.Axis(context.attributes().Int("axis", -1), context.rank(0));
  context.Set(0, context.dtype(0), context.shape(0));
}

void ComputeSoftmax(ComputeContext& context) {
  const Tensor& x = context.input(0);
  Tensor& y = context.Allocate(0);
  const int64_t axis = context.attributes().Int("axis", -1);
  const bool log = context.attributes().Int("log") != 0;
  const int64_t rounding = context.attributes().Int("rounding");
  const AxisSplit split = SplitAt(x.dims(), static_cast<int>(axis < 0 ? axis + x.rank() : axis));
  DispatchReal(x.dtype(), "softmax", [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsReal<T>) {
      const auto at = [](const T* row, int64_t i) {
        return static_cast<double>(static_cast<ComputeType<T>>(row[i]));
      };
      for (int64_t i = 0; split.size > 0 && i < split.outer * split.inner; ++i) {
        const int64_t begin = i / split.inner * split.size * split.inner + i % split.inner;
        const T* row = x.data<T>() + begin;
        T* out = y.data<T>() + begin;
        double largest = at(row, 0);
        for (int64_t k = 1; k < split.size; ++k)
          largest = std::max(largest, at(row, k * split.inner));
        // Softmax-13's function body rounds the exponentials and their sum; half the digits of
        // float16 show it. A sum that float16 cannot hold stays wide.
        const bool rounds =
            !log && (std::is_same_v<T, Half> || rounding == static_cast<int64_t>(DType::kFloat16));
        const auto round = [&](double value) {
          const double narrow = static_cast<float>(Half(static_cast<float>(value)));
          return rounds && std::isfinite(narrow) ? narrow : value;
        };
        double sum = 0;
        for (int64_t k = 0; k < split.size; ++k)
          sum += round(std::exp(at(row, k * split.inner) - largest));
        sum = round(sum);
        for (int64_t k = 0; k < split.size; ++k) {
          const double shifted = at(row, k * split.inner) - largest;
          out[k * split.inner] =
              static_cast<T>(log ? shifted - std::log(sum) : round(std::exp(shifted)) / sum);
        }
      }
    }
  });
}

}  // namespace

const CoreOp softmax = {
    .name = "softmax", .inputs = "t", .infer = InferSoftmax, .reference = ComputeSoftmax};

}  // namespace sardonyx::core
