#include "kernels/conv_int8_depthwise.h"

#include "kernels/conv_internal.h"
#include "kernels/scratch_slots.h"
#include "kernels/slices.h"

#define HWY_WANT_AVX3_DL
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_int8_depthwise.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"
#include "kernels/int8_products-inl.h"
#include "kernels/int8_store-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

using conv_int8_depthwise::Job;
using conv_int8_depthwise::kMostTaps;

constexpr int64_t kMostBytes = kSumLanes * 4;

// A line of the input as uint8, from column -pad_begin on; null: outside of the input.
void LoadLine(const Job& job, const uint8_t* from, uint8_t* to) {
  const ConvShape& s = job.shape;
  const int64_t stride = job.layout.channels, channels = s.cout;
  const uint8_t flip = job.args.x_signed ? 0x80 : 0;
  const auto zero = static_cast<uint8_t>(job.args.x_zero);
  const int64_t columns = job.line_bytes / stride;
  const int64_t left = from == nullptr ? columns : std::min(s.pad_begin[2], columns);
  const int64_t inside = std::min(columns - left, s.in[2]);
  std::fill_n(to, left * stride, zero);
  uint8_t* at = to + left * stride;
  if (channels == stride && s.x_stride == stride) {
    std::copy_n(from, inside * stride, at);
    at += inside * stride;
  } else {
    for (int64_t w = 0; w < inside; ++w, at += stride, from += s.x_stride) {
      std::copy_n(from, channels, at);
      std::fill_n(at + channels, stride - channels, zero);
    }
  }
  std::fill_n(at, (columns - left - inside) * stride, zero);
  if (flip == 0) return;
  const hn::FixedTag<uint8_t, 16> d;
  const auto high = hn::Set(d, flip);
  for (int64_t i = 0; i < columns * stride; i += 16) {
    hn::StoreU(hn::Xor(hn::LoadU(d, to + i), high), d, to + i);
  }
}

// Four pixels interleaved: what the weights of an operand are multiplied by, as int32.
template <bool kBytes, class D, class V, class Lanes>
HWY_INLINE void Interleave(D d, V p0, V p1, V p2, V p3, Lanes* quad) {
  const hn::RepartitionToWide<D> d16;
  const hn::Repartition<int32_t, D> d32;
  const V low01 = hn::InterleaveLower(d, p0, p1), high01 = hn::InterleaveUpper(d, p0, p1);
  const V low23 = hn::InterleaveLower(d, p2, p3), high23 = hn::InterleaveUpper(d, p2, p3);
  if constexpr (kBytes) {
    const auto l01 = hn::BitCast(d16, low01), l23 = hn::BitCast(d16, low23);
    const auto h01 = hn::BitCast(d16, high01), h23 = hn::BitCast(d16, high23);
    quad[0] = hn::BitCast(d32, hn::InterleaveLower(d16, l01, l23));
    quad[1] = hn::BitCast(d32, hn::InterleaveUpper(d16, l01, l23));
    quad[2] = hn::BitCast(d32, hn::InterleaveLower(d16, h01, h23));
    quad[3] = hn::BitCast(d32, hn::InterleaveUpper(d16, h01, h23));
  } else {
    const V zero = hn::Zero(d);
    quad[0] = hn::BitCast(d32, hn::InterleaveLower(d, low01, zero));
    quad[1] = hn::BitCast(d32, hn::InterleaveLower(d, low23, zero));
    quad[2] = hn::BitCast(d32, hn::InterleaveUpper(d, low01, zero));
    quad[3] = hn::BitCast(d32, hn::InterleaveUpper(d, low23, zero));
    quad[4] = hn::BitCast(d32, hn::InterleaveLower(d, high01, zero));
    quad[5] = hn::BitCast(d32, hn::InterleaveLower(d, high23, zero));
    quad[6] = hn::BitCast(d32, hn::InterleaveUpper(d, high01, zero));
    quad[7] = hn::BitCast(d32, hn::InterleaveUpper(d, high23, zero));
  }
}

// A rescaled vector, whole, with the zero point.
template <class V>
HWY_INLINE V Whole(V sums, const float* scale, const float* offset, const Int8Rescale& rescale) {
  const hn::DFromV<V> di;
  const hn::RebindToFloat<decltype(di)> d;
  const auto v = hn::MulAdd(hn::ConvertTo(d, sums), hn::LoadU(d, scale), hn::LoadU(d, offset));
  const auto bounded = hn::Min(hn::Max(v, hn::Set(d, rescale.low)), hn::Set(d, rescale.high));
  return hn::Add(Nearest(bounded), hn::Set(di, rescale.zero_point));
}

