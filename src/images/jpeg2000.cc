#include <openjpeg.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "images/image.h"

namespace sardonyx::image {
namespace {

constexpr std::string_view kJpeg2000 = "JPEG 2000";

// The file in memory, as OpenJPEG reads it.
struct Source {
  Bytes bytes;
  size_t at = 0;
};

OPJ_SIZE_T OnRead(void* out, OPJ_SIZE_T count, void* user) {
  auto& source = *static_cast<Source*>(user);
  count = std::min(count, source.bytes.size() - source.at);
  if (count == 0) return static_cast<OPJ_SIZE_T>(-1);
  std::memcpy(out, source.bytes.data() + source.at, count);
  source.at += count;
  return count;
}

OPJ_BOOL OnSeek(OPJ_OFF_T to, void* user) {
  auto& source = *static_cast<Source*>(user);
  if (to < 0 || static_cast<size_t>(to) > source.bytes.size()) return OPJ_FALSE;
  source.at = static_cast<size_t>(to);
  return OPJ_TRUE;
}

OPJ_OFF_T OnSkip(OPJ_OFF_T count, void* user) {
  auto& source = *static_cast<Source*>(user);
  const auto left = static_cast<OPJ_OFF_T>(source.bytes.size() - source.at);
  if (count < 0 || left == 0) return -1;
  count = std::min(count, left);
  source.at += static_cast<size_t>(count);
  return count;
}

// The last message is the one that tells least: keep the first.
void OnError(const char* message, void* user) {
  auto& why = *static_cast<std::string*>(user);
  if (!why.empty()) return;
  why = message;
  while (!why.empty() && (why.back() == '\n' || why.back() == '.')) why.pop_back();
}

void OnNothing(const char*, void*) {}

// Streams and codecs are one type to the compiler, so each owner names its function.
template <auto kDestroy>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    kDestroy(object);
  }
};
using Stream = std::unique_ptr<opj_stream_t, Deleter<opj_stream_destroy>>;
using Codec = std::unique_ptr<opj_codec_t, Deleter<opj_destroy_codec>>;
using Decoded = std::unique_ptr<opj_image_t, Deleter<opj_image_destroy>>;

Decoded Decode(Bytes bytes) {
  Source source{bytes};
  std::string why;
  const Stream stream(opj_stream_create(1 << 16, OPJ_TRUE));
  const bool boxed = HasMagic(bytes, "jP  ", 4);
  const Codec codec(opj_create_decompress(boxed ? OPJ_CODEC_JP2 : OPJ_CODEC_J2K));
  if (stream == nullptr || codec == nullptr) FailDamaged(kJpeg2000, "no memory");
  opj_stream_set_user_data(stream.get(), &source, nullptr);
  opj_stream_set_user_data_length(stream.get(), bytes.size());
  opj_stream_set_read_function(stream.get(), OnRead);
  opj_stream_set_seek_function(stream.get(), OnSeek);
  opj_stream_set_skip_function(stream.get(), OnSkip);
  opj_set_error_handler(codec.get(), OnError, &why);
  opj_set_warning_handler(codec.get(), OnNothing, nullptr);
  opj_set_info_handler(codec.get(), OnNothing, nullptr);
  opj_dparameters_t parameters;
  opj_set_default_decoder_parameters(&parameters);
  opj_image_t* made = nullptr;
  const auto check = [&](OPJ_BOOL done) {
    if (done == 0) FailDamaged(kJpeg2000, why.empty() ? "the data is damaged" : why);
  };
  check(opj_setup_decoder(codec.get(), &parameters));
  const OPJ_BOOL has_header = opj_read_header(stream.get(), codec.get(), &made);
  Decoded image(made);
  check(has_header);
  if (image->numcomps > 4) FailUnsupported(kJpeg2000, "more than four components");
  for (OPJ_UINT32 c = 0; c < image->numcomps; ++c) {
    CheckSize(kJpeg2000, image->comps[c].w, image->comps[c].h);
  }
  check(opj_decode(codec.get(), stream.get(), image.get()));
  check(opj_end_decompress(codec.get(), stream.get()));
  return image;
}

// A component as 8 bits: few bits are shifted up, many rounded down.
class Plane {
 public:
  Plane(const opj_image_comp_t& component, int64_t width, int64_t height)
      : component_(component),
        width_(width),
        height_(height),
        shift_(8 - static_cast<int>(component.prec)),
        offset_((component.sgnd != 0 ? int64_t{1} << (component.prec - 1) : 0) +
                (shift_ < 0 ? int64_t{1} << (-shift_ - 1) : 0)) {
    if (component.data == nullptr) FailDamaged(kJpeg2000, "a component has no data");
  }

  uint8_t At(int64_t x, int64_t y) const {
    const int64_t column = x * component_.w / width_, row = y * component_.h / height_;
    const int64_t value = component_.data[row * component_.w + column] + offset_;
    return static_cast<uint8_t>(
        std::clamp<int64_t>(shift_ < 0 ? value >> -shift_ : value << shift_, 0, 255));
  }

 private:
  const opj_image_comp_t& component_;
  int64_t width_, height_;
  int shift_;
  int64_t offset_;
};

}  // namespace

Image DecodeJpeg2000(Bytes bytes) {
  const Decoded decoded = Decode(bytes);
  if (decoded->numcomps == 0) FailDamaged(kJpeg2000, "it has no components");
  // Two components are gray and alpha, four colour and alpha unless they are inks.
  const bool cmyk = decoded->color_space == OPJ_CLRSPC_CMYK && decoded->numcomps == 4;
  const int used = decoded->numcomps < 3 ? 1 : cmyk ? 4 : 3;
  const opj_image_comp_t* components = decoded->comps;
  const bool ycc =
      used == 3 && (decoded->color_space == OPJ_CLRSPC_SYCC || components[1].dx > components[0].dx);
  Image image = MakeImage(kJpeg2000, components[0].w, components[0].h, used == 1 ? 1 : 3);
  std::vector<Plane> planes;
  for (int c = 0; c < used; ++c) planes.emplace_back(components[c], image.width, image.height);
  uint8_t* out = image.pixels.data();
  for (int64_t y = 0; y < image.height; ++y) {
    for (int64_t x = 0; x < image.width; ++x, out += image.channels) {
      uint8_t pixel[4];
      for (int c = 0; c < used; ++c) pixel[c] = planes[static_cast<size_t>(c)].At(x, y);
      if (cmyk) {
        CmykToRgb(pixel, out);
      } else if (ycc) {
        YccToRgb(pixel, out);
      } else {
        std::copy_n(pixel, image.channels, out);
      }
    }
  }
  return image;
}

}  // namespace sardonyx::image
