// ImageDecoder. The standard lets what cannot be decoded become an empty matrix; here it is an
// error, for an empty image would fail later and further from its cause.

#include <dlfcn.h>

#include <algorithm>
#include <utility>

#include "images/decode.h"
#include "ops/core/reference.h"
#include "ops/lowering.h"

namespace sardonyx {
namespace core {
namespace {

using DecodeImage = decltype(sardonyx_decode_image);

DecodeImage* OpenImages() {
  void* const library = dlopen(SARDONYX_IMAGES, RTLD_NOW | RTLD_LOCAL);
  void* const found = library == nullptr ? nullptr : dlsym(library, "sardonyx_decode_image");
  if (found == nullptr) {
    Fail(
        ErrorCode::kNotFound,
        "images are decoded by {}, which is installed with Sardonyx and must lie where it was put: "
        "{}",
        SARDONYX_IMAGES, dlerror());
  }
  return reinterpret_cast<DecodeImage*>(found);
}

image::Image Decode(image::Bytes bytes) {
  static DecodeImage* const decode = OpenImages();
  image::Decoded decoded;
  decode(bytes, decoded);
  if (decoded.error) throw *decoded.error;
  return std::move(decoded.image);
}

void InferImageDecoder(InferContext& context) {
  if (context.dtype(0) != DType::kUInt8) {
    context.Fail("an encoded image is uint8, not {}", Name(context.dtype(0)));
  }
  if (context.ranked(0) && context.rank(0) != 1) {
    context.Fail("an encoded image is a vector of bytes, not {}", context.Print(context.shape(0)));
  }
  const std::string_view format = context.attributes().String("pixel_format", "RGB");
  if (format != "RGB" && format != "BGR" && format != "Grayscale") {
    context.Fail("pixel_format is RGB, BGR or Grayscale, not '{}'", format);
  }
  SymbolTable& symbols = context.symbols();
  context.Set(0, DType::kUInt8,
              Dims{symbols.Fresh(), symbols.Fresh(), Dim(format == "Grayscale" ? 1 : 3)});
}

void ComputeImageDecoder(ComputeContext& context) {
  const Tensor& x = context.input(0);
  const image::Image picture = Decode({x.data<uint8_t>(), static_cast<size_t>(x.size())});
  const std::string_view format = context.attributes().String("pixel_format", "RGB");
  const bool gray = format == "Grayscale";
  const int red = format == "BGR" ? 2 : 0;
  Tensor& y = context.Allocate(0, DType::kUInt8, {picture.height, picture.width, gray ? 1 : 3});
  const uint8_t* in = picture.pixels.data();
  uint8_t* out = y.data<uint8_t>();
  const int64_t count = picture.width * picture.height;
  if (picture.channels == 1) {
    for (int64_t i = 0; i < count; ++i, out += gray ? 1 : 3) std::fill_n(out, gray ? 1 : 3, in[i]);
  } else if (gray) {
    // ITU-R BT.601 luma in units of 2^-16.
    for (int64_t i = 0; i < count; ++i, in += 3) {
      out[i] = static_cast<uint8_t>((in[0] * 19595 + in[1] * 38470 + in[2] * 7471 + 0x8000) >> 16);
    }
  } else {
    for (int64_t i = 0; i < count; ++i, in += 3, out += 3) {
      out[red] = in[0];
      out[1] = in[1];
      out[2 - red] = in[2];
    }
  }
}

}  // namespace

const CoreOp image_decoder = {.name = "image_decoder",
                              .inputs = "t",
                              .infer = InferImageDecoder,
                              .reference = ComputeImageDecoder};

}  // namespace core

namespace ops {

Outputs LowerImageDecoder(Lowering& op) {
  return op.builder().Make(core::image_decoder, {op.in(0)},
                           {{"pixel_format", op.String("pixel_format", "RGB")}});
}

}  // namespace ops
}  // namespace sardonyx
