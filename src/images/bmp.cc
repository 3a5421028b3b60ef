// Windows and OS/2 bitmaps, after "Bitmap Storage" of the Windows GDI documentation.

#include <algorithm>
#include <array>
#include <bit>

#include "images/image.h"

namespace sardonyx::image {
namespace {

constexpr std::string_view kBmp = "BMP";
constexpr int64_t kFileHeader = 14;
enum Compression : uint32_t { kRgb, kRle8, kRle4, kBitFields, kAlphaBitFields = 6 };

using Color = std::array<uint8_t, 3>;

struct Header {
  int64_t width = 0, height = 0;
  bool top_down = false;
  int bits = 0;
  uint32_t compression = kRgb;
  std::array<uint32_t, 3> masks = {};
  std::vector<Color> palette;
  Bytes pixels;
};

class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(bytes) {}
  // Little-endian, `size` bytes at `offset`.
  uint32_t Read(int64_t offset, int size) const {
    if (offset + size > static_cast<int64_t>(bytes_.size())) {
      FailDamaged(kBmp, "the data ends too early");
    }
    uint32_t value = 0;
    for (int i = size; i-- > 0;) value = value << 8 | bytes_[static_cast<size_t>(offset + i)];
    return value;
  }

 private:
  Bytes bytes_;
};

void ReadPalette(const Reader& reader, int64_t offset, int64_t end, int entry, Header* header) {
  const int64_t most = int64_t{1} << header->bits;
  for (int64_t i = 0; i < most && offset + entry <= end; ++i, offset += entry) {
    Color color;
    for (int c = 0; c < 3; ++c) color[2 - c] = static_cast<uint8_t>(reader.Read(offset + c, 1));
    header->palette.push_back(color);
  }
}

Header ReadHeader(Bytes bytes) {
  const Reader reader(bytes);
  const int64_t start = reader.Read(10, 4);
  const int64_t size = reader.Read(kFileHeader, 4);
  Header header;
  int planes;
  int64_t colors = 0, behind = kFileHeader + size;
  if (size == 12) {
    header.width = reader.Read(18, 2);
    header.height = reader.Read(20, 2);
    planes = static_cast<int>(reader.Read(22, 2));
    header.bits = static_cast<int>(reader.Read(24, 2));
  } else if (size >= 40 && size <= 124) {
    header.width = static_cast<int32_t>(reader.Read(18, 4));
    header.height = static_cast<int32_t>(reader.Read(22, 4));
    planes = static_cast<int>(reader.Read(26, 2));
    header.bits = static_cast<int>(reader.Read(28, 2));
    header.compression = reader.Read(30, 4);
    colors = reader.Read(46, 4);
  } else {
    FailDamaged(kBmp, "its header has an unknown size");
  }
  if (planes != 1) FailDamaged(kBmp, "it has not one plane");
  header.top_down = header.height < 0;
  header.height = header.height < 0 ? -header.height : header.height;
  CheckSize(kBmp, header.width, header.height);
  const bool fields = header.compression == kBitFields || header.compression == kAlphaBitFields;
  if (fields) {
    if (header.bits != 16 && header.bits != 32) FailDamaged(kBmp, "bit fields need 16 or 32 bits");
    for (int i = 0; i < 3; ++i) header.masks[i] = reader.Read(54 + 4 * i, 4);
    if (size == 40) behind += header.compression == kBitFields ? 12 : 16;
  } else if (header.bits == 16) {
    header.masks = {0x7c00, 0x3e0, 0x1f};
  } else if (header.bits == 32) {
    header.masks = {0xff0000, 0xff00, 0xff};
  }
  if (header.bits <= 8) {
    const int entry = size == 12 ? 3 : 4;
    int64_t end = std::min<int64_t>(start, static_cast<int64_t>(bytes.size()));
    if (colors > 0) end = std::min(end, behind + std::min<int64_t>(colors, 256) * entry);
    ReadPalette(reader, behind, end, entry, &header);
    if (header.palette.empty()) FailDamaged(kBmp, "it has no palette");
  }
  if (start > static_cast<int64_t>(bytes.size())) FailDamaged(kBmp, "it has no pixels");
  header.pixels = bytes.subspan(static_cast<size_t>(start));
  return header;
}

// One component of a pixel, of as many bits as its mask has, as 8 bits.
uint8_t Component(uint32_t pixel, uint32_t mask) {
  if (mask == 0) return 0;
  const int shift = std::countr_zero(mask);
  const uint64_t most = mask >> shift;
  return static_cast<uint8_t>(uint64_t{(pixel & mask) >> shift} * 255 / most);
}

void SetIndexed(const Header& header, uint32_t index, uint8_t* out) {
  if (index >= header.palette.size()) FailDamaged(kBmp, "a pixel is not in the palette");
  std::copy_n(header.palette[index].data(), 3, out);
}

// Rows of whole pixels, each padded to 4 bytes.
void ReadPlain(const Header& header, Image* image) {
  const int64_t stride = (header.width * header.bits + 31) / 32 * 4;
  if (static_cast<int64_t>(header.pixels.size()) <
      stride * (header.height - 1) + (header.width * header.bits + 7) / 8) {
    FailDamaged(kBmp, "the data ends too early");
  }
  for (int64_t y = 0; y < header.height; ++y) {
    const uint8_t* in = header.pixels.data() + y * stride;
    uint8_t* out = image->row(header.top_down ? y : header.height - 1 - y);
    for (int64_t x = 0; x < header.width; ++x, out += 3) {
      if (header.bits <= 8) {
        const int64_t bit = x * header.bits;
        const int shift = 8 - header.bits - static_cast<int>(bit % 8);
        SetIndexed(header, (in[bit / 8] >> shift) & ((1u << header.bits) - 1), out);
      } else if (header.bits == 24) {
        std::reverse_copy(in + 3 * x, in + 3 * x + 3, out);
      } else {
        uint32_t pixel = 0;
        const int width = header.bits / 8;
        for (int i = width; i-- > 0;) pixel = pixel << 8 | in[x * width + i];
        for (int c = 0; c < 3; ++c) out[c] = Component(pixel, header.masks[c]);
      }
    }
  }
}

// Runs of equal pixels, literal pixels and moves; what is skipped has colour 0.
void ReadRuns(const Header& header, Image* image) {
  const Reader reader(header.pixels);
  const bool nibbles = header.bits == 4;
  for (int64_t y = 0; y < image->height; ++y) {
    for (int64_t x = 0; x < image->width; ++x) SetIndexed(header, 0, image->at(x, y));
  }
  int64_t at = 0, x = 0, y = 0;
  const auto set = [&](uint32_t index) {
    if (x < image->width) SetIndexed(header, index, image->at(x, image->height - 1 - y));
    ++x;
  };
  while (y < image->height) {
    const uint32_t count = reader.Read(at, 1), value = reader.Read(at + 1, 1);
    at += 2;
    if (count > 0) {
      for (uint32_t i = 0; i < count; ++i) {
        set(!nibbles ? value : i % 2 == 0 ? value >> 4 : value & 15);
      }
    } else if (value == 0) {  // end of the row
      x = 0;
      ++y;
    } else if (value == 1) {  // end of the image
      return;
    } else if (value == 2) {  // a move
      x += reader.Read(at, 1);
      y += reader.Read(at + 1, 1);
      at += 2;
    } else {
      for (uint32_t i = 0; i < value; ++i) {
        const uint32_t byte = reader.Read(at + (nibbles ? i / 2 : i), 1);
        set(!nibbles ? byte : i % 2 == 0 ? byte >> 4 : byte & 15);
      }
      const int64_t length = nibbles ? (value + 1) / 2 : value;
      at += length + length % 2;
    }
  }
}

}  // namespace

Image DecodeBmp(Bytes bytes) {
  const Header header = ReadHeader(bytes);
  const bool runs = header.compression == kRle8 || header.compression == kRle4;
  if (header.compression != kRgb && header.compression != kBitFields &&
      header.compression != kAlphaBitFields && !runs) {
    FailUnsupported(kBmp, "an embedded picture of another format");
  }
  if (runs && header.bits != (header.compression == kRle8 ? 8 : 4)) {
    FailDamaged(kBmp, "its compression needs another number of bits");
  }
  switch (header.bits) {
    case 1:
    case 2:
    case 4:
    case 8:
    case 16:
    case 24:
    case 32: break;
    default: FailDamaged(kBmp, "the bits of a pixel are none of 1, 2, 4, 8, 16, 24 and 32");
  }
  Image image = MakeImage(kBmp, header.width, header.height, 3);
  if (runs) {
    ReadRuns(header, &image);
  } else {
    ReadPlain(header, &image);
  }
  return image;
}

}  // namespace sardonyx::image
