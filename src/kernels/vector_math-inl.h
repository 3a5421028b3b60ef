// Elementary functions on vectors of float32, a few units in the last place from the exact values.
// Included once per SIMD target, after hwy/highway.h. Coefficients are minimax fits of our own.

#if defined(SARDONYX_KERNELS_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SARDONYX_KERNELS_VECTOR_MATH_INL_H_
#undef SARDONYX_KERNELS_VECTOR_MATH_INL_H_
#else
#define SARDONYX_KERNELS_VECTOR_MATH_INL_H_
#endif

#include <hwy/highway.h>

#include <limits>

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Maximum and minimum with a bound that is not NaN; a NaN in x passes through. x86 returns the
// second operand if either is NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V AtLeast([[maybe_unused]] D d, V bound, V x) {
#if HWY_ARCH_X86
  return hn::Max(bound, x);
#else
  return hn::IfThenElse(hn::Eq(x, x), hn::Max(bound, x), x);
#endif
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE V AtMost([[maybe_unused]] D d, V bound, V x) {
#if HWY_ARCH_X86
  return hn::Min(bound, x);
#else
  return hn::IfThenElse(hn::Eq(x, x), hn::Min(bound, x), x);
#endif
}

// c[0] + c[1] x + c[2] x^2 + ..., the even and the odd powers apart: half the latency of one chain.
template <class D, size_t kCount, class V = hn::Vec<D>>
HWY_INLINE V Polynomial(D d, V x, const float (&c)[kCount]) {
  static_assert(kCount >= 3);
  const V x2 = hn::Mul(x, x);
  constexpr size_t kLast = kCount - 1;
  V same = hn::Set(d, c[kLast]);  // powers of the parity of the last
  V other = hn::Set(d, c[kLast - 1]);
  for (size_t i = kLast; i >= 2; i -= 2) same = hn::MulAdd(same, x2, hn::Set(d, c[i - 2]));
  for (size_t i = kLast - 1; i >= 2; i -= 2) other = hn::MulAdd(other, x2, hn::Set(d, c[i - 2]));
  return kLast % 2 == 0 ? hn::MulAdd(other, x, same) : hn::MulAdd(same, x, other);
}

constexpr float kLog2E = 1.44269504088896341f, kLn2 = 0.693147180559945309f;
// Sums with it have no fraction, and are in its low bits.
constexpr float kRound = 12582912.0f;  // 1.5 * 2^23

// A power of 2 near 2^(factor x), -126 <= factor x <= 128, of which 2^128 is infinite, and its
// exponent n. It is a whole one, or a multiple of 1/16 where a vector has room for the powers
// between two whole ones: what remains of x is then so little that a cubic will do.
template <class D>
struct NearestPower {
  using V = hn::Vec<D>;
#if HWY_TARGET <= HWY_AVX3
  static constexpr bool kFine = true;
  static constexpr float kShift = kRound / 16;
#else
  static constexpr bool kFine = false;
  static constexpr float kShift = kRound + 127.0f;  // with the exponent's bias
#endif
  V power, n;

  HWY_INLINE NearestPower(D d, V x, V factor) {
    const V shift = hn::Set(d, kShift), shifted = hn::MulAdd(x, factor, shift);
    n = hn::Sub(shifted, shift);
    const hn::RebindToSigned<D> di;
    const auto steps = hn::BitCast(di, shifted);
#if HWY_TARGET <= HWY_AVX3
    // Bits of 2^(j / 16) - 2^19 j, of which the last four bits of the steps choose.
    static constexpr int32_t kBits[16] = {0x3f800000, 0x3f7daac3, 0x3f7b95c2, 0x3f79c3d3,
                                          0x3f7837f0, 0x3f76f532, 0x3f75fed7, 0x3f75583f,
                                          0x3f7504f3, 0x3f7508a4, 0x3f75672a, 0x3f76248c,
                                          0x3f7744fd, 0x3f78ccdf, 0x3f7ac0c7, 0x3f7d257d};
    const hn::Vec<decltype(di)> bits{_mm512_permutexvar_epi32(steps.raw, hn::LoadU(di, kBits).raw)};
    power = hn::BitCast(d, hn::Add(hn::ShiftLeft<19>(steps), bits));
#else
    power = hn::BitCast(d, hn::ShiftLeft<23>(steps));
#endif
  }

