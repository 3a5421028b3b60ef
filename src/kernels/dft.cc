#include "kernels/dft.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/dft.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "kernels/scratch_slots.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kLargestFactor = 31;  // as PlanDft takes them

// A complex number a lane.
template <typename T>
struct Complex {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  V re, im;

  // Vectors of NEON have constructors, which only functions of the target may call.
  HWY_ATTR Complex() {}
  HWY_ATTR Complex(V real, V imaginary) : re(real), im(imaginary) {}
  static HWY_ATTR Complex Load(const T* p) {
    const D d;
    return {hn::Load(d, p), hn::Load(d, p + hn::Lanes(d))};
  }
  HWY_ATTR void Store(T* p) const {
    const D d;
    hn::Store(re, d, p);
    hn::Store(im, d, p + hn::Lanes(d));
  }
  HWY_ATTR Complex TimesI() const { return {hn::Neg(im), re}; }
  HWY_ATTR Complex Times(const T* root) const {
    const D d;
    const V c = hn::Set(d, root[0]), s = hn::Set(d, root[1]);
    return {hn::NegMulAdd(im, s, hn::Mul(re, c)), hn::MulAdd(im, c, hn::Mul(re, s))};
  }
  HWY_ATTR Complex AddTimes(T factor, Complex x) const {
    const V f = hn::Set(D(), factor);
    return {hn::MulAdd(f, x.re, re), hn::MulAdd(f, x.im, im)};
  }
};
template <typename T>
HWY_ATTR HWY_INLINE Complex<T> operator+(Complex<T> a, Complex<T> b) {
  return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)};
}
template <typename T>
HWY_ATTR HWY_INLINE Complex<T> operator-(Complex<T> a, Complex<T> b) {
  return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)};
}

// The transform of p elements: put(q, value) for each q. Of odd p, elements r and p - r go
// together, since their roots are conjugates.
template <int kFactor, typename T, typename Get, typename Put>
HWY_INLINE void Butterfly(int64_t p, const T* roots, int64_t root_step, Get&& get, Put&& put) {
  using C = Complex<T>;
  if constexpr (kFactor == 2) {
    const C a = get(0), b = get(1);
    put(0, a + b);
    put(1, a - b);
  } else if constexpr (kFactor == 4) {
    const C a = get(0), b = get(1), c = get(2), e = get(3);
    const C even = a + c, odd = a - c, both = b + e, half = (b - e).TimesI();
    put(0, even + both);
    put(1, odd - half);
    put(2, even - both);
    put(3, odd + half);
  } else {
    const int64_t count = kFactor > 0 ? kFactor : p;
    C sum[kLargestFactor / 2 + 1], difference[kLargestFactor / 2 + 1];
    const C first = get(0);
    C all = first;
    for (int64_t r = 1; 2 * r < count; ++r) {
      const C a = get(r), b = get(count - r);
      sum[r] = a + b;
      difference[r] = a - b;
      all = all + sum[r];
    }
    put(0, all);
    for (int64_t q = 1; 2 * q < count; ++q) {
      C even = first, odd{hn::Zero(typename C::D()), hn::Zero(typename C::D())};
      for (int64_t r = 1; 2 * r < count; ++r) {
        const T* root = roots + 2 * (r * q % count * root_step);
        even = even.AddTimes(root[0], sum[r]);
        odd = odd.AddTimes(root[1], difference[r]);
      }
      const C turned = odd.TimesI();
      put(q, even + turned);
      put(count - q, even - turned);
    }
  }
}

// One factor of decimation in frequency, self-sorting (Stockham): transforms of the p elements that
// lie `after` apart, times roots. `before` is the product of the factors already done.
template <int kFactor, typename T>
void Pass(const DftPlan<T>& plan, const T* x, T* y, int64_t p, int64_t before) {
  using C = Complex<T>;
  const int64_t step = 2 * static_cast<int64_t>(hn::Lanes(typename C::D()));
  const int64_t after = plan.length / before / p;
  const T* roots = plan.roots.data();
  for (int64_t i = 0; i < after; ++i) {
    for (int64_t k = 0; k < before; ++k) {
      const T* in = x + (k * p * after + i) * step;
      T* out = y + (k * after + i) * step;
      const auto get = [&](int64_t r) HWY_ATTR { return C::Load(in + r * after * step); };
      const auto put = [&](int64_t q, C value) HWY_ATTR {
        if (i > 0 && q > 0) value = value.Times(roots + 2 * (q * i * before));
        value.Store(out + q * before * after * step);
      };
      Butterfly<kFactor>(p, roots, plan.length / p, get, put);
    }
  }
}

