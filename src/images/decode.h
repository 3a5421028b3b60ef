#pragma once
// The door of libsardonyx_images, a library of its own that is opened when the first image is to be
// decoded: the dozen libraries behind it take a megabyte and some milliseconds of every process
// that links them, and most models have no image in them.

#include <optional>

#include "images/image.h"
#include "sardonyx/error.hpp"

namespace sardonyx::image {

// Errors are passed by value: what is thrown in one library may be of no known type in another.
struct Decoded {
  Image image;
  std::optional<Error> error;
};

}  // namespace sardonyx::image

// Decodes an image of any known format.
extern "C" __attribute__((visibility("default"))) void sardonyx_decode_image(
    sardonyx::image::Bytes bytes, sardonyx::image::Decoded& decoded);