  // 2^r of what remains: r = factor x - n.
  static HWY_INLINE V Rest(D d, V r) {
#if HWY_TARGET <= HWY_AVX3
    const V square = hn::MulAdd(r, hn::Set(d, 0.0555021353f), hn::Set(d, 0.240234286f));
    return hn::MulAdd(r, hn::MulAdd(r, square, hn::Set(d, 0.693147182f)), hn::Set(d, 1.0f));
#else
    return Polynomial(d, r,
                      {1.0f, 0.6931471824645996f, 0.24022647738456726f, 0.05550359562039375f,
                       0.009618503041565418f, 0.0013390998356044292f, 0.00015327864f});
#endif
  }
};

// exp(r) - 1 for |r| <= ln(2) / 2.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V VecExpMinusOneOfSmall(D d, V r) {
  const V high = Polynomial(d, r,
                            {0.4999999403953552f, 0.1666651964187622f, 0.04166839271783829f,
                             0.008368780836462975f, 0.001381446490995586f});
  return hn::MulAdd(hn::Mul(r, r), high, r);
}

// x - n ln(2), exact but for its last rounding (Cody and Waite).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V MinusLn2(D d, V n, V x) {
  const V high = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  return hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), high);
}

// exp(x): x = n ln(2) + r, with n as in NearestPower. It is zero from -104 down and infinite from
// 89 on.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V VecExp(D d, V x) {
  x = AtMost(d, hn::Set(d, 89.0f), AtLeast(d, hn::Set(d, -104.0f), x));
  // Twice the exponent's bias in the low bits of `shifted`.
  const V shift = hn::Set(d, NearestPower<D>::kFine ? kRound / 16 : kRound + 254.0f);
  const V shifted = hn::MulAdd(x, hn::Set(d, kLog2E), shift), n = hn::Sub(shifted, shift);
  const V r = MinusLn2(d, n, x);
#if HWY_TARGET <= HWY_AVX3
  static constexpr float kPowers[16] = {1.0f,        1.04427373f, 1.09050775f, 1.13878858f,
                                        1.18920708f, 1.24185777f, 1.29683959f, 1.35425556f,
                                        1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f,
                                        1.68179286f, 1.75625217f, 1.8340081f,  1.91520655f};
  const V power{_mm512_permutexvar_ps(_mm512_castps_si512(shifted.raw), hn::LoadU(d, kPowers).raw)};
  const V half = hn::MulAdd(r, hn::Set(d, 1.0f / 6), hn::Set(d, 0.5f));
  const V small = hn::MulAdd(hn::Mul(r, r), half, r);
  return V{_mm512_scalef_ps(hn::MulAdd(power, small, power).raw, n.raw)};  // rounds n down
#else
  // In two steps, since 2^128 and 2^-149 are no normal numbers, each with half of n and the bias.
  const hn::RebindToSigned<D> di;
  const auto all = hn::BitCast(di, shifted), half = hn::ShiftRight<1>(all);
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(half));
  const V small = hn::Add(VecExpMinusOneOfSmall(d, r), hn::Set(d, 1.0f));
  return hn::Mul(hn::Mul(small, power), hn::BitCast(d, hn::ShiftLeft<23>(hn::Sub(all, half))));
#endif
}

// 1 + 2^(factor x), infinite where the power is. Powers below 2^-126, which the sum would not see,
// are that one, so all are normal numbers; the last step of the power and the sum are one
// operation.
// kExact: the factor is -log2(e), and what its rounding has lost counts; of use with fused
// operations.
template <class D, bool kExact = false>
class OnePlusPower {
 public:
  using V = hn::Vec<D>;

  HWY_INLINE OnePlusPower(D d, V factor)
      : OnePlusPower(factor, hn::Div(hn::Set(d, kMost), factor),
                     hn::Div(hn::Set(d, kLeast), factor)) {}
  HWY_INLINE OnePlusPower(D d, float factor)
      : OnePlusPower(hn::Set(d, factor), hn::Set(d, kMost / factor), hn::Set(d, kLeast / factor)) {}

  HWY_INLINE V operator()(D d, V x) const {
    const V inside = AtMost(d, high_, AtLeast(d, low_, x)), one = hn::Set(d, 1.0f);
    const NearestPower<D> near(d, inside, factor_);
    V r = hn::MulSub(inside, factor_, near.n);
    if (kExact) r = hn::MulAdd(inside, hn::Set(d, kLost), r);
    return hn::MulAdd(near.power, near.Rest(d, r), one);
  }

