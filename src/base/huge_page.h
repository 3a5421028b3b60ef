#pragma once
// Pages of 2 MiB, which the system gives to memory that is aligned to them and asks for them.

#include <cstddef>

namespace sardonyx {

inline constexpr size_t kHugePage = size_t{2} << 20;

// How much of so many bytes, from their aligned beginning on, huge pages are asked for: up to the
// end of the last one that they fill half of, for its 512 usual pages cost 15 times as much when
// they are first touched.
constexpr size_t HugePagesFor(size_t bytes) {
  return (bytes + kHugePage / 2) / kHugePage * kHugePage;
}

}  // namespace sardonyx
