// Convolution and its transpose, channels-last, weights as in ONNX.

#include "ops/core/core.h"
#include "ops/core/reference.h"
#include "ops/core/window.h"

namespace sardonyx::core {
namespace {

// Checks what both convolutions share and gives the kernel's sizes; false if a rank or one of these
// is not known.
bool CheckOperands(InferContext& context, std::vector<int64_t>* kernel) {
  if (context.input_count() < 2) context.Fail("a convolution takes an input and weights");
  if (context.dtype(0) != context.dtype(1)) {
    context.Fail("the input is {} and the weights are {}: the element types must be the same",
                 Name(context.dtype(0)), Name(context.dtype(1)));
  }
  if (context.attributes().Int("group", 1) < 1) {
    context.Fail("attribute group is {}, it must be at least 1",
                 context.attributes().Int("group", 1));
  }
  if (!context.ranked(0) || !context.ranked(1)) return false;
  const Dims &x = context.shape(0), &w = context.shape(1);
  if (x.size() < 3 || w.size() != x.size()) {
    context.Fail(
        "cannot convolve an input {} (channels last) with weights {}: both need the same "
        "rank, at least 3",
        context.Print(x), context.Print(w));
  }
  return KnownSizes(Dims(w.begin() + 2, w.end()), kernel);
}

// Shape where the kernel's sizes are not known.
std::optional<Dims> UnknownSpatial(InferContext& context, Dim channels) {
  if (!context.ranked(0)) return {};
  Dims shape{context.shape(0)[0]};
  for (size_t i = 2; i < context.shape(0).size(); ++i) shape.push_back(context.symbols().Fresh());
  shape.push_back(channels);
  return shape;
}

void CheckChannels(InferContext& context, Dim channels, Dim expected, int64_t group) {
  if (channels.known() && expected.known() && !(channels == expected)) {
    context.Fail(
        "cannot convolve an input {} (channels last) with weights {} in {} groups: {} input "
        "channels, but the weights take {}",
        context.Print(context.shape(0)), context.Print(context.shape(1)), group, channels.value(),
        expected.value());
  }
}

void CheckDivides(InferContext& context, Dim channels, int64_t group) {
  if (channels.known() && channels.value() % group != 0) {
    context.Fail("{} channels of weights {} cannot be cut into {} groups", channels.value(),
                 context.Print(context.shape(1)), group);
  }
}

// Both convolutions; weights are [Cout, Cin / group, ...], of the transposed one [Cin, Cout / group,
// ...].
void InferAny(InferContext& context, bool transposed) {
  std::vector<int64_t> kernel;
  const bool known = CheckOperands(context, &kernel);
  const int64_t group = context.attributes().Int("group", 1);
  if (!context.ranked(1)) {
    return SetWithEpilogue(context, context.dtype(0),
                           UnknownSpatial(context, context.symbols().Fresh()), 2);
  }
  const Dims& w = context.shape(1);
  const Dim grouped = context.symbols().Mul(w[1], Dim(group));
  const Dim channels = transposed ? grouped : w[0];
  if (!known) {
    return SetWithEpilogue(context, context.dtype(0), UnknownSpatial(context, channels), 2);
  }
  const Dims& x = context.shape(0);
  CheckDivides(context, w[0], group);
  CheckChannels(context, x.back(), transposed ? w[0] : grouped, group);
  Dims shape = (transposed ? InferTransposedWindow : InferWindow)(
      context, Dims(x.begin() + 1, x.end() - 1), kernel);
  shape.insert(shape.begin(), x[0]);
  shape.push_back(channels);
  SetWithEpilogue(context, context.dtype(0), std::move(shape), 2);
}

void InferConv(InferContext& context) { InferAny(context, false); }
void InferConvTranspose(InferContext& context) { InferAny(context, true); }

struct Geometry {
  Window window;
  std::vector<int64_t> in, kernel;
  int64_t batch, cin, in_pixels, out_pixels, kernel_size, groups;

