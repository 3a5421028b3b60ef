// Convolution of few channels at stride 1, as networks begin with: Winograd's F(4, 3), or F(3, 4),
// along the last axis alone. A strip, the 4 or 3 neighbouring pixels of a line that a product of 6
// positions gives, has so short sums that to store products and to load them again would take as
// long. With the lines of the kernel as more channels of one line they stay in registers until they
// are transformed back: half of the multiplications, and little else. (Of tiles of 4 x 4 pixels a
// quarter is left, but their two maps and what goes through memory between these cost more, up to
// some six channels.) On targets of 16 registers the product is as fast.

#include <algorithm>

#include "kernels/conv_internal.h"
#include "kernels/scratch_slots.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_strips.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/tile_store-inl.h"
#include "kernels/winograd_maps-inl.h"

#ifndef SARDONYX_CONV_STRIPS_ONCE
#define SARDONYX_CONV_STRIPS_ONCE
namespace sardonyx {
namespace {

constexpr int kSide = 6;               // positions, of both forms
constexpr int64_t kMostChannels = 16;  // that a position has side by side
constexpr int64_t kMostReach = 16;     // lines that an output line looks at, those between counted
constexpr int kShared = 4;             // strips that share a vector of weights
constexpr int64_t kTogether = 32;      // strips of a line that are transformed together
constexpr int64_t kBlock = kSide * kMostChannels;  // floats of a strip's transformed values

struct Strips {
  explicit Strips(const ConvShape& shape)
      : s(shape),
        m(kSide + 1 - shape.kernel[2]),
        columns(CeilDiv(shape.out[2], m)),
        reach((shape.kernel[1] - 1) * shape.dilation[1] + 1) {}

  int64_t channels() const { return s.kernel[1] * s.cin; }

  const ConvShape& s;
  int64_t m;
  int64_t columns;  // strips of a line
  int64_t reach;
};

// Strips [first, first + count) of an output line.
struct StripRun {
  int64_t first, count;
};

// What a target has for a form.
struct StripKernels {
  int64_t lanes;
  // The transformed values of a run of input line `line`, counted over all images.
  void (*input)(const Strips&, const float* x, int64_t line, StripRun, float* values);
  // The run of output line `line`, counted over all images, from the values of the lines that the
  // kernel's see, null where there is none.
  void (*run)(const Strips&, const float* const* values, const float* packed, int64_t line,
              StripRun, float* y, const TileEpilogue&);
  void (*pack)(const Strips&, const float* weights, int64_t n, float* to);
};

}  // namespace
}  // namespace sardonyx
#endif

HWY_BEFORE_NAMESPACE();
namespace sardonyx {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Full = hn::ScalableTag<float>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Full()));
// Whether there are registers for the sums of all positions.
constexpr bool kTakes = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON;

// Strips that are transformed at once, as many as one vector has the channels of. They share a
// block of values, where each begins `strip * m * cin` floats behind the first.
int64_t StripsOfBlock(const Strips& strips) {
  const int64_t cin = strips.s.cin, step = strips.m * cin;
  return cin < kLanes ? (kLanes - cin) / step + 1 : 1;
}

