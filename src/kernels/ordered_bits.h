#pragma once
// Elements as unsigned numbers of the same order.

#include <cstdint>

namespace sardonyx {

// How the bits of an element are ordered.
enum class OrderedBits : uint8_t { kUnsigned, kSigned, kFloat16, kBFloat16, kFloat32, kFloat64 };

// The bits of infinity in such floats; 0 of integers.
template <typename U>
constexpr U InfinityOf(OrderedBits order) {
  switch (order) {
    case OrderedBits::kUnsigned:
    case OrderedBits::kSigned: return 0;
    case OrderedBits::kFloat16: return static_cast<U>(0x7c00);
    case OrderedBits::kBFloat16: return static_cast<U>(0x7f80);
    case OrderedBits::kFloat32: return static_cast<U>(0x7f800000);
    case OrderedBits::kFloat64: return static_cast<U>(0x7ff0000000000000);
  }
  return 0;
}

// Calls body(f), f(bits) being such that unsigned numbers f(a) and f(b) compare as the elements a
// and b of type U do. Of floats -0 is 0, and every NaN the same, above all numbers.
template <typename U, typename Body>
void WithOrder(OrderedBits order, Body&& body) {
  constexpr U kSign = static_cast<U>(U{1} << (8 * sizeof(U) - 1));
  switch (order) {
    case OrderedBits::kUnsigned: return body([](U bits) { return bits; });
    case OrderedBits::kSigned: return body([](U bits) { return static_cast<U>(bits ^ kSign); });
    default:
      return body([infinity = InfinityOf<U>(order)](U bits) {
        const U magnitude = static_cast<U>(bits & ~kSign);
        const U negative = static_cast<U>(kSign - magnitude);
        const U ordered = bits > kSign ? negative : static_cast<U>(magnitude + kSign);
        return magnitude > infinity ? static_cast<U>(~U{0}) : ordered;
      });
  }
}

}  // namespace sardonyx
