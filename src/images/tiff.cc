#include <tiffio.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "images/image.h"

namespace sardonyx::image {
namespace {

constexpr std::string_view kTiff = "TIFF";
constexpr tmsize_t kMaxBlock = tmsize_t{1} << 30;  // bytes of a strip or tile

// The file in memory, as libtiff reads it, and the first error that it reports.
struct Source {
  Bytes bytes;
  uint64_t at = 0;
  std::string why;
};

tmsize_t OnRead(thandle_t handle, void* out, tmsize_t count) {
  auto& source = *static_cast<Source*>(handle);
  if (source.at >= source.bytes.size() || count <= 0) return 0;
  const size_t size = std::min(static_cast<size_t>(count), source.bytes.size() - source.at);
  std::memcpy(out, source.bytes.data() + source.at, size);
  source.at += size;
  return static_cast<tmsize_t>(size);
}
tmsize_t OnWrite(thandle_t, void*, tmsize_t) { return 0; }
toff_t OnSeek(thandle_t handle, toff_t to, int whence) {
  auto& source = *static_cast<Source*>(handle);
  if (whence == SEEK_CUR) to += source.at;
  if (whence == SEEK_END) to += source.bytes.size();
  return source.at = to;
}
int OnClose(thandle_t) { return 0; }
toff_t OnSize(thandle_t handle) { return static_cast<Source*>(handle)->bytes.size(); }

int OnError(TIFF*, void* user, const char*, const char* format, va_list arguments) {
  auto& why = static_cast<Source*>(user)->why;
  char text[200];
  std::vsnprintf(text, sizeof text, format, arguments);
  if (why.empty()) why = text;
  return 1;
}
// libtiff goes on without a tag whose value lies behind the end, even if it is the palette.
int OnWarning(TIFF* tiff, void* user, const char* module, const char* format, va_list arguments) {
  if (!std::string_view(format).starts_with("IO error")) return 1;
  return OnError(tiff, user, module, format, arguments);
}

struct Deleter {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
  void operator()(TIFFOpenOptions* options) const { TIFFOpenOptionsFree(options); }
};
using File = std::unique_ptr<TIFF, Deleter>;

File Open(Source& source) {
  const std::unique_ptr<TIFFOpenOptions, Deleter> options(TIFFOpenOptionsAlloc());
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), OnError, &source);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), OnWarning, &source);
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kMaxBlock);
  return File(TIFFClientOpenExt("image", "rm", &source, OnRead, OnWrite, OnSeek, OnClose, OnSize,
                                nullptr, nullptr, options.get()));
}

struct Layout {
  int64_t width = 0, height = 0;
  int64_t block_width = 0, block_height = 0;  // of a strip or tile
  int bits = 1, samples = 1;                  // of a sample; of a pixel
  int used = 1;                               // the first samples, that make the colour
  int photometric = 0;
  bool tiled = false, separate = false, premultiplied = false;
  const uint16_t* palette[3] = {};
};

template <typename T>
T Field(TIFF* tiff, uint32_t tag, T otherwise) {
  T value = otherwise;
  return TIFFGetFieldDefaulted(tiff, tag, &value) != 0 ? value : otherwise;
}

