// Portable bitmaps, graymaps and pixmaps, plain (P1 to P3) and raw (P4 to P6), after the manual
// pages of Netpbm.

#include <cmath>

#include "images/image.h"

namespace sardonyx::image {
namespace {

constexpr std::string_view kPnm = "PNM";

class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(bytes) {}

  uint8_t Byte() {
    if (at_ >= bytes_.size()) FailDamaged(kPnm, "the data ends too early");
    return bytes_[at_++];
  }

  // A decimal number behind whitespace and comments; `longest` digits at most belong to it.
  int64_t Number(int longest = 10) {
    uint8_t c = Byte();
    while (IsSpace(c) || c == '#') {
      if (c == '#') {
        while (c != '\n' && c != '\r') c = Byte();
      } else {
        c = Byte();
      }
    }
    int64_t value = 0;
    int digits = 0;
    for (; digits < longest && c >= '0' && c <= '9'; ++digits) {
      value = value * 10 + (c - '0');
      if (digits + 1 == longest || at_ == bytes_.size()) return value;
      c = bytes_[at_++];
    }
    if (digits == 0) FailDamaged(kPnm, "a number is expected and something else found");
    --at_;
    return value;
  }

  // The one whitespace character that ends a header.
  void EndHeader() {
    if (!IsSpace(Byte())) FailDamaged(kPnm, "the header does not end in whitespace");
  }

  int64_t left() const { return static_cast<int64_t>(bytes_.size() - at_); }

 private:
  static bool IsSpace(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

  Bytes bytes_;
  size_t at_ = 2;  // behind the magic number
};

// Bits, of which 1 is black. Raw rows end on a whole byte.
void ReadBits(Reader& reader, bool raw, Image* image) {
  for (int64_t y = 0; y < image->height; ++y) {
    uint8_t byte = 0;
    for (int64_t x = 0; x < image->width; ++x) {
      if (raw && x % 8 == 0) byte = reader.Byte();
      const int64_t bit = raw ? (byte >> (7 - x % 8)) & 1 : reader.Number(1);
      if (bit > 1) FailDamaged(kPnm, "a bit is neither 0 nor 1");
      *image->at(x, y) = bit != 0 ? 0 : 255;
    }
  }
}

}  // namespace

Image DecodePnm(Bytes bytes) {
  Reader reader(bytes);
  const int kind = bytes[1] - '0';
  const bool raw = kind > 3, bits = kind == 1 || kind == 4;
  const int64_t width = reader.Number(), height = reader.Number();
  const int64_t most = bits ? 1 : reader.Number();
  if (most < 1 || most > 65535) FailDamaged(kPnm, "its greatest value is not in [1, 65535]");
  if (raw) reader.EndHeader();
  const int channels = kind % 3 == 0 ? 3 : 1;
  CheckSize(kPnm, width, height);
  const int64_t samples = width * height * channels;
  // Before memory is asked for: each sample takes space in the file.
  const int64_t least = !raw   ? samples
                        : bits ? (width + 7) / 8 * height
                               : samples * (most > 255 ? 2 : 1);
  if (reader.left() < least) FailDamaged(kPnm, "the data ends too early");
  Image image = MakeImage(kPnm, width, height, channels);
  if (bits) {
    ReadBits(reader, raw, &image);
    return image;
  }
  for (uint8_t& pixel : image.pixels) {
    int64_t value = raw ? reader.Byte() : reader.Number();
    if (raw && most > 255) value = value << 8 | reader.Byte();
    if (value > most) {
      if (!raw) FailDamaged(kPnm, "a sample exceeds the greatest value");
      value = most;
    }
    pixel = most == 255 ? static_cast<uint8_t>(value)
                        : static_cast<uint8_t>(std::nearbyint(static_cast<double>(value) /
                                                              static_cast<double>(most) * 255));
  }
  return image;
}

}  // namespace sardonyx::image
