#include "kernels/conv_int8_winograd.h"

#include <algorithm>
#include <cstring>

#include "kernels/conv_internal.h"
#include "kernels/int8_panel.h"
#include "kernels/scratch_slots.h"
#include "kernels/targets.h"
#include "kernels/transpose.h"
#include "kernels/winograd_int8.h"

namespace sardonyx::conv_int8_winograd {
namespace {

// What transformed values may take of the second-level cache, and the tiles that are multiplied at
// a time.
constexpr int64_t kBlockBytes = 384 << 10, kLeastTiles = 14, kMostTiles = 56;
// Weights of so many bytes stay in that cache while fewer tiles are multiplied by them.
constexpr int64_t kSmallBytes = 768 << 10, kFewTiles = 4;
// Tiles whose sums are stored together.
constexpr int64_t kStoredTiles = 8;

// Two ways of cutting, as conv_winograd.cc has them: parts of the tiles, each transformed and
// multiplied by all weights; or all tiles are transformed first, and a task is a panel, so that the
// weights are read once.
struct Cut {
  int64_t columns = 0, lines = 0, tiles = 0;  // tiles of a line, lines of all items, both
  int64_t channels = 0;                       // of values
  int64_t width = 0, panels = 0;
  bool blocks = true;
  int64_t parts = 1, most = 0;     // of the tiles, and the tiles of one
  int64_t tasks = 1;               // of the panels, if not by blocks
  int64_t v_ld = 0, v_stride = 0;  // of values: a tile's, a position's
  int64_t m_stride = 0;            // of products: a position's
  size_t v_bytes = 0, m_bytes = 0, sums_bytes = 0, pixel_bytes = 0;
  int64_t Matrix() const { return channels * width; }  // values of one of the panel's weights
  int64_t PackedBytes() const { return panels * kInt8Positions * Matrix() * 2; }
};

Cut CutTiles(const ConvShape& s) {
  Cut cut;
  cut.columns = CeilDiv(s.out[2], kInt8TilePixels);
  cut.lines = s.batch * CeilDiv(s.out[1], kInt8TilePixels);
  cut.tiles = cut.lines * cut.columns;
  cut.channels = RoundUp(s.cin, kInt8ChannelGranule);
  cut.width = Int8PanelWidth();
  cut.panels = CeilDiv(s.cout, cut.width);
  cut.v_ld = cut.channels % 512 == 0 ? cut.channels + 32 : cut.channels;
  const auto products = static_cast<double>(kInt8Positions * cut.tiles * cut.Matrix());
  const int64_t wanted = WantedTasks(products * static_cast<double>(cut.panels), 0);
  const bool is_small = cut.PackedBytes() <= kSmallBytes;
  cut.blocks =
      cut.tiles >= 2 * kLeastTiles || (is_small && wanted > 1 && cut.tiles >= 2 * kFewTiles);
  if (cut.blocks) {
    const int64_t fitting = kBlockBytes / (kInt8Positions * cut.v_ld * 2);
    cut.parts = CeilDiv(cut.tiles, std::clamp(fitting, kLeastTiles, kMostTiles));
    if (wanted > 1) cut.parts = EvenParts(cut.parts, cut.tiles / kLeastTiles);
  } else {
    cut.tasks = std::min(cut.panels, wanted);
  }
  cut.most = CeilDiv(cut.tiles, cut.parts);
  cut.v_stride = 2 * Spread(CeilDiv(cut.most * cut.v_ld, 2));
  cut.m_stride = Spread(cut.most * cut.width);
  cut.v_bytes = AlignBytes(static_cast<size_t>(kInt8Positions * cut.v_stride * 2));
  cut.m_bytes = AlignBytes(static_cast<size_t>(kInt8Positions * cut.m_stride * 4));
  cut.sums_bytes = AlignBytes(static_cast<size_t>(4 * 4 * kStoredTiles * cut.width * 4));
  const int copied = s.cin < cut.channels ? kInt8Positions : 0;
  cut.pixel_bytes = AlignBytes(static_cast<size_t>((1 + copied) * cut.channels));
  return cut;
}

// One call of Run.
struct Work {
  const ConvShape& s;
  const Int8ConvArgs& args;
  const Cut& cut;