HWY_NOINLINE void Input(const Strips& strips, const float* x, int64_t in_line, StripRun run,
                        float* values) {
  const Full d;
  using V = hn::Vec<Full>;
  const ConvShape& s = strips.s;
  const int64_t cin = s.cin, step = strips.m * cin;
  // Pixels that do not exist count as zeros, and what vectors read beyond the last is not used.
  constexpr int64_t kMost = (kTogether * 4 + kSide) * kMostChannels + 2 * kLanes;
  HWY_ALIGN float line[kMost];
  const int64_t begin = run.first * strips.m - s.pad_begin[2];
  const int64_t width = run.count * strips.m + kSide - strips.m;
  const int64_t from = std::clamp<int64_t>(-begin, 0, width);
  const int64_t end = std::clamp(s.in[2] - begin, from, width);
  std::fill_n(line, from * cin, 0.0f);
  const int64_t pixel = in_line * s.in[2] + begin;
  if (s.x_planes) {
    const int64_t image = in_line / s.in[1], before = image * s.in[1] * s.in[2];
    TurnPlanes(s, x, image, pixel + from - before, pixel + end - before, line + from * cin);
  } else if (s.x_stride == cin) {
    std::copy_n(x + (pixel + from) * cin, (end - from) * cin, line + from * cin);
  } else {
    for (int64_t i = from; i < end; ++i) {
      std::copy_n(x + (pixel + i) * s.x_stride, cin, line + i * cin);
    }
  }
  std::fill_n(line + end * cin, (width - end) * cin + 2 * kLanes, 0.0f);
  const int64_t of_block = StripsOfBlock(strips);
  for (int64_t t = 0; t < run.count; t += of_block, values += kBlock) {
    for (int64_t c = 0; c < cin; c += kLanes) {
      V column[kSide], mapped[kSide];
#pragma GCC unroll 6
      for (int i = 0; i < kSide; ++i) column[i] = hn::LoadU(d, line + t * step + i * cin + c);
      Map<WinogradForm{4, 1}>::Input(d, column, mapped);  // of both forms
#pragma GCC unroll 6
      for (int i = 0; i < kSide; ++i) hn::Store(mapped[i], d, values + i * kMostChannels + c);
    }
  }
}

// kShared strips times a vector of columns: sums of all positions.
template <class V>
HWY_INLINE void Multiply(const Strips& strips, const float* const* values,
                         const int64_t (&offsets)[kShared], const float* weights,
                         V (&acc)[kShared][kSide]) {
  const Full d;
  const int64_t rows = strips.s.kernel[1], cin = strips.s.cin;
#pragma GCC unroll 24
  for (int i = 0; i < kShared * kSide; ++i) acc[i / kSide][i % kSide] = hn::Zero(d);
  for (int64_t row = 0; row < rows; ++row) {
    if (values[row] == nullptr) {
      weights += cin * kSide * kLanes;
      continue;
    }
    const float* at[kShared];
#pragma GCC unroll 4
    for (int t = 0; t < kShared; ++t) at[t] = Kept(values[row] + offsets[t]);
    for (int64_t c = 0; c < cin; ++c) {
#pragma GCC unroll 6
      for (int i = 0; i < kSide; ++i) {
        const V weight = hn::LoadU(d, weights + i * kLanes);
#pragma GCC unroll 4
        for (int t = 0; t < kShared; ++t) {
          acc[t][i] = hn::MulAdd(weight, hn::Set(d, at[t][i * kMostChannels]), acc[t][i]);
        }
      }
      weights = Kept(weights + kSide * kLanes);
#pragma GCC unroll 4
      for (const float*& from : at) from = Kept(from + 1);
    }
  }
}

template <WinogradForm kForm>
HWY_NOINLINE void RunLine(const Strips& strips, const float* const* values, const float* packed,
                          int64_t line, StripRun run, float* y, const TileEpilogue& epilogue) {
  const Full d;
  using V = hn::Vec<Full>;
  const ConvShape& s = strips.s;
  const int64_t of_block = StripsOfBlock(strips), stride = s.y_stride;
  for (int64_t t0 = 0; t0 < run.count; t0 += kShared) {
    int64_t offsets[kShared];
    const int64_t last = std::min<int64_t>(run.count - t0, kShared) - 1;
    for (int64_t t = 0; t < kShared; ++t) {
      const int64_t strip = t0 + std::min(t, last);  // what is multiplied twice is stored once
      offsets[t] = strip / of_block * kBlock + strip % of_block * strips.m * s.cin;
    }
    const int64_t column = (run.first + t0) * kForm.m, pixel = line * s.out[2] + column;
    const int64_t pixels = std::min((last + 1) * kForm.m, s.out[2] - column);
    for (int64_t n = 0; n < s.cout; n += kLanes) {
      float* const to = y + pixel * stride + n;
      // What is about to be stored.
      for (int64_t i = 0; i < pixels; ++i) __builtin_prefetch(to + i * stride, 0, 2);
      V products[kShared][kSide];
      Multiply(strips, values, offsets, packed + n * strips.channels() * kSide, products);
      V mapped[kShared * kForm.m][1];
#pragma GCC unroll 4
      for (int t = 0; t < kShared; ++t) {
        V pixels_of[kForm.m];
        Map<kForm>::Output(d, products[t], pixels_of);
#pragma GCC unroll 4
        for (int i = 0; i < kForm.m; ++i) mapped[t * kForm.m + i][0] = pixels_of[i];
      }
      TileStore store = StoreOf(false, &epilogue, n);
      store.left_out = std::max<int64_t>(0, n + kLanes - s.cout);
      store.residual = ResidualOf(&epilogue, pixel, n);
      StoreFirstRows(d, mapped, pixels, to, stride, store);
    }
  }
}

