// Convolutions and products of bytes against plain loops, on every SIMD target.
#define HWY_WANT_AVX3_DL

#include "kernels/conv_int8.h"

#include <cmath>
#include <cstring>
#include <numeric>

#include "each_target.h"
#include "kernels/conv_int8_winograd.h"
#include "kernels/int8_panel.h"

namespace sardonyx {
namespace {

struct Case {
  ConvShape shape;
  bool x_signed = false, w_signed = true;
  int32_t x_zero = 0;
  int w_zeros = 0;  // none, one, one a channel
  bool winograd = false;
  bool extreme = false;  // least and greatest values alone
  bool mild = false;     // weights of which few pairs are so large that products may saturate
};

// low and high, if they differ: the two values that there are.
std::vector<uint8_t> RandomBytes(int64_t count, uint32_t seed, uint8_t low = 0, uint8_t high = 0) {
  std::mt19937 generator(seed);
  std::vector<uint8_t> bytes(static_cast<size_t>(count));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(generator());
  if (low != high) {
    for (uint8_t& byte : bytes) byte = byte % 2 == 0 ? low : high;
    return bytes;
  }
  // Extremes together: where sums of products saturate if they can.
  for (size_t i = 0; i + 7 < bytes.size() && i < 64; ++i) bytes[i] = i % 16 < 8 ? 0xff : 0x80;
  return bytes;
}

int32_t At(const std::vector<uint8_t>& bytes, int64_t i, bool is_signed) {
  const uint8_t byte = bytes[static_cast<size_t>(i)];
  return is_signed ? static_cast<int8_t>(byte) : byte;
}

class Data {
 public:
  explicit Data(const Case& given)
      : given_(given),
        s_(given.shape),
        x_(Bytes(s_.InPixels() * s_.x_stride, 1, given.x_signed)),
        w_(Weights(s_.cout * s_.KernelSize() * (s_.cin / s_.groups))),
        zeros_(RandomBytes(given.w_zeros == 2 ? s_.cout : given.w_zeros, 3)) {}

  std::vector<int32_t> Expected() const {
    const int64_t channels = s_.cin / s_.groups, n = s_.cout / s_.groups;
    std::vector<int32_t> y(static_cast<size_t>(s_.OutPixels() * s_.cout));
    for (int64_t p = 0; p < s_.OutPixels(); ++p) {
      const int64_t out[3] = {p / s_.out[2] / s_.out[1] % s_.out[0], p / s_.out[2] % s_.out[1],
                              p % s_.out[2]};
      const int64_t item = p / s_.out[2] / s_.out[1] / s_.out[0];
      for (int64_t j = 0; j < s_.cout; ++j) {
        int64_t sum = 0;
        for (int64_t t = 0; t < s_.KernelSize(); ++t) {
          const int64_t tap[3] = {t / s_.kernel[2] / s_.kernel[1], t / s_.kernel[2] % s_.kernel[1],
                                  t % s_.kernel[2]};
          int64_t pixel = item;
          bool inside = true;
          for (int i = 0; i < 3; ++i) {
            const int64_t at = out[i] * s_.stride[i] + tap[i] * s_.dilation[i] - s_.pad_begin[i];
            inside = inside && at >= 0 && at < s_.in[i];
            pixel = pixel * s_.in[i] + at;
          }
          if (!inside) continue;
          for (int64_t c = 0; c < channels; ++c) {
            const int64_t x = At(x_, pixel * s_.x_stride + j / n * channels + c, given_.x_signed);
            const int64_t w = At(w_, (j * channels + c) * s_.KernelSize() + t, given_.w_signed);
            sum += (x - given_.x_zero) * (w - Zero(j));
          }
        }
        y[static_cast<size_t>(p * s_.cout + j)] = static_cast<int32_t>(sum);
      }
    }
    return y;
  }

