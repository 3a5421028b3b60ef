// What was split from weights of bytes (Int8Excess), times eight rows at once, where sums of
// products may saturate. No guard but Highway's: compiled once a target.
#if defined(SARDONYX_INT8_EXCESS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_INT8_EXCESS_INL_H_
#undef SARDONYX_INT8_EXCESS_INL_H_
#else
#define SARDONYX_INT8_EXCESS_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "hwy/highway.h"
#include "kernels/gemm_int8.h"
#include "kernels/int8_tile_store-inl.h"
#include "kernels/transpose_square-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX2

// The excess of a block's panels times its rows, eight at a time. In the block's scratch memory lie
// the rows' groups as [rows / 8, groups, 8], and what sums of the rows begin with.
class ExcessSums {
 public:
  explicit ExcessSums(const Int8BlockArgs& args)
      : args_(args), groups_(args.groups * args.segments), rows_(args.rows * args.lines) {
    if (args.excess_counts == nullptr) return;
    const int32_t* const counts = args.excess_counts;
    any_ = std::any_of(counts + args.n0 / kWidth, counts + (args.n1 + kWidth - 1) / kWidth,
                       [](int32_t count) { return count > 0; });
    if (!any_) return;
    words_ = static_cast<int32_t*>(args.excess_scratch);
    begin_ = words_ + (rows_ + 7) / 8 * 8 * groups_;
    for (int64_t row = 0; row < rows_; row += 8) TransposeRows(row);
  }

  // Whether the panel of column n has any.
  bool Begin(int64_t n) {
    ready_ = 0;
    count_ = any_ ? args_.excess_counts[n / kWidth] : 0;
    first_ = args_.excess + n / kWidth * args_.most_excess;
    init_ = args_.init + n;
    return count_ > 0;
  }

  // What the sums of the panel begin with in these rows, kWidth values in each.
  const int32_t* Of(int64_t row, int64_t rows) {
    for (; ready_ < row + rows; ready_ += 8) Multiply(ready_);
    return begin_ + row * kWidth;
  }

 private:
  void TransposeRows(int64_t row) {
    const Sums d;
    const auto flip = hn::Set(d, static_cast<int32_t>(args_.flip ? 0x80808080 : 0));
    const uint8_t* from[8];
    for (int64_t i = 0; i < 8; ++i) {
      const int64_t at = std::min(row + i, rows_ - 1);
      from[i] = static_cast<const uint8_t*>(args_.a) + at / args_.rows * args_.line_bytes +
                at % args_.rows * args_.a_bytes;
    }
    int32_t* to = words_ + row * groups_;
    for (int64_t segment = 0; segment < args_.segments; ++segment) {
      int64_t group = 0;
      for (; group + 8 <= args_.groups; group += 8, to += 64) {
        hn::Vec<Sums> v[8];
        for (int i = 0; i < 8; ++i) v[i] = Words(from[i] + group * 4);
        TransposeSquare(d, v);
        for (int i = 0; i < 8; ++i) hn::Store(hn::Xor(v[i], flip), d, to + 8 * i);
      }
      for (; group < args_.groups; ++group, to += 8) {
        for (int i = 0; i < 8; ++i) std::memcpy(to + i, from[i] + group * 4, 4);
        hn::Store(hn::Xor(hn::Load(d, to), flip), d, to);
      }
      for (const uint8_t*& at : from) at += args_.segment_bytes;
    }
  }

  static HWY_INLINE hn::Vec<Sums> Words(const uint8_t* from) {
    const hn::Repartition<uint8_t, Sums> bytes;
    return hn::BitCast(Sums(), hn::LoadU(bytes, from));
  }

  // Eight rows from this one on. By column first, which entries follow each other in at random.
  HWY_NOINLINE void Multiply(int64_t row) {
    const Sums d;
    HWY_ALIGN int32_t sums[kWidth * 8];
    for (int64_t i = 0; i < kWidth; ++i) hn::Store(hn::Set(d, init_[i]), d, sums + 8 * i);
    const int32_t* const words = words_ + row * groups_;
    const __m256i ones = _mm256_set1_epi16(1);
    for (const Int8Excess* e = first_; e < first_ + count_; ++e) {
      int32_t weights;
      std::memcpy(&weights, e->weights, sizeof(weights));
      // One of a pair is 0, so that no sum of two products saturates.
      const __m256i pairs = _mm256_maddubs_epi16(hn::Load(d, words + e->place / kWidth * 8).raw,
                                                 _mm256_set1_epi32(weights));
      int32_t* const sum = sums + e->place % kWidth * 8;
      hn::Store(hn::Add(hn::Load(d, sum), hn::Vec<Sums>{_mm256_madd_epi16(pairs, ones)}), d, sum);
    }
    for (int64_t n = 0; n < kWidth; n += 8) {
      hn::Vec<Sums> v[8];
      for (int i = 0; i < 8; ++i) v[i] = hn::Load(d, sums + (n + i) * 8);
      TransposeSquare(d, v);
      for (int i = 0; i < 8; ++i) hn::Store(v[i], d, begin_ + (row + i) * kWidth + n);
    }
  }

  const Int8BlockArgs& args_;
  const int64_t groups_, rows_;
  bool any_ = false;
  int32_t *words_ = nullptr, *begin_ = nullptr;
  // Of the panel.
  const Int8Excess* first_ = nullptr;
  int32_t count_ = 0;
  const int32_t* init_ = nullptr;
  int64_t ready_ = 0;  // rows
};

#else

// Nothing is split for other targets.
struct ExcessSums {
  explicit ExcessSums(const Int8BlockArgs&) {}
  bool Begin(int64_t) { return false; }
  const int32_t* Of(int64_t, int64_t) { return nullptr; }
};

#endif

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // SARDONYX_INT8_EXCESS_INL_H_
