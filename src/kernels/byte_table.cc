#include "kernels/byte_table.h"

#include <algorithm>

#define HWY_WANT_AVX3_DL
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/byte_table.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<uint8_t>;
using V = hn::Vec<D>;

#if HWY_TARGET == HWY_AVX3_DL
// The whole table in four registers.
struct Table {
  V part[4];
  explicit Table(const uint8_t* table) {
    for (int i = 0; i < 4; ++i) part[i] = hn::LoadU(D(), table + 64 * i);
  }
  HWY_INLINE V Of(V x) const {
    const V low{_mm512_permutex2var_epi8(part[0].raw, x.raw, part[1].raw)};
    const V high{_mm512_permutex2var_epi8(part[2].raw, x.raw, part[3].raw)};
    return hn::IfThenElse(hn::MaskFromVec(x), high, low);
  }
};
#else
// A half of the table at a time, 16 entries after 16: each lookup turns what is there for the 16
// before into its own, unless its index has become negative, for which it is 0.
struct Table {
  HWY_ALIGN uint8_t turns[2][128];
  explicit Table(const uint8_t* table) {
    const hn::CappedTag<uint8_t, 16> d16;
    const auto before = [&](int half, int i) HWY_ATTR {
      return i == 0 ? hn::Zero(d16) : hn::LoadU(d16, table + 128 * half + i - 16);
    };
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 128; i += 16) {
        const auto own = hn::LoadU(d16, table + 128 * half + i);
        hn::Store(hn::Xor(own, before(half, i)), d16, turns[half] + i);
      }
    }
  }
  HWY_INLINE V Of(V x) const {
    const D d;
    V index = hn::And(x, hn::Set(d, uint8_t{0x7F})), low = hn::Zero(d), high = low;
#pragma GCC unroll 8
    for (int i = 0; i < 128; i += 16) {
#if HWY_ARCH_X86  // passes over bits 4 to 6
      const V at = index;
#else
      const V at = hn::And(index, hn::Set(d, uint8_t{0x8F}));
#endif
      low = hn::Xor(low, hn::TableLookupBytesOr0(hn::LoadDup128(d, turns[0] + i), at));
      high = hn::Xor(high, hn::TableLookupBytesOr0(hn::LoadDup128(d, turns[1] + i), at));
      index = hn::Sub(index, hn::Set(d, uint8_t{16}));
    }
    const hn::RebindToSigned<D> signs;
    const auto is_high = hn::Lt(hn::BitCast(signs, x), hn::Zero(signs));
    return hn::IfThenElse(hn::RebindMask(d, is_high), high, low);
  }
};
#endif

void LookUp(const uint8_t* entries, const uint8_t* in, int64_t count, uint8_t* out) {
  const D d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const Table table(entries);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(table.Of(hn::LoadU(d, in + i)), d, out + i);
  for (; i < count; ++i) out[i] = entries[in[i]];
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(LookUp);

void LookUpBytes(const uint8_t* table, const uint8_t* in, int64_t count, uint8_t* out,
                 const Parallel& par) {
  constexpr int64_t kPart = 256 << 10;  // some 20 microseconds
  const int64_t parts = (count + kPart - 1) / kPart;
  par.For(parts, [&](int64_t part) {
    const int64_t begin = part * kPart;
    HWY_DYNAMIC_DISPATCH(LookUp)(table, in + begin, std::min(kPart, count - begin), out + begin);
  });
}

}  // namespace sardonyx
#endif