  // The values of tiles [first, last). `pixels`: room for what is not read where it lies.
  void Transform(int64_t first, int64_t last, int16_t* values, uint8_t* pixels) const {
    const auto* const x = static_cast<const uint8_t*>(args.x);
    const int64_t line = s.in[2] * s.x_stride, lines = cut.lines / s.batch;
    WinogradInt8Input in{};
    in.channels = cut.channels;
    in.is_signed = args.x_signed;
    in.zero = args.x_zero;
    in.t_stride = cut.v_stride;
    std::memset(pixels, static_cast<uint8_t>(args.x_zero), cut.pixel_bytes);
    for (int64_t tile = first; tile < last; ++tile, values += cut.v_ld) {
      const int64_t row = tile / cut.columns, item = row / lines;
      const int64_t h = row % lines * kInt8TilePixels - s.pad_begin[1];
      const int64_t w = tile % cut.columns * kInt8TilePixels - s.pad_begin[2];
      const uint8_t** to = in.pixels;
      for (int64_t i = h; i < h + 6; ++i) {
        const int64_t from = (item * s.in[1] + i) * line;
        const bool exists = i >= 0 && i < s.in[1];
        for (int64_t j = w; j < w + 6; ++j, ++to) {
          *to = exists && j >= 0 && j < s.in[2] ? x + from + j * s.x_stride : pixels;
        }
      }
      if (s.cin < cut.channels) CopyPixels(in.pixels, pixels);
      in.values = values;
      TransformInt8Input(in);
    }
  }

  // Pixels of the input, each to its place behind the first, which is that of padding.
  void CopyPixels(const uint8_t** pixels, uint8_t* to) const {
    const uint8_t* const padding = to;
    for (int t = 0; t < kInt8Positions; ++t) {
      to += cut.channels;
      if (pixels[t] == padding) continue;
      std::memcpy(to, pixels[t], static_cast<size_t>(s.cin));
      pixels[t] = to;
    }
  }

  // Tiles [first, last), whose values are given, times a panel.
  void Multiply(int64_t first, int64_t last, const int16_t* values, int64_t panel,
                int32_t* products, int32_t* sums) const {
    const auto* weights =
        static_cast<const int16_t*>(args.packed) + panel * kInt8Positions * cut.Matrix();
    Int16Product product{};
    product.a_stride = cut.v_ld;
    product.rows = last - first;
    product.pairs = cut.channels / 2;
    for (int t = 0; t < kInt8Positions; ++t, weights += cut.Matrix()) {
      const bool is_last = t + 1 == kInt8Positions && panel + 1 == cut.panels;
      product.a = values + t * cut.v_stride;
      product.b = weights;
      product.y = products + t * cut.m_stride;
      product.next = is_last ? nullptr : weights + cut.Matrix();
      MultiplyInt16(product);
    }
    Finish(first, last, panel * cut.width, products, sums);
  }

