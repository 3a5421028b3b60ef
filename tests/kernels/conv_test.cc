#include "kernels/conv.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "conv_shape.h"
#include "each_target.h"

namespace sardonyx {
namespace {

ConvShape Transposed(ConvShape s, std::vector<Axis> axes) {
  for (size_t i = 0; i < axes.size(); ++i) {
    const Axis& a = axes[i];  // pad_end less output_padding
    s.out[3 - axes.size() + i] =
        (a.in - 1) * a.stride + (a.kernel - 1) * a.dilation + 1 - a.pad_begin - a.pad_end;
  }
  return s;
}

std::string Text(const ConvShape& s) {
  std::string text = std::to_string(s.batch) + "x" + std::to_string(s.cin) + "->" +
                     std::to_string(s.cout) + " groups " + std::to_string(s.groups);
  for (int i = 0; i < 3; ++i) {
    text += " [" + std::to_string(s.in[i]) + "->" + std::to_string(s.out[i]) + " k" +
            std::to_string(s.kernel[i]) + " s" + std::to_string(s.stride[i]) + " d" +
            std::to_string(s.dilation[i]) + " p" + std::to_string(s.pad_begin[i]) + "]";
  }
  return text;
}

// The sum and the sum of magnitudes of every output, [pixels, cout].
struct Reference {
  std::vector<double> sum, size;
};

Reference Direct(const ConvShape& s, bool transposed, const float* x, const float* w) {
  Reference r;
  r.sum.assign(static_cast<size_t>(s.OutPixels() * s.cout), 0.0);
  r.size = r.sum;
  const int64_t cin_g = s.cin / s.groups, cout_g = s.cout / s.groups, taps = s.KernelSize();
  // A transposed convolution swaps the parts of input and output positions.
  const int64_t* const small = transposed ? s.in : s.out;
  const int64_t* const large = transposed ? s.out : s.in;
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t i = 0; i < small[0] * small[1] * small[2]; ++i) {
      const int64_t o[3] = {i / (small[1] * small[2]), i / small[2] % small[1], i % small[2]};
      for (int64_t t = 0; t < taps; ++t) {
        const int64_t k[3] = {t / (s.kernel[1] * s.kernel[2]), t / s.kernel[2] % s.kernel[1],
                              t % s.kernel[2]};
        int64_t position = 0;
        bool inside = true;
        for (int a = 0; a < 3; ++a) {
          const int64_t p = o[a] * s.stride[a] + k[a] * s.dilation[a] - s.pad_begin[a];
          inside = inside && p >= 0 && p < large[a];
          position = position * large[a] + p;
        }
        if (!inside) continue;
        const int64_t in_pixel = transposed ? n * s.in[0] * s.in[1] * s.in[2] + i
                                            : n * s.in[0] * s.in[1] * s.in[2] + position;
        const int64_t out_pixel = transposed ? n * s.out[0] * s.out[1] * s.out[2] + position
                                             : n * s.out[0] * s.out[1] * s.out[2] + i;
        for (int64_t co = 0; co < s.cout; ++co) {
          const int64_t g = co / cout_g;
          for (int64_t c = 0; c < cin_g; ++c) {
            const float weight = transposed ? w[((g * cin_g + c) * cout_g + co % cout_g) * taps + t]
                                            : w[(co * cin_g + c) * taps + t];
            const double product = static_cast<double>(x[in_pixel * s.x_stride + g * cin_g + c]) *
                                   static_cast<double>(weight);
            r.sum[static_cast<size_t>(out_pixel * s.cout + co)] += product;
            r.size[static_cast<size_t>(out_pixel * s.cout + co)] += std::fabs(product);
          }
        }
      }
    }
  }
  return r;
}

enum class Finish {
  kNone,
  kBiasRelu,
  kResidual,
  kInterpreted,
  kSilu,
  kHardSwish,
  kLargeBias,
  kSiluThenResidual
};
constexpr Finish kFinishes[] = {
    Finish::kNone, Finish::kBiasRelu,  Finish::kResidual,  Finish::kInterpreted,
    Finish::kSilu, Finish::kHardSwish, Finish::kLargeBias, Finish::kSiluThenResidual};

// [batch, pixels, cin] as [batch, cin, pixels].
Floats AsPlanes(const ConvShape& s, const Floats& x) {
  Floats planes(s.InPixels() * s.cin);
  const int64_t pixels = s.InPixels() / s.batch;
  for (int64_t i = 0; i < s.InPixels() * s.cin; ++i) {
    const int64_t image = i / (pixels * s.cin), pixel = i / s.cin % pixels, c = i % s.cin;
    planes[(image * s.cin + c) * pixels + pixel] = x[i];
  }
  return planes;
}