 private:
  HWY_INLINE OnePlusPower(V factor, V at_most, V at_least)
      : factor_(factor), low_(hn::Min(at_most, at_least)), high_(hn::Max(at_most, at_least)) {}

  static constexpr float kLost = -1.925963033500011e-08f;  // of -log2(e)
  static constexpr float kMost = 128.0f, kLeast = -126.0f;
  V factor_, low_, high_;
};

// x / (1 + exp(-alpha x)).
template <class D>
class VecSwish {
 public:
  using V = hn::Vec<D>;
  HWY_INLINE VecSwish(D d, V minus_alpha) : divisor_(d, hn::Mul(minus_alpha, hn::Set(d, kLog2E))) {}
  HWY_INLINE V operator()(D d, V x) const { return hn::Div(x, divisor_(d, x)); }

 private:
  OnePlusPower<D> divisor_;
};
template <class D, class V = hn::Vec<D>>
HWY_INLINE V VecSigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
#if HWY_NATIVE_FMA
  return hn::Div(one, OnePlusPower<D, true>(d, -kLog2E)(d, x));
#else
  return hn::Div(one, hn::Add(one, VecExp(d, hn::Neg(x))));
#endif
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V VecLog(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const auto tiny = hn::Lt(x, hn::Set(d, 0x1p-126f));
  const V normal = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, 0x1p25f)), x);
  // x = 2^e * (1 + m) with 1 + m between sqrt(1/2) and sqrt(2).
  const auto above = hn::Sub(hn::BitCast(di, normal), hn::Set(di, 0x3f3504f3));
  const V bias = hn::IfThenElseZero(tiny, hn::Set(d, 25.0f));
  const V e = hn::Sub(hn::ConvertTo(d, hn::ShiftRight<23>(above)), bias);
  const V m = hn::Sub(
      hn::BitCast(d, hn::Add(hn::And(above, hn::Set(di, 0x7fffff)), hn::Set(di, 0x3f3504f3))),
      hn::Set(d, 1.0f));
  const V p = Polynomial(d, m,
                         {0.3333331346511841f, -0.25000008940696716f, 0.2000211924314499f,
                          -0.1666799634695053f, 0.14219552278518677f, -0.1240558996796608f,
                          0.11888168752193451f, -0.11675646156072617f, 0.06746619194746017f});
  const V m2 = hn::Mul(m, m);
  V low = hn::Mul(hn::Mul(m2, m), p);
  low = hn::MulAdd(e, hn::Set(d, -2.12194440e-4f), low);
  low = hn::NegMulAdd(hn::Set(d, 0.5f), m2, low);
  const V y = hn::MulAdd(e, hn::Set(d, 0.693359375f), hn::Add(m, low));
  const V zero = hn::Zero(d);
  // Outside of 0 < x < infinity: log(0) = -infinity, NaN below, infinity and NaN stay.
  const V special = hn::IfThenElse(
      hn::Eq(x, zero), hn::Neg(infinity),
      hn::IfThenElse(hn::Lt(x, zero), hn::Set(d, std::numeric_limits<float>::quiet_NaN()), x));
  return hn::IfThenElse(hn::And(hn::Gt(x, zero), hn::Lt(x, infinity)), y, special);
}

// log(y) + (x - (y - 1)) / y with y = 1 + x rounded.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V VecLog1p(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V y = hn::Add(x, one);
  const V lost = hn::Div(hn::Sub(x, hn::Sub(y, one)), y);
  const V sum = hn::Add(VecLog(d, y), lost);
  // y is 1 for the smallest x, where the result is x with its sign; and at the poles `lost` is NaN.
  const V infinity = hn::Set(d, std::numeric_limits<float>::infinity());
  const V inside = hn::IfThenElse(hn::Eq(y, one), x, sum);
  return hn::IfThenElse(hn::And(hn::Gt(y, hn::Zero(d)), hn::Lt(y, infinity)), inside, VecLog(d, y));
}

