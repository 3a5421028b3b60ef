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
// 16 entries at a time; lookups elsewhere give 0.
struct Table {
  const uint8_t* table;
  explicit Table(const uint8_t* from) : table(from) {}
  HWY_INLINE V Of(V x) const {
    const D d;
    V result = hn::Zero(d);
    for (int i = 0; i < 16; ++i) {
      const V inside = hn::Xor(x, hn::Set(d, static_cast<uint8_t>(16 * i)));  // below 16
      V index = hn::SaturatedAdd(inside, hn::Set(d, uint8_t{0x70}));          // else above 127
#if !HWY_ARCH_X86  // x86 passes over bits 4 to 6
      index = hn::And(index, hn::Set(d, uint8_t{0x8F}));
#endif
      result = hn::Or(result, hn::TableLookupBytesOr0(hn::LoadDup128(d, table + 16 * i), index));
    }
    return result;
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