void Check(ConvShape s, ConvAlgorithm algorithm, bool transposed, Finish finish,
           bool strided = false) {
  SCOPED_TRACE(Text(s) + (transposed ? " transposed" : " " + std::string(Name(algorithm))) +
               " epilogue " + std::to_string(static_cast<int>(finish)));
  if (strided) {
    s.x_stride += 5;
    s.y_stride += 3;
  }
  const Floats x = Floats::Random(s.InPixels() * s.x_stride, 1);
  const Floats w = Floats::Random(s.cout * (s.cin / s.groups) * s.KernelSize(), 2);
  const Floats bias = Floats::Random(s.cout, 3);
  if (finish == Finish::kLargeBias) {
    for (int64_t c = 0; c < s.cout; ++c) bias[c] += 700;
  }
  const Floats residual = Floats::Random(s.OutPixels() * (s.cout + 1), 4);
  const Reference reference = Direct(s, transposed, x.get(), w.get());

  const Expression expressions[] = {
      Expression(),
      Expression::Parse("(float, float) add(0,1):float relu(2):float"),
      Expression::Parse("(float, float, float) add(0,1):float add(3,2):float"),
      Expression::Parse("(float, float) add(0,1):float sin(2):float"),
      Expression::Parse("(float, float; 0.5:float, 0.25:float) add(0,1):float sigmoid(4):float "
                        "mul(4,5):float mul(6,2):float add(7,3):float"),
      Expression::Parse("(float, float; 3:float, 0:float, 6:float, 0.0625:float) add(0,1):float "
                        "add(6,2):float max(7,3):float min(8,4):float mul(6,9):float "
                        "mul(10,5):float add(11,5):float"),
      Expression::Parse("(float, float) add(0,1):float"),
      Expression::Parse("(float, float, float; 0.5:float, 0.25:float) add(0,1):float "
                        "sigmoid(5):float mul(5,6):float mul(7,3):float add(8,4):float "
                        "add(2,9):float")};
  const EpilogueOperand operands[2] = {{bias.get(), DType::kFloat32, 0, 1, {0, 0}},
                                       {residual.get(), DType::kFloat32, s.cout + 1, 1, {0, 0}}};
  Epilogue epilogue;
  if (finish != Finish::kNone) epilogue = {&expressions[static_cast<int>(finish)], operands};

  ForEachTarget([&] {
    const size_t packed_bytes =
        transposed ? ConvTransposePackedBytes(s) : ConvPackedBytes(algorithm, s);
    const Floats packed(static_cast<int64_t>(packed_bytes / sizeof(float)));
    if (transposed) {
      ConvTransposePack(s, w.get(), packed.get(), TwoThreads());
    } else {
      ConvPack(algorithm, s, w.get(), packed.get(), TwoThreads());
    }
    ASSERT_TRUE(packed.Intact());
    const Floats y(s.OutPixels() * s.y_stride), y2(s.OutPixels() * s.y_stride);
    for (const bool second : {false, true}) {
      const Parallel par = second ? TwoThreads() : OneThread();
      const size_t scratch_bytes = transposed ? ConvTransposeScratchBytes(s, par.threads)
                                              : ConvScratchBytes(algorithm, s, par.threads);
      const Floats scratch(static_cast<int64_t>(scratch_bytes / sizeof(float)));
      float* const to = second ? y2.get() : y.get();
      if (transposed) {
        ConvTranspose(s, x.get(), packed.get(), to, epilogue, scratch.get(), par);
      } else {
        Conv(algorithm, s, x.get(), packed.get(), to, epilogue, scratch.get(), par);
      }
      ASSERT_TRUE(scratch.Intact());
    }
    EXPECT_TRUE(y.Intact());
    EXPECT_TRUE(y.SameBits(y2)) << "differs between one and two threads";
    if (finish == Finish::kResidual && !transposed && ConvInPlace(algorithm, s)) {
      for (int64_t i = 0; i < s.OutPixels(); ++i) {
        std::copy_n(residual.get() + i * (s.cout + 1), s.cout, y2.get() + i * s.y_stride);
      }
      const EpilogueOperand onto[2] = {operands[0],
                                       {y2.get(), DType::kFloat32, s.y_stride, 1, {0, 0}}};
      const Floats scratch(static_cast<int64_t>(ConvScratchBytes(algorithm, s, 2) / sizeof(float)));
      Conv(algorithm, s, x.get(), packed.get(), y2.get(), {epilogue.expression, onto},
           scratch.get(), TwoThreads());
      EXPECT_TRUE(y.SameBits(y2)) << "differs in place of the residual";
    }
    const auto check = [&](const Floats& sums) {
      const bool winograd = IsWinograd(algorithm);
      // A large bias is added once, to the finished sum: that is rounded, but no step of it.
      const double rounding = finish == Finish::kLargeBias ? std::ldexp(0.5, -14) : 0;
      for (int64_t i = 0; i < s.OutPixels(); ++i) {
        for (int64_t c = 0; c < s.cout; ++c) {
          double wanted = reference.sum[static_cast<size_t>(i * s.cout + c)];
          const double size = reference.size[static_cast<size_t>(i * s.cout + c)];
          if (finish != Finish::kNone) wanted += bias[c];
          if (finish == Finish::kBiasRelu) wanted = std::max(wanted, 0.0);
          if (finish == Finish::kResidual) wanted += residual[i * (s.cout + 1) + c];
          if (finish == Finish::kInterpreted) wanted = std::sin(wanted);
          if (finish == Finish::kSiluThenResidual) {
            wanted = 0.25 + 0.5 * wanted / (1 + std::exp(-wanted));
            wanted += residual[i * (s.cout + 1) + c];
          }
          if (finish == Finish::kSilu) wanted = 0.25 + 0.5 * wanted / (1 + std::exp(-wanted));
          if (finish == Finish::kHardSwish) {
            wanted = (1 + wanted * std::clamp(wanted + 3, 0.0, 6.0)) / 16;
          }
          ASSERT_NEAR(sums[i * s.y_stride + c], wanted,
                      rounding + (winograd ? 4e-6 + 1e-6 * size : 1e-6 + 4e-7 * size))
              << "pixel " << i << " channel " << c;
        }
        for (int64_t c = s.cout; c < s.y_stride; ++c) {
          ASSERT_TRUE(std::isnan(sums[i * s.y_stride + c])) << "wrote beyond pixel " << i;
        }
      }
    };
    if (s.cin <= 16 && !strided && !transposed) {
      const Floats planes = AsPlanes(s, x);
      ConvShape of_planes = s;
      of_planes.x_planes = true;
      const Floats packed_of_planes(
          static_cast<int64_t>(ConvPackedBytes(algorithm, of_planes) / sizeof(float)));
      ConvPack(algorithm, of_planes, w.get(), packed_of_planes.get(), TwoThreads());
      const bool same = ConvPackedForm(algorithm, of_planes) == ConvPackedForm(algorithm, s);
      const Floats y1(s.OutPixels() * s.y_stride);
      for (const int threads : {1, 2}) {
        const Floats scratch(
            static_cast<int64_t>(ConvScratchBytes(algorithm, of_planes, threads) / sizeof(float)));
        const Floats& to = threads == 2 ? y2 : y1;
        std::fill_n(to.get(), s.OutPixels() * s.y_stride, 0.0f);
        Conv(algorithm, of_planes, planes.get(), packed_of_planes.get(), to.get(), epilogue,
             scratch.get(), threads == 2 ? TwoThreads() : OneThread());
        ASSERT_TRUE(scratch.Intact() && to.Intact());
      }
      EXPECT_TRUE(y1.SameBits(y2)) << "differs for planes between one and two threads";
      EXPECT_TRUE(!same || y1.SameBits(y)) << "differs for planes";
      SCOPED_TRACE("of planes");
      check(y1);
    }
    check(y);
  });
}

