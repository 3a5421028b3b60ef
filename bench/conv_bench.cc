// Convolution layers of ResNet-50, MobileNetV2, EfficientNet-B0, ConvNeXt-T, RegNet, ResNeXt,
// U-Net, a text detector, and of networks over volumes and video, by every algorithm that takes
// them. GFLOP/s count the direct sum's operations, so Winograd may go beyond the peak.

#include <string>

#include "kernel_bench.h"
#include "kernels/conv.h"

namespace sardonyx {
namespace {

struct Layer {
  const char* model;
  int64_t cin, side, cout, kernel, stride, pad, groups;
  bool transposed = false;
  int64_t depth = 1;  // pixels of a third dimension, in which the kernel is as large
  int64_t dilation = 1;
  bool line = false;  // of one dimension
};

constexpr Layer kLayers[] = {
    {"resnet50", 3, 224, 64, 7, 2, 3, 1},
    {"two_conv", 3, 128, 16, 3, 1, 1, 1},
    {"two_conv", 16, 128, 8, 3, 2, 1, 1},
    {"two_conv", 3, 128, 8, 3, 1, 1, 1},
    {"resnet50", 64, 56, 64, 1, 1, 0, 1},
    {"resnet50", 64, 56, 64, 3, 1, 1, 1},
    {"resnet50", 64, 56, 256, 1, 1, 0, 1},
    {"resnet50", 256, 56, 64, 1, 1, 0, 1},
    {"resnet50", 128, 56, 128, 3, 2, 1, 1},
    {"resnet50", 128, 28, 128, 3, 1, 1, 1},
    {"resnet50", 128, 28, 512, 1, 1, 0, 1},
    {"resnet50", 256, 56, 512, 1, 2, 0, 1},
    {"resnet50", 256, 14, 256, 3, 1, 1, 1},
    {"resnet50", 256, 14, 1024, 1, 1, 0, 1},
    {"resnet50", 1024, 14, 256, 1, 1, 0, 1},
    {"resnet50", 256, 28, 256, 3, 2, 1, 1},
    {"resnet50", 512, 14, 512, 3, 2, 1, 1},
    {"resnet50", 512, 7, 512, 3, 1, 1, 1},
    {"resnet50", 512, 7, 2048, 1, 1, 0, 1},
    {"resnet50", 2048, 7, 512, 1, 1, 0, 1},
    {"alexnet", 3, 224, 64, 11, 4, 2, 1},
    {"alexnet", 96, 26, 256, 5, 1, 2, 2},
    {"zfnet", 3, 224, 96, 7, 2, 1, 1},
    {"zfnet", 96, 54, 256, 5, 2, 0, 1},
    {"googlenet", 16, 28, 32, 5, 1, 2, 1},
    {"googlenet", 32, 14, 128, 5, 1, 2, 1},
    {"mobilenet", 3, 224, 32, 3, 2, 1, 1},
    {"mobilenet", 32, 112, 32, 3, 1, 1, 32},
    {"mobilenet", 32, 112, 16, 1, 1, 0, 1},
    {"mobilenet", 16, 112, 96, 1, 1, 0, 1},
    {"mobilenet", 96, 112, 96, 3, 2, 1, 96},
    {"mobilenet", 96, 56, 24, 1, 1, 0, 1},
    {"mobilenet", 24, 56, 144, 1, 1, 0, 1},
    {"mobilenet", 144, 56, 144, 3, 1, 1, 144},
    {"mobilenet", 192, 28, 192, 3, 1, 1, 192},
    {"mobilenet", 192, 28, 32, 1, 1, 0, 1},
    {"mobilenet", 384, 14, 384, 3, 1, 1, 384},
    {"mobilenet", 576, 14, 96, 1, 1, 0, 1},
    {"mobilenet", 960, 7, 960, 3, 1, 1, 960},
    {"mobilenet", 960, 7, 160, 1, 1, 0, 1},
    {"mobilenet", 320, 7, 1280, 1, 1, 0, 1},
    {"efficientnet", 144, 56, 144, 5, 2, 2, 144},
    {"efficientnet", 240, 28, 240, 5, 1, 2, 240},
    {"efficientnet", 672, 14, 672, 5, 1, 2, 672},
    {"efficientnet", 1152, 7, 1152, 5, 1, 2, 1152},
    {"convnext", 3, 224, 96, 4, 4, 0, 1},
    {"convnext", 96, 56, 96, 7, 1, 3, 96},
    {"convnext", 192, 28, 192, 7, 1, 3, 192},
    {"convnext", 384, 14, 384, 7, 1, 3, 384},
    {"convnext", 768, 7, 768, 7, 1, 3, 768},
    {"convmixer", 768, 32, 768, 7, 1, 3, 768},
    {"convmixer", 1536, 32, 1536, 9, 1, 4, 1536},
    {"edgenext", 304, 8, 304, 9, 1, 4, 304},
    {"replknet", 256, 14, 256, 13, 1, 6, 256},
    {"regnet", 48, 112, 48, 3, 2, 1, 6},
    {"regnet", 104, 28, 104, 3, 1, 1, 13},
    {"regnet", 208, 14, 208, 3, 1, 1, 26},
    {"regnet", 440, 7, 440, 3, 1, 1, 55},
    {"regnet", 216, 56, 216, 3, 2, 1, 9},
    {"regnet", 216, 28, 216, 3, 1, 1, 9},
    {"regnet", 192, 28, 192, 3, 1, 1, 4},
    {"resnext", 128, 56, 128, 3, 1, 1, 32},
    {"resnext", 256, 56, 256, 3, 2, 1, 32},
    {"resnext", 256, 28, 256, 3, 1, 1, 32},
    {"resnext", 512, 28, 512, 3, 2, 1, 32},
    {"resnext", 512, 14, 512, 3, 1, 1, 32},
    {"resnext", 1024, 14, 1024, 3, 2, 1, 32},
    {"resnext", 1024, 7, 1024, 3, 1, 1, 32},
    {"unet", 3, 256, 64, 3, 1, 1, 1},
    {"unet", 64, 256, 64, 3, 1, 1, 1},
    {"unet", 128, 256, 64, 3, 1, 1, 1},
    {"unet", 128, 128, 128, 3, 1, 1, 1},
    {"unet", 256, 64, 256, 3, 1, 1, 1},
    {"unet", 512, 32, 512, 3, 1, 1, 1},
    {"unet", 512, 16, 1024, 3, 1, 1, 1},
    {"unet", 1024, 16, 512, 2, 2, 0, 1, true},
    {"unet", 128, 128, 64, 2, 2, 0, 1, true},
    {"detection", 16, 120, 16, 3, 1, 1, 1},
    {"detection", 96, 120, 24, 3, 1, 1, 1},
    {"detection", 24, 120, 24, 2, 2, 0, 1, true},
    {"detection", 24, 360, 1, 2, 2, 0, 1, true},
    {"detection", 96, 60, 96, 9, 1, 4, 1},
    {"generator", 64, 64, 3, 4, 2, 1, 1, true},
    {"generator", 128, 64, 8, 3, 2, 1, 1, true},
    {"video", 3, 112, 64, 3, 1, 1, 1, false, 16},
    {"video", 64, 28, 64, 3, 1, 1, 1, false, 8},
    {"video", 64, 28, 128, 3, 2, 1, 1, false, 8},
    {"video", 256, 14, 256, 3, 1, 1, 1, false, 4},
    {"video", 512, 7, 512, 3, 1, 1, 1, false, 2},
    {"volume", 1, 64, 32, 3, 1, 1, 1, false, 64},
    {"volume", 32, 64, 32, 3, 1, 1, 1, false, 64},
    {"volume", 128, 16, 128, 3, 1, 1, 1, false, 16},
    {"volume", 320, 4, 320, 3, 1, 1, 1, false, 4},
    {"atrous", 256, 28, 256, 3, 1, 2, 1, false, 1, 2},
    {"audio", 256, 400, 256, 3, 1, 1, 1, false, 1, 1, true},
    {"audio", 128, 200, 128, 11, 1, 25, 1, false, 1, 5, true},
    {"audio", 128, 200, 128, 7, 1, 3, 1, false, 1, 1, true},
    {"audio", 64, 800, 64, 3, 1, 1, 1, false, 1, 1, true},
    {"audio", 32, 3200, 32, 7, 1, 3, 1, false, 1, 1, true},
    {"audio", 16, 12800, 16, 11, 1, 5, 1, false, 1, 1, true},
    {"audio", 16, 12800, 16, 3, 1, 3, 1, false, 1, 3, true},
    {"audio", 512, 50, 512, 7, 1, 3, 1, false, 1, 1, true},
    {"audio", 512, 12, 512, 7, 1, 3, 1, false, 1, 1, true},
    {"conformer", 512, 200, 512, 31, 1, 15, 512, false, 1, 1, true},
    {"conformer", 256, 200, 256, 15, 1, 7, 256, false, 1, 1, true},
    {"conformer", 256, 200, 256, 32, 1, 16, 256, false, 1, 1, true},
    {"mamba", 1536, 128, 1536, 4, 1, 3, 1536, false, 1, 1, true},
};

ConvShape ShapeOf(const Layer& layer) {
  ConvShape s;
  s.cin = s.x_stride = layer.cin;
  s.cout = s.y_stride = layer.cout;
  s.groups = layer.groups;
  for (int i = layer.depth > 1 ? 0 : layer.line ? 2 : 1; i < 3; ++i) {
    s.in[i] = i == 0 ? layer.depth : layer.side;
    s.kernel[i] = layer.kernel;
    s.stride[i] = layer.stride;
    s.dilation[i] = layer.dilation;
    s.pad_begin[i] = layer.pad;
    s.out[i] =
        layer.transposed
            ? (s.in[i] - 1) * layer.stride + layer.kernel - 2 * layer.pad
            : (s.in[i] + 2 * layer.pad - (layer.kernel - 1) * layer.dilation - 1) / layer.stride +
                  1;
  }
  return s;
}

void BM_Conv(benchmark::State& state, const Layer& layer, ConvAlgorithm algorithm) {
  ApplyTargetFromEnvironment();
  const ConvShape s = ShapeOf(layer);
  const Parallel par = Threads(static_cast<int>(state.range(0)));
  const bool t = layer.transposed;
  const AlignedFloats x = RandomFloats(s.InPixels() * s.cin);
  const AlignedFloats y = RandomFloats(s.OutPixels() * s.cout);
  const AlignedFloats packed = RandomFloats(static_cast<int64_t>(
      (t ? ConvTransposePackedBytes(s) : ConvPackedBytes(algorithm, s)) / sizeof(float)));
  const AlignedFloats scratch =
      RandomFloats(static_cast<int64_t>((t ? ConvTransposeScratchBytes(s, par.threads)
                                           : ConvScratchBytes(algorithm, s, par.threads)) /
                                        sizeof(float)));
  for (auto _ : state) {
    if (t) {
      ConvTranspose(s, x.get(), packed.get(), y.get(), {}, scratch.get(), par);
    } else {
      Conv(algorithm, s, x.get(), packed.get(), y.get(), {}, scratch.get(), par);
    }
    benchmark::ClobberMemory();
  }
  const double flops = t ? 2.0 * static_cast<double>(s.InPixels() * s.KernelSize() * s.cin * s.cout)
                         : static_cast<double>(s.Flops());
  ReportFlops(state, flops, par.threads);
}

const bool kRegistered = [] {
  for (const Layer& layer : kLayers) {
    const ConvShape s = ShapeOf(layer);
    for (int a = 0; a < kConvAlgorithmCount; ++a) {
      const auto algorithm = static_cast<ConvAlgorithm>(a);
      if (layer.transposed ? a > 0 : !ConvRefusal(algorithm, s).empty()) continue;
      if (algorithm == ConvAlgorithm::kGemm && layer.groups == layer.cin) continue;
      const bool chosen = layer.transposed || ChooseConv(s) == algorithm;
      const std::string name = std::string(layer.model) + "/" + std::to_string(layer.cin) + "x" +
                               std::to_string(layer.side) + "/" + std::to_string(layer.cout) + "k" +
                               std::to_string(layer.kernel) + "s" + std::to_string(layer.stride) +
                               "/" + (layer.transposed ? "transposed" : Name(algorithm).data()) +
                               (chosen ? "*" : "");
      benchmark::RegisterBenchmark(name.c_str(), BM_Conv, layer, algorithm)
          ->ArgName("threads")
          ->Arg(1)
          ->Arg(2)
          ->UseRealTime()
          ->Unit(benchmark::kMicrosecond);
    }
  }
  return true;
}();

}  // namespace
}  // namespace sardonyx
