// DeformConv: what each kernel position reads, moved by offsets, gathered into columns; then a
// matrix product.

#include "ops/core/reference.h"
#include "ops/core/window.h"
#include "ops/lowering.h"
#include "ops/nn/window.h"
#include "ops/vision/sampling.h"

namespace sardonyx {
namespace core {
namespace {

enum Input : size_t { kX, kOffset, kMask };

void InferColumns(InferContext& context) {
  const Attributes& attributes = context.attributes();
  const std::vector<int64_t>& kernel = attributes.Ints("kernel");
  const int64_t groups = attributes.Int("offset_group", 1);
  const DType type = context.dtype(kX);
  if (!IsFloat(type)) context.Fail("deform_columns takes floats, not {}", Name(type));
  if (kernel.empty()) context.Fail("deform_columns needs the attribute kernel");
  if (groups < 1) context.Fail("offset_group is {}", groups);
  if (!context.ranked(kX)) return context.Set(0, type, {});
  const Dims& x = context.shape(kX);
  if (x.size() != kernel.size() + 2) {
    context.Fail("an input {} for a kernel of {} spatial dimensions", context.Print(x),
                 kernel.size());
  }
  const Dims out = InferWindow(context, Dims(x.begin() + 2, x.end()), kernel);
  const int64_t area = ElementCount(kernel);
  if (x[1].known() && x[1].value() % groups != 0) {
    context.Fail("{} channels do not divide into {} offset groups", x[1].value(), groups);
  }
  const auto check = [&](size_t input, int64_t channels, std::string_view name) {
    if (!context.has(input)) return;
    if (context.dtype(input) != type) {
      context.Fail("{} is {}, not {}", name, Name(context.dtype(input)), Name(type));
    }
    if (!context.ranked(input)) return;
    Dims expected{x[0], Dim(channels)};
    expected.insert(expected.end(), out.begin(), out.end());
    const Dims& given = context.shape(input);
    bool fits = given.size() == expected.size();
    for (size_t i = 0; fits && i < given.size(); ++i) {
      fits = !given[i].known() || !expected[i].known() || given[i] == expected[i];
    }
    if (!fits) {
      context.Fail("{} has shape {}, not {}", name, context.Print(given), context.Print(expected));
    }
  };
  check(kOffset, groups * area * static_cast<int64_t>(kernel.size()), "offset");
  check(kMask, groups * area, "mask");
  Dims shape{x[0], context.symbols().Mul(x[1], Dim(area))};
  Dim pixels = 1;
  for (Dim dim : out) pixels = context.symbols().Mul(pixels, dim);
  shape.push_back(pixels);
  context.Set(0, type, std::move(shape));
}

// y[n, c * area + t, o] = x[n, c] at (o * stride + t * dilation - pad + offset[n, g, t, o]) *
// mask[n, g, t, o], linear between pixels and zero outside.
template <typename T>
void GatherColumns(const Window& window, const Tensor& x, int64_t groups, const T* offset,
                   const T* mask, T* y) {
  const std::span<const int64_t> sizes = std::span(x.dims()).subspan(2);
  const int64_t channels = x.dims()[1], pixels = ElementCount(sizes);
  const int64_t area = ElementCount(window.kernel), out = ElementCount(window.out);
  const size_t rank = sizes.size();
  std::vector<std::vector<ops::Tap>> axes(rank);
  std::vector<ops::Tap> taps;
  for (int64_t n = 0; n < x.dims()[0]; ++n) {
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t first = g * (channels / groups), last = first + channels / groups;
      int64_t t = 0;
      for (Walk kernel(window.kernel, {}); !kernel.done(); kernel.Next(), ++t) {
        const int64_t row = (n * groups + g) * area + t;
        int64_t o = 0;
        for (Walk position(window.out, {}); !position.done(); position.Next(), ++o) {
          for (size_t axis = 0; axis < rank; ++axis) {
            const int64_t at = position.index()[axis] * window.strides[axis] +
                               kernel.index()[axis] * window.dilations[axis] -
                               window.pads_begin[axis];
            const double moved = static_cast<ComputeType<T>>(
                offset[(row * static_cast<int64_t>(rank) + static_cast<int64_t>(axis)) * out + o]);
            ops::LinearTaps(static_cast<double>(at) + moved, sizes[axis], axes[axis]);
          }
          ops::CombineTaps(axes, sizes, taps);
          const double scale =
              mask != nullptr ? static_cast<ComputeType<T>>(mask[row * out + o]) : 1.0;
          for (int64_t c = first; c < last; ++c) {
            const T* image = x.data<T>() + (n * channels + c) * pixels;
            double sum = 0;
            for (const auto& [pixel, weight] : taps) {
              sum += weight * static_cast<double>(static_cast<ComputeType<T>>(image[pixel]));
            }
            y[((n * channels + c) * area + t) * out + o] = static_cast<T>(sum * scale);
          }
        }
      }
    }
  }
}

void ComputeColumns(ComputeContext& context) {
  const Attributes& attributes = context.attributes();
  const Tensor& x = context.input(kX);
  Tensor& y = context.Allocate(0);
  const std::span<const int64_t> sizes = std::span(x.dims()).subspan(2);
  const Window window = ResolveWindow(attributes, sizes, attributes.Ints("kernel"));
  DispatchReal(x.dtype(), "deform_columns", [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsReal<T>) {
      GatherColumns(window, x, attributes.Int("offset_group", 1), context.input(kOffset).data<T>(),
                    context.has(kMask) ? context.input(kMask).data<T>() : nullptr, y.data<T>());
    }
  });
}

}  // namespace