// Every algorithm that takes the shape, with every kind of epilogue.
void CheckConv(const ConvShape& s) {
  for (int a = 0; a < kConvAlgorithmCount; ++a) {
    const auto algorithm = static_cast<ConvAlgorithm>(a);
    if (!ConvRefusal(algorithm, s).empty()) continue;
    for (const Finish finish : kFinishes) {
      Check(s, algorithm, false, finish, finish == Finish::kResidual);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

void CheckTransposed(const ConvShape& s) {
  for (const Finish finish : kFinishes) {
    Check(s, ConvAlgorithm::kGemm, true, finish, finish == Finish::kResidual);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(Conv, Pointwise) {
  for (const int64_t c : {20, 960}) CheckConv(Shape(1, c, c == 20 ? 30 : 90, {{7}, {9}}));
  CheckConv(Shape(2, 8, 24, {{14}, {14}}));
  CheckConv(Shape(1, 13, 7, {{5, 1, 2}, {6, 1, 3}}));
  CheckConv(Shape(1, 1024, 40, {{3}, {5}}));
  CheckConv(Shape(1, 70, 90, {{40}, {40}}));
}

TEST(Conv, ThreeByThree) {
  for (const int64_t side : {1, 2, 3, 5, 8, 13}) {
    CheckConv(Shape(1, 17, 21, {{side, 3, 1, 1, 1, 1}, {side + 1, 3, 1, 1, 1, 1}}));
  }
  CheckConv(Shape(2, 32, 40, {{12, 3, 1, 1, 1, 1}, {10, 3, 1, 1, 0, 2}}));
  CheckConv(Shape(3, 5, 6, {{9, 3, 1, 1, 2, 0}, {7, 3, 1, 1, 0, 0}}));
  CheckConv(Shape(1, 48, 64, {{57, 3, 1, 1, 1, 1}, {58, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(1, 512, 33, {{6, 3, 1, 1, 1, 1}, {6, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(1, 260, 36, {{33, 3, 1, 1, 1, 1}, {32, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(1, 18, 20, {{11, 3, 2, 1, 1, 1}, {12, 3, 2, 1, 1, 1}}));
  CheckConv(Shape(1, 64, 40, {{29, 3, 2, 1, 0, 1}, {30, 3, 2, 1, 1, 0}}));
  CheckConv(Shape(2, 21, 17, {{2, 3, 2, 1, 2, 2}, {7, 3, 2, 1, 0, 0}}));
  CheckConv(Shape(1, 48, 48, {{14, 3, 2, 1, 1, 1}, {14, 3, 2, 1, 1, 1}}, 2));
  CheckConv(Shape(1, 18, 20, {{11, 3, 1, 2, 2, 2}, {12, 3, 1, 3, 3, 3}}));
}

// Weights that are transformed in each run: some channels, a panel, all at a time.
TEST(Conv, LargeWinogradWeights) {
  const auto check = [](int64_t cin, int64_t cout, int64_t height, int64_t width) {
    Check(Shape(1, cin, cout, {{height, 3, 1, 1, 1, 1}, {width, 3, 1, 1, 1, 1}}),
          ConvAlgorithm::kWinograd4, false, Finish::kBiasRelu, false);
  };
  check(400, 292, 9, 7);
  check(1030, 116, 5, 4);
  check(400, 292, 25, 17);
  check(1200, 100, 28, 28);
  check(230, 130, 33, 31);  // less of them, for many tiles
}

// Weights that are transformed in registers: up to four tiles, whole and cut.
TEST(Conv, WinogradOfFewTiles) {
  for (const int64_t height : {1, 2, 3, 4, 5, 6, 7, 8}) {
    for (const int64_t width : {1, 4, 6, 7, 8, 15}) {
      Check(Shape(1, 19, 64, {{height, 3, 1, 1, 1, 1}, {width, 3, 1, 1, 1, 1}}),
            ConvAlgorithm::kWinograd4, false, Finish::kBiasRelu, false);
    }
  }
  for (const int64_t side : {9, 10, 11, 12, 13, 14, 15, 16}) {
    Check(Shape(1, 21, 48, {{side, 3, 1, 1, 1, 1}, {25 - side, 3, 1, 1, 1, 1}}),
          ConvAlgorithm::kWinograd4, false, Finish::kBiasRelu, false);
    CheckConv(Shape(1, 40, 16, {{side, 3, 1, 1, 1, 1}, {side, 3, 1, 1, 1, 1}}));
  }
  CheckConv(Shape(1, 33, 32, {{50, 3, 1, 1, 1, 1}, {3, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(1, 33, 32, {{2, 3, 1, 1, 1, 1}, {62, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(1, 400, 256, {{14, 3, 1, 1, 1, 1}, {14, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(1, 300, 32, {{7, 3, 1, 1, 1, 1}, {7, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(2, 130, 128, {{8, 3, 1, 1, 1, 1}, {5, 3, 1, 1, 0, 0}}, 2));
  CheckConv(Shape(3, 40, 32, {{3, 3, 1, 1, 1, 1}, {5, 3, 1, 1, 0, 1}}));
}

TEST(Conv, FirstLayers) {
  CheckConv(Shape(1, 3, 16, {{23, 7, 2, 1, 3, 3}, {22, 7, 2, 1, 3, 3}}));
  CheckConv(Shape(1, 1, 9, {{9, 3, 1, 1, 1, 1}, {30, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(2, 3, 20, {{16, 4, 4}, {16, 4, 4}}));
  CheckConv(Shape(1, 3, 16, {{23, 7, 2, 1, 3, 3}, {40, 7, 2, 1, 3, 3}}));
  CheckConv(Shape(2, 5, 9, {{6, 3, 1, 3, 4, 4}, {20, 5, 1, 1, 4, 3}}));
  CheckConv(Shape(1, 90, 20, {{14, 3, 2, 1, 1, 1}, {31, 3, 2, 1, 2, 0}}));
}

// Kernels of 3 or 4 steps of the stride.
TEST(Conv, PhasesOfFewChannels) {
  CheckConv(Shape(2, 3, 70, {{29, 7, 2, 1, 3, 3}, {31, 7, 2, 1, 3, 2}}));
  CheckConv(Shape(1, 3, 20, {{40, 11, 4, 1, 2, 2}, {37, 11, 4, 1, 2, 2}}));
  CheckConv(Shape(1, 4, 33, {{15, 8, 2, 1, 3, 3}, {14, 8, 2, 1, 0, 0}}));
  CheckConv(Shape(1, 5, 17, {{12, 6, 2, 1, 2, 2}, {13, 5, 2, 1, 2, 2}}));
  CheckConv(Shape(2, 2, 9, {{20, 4, 1, 1, 1, 1}, {9, 4, 1, 1, 0, 3}}));
  CheckConv(Shape(1, 1, 21, {{31, 12, 3, 1, 5, 5}, {50, 10, 3, 1, 4, 4}}));
  CheckConv(Shape(1, 16, 40, {{19, 5, 2, 1, 2, 2}, {20, 6, 2, 1, 2, 2}}));
  CheckConv(Shape(1, 1, 5, {{40, 24, 8, 1, 9, 9}, {60, 24, 8, 1, 9, 9}}));
  CheckConv(Shape(3, 3, 16, {{2, 7, 2, 1, 3, 3}, {1, 7, 2, 1, 3, 3}}));
  CheckConv(Shape(1, 16, 16, {{13, 3, 1, 1, 1, 1}, {12, 3, 1, 1, 1, 1}}));
}

// Kernels 3 or 4 pixels wide over few channels: runs of 32 strips and what is left, lines that
// repeat, of which some are skipped, and that lie outside.
TEST(Conv, StripsOfFewChannels) {
  CheckConv(Shape(2, 3, 16, {{9, 3, 1, 1, 1, 1}, {131, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(1, 3, 35, {{33, 3, 1, 1, 1, 1}, {16, 3, 1, 1, 0, 0}}));
  CheckConv(Shape(1, 1, 7, {{12, 4, 2, 1, 1, 2}, {21, 4, 1, 1, 1, 2}}));
  CheckConv(Shape(1, 2, 20, {{11, 2, 1, 3, 4, 1}, {30, 3, 1, 1, 2, 2}}));
  CheckConv(Shape(3, 5, 18, {{1}, {200, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(1, 13, 33, {{5, 5, 3, 2, 6, 5}, {10, 3, 1, 1, 1, 0}}));
  CheckConv(Shape(1, 4, 16, {{40, 1, 4}, {5, 4, 1, 1, 3, 3}}));
}

TEST(Conv, FiveByFive) {
  CheckConv(Shape(1, 20, 24, {{13, 5, 1, 1, 2, 2}, {14, 5, 1, 1, 2, 2}}));
  CheckConv(Shape(2, 33, 70, {{8, 5, 1, 1, 1, 3}, {9, 5, 1, 1, 0, 0}}));
  CheckConv(Shape(1, 32, 40, {{1, 5, 1, 1, 2, 2}, {27, 5, 1, 1, 2, 2}}, 2));
  for (const int64_t side : {3, 5, 6, 8, 9, 14}) {
    CheckConv(Shape(1, 17, 21, {{side, 5, 2, 1, 2, 2}, {side + 2, 5, 2, 1, 1, 2}}));
  }
  CheckConv(Shape(2, 40, 70, {{21, 5, 2, 1, 0, 0}, {24, 5, 2, 1, 3, 1}}));
  CheckConv(Shape(1, 34, 40, {{7, 5, 2, 1, 2, 2}, {26, 5, 2, 1, 2, 2}}, 2));
}

// Winograd in the last two dimensions, the direct sum over the first.
TEST(Conv, Volumes) {
  const Axis whole = {9, 3, 1, 1, 1, 1}, odd = {11, 3, 1, 1, 1, 1};
  CheckConv(Shape(1, 17, 21, {{5, 3, 1, 1, 1, 1}, whole, odd}));
  CheckConv(Shape(2, 20, 40, {{4, 3, 2, 1, 1, 0}, odd, {8, 3, 1, 1, 0, 2}}));
  CheckConv(Shape(1, 16, 16, {{7, 2, 1, 3, 2, 4}, whole, whole}));
  CheckConv(Shape(2, 18, 33, {{3}, odd, whole}));
  CheckConv(Shape(1, 16, 48, {{6, 1, 2, 1, 1, 1}, whole, whole}, 2));
  CheckConv(Shape(1, 20, 24, {{2, 5, 1, 1, 2, 2}, {7, 5, 1, 1, 2, 2}, {8, 5, 1, 1, 2, 2}}));
  CheckConv(Shape(1, 24, 20, {{4, 3, 2, 1, 1, 1}, {9, 3, 2, 1, 1, 1}, {14, 3, 2, 1, 1, 1}}));
  CheckConv(Shape(1, 171, 32, {{2, 3, 1, 1, 1, 1}, {4, 3, 1, 1, 1, 1}, {5, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(1, 3, 16, {{4, 3, 1, 1, 1, 1}, odd, {23, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(2, 1, 9, {{5, 3, 2, 2, 1, 2}, {6, 3, 2, 2, 1, 1}, {30, 3, 2, 1, 1, 1}}));
  Check(Shape(1, 340, 128, {{2, 3, 1, 1, 1, 1}, {16, 3, 1, 1, 1, 1}, {17, 3, 1, 1, 1, 1}}),
        ConvAlgorithm::kWinograd4, false, Finish::kBiasRelu, false);
}

// Winograd along one axis: segments of 3 or 4 taps, dilated, with rows of the kernel before it and
// pixels of other axes behind.
TEST(Conv, Lines) {
  for (const int64_t taps : {3, 4, 5, 7, 8, 11}) {
    for (const int64_t length : {1, 6, 47, 230}) {
      CheckConv(Shape(1, 17, 21, {{length, taps, 1, 1, taps / 2, taps / 2}}));
      CheckConv(Shape(2, 20, 70, {{length, taps, 1, 3, 3 * taps, taps}}));
    }
  }
  CheckConv(Shape(1, 130, 40, {{29, 16, 1, 1, 7, 8}}));
  CheckConv(Shape(1, 18, 33, {{9, 3, 1, 2, 2, 2}, {31, 3, 1, 2, 2, 2}}));
  CheckConv(Shape(1, 18, 33, {{11, 7, 1, 1, 3, 3}, {12}}));
  CheckConv(Shape(2, 18, 16, {{5, 3, 2, 1, 1, 1}, {11, 3, 1, 2, 2, 0}, {6}}));
  CheckConv(Shape(2, 18, 16, {{10, 3, 1, 2, 2, 2}, {7}, {6}}));
  CheckConv(Shape(1, 16, 20, {{5, 2, 1, 2, 1, 0}, {4, 3, 2, 1, 1, 1}, {21, 4, 1, 5, 6, 3}}));
}

TEST(Conv, OddKernels) {
  CheckConv(Shape(1, 6, 10, {{9, 1, 1, 1, 0, 0}, {12, 7, 1, 1, 3, 3}}));
  CheckConv(Shape(1, 6, 10, {{9, 2, 1, 1, 0, 1}, {12, 4, 3, 2, 5, 1}}));
  CheckConv(Shape(1, 4, 4, {{2, 5, 1, 1, 4, 4}, {2, 5, 1, 1, 4, 4}}));
}

TEST(Conv, OneAndThreeDimensions) {
  CheckConv(Shape(2, 10, 12, {{50, 5, 2, 1, 2, 2}}));
  CheckConv(Shape(1, 7, 9, {{20, 3, 1, 4, 4, 4}}));
  CheckConv(Shape(1, 5, 6, {{5, 3, 1, 1, 1, 1}, {6, 3, 2, 1, 1, 1}, {7, 3, 1, 2, 2, 2}}));
  CheckConv(Shape(1, 6, 6, {{5, 3, 1, 1, 1, 1}, {6, 3, 2, 1, 1, 1}, {7, 3, 1, 2, 2, 2}}, 6));
  CheckConv(Shape(1, 40, 40, {{100, 9, 1, 1, 4, 4}}, 40));
}

TEST(Conv, Groups) {
  CheckConv(Shape(1, 24, 36, {{6, 3, 1, 1, 1, 1}, {7, 3, 1, 1, 1, 1}}, 4));
  CheckConv(Shape(1, 12, 24, {{6, 3, 1, 1, 1, 1}, {7, 3, 1, 1, 1, 1}}, 12));
  CheckConv(Shape(2, 32, 32, {{5}, {6}}, 2));
  CheckConv(Shape(1, 38, 74, {{12, 3, 1, 1, 1, 1}, {13, 3, 1, 1, 1, 1}}, 2));
  CheckConv(Shape(1, 400, 80, {{9, 3, 1, 1, 1, 1}, {9, 3, 1, 1, 1, 1}}, 2));
  // Windows that lie one behind the other.
  CheckConv(Shape(2, 68, 272, {{9}, {40, 4, 4}}, 4));
  CheckConv(Shape(1, 34, 68, {{5}, {21, 2, 3}}, 2));
  CheckConv(Shape(1, 600, 40, {{3}, {20, 2, 2}}, 2));
}

TEST(Conv, Depthwise) {
  for (const int64_t channels : {1, 3, 8, 19, 32, 61, 96}) {
    CheckConv(Shape(1, channels, channels, {{9, 3, 1, 1, 1, 1}, {11, 3, 1, 1, 1, 1}}, channels));
  }
  for (const int64_t stride : {1, 2, 3}) {
    CheckConv(Shape(2, 40, 40, {{13, 5, stride, 1, 2, 2}, {14, 5, stride, 1, 2, 2}}, 40));
    CheckConv(Shape(1, 40, 40, {{9, 7, stride, 1, 3, 3}, {5, 7, stride, 1, 3, 3}}, 40));
    CheckConv(Shape(1, 24, 24, {{9, 3, stride, 2, 2, 2}, {15, 3, stride, 2, 0, 0}}, 24));
  }
  CheckConv(Shape(1, 48, 48, {{64, 3, 1, 1, 1, 1}, {64, 3, 1, 1, 1, 1}}, 48));
  // Phases of a dilated line, some without an input or an output.
  for (const int64_t channels : {16, 24, 40}) {
    for (const int64_t dilation : {2, 3, 9}) {
      const Axis lines = {7, 3, 1, dilation, dilation, dilation};
      for (const int64_t kernel : {3, 5, 7}) {
        const int64_t pad = kernel / 2 * dilation;
        const Axis pixels = {17, kernel, 1, dilation, pad, pad - 1};
        CheckConv(Shape(2, channels, channels, {lines, pixels}, channels));
        const Axis shifted = {21, kernel, 1, dilation, 1, 2 * pad + 5};
        CheckConv(Shape(1, channels, channels, {lines, shifted}, channels));
      }
      const Axis few = {2, 3, 1, dilation, 2 * dilation + 1, dilation};
      CheckConv(Shape(1, channels, channels, {lines, few}, channels));
    }
  }
  // Two lines at a time.
  for (const int64_t channels : {16, 24, 40}) {
    CheckConv(Shape(2, channels, channels, {{7, 3, 1, 1, 1, 1}, {7, 3, 1, 1, 1, 1}}, channels));
    CheckConv(Shape(1, channels, channels, {{2, 3, 1, 1, 1, 1}, {14, 3, 1, 1, 1, 1}}, channels));
    CheckConv(Shape(1, channels, channels, {{8, 3, 1, 1, 0, 0}, {13, 3, 1, 1, 0, 1}}, channels));
    CheckConv(Shape(2, channels, channels, {{14, 3, 2, 1, 1, 1}, {14, 3, 2, 1, 1, 1}}, channels));
    CheckConv(Shape(1, channels, channels, {{13, 3, 2, 1, 1, 1}, {15, 3, 2, 1, 1, 1}}, channels));
    CheckConv(Shape(1, channels, channels, {{16, 3, 2, 1, 0, 1}, {16, 3, 2, 1, 0, 1}}, channels));
    CheckConv(Shape(2, channels, channels, {{7, 5, 1, 1, 2, 2}, {7, 5, 1, 1, 2, 2}}, channels));
    CheckConv(Shape(1, channels, channels, {{2, 5, 1, 1, 2, 2}, {19, 5, 1, 1, 2, 2}}, channels));
    CheckConv(Shape(1, channels, channels, {{9, 5, 1, 1, 0, 1}, {12, 5, 1, 1, 1, 0}}, channels));
    CheckConv(Shape(2, channels, channels, {{9, 3, 2, 1, 1, 1}, {14, 3, 1, 1, 1, 1}}, channels));
    CheckConv(Shape(1, channels, channels, {{8, 3, 1, 1, 1, 1}, {27, 3, 2, 1, 1, 0}}, channels));
    CheckConv(Shape(2, channels, channels, {{9, 5, 2, 1, 2, 2}, {7, 5, 1, 1, 2, 2}}, channels));
    CheckConv(Shape(1, channels, channels, {{12, 5, 2, 1, 1, 2}, {19, 5, 1, 1, 2, 2}}, channels));
  }
  CheckConv(Shape(1, 104, 104, {{6, 5, 1, 1, 2, 2}, {83, 5, 1, 1, 2, 2}}, 104));
  for (const int64_t channels : {16, 20, 70}) {
    CheckConv(Shape(1, channels, channels, {{2, 7, 1, 1, 3, 3}, {8, 7, 1, 1, 3, 3}}, channels));
    CheckConv(Shape(2, channels, channels, {{7, 7, 1, 1, 3, 3}, {7, 7, 1, 1, 3, 3}}, channels));
    CheckConv(Shape(1, channels, channels, {{9, 7, 1, 1, 0, 2}, {19, 7, 1, 1, 1, 3}}, channels));
  }
  CheckConv(Shape(1, 16, 16, {{1, 9, 1, 1, 4, 4}, {2, 9, 1, 1, 4, 4}}, 16));
}

TEST(Conv, GroupsOfTwoAndFour) {
  for (const int64_t groups : {1, 3, 7, 10, 16}) {
    for (const int64_t group : {2, 4}) {
      const int64_t channels = groups * group;
      CheckConv(Shape(2, channels, channels, {{9, 3, 1, 1, 1, 1}, {11, 3, 1, 1, 1, 1}}, groups));
      CheckConv(Shape(1, channels, channels, {{9, 2, 2, 1, 0, 1}, {12, 5, 2, 2, 4, 3}}, groups));
    }
  }
  EXPECT_EQ(ChooseConv(Shape(1, 128, 128, {{9, 3}, {9, 3}}, 32)), ConvAlgorithm::kDepthwise);
}

TEST(Conv, FewLongLines) {
  // Lines are cut where they are fewer than tasks.
  CheckConv(Shape(1, 64, 64, {{1500, 3}}));
  CheckConv(Shape(1, 24, 72, {{2001, 5, 1, 1, 2, 2}}));
  CheckConv(Shape(2, 33, 40, {{2000, 4, 2, 1, 1, 2}}));
  CheckConv(Shape(1, 16, 32, {{3, 3, 1, 1, 1, 1}, {701, 5, 1, 1, 2, 2}}));
  // Threads share them.
  for (const int64_t width : {80, 97}) {
    CheckConv(Shape(1, 200, 110, {{3}, {width}}));
    CheckConv(Shape(1, 130, 24, {{12}, {width}}));
    CheckConv(Shape(1, 80, 80, {{5, 5, 1, 1, 2, 2}, {width, 5, 1, 1, 2, 2}}, 80));
    CheckConv(Shape(1, 72, 72, {{13, 3, 2, 1, 1, 1}, {width, 3, 1, 1, 1, 1}}, 72));
  }
}

TEST(Conv, Planes) {  // Check compares them with pixels
  for (const int64_t cin : {2, 3, 4}) {
    CheckConv(Shape(2, cin, 24, {{33, 3, 2, 1, 1, 0}, {40, 3, 2, 1, 0, 1}}));
    CheckConv(Shape(1, cin, 17, {{40, 3, 1, 1, 1, 1}, {37, 3, 1, 1, 1, 1}}));
    CheckConv(Shape(1, cin, 16, {{60, 7, 2, 1, 3, 3}, {50, 7, 2, 1, 3, 3}}));
    CheckConv(Shape(2, cin, 24, {{16, 4, 4}, {52, 4, 4}}));
    CheckConv(Shape(1, cin, 8, {{9, 3, 1, 2, 2, 2}, {30, 3, 1, 2, 2, 2}}));
  }
  CheckConv(Shape(2, 3, 16, {{5, 3, 1, 1, 1, 1}, {6, 3, 1, 1, 1, 1}, {17, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(2, 4, 16, {{401, 5, 1, 1, 2, 2}}));
}

TEST(Conv, FewPixelsManyChannels) {
  CheckConv(Shape(1, 96, 640, {{7, 3, 1, 1, 1, 1}, {7, 3, 1, 1, 1, 1}}));
  CheckConv(Shape(1, 96, 640, {{7, 3, 2, 1, 1, 1}, {7, 3, 2, 1, 1, 1}}));
  // Of which the last part of the rows would have few.
  CheckConv(Shape(1, 960, 150, {{7}, {7}}));
  CheckConv(Shape(1, 960, 150, {{6}, {7}}));  // 7 to a part would be summed in another order
  CheckConv(Shape(1, 300, 90, {{31}, {31}}));
  CheckConv(Shape(1, 700, 130, {{11}, {15}}));
}

TEST(ConvTranspose, KernelEqualsStride) {
  const std::vector<Axis> axes = {{5, 2, 2}, {7, 2, 2}};
  CheckTransposed(Transposed(Shape(2, 20, 30, axes), axes));
  CheckTransposed(Transposed(Shape(1, 1024, 40, axes), axes));
  CheckTransposed(Transposed(Shape(1, 700, 140, axes), axes));
}

TEST(ConvTranspose, Depthwise) {
  for (const int64_t channels : {2, 7, 24, 37}) {
    const std::vector<Axis> two = {{5, 4, 2, 1, 1, 1}, {6, 4, 2, 1, 1, 1}};
    CheckTransposed(Transposed(Shape(2, channels, channels, two, channels), two));
    const std::vector<Axis> sparse = {{4, 2, 5}, {7, 3, 1, 2, 2, 1}};
    CheckTransposed(Transposed(Shape(1, channels, channels, sparse, channels), sparse));
  }
}

TEST(ConvTranspose, Overlapping) {
  const std::vector<Axis> two = {{5, 4, 2, 1, 1, 1}, {6, 4, 2, 1, 1, 1}};
  CheckTransposed(Transposed(Shape(1, 12, 10, two), two));
  CheckTransposed(Transposed(Shape(2, 12, 10, two, 2), two));
  const std::vector<Axis> padded = {{5, 3, 2, 1, 1, 0}, {6, 3, 2, 1, 0, -1}};
  CheckTransposed(Transposed(Shape(1, 9, 33, padded), padded));
  const std::vector<Axis> dilated = {{5, 3, 1, 2, 2, 1}, {6, 3, 3, 2, 1, 4}};
  CheckTransposed(Transposed(Shape(1, 9, 12, dilated, 3), dilated));
  const std::vector<Axis> sparse = {{4, 2, 5}, {3, 1, 4}};
  CheckTransposed(Transposed(Shape(1, 9, 12, sparse), sparse));
  const std::vector<Axis> one = {{20, 5, 3, 1, 2, 2}};
  CheckTransposed(Transposed(Shape(2, 9, 12, one), one));
  const std::vector<Axis> three = {{3, 3, 2, 1, 1, 1}, {4, 2, 2}, {5, 3, 1, 1, 1, 1}};
  CheckTransposed(Transposed(Shape(1, 6, 8, three), three));
}

TEST(ConvTranspose, ToFewChannels) {
  const std::vector<Axis> cases[] = {
      {{5, 4, 2, 1, 1, 1}, {6, 4, 2, 1, 1, 1}},
      {{45, 4, 2, 1, 1, 1}, {33, 4, 2, 1, 1, 1}},
      {{5, 3, 2, 1, 1, 0}, {6, 3, 2, 1, 0, -1}},
      {{5, 3, 1, 2, 2, 1}, {6, 3, 3, 2, 1, 4}},
      {{4, 2, 5}, {3, 1, 4}},
      {{30, 2, 2}, {41, 2, 2}},
      {{3, 2, 1, 1, 0, -5}, {2, 5, 2, 1, 2, 2}},
      {{150, 16, 8, 1, 4, 4}},
      {{1, 3, 1, 1, 1, 1}, {70, 3, 1, 1, 1, 1}},
      {{60, 1, 2}, {3, 7, 1, 1, 3, 3}},
  };
  for (const std::vector<Axis>& axes : cases) {
    for (const int64_t cout : {1, 3, 4}) {
      CheckTransposed(Transposed(Shape(2, 12, cout, axes), axes));
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  CheckTransposed(Transposed(Shape(1, 900, 2, cases[0]), cases[0]));
}

TEST(Conv, NotANumberPassesThroughClamp) {
  const Expression relu = Expression::Parse("(float) relu(0):float");
  for (const int64_t groups : {1, 12}) {
    const ConvShape s = Shape(1, 12, 12, {{9, 3, 1, 1, 1, 1}, {9, 3, 1, 1, 1, 1}}, groups);
    const Floats x = Floats::Random(s.InPixels() * s.cin, 1);
    const Floats w = Floats::Random(s.cout * s.cin / groups * 9, 2);
    x[40 * 12] = std::numeric_limits<float>::quiet_NaN();
    for (int a = 0; a < kConvAlgorithmCount; ++a) {
      const auto algorithm = static_cast<ConvAlgorithm>(a);
      if (!ConvRefusal(algorithm, s).empty()) continue;
      SCOPED_TRACE(std::string(Name(algorithm)) + " groups " + std::to_string(groups));
      ForEachTarget([&] {
        const Floats packed(static_cast<int64_t>(ConvPackedBytes(algorithm, s) / sizeof(float)));
        const Floats scratch(
            static_cast<int64_t>(ConvScratchBytes(algorithm, s, 1) / sizeof(float)));
        const Floats y(s.OutPixels() * s.cout);
        ConvPack(algorithm, s, w.get(), packed.get(), OneThread());
        Conv(algorithm, s, x.get(), packed.get(), y.get(), {&relu, nullptr}, scratch.get(),
             OneThread());
        for (const int64_t pixel : {30, 40, 50}) {
          EXPECT_TRUE(std::isnan(y[pixel * s.cout])) << "pixel " << pixel;
        }
      });
    }
  }
}

}  // namespace
}  // namespace sardonyx