Layout ReadLayout(TIFF* tiff) {
  Layout layout;
  layout.width = Field<uint32_t>(tiff, TIFFTAG_IMAGEWIDTH, 0);
  layout.height = Field<uint32_t>(tiff, TIFFTAG_IMAGELENGTH, 0);
  CheckSize(kTiff, layout.width, layout.height);
  layout.bits = Field<uint16_t>(tiff, TIFFTAG_BITSPERSAMPLE, 1);
  layout.samples = Field<uint16_t>(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
  layout.photometric = Field<uint16_t>(
      tiff, TIFFTAG_PHOTOMETRIC,
      layout.samples < 3 ? uint16_t{PHOTOMETRIC_MINISBLACK} : uint16_t{PHOTOMETRIC_RGB});
  layout.separate =
      Field<uint16_t>(tiff, TIFFTAG_PLANARCONFIG, PLANARCONFIG_CONTIG) == PLANARCONFIG_SEPARATE &&
      layout.samples > 1;
  layout.tiled = TIFFIsTiled(tiff) != 0;
  if (layout.tiled) {
    layout.block_width = Field<uint32_t>(tiff, TIFFTAG_TILEWIDTH, 0);
    layout.block_height = Field<uint32_t>(tiff, TIFFTAG_TILELENGTH, 0);
  } else {
    layout.block_width = layout.width;
    layout.block_height =
        std::min<int64_t>(Field<uint32_t>(tiff, TIFFTAG_ROWSPERSTRIP, 0), layout.height);
  }
  if (layout.block_width < 1 || layout.block_height < 1) {
    FailDamaged(kTiff, "its strips or tiles have no size");
  }
  switch (layout.photometric) {
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_MINISBLACK: break;
    case PHOTOMETRIC_YCBCR:
      TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
      layout.photometric = PHOTOMETRIC_RGB;
      [[fallthrough]];
    case PHOTOMETRIC_RGB: layout.used = 3; break;
    case PHOTOMETRIC_SEPARATED: layout.used = 4; break;
    case PHOTOMETRIC_PALETTE: {
      uint16_t *red, *green, *blue;
      if (layout.bits > 8 || TIFFGetField(tiff, TIFFTAG_COLORMAP, &red, &green, &blue) == 0) {
        FailDamaged(kTiff, "it has no palette");
      }
      layout.palette[0] = red, layout.palette[1] = green, layout.palette[2] = blue;
      break;
    }
    default: FailUnsupported(kTiff, "its colour space");
  }
  const auto sample_format = Field<uint16_t>(tiff, TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
  const bool few_bits = layout.bits == 1 || layout.bits == 2 || layout.bits == 4;
  if ((sample_format != SAMPLEFORMAT_UINT && sample_format != SAMPLEFORMAT_VOID) ||
      (!few_bits && layout.bits != 8 && layout.bits != 16)) {
    FailUnsupported(kTiff, "samples that are not unsigned integers of 1, 2, 4, 8 or 16 bits");
  }
  if (layout.samples < layout.used) FailDamaged(kTiff, "a pixel has too few samples");
  uint16_t extra = 0;
  const uint16_t* kinds = nullptr;
  TIFFGetFieldDefaulted(tiff, TIFFTAG_EXTRASAMPLES, &extra, &kinds);
  layout.premultiplied = layout.photometric == PHOTOMETRIC_RGB && extra > 0 &&
                         kinds[0] == EXTRASAMPLE_ASSOCALPHA && layout.samples > 3;
  return layout;
}

// Sample `i` of a row, whose fields follow each other from the high bits on.
int SampleAt(const uint8_t* row, int bits, int64_t i) {
  if (bits == 8) return row[i];
  if (bits == 16) {
    uint16_t value;
    std::memcpy(&value, row + 2 * i, 2);
    return value;
  }
  const int64_t bit = i * bits;
  return (row[bit / 8] >> (8 - bits - bit % 8)) & ((1 << bits) - 1);
}

void ToColor(const Layout& layout, const int* samples, uint8_t* out) {
  const auto to_byte = [&](int sample) {
    return static_cast<uint8_t>(layout.bits == 16 ? sample >> 8
                                                  : sample * 255 / ((1 << layout.bits) - 1));
  };
  uint8_t bytes[4] = {};
  if (layout.photometric == PHOTOMETRIC_PALETTE) {
    for (int c = 0; c < 3; ++c) out[c] = static_cast<uint8_t>(layout.palette[c][samples[0]] >> 8);
    return;
  }
  const int count = layout.premultiplied ? 4 : layout.used;
  for (int c = 0; c < count; ++c) bytes[c] = to_byte(samples[c]);
  if (layout.photometric == PHOTOMETRIC_SEPARATED) {
    CmykToRgb(bytes, out);
  } else if (layout.photometric == PHOTOMETRIC_MINISWHITE) {
    out[0] = static_cast<uint8_t>(255 - bytes[0]);
  } else if (layout.premultiplied) {
    for (int c = 0; c < 3; ++c) {
      out[c] = bytes[3] == 0 ? uint8_t{0}
                             : static_cast<uint8_t>(std::min(255, bytes[c] * 255 / bytes[3]));
    }
  } else {
    std::copy_n(bytes, layout.used, out);
  }
}

class Blocks {
 public:
  Blocks(TIFF* tiff, const Layout& layout, const Source& source)
      : tiff_(tiff), layout_(layout), source_(source) {
    planes_ = layout.separate ? layout.premultiplied ? 4 : layout.used : 1;
    row_ = (layout.block_width * layout.bits * (layout.separate ? 1 : layout.samples) + 7) / 8;
    const tmsize_t size = layout.tiled ? TIFFTileSize(tiff) : TIFFStripSize(tiff);
    if (size < 1 || row_ > size / layout.block_height) {
      FailDamaged(kTiff, "its strips or tiles have the wrong size");
    }
    if (size > kMaxBlock) FailUnsupported(kTiff, "a strip or tile of more than 1 GiB");
    memory_.resize(static_cast<size_t>(size * planes_));
  }

  void Decode(Image* image) {
    for (int64_t y = 0; y < layout_.height; y += layout_.block_height) {
      for (int64_t x = 0; x < layout_.width; x += layout_.block_width) {
        for (int plane = 0; plane < planes_; ++plane) Read(x, y, plane);
        Place(x, y, image);
      }
    }
  }

 private:
  size_t plane_size() const { return memory_.size() / static_cast<size_t>(planes_); }

  void Read(int64_t x, int64_t y, int plane) {
    uint8_t* out = memory_.data() + static_cast<size_t>(plane) * plane_size();
    const auto size = static_cast<tmsize_t>(plane_size());
    const auto column = static_cast<uint32_t>(x), row = static_cast<uint32_t>(y);
    const auto sample = static_cast<uint16_t>(plane);
    const int64_t rows =
        layout_.tiled ? layout_.block_height : std::min(layout_.block_height, layout_.height - y);
    const tmsize_t got =
        layout_.tiled
            ? TIFFReadEncodedTile(tiff_, TIFFComputeTile(tiff_, column, row, 0, sample), out, size)
            : TIFFReadEncodedStrip(tiff_, TIFFComputeStrip(tiff_, row, sample), out, size);
    if (got < rows * row_) {
      FailDamaged(kTiff, source_.why.empty() ? "the data ends too early" : source_.why);
    }
  }

  void Place(int64_t left, int64_t top, Image* image) const {
    const int64_t bottom = std::min(top + layout_.block_height, layout_.height);
    const int64_t right = std::min(left + layout_.block_width, layout_.width);
    const int count = layout_.premultiplied ? 4 : layout_.used;
    for (int64_t y = top; y < bottom; ++y) {
      const uint8_t* in = memory_.data() + (y - top) * row_;
      for (int64_t x = left; x < right; ++x) {
        int samples[4];
        for (int c = 0; c < count; ++c) {
          samples[c] =
              layout_.separate
                  ? SampleAt(in + static_cast<size_t>(c) * plane_size(), layout_.bits, x - left)
                  : SampleAt(in, layout_.bits, (x - left) * layout_.samples + c);
        }
        ToColor(layout_, samples, image->at(x, y));
      }
    }
  }

  TIFF* tiff_;
  const Layout& layout_;
  const Source& source_;
  int planes_ = 1;
  int64_t row_ = 0;  // bytes
  std::vector<uint8_t> memory_;
};

// Colours of their own kind, such as CIE L*a*b*, and YCbCr, of which only the JPEG codec makes RGB.
bool NeedsLibrary(TIFF* tiff) {
  const int photometric = Field<uint16_t>(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
  const int compression = Field<uint16_t>(tiff, TIFFTAG_COMPRESSION, COMPRESSION_NONE);
  return photometric > PHOTOMETRIC_SEPARATED &&
         (photometric != PHOTOMETRIC_YCBCR || compression != COMPRESSION_JPEG);
}

Image DecodeByLibrary(TIFF* tiff, const Source& source) {
  const auto width = Field<uint32_t>(tiff, TIFFTAG_IMAGEWIDTH, 0);
  const auto height = Field<uint32_t>(tiff, TIFFTAG_IMAGELENGTH, 0);
  Image image = MakeImage(kTiff, width, height, 3);
  char why[1024];
  if (TIFFRGBAImageOK(tiff, why) == 0) FailUnsupported(kTiff, why);
  std::vector<uint32_t> raster(static_cast<size_t>(width) * height);
  const auto orientation = Field<uint16_t>(tiff, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
  if (TIFFReadRGBAImageOriented(tiff, width, height, raster.data(), orientation, 1) == 0) {
    FailDamaged(kTiff, source.why.empty() ? "the data ends too early" : source.why);
  }
  for (size_t i = 0; i < raster.size(); ++i) {
    for (size_t c = 0; c < 3; ++c) {
      image.pixels[3 * i + c] = static_cast<uint8_t>(raster[i] >> (8 * c));
    }
  }
  return image;
}

// Turns and mirrors as tag Orientation says: 2 and 4 mirror, 3 turns by half, 5 to 8 swap the axes.
Image Oriented(Image image, int orientation) {
  if (orientation < 2 || orientation > 8) return image;
  const bool swap = orientation > 4;
  const bool from_right =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Image turned = MakeImage(kTiff, swap ? image.height : image.width,
                           swap ? image.width : image.height, image.channels);
  for (int64_t y = 0; y < turned.height; ++y) {
    for (int64_t x = 0; x < turned.width; ++x) {
      const int64_t column = swap ? y : x, row = swap ? x : y;
      std::copy_n(image.at(from_right ? image.width - 1 - column : column,
                           from_bottom ? image.height - 1 - row : row),
                  image.channels, turned.at(x, y));
    }
  }
  return turned;
}

}  // namespace

Image DecodeTiff(Bytes bytes) {
  Source source{bytes, 0, {}};
  const File file = Open(source);
  TIFF* tiff = file.get();
  if (tiff == nullptr || !source.why.empty()) FailDamaged(kTiff, source.why);
  CheckSize(kTiff, Field<uint32_t>(tiff, TIFFTAG_IMAGEWIDTH, 0),
            Field<uint32_t>(tiff, TIFFTAG_IMAGELENGTH, 0));
  const int orientation = Field<uint16_t>(tiff, TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT);
  if (NeedsLibrary(tiff)) return Oriented(DecodeByLibrary(tiff, source), orientation);
  const Layout layout = ReadLayout(tiff);
  const bool gray = layout.photometric < PHOTOMETRIC_RGB;
  Image image = MakeImage(kTiff, layout.width, layout.height, gray ? 1 : 3);
  Blocks(tiff, layout, source).Decode(&image);
  return Oriented(std::move(image), orientation);
}

}  // namespace sardonyx::image
