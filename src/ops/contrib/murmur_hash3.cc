// MurmurHash3 of com.microsoft: the 32-bit hash of the bytes of each element.

#include <bit>
#include <cstring>

#include "ops/core/reference.h"
#include "ops/lowering.h"

namespace sardonyx {
namespace core {
namespace {

void InferMurmurHash(InferContext& context) {
  const DType type = context.dtype(0);
  const int bits = type == DType::kString ? 32 : BitWidth(type);
  if (bits != 32 && bits != 64) {
    context.Fail("murmur_hash takes strings or elements of 32 or 64 bits, not {}", Name(type));
  }
  const bool positive = context.attributes().Int("positive", 1) != 0;
  context.Set(0, positive ? DType::kUInt32 : DType::kInt32, context.input(0).shape);
}

// Austin Appleby's MurmurHash3_x86_32, for bytes of a little-endian machine.
uint32_t Hash(const void* bytes, size_t length, uint32_t seed) {
  const auto scramble = [](uint32_t k) { return std::rotl(k * 0xcc9e2d51U, 15) * 0x1b873593U; };
  const auto* at = static_cast<const unsigned char*>(bytes);
  uint32_t hash = seed;
  for (size_t left = length; left > 0;) {
    const size_t part = left < 4 ? left : 4;
    uint32_t k = 0;
    std::memcpy(&k, at, part);
    hash ^= scramble(k);
    if (part == 4) hash = std::rotl(hash, 13) * 5 + 0xe6546b64U;
    at += part;
    left -= part;
  }
  hash ^= static_cast<uint32_t>(length);
  hash = (hash ^ hash >> 16) * 0x85ebca6bU;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35U;
  return hash ^ hash >> 16;
}

void ComputeMurmurHash(ComputeContext& context) {
  const Tensor& x = context.input(0);
  const auto seed = static_cast<uint32_t>(context.attributes().Int("seed"));
  auto* y = static_cast<uint32_t*>(context.Allocate(0).raw());
  const auto bytes = static_cast<size_t>(BitWidth(x.dtype()) / 8);
  for (int64_t i = 0; i < x.size(); ++i) {
    if (x.dtype() == DType::kString) {
      const std::string& text = x.data<std::string>()[i];
      y[i] = Hash(text.data(), text.size(), seed);
    } else {
      y[i] = Hash(static_cast<const std::byte*>(x.raw()) + i * bytes, bytes, seed);
    }
  }
}

}  // namespace

const CoreOp murmur_hash = {
    .name = "murmur_hash", .inputs = "t", .infer = InferMurmurHash, .reference = ComputeMurmurHash};

}  // namespace core

namespace ops::contrib {

Outputs LowerMurmurHash3(Lowering& op) {
  const int64_t positive = op.Int("positive", 1), seed = op.Int("seed");
  return op.builder().Make(core::murmur_hash, {op.in(0)}, {{"positive", positive}, {"seed", seed}});
}

}  // namespace ops::contrib
}  // namespace sardonyx
