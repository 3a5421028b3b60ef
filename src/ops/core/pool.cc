// Pools over spatial windows, channels-last.

#include <cmath>

#include "ops/core/core.h"
#include "ops/core/reference.h"
#include "ops/core/window.h"

namespace sardonyx::core {
namespace {

void InferPool(InferContext& context) {
  const std::vector<int64_t>& kernel = context.attributes().Ints("kernel");
  if (context.input_count() != 1) context.Fail("a pool takes one input");
  if (kernel.empty()) context.Fail("a pool needs the attribute kernel");
  std::optional<Dims> shape;
  if (context.ranked(0)) {
    const Dims& x = context.shape(0);
    if (x.size() != kernel.size() + 2) {
      context.Fail("cannot pool {} (channels last) with a kernel {}", context.Print(x),
                   PrintDims(kernel));
    }
    shape = InferWindow(context, Dims(x.begin() + 1, x.end() - 1), kernel);
    shape->insert(shape->begin(), x[0]);
    shape->push_back(x.back());
  }
  context.Set(0, context.dtype(0), shape);
  if (context.output_count() > 1) context.Set(1, DType::kInt64, shape);
}

// Calls element(batch and channel offset, output offset, offsets of the window's input pixels) for
// each output. `pixels` are offsets of elements within the image, channel 0.
struct Pooling {
  Window window;
  std::vector<int64_t> in;
  int64_t batch, channels;

  explicit Pooling(ComputeContext& context) : Pooling(context, context.input(0).dims()) {}
  Pooling(ComputeContext& context, const std::vector<int64_t>& dims) {
    in.assign(dims.begin() + 1, dims.end() - 1);
    window = ResolveWindow(context.attributes(), in, context.attributes().Ints("kernel"));
    batch = dims.front();
    channels = dims.back();
  }