// The transformed weights of columns [n, n + kLanes): [row of the kernel, channel, position,
// kLanes].
template <WinogradForm kForm>
HWY_NOINLINE void PackPanel(const Strips& strips, const float* weights, int64_t n, float* to) {
  constexpr const auto& kMap = Map<kForm>::kWeights;
  const ConvShape& s = strips.s;
  const int64_t rows = s.kernel[1], cin = s.cin;
  for (int64_t k = 0; k < rows * cin; ++k) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const float* const taps =
          weights + (((n + lane) * cin + k % cin) * rows + k / cin) * kForm.kernel;
      for (int i = 0; i < kSide; ++i) {
        double sum = 0;
        for (int tap = 0; tap < kForm.kernel && n + lane < s.cout; ++tap) {
          sum += static_cast<double>(kMap[i][tap]) * taps[tap];
        }
        to[(k * kSide + i) * kLanes + lane] = static_cast<float>(sum);
      }
    }
  }
}

template <WinogradForm kForm>
constexpr StripKernels kKernels = {kLanes, Input, RunLine<kForm>, PackPanel<kForm>};

bool Takes() { return kTakes; }
StripKernels KernelsFor(int64_t taps) {
  return taps == 3 ? kKernels<WinogradForm{4, 1, 3}> : kKernels<WinogradForm{3, 1, 4}>;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sardonyx
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Takes);
HWY_EXPORT(KernelsFor);

