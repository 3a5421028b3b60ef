#include "conv_check.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "each_target.h"

namespace sardonyx {
namespace {

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

constexpr Finish kFinishes[] = {
    Finish::kNone, Finish::kBiasRelu,  Finish::kResidual,  Finish::kInterpreted,
    Finish::kSilu, Finish::kHardSwish, Finish::kLargeBias, Finish::kSiluThenResidual};

}  // namespace

ConvSums DirectConv(const ConvShape& s, bool transposed, const float* x, const float* w) {
  ConvSums r;
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

Floats AsPlanes(const ConvShape& s, const Floats& x) {
  Floats planes(s.InPixels() * s.cin);
  const int64_t pixels = s.InPixels() / s.batch;
  for (int64_t i = 0; i < s.InPixels() * s.cin; ++i) {
    const int64_t image = i / (pixels * s.cin), pixel = i / s.cin % pixels, c = i % s.cin;
    planes[(image * s.cin + c) * pixels + pixel] = x[i];
  }
  return planes;
}

void CheckConv(ConvShape s, ConvAlgorithm algorithm, bool transposed, Finish finish, bool strided) {
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
  const ConvSums reference = DirectConv(s, transposed, x.get(), w.get());

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

  const auto check_here = [&] {
    const size_t packed_bytes =
        transposed ? ConvTransposePackedBytes(s) : ConvPackedBytes(algorithm, s);
    const Floats packed(static_cast<int64_t>(packed_bytes / sizeof(float)));
    const int64_t rows = transposed ? s.cin : s.cout, row = w.size() / rows;
    const auto pack = [&](int64_t step, const Floats& to) {
      for (int64_t first = 0; first < rows; first += step) {
        const ConvWeightRows part{w.get() + first * row, first, std::min(first + step, rows)};
        if (transposed) {
          ConvTransposePack(s, part, to.get(), TwoThreads());
        } else {
          ConvPack(algorithm, s, part, to.get(), TwoThreads());
        }
      }
      ASSERT_TRUE(to.Intact());
    };
    pack(rows, packed);
    const int64_t step = transposed ? ConvTransposePackStep(s) : ConvPackStep(algorithm, s);
    for (const int64_t few : {step, 2 * step}) {
      const Floats by_rows(packed.size());
      pack(few, by_rows);
      EXPECT_TRUE(by_rows.SameBits(packed)) << "differs if packed by " << few << " rows";
    }
    const Floats y(s.OutPixels() * s.y_stride), y2(s.OutPixels() * s.y_stride);
    const Floats many(s.OutPixels() * s.y_stride);
    for (const Parallel& par : {OneThread(), TwoThreads(), ManyThreads()}) {
      const Floats& to = par.threads == 1 ? y : par.threads == 2 ? y2 : many;
      // Many run in the scratch of twice as many.
      const int planned = par.threads > 2 ? 2 * par.threads : par.threads;
      const size_t scratch_bytes = transposed ? ConvTransposeScratchBytes(s, planned)
                                              : ConvScratchBytes(algorithm, s, planned);
      const Floats scratch(static_cast<int64_t>(scratch_bytes / sizeof(float)));
      if (transposed) {
        ConvTranspose(s, x.get(), packed.get(), to.get(), epilogue, scratch.get(), par);
      } else {
        Conv(algorithm, s, x.get(), packed.get(), to.get(), epilogue, scratch.get(), par);
      }
      ASSERT_TRUE(scratch.Intact() && to.Intact());
    }
    EXPECT_TRUE(y.SameBits(y2)) << "differs between one and two threads";
    EXPECT_TRUE(y.SameBits(many)) << "differs between one and many threads";
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
    const bool is_grouped = s.groups > 1 && s.groups < s.cin;
    if ((s.cin <= 16 || is_grouped) && !strided && !transposed) {
      const Floats planes = AsPlanes(s, x);
      ConvShape of_planes = s;
      of_planes.x_planes = true;
      const Floats packed_of_planes(
          static_cast<int64_t>(ConvPackedBytes(algorithm, of_planes) / sizeof(float)));
      ConvPack(algorithm, of_planes, {w.get(), 0, s.cout}, packed_of_planes.get(), TwoThreads());
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
  };
  ForEachTarget(check_here);
  for (const int processors : {2, 32}) ForProcessors(processors, check_here);
}

void CheckConv(const ConvShape& s) {
  for (int a = 0; a < kConvAlgorithmCount; ++a) {
    const auto algorithm = static_cast<ConvAlgorithm>(a);
    if (!ConvRefusal(algorithm, s).empty()) continue;
    for (const Finish finish : kFinishes) {
      CheckConv(s, algorithm, false, finish, finish == Finish::kResidual);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

void CheckTransposed(const ConvShape& s) {
  for (const Finish finish : kFinishes) {
    CheckConv(s, ConvAlgorithm::kGemm, true, finish, finish == Finish::kResidual);
    if (testing::Test::HasFatalFailure()) return;
  }
}

void CheckConvOfPlanes(const ConvShape& s, bool transposed, ConvOfPlanes run) {
  const int64_t cin = s.cin, cout = s.cout;
  const int64_t pixels = s.OutPixels() / s.batch, count = s.batch * cout * pixels;
  SCOPED_TRACE(Text(s));
  const Floats x = Floats::Random(s.InPixels() * cin, 1), planes = AsPlanes(s, x);
  const Floats w = Floats::Random(cout * cin / s.groups * s.KernelSize(), 2);
  const Floats bias = Floats::Random(s.batch * cout, 3), residual = Floats::Random(count, 4);
  const ConvSums sums = DirectConv(s, transposed, x.get(), w.get());
  // The first is of one value a channel, which registers take, the second of pixels as well.
  const Expression bounded = Expression::Parse("(float, float) add(0,1):float relu(2):float");
  const Expression sum_up =
      Expression::Parse("(float, float, float) add(0,1):float add(3,2):float relu(4):float");
  const EpilogueOperand operands[2] = {
      {bias.get(), DType::kFloat32, 1, 0, {cout, 0}},
      {residual.get(), DType::kFloat32, pixels, 1, {cout * pixels, 0}}};
  ForEachTarget([&] {
    for (const Expression* fused : {static_cast<const Expression*>(nullptr), &bounded, &sum_up}) {
      const Epilogue epilogue = fused != nullptr ? Epilogue{fused, operands} : Epilogue{};
      std::vector<Floats> results;
      for (const Parallel& par : {OneThread(), TwoThreads()}) {
        Floats y(count);
        run(s, planes.get(), w.get(), y.get(), epilogue, par);
        ASSERT_TRUE(y.Intact());
        for (int64_t i = 0; i < count; ++i) {
          const int64_t image = i / (cout * pixels), channel = i / pixels % cout;
          const int64_t at = (image * pixels + i % pixels) * cout + channel;
          double expected = sums.sum[at];
          if (fused != nullptr) expected += bias[image * cout + channel];
          if (fused == &sum_up) expected += residual[i];
          if (fused != nullptr) expected = std::max(expected, 0.0);
          ASSERT_NEAR(y[i], expected, 1e-6 + 4e-7 * sums.size[at]) << "element " << i;
        }
        results.push_back(std::move(y));
      }
      ASSERT_TRUE(results[0].SameBits(results[1]));
    }
  });
}

}  // namespace sardonyx