// Adds to the sums of kOutputs neighbouring pixels, a row of the kernel at a time; lines[r] + first
// are the channels of the first pixel.
template <size_t kN, bool kBytes, int kOutputs, class Lanes>
SARDONYX_INT8_TILE HWY_INLINE void AddTaps(const Job& job, const uint8_t* const* lines,
                                           int64_t first, const uint8_t* weights,
                                           Lanes (&acc)[kOutputs][4]) {
  const hn::FixedTag<uint8_t, kN> d;
  const hn::DFromV<Lanes> di;
  constexpr int kOperands = kBytes ? 4 : 8;
  const int64_t tap = job.layout.channels * job.shape.dilation[2];
  const int64_t quads = kOutputs == 2 ? job.layout.quads : (job.shape.kernel[2] + 3) / 4;
  const int64_t row_bytes = job.layout.quads * 2 * kOperands * static_cast<int64_t>(kN);
  for (int64_t r = 0; r < job.layout.rows; ++r) {
    const uint8_t* x = lines[r] + first;
    const uint8_t* b = weights + r * row_bytes;
    for (int64_t q = 0; q < quads; ++q, x += 4 * tap) {
      Lanes quad[kOperands];
      Interleave<kBytes>(d, hn::LoadU(d, x), hn::LoadU(d, x + tap), hn::LoadU(d, x + 2 * tap),
                         hn::LoadU(d, x + 3 * tap), quad);
#pragma GCC unroll 2
      for (int o = 0; o < 2; ++o) {
#pragma GCC unroll 8
        for (int v = 0; v < kOperands; ++v, b += kN) {
          if (o >= kOutputs) continue;
          const Lanes operand = hn::BitCast(di, hn::LoadU(d, b));
          auto& sum = acc[o][kBytes ? v : v / 2];
          if constexpr (kBytes) {
            sum = AddVnniProducts(sum, quad[v], operand);
          } else {
            sum = AddPairProducts(sum, quad[v], operand);
          }
        }
      }
    }
  }
}

// Sums of a pixel's channels from c on, rescaled, straight to bytes.
template <size_t kN, class Lanes>
HWY_INLINE void StoreWhole(const Job& job, const Lanes (&acc)[4], int64_t c, uint8_t* y) {
  const hn::FixedTag<uint8_t, kN> d;
  constexpr int64_t kVector = kN / 4;
  Lanes whole[4];
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    whole[k] =
        Whole(acc[k], job.scale + c + k * kVector, job.offset + c + k * kVector, *job.args.rescale);
  }
  if (job.args.rescale->type == DType::kUInt8) {
    hn::StoreU(PackBytes<uint8_t>(whole[0], whole[1], whole[2], whole[3]), d, y);
  } else {
    const hn::RebindToSigned<decltype(d)> ds;
    hn::StoreU(PackBytes<int8_t>(whole[0], whole[1], whole[2], whole[3]), ds,
               reinterpret_cast<int8_t*>(y));
  }
}

// Sums of `outputs` pixels from `pixel` on, put into the order of channels, as the store says.
template <size_t kN, int kOutputs, class Lanes>
HWY_INLINE void StoreChannels(const Job& job, const Lanes (&acc)[kOutputs][4], int64_t outputs,
                              int64_t pixel, int64_t c, int64_t channels) {
  const hn::FixedTag<int32_t, kN / 4> di;
  const hn::FixedTag<int32_t, 4> four;
  HWY_ALIGN int32_t sums[kOutputs * kN];
#pragma GCC unroll 2
  for (int o = 0; o < kOutputs; ++o) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      HWY_ALIGN int32_t part[kN / 4];
      hn::Store(acc[o][k], di, part);
      for (size_t l = 0; l < kN / 16; ++l) {
        hn::StoreU(hn::Load(four, part + 4 * l), four, sums + o * kN + 16 * l + 4 * k);
      }
    }
  }
  StoreSums(sums, kN, outputs, channels, c, job.args.Store(job.shape).From(pixel, c));
}