// max(x, 0) + log(1 + e) with e = exp(-|x|), of which log(1 + e) / e is a polynomial between
// Chebyshev's nodes of [0, 1].
template <class D, class V = hn::Vec<D>>
HWY_INLINE V VecSoftplus(D d, V x) {
  const V e = VecExp(d, hn::Neg(hn::Abs(x)));
  const V p = Polynomial(d, e,
                         {1.0f, -0.4999990463256836f, 0.33330005407333374f, -0.24954558908939362f,
                          0.19678117334842682f, -0.15311862528324127f, 0.10614264756441116f,
                          -0.057064201682806015f, 0.019907161593437195f, -0.003256378462538123f});
  return hn::MulAdd(e, p, AtLeast(d, hn::Zero(d), x));
}

// x * tanh(log(1 + e)) = x * n / (n + 2) with e = exp(x), n = e * (e + 2); from 20 on n / (n + 2)
// is 1.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V VecMish(D d, V x) {
  const V two = hn::Set(d, 2.0f), e = VecExp(d, AtMost(d, hn::Set(d, 20.0f), x));
  const V n = hn::Mul(e, hn::Add(e, two));
  return hn::Mul(x, hn::Div(n, hn::Add(n, two)));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V VecLeakyRelu(D d, V x, V slope) {
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, slope), x);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V VecElu(D d, V x, V alpha) {
  const V zero = hn::Zero(d), e = VecExp(d, AtMost(d, zero, x));
  return hn::MulAdd(alpha, hn::Sub(e, hn::Set(d, 1.0f)), AtLeast(d, zero, x));
}

// (E - 1) / (E + 1) with E = exp(2 |x|) where a reciprocal comes near, (1 - E) / (1 + E) with E =
// exp(-2 |x|) where a division is to do: it rounds a smaller sum. As E is 2^n + 2^n (exp(r) - 1),
// neither loses anything near 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V VecTanh(D d, V x) {
  constexpr float kTwice = HWY_TARGET <= HWY_AVX3 ? 2.0f : -2.0f;
  const V one = hn::Set(d, 1.0f), a = AtMost(d, hn::Set(d, 10.0f), hn::Abs(x));
  // n + 127 in the low bits of `shifted`. What one product with ln(2) loses is below 2e-9 n, far
  // less than E - 1 rounds.
  const V round = hn::Set(d, kRound + 127.0f);
  const V shifted = hn::MulAdd(a, hn::Set(d, kTwice * kLog2E), round);
  const V twice = hn::Mul(a, hn::Set(d, kTwice));
  const V r = hn::NegMulAdd(hn::Sub(shifted, round), hn::Set(d, kLn2), twice);
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(hn::RebindToSigned<D>(), shifted)));
  const V small = VecExpMinusOneOfSmall(d, r);
#if HWY_TARGET <= HWY_AVX3
  // One step of Newton's behind 14 bits makes good what the sum rounds away as well.
  const V e = hn::MulAdd(power, small, hn::Sub(power, one)), two = hn::Set(d, 2.0f);
  const V reciprocal = hn::ApproximateReciprocal(hn::Add(e, two)), near = hn::Mul(e, reciprocal);
  const V rest = hn::NegMulAdd(near, e, hn::NegMulAdd(two, near, e));
  const V quotient = hn::MulAdd(rest, reciprocal, near);
#else
  // A sum between 1 and 2, of E itself: a division of what is rounded twice is near enough.
  const V over = hn::NegMulAdd(power, small, hn::Sub(one, power));
  const V quotient = hn::Div(over, hn::MulAdd(power, small, hn::Add(one, power)));
#endif
  return hn::CopySign(quotient, x);
}

// erf(x) / x - 1 for |x| <= 0.9, t = x * x.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V VecErfQuotient(D d, V t) {
  return Polynomial(d, t,
                    {0.12837915122509003f, -0.3761252462863922f, 0.11282140761613846f,
                     -0.02677890844643116f, 0.0050119622610509396f, -0.000609035836532712f});
}
// log2(1 - erf(a)) for 0.9 <= a <= 6; of the power the absolute error stays below 2e-9.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V VecLogOfErfComplement(D d, V a) {
  return Polynomial(
      d, a,
      {-0.00016644307470414788f * kLog2E, -1.127797245979309f * kLog2E,
       -0.6369760632514954f * kLog2E, -0.10411371290683746f * kLog2E, 0.02231523208320141f * kLog2E,
       -0.0030654955189675093f * kLog2E, 0.00019822022295556962f * kLog2E});
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V VecErf(D d, V x) {
  const V a = AtMost(d, hn::Set(d, 4.0f), hn::Abs(x));
  const V small = hn::MulAdd(x, VecErfQuotient(d, hn::Mul(x, x)), x);
  const V one = hn::Set(d, 1.0f), log = VecLogOfErfComplement(d, a);
  const NearestPower<D> near(d, log, one);
  const V large = hn::NegMulAdd(near.power, near.Rest(d, hn::Sub(log, near.n)), one);
  return hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.9f)), small, hn::CopySign(large, x));
}