// Lanes [first, first + count) of the lines, to and from memory; the rest of the lanes is zero.
template <typename T>
void Read(const DftShape& shape, int64_t length, const float* x, int64_t first, int64_t count,
          T* to) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const int64_t read = std::min(shape.size, length), stride = shape.inner * shape.parts;
  std::fill(to, to + 2 * lanes * length, T{0});
  for (int64_t lane = 0; lane < count; ++lane) {
    const int64_t outer = (first + lane) / shape.inner, inner = (first + lane) % shape.inner;
    const float* from = x + (outer * shape.size * shape.inner + inner) * shape.parts;
    T* line = to + lane;
    for (int64_t j = 0; j < read; ++j) line[2 * j * lanes] = from[j * stride];
    if (shape.parts == 1) continue;
    const T sign = shape.inverse ? T{-1} : T{1};  // of the conjugate
    for (int64_t j = 0; j < read; ++j) line[(2 * j + 1) * lanes] = sign * from[j * stride + 1];
  }
}

template <typename T>
void Write(const DftShape& shape, int64_t length, const T* from, int64_t first, int64_t count,
           float* y) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const T scale = shape.inverse ? T{1} / static_cast<T>(length) : T{1};
  const T imaginary = shape.inverse ? -scale : scale;
  const int64_t stride = shape.inner * shape.out_parts;
  for (int64_t lane = 0; lane < count; ++lane) {
    const int64_t outer = (first + lane) / shape.inner, inner = (first + lane) % shape.inner;
    float* to = y + (outer * shape.out_size * shape.inner + inner) * shape.out_parts;
    const T* line = from + lane;
    for (int64_t k = 0; k < shape.out_size; ++k) {
      to[k * stride] = static_cast<float>(line[2 * k * lanes] * scale);
    }
    if (shape.out_parts == 1) continue;
    for (int64_t k = 0; k < shape.out_size; ++k) {
      to[k * stride + 1] = static_cast<float>(line[(2 * k + 1) * lanes] * imaginary);
    }
  }
}

template <typename T>
void TransformLines(const DftPlan<T>& plan, const DftShape& shape, const float* x, int64_t first,
                    int64_t count, T* memory, float* y) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  T *from = memory, *to = memory + 2 * lanes * plan.length;
  Read(shape, plan.length, x, first, count, from);
  int64_t before = 1;
  for (const int64_t factor : plan.factors) {
    switch (factor) {
      case 2: Pass<2>(plan, from, to, factor, before); break;
      case 3: Pass<3>(plan, from, to, factor, before); break;
      case 4: Pass<4>(plan, from, to, factor, before); break;
      case 5: Pass<5>(plan, from, to, factor, before); break;
      default: Pass<0>(plan, from, to, factor, before);
    }
    std::swap(from, to);
    before *= factor;
  }
  Write(shape, plan.length, from, first, count, y);
}

template <typename T>
int64_t LanesOf() {
  return static_cast<int64_t>(hn::Lanes(hn::ScalableTag<T>()));
}

int64_t FloatLanes() { return LanesOf<float>(); }
int64_t DoubleLanes() { return LanesOf<double>(); }
void FloatLines(const DftPlan<float>& plan, const DftShape& shape, const float* x, int64_t first,
                int64_t count, float* memory, float* y) {
  TransformLines(plan, shape, x, first, count, memory, y);
}
void DoubleLines(const DftPlan<double>& plan, const DftShape& shape, const float* x, int64_t first,
                 int64_t count, double* memory, float* y) {
  TransformLines(plan, shape, x, first, count, memory, y);
}

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(FloatLanes);
HWY_EXPORT(DoubleLanes);
HWY_EXPORT(FloatLines);
HWY_EXPORT(DoubleLines);

