#pragma once
// Decoders of still images, one file a format. Whatever the bytes are, the result is a picture or
// an Error: kInvalidArgument for damage, kUnsupported for what a format allows and few files have,
// kLimitExceeded for sizes that no model wants.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sardonyx::image {

using Bytes = std::span<const uint8_t>;

// Rows from the top, pixels of 1 (gray) or 3 (red, green, blue) bytes. Alpha is dropped, what has
// more than 8 bits keeps the highest, and metadata (colour profiles, Exif) changes nothing.
struct Image {
  int64_t width = 0, height = 0;
  int channels = 3;
  std::vector<uint8_t> pixels;

  uint8_t* row(int64_t y) { return pixels.data() + y * width * channels; }
  uint8_t* at(int64_t x, int64_t y) { return row(y) + x * channels; }
};

inline constexpr int64_t kMaxPixels = int64_t{1} << 27;

// Throws unless the size, which a file claims, is one to allocate memory for.
void CheckSize(std::string_view format, int64_t width, int64_t height);
// A black image of a size that is checked.
Image MakeImage(std::string_view format, int64_t width, int64_t height, int channels);
[[noreturn]] void FailDamaged(std::string_view format, std::string_view why);
[[noreturn]] void FailUnsupported(std::string_view format, std::string_view what);

// Whether `bytes` begin with those of `magic`, from `offset` on.
bool HasMagic(Bytes bytes, std::string_view magic, size_t offset = 0);

// What remains of a colour under cyan, magenta, yellow and black ink, 255 being all of it.
void CmykToRgb(const uint8_t* cmyk, uint8_t* rgb);
// ITU-R BT.601, full range.
void YccToRgb(const uint8_t* ycc, uint8_t* rgb);

Image DecodeBmp(Bytes bytes);
Image DecodeJpeg(Bytes bytes);
Image DecodeJpeg2000(Bytes bytes);
Image DecodePng(Bytes bytes);
Image DecodePnm(Bytes bytes);
Image DecodeTiff(Bytes bytes);
Image DecodeWebp(Bytes bytes);

}  // namespace sardonyx::image