// x / 2 * (1 + erf(factor * x)), factor > 0 and the same in all lanes, sqrt(1/2) for a GELU:
// max(x, 0) - |x| c / 2 with c = 1 - erf(a), a = factor |x|.
#if HWY_TARGET <= HWY_AVX3
// A vector has room for the coefficients of 16 polynomials, each of |x| c / 2 in a step of a.
template <class D>
class VecGelu {
 public:
  using V = hn::Vec<D>;

  HWY_INLINE VecGelu(D d, V factor)
      : to_steps_(hn::Mul(factor, hn::Set(d, 1 / kStep))),
        step_(hn::Div(hn::Set(d, kStep), factor)),
        limit_(hn::Mul(step_, hn::Set(d, 15.0f))) {
    V power = hn::Mul(step_, hn::Set(d, 1 / kStep));
#pragma GCC unroll 6
    for (int i = 0; i < kCount; ++i, power = hn::Mul(power, to_steps_)) {
      coefficients_[i] = hn::Mul(power, hn::LoadU(d, kCoefficients[i]));
    }
  }

  HWY_INLINE V operator()(D d, V x) const {
    const V size{_mm512_range_ps(x.raw, limit_.raw, 0b1010)};  // the smaller of sizes, not NaN
    const V round = hn::Set(d, kRound);
    const V shifted = hn::MulAdd(size, to_steps_, round);  // the nearest step in its low bits
    const V r = hn::NegMulAdd(hn::Sub(shifted, round), step_, size);
    V y = AtStep(shifted, kCount - 1);
#pragma GCC unroll 6
    for (int i = kCount - 2; i > 0; --i) y = hn::MulAdd(y, r, AtStep(shifted, i));
    return hn::NegMulAdd(y, r, hn::Sub(AtLeast(d, hn::Zero(d), x), AtStep(shifted, 0)));
  }

 private:
  HWY_INLINE V AtStep(V shifted, int i) const {
    return V{_mm512_permutexvar_ps(_mm512_castps_si512(shifted.raw), coefficients_[i].raw)};
  }

  static constexpr int kCount = 6;
  static constexpr float kStep = 0.36f;
  // Of a c / 2, by powers of the distance in steps from the middle of each; 0 from a = 5.2 on.
  static constexpr float kCoefficients[kCount][16] = {
      {0.0f, 0.109920636f, 0.111084111f, 0.0684038997f, 0.0300264675f, 0.00981853902f,
       0.00243307254f, 0.000460529234f, 6.68515495e-05f, 7.45919579e-06f, 6.40577184e-07f,
       4.23742144e-08f, 2.16025642e-09f, 8.49033691e-11f, 2.57305982e-12f, 0.0f},
      {0.179999992f, 0.045689635f, -0.0315385684f, -0.0455253124f, -0.0292670932f, -0.0123544736f,
       -0.00372438482f, -0.000827889191f, -0.000137823154f, -1.73329699e-05f, -1.65552603e-06f,
       -1.20510549e-07f, -6.7016277e-09f, -2.85195395e-10f, -9.29938158e-12f, 0.0f},
      {-0.0731181949f, -0.0559055433f, -0.0209716894f, 0.00378789543f, 0.00987032056f,
       0.00641526794f, 0.0025233312f, 0.000683051767f, 0.000133246445f, 1.91525523e-05f,
       2.05414221e-06f, 1.65690636e-07f, 1.01052393e-08f, 4.67769767e-10f, 1.64813649e-11f, 0.0f},
      {-1.21057774e-05f, 0.0103777228f, 0.0111458823f, 0.00492036343f, -0.000233058337f,
       -0.00153296359f, -0.000950841291f, -0.000336026773f, -7.9620273e-05f, -1.33804024e-05f,
       -1.63864343e-06f, -1.48529907e-07f, -1.00636104e-08f, -5.13150522e-10f, -1.97881364e-11f,
       0.0f},
      {0.00322570256f, 0.00154966651f, -0.000997972907f, -0.00167316175f, -0.000780630275f,
       1.10573592e-05f, 0.00018857402f, 0.00010573164f, 3.27616726e-05f, 6.70070222e-06f,
       9.61440719e-07f, 9.96658684e-08f, 7.59128049e-09f, 4.29422137e-10f, 1.81730273e-11f, 0.0f},
      {-0.000152389563f, -0.000534884515f, -0.000367853412f, 8.46805342e-05f, 0.000210329832f,
       8.75326732e-05f, -6.03643684e-06f, -1.93118794e-05f, -8.70778877e-06f, -2.20001903e-06f,
       -3.65500682e-07f, -4.23365769e-08f, -3.52093377e-09f, -2.1391014e-10f, -9.60128591e-12f,
       0.0f}};

