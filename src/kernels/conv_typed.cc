#include "kernels/conv_typed.h"

#include <algorithm>
#include <cstring>

#include "kernels/conv_internal.h"
#include "kernels/scratch_slots.h"

namespace sardonyx {
namespace {

constexpr int64_t kBlockBytes = 192 << 10;  // of gathered rows
constexpr int64_t kRowGranule = 12;         // of which no tile is thin

struct Cut {
  int64_t k = 0, n = 0;  // of a group's product
  bool direct = true;    // pixels of the input are the rows
  int64_t blocks = 0, rows = 0;
  int64_t a_ld = 0;  // elements from one gathered row to the next
};

Cut CutConv(DType type, const ConvShape& s) {
  Cut cut{.k = s.KernelSize() * (s.cin / s.groups), .n = s.cout / s.groups};
  for (int i = 0; i < 3; ++i) {
    cut.direct &=
        s.kernel[i] == 1 && s.stride[i] == 1 && s.pad_begin[i] == 0 && s.in[i] == s.out[i];
  }
  cut.a_ld = cut.k + conv_gemm::kGatherSlack;
  const int64_t pixels = s.OutPixels();
  const int64_t most = std::max<int64_t>(kRowGranule, kBlockBytes / ByteSize(type, cut.a_ld));
  const int64_t wanted = WantedTasks(2 * static_cast<double>(s.Flops()), 0);
  cut.rows = RoundUp(std::min(most, CeilDiv(pixels, wanted)), kRowGranule);
  cut.blocks = CeilDiv(pixels, cut.rows);
  return cut;
}

size_t SlotBytes(DType type, const Cut& cut) {
  return cut.direct ? 0 : AlignBytes(static_cast<size_t>(ByteSize(type, cut.rows * cut.a_ld)));
}

// [cout, channels, taps] as [cout, taps, channels]: the order in which windows are gathered.
template <typename T>
void TurnWeights(const T* from, int64_t cout, int64_t channels, int64_t taps, T* to) {
  for (int64_t n = 0; n < cout; ++n) {
    for (int64_t t = 0; t < taps; ++t) {
      for (int64_t c = 0; c < channels; ++c) *to++ = from[(n * channels + c) * taps + t];
    }
  }
}

}  // namespace

size_t ConvTypedPackedBytes(DType type, const ConvShape& s) {
  const Cut cut = CutConv(type, s);
  return static_cast<size_t>(s.groups) * GemmTypedPackedBytes(type, cut.k, cut.n);
}

void ConvTypedPack(DType type, const ConvShape& s, const void* weights, void* turned, void* packed,
                   const Parallel& par) {
  const Cut cut = CutConv(type, s);
  const int64_t channels = s.cin / s.groups, taps = s.KernelSize();
  if (taps == 1) {
    turned = const_cast<void*>(weights);
  } else if (BitWidth(type) == 32) {
    TurnWeights(static_cast<const uint32_t*>(weights), s.cout, channels, taps,
                static_cast<uint32_t*>(turned));
  } else {
    TurnWeights(static_cast<const uint64_t*>(weights), s.cout, channels, taps,
                static_cast<uint64_t*>(turned));
  }
  const GemmShape shape{.n = cut.n, .k = cut.k, .ldb = cut.k, .b_transposed = true};
  for (int64_t group = 0; group < s.groups; ++group) {
    GemmTypedPack(
        type, shape, static_cast<const char*>(turned) + ByteSize(type, group * cut.n * cut.k),
        static_cast<char*>(packed) + group * GemmTypedPackedBytes(type, cut.k, cut.n), par);
  }
}

size_t ConvTypedScratchBytes(DType type, const ConvShape& s, int threads) {
  return SlotBytes(type, CutConv(type, s)) * static_cast<size_t>(ScratchSlots::CountFor(threads));
}

void ConvTyped(DType type, const ConvShape& s, const void* x, const void* packed, void* y,
               void* scratch, const Parallel& par) {
  const Cut cut = CutConv(type, s);
  const int64_t words = BitWidth(type) / 32, channels = s.cin / s.groups;
  // Elements of 64 bits are moved as two of 32.
  ConvShape moved = s;
  moved.cin *= words;
  moved.x_stride *= words;
  const auto* input = static_cast<const float*>(x);
  const auto packed_bytes = static_cast<int64_t>(GemmTypedPackedBytes(type, cut.k, cut.n));
  ScratchSlots slots(scratch, SlotBytes(type, cut), ScratchSlots::CountFor(par.threads));
  par.For(cut.blocks, [&](int64_t block) {
    const int64_t first = block * cut.rows, rows = std::min(cut.rows, s.OutPixels() - first);
    const ScratchSlots::Lease lease(slots);
    for (int64_t group = 0; group < s.groups; ++group) {
      const float* a = input + (first * s.x_stride + group * channels) * words;
      if (!cut.direct) {
        conv_gemm::Gather(moved, group, input, first, rows, 0, cut.k * words, lease.floats(),
                          cut.a_ld * words);
        a = lease.floats();
      }
      const GemmShape shape{.m = rows,
                            .n = cut.n,
                            .k = cut.k,
                            .lda = cut.direct ? s.x_stride : cut.a_ld,
                            .ldc = s.y_stride};
      GemmTyped(type, shape, a, nullptr, static_cast<const char*>(packed) + group * packed_bytes,
                static_cast<char*>(y) + ByteSize(type, first * s.y_stride + group * cut.n), {},
                nullptr, Parallel{});
    }
  });
}

}  // namespace sardonyx
