#include "ops/core/regions.h"

#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

enum Input : size_t { kX, kRois, kBatch };

}  // namespace

void InferRegions(InferContext& context, int64_t height, int64_t width) {
  const std::string_view name = context.node().op->name;
  if (!IsFloat(context.dtype(kX)) || context.dtype(kRois) != context.dtype(kX)) {
    context.Fail("{} takes floats of one type, not {} and {}", name, Name(context.dtype(kX)),
                 Name(context.dtype(kRois)));
  }
  Dims shape{context.symbols().Fresh(), context.symbols().Fresh(), Dim(height), Dim(width)};
  if (context.ranked(kX)) {
    if (context.rank(kX) != 4) {
      context.Fail("{} takes [N,C,H,W], not {}", name, context.Print(context.shape(kX)));
    }
    shape[1] = context.shape(kX)[1];
  }
  if (context.ranked(kRois)) {
    const Dims& rois = context.shape(kRois);
    if (rois.size() != 2 || (rois[1].known() && rois[1].value() != 4)) {
      context.Fail("rois are [count,4], not {}", context.Print(rois));
    }
    shape[0] = rois[0];
  }
  if (context.has(kBatch) && context.ranked(kBatch)) {
    const Dims& batch = context.shape(kBatch);
    if (batch.size() != 1 || (batch[0].known() && shape[0].known() && !(batch[0] == shape[0]))) {
      context.Fail("batch_indices {} do not fit the regions", context.Print(batch));
    }
  }
  context.Set(0, context.dtype(kX), std::move(shape));
}

void ComputeRegions(ComputeContext& context, RegionLoop in_float, RegionLoop in_double) {
  const Tensor& x = context.input(kX);
  Tensor& y = context.Allocate(0);
  if (y.size() == 0) return;
  if (x.size() == 0) {
    Fail(ErrorCode::kInvalidArgument, "{}: no pixels in {}", context.node().op->name,
         PrintDims(x.dims()));
  }
  const std::vector<int64_t> batch = ReadIndices(context.input(kBatch), x.dims()[0], "batch index");
  std::vector<double> result(y.size());
  const std::vector<double> rois = ToDoubles(context.input(kRois));
  const RegionLoop loop = x.dtype() == DType::kFloat64 ? in_double : in_float;
  loop(context.attributes(), x, rois, batch, result);
  ConvertElements(DType::kFloat64, result.data(), y.dtype(), y.raw(), y.size(), false);
}

}  // namespace sardonyx::core
