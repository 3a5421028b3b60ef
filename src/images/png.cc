#include <png.h>

#include <cstdio>
#include <cstring>

#include "images/image.h"

namespace sardonyx::image {
namespace {

constexpr std::string_view kPng = "PNG";

// libpng reports an error by a jump out of the library, into a function here that has no object
// with a destructor.
struct Decoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  Bytes rest;
  char message[200] = "no memory";

  explicit Decoder(Bytes bytes);
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void OnError(png_structp png, png_const_charp message) {
  auto* decoder = static_cast<Decoder*>(png_get_error_ptr(png));
  std::snprintf(decoder->message, sizeof decoder->message, "%s", message);
  png_longjmp(png, 1);
}

void OnWarning(png_structp, png_const_charp) {}

void OnRead(png_structp png, png_bytep out, size_t count) {
  Bytes& rest = static_cast<Decoder*>(png_get_io_ptr(png))->rest;
  if (count > rest.size()) png_error(png, "the data ends too early");
  std::memcpy(out, rest.data(), count);
  rest = rest.subspan(count);
}

Decoder::Decoder(Bytes bytes) : rest(bytes) {
  png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, OnError, OnWarning);
  if (png != nullptr) info = png_create_info_struct(png);
}

// Asks for gray or RGB of 8 bits: palettes and few bits are expanded, the rest is cut off.
bool ReadHeader(Decoder& decoder) {
  if (decoder.info == nullptr || setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_set_read_fn(decoder.png, &decoder, OnRead);
  png_read_info(decoder.png, decoder.info);
  png_set_expand(decoder.png);
  png_set_strip_16(decoder.png);
  png_set_strip_alpha(decoder.png);
  png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
  return true;
}

bool ReadRows(Decoder& decoder, png_bytepp rows) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_read_image(decoder.png, rows);
  png_read_end(decoder.png, nullptr);
  return true;
}

}  // namespace

Image DecodePng(Bytes bytes) {
  Decoder decoder(bytes);
  if (!ReadHeader(decoder)) FailDamaged(kPng, decoder.message);
  Image image = MakeImage(kPng, png_get_image_width(decoder.png, decoder.info),
                          png_get_image_height(decoder.png, decoder.info),
                          png_get_channels(decoder.png, decoder.info));
  std::vector<png_bytep> rows(static_cast<size_t>(image.height));
  for (int64_t y = 0; y < image.height; ++y) rows[static_cast<size_t>(y)] = image.row(y);
  if (!ReadRows(decoder, rows.data())) FailDamaged(kPng, decoder.message);
  return image;
}

}  // namespace sardonyx::image