namespace {

// exp(-2 pi i k / n) from the first eighth of the circle: so symmetric roots have the same digits,
// and sums that cancel do so to zero.
std::pair<double, double> Root(int64_t k, int64_t n) {
  const auto real_imaginary = [](int64_t a, int64_t b) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(a) / static_cast<double>(b);
    return std::pair(std::cos(angle), -std::sin(angle));
  };
  if (2 * k > n) {
    const auto [re, im] = Root(n - k, n);
    return {re, -im};
  }
  if (4 * k > n) {
    const auto [re, im] = Root(n - 2 * k, 2 * n);
    return {-re, im};
  }
  if (8 * k > n) {
    const auto [re, im] = Root(n - 4 * k, 4 * n);
    return {-im, -re};
  }
  return real_imaginary(k, n);
}

template <typename T>
int64_t Lanes() {
  if constexpr (sizeof(T) == 4) return HWY_DYNAMIC_DISPATCH(FloatLanes)();
  return HWY_DYNAMIC_DISPATCH(DoubleLanes)();
}

template <typename T>
int64_t SlotBytes(const DftPlan<T>& plan) {
  return 4 * Lanes<T>() * plan.length * static_cast<int64_t>(sizeof(T));
}

}  // namespace

template <typename T>
DftPlan<T> PlanDft(int64_t length) {
  constexpr int64_t kLargest = 31;
  DftPlan<T> plan;
  plan.length = length;
  int64_t n = length;
  for (; n % 4 == 0; n /= 4) plan.factors.push_back(4);
  for (int64_t p = 2; p <= kLargest; ++p) {
    for (; n % p == 0; n /= p) plan.factors.push_back(p);
  }
  if (n != 1) plan.factors.clear();
  if (plan.factors.empty()) return plan;
  for (int64_t k = 0; k < length; ++k) {
    const auto [re, im] = Root(k, length);
    plan.roots.push_back(static_cast<T>(re));
    plan.roots.push_back(static_cast<T>(im));
  }
  return plan;
}

template <typename T>
int64_t DftScratchBytes(const DftPlan<T>& plan, const DftShape& /*shape*/, int threads) {
  return ScratchSlots::CountFor(threads) * SlotBytes(plan);
}

template <typename T>
void Dft(const DftPlan<T>& plan, const DftShape& shape, const float* x, float* y, void* scratch,
         const Parallel& par) {
  const int64_t lines = shape.outer * shape.inner, lanes = Lanes<T>();
  ScratchSlots slots(scratch, SlotBytes(plan), ScratchSlots::CountFor(par.threads));
  // Some groups of lines a task, so that a task has 20 microseconds of work.
  const int64_t together = lanes * std::max<int64_t>(1, 2048 / plan.length);
  par.For((lines + together - 1) / together, [&](int64_t task) {
    const ScratchSlots::Lease lease(slots);
    auto* memory = reinterpret_cast<T*>(lease.floats());
    const int64_t end = std::min(lines, (task + 1) * together);
    for (int64_t first = task * together; first < end; first += lanes) {
      const int64_t count = std::min(lanes, end - first);
      if constexpr (sizeof(T) == 4) {
        HWY_DYNAMIC_DISPATCH(FloatLines)(plan, shape, x, first, count, memory, y);
      } else {
        HWY_DYNAMIC_DISPATCH(DoubleLines)(plan, shape, x, first, count, memory, y);
      }
    }
  });
}

#define SARDONYX_DFT(T)                                                                 \
  template DftPlan<T> PlanDft<T>(int64_t);                                              \
  template int64_t DftScratchBytes<T>(const DftPlan<T>&, const DftShape&, int);         \
  template void Dft<T>(const DftPlan<T>&, const DftShape&, const float*, float*, void*, \
                       const Parallel&);
SARDONYX_DFT(float)
SARDONYX_DFT(double)
#undef SARDONYX_DFT

}  // namespace sardonyx
#endif
