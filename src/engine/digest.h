#pragma once
// Digests that tell changed bytes. Not cryptographic: they do not tell who made the bytes.

#include <cstdint>
#include <string_view>

namespace sardonyx::engine {

// XXH3 of 64 bits; of more than a megabyte, that of the digests of the megabytes, so that all
// threads share the work.
uint64_t Digest(std::string_view bytes);

}  // namespace sardonyx::engine
