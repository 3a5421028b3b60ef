// Transposed convolution, output pixel by output pixel: those of a line that have the same
// remainder modulo the stride see the same kernel positions and neighbouring input pixels, so each
// kernel position is a matrix product straight on the input, summed in place. Where each channel is
// a group of its own, it is a product of pixels with one weight a channel. Of a small map such runs
// are short: there all of the input is multiplied by each kernel position, and the products are
// added to the pixels that they reach, so that large weights are read once.

#include <algorithm>
#include <cstring>

#include "kernels/conv_internal.h"
#include "kernels/gemm.h"
#include "kernels/scratch_slots.h"

namespace sardonyx {

namespace {

constexpr int64_t kChunkBytes = 384 << 10;

struct Cut {
  bool depthwise;               // all channels are done as one group
  int64_t groups, channels, n;  // channels in and out of a group
  int64_t column_step, column_parts;
  int64_t lines;  // output lines of the batch
  int64_t units;  // of a group and column part: remainder of the width x line
  bool by_line;   // all weights of a part fit into the cache: units go line by line
  bool whole;     // such a unit is all of an output line
  bool at_once;   // all pixels of the input are multiplied by a kernel position
  int64_t tasks;
  int64_t x_ld;  // pixel stride of the copy of x, or 0 if x is read itself
};

Cut CutTranspose(const ConvShape& s) {
  Cut cut;
  cut.depthwise = s.groups > 1 && s.groups == s.cin && s.groups == s.cout;
  cut.groups = cut.depthwise ? 1 : s.groups;
  cut.channels = s.cin / s.groups;
  cut.n = s.cout / cut.groups;
  const int64_t panel = GemmPanelWidth(), panels = CeilDiv(cut.n, panel);
  const int64_t fitting =
      std::max<int64_t>(1, kChunkBytes / (std::max<int64_t>(cut.channels, 1) * panel * 4));
  const int64_t step = CeilDiv(panels, CeilDiv(panels, fitting));
  cut.column_step = step * panel;
  cut.column_parts = CeilDiv(panels, step);
  cut.by_line = s.KernelSize() * cut.channels * cut.column_step * 4 <= kChunkBytes;
  cut.lines = s.batch * s.out[0] * s.out[1];
  cut.whole = cut.by_line && cut.column_parts == 1 && cut.groups == 1;
  cut.units = cut.whole ? cut.lines : cut.lines * s.stride[2];
  const double flops = 2.0 * static_cast<double>(s.InPixels()) *
                       static_cast<double>(s.KernelSize() * cut.channels * s.cout);
  cut.at_once = !cut.depthwise && !cut.by_line && s.InPixels() <= kSmallTransposed;
  if (cut.at_once) {
    const int64_t parts = std::clamp<int64_t>(WantedTasks(flops, 0) / cut.groups, 1, panels);
    cut.column_step = CeilDiv(panels, parts) * panel;
    cut.column_parts = CeilDiv(cut.n, cut.column_step);
    cut.units = 1;
  }
  const int64_t all = cut.groups * cut.column_parts * cut.units;
  cut.tasks = std::min(all, WantedTasks(flops, 4.0 * static_cast<double>(s.OutPixels() * s.cout)));
  cut.x_ld = s.x_stride % 1024 == 0 ? s.cin + 16 : 0;
  return cut;
}

// Of the packed weights of a group and kernel position.
int64_t MatrixFloats(const Cut& cut) {
  if (cut.depthwise) return cut.n;
  return static_cast<int64_t>(GemmPackedBytes(cut.channels, cut.n) / sizeof(float));
}

// Lines in the order of their remainder modulo the stride, so that neighbours use the same weights.
struct Line {
  int64_t item, d, h;
};
Line LineByPhase(const ConvShape& s, int64_t index) {
  for (int64_t phase = 0;; ++phase) {
    const int64_t per_image = CeilDiv(s.out[1] - phase, s.stride[1]);
    const int64_t count = s.batch * s.out[0] * std::max<int64_t>(per_image, 0);
    if (index < count) {
      const int64_t image = index / per_image;
      return {image / s.out[0], image % s.out[0], phase + index % per_image * s.stride[1]};
    }
    index -= count;
  }
}

// Output pixels phase, phase + stride, ... of one line, columns [n0, n1) of one group.
void RunLine(const ConvShape& s, const Cut& cut, int64_t group, int64_t n0, int64_t n1,
             int64_t phase, const Line& line, const float* x, int64_t x_ld, const float* packed,
             float* y, const PreparedEpilogue& prepared) {
  const int64_t pixels = CeilDiv(s.out[2] - phase, s.stride[2]);
  if (pixels <= 0) return;
  // Output pixel j of the run takes input pixel j + (phase + pad - t * dilation) / stride.
  const auto FirstInput = [&](int64_t t, int64_t* first) {
    const int64_t scaled = phase + s.pad_begin[2] - t * s.dilation[2];
    if (scaled % s.stride[2] != 0) return false;
    *first = scaled / s.stride[2];
    return true;
  };
  const int64_t y_line = ((line.item * s.out[0] + line.d) * s.out[1] + line.h) * s.out[2];
  for (int64_t begin = 0; begin < pixels;) {
    // The longest run from here on in which each kernel position is either inside or outside.
    int64_t end = pixels;
    for (int64_t t = 0; t < s.kernel[2]; ++t) {
      int64_t first;
      if (!FirstInput(t, &first)) continue;
      for (const int64_t edge : {-first, s.in[2] - first}) {
        if (edge > begin) end = std::min(end, edge);
      }
    }
    GemmBlockArgs args{};
    args.rows = end - begin;
    args.lda = x_ld;
    args.k_total = cut.channels;
    args.n_total = cut.n;
    args.is_all = cut.n <= GemmPanelWidth();
    args.n0 = n0;
    args.n1 = n1;
    const int64_t pixel = y_line + phase + begin * s.stride[2];
    args.c = y + pixel * s.y_stride + group * cut.n;
    args.ldc = s.stride[2] * s.y_stride;
    for (int64_t kd = 0; kd < s.kernel[0]; ++kd) {
      const int64_t d = TransposedSource(s, 0, line.d, kd);
      if (d < 0) continue;
      for (int64_t kh = 0; kh < s.kernel[1]; ++kh) {
        const int64_t h = TransposedSource(s, 1, line.h, kh);
        if (h < 0) continue;
        for (int64_t kw = 0; kw < s.kernel[2]; ++kw) {
          int64_t first;
          if (!FirstInput(kw, &first)) continue;
          if (begin + first < 0 || begin + first >= s.in[2]) continue;
          const int64_t in = ((line.item * s.in[0] + d) * s.in[1] + h) * s.in[2] + begin + first;
          const int64_t tap = (kd * s.kernel[1] + kh) * s.kernel[2] + kw;
          const float* a = x + in * x_ld + group * cut.channels;
          if (cut.depthwise) {
            conv_depthwise::AddProducts(a + n0, x_ld, packed + tap * cut.n + n0, args.c + n0,
                                        args.ldc, args.rows, n1 - n0, args.accumulate);
            args.accumulate = true;
            continue;
          }
          args.b = packed + (group * s.KernelSize() + tap) * MatrixFloats(cut);
          const int64_t step = GemmDepth(cut.channels);
          for (int64_t k0 = 0; k0 < cut.channels; k0 += step) {
            args.k0 = k0;
            args.kc = std::min(step, cut.channels - k0);
            args.a = a + k0;
            GemmBlock(args);
            args.accumulate = true;
          }
        }
      }
    }
    // A product of depth 0 clears pixels that nothing reaches, and applies what is applied in
    // registers.
    TileEpilogue tile = prepared.Tile(pixel, group * cut.n);
    tile.residual_ld *= s.stride[2];
    if (!args.accumulate || (prepared.InRegisters() && !tile.DoesNothing())) {
      args.a = x;
      args.k0 = args.kc = 0;
      args.b = packed;
      args.epilogue = prepared.InRegisters() ? &tile : nullptr;
      GemmBlock(args);
    }
    begin = end;
  }
}

size_t CopyBytes(const ConvShape& s, const Cut& cut) {
  return AlignBytes(FloatBytes(s.InPixels() * cut.x_ld));
}
size_t SlotBytes(const ConvShape& s, const Cut& cut) {
  return cut.at_once ? AlignBytes(FloatBytes(s.InPixels() * cut.column_step)) : 0;
}

// Columns [n0, n1) of one group of all pixels. `products`: as many floats for each of the input.
void RunAtOnce(const ConvShape& s, const Cut& cut, int64_t group, int64_t n0, int64_t n1,
               const float* x, int64_t x_ld, const float* packed, float* y, float* products) {
  const int64_t columns = n1 - n0, depth = GemmDepth(cut.channels);
  const int64_t width = std::min(GemmPanelWidth(), RoundUp(columns, kPanelGranule));
  y += group * cut.n + n0;
  for (int64_t i = 0; i < s.OutPixels(); ++i) std::fill_n(y + i * s.y_stride, columns, 0.0f);
  GemmBlockArgs args{};
  args.rows = s.InPixels();
  args.lda = x_ld;
  args.k_total = cut.channels;
  args.n_total = args.n1 = args.ldc = columns;
  args.is_all = cut.n <= GemmPanelWidth();
  args.c = products;
  constexpr Activation kIdentity{.kind = Activation::Kind::kIdentity};
  for (int64_t t = 0; t < s.KernelSize(); ++t) {
    args.b = packed + (group * s.KernelSize() + t) * MatrixFloats(cut) + n0 * cut.channels;
    for (args.k0 = 0; args.k0 < cut.channels; args.k0 += args.kc) {
      args.kc = std::min(depth, cut.channels - args.k0);
      args.a = x + group * cut.channels + args.k0;
      args.accumulate = args.k0 > 0;
      const bool ends = args.k0 + args.kc == cut.channels;
      args.next = !ends                    ? args.b + (args.k0 + args.kc) * width
                  : t + 1 < s.KernelSize() ? args.b + MatrixFloats(cut)
                                           : nullptr;
      GemmBlock(args);
    }
    const int64_t of_kernel[] = {t / s.kernel[2] / s.kernel[1], t / s.kernel[2] % s.kernel[1],
                                 t % s.kernel[2]};
    for (int64_t i = 0; i < args.rows; ++i) {
      const int64_t line = i / s.in[2], plane = line / s.in[1];
      const int64_t from[] = {plane % s.in[0], line % s.in[1], i % s.in[2]};
      int64_t pixel = plane / s.in[0];
      bool is_inside = true;
      for (int a = 0; a < 3; ++a) {
        const int64_t at = from[a] * s.stride[a] + of_kernel[a] * s.dilation[a] - s.pad_begin[a];
        is_inside = is_inside && at >= 0 && at < s.out[a];
        pixel = pixel * s.out[a] + at;
      }
      if (!is_inside) continue;
      ActivateBetween(kIdentity, {.then = {{products + i * columns}}}, y + pixel * s.y_stride, 0, 1,
                      columns);
    }
  }
}

}  // namespace

std::string_view ConvTransposePackedForm(const ConvShape& s) {
  return conv_transpose_taps::Takes(s) ? " all taps" : "";
}

size_t ConvTransposePackedBytes(const ConvShape& s) {
  if (conv_transpose_taps::Takes(s)) return conv_transpose_taps::PackedBytes(s);
  const Cut cut = CutTranspose(s);
  return AlignBytes(FloatBytes(cut.groups * s.KernelSize() * MatrixFloats(cut)));
}

int64_t ConvTransposePackStep(const ConvShape& s) { return CutTranspose(s).depthwise ? s.cin : 1; }

void ConvTransposePack(const ConvShape& s, const ConvWeightRows& rows, float* packed,
                       const Parallel& par) {
  if (conv_transpose_taps::Takes(s)) return conv_transpose_taps::Pack(s, rows, packed, par);
  const Cut cut = CutTranspose(s);
  if (cut.depthwise) {
    TransposeCopy(rows.data, s.KernelSize(), s.KernelSize(), s.cin, packed, s.cin);
    return;
  }
  const int64_t taps = s.KernelSize(), panel = GemmPanelWidth(), panels = CeilDiv(cut.n, panel);
  const int64_t first = rows.first / cut.channels, end = CeilDiv(rows.end, cut.channels);
  par.For((end - first) * panels, [&](int64_t task) {
    const int64_t group = first + task / panels, n0 = task % panels * panel;
    const int64_t columns = std::min(panel, cut.n - n0), width = RoundUp(columns, kPanelGranule);
    const int64_t c0 = group * cut.channels;  // of all groups
    const int64_t c_end = std::min(rows.end - c0, cut.channels);
    for (int64_t c = std::max<int64_t>(rows.first - c0, 0); c < c_end; ++c) {
      const float* from = rows.data + ((c0 + c - rows.first) * cut.n + n0) * taps;
      for (int64_t t = 0; t < taps; ++t) {
        float* to = packed + (group * taps + t) * MatrixFloats(cut) + n0 * cut.channels + c * width;
        for (int64_t j = 0; j < width; ++j) to[j] = j < columns ? from[j * taps + t] : 0.0f;
      }
    }
  });
}

size_t ConvTransposeScratchBytes(const ConvShape& s, int threads) {
  if (conv_transpose_taps::Takes(s)) return conv_transpose_taps::ScratchBytes(s, threads);
  const Cut cut = CutTranspose(s);
  return CopyBytes(s, cut) +
         SlotBytes(s, cut) * static_cast<size_t>(ScratchSlots::CountFor(threads));
}

void ConvTranspose(const ConvShape& s, const float* x, const float* packed, float* y,
                   const Epilogue& epilogue, void* scratch, const Parallel& par) {
  if (conv_transpose_taps::Takes(s)) {
    return conv_transpose_taps::Run(s, x, packed, y, epilogue, scratch, par);
  }
  const Cut cut = CutTranspose(s);
  using Tiles = PreparedEpilogue::Tiles;
  const PreparedEpilogue prepared(epilogue, cut.at_once ? Tiles::kNone : Tiles::kConvolution);
  int64_t x_ld = s.x_stride;
  if (cut.x_ld != 0) {
    auto* const copy = static_cast<float*>(scratch);
    const int64_t pixels = s.InPixels();
    const int64_t parts = std::clamp<int64_t>(pixels * s.cin / 65536, 1, 16);
    par.For(parts, [&](int64_t part) {
      for (int64_t i = pixels * part / parts; i < pixels * (part + 1) / parts; ++i) {
        std::memcpy(copy + i * cut.x_ld, x + i * s.x_stride, FloatBytes(s.cin));
      }
    });
    x = copy;
    x_ld = cut.x_ld;
  }
  const int64_t all = cut.groups * cut.column_parts * cut.units;
  if (cut.at_once) {
    ScratchSlots slots(static_cast<std::byte*>(scratch) + CopyBytes(s, cut), SlotBytes(s, cut),
                       ScratchSlots::CountFor(par.threads));
    par.For(cut.tasks, [&](int64_t task) {
      const ScratchSlots::Lease lease(slots);
      for (int64_t i = all * task / cut.tasks; i < all * (task + 1) / cut.tasks; ++i) {
        const int64_t group = i / cut.column_parts, n0 = i % cut.column_parts * cut.column_step;
        const int64_t n1 = std::min(cut.n, n0 + cut.column_step), column = group * cut.n + n0;
        RunAtOnce(s, cut, group, n0, n1, x, x_ld, packed, y, lease.floats());
        prepared.Apply(y + column, s.y_stride, 0, s.OutPixels(), column, n1 - n0);
      }
    });
    return;
  }
  const auto apply = [&](int64_t pixel, int64_t pixels) {
    prepared.Apply(y + pixel * s.y_stride, s.y_stride, pixel, pixels, 0, s.cout);
  };
  par.For(cut.tasks, [&](int64_t task) {
    for (int64_t i = all * task / cut.tasks; i < all * (task + 1) / cut.tasks; ++i) {
      const int64_t unit = i % cut.units, part = i / cut.units % cut.column_parts;
      const int64_t group = i / (cut.units * cut.column_parts);
      const int64_t n0 = part * cut.column_step, n1 = std::min(cut.n, n0 + cut.column_step);
      if (cut.whole) {
        const int64_t image = unit / s.out[1];
        const Line line{image / s.out[0], image % s.out[0], unit % s.out[1]};
        for (int64_t phase = 0; phase < s.stride[2]; ++phase) {
          RunLine(s, cut, 0, n0, n1, phase, line, x, x_ld, packed, y, prepared);
        }
        if (!prepared.InRegisters()) apply(unit * s.out[2], s.out[2]);
      } else if (cut.by_line) {
        // What reads the same input line runs together.
        const int64_t image = unit / (s.stride[2] * s.out[1]);
        const Line line{image / s.out[0], image % s.out[0], unit / s.stride[2] % s.out[1]};
        RunLine(s, cut, group, n0, n1, unit % s.stride[2], line, x, x_ld, packed, y, prepared);
      } else {
        RunLine(s, cut, group, n0, n1, unit / cut.lines, LineByPhase(s, unit % cut.lines), x, x_ld,
                packed, y, prepared);
      }
    }
  });
  if (prepared.InRegisters() || cut.whole) return;
  // Pixels of different remainders lie between each other, so only now are there whole lines.
  const int64_t pixels = s.OutPixels(), tasks = std::min(pixels, cut.tasks);
  par.For(tasks, [&](int64_t task) {
    const int64_t begin = pixels * task / tasks;
    apply(begin, pixels * (task + 1) / tasks - begin);
  });
}

}  // namespace sardonyx