const CoreOp deform_columns = {
    .name = "deform_columns", .inputs = "ttt?", .infer = InferColumns, .reference = ComputeColumns};

}  // namespace core

namespace ops {

Outputs LowerDeformConv(Lowering& op) {
  const Val x = op.in(0), weights = op.in(1), offset = op.in(2), mask = op.in(4);
  Builder& b = op.builder();
  const int spatial = x.rank() - 2;
  if (weights.rank() != x.rank()) {
    op.Fail("weights of rank {} for an input of rank {}", weights.rank(), x.rank());
  }
  std::vector<int64_t> kernel;
  for (int i = 0; i < spatial; ++i) kernel.push_back(weights.size(i + 2));
  if (op.HasAttribute("kernel_shape") && op.Ints("kernel_shape") != kernel) {
    op.Fail("kernel_shape differs from the weights' {}", PrintDims(kernel));
  }
  const int64_t group = op.Int("group", 1), outputs = weights.size(0), inputs = weights.size(1);
  if (group < 1 || outputs % group != 0) {
    op.Fail("{} output channels do not divide into {} groups", outputs, group);
  }
  if (x.shape()[1].known() && x.size(1) != inputs * group) {
    op.Fail("{} channels, but weights and groups are for {}", x.size(1), inputs * group);
  }
  const Val bias = op.in(3);
  if (bias && (bias.rank() != 1 || (bias.shape()[0].known() && bias.size(0) != outputs))) {
    op.Fail("the bias is not one number for each of {} output channels", outputs);
  }
  Attributes attributes = Window(op, spatial, kernel);
  attributes.Set("kernel", kernel);
  attributes.Set("offset_group", op.Int("offset_group", 1));
  // Halves stay wide until the last sum.
  const Val columns = b.Make(core::deform_columns,
                             {Widen(x), Widen(offset), mask ? Widen(mask) : Val{}}, attributes);
  const int64_t depth = inputs * ElementCount(kernel);
  const Val grouped = Reshape(
      columns, Concat({SizeOf(columns, 0), b.Ints({group, depth}), SizeOf(columns, 2)}, 0), true);
  const Val filters = Reshape(Widen(weights), b.Ints({1, group, outputs / group, depth}), true);
  Val y = Reshape(MatMul(filters, grouped),
                  Concat({SizeOf(x, 0), b.Ints({outputs}), ShapeOf(offset, 2, x.rank())}, 0), true);
  if (bias) y = y + AlongChannels(Widen(bias), x.rank());
  return Cast(y, x.dtype());
}

}  // namespace ops
}  // namespace sardonyx
