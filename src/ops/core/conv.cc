// Convolution and its transpose, channels-last, weights as in ONNX. Attribute perm_x of `conv`
// permutes the input before all else: a first layer reads pictures as they come, channels first.
// perm_y permutes the sums before the epilogue.

#include <cstring>

#include "ops/core/core.h"
#include "ops/core/products.h"
#include "ops/core/reference.h"
#include "ops/core/window.h"

namespace sardonyx::core {
namespace {

// Checks what both convolutions share and gives the kernel's sizes; false if a rank or one of these
// is not known.
bool CheckOperands(InferContext& context, std::vector<int64_t>* kernel) {
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
  if (!context.ranked(0) || context.attributes().Find("perm_y") != nullptr) return {};
  Dims shape{context.shape(0)[0]};
  for (size_t i = 2; i < context.shape(0).size(); ++i) shape.push_back(context.symbols().Fresh());
  shape.push_back(channels);
  return shape;
}

void CheckChannels(InferContext& context, const Dims& x, Dim expected, int64_t group) {
  const Dim channels = x.back();
  if (channels.known() && expected.known() && !(channels == expected)) {
    context.Fail(
        "cannot convolve an input {} (channels last) with weights {} in {} groups: {} input "
        "channels, but the weights take {}",
        context.Print(x), context.Print(context.shape(1)), group, channels.value(),
        expected.value());
  }
}

void CheckDivides(InferContext& context, Dim channels, int64_t group) {
  if (channels.known() && channels.value() % group != 0) {
    context.Fail("{} channels of weights {} cannot be cut into {} groups", channels.value(),
                 context.Print(context.shape(1)), group);
  }
}

// All convolutions; weights are [Cout, Cin / group, ...], of the transposed one [Cin, Cout /
// group, ...]. The result is `type` before the epilogue, whose inputs begin at `first`.
void InferAny(InferContext& context, bool transposed, DType type, size_t first) {
  std::vector<int64_t> kernel;
  const bool known = CheckOperands(context, &kernel);
  const int64_t group = context.attributes().Int("group", 1);
  if (!context.ranked(1)) {
    return SetWithEpilogue(context, type, UnknownSpatial(context, context.symbols().Fresh()),
                           first);
  }
  const Dims& w = context.shape(1);
  const Dim grouped = context.symbols().Mul(w[1], Dim(group));
  const Dim channels = transposed ? grouped : w[0];
  if (!known) {
    return SetWithEpilogue(context, type, UnknownSpatial(context, channels), first);
  }
  const Dims x = Permuted(context, context.shape(0), "perm_x");
  CheckDivides(context, w[0], group);
  CheckChannels(context, x, transposed ? w[0] : grouped, group);
  Dims shape = (transposed ? InferTransposedWindow : InferWindow)(
      context, Dims(x.begin() + 1, x.end() - 1), kernel);
  shape.insert(shape.begin(), x[0]);
  shape.push_back(channels);
  SetWithEpilogue(context, type, Permuted(context, std::move(shape), "perm_y"), first);
}

void InferFloat(InferContext& context, bool transposed) {
  if (context.input_count() < 2) context.Fail("a convolution takes an input and weights");
  if (context.dtype(0) != context.dtype(1) && !IsNarrowed(context.dtype(0), context.dtype(1))) {
    context.Fail("the input is {} and the weights are {}: the element types must be the same",
                 Name(context.dtype(0)), Name(context.dtype(1)));
  }
  InferAny(context, transposed, context.dtype(0), 2);
}

void InferConv(InferContext& context) { InferFloat(context, false); }
void InferConvTranspose(InferContext& context) { InferFloat(context, true); }

void InferIntegerConv(InferContext& context) {
  CheckIntegerOperands(context);
  InferAny(context, false, DType::kInt32, kIntegerInputs);
}

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

Geometry GeometryOf(ComputeContext& context, const std::vector<int64_t>& x, bool transposed) {
  const std::vector<int64_t>& w = context.input(1).dims();
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

// For every pair of a pixel of `from` and a kernel position: body(from pixel, kernel position, the
// pixel of `to` where they meet or -1).
template <typename Body>
void ForEachMeeting(const Geometry& g, const std::vector<int64_t>& from,
                    const std::vector<int64_t>& to, Body&& body) {
  int64_t pixel = 0;
  for (Walk o(from, {}); !o.done(); o.Next(), ++pixel) {
    int64_t position = 0;
    for (Walk t(g.kernel, {}); !t.done(); t.Next(), ++position) {
      body(pixel, position, g.Pixel(o.index(), t.index(), to));
    }
  }
}

// Weights [outer, inner, kernel...] as [outer, kernel..., inner], so that channels lie together.
Tensor ChannelsLast(const Geometry& g, const Tensor& w) {
  const int64_t outer = w.dims()[0], inner = w.dims()[1], bytes = ByteSize(w.dtype(), 1);
  Tensor packed(w.dtype(), {outer, g.kernel_size, inner});
  const int64_t step = g.kernel_size * inner * bytes;
  for (int64_t i = 0; i < outer; ++i) {
    TransposeMatrix(static_cast<const char*>(w.raw()) + i * step, inner, g.kernel_size, bytes,
                    static_cast<char*>(packed.raw()) + i * step);
  }
  return packed;
}

// Each output pixel is the product of a patch of the input, [groups, kernel, channels of a group],
// and the weights.
void Convolve(const Geometry& g, const Tensor& input, const Tensor& weights, Tensor& y) {
  const int64_t cout = y.dims().back();
  const int64_t group_in = g.cin / g.groups, group_out = cout / g.groups;
  const int64_t length = g.kernel_size * group_in;
  const DType type = ProductType(input, weights, length), sum_type = SumTypeOf(type);
  const Tensor x = ConvertedTo(input, type), w = ChannelsLast(g, ConvertedTo(weights, type));
  const int64_t bytes = ByteSize(type, 1), run = group_in * bytes, group_bytes = length * bytes;
  constexpr int64_t kPixels = 32;  // a batch of patches, so that weights are read once for many
  std::vector<char> patches(std::max<int64_t>(g.groups * kPixels * group_bytes, 1));
  Tensor sums(sum_type, {kPixels, cout});
  char* out = static_cast<char*>(y.raw());
  int64_t filled = 0;
  const auto flush = [&] {
    for (int64_t group = 0; group < g.groups; ++group) {
      MultiplyRows(type, patches.data() + group * kPixels * group_bytes,
                   static_cast<const char*>(w.raw()) + group * group_out * group_bytes, filled,
                   group_out, length,
                   static_cast<char*>(sums.raw()) + ByteSize(sum_type, group * group_out), cout);
    }
    ConvertElements(sum_type, sums.raw(), y.dtype(), out, filled * cout, true);
    out += ByteSize(y.dtype(), filled * cout);
    filled = 0;
  };
  for (int64_t n = 0; n < g.batch; ++n) {
    const char* image = static_cast<const char*>(x.raw()) + n * g.in_pixels * g.cin * bytes;
    ForEachMeeting(g, g.window.out, g.in, [&](int64_t, int64_t t, int64_t in) {
      for (int64_t group = 0; group < g.groups; ++group) {
        char* to = patches.data() + (group * kPixels + filled) * group_bytes + t * run;
        if (in < 0) {
          std::memset(to, 0, run);
        } else if (run > 0) {
          std::memcpy(to, image + (in * g.groups + group) * run, run);
        }
      }
      if (t + 1 == g.kernel_size && ++filled == kPixels) flush();
    });
  }
  if (filled > 0) flush();
}

// Adds value * weights to the sums of the channels of one output pixel.
template <typename Sum>
void Spread(const Geometry& g, const Sum* x, const Sum* w, Sum* y, int64_t cout) {
  const int64_t group_in = g.cin / g.groups, group_out = cout / g.groups;
  for (int64_t n = 0; n < g.batch; ++n) {
    ForEachMeeting(g, g.in, g.window.out, [&](int64_t in, int64_t t, int64_t out) {
      if (out < 0) return;
      for (int64_t ci = 0; ci < g.cin; ++ci) {
        const Sum value = x[(n * g.in_pixels + in) * g.cin + ci];
        const Sum* weights = w + (ci * g.kernel_size + t) * group_out;
        Sum* target = y + (n * g.out_pixels + out) * cout + ci / group_in * group_out;
        for (int64_t co = 0; co < group_out; ++co) target[co] += value * weights[co];
      }
    });
  }
}

void ConvolveTransposed(const Geometry& g, const Tensor& input, const Tensor& weights, Tensor& y) {
  // Integers wrap around, modulo 2^64.
  const DType type = IsFloat(y.dtype()) ? DType::kFloat64 : DType::kUInt64;
  const Tensor x = ConvertedTo(input, type), w = ChannelsLast(g, ConvertedTo(weights, type));
  Tensor sums(type, y.dims());
  Fill(sums, nullptr);
  const int64_t cout = y.dims().back();
  if (type == DType::kFloat64) {
    Spread(g, x.data<double>(), w.data<double>(), sums.data<double>(), cout);
  } else {
    Spread(g, x.data<uint64_t>(), w.data<uint64_t>(), sums.data<uint64_t>(), cout);
  }
  ConvertElements(type, sums.raw(), y.dtype(), y.raw(), y.size(), true);
}

void Compute(ComputeContext& context, bool transposed) {
  const Tensor x = Permute(context.input(0), context.attributes().Ints("perm_x"));
  const Tensor& w = context.input(1);
  const Geometry g = GeometryOf(context, x.dims(), transposed);
  std::vector<int64_t> dims = g.window.out;
  dims.insert(dims.begin(), g.batch);
  dims.push_back(transposed ? w.dims()[1] * g.groups : w.dims()[0]);
  Tensor y(x.dtype(), dims);
  (transposed ? ConvolveTransposed : Convolve)(g, x, w, y);
  FinishWithEpilogue(context, Permute(y, context.attributes().Ints("perm_y")), 2);
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
    if (i < 0) return;
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

void ComputeIntegerConv(ComputeContext& context) {
  const Geometry g = GeometryOf(context, context.input(0).dims(), false);
  std::vector<int64_t> dims;
  KnownSizes(*context.inferred(0).shape, &dims);
  Tensor y(DType::kInt32, dims);
  Convolve(g, CenteredInput(context, 0), CenteredInput(context, 1), y);
  FinishWithEpilogue(context, std::move(y), kIntegerInputs);
}

void ComputeConv(ComputeContext& context) { Compute(context, false); }
void ComputeConvTranspose(ComputeContext& context) { Compute(context, true); }

}  // namespace

const CoreOp conv = {
    .name = "conv", .inputs = "ttt*", .infer = InferConv, .reference = ComputeConv};
const CoreOp integer_conv = {.name = "integer_conv",
                             .inputs = "ttt?t?t*",
                             .infer = InferIntegerConv,
                             .reference = ComputeIntegerConv};
const CoreOp conv_transpose = {.name = "conv_transpose",
                               .inputs = "ttt*",
                               .infer = InferConvTranspose,
                               .reference = ComputeConvTranspose};
const CoreOp conv_input_gradient = {.name = "conv_input_gradient",
                                    .inputs = "ttt",
                                    .infer = InferGradient,
                                    .reference = ComputeInputGradient};
const CoreOp conv_weight_gradient = {.name = "conv_weight_gradient",
                                     .inputs = "ttt",
                                     .infer = InferGradient,
                                     .reference = ComputeWeightGradient};

}  // namespace sardonyx::core
