// Intel's matrix tiles (AMX), instruction by instruction. Highway has none of them, and compilers
// differ in what their intrinsics ask for, so they are spelled here. No guard but Highway's.
#if defined(SARDONYX_AMX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_AMX_INL_H_
#undef SARDONYX_AMX_INL_H_
#else
#define SARDONYX_AMX_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

#if HWY_TARGET == HWY_AVX3_DL
HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

inline constexpr int kTileRows = 16;
inline constexpr int kTileBytes = 64;  // of a row

// What the eight tiles hold, as the processor reads it: tiles 0 to 3 are sums of `rows` rows, 4 and
// 5 left operands of `groups` groups of 4 bytes, 6 and 7 right operands of 16 columns.
struct alignas(64) TileShapes {
  TileShapes(int64_t rows, int64_t groups) {
    for (int t = 0; t < 8; ++t) {
      const bool is_left = t == 4 || t == 5, is_right = t >= 6;
      row_bytes[t] = is_left ? static_cast<uint16_t>(4 * groups) : uint16_t{kTileBytes};
      row_counts[t] = static_cast<uint8_t>(is_right ? groups : rows);
    }
  }
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t row_counts[16] = {};
};

// While one lives its thread has tiles of these shapes. The processor switches them off behind it,
// so that the system has nothing to keep when it switches threads.
class Tiles {
 public:
  explicit Tiles(const TileShapes& shapes) { __asm__ volatile("ldtilecfg %0" : : "m"(shapes)); }
  ~Tiles() { __asm__ volatile("tilerelease"); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
};

// Rows `stride` bytes apart to a tile.
template <int kTile>
HWY_INLINE void LoadTile(const void* from, int64_t stride) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2"
                   :
                   : "r"(from), "r"(stride), "i"(kTile)
                   : "memory");
}
template <int kTile>
HWY_INLINE void StoreTile(void* to, int64_t stride) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)"
                   :
                   : "r"(to), "r"(stride), "i"(kTile)
                   : "memory");
}
// Tiles 0 to 3, those of sums, get zeros: loaded, for the first product behind `tilezero` waits for
// the one before (58 instead of 18 cycles, Granite Rapids).
HWY_INLINE void ZeroSumTiles() {
  HWY_ALIGN static constexpr uint8_t kZeros[kTileBytes] = {};
  LoadTile<0>(kZeros, 0);
  LoadTile<1>(kZeros, 0);
  LoadTile<2>(kZeros, 0);
  LoadTile<3>(kZeros, 0);
}
// Tiles 0 to 3, those of sums, two beside each other above the other two, to rows `stride` bytes
// apart.
HWY_INLINE void StoreSumTiles(void* to, int64_t stride) {
  auto* const above = static_cast<uint8_t*>(to);
  uint8_t* const below = above + kTileRows * stride;
  StoreTile<0>(above, stride);
  StoreTile<1>(above + kTileBytes, stride);
  StoreTile<2>(below, stride);
  StoreTile<3>(below + kTileBytes, stride);
}

// The processor's units for storing tiles sleep where none is stored for 1,700 cycles, and take
// 1,000 to wake (Granite Rapids): long sums store one now and then for nothing.
class KeptAwake {
 public:
  // To be called after as many times four products, or fewer.
  HWY_INLINE void Step(int fours = 1) {
    constexpr int kMostAsleep = 16;
    steps_ += fours;
    if (steps_ < kMostAsleep) return;
    StoreTile<6>(nowhere_, kTileBytes);
    steps_ = 0;
  }

 private:
  int steps_ = 0;
  HWY_ALIGN uint8_t nowhere_[kTileRows * kTileBytes];
};

// sums + left * right, both of bfloat16 in pairs. Products are exact; sums of the first and of the
// second ones of all pairs are rounded at each step. Subnormal numbers count as zeros, as do sums.
template <int kSums, int kLeft, int kRight>
HWY_INLINE void AddTilePairs() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0"
                   :
                   : "i"(kSums), "i"(kLeft), "i"(kRight));
}
// sums + left * right, bytes of the left one signed, those of the right one not.
template <int kSums, int kLeft, int kRight>
HWY_INLINE void AddTileCodes() {
  __asm__ volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kLeft), "i"(kRight));
}
// sums + left * right, bytes of the left one signed or not, those of the right one signed.
template <int kSums, int kLeft, int kRight, bool kSigned>
HWY_INLINE void AddTileProducts() {
  if constexpr (kSigned) {
    __asm__ volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0"
                     :
                     : "i"(kSums), "i"(kLeft), "i"(kRight));
  } else {
    __asm__ volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0"
                     :
                     : "i"(kSums), "i"(kLeft), "i"(kRight));
  }
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif  // SARDONYX_AMX_INL_H_