  template <typename T>
  std::vector<T> Run(const Int8Rescale* rescale, const void* residual, int64_t residual_stride,
                     const Parallel& par, bool in_place = false) const {
    const Floats packed = Pack(par);
    const auto bytes = given_.winograd ? conv_int8_winograd::ScratchBytes : ConvInt8ScratchBytes;
    Floats scratch(static_cast<int64_t>(bytes(s_, par.threads) / 4));
    for (const int fewer : {1, 2, 4}) {  // a run may have fewer threads than its plan
      EXPECT_GE(bytes(s_, 2 * fewer + 1), bytes(s_, fewer));
    }
    std::vector<T> y(static_cast<size_t>(s_.OutPixels() * s_.y_stride), T{77});
    if (in_place) {
      std::memcpy(y.data(), residual, y.size() * sizeof(T));
      residual = y.data();
    }
    Int8ConvArgs args;
    args.x = x_.data();
    args.x_signed = given_.x_signed;
    args.x_zero = given_.x_zero;
    args.packed = packed.get();
    args.w_signed = given_.w_signed;
    args.w_zeros = given_.w_zeros == 0 ? nullptr : zeros_.data();
    args.w_zero_count = given_.w_zeros == 2 ? s_.cout : given_.w_zeros;
    args.y = y.data();
    args.rescale = rescale;
    args.residual = residual;
    args.residual_stride = residual_stride;
    (given_.winograd ? conv_int8_winograd::Run : ConvInt8)(s_, args, scratch.get(), par);
    EXPECT_TRUE(packed.Intact() && scratch.Intact());
    return y;
  }

 private:
  std::vector<uint8_t> Bytes(int64_t count, uint32_t seed, bool is_signed) const {
    const uint8_t low = is_signed ? 0x80 : 0;
    return RandomBytes(count, seed, low, given_.extreme ? static_cast<uint8_t>(~low) : low);
  }

  std::vector<uint8_t> Weights(int64_t count) const {
    std::vector<uint8_t> bytes = Bytes(count, 2, given_.w_signed);
    if (!given_.mild) return bytes;
    const uint8_t flip = given_.w_signed ? 0 : 0x80;
    for (size_t i = 0; i < bytes.size(); ++i) {
      // As long as a kernel, so that neighbours of all layouts are among them.
      const bool is_large = i % 2000 < 18;
      const int value = is_large ? (i / 2000 % 2 == 0 ? 127 - static_cast<int>(i % 3) : -128)
                                 : bytes[i] % 120 - 60;
      bytes[i] = static_cast<uint8_t>(value) ^ flip;
    }
    return bytes;
  }

  Floats Pack(const Parallel& par) const {
    if (given_.winograd) {
      const conv_int8_winograd::Weights weights{w_.data(), given_.w_signed, Zero(0)};
      EXPECT_EQ(conv_int8_winograd::Refusal(s_), "");
      EXPECT_TRUE(conv_int8_winograd::IsExact(s_, weights));
      Floats packed(static_cast<int64_t>(conv_int8_winograd::PackedBytes(s_) / 4));
      conv_int8_winograd::Pack(s_, weights, packed.get(), par);
      return packed;
    }
    const int64_t kernel = s_.KernelSize(), channels = s_.cin / s_.groups;
    const Int8Weights weights{w_.data(), given_.w_signed, channels * kernel, kernel, 1};
    Floats packed(static_cast<int64_t>(ConvInt8PackedBytes(s_) / 4 + 1));
    ConvInt8Pack(s_, weights, packed.get(), par);
    CheckColumnsSideBySide(packed, par);
    return packed;
  }

  // The weights of a matrix as [K, N] are packed alike.
  void CheckColumnsSideBySide(const Floats& packed, const Parallel& par) const {
    if (s_.KernelSize() > 1 || s_.groups > 1) return;
    std::vector<uint8_t> turned(w_.size());
    for (int64_t n = 0; n < s_.cout; ++n) {
      for (int64_t c = 0; c < s_.cin; ++c) {
        turned[static_cast<size_t>(c * s_.cout + n)] = w_[static_cast<size_t>(n * s_.cin + c)];
      }
    }
    const auto bytes = ConvInt8PackedBytes(s_);
    Floats again(static_cast<int64_t>(bytes / 4 + 1));
    ConvInt8Pack(s_, {turned.data(), given_.w_signed, 1, s_.cout, 0}, again.get(), par);
    EXPECT_EQ(std::memcmp(again.get(), packed.get(), bytes), 0);
    EXPECT_TRUE(again.Intact());
  }

  int32_t Zero(int64_t j) const {
    return given_.w_zeros == 0 ? 0 : At(zeros_, given_.w_zeros == 1 ? 0 : j, given_.w_signed);
  }

