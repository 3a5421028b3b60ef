#include "images/decode.h"

#include <new>

#include "base/error.h"

namespace sardonyx::image {
namespace {

struct Format {
  Image (*decode)(Bytes);
  std::string_view magic;
  size_t offset = 0;
};

using std::string_view_literals::operator""sv;
constexpr Format kFormats[] = {
    {DecodeJpeg, "\xff\xd8\xff"},
    {DecodePng, "\x89PNG\r\n\x1a\n"},
    {DecodeWebp, "WEBP", 8},
    {DecodeTiff, "II*\0"sv},
    {DecodeTiff, "MM\0*"sv},
    {DecodeTiff, "II+\0"sv},
    {DecodeTiff, "MM\0+"sv},
    {DecodeJpeg2000, "\0\0\0\x0cjP  \r\n\x87\n"sv},
    {DecodeJpeg2000, "\xff\x4f\xff\x51"},
    {DecodeBmp, "BM"},
    {DecodePnm, "P1"},
    {DecodePnm, "P2"},
    {DecodePnm, "P3"},
    {DecodePnm, "P4"},
    {DecodePnm, "P5"},
    {DecodePnm, "P6"},
};

Image Decode(Bytes bytes) {
  for (const Format& format : kFormats) {
    if (!HasMagic(bytes, format.magic, format.offset)) continue;
    try {
      return format.decode(bytes);
    } catch (const std::bad_alloc&) {
      Fail(ErrorCode::kOutOfMemory, "there is no memory for the decoded image");
    }
  }
  Fail(ErrorCode::kInvalidArgument,
       "the {} bytes begin like none of JPEG, JPEG 2000, PNG, BMP, PNM, TIFF and WebP",
       bytes.size());
}

}  // namespace
}  // namespace sardonyx::image

void sardonyx_decode_image(sardonyx::image::Bytes bytes, sardonyx::image::Decoded& decoded) {
  try {
    decoded.image = sardonyx::image::Decode(bytes);
  } catch (const sardonyx::Error& error) {
    decoded.error = error;
  }
}
