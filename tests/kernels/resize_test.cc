#include "kernels/resize.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "random_data.h"

namespace sardonyx {
namespace {

constexpr ResizeCoordinates kCoordinates[] = {
    ResizeCoordinates::kHalfPixel,        ResizeCoordinates::kHalfPixelSymmetric,
    ResizeCoordinates::kPytorchHalfPixel, ResizeCoordinates::kAlignCorners,
    ResizeCoordinates::kAsymmetric,       ResizeCoordinates::kTfCropAndResize};

ResizeAxis Axis(int64_t in, int64_t out) {
  return {in, out, static_cast<double>(out) / static_cast<double>(in), 0.1, 1.2};
}

double Coordinate(const ResizeAxis& a, ResizeCoordinates mode, int64_t o) {
  const double in = static_cast<double>(a.in), out = static_cast<double>(a.out);
  switch (mode) {
    case ResizeCoordinates::kAlignCorners: return out == 1 ? 0 : o * (in - 1) / (out - 1);
    case ResizeCoordinates::kAsymmetric: return o / a.scale;
    case ResizeCoordinates::kTfHalfPixelForNearest: return (o + 0.5) / a.scale;
    case ResizeCoordinates::kTfCropAndResize:
      return a.roi_start * (in - 1) + (out == 1
                                           ? (a.roi_end - a.roi_start) * (in - 1) / 2
                                           : o * (a.roi_end - a.roi_start) * (in - 1) / (out - 1));
    case ResizeCoordinates::kPytorchHalfPixel:
      if (out == 1) return -0.5;
      [[fallthrough]];
    default: return (o + 0.5) / a.scale - 0.5;  // symmetric: the sizes here are exact
  }
}

double Kernel(const ResizeOptions& options, double x) {
  x = std::abs(x);
  const double a = options.cubic_coefficient;
  if (options.mode == ResizeMode::kLinear) return std::max(0.0, 1 - x);
  if (x < 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  if (x < 2) return a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a;
  return 0;
}

// One output of one axis straight from the definition: every source within the filter's reach.
double Interpolate(const ResizeAxis& a, const ResizeOptions& options, int64_t o,
                   const std::vector<double>& line) {
  const double x = Coordinate(a, options.coordinates, o);
  const double last = static_cast<double>(a.in - 1);
  if (options.coordinates == ResizeCoordinates::kTfCropAndResize && (x < 0 || x > last)) {
    return options.extrapolation_value;
  }
  const double shrink = options.antialias ? std::min(1.0, a.scale) : 1.0;
  double sum = 0, weights = 0;
  for (int64_t s = -40; s < a.in + 40; ++s) {
    const double weight = Kernel(options, (static_cast<double>(s) - x) * shrink);
    if (options.exclude_outside && (s < 0 || s >= a.in)) continue;
    weights += weight;
    sum += weight * line[std::clamp<int64_t>(s, 0, a.in - 1)];
  }
  return sum / weights;
}

double Nearest(const ResizeAxis& a, const ResizeOptions& options, int64_t o,
               const std::vector<double>& line) {
  const double x = Coordinate(a, options.coordinates, o);
  const double last = static_cast<double>(a.in - 1);
  if (options.coordinates == ResizeCoordinates::kTfCropAndResize && (x < 0 || x > last)) {
    return options.extrapolation_value;
  }
  double index = std::floor(x);
  const double part = x - index;
  if (options.nearest == ResizeNearest::kCeil) index += part > 0;
  if (options.nearest == ResizeNearest::kRoundPreferFloor) index += part > 0.5;
  if (options.nearest == ResizeNearest::kRoundPreferCeil) index += part >= 0.5;
  return line[static_cast<int64_t>(std::clamp(index, 0.0, last))];
}

// Axis by axis, of [planes, in..., channels].
std::vector<double> Expected(std::span<const ResizeAxis> axes, const ResizeOptions& options,
                             const std::vector<float>& x, int64_t planes, int64_t channels) {
  std::vector<double> values(x.begin(), x.end());
  for (size_t axis = axes.size(); axis-- > 0;) {
    int64_t outer = planes, inner = channels;
    for (size_t i = 0; i < axis; ++i) outer *= axes[i].in;
    for (size_t i = axis + 1; i < axes.size(); ++i) inner *= axes[i].out;
    const ResizeAxis& a = axes[axis];
    std::vector<double> next(outer * a.out * inner);
    for (int64_t i = 0; i < outer * inner; ++i) {
      std::vector<double> line(a.in);
      for (int64_t k = 0; k < a.in; ++k)
        line[k] = values[(i / inner * a.in + k) * inner + i % inner];
      for (int64_t o = 0; o < a.out; ++o) {
        next[(i / inner * a.out + o) * inner + i % inner] = options.mode == ResizeMode::kNearest
                                                                ? Nearest(a, options, o, line)
                                                                : Interpolate(a, options, o, line);
      }
    }
    values = std::move(next);
  }
  return values;
}

void Check(const std::vector<ResizeAxis>& axes, const ResizeOptions& options, int64_t planes,
           int64_t channels) {
  int64_t in = planes * channels, out = planes * channels;
  for (const ResizeAxis& axis : axes) {
    in *= axis.in;
    out *= axis.out;
  }
  const auto x = test::RandomFloats(in, 1);
  const auto expected = Expected(axes, options, x, planes, channels);
  const ResizePlan plan = PrepareResize(axes, options);
  const Floats scratch(ResizeScratchBytes(plan, planes, channels) / 4);
  std::vector<float> one(out), two(out);
  Resize(plan, x.data(), one.data(), planes, channels, scratch.get(), OneThread());
  Resize(plan, x.data(), two.data(), planes, channels, scratch.get(), TwoThreads());
  ASSERT_TRUE(test::SameBits(one, two));
  ASSERT_TRUE(scratch.Intact());
  for (int64_t i = 0; i < out; ++i) ASSERT_NEAR(one[i], expected[i], 2e-6) << "at " << i;
  const int64_t stride = channels + 3;
  std::vector<float> apart(out / channels * stride, 77);
  Resize(plan, x.data(), apart.data(), planes, channels, scratch.get(), TwoThreads(), stride);
  ASSERT_TRUE(scratch.Intact());
  for (int64_t i = 0; i < static_cast<int64_t>(apart.size()); ++i) {
    const int64_t pixel = i / stride, channel = i % stride;
    ASSERT_NEAR(apart[i], channel < channels ? expected[pixel * channels + channel] : 77, 2e-6)
        << "at " << i << ", pixels apart";
  }
}

void CheckShapes(const ResizeOptions& options) {
  for (const auto& [planes, channels] :
       {std::pair<int64_t, int64_t>{3, 1}, {2, 5}, {1, 16}, {1, 40}}) {
    Check({Axis(4, 8), Axis(5, 10)}, options, planes, channels);
    Check({Axis(7, 3), Axis(6, 17)}, options, planes, channels);
    Check({Axis(9, 4), Axis(30, 7)}, options, planes, channels);
    Check({Axis(5, 1), Axis(1, 4)}, options, planes, channels);
    Check({Axis(6, 6), Axis(11, 33)}, options, planes, channels);
    Check({Axis(5, 12)}, options, planes, channels);
    Check({Axis(3, 5), Axis(4, 3), Axis(5, 9)}, options, planes, channels);
  }
}

TEST(Resize, LinearAndCubic) {
  test::ForEachTarget([] {
    for (ResizeMode mode : {ResizeMode::kLinear, ResizeMode::kCubic}) {
      for (ResizeCoordinates coordinates : kCoordinates) {
        for (bool exclude : {false, true}) {
          for (bool antialias : {false, true}) {
            ResizeOptions options;
            options.mode = mode;
            options.coordinates = coordinates;
            options.exclude_outside = exclude;
            options.antialias = antialias;
            options.extrapolation_value = 0.5f;
            // All taps outside: nothing to divide by.
            if (exclude && coordinates == ResizeCoordinates::kTfCropAndResize) continue;
            CheckShapes(options);
          }
        }
      }
    }
  });
}

TEST(Resize, NearestAcrossVectors) {
  test::ForEachTarget([] {
    for (const auto& [in, out] :
         {std::pair<int64_t, int64_t>{30, 60}, {30, 71}, {50, 33}, {97, 97}}) {
      ResizeOptions options;
      Check({Axis(3, 6), Axis(in, out)}, options, 2, 1);
      options.coordinates = ResizeCoordinates::kTfCropAndResize;
      options.extrapolation_value = 0.5f;
      Check({Axis(3, 6), Axis(in, out)}, options, 2, 1);
    }
  });
}

// Rows and pixels that are all repeated alike.
TEST(Resize, NearestByWholeFactors) {
  test::ForEachTarget([] {
    const ResizeOptions options;
    for (const int64_t in : {1, 3, 8, 29}) {
      for (const int64_t factor : {1, 2, 3, 4, 8}) {
        for (const int64_t channels : {1, 2, 3}) {
          Check({Axis(5, 5 * factor), Axis(in, in * factor)}, options, 3, channels);
          Check({Axis(2, 1), Axis(5, 5 * factor), Axis(in, in * factor)}, options, 3, channels);
          Check({Axis(2, 4), Axis(5, 5 * factor), Axis(in, in * factor)}, options, 3, channels);
        }
      }
    }
  });
}

TEST(Resize, Nearest) {
  for (ResizeCoordinates coordinates : kCoordinates) {
    for (ResizeNearest nearest : {ResizeNearest::kRoundPreferFloor, ResizeNearest::kRoundPreferCeil,
                                  ResizeNearest::kFloor, ResizeNearest::kCeil}) {
      ResizeOptions options;
      options.coordinates = coordinates;
      options.nearest = nearest;
      options.extrapolation_value = 0.5f;
      CheckShapes(options);
    }
  }
  ResizeOptions options;
  options.coordinates = ResizeCoordinates::kTfHalfPixelForNearest;
  options.nearest = ResizeNearest::kFloor;
  CheckShapes(options);
}

TEST(Resize, LinearOfBytes) {
  test::ForEachTarget([] {
    for (int64_t channels : {1, 3, 20}) {
      const std::vector<ResizeAxis> axes = {Axis(5, 9), Axis(37, 70)};
      ResizeOptions options;
      options.mode = ResizeMode::kLinear;
      const ResizePlan plan = PrepareResize(axes, options);
      const auto random = test::RandomFloats(2 * 5 * 37 * channels, 1, -128, 127);
      const auto check = [&](auto type) {
        using T = decltype(type);
        std::vector<T> x;
        std::vector<float> floats;
        for (float value : random) x.push_back(static_cast<T>(static_cast<int>(value)));
        for (T value : x) floats.push_back(value);
        const auto expected = Expected(axes, options, floats, 2, channels);
        std::vector<T> one(expected.size()), two(expected.size());
        const Floats scratch(ResizeBytesScratchBytes(plan, 2, channels) / 4);
        ResizeBytes(plan, x.data(), one.data(), 2, channels, scratch.get(), OneThread());
        ResizeBytes(plan, x.data(), two.data(), 2, channels, scratch.get(), TwoThreads());
        ASSERT_TRUE(scratch.Intact());
        ASSERT_EQ(one, two);
        for (size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(one[i], expected[i], 0.5001);
      };
      check(uint8_t{});
      check(int8_t{});
    }
  });
}

TEST(Resize, NearestOfBytes) {
  const std::vector<ResizeAxis> axes = {Axis(2, 4), Axis(2, 4)};
  const ResizePlan plan = PrepareResize(axes, ResizeOptions{});
  const uint8_t x[] = {1, 2, 3, 4};
  uint8_t y[16];
  ResizeNearestBytes(plan, x, y, 1, 1, nullptr, 1, OneThread());
  const uint8_t expected[] = {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4};
  EXPECT_EQ(std::memcmp(y, expected, 16), 0);
}

TEST(Resize, ScaleThatDoesNotDivide) {
  // 4 * 0.6 is 2.4, rounded down to 2: align_corners and half_pixel_symmetric keep the fraction.
  const ResizeAxis axis = {4, 2, 0.6, 0, 1};
  ResizeOptions options;
  options.mode = ResizeMode::kLinear;
  const float x[] = {1, 2, 3, 4};
  const auto run = [&](ResizeCoordinates coordinates) {
    options.coordinates = coordinates;
    const ResizePlan plan = PrepareResize(std::span(&axis, 1), options);
    const Floats scratch(ResizeScratchBytes(plan, 1, 1) / 4);
    std::vector<float> y(2);
    Resize(plan, x, y.data(), 1, 1, scratch.get(), OneThread());
    return y;
  };
  EXPECT_NEAR(run(ResizeCoordinates::kAlignCorners)[1], 1 + 3 / 1.4, 1e-6);
  EXPECT_NEAR(run(ResizeCoordinates::kHalfPixelSymmetric)[0], 1.6666667, 1e-6);
}

}  // namespace
}  // namespace sardonyx