  const Case given_;
  const ConvShape s_;
  const std::vector<uint8_t> x_, w_, zeros_;
};

ConvShape Matrix(int64_t m, int64_t n, int64_t k) {
  ConvShape s;
  s.in[2] = s.out[2] = m;
  s.cin = s.x_stride = k;
  s.cout = s.y_stride = n;
  return s;
}

ConvShape Image(int64_t side, int64_t cin, int64_t cout, int64_t kernel, int64_t stride,
                int64_t groups) {
  ConvShape s;
  s.batch = 2;
  s.cin = s.x_stride = cin;
  s.cout = s.y_stride = cout;
  s.groups = groups;
  for (int i = 1; i < 3; ++i) {
    s.in[i] = side + i;
    s.kernel[i] = kernel;
    s.stride[i] = stride;
    s.pad_begin[i] = kernel / 2;
    s.out[i] = (s.in[i] + 2 * (kernel / 2) - kernel) / stride + 1;
  }
  return s;
}

std::vector<Case> WinogradCases() {
  std::vector<Case> cases;
  const auto add = [&](const ConvShape& shape, bool x_signed, bool w_signed, int zeros) {
    const int32_t zero = x_signed ? -100 : 200;
    for (const bool extreme : {false, true}) {
      cases.push_back({shape, x_signed, w_signed, zero, zeros, true, extreme});
    }
  };
  for (const int64_t side : {1, 2, 3, 4, 6, 7, 13}) {
    for (const int64_t cin : {1, 16, 20, 37})
      add(Image(side, cin, cin + 3, 3, 1, 1), side == 7, true, 0);
  }
  for (const bool x_signed : {false, true}) {
    for (const bool w_signed : {false, true}) add(Image(9, 24, 9, 3, 1, 1), x_signed, w_signed, 1);
  }
  ConvShape apart = Image(14, 64, 70, 3, 1, 1);
  apart.x_stride = 80;
  apart.y_stride = 72;
  add(apart, false, true, 0);
  for (const int64_t pad : {0, 2}) {
    ConvShape padded = Image(37, 48, 33, 3, 1, 1);  // blocks of tiles, of several runs a line
    for (int i = 1; i < 3; ++i) {
      padded.pad_begin[i] = pad;
      padded.out[i] = padded.in[i] + 2 * pad - 2;
    }
    add(padded, pad == 0, true, 0);
  }
  return cases;
}

std::vector<Case> Cases() {
  std::vector<Case> cases = WinogradCases();
  for (const int64_t m : {1, 5, 13, 29}) {
    for (const int64_t n : {1, 31, 72}) {
      for (const int64_t k : {1, 3, 8, 67}) cases.push_back({Matrix(m, n, k), false, true, 7, 0});
    }
  }
  cases.push_back({Matrix(40, 40, 1024), false, true, 3, 1});  // rows that collide in the cache
  cases.push_back({Matrix(300, 64, 64), true, true, -5, 0});
  for (const bool x_signed : {false, true}) {
    for (const bool w_signed : {false, true}) {
      for (const int zeros : {0, 1, 2}) {
        const int32_t zero = x_signed ? -100 : 200;
        cases.push_back({Matrix(17, 35, 21), x_signed, w_signed, zero, zeros});
        cases.push_back({Image(6, 3, 9, 3, 2, 1), x_signed, w_signed, zero, zeros});
        cases.push_back({Image(5, 37, 37, 3, 1, 37), x_signed, w_signed, zero, zeros});
      }
    }
  }
  for (const bool w_signed : {false, true}) {
    cases.push_back({Image(9, 20, 35, 5, 1, 1), true, w_signed, 5, 1});
    cases.push_back({Image(8, 8, 70, 7, 2, 1), false, w_signed, 5, 0});
  }
  cases.push_back({Image(9, 3, 20, 7, 2, 1), false, true, 128, 0});
  cases.push_back({Image(8, 24, 40, 3, 1, 4), false, true, 11, 2});
  cases.push_back({Image(7, 130, 130, 5, 2, 130), true, true, 3, 0});
  for (const int64_t kernel : {1, 2, 3, 4, 5, 7}) {  // depthwise
    for (const int64_t stride : {1, 2}) {
      cases.push_back({Image(9, 112, 112, kernel, stride, 112), kernel == 3, true, 77, 0});
    }
  }
  cases.push_back({Image(8, 24, 24, 3, 1, 24), true, false, -7, 0});
  Case deep{Image(6, 20, 20, 3, 1, 20), true, true, -7, 0};
  deep.shape.in[0] = 4;
  deep.shape.kernel[0] = 2;
  deep.shape.out[0] = 3;
  cases.push_back(deep);
  Case apart{Image(9, 40, 40, 3, 1, 40), false, true, 9, 0};
  apart.shape.dilation[1] = apart.shape.dilation[2] = 2;
  apart.shape.pad_begin[1] = apart.shape.pad_begin[2] = 2;
  apart.shape.x_stride = 48;
  apart.shape.y_stride = 50;
  cases.push_back(apart);
  cases.push_back({Image(11, 64, 64, 3, 1, 1), false, true, 0, 0});
  for (const bool x_signed : {false, true}) {  // lines that tiles fit
    cases.push_back({Image(25, 3, 20, 7, 2, 1), x_signed, true, x_signed ? -3 : 128, 0});
    cases.push_back({Image(26, 24, 40, 3, 1, 4), x_signed, true, 5, 0});
    cases.push_back({Image(26, 20, 33, 3, 2, 1), x_signed, false, 5, 1});
    cases.push_back({Image(40, 5, 7, 2, 1, 1), x_signed, true, 5, 0});
    for (const int64_t side : {12, 26}) {  // of every other line every other pixel
      Case skips{Image(side, 24, 70, 1, 2, 2), x_signed, true, 5, 0};
      skips.shape.x_stride = 40;
      cases.push_back(skips);
      cases.push_back({Image(side, 64, 33, 1, 2, 1), x_signed, side == 26, 5, 1});
    }
  }
  for (const int64_t n : {4, 8, 16}) {  // columns of which one vector is enough
    for (const bool x_signed : {false, true}) {
      cases.push_back({Matrix(300, n, 32), x_signed, false, 5, 1});
      cases.push_back({Image(26, 3, n, 3, 2, 1), x_signed, true, 5, 2});
      cases.push_back({Image(6, 24, n, 3, 1, 1), x_signed, false, 5, 1});
    }
  }
  for (const int64_t side : {6, 7}) {  // lines that tiles take two of
    Case small{Image(side, 37, 70, 3, 1, 1), side == 7, true, 9, side == 7 ? 0 : 1};
    small.shape.in[1] = small.shape.out[1] = 7;
    small.shape.in[2] = small.shape.out[2] = side;
    cases.push_back(small);
  }
  for (const bool x_signed : {false, true}) {  // runs of a line's pixels
    for (const int64_t channels : {3, 24}) {
      Case volume{Image(26, channels, 33, 3, 1, 1), x_signed, true, 5, 0};
      volume.shape.in[0] = volume.shape.out[0] = volume.shape.kernel[0] = 3;
      volume.shape.pad_begin[0] = 1;
      cases.push_back(volume);
      Case line{Image(1200, channels, 17, 5, 2, 1), x_signed, true, 5, 0};
      line.shape.in[1] = line.shape.out[1] = line.shape.kernel[1] = 1;
      line.shape.pad_begin[1] = 0;
      cases.push_back(line);
    }
    Case atrous{Image(27, 24, 40, 3, 1, 2), x_signed, true, 5, 0};
    atrous.shape.dilation[1] = atrous.shape.dilation[2] = 3;
    atrous.shape.pad_begin[1] = atrous.shape.pad_begin[2] = 3;
    atrous.shape.x_stride = 30;
    cases.push_back(atrous);
  }
  // Many columns, of which each task takes some.
  cases.push_back({Image(12, 64, 600, 3, 2, 1), false, true, 200, 0});
  cases.push_back({Image(12, 64, 600, 3, 1, 1), true, true, -20, 0});
  Case dilated{Image(9, 5, 6, 3, 1, 1), false, true, 9, 0};
  dilated.shape.dilation[1] = dilated.shape.dilation[2] = 2;
  dilated.shape.pad_begin[1] = dilated.shape.pad_begin[2] = 2;
  dilated.shape.x_stride = 8;
  dilated.shape.y_stride = 11;
  cases.push_back(dilated);
  return cases;
}

TEST(ConvInt8, IsExact) {
  std::vector<Case> cases = Cases();
  for (const Case& given : Cases()) {
    if (given.winograd) continue;
    cases.push_back(given);
    cases.back().mild = true;
    if (given.w_zeros != 0) continue;
    cases.push_back(given);
    cases.back().w_zeros = 1 + static_cast<int>(cases.size() % 2);
  }
  for (const Case& given : cases) {
    const Data data(given);
    const std::vector<int32_t> expected = data.Expected();
    const int64_t cout = given.shape.cout, stride = given.shape.y_stride;
    const auto check = [&] {
      const std::vector<int32_t> y = data.Run<int32_t>(nullptr, nullptr, 0, OneThread());
      for (size_t i = 0; i < expected.size(); ++i) {
        const auto at = static_cast<size_t>(static_cast<int64_t>(i) / cout * stride +
                                            static_cast<int64_t>(i) % cout);
        ASSERT_EQ(y[at], expected[i])
            << "m " << given.shape.OutPixels() << " cin " << given.shape.cin << " cout " << cout
            << " kernel " << given.shape.KernelSize() << " at " << i;
      }
      EXPECT_EQ(y, data.Run<int32_t>(nullptr, nullptr, 0, TwoThreads()));
      EXPECT_EQ(y, data.Run<int32_t>(nullptr, nullptr, 0, ManyThreads()));
    };
    ForEachTarget(check);
    ForProcessors(32, check);
  }
}

template <typename T>
void CheckWindows(int64_t step, int64_t rows, int64_t k, int64_t segments) {
  const int64_t length = (rows - 1) * step + k, segment_step = length + 3;
  const std::vector<uint8_t> bytes = RandomBytes(segments * segment_step, 9);
  const std::vector<T> a(bytes.begin(), bytes.end());
  Floats scratch(static_cast<int64_t>(Int8WindowScratchBytes(length) / 4));
  std::vector<int32_t> sums(static_cast<size_t>(rows));
  Int8SumWindows(a.data(), step, rows, k, segments, segment_step, scratch.get(), sums.data());
  EXPECT_TRUE(scratch.Intact());
  for (int64_t r = 0; r < rows; ++r) {
    int32_t expected = 0;
    for (int64_t t = 0; t < segments; ++t) {
      const T* const from = a.data() + t * segment_step + r * step;
      expected = std::accumulate(from, from + k, expected);
    }
    ASSERT_EQ(sums[static_cast<size_t>(r)], expected) << step << " " << k << " " << segments;
  }
}

TEST(ConvInt8, SumsWindows) {
  ForEachTarget([] {
    for (const int64_t k : {1, 2, 3, 7, 8, 9, 64, 85, 86, 255, 300}) {
      for (const int64_t step : {1, 3, 8, 150, 320}) {
        for (const int64_t rows : {1, 2, 37}) {
          for (const int64_t segments : {1, 3}) {
            CheckWindows<uint8_t>(step, rows, k, segments);
            CheckWindows<int16_t>(step, rows, k, segments);
          }
        }
      }
    }
  });
}

TEST(ConvInt8, SplitsWhatSaturates) {
  // Each pair of weights of a panel, put together again, and what its products may reach.
  ForEachTarget([&] {
    const int64_t width = Int8PanelWidth(), groups = 32;
    const std::vector<uint8_t> given = RandomBytes(groups * width * 4, 7);
    std::vector<uint8_t> panel = given;
    std::vector<Int8Excess> excess(static_cast<size_t>(groups * width));
    const int64_t most = groups * width;
    const int64_t count = Int8SplitPanel(panel.data(), groups, most, excess.data());
    ASSERT_GT(count, 0);
    panel = given;
    for (const int64_t fewer : {count - 1, count / 2, int64_t{0}}) {
      EXPECT_EQ(Int8SplitPanel(panel.data(), groups, fewer, excess.data()), -1);
      EXPECT_EQ(panel, given) << fewer;
    }
    EXPECT_EQ(Int8SplitPanel(panel.data(), groups, count, excess.data()), count);
    for (size_t i = 0; i < panel.size(); i += 2) {
      const int first = static_cast<int8_t>(panel[i]), second = static_cast<int8_t>(panel[i + 1]);
      EXPECT_LE(255 * (std::max(first, 0) + std::max(second, 0)), 32767);
      EXPECT_GE(255 * (std::min(first, 0) + std::min(second, 0)), -32768);
    }
    Int8JoinPanel(panel.data(), excess.data(), count);
    EXPECT_EQ(panel, given);
  });
}

TEST(ConvInt8, OrdersPairs) {
  ForEachTarget([&] {
    const int64_t groups = 3;
    std::vector<uint8_t> panel = RandomBytes(groups * Int8PanelWidth() * 4, 8);
    std::vector<uint8_t> expected = panel;
    for (size_t i = 0; i < panel.size(); i += 4) std::swap(expected[i + 1], expected[i + 2]);
    Int8OrderPairs(panel.data(), groups);
    EXPECT_EQ(panel, expected);
  });
}

TEST(ConvInt8, WinogradOutOfRange) {
  // Results stay under 2^25 up to here, whichever the sign of the weights.
  for (const int8_t weight : {127, -128}) {
    const int64_t most = ((int64_t{1} << 25) - 1) / 255 / std::abs(weight) / 9;
    for (const int64_t cin : {most, most + 1}) {
      const std::vector<int8_t> weights(static_cast<size_t>(2 * cin * 9), weight);
      EXPECT_EQ(conv_int8_winograd::IsExact(Image(8, cin, 2, 3, 1, 1), {weights.data(), true, 0}),
                cin == most);
    }
  }
  const std::vector<uint8_t> weights(115 * 9, 3);
  const ConvShape s = Image(8, 115, 1, 3, 1, 1);
  EXPECT_TRUE(conv_int8_winograd::IsExact(s, {weights.data(), false, 129}));
  EXPECT_FALSE(conv_int8_winograd::IsExact(s, {weights.data(), false, 131}));
}

TEST(ConvInt8, WinogradAtItsRange) {
  // All of one sign, and the greatest sums that there may be.
  for (const uint8_t weight : {uint8_t{0x7f}, uint8_t{0x80}}) {
    const int64_t cin = weight == 0x7f ? 115 : 114;
    const ConvShape s = Image(9, cin, 5, 3, 1, 1);
    const std::vector<uint8_t> x(static_cast<size_t>(s.InPixels() * cin), 0xff);
    const std::vector<uint8_t> w(static_cast<size_t>(s.cout * cin * 9), weight);
    const conv_int8_winograd::Weights weights{w.data(), true, 0};
    ASSERT_TRUE(conv_int8_winograd::IsExact(s, weights));
    ForEachTarget([&] {
      Floats packed(static_cast<int64_t>(conv_int8_winograd::PackedBytes(s) / 4));
      conv_int8_winograd::Pack(s, weights, packed.get(), OneThread());
      Floats scratch(static_cast<int64_t>(conv_int8_winograd::ScratchBytes(s, 1) / 4));
      std::vector<int32_t> y(static_cast<size_t>(s.OutPixels() * s.cout));
      Int8ConvArgs args;
      args.x = x.data();
      args.packed = packed.get();
      args.y = y.data();
      conv_int8_winograd::Run(s, args, scratch.get(), OneThread());
      const int64_t middle = (5 * s.out[2] + 5) * s.cout;
      EXPECT_EQ(y[0], 4 * cin * 255 * static_cast<int8_t>(weight));
      EXPECT_EQ(y[static_cast<size_t>(middle)], 9 * cin * 255 * static_cast<int8_t>(weight));
    });
  }
}

template <typename T, typename R>
void CheckRescaled(const Case& given, Int8Rescale rescale, const std::vector<R>& residual) {
  const ConvShape& s = given.shape;
  const Data data(given);
  const std::vector<int32_t> sums = data.Expected();
  const Floats scale = Floats::Random(s.cout + kInt8ColumnSlack, 5);
  const Floats offset = Floats::Random(s.cout + kInt8ColumnSlack, 6);
  for (int64_t j = 0; j < s.cout; ++j) {
    scale[j] *= 1e-3f;
    offset[j] *= 30;
  }
  rescale.scale = scale.get();
  rescale.offset = offset.get();
  rescale.has_residual = !residual.empty();
  const auto check = [&] {
    const void* r = residual.empty() ? nullptr : residual.data();
    const std::vector<T> y = data.Run<T>(&rescale, r, s.cout, OneThread());
    EXPECT_EQ(y, data.Run<T>(&rescale, r, s.cout, TwoThreads()));
    EXPECT_EQ(y, data.Run<T>(&rescale, r, s.cout, ManyThreads()));
    if (r != nullptr && sizeof(R) == sizeof(T)) {
      EXPECT_EQ(y, data.Run<T>(&rescale, r, s.cout, TwoThreads(), true));
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      const auto j = static_cast<int64_t>(i) % s.cout;
      double v = sums[i] * static_cast<double>(scale[j]) + static_cast<double>(offset[j]);
      double near_tie = 0;  // how far a rounding may carry
      if (rescale.rounds) {
        v = std::clamp<double>(v, rescale.round_low, rescale.round_high);
        if (std::abs(std::abs(v - std::floor(v)) - 0.5) < 1e-3) near_tie = rescale.again;
        v = std::nearbyint(v) * rescale.again + rescale.again_offset;
      }
      if (!residual.empty()) v += residual[i] * static_cast<double>(rescale.residual_scale);
      if (rescale.clamps) v = std::clamp<double>(v, rescale.low, rescale.high);
      if constexpr (sizeof(T) == 1) {
        ASSERT_NEAR(y[i], v + rescale.zero_point, 0.501 + near_tie) << i;
      } else {
        ASSERT_NEAR(y[i], v, 1e-3 + near_tie) << i;
      }
    }
  };
  ForEachTarget(check);
  ForProcessors(32, check);
}

TEST(ConvInt8, Rescales) {
  const Case cases[] = {{Matrix(31, 45, 33), false, true, 128, 0},
                        {Matrix(30, 32, 48), false, true, 128, 0},
                        {Matrix(365, 64, 52), false, true, 3, 0},
                        {Matrix(97, 72, 256), false, true, 3, 0},
                        {Image(7, 40, 40, 3, 1, 40), false, true, 7, 0},
                        {Image(9, 112, 112, 3, 1, 112), false, true, 7, 0},
                        {Image(9, 112, 112, 3, 2, 112), true, true, 7, 0},
                        {Matrix(97, 72, 256), true, true, 3, 0, false, false, true},
                        {Image(12, 7, 70, 3, 1, 1), true, true, 7, 0},
                        {Image(12, 37, 70, 3, 1, 1), true, true, 7, 0, false, false, true},
                        {Image(12, 7, 70, 3, 1, 1), true, true, 7, 0, true},
                        {Image(35, 17, 36, 3, 1, 1), false, true, 7, 0, true},
                        {Image(5, 9, 64, 3, 1, 1), false, true, 7, 0}};
  for (const Case& given : cases) {
    const auto count = static_cast<size_t>(given.shape.OutPixels() * given.shape.cout);
    const std::vector<uint8_t> bytes = RandomBytes(static_cast<int64_t>(count), 9);
    const std::vector<int8_t> signed_bytes(bytes.begin(), bytes.end());
    std::vector<float> reals(count);
    for (size_t i = 0; i < count; ++i) reals[i] = static_cast<float>(bytes[i]) * 0.37f - 40;

    Int8Rescale rescale;
    CheckRescaled<float, float>(given, rescale, {});
    rescale.residual_type = DType::kFloat32;
    CheckRescaled<float, float>(given, rescale, reals);
    rescale.clamps = true;
    rescale.low = -60;
    rescale.high = 67;
    rescale.zero_point = 60;
    rescale.type = DType::kUInt8;
    CheckRescaled<uint8_t, float>(given, rescale, {});
    rescale.type = DType::kInt8;
    rescale.zero_point = -3;
    CheckRescaled<int8_t, float>(given, rescale, {});
    rescale.type = DType::kUInt8;
    rescale.zero_point = 60;
    rescale.rounds = true;
    rescale.round_low = -100;
    rescale.round_high = 90;
    rescale.again = 0.73f;
    rescale.again_offset = 3;
    rescale.residual_type = DType::kUInt8;
    rescale.residual_scale = 0.31f;
    CheckRescaled<uint8_t, uint8_t>(given, rescale, bytes);
    rescale.residual_type = DType::kInt8;
    rescale.type = DType::kInt8;
    rescale.zero_point = -60;
    CheckRescaled<int8_t, int8_t>(given, rescale, signed_bytes);

    Int8Rescale relu;  // the whole range of uint8
    relu.type = DType::kUInt8;
    relu.clamps = true;
    relu.high = 255;
    CheckRescaled<uint8_t, uint8_t>(given, relu, {});
    relu.rounds = true;
    relu.round_low = -100;
    relu.round_high = 90;
    relu.residual_scale = 2.5f;
    CheckRescaled<uint8_t, uint8_t>(given, relu, bytes);
  }
}

}  // namespace
}  // namespace sardonyx
