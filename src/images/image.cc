#include "images/image.h"

#include <algorithm>

#include "base/error.h"

namespace sardonyx::image {

void CheckSize(std::string_view format, int64_t width, int64_t height) {
  if (width <= 0 || height <= 0) FailDamaged(format, "its size is not positive");
  if (width > kMaxPixels / height) {
    Fail(ErrorCode::kLimitExceeded, "{} image: {} x {} are more than {} pixels", format, width,
         height, kMaxPixels);
  }
}

Image MakeImage(std::string_view format, int64_t width, int64_t height, int channels) {
  CheckSize(format, width, height);
  return {width, height, channels,
          std::vector<uint8_t>(static_cast<size_t>(width * height * channels))};
}

void FailDamaged(std::string_view format, std::string_view why) {
  Fail(ErrorCode::kInvalidArgument, "{} image cannot be decoded: {}", format, why);
}

void FailUnsupported(std::string_view format, std::string_view what) {
  Fail(ErrorCode::kUnsupported, "{} image: {} is not supported", format, what);
}

bool HasMagic(Bytes bytes, std::string_view magic, size_t offset) {
  return bytes.size() >= offset + magic.size() &&
         std::equal(magic.begin(), magic.end(), bytes.begin() + static_cast<ptrdiff_t>(offset),
                    [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

void CmykToRgb(const uint8_t* cmyk, uint8_t* rgb) {
  const int light = 255 - cmyk[3];
  for (int i = 0; i < 3; ++i) {
    const int product = cmyk[i] * light + 128;
    rgb[i] = static_cast<uint8_t>(std::max(0, light - ((product + (product >> 8)) >> 8)));
  }
}

void YccToRgb(const uint8_t* ycc, uint8_t* rgb) {
  // Products are whole 64ths, as Pillow has them.
  const auto product = [](double factor, int chroma) {
    return static_cast<int>(factor * (chroma - 128) * 64 + 0.5);
  };
  const int cb = ycc[1], cr = ycc[2];
  const int parts[] = {product(1.402, cr), product(-0.34414, cb) + product(-0.71414, cr),
                       product(1.772, cb)};
  for (int c = 0; c < 3; ++c) {
    rgb[c] = static_cast<uint8_t>(std::clamp(ycc[0] + (parts[c] >> 6), 0, 255));
  }
}

}  // namespace sardonyx::image