  // The input pixel that the output pixel `o` meets at kernel position `t`, or -1 in the padding.
  // A transposed convolution swaps the roles of input and output.
  int64_t Pixel(const std::vector<int64_t>& o, const std::vector<int64_t>& t,
                const std::vector<int64_t>& sizes) const {
    int64_t pixel = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const int64_t at =
          o[i] * window.strides[i] + t[i] * window.dilations[i] - window.pads_begin[i];
      if (at < 0 || at >= sizes[i]) return -1;
      pixel = pixel * sizes[i] + at;
    }
    return pixel;
  }
};

Geometry GeometryOf(ComputeContext& context, bool transposed) {
  const std::vector<int64_t>&x = context.input(0).dims(), &w = context.input(1).dims();
  Geometry g;
  g.in.assign(x.begin() + 1, x.end() - 1);
  g.kernel.assign(w.begin() + 2, w.end());
  g.window = transposed ? ResolveTransposedWindow(context.attributes(), g.in, g.kernel)
                        : ResolveWindow(context.attributes(), g.in, g.kernel);
  g.batch = x[0];
  g.cin = x.back();
  g.in_pixels = ElementCount(g.in);
  g.out_pixels = ElementCount(g.window.out);
  g.kernel_size = ElementCount(g.kernel);
  g.groups = context.attributes().Int("group", 1);
  return g;
}

// For every pair of a pixel of `from` and a kernel position that meets a pixel of `to`:
// body(from pixel, kernel position, to pixel).
template <typename Body>
void ForEachMeeting(const Geometry& g, const std::vector<int64_t>& from,
                    const std::vector<int64_t>& to, Body&& body) {
  int64_t pixel = 0;
  for (Walk o(from, {}); !o.done(); o.Next(), ++pixel) {
    int64_t position = 0;
    for (Walk t(g.kernel, {}); !t.done(); t.Next(), ++position) {
      const int64_t other = g.Pixel(o.index(), t.index(), to);
      if (other >= 0) body(pixel, position, other);
    }
  }
}

template <typename T>
void ConvAs(const Geometry& g, const T* x, const T* w, T* y, int64_t cout) {
  const int64_t group_in = g.cin / g.groups, group_out = cout / g.groups;
  std::vector<SumType<T>> sums(g.out_pixels * cout);
  for (int64_t n = 0; n < g.batch; ++n) {
    std::fill(sums.begin(), sums.end(), SumType<T>{0});
    const T* image = x + n * g.in_pixels * g.cin;
    ForEachMeeting(g, g.window.out, g.in, [&](int64_t out, int64_t t, int64_t in) {
      for (int64_t co = 0; co < cout; ++co) {
        const T* pixel = image + in * g.cin + co / group_out * group_in;
        SumType<T> sum{0};
        for (int64_t ci = 0; ci < group_in; ++ci) {
          sum += ToSum(pixel[ci]) * ToSum(w[(co * group_in + ci) * g.kernel_size + t]);
        }
        sums[out * cout + co] += sum;
      }
    });
    for (size_t i = 0; i < sums.size(); ++i) *y++ = FromSum<T>(sums[i]);
  }
}

template <typename T>
void ConvTransposeAs(const Geometry& g, const T* x, const T* w, T* y, int64_t cout) {
  const int64_t group_in = g.cin / g.groups, group_out = cout / g.groups;
  std::vector<SumType<T>> sums(g.out_pixels * cout);
  for (int64_t n = 0; n < g.batch; ++n) {
    std::fill(sums.begin(), sums.end(), SumType<T>{0});
    const T* image = x + n * g.in_pixels * g.cin;
    ForEachMeeting(g, g.in, g.window.out, [&](int64_t in, int64_t t, int64_t out) {
      for (int64_t ci = 0; ci < g.cin; ++ci) {
        const SumType<T> value = ToSum(image[in * g.cin + ci]);
        SumType<T>* target = sums.data() + out * cout + ci / group_in * group_out;
        for (int64_t co = 0; co < group_out; ++co) {
          target[co] += value * ToSum(w[(ci * group_out + co) * g.kernel_size + t]);
        }
      }
    });
    for (size_t i = 0; i < sums.size(); ++i) *y++ = FromSum<T>(sums[i]);
  }
}

void Compute(ComputeContext& context, bool transposed) {
  const Tensor &x = context.input(0), &w = context.input(1);
  const Geometry g = GeometryOf(context, transposed);
  std::vector<int64_t> dims;
  KnownSizes(*context.inferred(0).shape, &dims);
  Tensor y(x.dtype(), dims);
  DispatchReal(x.dtype(), context.node().op->name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    (transposed ? ConvTransposeAs<T> : ConvAs<T>)(g, x.data<T>(), w.data<T>(), y.data<T>(),
                                                  dims.back());
  });
  FinishWithEpilogue(context, std::move(y), 2);
}

