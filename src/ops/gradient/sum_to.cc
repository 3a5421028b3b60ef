#include "ops/core/core.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

void InferSumTo(InferContext& context) {
  if (context.input_count() != 2 || context.dtype(1) != DType::kInt64) {
    context.Fail("sum_to takes a tensor and a shape");
  }
  const Dims* shape = context.elements(1);
  if (shape == nullptr) return context.Set(0, context.dtype(0), {});
  context.Set(0, context.dtype(0), *shape);
}

void ComputeSumTo(ComputeContext& context) {
  const Tensor& x = context.input(0);
  Tensor& y = context.Allocate(0, x.dtype(), ToInts(context.input(1)));
  const size_t lead = x.dims().size() - y.dims().size();
  bool fits = x.rank() >= y.rank();
  for (int i = 0; fits && i < y.rank(); ++i) {
    fits = y.dims()[i] == 1 || y.dims()[i] == x.dims()[lead + i];
  }
  if (!fits) {
    Fail(ErrorCode::kInvalidArgument, "{} is no broadcast of {}", PrintDims(x.dims()),
         PrintDims(y.dims()));
  }
  std::vector<double> sums(y.size());
  DispatchReal(x.dtype(), "sum_to", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* in = x.data<T>();
    for (Walk at(x.dims(), {BroadcastStrides(y.dims(), x.dims())}); !at.done(); at.Next()) {
      sums[at[0]] += static_cast<double>(*in++);
    }
    for (int64_t i = 0; i < y.size(); ++i) y.data<T>()[i] = static_cast<T>(sums[i]);
  });
}

}  // namespace

const CoreOp sum_to = {
    .name = "sum_to", .inputs = "tt", .infer = InferSumTo, .reference = ComputeSumTo};

}  // namespace sardonyx::core