namespace {

StripKernels Kernels(const ConvShape& s) { return HWY_DYNAMIC_DISPATCH(KernelsFor)(s.kernel[2]); }

// Transformed values of all lines that an output line looks at.
int64_t ValueFloats(const Strips& strips) { return strips.reach * kTogether * kBlock; }

std::string_view Refusal(const ConvShape& s) {
  if (!HWY_DYNAMIC_DISPATCH(Takes)()) return "the processor has too few registers";
  if (s.groups > 1) return "has groups";
  if (s.kernel[0] != 1 || s.in[0] != 1 || s.out[0] != 1) return "has three spatial dimensions";
  if (s.kernel[2] != 3 && s.kernel[2] != 4) return "kernel is not 3 or 4 pixels wide";
  if (s.stride[2] != 1 || s.dilation[2] != 1) return "stride or dilation is not 1";
  if (s.cin > kMostChannels) return "many channels";
  if (Strips(s).reach > kMostReach) return "kernel of many lines";
  return {};
}

// Multiplications of all strips, by whole vectors of columns.
double Products(const ConvShape& s) {
  const Strips strips(s);
  return static_cast<double>(s.batch * s.out[1] * strips.columns * kSide * strips.channels() *
                             RoundUp(s.cout, Kernels(s).lanes));
}

double Cost(const ConvShape& s) {
  const double in_bytes = static_cast<double>(s.InPixels() * s.cin) * 4;
  const double out_bytes = static_cast<double>(s.OutPixels() * s.cout) * 4;
  return 2 * Products(s) * 1.0e-5 + in_bytes * 1.0e-4 + out_bytes * 6.0e-5;
}

size_t PackedBytes(const ConvShape& s) {
  return FloatBytes(kSide * Strips(s).channels() * RoundUp(s.cout, Kernels(s).lanes));
}

void Pack(const ConvShape& s, const ConvWeightRows& rows, float* packed, const Parallel& par) {
  const Strips strips(s);
  const StripKernels kernels = Kernels(s);
  par.For(CeilDiv(s.cout, kernels.lanes), [&](int64_t i) {
    const int64_t n = i * kernels.lanes;
    kernels.pack(strips, rows.data, n, packed + n * strips.channels() * kSide);
  });
}

size_t ScratchBytes(const ConvShape& s, int threads) {
  return FloatBytes(ValueFloats(Strips(s))) * static_cast<size_t>(ScratchSlots::CountFor(threads));
}

void Run(const ConvShape& s, const float* x, const float* packed, float* y,
         const Epilogue& epilogue, void* scratch, const Parallel& par) {
  const Strips strips(s);
  const StripKernels kernels = Kernels(s);
  const PreparedEpilogue prepared(epilogue);
  const TileEpilogue tile_epilogue = prepared.InRegisters() ? prepared.Tile(0, 0) : TileEpilogue();
  const auto finish = [&](int64_t line, StripRun run) {
    const int64_t column = run.first * strips.m, pixel = line * s.out[2] + column;
    const int64_t pixels = std::min(run.count * strips.m, s.out[2] - column);
    float* const from = y + pixel * s.y_stride;
    ApplyActivation(tile_epilogue.activation, from, s.y_stride, pixels, s.cout);
    if (!prepared.InRegisters()) prepared.Apply(from, s.y_stride, pixel, pixels, 0, s.cout);
  };
  // A task is a run of strips on some lines of an image, which share what they look at.
  const int64_t runs = CeilDiv(strips.columns, kTogether);
  // An even number of parts of lines, so that two threads get the same share.
  const int64_t wanted = CeilDiv(WantedTasks(2 * Products(s), 0), s.batch * runs);
  const int64_t parts = std::clamp<int64_t>(s.out[1] / (8 * s.kernel[1]) * 2, 1, wanted);
  ScratchSlots slots(scratch, FloatBytes(ValueFloats(strips)), ScratchSlots::CountFor(par.threads));
  par.For(s.batch * parts * runs, [&](int64_t task) {
    const ScratchSlots::Lease lease(slots);
    const int64_t image = task / (parts * runs), part = task / runs % parts;
    const int64_t index = task % runs;
    const StripRun run{strips.columns * index / runs,
                       strips.columns * (index + 1) / runs - strips.columns * index / runs};
    int64_t held[kMostReach];  // the input lines whose values there are
    std::fill_n(held, strips.reach, -1);
    const int64_t end = s.out[1] * (part + 1) / parts;
    for (int64_t h = s.out[1] * part / parts; h < end; ++h) {
      const float* values[kMostReach];
      for (int64_t k = 0; k < s.kernel[1]; ++k) {
        const int64_t in = h * s.stride[1] + k * s.dilation[1] - s.pad_begin[1];
        values[k] = nullptr;
        if (in < 0 || in >= s.in[1]) continue;
        const int64_t slot = in % strips.reach;
        float* const to = lease.floats() + slot * kTogether * kBlock;
        if (held[slot] != in) {
          kernels.input(strips, x, image * s.in[1] + in, run, to);
        }
        held[slot] = in;
        values[k] = to;
      }
      const int64_t line = image * s.out[1] + h;
      kernels.run(strips, values, packed, line, run, y, tile_epilogue);
      finish(line, run);
    }
  });
}

}  // namespace

const ConvMethod kConvStrips = {.refusal = Refusal,
                                .cost = Cost,
                                .packed_bytes = PackedBytes,
                                .pack = Pack,
                                .scratch_bytes = ScratchBytes,
                                .takes_planes = [](const ConvShape&) { return true; },
                                .run = Run};

}  // namespace sardonyx
#endif  // HWY_ONCE