// The block of kN channels from c on of an output line whose input lines are `lines`.
template <size_t kN, bool kBytes, int kOutputs>
SARDONYX_INT8_TILE void RunBlock(const Job& job, const uint8_t* const* lines, int64_t line,
                                 int64_t c) {
  const hn::FixedTag<int32_t, kN / 4> di;
  constexpr int64_t kVector = kN / 4;
  using Lanes = hn::Vec<decltype(di)>;
  const ConvShape& s = job.shape;
  const auto* const weights =
      reinterpret_cast<const uint8_t*>(job.weights) + c * job.layout.ChannelBytes();
  const int64_t channels = std::min<int64_t>(s.cout - c, kN);
  const bool direct = job.scale != nullptr && channels == static_cast<int64_t>(kN);
  for (int64_t w = 0; w < s.out[2]; w += kOutputs) {
    Lanes acc[kOutputs][4];
#pragma GCC unroll 2
    for (int o = 0; o < kOutputs; ++o) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) acc[o][k] = hn::LoadU(di, job.init + c + k * kVector);
    }
    AddTaps<kN, kBytes>(job, lines, w * s.stride[2] * job.layout.channels + c, weights, acc);
    const int64_t outputs = std::min<int64_t>(s.out[2] - w, kOutputs);
    const int64_t pixel = line * s.out[2] + w;
    if (!direct) {
      StoreChannels<kN>(job, acc, outputs, pixel, c, channels);
      continue;
    }
    uint8_t* y = static_cast<uint8_t*>(job.args.y) + pixel * s.y_stride + c;
#pragma GCC unroll 2
    for (int o = 0; o < kOutputs; ++o, y += s.y_stride) {
      if (o < outputs) StoreWhole<kN>(job, acc[o], c, y);
    }
  }
}

template <size_t kN>
void RunBlockOf(const Job& job, const uint8_t* const* lines, int64_t line, int64_t c) {
  if constexpr (kGroup == 4 || kMayHaveVnni) {
    if (job.layout.bytes) {
      return (job.pairs ? RunBlock<kN, true, 2> : RunBlock<kN, true, 1>)(job, lines, line, c);
    }
  }
  (job.pairs ? RunBlock<kN, false, 2> : RunBlock<kN, false, 1>)(job, lines, line, c);
}

// Output lines [begin, end) of all of the batch.
void RunLines(const Job& job, int64_t begin, int64_t end) {
  const ConvShape& s = job.shape;
  uint8_t* const ring = reinterpret_cast<uint8_t*>(job.ring);
  const uint8_t* lines[kMostTaps];
  int64_t held[kMostTaps];  // the input line in each place of the ring, -1: outside
  std::fill_n(held, kMostTaps, int64_t{-2});
  for (int64_t line = begin; line < end; ++line) {
    const OutputPixel out(s, line * s.out[2]);
    int64_t row = 0;
    for (int64_t i = 0; i < s.kernel[0]; ++i) {
      const int64_t depth = out.First(s, 0) + i * s.dilation[0];
      for (int64_t j = 0; j < s.kernel[1]; ++j, ++row) {
        const int64_t height = out.First(s, 1) + j * s.dilation[1];
        const bool inside = depth >= 0 && depth < s.in[0] && height >= 0 && height < s.in[1];
        const int64_t wanted =
            inside ? (out.item * s.in[0] + depth) * s.in[1] + height : int64_t{-1};
        // Lines that the next output line shares keep their place where kernels are dense.
        const int64_t turn = out.at[1] * s.stride[1] + j;
        const int64_t place = i * s.kernel[1] + (s.dilation[1] == 1 ? turn % s.kernel[1] : j);
        uint8_t* const to = ring + place * job.line_bytes;
        if (held[place] != wanted) {
          const auto* x = static_cast<const uint8_t*>(job.args.x);
          LoadLine(job, inside ? x + wanted * s.in[2] * s.x_stride : nullptr, to);
          held[place] = wanted;
        }
        lines[row] = to;
      }
    }
    for (int64_t c = 0; c < job.layout.channels;) {
      const int64_t n = job.layout.BlockAt(c);
      if (n == kMostBytes) {
        RunBlockOf<kMostBytes>(job, lines, line, c);
      } else if (n == 32 && kMostBytes > 32) {
        RunBlockOf<std::min<size_t>(32, kMostBytes)>(job, lines, line, c);
      } else {
        RunBlockOf<16>(job, lines, line, c);
      }
      c += n;
    }
  }
}

