#include "kernels/conv.h"

#include "base/round.h"
#include "devices/cpu/epilogue_binding.h"
#include "devices/cpu/families.h"
#include "kernels/conv_planes.h"
#include "kernels/conv_transpose_planes.h"
#include "kernels/conv_typed.h"
#include "ops/core/window.h"

namespace sardonyx::cpu {

std::string ConvShapeOf(const BindRequest& request, bool transposed, ConvShape* shape) {
  const Operand& x = request.inputs[0];
  const Operand& w = request.inputs[1];
  const Operand& y = request.outputs[0];
  const int spatial = x.rank() - 2;
  if (spatial < 1 || spatial > 3) return fmt::format("{} spatial dimensions, not 1 to 3", spatial);
  const Attributes& attributes = request.node.attributes;
  // Passes leave one kind of these: the channels are first, not last.
  const bool y_planes = attributes.Find("perm_y") != nullptr;
  shape->x_planes = attributes.Find("perm_x") != nullptr;
  const int first = shape->x_planes ? 2 : 1, y_first = y_planes ? 2 : 1;  // spatial axes
  // Asked for each algorithm, so what inference has checked is read where it lies.
  core::Window window;
  if (transposed || attributes.String("auto_pad", "NOTSET") != "NOTSET") {
    window = (transposed ? core::ResolveTransposedWindow : core::ResolveWindow)(
        attributes, std::span(x.dims).subspan(first, spatial), std::span(w.dims).subspan(2));
  }
  const auto number = [](const std::vector<int64_t>& numbers, int i, int64_t otherwise) {
    return numbers.empty() ? otherwise : numbers[static_cast<size_t>(i)];
  };
  const std::vector<int64_t>& strides = attributes.Ints("strides");
  const std::vector<int64_t>& dilations = attributes.Ints("dilations");
  const std::vector<int64_t>& pads =
      window.rank() > 0 ? window.pads_begin : attributes.Ints("pads");
  shape->batch = x.dims[0];
  shape->cin = shape->x_planes ? x.dims[1] : x.dims.back();
  shape->cout = y_planes ? y.dims[1] : y.dims.back();
  shape->groups = attributes.Int("group", 1);
  for (int i = 0; i < spatial; ++i) {
    const int to = 3 - spatial + i;
    shape->in[to] = x.dims[first + i];
    shape->out[to] = y.dims[y_first + i];
    shape->kernel[to] = w.dims[2 + i];
    shape->stride[to] = number(strides, i, 1);
    // Of one tap it means nothing, but of others it keeps kernels from reading in place.
    shape->dilation[to] = shape->kernel[to] > 1 ? number(dilations, i, 1) : 1;
    shape->pad_begin[to] = number(pads, i, 0);
  }
  shape->x_stride = shape->x_planes ? shape->cin : x.RowStride();
  shape->y_stride = y_planes ? shape->cout : y.RowStride();
  if (x.size() == 0 || y.size() == 0) return "no elements";
  return "";
}

namespace {

std::string MakeShape(const BindRequest& request, bool transposed, ConvShape* shape) {
  const DType type = request.inputs[0].dtype;
  if (type != DType::kFloat32 || request.outputs[0].dtype != DType::kFloat32) {
    return fmt::format("element type is {}, not float", Name(type));
  }
  const Operand& weights = request.inputs[1];
  if (weights.dtype != DType::kFloat32 && weights.constant == nullptr) {
    return fmt::format("weights of {} are not constant", Name(weights.dtype));
  }
  if (request.node.attributes.Find("perm_y") != nullptr) return "its result is in planes";
  return ConvShapeOf(request, transposed, shape);
}

std::string LayoutName(std::string_view algorithm, const ConvShape& shape) {
  return fmt::format("{} {}x{}x{} s{}x{}x{} g{}", algorithm, shape.kernel[0], shape.kernel[1],
                     shape.kernel[2], shape.stride[0], shape.stride[1], shape.stride[2],
                     shape.groups);
}

EpilogueBinding::Layout PixelsByChannels(int rank) {
  EpilogueBinding::Layout layout;
  layout.rows = {0, rank - 1};
  layout.columns = {rank - 1, rank};
  return layout;
}

// What a convolution, of one algorithm or transposed, does with its weights and operands.
struct ConvKernel {
  std::string layout;  // of its packed weights
  size_t packed_bytes, scratch_bytes;
  bool in_place;      // ConvInPlace
  bool by_lines;      // any range of lines is a convolution of the same packed weights
  bool collides;      // ConvCollides
  bool reads_dense;   // ConvReadsDense
  int64_t pack_step;  // so many rows of weights are packed together, or several times as many
  void (*pack)(const ConvShape&, const ConvWeightRows&, float* packed, const Parallel&);
  void (*run)(const ConvShape&, const float* x, const float* packed, float* y, const Epilogue&,
              void* scratch, const Parallel&);
};

// The packed weights if they are constant, else null.
std::shared_ptr<const void> PackConstant(const BindRequest& request, const ConvShape& shape,
                                         const ConvKernel& kernel) {
  const Operand& weights = request.inputs[1];
  if (weights.constant == nullptr) return nullptr;
  // Some megabytes at a time: of large weights that lie unaligned, or are halves, no copy is made.
  const int64_t count = weights.dims[0],
                row_bytes = weights.size() / std::max<int64_t>(count, 1) * 4;
  const int64_t steps =
      std::max<int64_t>((2 << 20) / (row_bytes * kernel.pack_step + 1), request.threads);
  return request.packs.GetByRows(
      *weights.constant, weights.id, kernel.layout, static_cast<int64_t>(kernel.packed_bytes),
      std::min(steps * kernel.pack_step, count), [&](const Tensor& rows, int64_t first, void* to) {
        const Tensor wide = WidenedHalves(rows);
        kernel.pack(shape, {wide.data<float>(), first, first + rows.dims()[0]},
                    static_cast<float*>(to), Parallel{&ThreadPool::Process(), request.threads});
      });
}

// As a step that runs by lines, of two spatial dimensions: these are a convolution themselves,
// whose first line lies elsewhere in what it reads. Null where a line reads nothing but padding.
std::shared_ptr<const ByLines> MakeByLines(const BindRequest& request, const ConvShape& shape,
                                           const ConvKernel& kernel,
                                           std::shared_ptr<const void> packed,
                                           std::shared_ptr<const EpilogueBinding> epilogue) {
  auto by_lines = std::make_shared<ByLines>();
  by_lines->in_lines = shape.in[1];
  by_lines->out_lines = shape.out[1];
  by_lines->stride = shape.stride[1];
  by_lines->pad = shape.pad_begin[1];
  by_lines->reach = (shape.kernel[1] - 1) * shape.dilation[1] + 1;
  for (const int64_t line : {int64_t{0}, shape.out[1] - 1}) {
    if (by_lines->Read({line, line + 1}).count() <= 0) return nullptr;
  }
  by_lines->in_bytes.assign(request.inputs.size(), 0);
  by_lines->in_bytes[0] = shape.in[2] * shape.x_stride * 4;
  by_lines->out_bytes = shape.out[2] * shape.y_stride * 4;
  by_lines->line_products = shape.Flops() / 2 / shape.out[1];
  for (size_t i = 2; i < request.inputs.size(); ++i) {
    by_lines->in_bytes[i] = shape.out[2] * epilogue->RowBytes(i);
  }
  by_lines->run = [shape, packed, epilogue, run = kernel.run](const StepArgs& args, Lines in,
                                                              Lines out) {
    ConvShape part = shape;
    part.in[1] = in.count();
    part.out[1] = out.count();
    part.pad_begin[1] = in.begin - (out.begin * shape.stride[1] - shape.pad_begin[1]);
    epilogue->With(args, [&](const Epilogue& fused) {
      run(part, static_cast<const float*>(args.in[0]), static_cast<const float*>(packed.get()),
          static_cast<float*>(args.out[0]), fused, args.scratch, args.parallel);
    });
  };
  return by_lines;
}

Bound BindKernel(const BindRequest& request, const ConvShape& shape, const ConvKernel& kernel) {
  auto packed = PackConstant(request, shape, kernel);
  Bound bound;
  if (packed != nullptr) bound.packed = 1u << 1;
  const auto own = static_cast<int64_t>(AlignBytes(kernel.scratch_bytes));
  bound.scratch_bytes =
      own + (packed == nullptr ? static_cast<int64_t>(AlignBytes(kernel.packed_bytes)) : 0);
  auto epilogue = std::make_shared<const EpilogueBinding>(
      request, 2, PixelsByChannels(request.outputs[0].rank()));
  const int residual = kernel.in_place ? epilogue->Residual() : -1;
  if (residual >= 0 && request.inputs[residual].dims == request.outputs[0].dims) {
    bound.inplace = 1u << residual;
  }
  constexpr uint32_t kAddends = ~0u << 2;  // operands of the epilogue
  bound.apart = shape.x_planes || kernel.reads_dense ? kAddends : kAddends | 1u << 0;
  bound.apart_output = epilogue->fused();
  bound.collide = kernel.collides ? 1u << 0 : 0;
  const bool is_image = request.outputs[0].rank() == 4 && shape.batch == 1 && !shape.x_planes;
  if (kernel.by_lines && is_image && packed != nullptr && epilogue->fused()) {
    bound.by_lines = MakeByLines(request, shape, kernel, packed, epilogue);
  }
  bound.run = [shape, packed, own, epilogue, rows = request.inputs[1].dims[0], pack = kernel.pack,
               run = kernel.run](const StepArgs& args) {
    const float* weights = static_cast<const float*>(packed.get());
    if (weights == nullptr) {
      // Weights that are not constant are packed at each run.
      float* to = reinterpret_cast<float*>(static_cast<char*>(args.scratch) + own);
      pack(shape, {static_cast<const float*>(args.in[1]), 0, rows}, to, args.parallel);
      weights = to;
    }
    epilogue->With(args, [&](const Epilogue& fused) {
      run(shape, static_cast<const float*>(args.in[0]), weights, static_cast<float*>(args.out[0]),
          fused, args.scratch, args.parallel);
    });
    epilogue->Finish(args);
  };
  return bound;
}

template <ConvAlgorithm kAlgorithm>
BindResult Bind(const BindRequest& request) {
  ConvShape shape;
  if (std::string why = MakeShape(request, false, &shape); !why.empty()) return why;
  if (std::string_view why = ConvRefusal(kAlgorithm, shape); !why.empty()) return std::string(why);
  const bool winograd = request.winograd && request.node.attributes.Int("winograd", 1) != 0;
  if (IsWinograd(kAlgorithm) && !winograd) {
    return request.winograd ? "filters of one weight give exact numbers" : "Winograd is turned off";
  }
  const ConvAlgorithm choice = ChooseConv(shape, winograd);
  const bool wanted = request.wanted == Name(kAlgorithm);
  if (choice != kAlgorithm && kAlgorithm != ConvAlgorithm::kGemm && !wanted) {
    return Refuse("{} is expected to be faster", Name(choice));
  }
  return BindKernel(
      request, shape,
      {.layout = LayoutName(Name(kAlgorithm), shape).append(ConvPackedForm(kAlgorithm, shape)),
       .packed_bytes = ConvPackedBytes(kAlgorithm, shape),
       .scratch_bytes = ConvScratchBytes(kAlgorithm, shape, request.threads),
       .in_place = ConvInPlace(kAlgorithm, shape),
       .by_lines = ConvByLines(kAlgorithm, shape),
       .collides = ConvCollides(kAlgorithm, shape),
       .reads_dense = ConvReadsDense(kAlgorithm, shape),
       .pack_step = ConvPackStep(kAlgorithm, shape),
       .pack = [](const ConvShape& s, const ConvWeightRows& rows, float* packed,
                  const Parallel& par) { ConvPack(kAlgorithm, s, rows, packed, par); },
       .run =
           [](const ConvShape& s, const float* x, const float* packed, float* y,
              const Epilogue& epilogue, void* scratch,
              const Parallel& par) { Conv(kAlgorithm, s, x, packed, y, epilogue, scratch, par); }});
}

BindResult BindTransposed(const BindRequest& request) {
  ConvShape shape;
  if (std::string why = MakeShape(request, true, &shape); !why.empty()) return why;
  return BindKernel(
      request, shape,
      {.layout = LayoutName("transposed", shape).append(ConvTransposePackedForm(shape)),
       .packed_bytes = ConvTransposePackedBytes(shape),
       .scratch_bytes = ConvTransposeScratchBytes(shape, request.threads),
       .in_place = false,
       .by_lines = false,
       .collides = false,
       .reads_dense = false,
       .pack_step = ConvTransposePackStep(shape),
       .pack = ConvTransposePack,
       .run = ConvTranspose});
}

template <bool kTransposed>
BindResult BindPlanes(const BindRequest& request) {
  const Attributes& attributes = request.node.attributes;
  const Operand &x = request.inputs[0], &weights = request.inputs[1];
  if (attributes.Find("perm_x") == nullptr || attributes.Find("perm_y") == nullptr) {
    return Refuse("its channels are last");
  }
  const bool are_halves = IsHalf(weights.dtype) && weights.constant != nullptr;
  if (x.dtype != DType::kFloat32 || !(weights.dtype == DType::kFloat32 || are_halves)) {
    return Refuse("element types are {} and {}", Name(x.dtype), Name(weights.dtype));
  }
  ConvShape shape;
  if (std::string why = ConvShapeOf(request, kTransposed, &shape); !why.empty()) return why;
  const auto refusal = kTransposed ? ConvTransposePlanesRefusal : ConvPlanesRefusal;
  if (std::string_view why = refusal(shape); !why.empty()) return std::string(why);
  EpilogueBinding::Layout layout;
  layout.batch[0] = {0, 1};
  layout.rows = {1, 2};
  layout.columns = {2, x.rank()};
  auto epilogue = std::make_shared<const EpilogueBinding>(request, 2, layout);
  Bound bound;
  std::shared_ptr<const void> wide;
  if (are_halves) {
    bound.packed = 1u << 1;
    wide = request.packs.Get(
        *weights.constant, weights.id, "widened",
        weights.size() * static_cast<int64_t>(sizeof(float)), [](const Tensor& halves, void* to) {
          const Tensor floats = WidenedHalves(halves);
          std::copy_n(floats.data<float>(), floats.size(), static_cast<float*>(to));
        });
  }
  bound.run = [shape, epilogue, wide](const StepArgs& args) {
    const void* const given = wide != nullptr ? wide.get() : args.in[1];
    epilogue->With(args, [&](const Epilogue& fused) {
      (kTransposed ? ConvTransposePlanes : ConvPlanes)(
          shape, static_cast<const float*>(args.in[0]), static_cast<const float*>(given),
          static_cast<float*>(args.out[0]), fused, args.parallel);
    });
    epilogue->Finish(args);
  };
  return bound;
}

BindResult BindTyped(const BindRequest& request) {
  const DType type = request.inputs[0].dtype;
  const Operand& weights = request.inputs[1];
  for (const char* perm : {"perm_x", "perm_y"}) {
    if (request.node.attributes.Find(perm) != nullptr) return Refuse("it reads or makes planes");
  }
  if (!IsGemmType(type) || request.outputs[0].dtype != type || weights.dtype != type) {
    return Refuse("element type is {}", Name(type));
  }
  if (request.node.attributes.Expr("epilogue") != nullptr) return Refuse("it has an epilogue");
  ConvShape shape;
  if (std::string why = ConvShapeOf(request, false, &shape); !why.empty()) return why;
  const auto packed_bytes = static_cast<int64_t>(AlignBytes(ConvTypedPackedBytes(type, shape)));
  const int64_t weight_bytes = AlignBytes(ByteSize(type, weights.size()));
  std::shared_ptr<const void> packed;
  if (weights.constant != nullptr) {
    packed = request.packs.Get(*weights.constant, weights.id, LayoutName("typed", shape),
                               packed_bytes, [&](const Tensor& source, void* to) {
                                 std::vector<std::byte> turned(weight_bytes);
                                 ConvTypedPack(type, shape, source.raw(), turned.data(), to,
                                               Parallel{&ThreadPool::Process(), request.threads});
                               });
  }
  Bound bound;
  if (packed != nullptr) bound.packed = 1u << 1;
  const auto own =
      static_cast<int64_t>(AlignBytes(ConvTypedScratchBytes(type, shape, request.threads)));
  bound.scratch_bytes = own + (packed == nullptr ? packed_bytes + weight_bytes : 0);
  bound.run = [=](const StepArgs& args) {
    const void* ready = packed.get();
    if (ready == nullptr) {
      char* to = static_cast<char*>(args.scratch) + own;
      ConvTypedPack(type, shape, args.in[1], to + packed_bytes, to, args.parallel);
      ready = to;
    }
    ConvTyped(type, shape, args.in[0], ready, args.out[0], args.scratch, args.parallel);
  };
  return bound;
}

template <ConvAlgorithm kAlgorithm>
constexpr Implementation kBy = {Name(kAlgorithm), Bind<kAlgorithm>};

constexpr Implementation kConv[] = {kBy<ConvAlgorithm::kTaps>,
                                    kBy<ConvAlgorithm::kDepthwise>,
                                    kBy<ConvAlgorithm::kGroups>,
                                    {"planes", BindPlanes<false>},
                                    kBy<ConvAlgorithm::kPhases>,
                                    kBy<ConvAlgorithm::kStrips>,
                                    kBy<ConvAlgorithm::kLines>,
#define SARDONYX_ROW(algorithm, name, m, stride, kernel) kBy<ConvAlgorithm::algorithm>,
                                    SARDONYX_WINOGRAD_FORMS(SARDONYX_ROW)
#undef SARDONYX_ROW
                                        kBy<ConvAlgorithm::kGemm>,
                                    {"gemm, typed", BindTyped}};
constexpr Implementation kTransposed[] = {{"planes", BindPlanes<true>}, {"gemm", BindTransposed}};

}  // namespace

std::span<const Implementation> ConvList() { return kConv; }
std::span<const Implementation> ConvTransposeList() { return kTransposed; }

}  // namespace sardonyx::cpu