  // Products to the output, columns from n on.
  void Finish(int64_t first, int64_t last, int64_t n, const int32_t* products,
              int32_t* sums) const {
    const Int8Store store = args.Store(s);
    const int64_t lines = cut.lines / s.batch;
    WinogradInt8Output out{};
    out.width = cut.width;
    out.t_stride = cut.m_stride;
    out.columns = std::min(cut.width, s.cout - n);
    out.sums = sums;
    out.first_column = n;
    out.line_pixels = s.out[2];
    for (int64_t tile = first; tile < last; tile += out.tiles) {
      const int64_t row = tile / cut.columns, column = tile % cut.columns;
      const int64_t h = row % lines * kInt8TilePixels, w = column * kInt8TilePixels;
      out.tiles = std::min({last - tile, cut.columns - column, kStoredTiles});
      out.products = products + (tile - first) * cut.width;
      out.lines = std::min(kInt8TilePixels, s.out[1] - h);
      out.pixels = std::min(out.tiles * kInt8TilePixels, s.out[2] - w);
      out.store = store.From((row / lines * s.out[1] + h) * s.out[2] + w, n);
      TransformInt8Output(out);
    }
  }
};

}  // namespace

std::string_view Refusal(const ConvShape& s) {
  if (s.in[0] != 1 || s.out[0] != 1 || s.kernel[0] != 1) return "it has three dimensions";
  if (s.kernel[1] != 3 || s.kernel[2] != 3) return "kernel is not 3 x 3";
  if (s.stride[1] != 1 || s.stride[2] != 1) return "stride is not 1";
  if (s.dilation[1] != 1 || s.dilation[2] != 1) return "dilation is not 1";
  if (s.groups != 1) return "it has groups";
  return {};
}

bool IsFaster(const ConvShape& s) {
  // In products of int16 at their full speed, of which bytes take half where the processor has
  // instructions for them, and a sixteenth in matrix tiles; measured on AVX2 and AVX-512
  // (bench/gemm_int8_bench.cc). Large weights come from memory, and are eight times those of the
  // direct sum: with less than a fourth of the time to gain, they are not worth theirs (7x7x512 in
  // ResNet-50: the network takes as long without, and 98 MB for 128). Two units for all multiply
  // twice as much while a value is transformed, and while a byte comes from a cache. There weights
  // count as within a network, whose other layers have taken the caches, and once more for each
  // part of the tiles.
  constexpr int64_t kNear = 8 << 20;
  const bool is_short = HasAvxVnni(), is_wide = !Int8Widens() && SharesWideUnits();
  const Cut cut = CutTiles(s);
  const int64_t columns = cut.panels * cut.width;
  const auto bytes = static_cast<double>(cut.PackedBytes());
  const double per_value = is_short ? 16 : is_wide ? 27 : 13;
  const double per_byte = is_short        ? 1
                          : is_wide       ? 10 + 2.5 * static_cast<double>(cut.parts - 1)
                          : bytes > kNear ? 5
                                          : 0.5;
  const double winograd = static_cast<double>(kInt8Positions * cut.tiles) *
                              (static_cast<double>(cut.channels * columns) +
                               per_value * static_cast<double>(cut.channels + columns)) +
                          bytes * per_byte;
  const double direct_cost = HasMatrixTiles() ? 0.0625 : Int8Widens() ? 1 : 0.5;
  return winograd < static_cast<double>(s.Flops() / 2) * direct_cost;
}

bool IsExact(const ConvShape& s, const Weights& weights) {
  const int64_t count = s.cin * 9;
  const auto flip = static_cast<uint8_t>(weights.is_signed ? 0x80 : 0);
  const auto zero = static_cast<uint8_t>(weights.zero + flip);
  const auto* from = static_cast<const uint8_t*>(weights.data);
  for (int64_t n = 0; n < s.cout; ++n, from += count) {
    const Int8Differences sums = SumInt8Differences(from, count, flip, zero);
    // Inputs differ from their zero point by 255 at most, in both directions together.
    if (255 * std::max(sums.above, sums.below) >= kInt8WinogradRange) return false;
  }
  return true;
}

size_t PackedBytes(const ConvShape& s) { return static_cast<size_t>(CutTiles(s).PackedBytes()); }

void Pack(const ConvShape& s, const Weights& weights, void* packed, const Parallel& par) {
  const Cut cut = CutTiles(s);
  constexpr int64_t kMostWidth = 32, kTaps = 9, kTogether = 16;  // channels read at a time
  const auto flip = static_cast<uint8_t>(weights.is_signed ? 0x80 : 0);
  const auto zero = static_cast<uint8_t>(weights.zero + flip);
  par.For(cut.panels, [&](int64_t panel) {
    int16_t* const to = static_cast<int16_t*>(packed) + panel * kInt8Positions * cut.Matrix();
    const int64_t n0 = panel * cut.width, columns = std::min(cut.width, s.cout - n0);
    const auto* const from = static_cast<const uint8_t*>(weights.data) + n0 * s.cin * kTaps;
    alignas(64) uint32_t words[kTogether / 4 * kTaps * kMostWidth];
    alignas(64) uint8_t kernels[kTaps * kMostWidth * 4];
    std::memset(kernels, zero, sizeof(kernels));
    for (int64_t c = 0; c < cut.channels; c += 4) {
      const bool follow = s.cin % 4 == 0 && c < s.cin;  // the kernels of four channels
      const int64_t read = c % kTogether / 4 * kTaps;
      if (follow && read == 0) {
        TransposeMatrix(from + c * kTaps, s.cin * kTaps / 4, words, cut.width,
                        std::min(kTogether, s.cin - c) / 4 * kTaps, columns);
      }
      for (int64_t t = 0; t < kTaps; ++t) {
        uint8_t* const group = kernels + t * cut.width * 4;
        if (follow) {
          Int8GatherTap(words + read * cut.width, cut.width, kTaps, t, columns, flip, group);
          continue;
        }
        for (int64_t j = 0; j < columns; ++j) {
          for (int64_t i = c; i < c + 4; ++i) {
            const bool exists = i < s.cin;
            group[4 * j + i - c] = exists ? from[(j * s.cin + i) * kTaps + t] ^ flip : zero;
          }
        }
      }
      TransformInt8Weights(kernels, cut.width, zero, to + c * cut.width, cut.Matrix());
    }
  });
}

size_t ScratchBytes(const ConvShape& s, int threads) {
  const Cut cut = CutTiles(s);
  const size_t slot =
      cut.m_bytes + cut.sums_bytes + cut.pixel_bytes + (cut.blocks ? cut.v_bytes : 0);
  return slot * static_cast<size_t>(ScratchSlots::CountFor(threads)) +
         (cut.blocks ? 0 : cut.v_bytes);
}

void Run(const ConvShape& s, const Int8ConvArgs& args, void* scratch, const Parallel& par) {
  const Cut cut = CutTiles(s);
  const Work work{s, args, cut};
  auto* const base = static_cast<std::byte*>(scratch);
  const size_t shared = cut.blocks ? 0 : cut.v_bytes;
  const size_t own = cut.m_bytes + cut.sums_bytes + cut.pixel_bytes;
  ScratchSlots slots(base + shared, own + cut.v_bytes - shared,
                     ScratchSlots::CountFor(par.threads));
  struct Room {
    int32_t *products, *sums;
    uint8_t* pixels;
    int16_t* values;
  };
  const auto room = [&](const ScratchSlots::Lease& lease) {
    auto* const at = reinterpret_cast<std::byte*>(lease.floats());
    std::byte* const pixels = at + cut.m_bytes + cut.sums_bytes;
    return Room{reinterpret_cast<int32_t*>(at), reinterpret_cast<int32_t*>(at + cut.m_bytes),
                reinterpret_cast<uint8_t*>(pixels),
                reinterpret_cast<int16_t*>(cut.blocks ? pixels + cut.pixel_bytes : base)};
  };
  if (cut.blocks) {
    par.For(cut.parts, [&](int64_t part) {
      const ScratchSlots::Lease lease(slots);
      const Room at = room(lease);
      const int64_t first = cut.tiles * part / cut.parts;
      const int64_t last = cut.tiles * (part + 1) / cut.parts;
      work.Transform(first, last, at.values, at.pixels);
      for (int64_t panel = 0; panel < cut.panels; ++panel) {
        work.Multiply(first, last, at.values, panel, at.products, at.sums);
      }
    });
    return;
  }
  const auto bytes = static_cast<double>(cut.tiles * cut.v_ld * kInt8Positions * 2);
  const int64_t in_parts = std::min(cut.tiles, WantedTasks(0, bytes));
  par.For(in_parts, [&](int64_t part) {
    const ScratchSlots::Lease lease(slots);
    const Room at = room(lease);
    const int64_t first = cut.tiles * part / in_parts;
    work.Transform(first, cut.tiles * (part + 1) / in_parts, at.values + first * cut.v_ld,
                   at.pixels);
  });
  par.For(cut.tasks, [&](int64_t task) {
    const ScratchSlots::Lease lease(slots);
    const Room at = room(lease);
    const int64_t end = cut.panels * (task + 1) / cut.tasks;
    for (int64_t panel = cut.panels * task / cut.tasks; panel < end; ++panel) {
      work.Multiply(0, cut.tiles, at.values, panel, at.products, at.sums);
    }
  });
}

}  // namespace sardonyx::conv_int8_winograd
