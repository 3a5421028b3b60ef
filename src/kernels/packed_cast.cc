#include "kernels/packed_cast.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/cast.h"
#include "kernels/slices.h"
#include "kernels/tile_ops.h"

namespace sardonyx {
namespace {

constexpr int64_t kWholeBytes = 64;  // so many elements of any width end with a byte
constexpr int64_t kBlock = 512;      // elements that are converted before they are packed

bool HasPackedCast(DType type) { return IsPacked(type) && 8 % BitWidth(type) == 0; }

// Entries of kBytes, one after the other.
template <int kBytes>
void LookUp(const std::byte* table, const uint8_t* in, int64_t bytes, std::byte* out) {
  for (int64_t i = 0; i < bytes; ++i) std::memcpy(out + i * kBytes, table + in[i] * kBytes, kBytes);
}

void Unpack(const PackedCast& cast, const uint8_t* in, int64_t count, std::byte* out) {
  const int entry = static_cast<int>(cast.table.size() / 256), in_byte = 8 / BitWidth(cast.from);
  const std::byte* const table = cast.table.data();
  const int64_t bytes = count / in_byte;
  switch (entry) {
    case 2: LookUp<2>(table, in, bytes, out); break;
    case 4: LookUp<4>(table, in, bytes, out); break;
    case 8: LookUp<8>(table, in, bytes, out); break;
    case 16: LookUp<16>(table, in, bytes, out); break;
    default: LookUp<32>(table, in, bytes, out); break;
  }
  const int64_t rest = count % in_byte;
  if (rest == 0) return;
  std::memcpy(out + bytes * entry, table + in[bytes] * entry,
              static_cast<size_t>(rest * entry / in_byte));
}

// kInByte codes a byte, of which `count` are there.
template <int kInByte, typename Code>
void PackCodes(const Code* codes, int64_t count, uint8_t* out) {
  constexpr int kBits = 8 / kInByte;
  constexpr unsigned kMask = (1u << kBits) - 1;
  const auto pack = [&](int64_t i, int64_t n) {
    unsigned byte = 0;
    for (int64_t k = 0; k < n; ++k) {
      byte |= (static_cast<unsigned>(codes[i + k]) & kMask) << (k * kBits);
    }
    *out++ = static_cast<uint8_t>(byte);
  };
  int64_t i = 0;
  for (; i + kInByte <= count; i += kInByte) pack(i, kInByte);
  if (i < count) pack(i, count - i);
}

template <typename Code>
void PackBytes(int bits, const void* codes, int64_t count, uint8_t* out) {
  bits == 4 ? PackCodes<2>(static_cast<const Code*>(codes), count, out)
            : PackCodes<4>(static_cast<const Code*>(codes), count, out);
}

void Pack(const PackedCast& cast, const std::byte* in, int64_t count, uint8_t* out) {
  alignas(64) std::array<std::byte, kBlock * 8> between, codes;
  const int bits = BitWidth(cast.to), width = BitWidth(cast.from) / 8;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    TileArgs args{};
    args.count = std::min(kBlock, count - begin);
    args.in[0] = in + begin * width;
    const auto step = [&args](TileFn fn, void* to) {
      if (fn == nullptr) return;
      args.out = to;
      fn(args);
      args.in[0] = to;
    };
    step(cast.first, between.data());
    step(cast.second, codes.data());
    uint8_t* const packed = out + begin * bits / 8;
    cast.code_bytes == 8 ? PackBytes<uint64_t>(bits, args.in[0], args.count, packed)
                         : PackBytes<uint8_t>(bits, args.in[0], args.count, packed);
  }
}

}  // namespace

std::optional<PackedCast> PreparePackedCast(DType from, DType to) {
  const bool unpacks = HasPackedCast(from), packs = HasPackedCast(to);
  const DType other = unpacks ? to : from;
  const bool is_number = IsFloat(other) || IsInteger(other) || other == DType::kBool;
  if (unpacks == packs || !is_number || IsPacked(other)) return std::nullopt;
  PackedCast cast{.from = from, .to = to, .table = {}};
  if (unpacks) {
    const int64_t count = 256 * 8 / BitWidth(from);
    std::array<uint8_t, 256> bytes;
    std::iota(bytes.begin(), bytes.end(), uint8_t{0});
    cast.table.resize(static_cast<size_t>(ByteSize(to, count)));
    ConvertElements(from, bytes.data(), to, cast.table.data(), count, /*saturate=*/true);
    return cast;
  }
  // Integers keep their low bits; floats have those of 64 bits.
  const bool is_float = IsFloat(to);
  const bool is_byte = BitWidth(from) == 8 && !IsFloat(from);
  cast.code_bytes = is_float || is_byte ? 1 : 8;
  if (is_float) {
    if (from == DType::kFloat64) {
      cast.first = RoundToOddTileFn();
    } else if (from != DType::kFloat32) {
      cast.first = CastTileFn(from, DType::kFloat32);
      if (cast.first == nullptr) return std::nullopt;
    }
    cast.second = SmallFloatTileFn(DType::kFloat32, to);
  } else if (!is_byte && BitWidth(from) < 64) {
    cast.first = IsNarrowFloat(from) ? CastTileFn(from, DType::kFloat32) : nullptr;
    cast.second = CastTileFn(cast.first != nullptr ? DType::kFloat32 : from, DType::kInt64);
  } else if (from == DType::kFloat64) {
    cast.second = CastTileFn(from, DType::kInt64);
  }
  return cast;
}

void RunPackedCast(const PackedCast& cast, const void* in, void* out, int64_t count,
                   const Parallel& par) {
  const Slices slices = Slice(count, 4, kWholeBytes);
  par.For(slices.tasks, [&](int64_t task) {
    const int64_t begin = slices.Begin(task), size = slices.End(task, count) - begin;
    const auto* from = static_cast<const std::byte*>(in) + ByteSize(cast.from, begin);
    auto* to = static_cast<std::byte*>(out) + ByteSize(cast.to, begin);
    if (cast.table.empty()) {
      Pack(cast, from, size, reinterpret_cast<uint8_t*>(to));
    } else {
      Unpack(cast, reinterpret_cast<const uint8_t*>(from), size, to);
    }
  });
}

}  // namespace sardonyx
