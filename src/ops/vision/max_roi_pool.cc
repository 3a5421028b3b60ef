// MaxRoiPool: each region cut into bins of whole pixels, of which the largest counts.

#include <algorithm>
#include <cmath>

#include "ops/core/reference.h"
#include "ops/lowering.h"

namespace sardonyx {
namespace core {
namespace {

void InferMaxRoiPool(InferContext& context) {
  const std::vector<int64_t>& pooled = context.attributes().Ints("pooled_shape");
  const DType type = context.dtype(0);
  if (!IsFloat(type) || context.dtype(1) != type) {
    context.Fail("max_roi_pool takes floats of one type, not {} and {}", Name(type),
                 Name(context.dtype(1)));
  }
  if (pooled.size() != 2 || pooled[0] < 1 || pooled[1] < 1) {
    context.Fail("pooled_shape {} is not two positive sizes", PrintDims(pooled));
  }
  Dims shape{context.symbols().Fresh(), context.symbols().Fresh(), Dim(pooled[0]), Dim(pooled[1])};
  if (context.ranked(0)) {
    if (context.rank(0) != 4) {
      context.Fail("max_roi_pool takes [N,C,H,W], not {}", context.Print(context.shape(0)));
    }
    shape[1] = context.shape(0)[1];
  }
  if (context.ranked(1)) {
    const Dims& rois = context.shape(1);
    if (rois.size() != 2 || (rois[1].known() && rois[1].value() != 5)) {
      context.Fail("rois are [count,5], not {}", context.Print(rois));
    }
    shape[0] = rois[0];
  }
  context.Set(0, type, std::move(shape));
}

struct Range {
  int64_t begin, end;
};

// The pixels of each bin along an axis; bins overlap where pixels do not divide.
template <typename C>
std::vector<Range> BinsOf(C first, C last, int64_t size, int64_t bins) {
  if (!(std::abs(first) < 0x1p31 && std::abs(last) < 0x1p31)) {
    Fail(ErrorCode::kInvalidArgument, "max_roi_pool: a region from {} to {}",
         static_cast<double>(first), static_cast<double>(last));
  }
  const int64_t start = std::llround(first);
  const int64_t extent = std::max<int64_t>(std::llround(last) - start + 1, 1);
  const C step = static_cast<C>(extent) / static_cast<C>(bins);
  std::vector<Range> ranges;
  for (int64_t i = 0; i < bins; ++i) {
    const int64_t begin = start + static_cast<int64_t>(std::floor(static_cast<C>(i) * step));
    const int64_t end = start + static_cast<int64_t>(std::ceil(static_cast<C>(i + 1) * step));
    ranges.push_back({std::clamp<int64_t>(begin, 0, size), std::clamp<int64_t>(end, 0, size)});
  }
  return ranges;
}

template <typename T>
void PoolRegions(const Tensor& x, const Tensor& rois, const std::vector<int64_t>& pooled,
                 double spatial_scale, T* y) {
  using C = ComputeType<T>;
  const int64_t channels = x.dims()[1], height = x.dims()[2], width = x.dims()[3];
  const C scale = static_cast<C>(spatial_scale);
  for (int64_t r = 0; r < rois.dims()[0]; ++r) {
    const T* region = rois.data<T>() + 5 * r;
    const auto at = [&](int i) { return static_cast<C>(region[i]) * scale; };
    const C image = static_cast<C>(region[0]);
    if (!(image >= 0 && image < static_cast<C>(x.dims()[0]))) {
      Fail(ErrorCode::kInvalidArgument, "max_roi_pool: there is no image {} among {}",
           static_cast<double>(image), x.dims()[0]);
    }
    const std::vector<Range> across = BinsOf<C>(at(1), at(3), width, pooled[1]);
    const std::vector<Range> down = BinsOf<C>(at(2), at(4), height, pooled[0]);
    for (int64_t c = 0; c < channels; ++c) {
      const T* pixels = x.data<T>() + (static_cast<int64_t>(image) * channels + c) * height * width;
      for (const Range& rows : down) {
        for (const Range& columns : across) {
          const bool empty = rows.begin >= rows.end || columns.begin >= columns.end;
          C most = empty ? C(0) : LeastOf<C>();
          for (int64_t h = rows.begin; h < rows.end; ++h) {
            for (int64_t w = columns.begin; w < columns.end; ++w) {
              most = std::max(most, static_cast<C>(pixels[h * width + w]));
            }
          }
          *y++ = static_cast<T>(most);
        }
      }
    }
  }
}

void ComputeMaxRoiPool(ComputeContext& context) {
  const Tensor& x = context.input(0);
  Tensor& y = context.Allocate(0);
  DispatchReal(x.dtype(), "max_roi_pool", [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsReal<T>) {
      PoolRegions<T>(x, context.input(1), context.attributes().Ints("pooled_shape"),
                     context.attributes().Float("spatial_scale", 1), y.data<T>());
    }
  });
}

}  // namespace

const CoreOp max_roi_pool = {.name = "max_roi_pool",
                             .inputs = "tt",
                             .infer = InferMaxRoiPool,
                             .reference = ComputeMaxRoiPool};

}  // namespace core

namespace ops {

Outputs LowerMaxRoiPool(Lowering& op) {
  return op.builder().Make(
      core::max_roi_pool, {op.in(0), op.in(1)},
      {{"pooled_shape", op.Ints("pooled_shape")}, {"spatial_scale", op.Float("spatial_scale", 1)}});
}

}  // namespace ops
}  // namespace sardonyx