  // body(output pixel, input pixels of its window, number of positions within the padded input).
  template <typename Body>
  void ForEachWindow(Body&& body) const {
    std::vector<int64_t> pixels;
    int64_t out = 0;
    for (Walk o(window.out, {}); !o.done(); o.Next(), ++out) {
      pixels.clear();
      int64_t padded = 0;
      for (Walk t(window.kernel, {}); !t.done(); t.Next()) {
        int64_t pixel = 0;
        bool inside = true, inside_padded = true;
        for (size_t i = 0; i < in.size(); ++i) {
          const int64_t at = o.index()[i] * window.strides[i] + t.index()[i] * window.dilations[i] -
                             window.pads_begin[i];
          inside = inside && at >= 0 && at < in[i];
          // ceil_mode may reach beyond the padding; what lies there does not count.
          inside_padded = inside_padded && at < in[i] + window.pads_end[i];
          pixel = pixel * in[i] + at;
        }
        if (inside) pixels.push_back(pixel);
        padded += inside_padded;
      }
      body(out, pixels, padded);
    }
  }
};

// Index of a pixel within one channel's image, counted row-major or, with storage_order 1, with the
// first spatial axis innermost.
int64_t StoredIndex(const std::vector<int64_t>& in, int64_t pixel, bool column_major) {
  if (!column_major) return pixel;
  int64_t index = 0;
  std::vector<int64_t> position(in.size());
  for (size_t i = in.size(); i-- > 0; pixel /= in[i]) position[i] = pixel % in[i];
  for (size_t i = in.size(); i-- > 0;) index = index * in[i] + position[i];
  return index;
}

// The pixel of the largest value, or of the first NaN; -1 in a window of padding alone.
template <typename C, typename T>
int64_t LargestOf(const T* x, int64_t channels, const std::vector<int64_t>& pixels) {
  int64_t best = -1;
  for (int64_t pixel : pixels) {
    const C value = static_cast<C>(x[pixel * channels]);
    if (value != value) return pixel;
    if (best < 0 || value > static_cast<C>(x[best * channels])) best = pixel;
  }
  return best;
}

void ComputeMaxPool(ComputeContext& context) {
  const Pooling pooling(context);
  const Tensor& x = context.input(0);
  Tensor& y = context.Allocate(0);
  int64_t* indices = context.output_count() > 1 ? context.Allocate(1).data<int64_t>() : nullptr;
  const bool column_major = context.attributes().Int("storage_order") != 0;
  const int64_t image = ElementCount(pooling.in), out_image = ElementCount(pooling.window.out);
  const int64_t channels = pooling.channels;
  DispatchReal(x.dtype(), "max_pool", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    pooling.ForEachWindow([&](int64_t out, const std::vector<int64_t>& pixels, int64_t) {
      for (int64_t n = 0; n < pooling.batch; ++n) {
        for (int64_t c = 0; c < channels; ++c) {
          const T* from = x.data<T>() + n * image * channels + c;
          const int64_t at = LargestOf<C>(from, channels, pixels);
          const int64_t target = (n * out_image + out) * channels + c;
          y.data<T>()[target] = at < 0 ? static_cast<T>(LeastOf<C>()) : from[at * channels];
          if (indices != nullptr) {
            indices[target] =
                at < 0 ? -1
                       : (n * channels + c) * image + StoredIndex(pooling.in, at, column_major);
          }
        }
      }
    });
  });
}

// y = finish(sum of term(x), pixels in the window, positions in the padded input).
template <typename Term, typename Finish>
void ComputeSumPool(ComputeContext& context, Term&& term, Finish&& finish) {
  const Pooling pooling(context);
  const Tensor& x = context.input(0);
  Tensor& y = context.Allocate(0);
  const int64_t image = ElementCount(pooling.in), out_image = ElementCount(pooling.window.out);
  const int64_t channels = pooling.channels;
  DispatchReal(x.dtype(), context.node().op->name, [&](auto tag) {
    using T = typename decltype(tag)::type;
    pooling.ForEachWindow([&](int64_t out, const std::vector<int64_t>& pixels, int64_t padded) {
      for (int64_t n = 0; n < pooling.batch; ++n) {
        for (int64_t c = 0; c < channels; ++c) {
          const T* from = x.data<T>() + n * image * channels + c;
          double sum = 0;
          for (int64_t pixel : pixels) {
            sum += term(static_cast<double>(static_cast<ComputeType<T>>(from[pixel * channels])));
          }
          y.data<T>()[(n * out_image + out) * channels + c] = static_cast<T>(
              finish(sum, static_cast<double>(pixels.size()), static_cast<double>(padded)));
        }
      }
    });
  });
}

void ComputeAveragePool(ComputeContext& context) {
  const bool include_pad = context.attributes().Int("count_include_pad") != 0;
  ComputeSumPool(
      context, [](double x) { return x; },
      [include_pad](double sum, double pixels, double padded) {
        const double count = include_pad ? padded : pixels;
        return count > 0 ? sum / count : 0.0;
      });
}

void InferAveragePoolGradient(InferContext& context) {
  if (context.input_count() != 2 || context.dtype(1) != DType::kInt64) {
    context.Fail("the gradient of a pool takes a gradient and a shape");
  }
  const Dims* shape = context.elements(1);
  if (shape == nullptr) return context.Set(0, context.dtype(0), {});
  context.Set(0, context.dtype(0), *shape);
}

void ComputeAveragePoolGradient(ComputeContext& context) {
  const Tensor& g = context.input(0);
  Tensor& dx = context.Allocate(0, g.dtype(), ToInts(context.input(1)));
  const auto require = [&](bool fits) {
    if (fits) return;
    Fail(ErrorCode::kInvalidArgument, "{} is no pool of {}", PrintDims(g.dims()),
         PrintDims(dx.dims()));
  };
  const size_t rank = context.attributes().Ints("kernel").size() + 2;
  require(dx.dims().size() == rank && g.dims().size() == rank);
  const Pooling pooling(context, dx.dims());
  const std::vector<int64_t> out(g.dims().begin() + 1, g.dims().end() - 1);
  require(out == pooling.window.out && g.dims()[0] == pooling.batch &&
          g.dims().back() == pooling.channels);
  const bool include_pad = context.attributes().Int("count_include_pad") != 0;
  const int64_t image = ElementCount(pooling.in), out_image = ElementCount(out);
  const int64_t channels = pooling.channels;
  DispatchReal(g.dtype(), "average_pool_gradient", [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<double> sums(dx.size());
    pooling.ForEachWindow([&](int64_t o, const std::vector<int64_t>& pixels, int64_t padded) {
      const double count = static_cast<double>(include_pad ? padded : std::ssize(pixels));
      for (int64_t n = 0; n < pooling.batch; ++n) {
        const T* from = g.data<T>() + (n * out_image + o) * channels;
        for (int64_t pixel : pixels) {
          double* to = sums.data() + (n * image + pixel) * channels;
          for (int64_t c = 0; c < channels; ++c) to[c] += static_cast<double>(from[c]) / count;
        }
      }
    });
    for (int64_t i = 0; i < dx.size(); ++i) dx.data<T>()[i] = static_cast<T>(sums[i]);
  });
}

void ComputeLpPool(ComputeContext& context) {
  const double p = context.attributes().Float("p", 2);
  ComputeSumPool(
      context, [p](double x) { return std::pow(std::abs(x), p); },
      [p](double sum, double, double) { return std::pow(sum, 1.0 / p); });
}

}  // namespace

const CoreOp max_pool = {.name = "max_pool",
                         .inputs = "t",
                         .outputs = {1, 2},
                         .infer = InferPool,
                         .reference = ComputeMaxPool};
const CoreOp average_pool = {
    .name = "average_pool", .inputs = "t", .infer = InferPool, .reference = ComputeAveragePool};
const CoreOp lp_pool = {
    .name = "lp_pool", .inputs = "t", .infer = InferPool, .reference = ComputeLpPool};
const CoreOp average_pool_gradient = {.name = "average_pool_gradient",
                                      .inputs = "tt",
                                      .infer = InferAveragePoolGradient,
                                      .reference = ComputeAveragePoolGradient};

}  // namespace sardonyx::core
