#include <csetjmp>
#include <cstdio>
// jpeglib.h uses what the headers above declare.
#include <jerror.h>
#include <jpeglib.h>

#include "images/image.h"

namespace sardonyx::image {
namespace {

constexpr std::string_view kJpeg = "JPEG";
constexpr int kMaxScans = 500;  // a small file may have thousands, each as slow as the picture

// libjpeg reports an error by a call that must not return. It jumps out of the library, into a
// function here that has no object with a destructor.
struct Decoder {
  jpeg_decompress_struct info = {};
  jpeg_error_mgr errors = {};
  jpeg_progress_mgr progress = {};
  std::jmp_buf escape;
  char message[JMSG_LENGTH_MAX] = {};

  Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { jpeg_destroy_decompress(&info); }
};

[[noreturn]] void OnError(j_common_ptr info) {
  auto* decoder = static_cast<Decoder*>(info->client_data);
  info->err->format_message(info, decoder->message);
  std::longjmp(decoder->escape, 1);
}

// Warnings (level -1) mean pixels that are made up, but for a few that are only about form.
void OnMessage(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM &&
      code != JWRN_JFIF_MAJOR) {
    OnError(info);
  }
}

void OnProgress(j_common_ptr info) {
  auto* decoder = static_cast<Decoder*>(info->client_data);
  if (decoder->info.input_scan_number <= kMaxScans) return;
  std::snprintf(decoder->message, JMSG_LENGTH_MAX, "it has more than %d scans", kMaxScans);
  std::longjmp(decoder->escape, 1);
}

Decoder::Decoder() {
  info.err = jpeg_std_error(&errors);
  info.client_data = this;
  errors.error_exit = OnError;
  errors.emit_message = OnMessage;
  progress.progress_monitor = OnProgress;
}

bool ReadHeader(Decoder& decoder, Bytes bytes) {
  if (setjmp(decoder.escape) != 0) return false;
  jpeg_create_decompress(&decoder.info);
  decoder.info.progress = &decoder.progress;
  jpeg_mem_src(&decoder.info, bytes.data(), bytes.size());
  jpeg_read_header(&decoder.info, TRUE);
  return true;
}

bool ReadRows(Decoder& decoder, uint8_t* pixels, size_t stride) {
  if (setjmp(decoder.escape) != 0) return false;
  jpeg_start_decompress(&decoder.info);
  while (decoder.info.output_scanline < decoder.info.output_height) {
    JSAMPROW row = pixels + decoder.info.output_scanline * stride;
    jpeg_read_scanlines(&decoder.info, &row, 1);
  }
  return true;
}

}  // namespace

Image DecodeJpeg(Bytes bytes) {
  Decoder decoder;
  if (!ReadHeader(decoder, bytes)) FailDamaged(kJpeg, decoder.message);
  jpeg_decompress_struct& info = decoder.info;
  int components = 3;
  switch (info.jpeg_color_space) {
    case JCS_GRAYSCALE:
      info.out_color_space = JCS_GRAYSCALE;
      components = 1;
      break;
    case JCS_RGB:
    case JCS_YCbCr: info.out_color_space = JCS_RGB; break;
    case JCS_CMYK:
    case JCS_YCCK:
      info.out_color_space = JCS_CMYK;
      components = 4;
      break;
    default: FailUnsupported(kJpeg, "its colour space");
  }
  Image image = MakeImage(kJpeg, info.image_width, info.image_height, components);
  if (!ReadRows(decoder, image.pixels.data(), static_cast<size_t>(image.width * components))) {
    FailDamaged(kJpeg, decoder.message);
  }
  if (components < 4) return image;
  // Adobe's convention, which all writers follow: inks are stored inverted.
  Image rgb = MakeImage(kJpeg, image.width, image.height, 3);
  for (size_t i = 0, count = image.pixels.size() / 4; i < count; ++i) {
    uint8_t* cmyk = &image.pixels[4 * i];
    for (int k = 0; k < 4; ++k) cmyk[k] = static_cast<uint8_t>(255 - cmyk[k]);
    CmykToRgb(cmyk, &rgb.pixels[3 * i]);
  }
  return rgb;
}

}  // namespace sardonyx::image