  V to_steps_, step_, limit_;
  V coefficients_[kCount];  // for |x| instead of steps
};
#else
// c = 2^polynomial of a, which suffices near 0 too.
template <class D>
class VecGelu {
 public:
  using V = hn::Vec<D>;

  HWY_INLINE VecGelu(D d, V factor) : limit_(hn::Div(hn::Set(d, kLimit), factor)) {
    constexpr float kLogC[kCount] = {-1.627908706665039f,     -0.918419361114502f,
                                     -0.14846134185791016f,   0.028200292959809303f,
                                     -0.0007064127130433917f, -0.0015344509156420827f,
                                     0.00046017891145311296f, -4.721926597994752e-05f};
    V power = factor;
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i, power = hn::Mul(power, factor)) {
      log_c_[i] = hn::Mul(power, hn::Set(d, kLogC[i]));
    }
  }

  HWY_INLINE V operator()(D d, V x) const {
    const V size = hn::Min(hn::Abs(x), limit_), square = hn::Mul(size, size);
    V odd = log_c_[kCount - 2], even = log_c_[kCount - 1];
    for (int i = kCount - 4; i >= 0; i -= 2) {
      odd = hn::MulAdd(odd, square, log_c_[i]);
      even = hn::MulAdd(even, square, log_c_[i + 1]);
    }
    const V half_c = HalfOfPower(d, hn::MulAdd(even, square, hn::Mul(odd, size)));
    return hn::NegMulAdd(size, half_c, AtLeast(d, hn::Zero(d), x));
  }

 private:
  static constexpr int kCount = 8;
  static constexpr float kLimit = 7.0185f;  // of a: c is 2^-127, which HalfOfPower makes 0

  // 2^x / 2 for -126 <= x < 128, and 0 for -127.
  static HWY_INLINE V HalfOfPower(D d, V x) {
    // n + 127 in the low bits of `shifted`.
    const V round = hn::Set(d, 12582912.0f + 127.0f);
    const V shifted = hn::Add(x, round), n = hn::Sub(shifted, round), r = hn::Sub(x, n);
    // In one chain: one product less, and several vectors are under way at a time.
    constexpr float kHalf[] = {0.5f,
                               0.34657347202301025f,
                               0.12011060863733292f,
                               0.027753181755542755f,
                               0.004837932530790567f,
                               0.000665689236484468f};
    V half = hn::Set(d, kHalf[5]);
#pragma GCC unroll 5
    for (int i = 4; i >= 0; --i) half = hn::MulAdd(half, r, hn::Set(d, kHalf[i]));
    // The bits of 2^-127 are those of 0.
    const hn::RebindToSigned<D> di;
    return hn::Mul(half, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
  }

  V limit_;
  V log_c_[kCount];  // coefficients for |x| instead of a, from its first power on
};
#endif

// x / 2 * (1 + tanh(u)) = x / (1 + exp(-2 u)), u = sqrt(2 / pi) * (x + 0.044715 x^3).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V VecGeluTanh(D d, V x) {
  const V w = hn::MulAdd(hn::Mul(x, x), hn::Set(d, -0.07135481282718025f * kLog2E),
                         hn::Set(d, -1.5957691216057308f * kLog2E));
  return hn::Div(x, OnePlusPower<D>(d, 1.0f)(d, hn::Mul(x, w)));
}

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