// The shape is what input 2 says.
void InferGradient(InferContext& context) {
  if (context.input_count() != 3 || context.dtype(2) != DType::kInt64) {
    context.Fail("the gradient of a convolution takes two tensors and a shape");
  }
  if (context.dtype(0) != context.dtype(1)) {
    context.Fail("the element types {} and {} must be the same", Name(context.dtype(0)),
                 Name(context.dtype(1)));
  }
  const Dims* shape = context.elements(2);
  if (shape == nullptr) return context.Set(0, context.dtype(0), {});
  context.Set(0, context.dtype(0), *shape);
}

// Calls body(offset in x, offset in w, offset in y) for all products that a convolution adds up.
template <typename Body>
void ForEachProduct(const Attributes& attributes, const std::vector<int64_t>& x,
                    const std::vector<int64_t>& w, const std::vector<int64_t>& y, Body&& body) {
  Geometry g;
  g.groups = attributes.Int("group", 1);
  const bool fits = x.size() >= 3 && w.size() == x.size() && y.size() == x.size() && x[0] == y[0] &&
                    y.back() == w[0] && x.back() == w[1] * g.groups;
  if (!fits) {
    Fail(ErrorCode::kInvalidArgument, "{} is no convolution of {} with {}", PrintDims(y),
         PrintDims(x), PrintDims(w));
  }
  g.in.assign(x.begin() + 1, x.end() - 1);
  g.kernel.assign(w.begin() + 2, w.end());
  g.window = ResolveWindow(attributes, g.in, g.kernel);
  const std::vector<int64_t> out(y.begin() + 1, y.end() - 1);
  const int64_t in_pixels = ElementCount(g.in), out_pixels = ElementCount(out);
  const int64_t positions = ElementCount(g.kernel);
  const int64_t cout = w[0], group_in = w[1], group_out = cout / g.groups;
  ForEachMeeting(g, out, g.in, [&](int64_t o, int64_t t, int64_t i) {
    for (int64_t n = 0; n < x[0]; ++n) {
      for (int64_t co = 0; co < cout; ++co) {
        const int64_t pixel = (n * in_pixels + i) * x.back() + co / group_out * group_in;
        for (int64_t ci = 0; ci < group_in; ++ci) {
          body(pixel + ci, (co * group_in + ci) * positions + t, (n * out_pixels + o) * cout + co);
        }
      }
    }
  });
}

template <typename T>
void StoreSums(const std::vector<SumType<T>>& sums, Tensor& to) {
  for (size_t i = 0; i < sums.size(); ++i) to.data<T>()[i] = FromSum<T>(sums[i]);
}

void ComputeInputGradient(ComputeContext& context) {
  const Tensor &g = context.input(0), &w = context.input(1);
  Tensor& dx = context.Allocate(0, g.dtype(), ToInts(context.input(2)));
  DispatchReal(g.dtype(), "conv_input_gradient", [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<SumType<T>> sums(dx.size());
    ForEachProduct(context.attributes(), dx.dims(), w.dims(), g.dims(),
                   [&](int64_t x_at, int64_t w_at, int64_t y_at) {
                     sums[x_at] += ToSum(g.data<T>()[y_at]) * ToSum(w.data<T>()[w_at]);
                   });
    StoreSums<T>(sums, dx);
  });
}

void ComputeWeightGradient(ComputeContext& context) {
  const Tensor &x = context.input(0), &g = context.input(1);
  Tensor& dw = context.Allocate(0, g.dtype(), ToInts(context.input(2)));
  DispatchReal(g.dtype(), "conv_weight_gradient", [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<SumType<T>> sums(dw.size());
    ForEachProduct(context.attributes(), x.dims(), dw.dims(), g.dims(),
                   [&](int64_t x_at, int64_t w_at, int64_t y_at) {
                     sums[w_at] += ToSum(g.data<T>()[y_at]) * ToSum(x.data<T>()[x_at]);
                   });
    StoreSums<T>(sums, dw);
  });
}

void ComputeConv(ComputeContext& context) { Compute(context, false); }
void ComputeConvTranspose(ComputeContext& context) { Compute(context, true); }

}  // namespace

const CoreOp conv = {.name = "conv", .infer = InferConv, .reference = ComputeConv};
const CoreOp conv_transpose = {
    .name = "conv_transpose", .infer = InferConvTranspose, .reference = ComputeConvTranspose};
const CoreOp conv_input_gradient = {
    .name = "conv_input_gradient", .infer = InferGradient, .reference = ComputeInputGradient};
const CoreOp conv_weight_gradient = {
    .name = "conv_weight_gradient", .infer = InferGradient, .reference = ComputeWeightGradient};

}  // namespace sardonyx::core
