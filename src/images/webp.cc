#include <webp/decode.h>
#include <webp/demux.h>

#include <memory>

#include "images/image.h"

namespace sardonyx::image {
namespace {

constexpr std::string_view kWebp = "WebP";

struct Deleter {
  void operator()(WebPAnimDecoder* decoder) const { WebPAnimDecoderDelete(decoder); }
};

}  // namespace

// A still image is an animation of one frame; of more, the first counts.
Image DecodeWebp(Bytes bytes) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(bytes.data(), bytes.size(), &features) != VP8_STATUS_OK) {
    FailDamaged(kWebp, "its header is none of WebP");
  }
  CheckSize(kWebp, features.width, features.height);
  WebPAnimDecoderOptions options;
  WebPAnimDecoderOptionsInit(&options);
  const WebPData data{bytes.data(), bytes.size()};
  const std::unique_ptr<WebPAnimDecoder, Deleter> decoder(WebPAnimDecoderNew(&data, &options));
  WebPAnimInfo info;
  uint8_t* rgba = nullptr;
  int timestamp = 0;
  if (decoder == nullptr || WebPAnimDecoderGetInfo(decoder.get(), &info) == 0 ||
      WebPAnimDecoderGetNext(decoder.get(), &rgba, &timestamp) == 0) {
    FailDamaged(kWebp, "the data is damaged or ends too early");
  }
  Image image = MakeImage(kWebp, info.canvas_width, info.canvas_height, 3);
  for (size_t i = 0; i < image.pixels.size(); ++i) image.pixels[i] = rgba[i / 3 * 4 + i % 3];
  return image;
}

}  // namespace sardonyx::image