int64_t VectorBytes() { return kMostBytes; }

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx::conv_int8_depthwise {

HWY_EXPORT(RunLines);
HWY_EXPORT(VectorBytes);

namespace {

Layout LayoutOf(const ConvShape& s, bool bytes) {
  return {.rows = s.kernel[0] * s.kernel[1],
          .quads = s.kernel[2] / 4 + 1,
          .vector = HWY_DYNAMIC_DISPATCH(VectorBytes)(),
          .channels = (s.cout + 15) / 16 * 16,
          .bytes = bytes};
}
Layout PackedLayout(const ConvShape& s) { return LayoutOf(s, !Int8Widens()); }

// Channel of the `i`th place of operand `operand` of four; and of a place in a block of n.
int64_t ChannelOf(int64_t operand, int64_t i) { return i / 4 * 16 + operand * 4 + i % 4; }
int64_t ChannelAt(int64_t n, int64_t place) { return ChannelOf(place / (n / 4), place % (n / 4)); }

// Weights value(tap, channel) as the layout says, and their sums by channel.
template <typename W, typename Value>
void LayOut(const Layout& layout, const ConvShape& s, const Value& value, W* to, int32_t* sums) {
  constexpr int64_t kValues = 4 / static_cast<int64_t>(sizeof(W));  // of a channel in an operand
  for (int64_t c = 0; c < layout.channels;) {
    const int64_t n = layout.BlockAt(c);
    for (int64_t r = 0; r < layout.rows; ++r) {
      for (int64_t step = 0; step < layout.quads * 2 * layout.Operands(); ++step) {
        const int64_t q = step / layout.Operands() / 2, output = step / layout.Operands() % 2;
        const int64_t operand = step % layout.Operands();
        const int64_t k = operand / (4 / kValues), half = operand % (4 / kValues);
        const int64_t w0 = 4 * q + half * kValues - output;
        for (int64_t i = 0; i < n / 4; ++i) {
          const int64_t channel = c + ChannelOf(k, i);
          for (int64_t w = w0; w < w0 + kValues; ++w) {
            const bool given = channel < s.cout && w >= 0 && w < s.kernel[2];
            *to++ = static_cast<W>(given ? value(r * s.kernel[2] + w, channel) : 0);
          }
        }
      }
    }
    c += n;
  }
  for (int64_t c = 0; c < layout.channels; ++c) {
    sums[c] = 0;
    for (int64_t t = 0; c < s.cout && t < s.KernelSize(); ++t) sums[c] += value(t, c);
  }
}

// What is packed: weights as laid out, uint8 less 128; their sums; weights as they are.
struct Packed {
  std::byte* weights;
  int32_t* sums;
  int16_t* plain;  // [taps, channels]
  Packed(const Layout& layout, const void* packed)
      : weights(static_cast<std::byte*>(const_cast<void*>(packed))),
        sums(reinterpret_cast<int32_t*>(weights + layout.channels * layout.ChannelBytes())),
        plain(reinterpret_cast<int16_t*>(sums + layout.channels)) {}
};

// What one run computes first, and the rings of its tasks.
struct Scratch {
  size_t vector, weights, ring, bytes;
  Scratch(const ConvShape& s, int threads) {
    const Layout wide = LayoutOf(s, false);
    vector = AlignBytes(static_cast<size_t>(wide.channels) * 4);
    weights = AlignBytes(static_cast<size_t>(wide.channels * wide.ChannelBytes()));
    ring = AlignBytes(static_cast<size_t>(LineBytes(s) * wide.rows));
    bytes = 4 * vector + weights + ring * static_cast<size_t>(ScratchSlots::CountFor(threads));
  }
  // Whole quads may read a few pixels more than outputs need.
  static int64_t LineBytes(const ConvShape& s) {
    const Layout layout = LayoutOf(s, false);
    return ((s.out[2] + 1) * s.stride[2] + 4 * layout.quads * s.dilation[2] + 1) * layout.channels;
  }
};

int32_t ZeroAt(const Int8ConvArgs& args, int64_t channel) {
  if (args.w_zeros == nullptr) return 0;
  const int64_t at = args.w_zero_count == 1 ? 0 : channel;
  return args.w_signed ? static_cast<const int8_t*>(args.w_zeros)[at]
                       : static_cast<const uint8_t*>(args.w_zeros)[at];
}

// Sums can go from registers to results: to bytes, without a residual.
bool StoresBytes(const Int8Rescale* rescale) {
  return rescale != nullptr && rescale->type != DType::kFloat32 && rescale->clamps &&
         !rescale->rounds && !rescale->has_residual;
}

}  // namespace

bool Takes(const ConvShape& s) {
  return s.groups > 1 && s.groups == s.cin && s.groups == s.cout && s.KernelSize() <= kMostTaps;
}

size_t PackedBytes(const ConvShape& s) {
  const Layout layout = PackedLayout(s);
  return static_cast<size_t>(layout.channels * (layout.ChannelBytes() + 4) +
                             s.KernelSize() * s.cout * 2);
}

void Pack(const ConvShape& s, const Int8Weights& weights, void* packed) {
  const Layout layout = PackedLayout(s);
  const Packed to(layout, packed);
  for (int64_t t = 0; t < s.KernelSize(); ++t) {
    for (int64_t n = 0; n < s.cout; ++n) {
      const int64_t at = n * weights.n_stride + t * weights.t_stride;
      to.plain[t * s.cout + n] = weights.is_signed ? static_cast<const int8_t*>(weights.data)[at]
                                                   : static_cast<const uint8_t*>(weights.data)[at];
    }
  }
  const auto centred = [&](int64_t t, int64_t c) {
    return to.plain[t * s.cout + c] - (weights.is_signed ? 0 : 128);
  };
  if (layout.bytes) {
    LayOut(layout, s, centred, reinterpret_cast<int8_t*>(to.weights), to.sums);
  } else {
    LayOut(layout, s, centred, reinterpret_cast<int16_t*>(to.weights), to.sums);
  }
}

size_t ScratchBytes(const ConvShape& s, int threads) { return Scratch(s, threads).bytes; }

void Run(const ConvShape& s, const Int8ConvArgs& args, void* scratch, const Parallel& par) {
  const Scratch sizes(s, par.threads);
  auto* base = static_cast<std::byte*>(scratch);
  auto* const init = reinterpret_cast<int32_t*>(base);
  auto* const scale = reinterpret_cast<float*>(base + sizes.vector);
  auto* const offset = reinterpret_cast<float*>(base + 2 * sizes.vector);
  auto* const own_sums = reinterpret_cast<int32_t*>(base + 3 * sizes.vector);
  std::byte* const own_weights = base + 4 * sizes.vector;
  Job job{.shape = s,
          .args = args,
          .layout = PackedLayout(s),
          .init = init,
          .pairs = s.stride[2] == 1 && s.dilation[2] == 1,
          .line_bytes = Scratch::LineBytes(s)};
  const Packed packed(job.layout, args.packed);
  job.weights = packed.weights;
  const int32_t* sums = packed.sums;
  bool packed_zeros = true;
  for (int64_t i = 0; i < std::max<int64_t>(args.w_zero_count, 1); ++i) {
    packed_zeros = packed_zeros && ZeroAt(args, i) == (args.w_signed ? 0 : 128);
  }
  if (!packed_zeros) {  // less their zero points, weights may be no bytes
    job.layout = LayoutOf(s, false);
    const auto centred = [&](int64_t t, int64_t c) {
      return packed.plain[t * s.cout + c] - ZeroAt(args, c);
    };
    LayOut(job.layout, s, centred, reinterpret_cast<int16_t*>(own_weights), own_sums);
    job.weights = own_weights;
    sums = own_sums;
  }
  const bool direct = StoresBytes(args.rescale);
  if (direct) {
    job.scale = scale;
    job.offset = offset;
  }
  const int32_t x_zero = args.x_zero + (args.x_signed ? 128 : 0);
  for (int64_t c = 0; c < job.layout.channels;) {
    const int64_t n = job.layout.BlockAt(c);
    for (int64_t i = 0; i < n; i += 4) {
      const int64_t channel = c + ChannelAt(n, i);  // three more follow it
      for (int64_t j = 0; j < 4; ++j) init[c + i + j] = -x_zero * sums[channel + j];
      if (!direct) continue;
      std::copy_n(args.rescale->scale + channel, 4, scale + c + i);
      std::copy_n(args.rescale->offset + channel, 4, offset + c + i);
    }
    c += n;
  }
  // Some 40 products a nanosecond.
  const int64_t lines = s.batch * s.out[0] * s.out[1];
  const double us = 2.5e-5 * static_cast<double>(s.OutPixels() * s.cout * s.KernelSize());
  const int64_t tasks = std::min(lines, TaskCount(us));
  ScratchSlots slots(base + 4 * sizes.vector + sizes.weights, sizes.ring,
                     ScratchSlots::CountFor(par.threads));
  par.For(tasks, [&](int64_t task) {
    const ScratchSlots::Lease lease(slots);
    Job own = job;
    own.ring = reinterpret_cast<std::byte*>(lease.floats());
    HWY_DYNAMIC_DISPATCH(RunLines)(own, lines * task / tasks, lines * (task + 1) / tasks);
  });
}

}  // namespace sardonyx::conv_int8_depthwise
#endif  // HWY_ONCE
