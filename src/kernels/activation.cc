#include "kernels/activation.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activation.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "kernels/activation-inl.h"
#include "kernels/rounding-inl.h"
#include "kernels/row_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using Kind = Activation::Kind;

// One loop over the pairs of vectors of all rows, since a row of a tile has but one: constants
// would be loaded again for each.
template <class F>
HWY_INLINE void Rows(const F& f, float* y, int64_t ld, int64_t rows, int64_t columns) {
  const D d;
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D())), kPair = 2 * kL;
  if (ld == columns) {  // one long row
    columns *= rows;
    rows = 1;
  }
  const int64_t rest = columns % kPair, whole = columns - rest;
  float* at = y;
  for (int64_t left = rows * (whole / kPair), j = 0; left > 0; --left) {
    const V first = f(hn::LoadU(d, at)), second = f(hn::LoadU(d, at + kL));
    hn::StoreU(first, d, at);
    hn::StoreU(second, d, at + kL);
    j += kPair;
    at += j < whole ? kPair : ld - whole + kPair;
    j = j < whole ? j : 0;
  }
  if (rest == 0) return;
  for (y += whole; rows > 0; --rows, y += ld) {
    if (rest >= kL) hn::StoreU(f(hn::LoadU(d, y)), d, y);
    const int64_t part = rest % kL;
    if (part != 0) StorePart(f(LoadPart(d, y + rest - part, part)), d, y + rest - part, part);
  }
}

template <Kind kKind>
void Run(const Activation& a, float* y, int64_t ld, int64_t rows, int64_t columns) {
  const ActivationFunction<kKind> function(a);
  if (!a.affine && a.rounding == DType::kFloat32) return Rows(function, y, ld, rows, columns);
  const D d;
  const V scale = hn::Set(d, a.scale), shift = hn::Set(d, a.shift);
  const auto affine = [&](V x) HWY_ATTR { return hn::MulAdd(function(x), scale, shift); };
  if (a.rounding == DType::kFloat32) return Rows(affine, y, ld, rows, columns);
  Rows([&](V x) HWY_ATTR { return RoundTo(d, a.rounding, affine(x)); }, y, ld, rows, columns);
}

template <Kind kKind>
void RunBetween(const Activation& a, AroundActivation around, float* y, int64_t ld, int64_t rows,
                int64_t columns) {
  const D d;
  constexpr int64_t kL = static_cast<int64_t>(hn::MaxLanes(D()));
  const ActivationFunction<kKind> function(a);
  const V scale = hn::Set(d, a.scale), shift = hn::Set(d, a.shift);
  const auto finish = [&](V x, const auto& load) HWY_ATTR {
    for (const auto& operand : around.added) {
      if (operand.data != nullptr) x = hn::Add(x, load(operand));
    }
    x = function(x);
    if (a.affine) x = hn::MulAdd(x, scale, shift);
    if (around.scale.data != nullptr) x = hn::Mul(x, load(around.scale));
    for (const auto& operand : around.then) {
      if (operand.data != nullptr) x = hn::Add(x, load(operand));
    }
    return x;
  };
  using Operand = AroundActivation::Operand;
  for (int64_t i = 0; i < rows; ++i, y += ld) {
    int64_t j = 0;
    for (; j + kL <= columns; j += kL) {
      const auto load = [&](const Operand& operand)
                            HWY_ATTR { return hn::LoadU(d, operand.data + i * operand.ld + j); };
      hn::StoreU(finish(hn::LoadU(d, y + j), load), d, y + j);
    }
    if (j == columns) continue;
    const int64_t rest = columns - j;
    const auto load = [&](const Operand& operand)
                          HWY_ATTR { return LoadPart(d, operand.data + i * operand.ld + j, rest); };
    StorePart(finish(LoadPart(d, y + j, rest), load), d, y + j, rest);
  }
}

// Calls run.operator()<kind>().
template <class F>
void OfKind(Kind kind, const F& run) {
  switch (kind) {
    case Kind::kNone: return;
    case Kind::kIdentity: return run.template operator()<Kind::kIdentity>();
    case Kind::kClamp: return run.template operator()<Kind::kClamp>();
    case Kind::kSwish: return run.template operator()<Kind::kSwish>();
    case Kind::kHardSwish: return run.template operator()<Kind::kHardSwish>();
    case Kind::kSigmoid: return run.template operator()<Kind::kSigmoid>();
    case Kind::kTanh: return run.template operator()<Kind::kTanh>();
    case Kind::kGelu: return run.template operator()<Kind::kGelu>();
    case Kind::kGeluTanh: return run.template operator()<Kind::kGeluTanh>();
    case Kind::kLeakyRelu: return run.template operator()<Kind::kLeakyRelu>();
    case Kind::kSoftplus: return run.template operator()<Kind::kSoftplus>();
    case Kind::kMish: return run.template operator()<Kind::kMish>();
    case Kind::kElu: return run.template operator()<Kind::kElu>();
  }
}

void Apply(const Activation& a, float* y, int64_t ld, int64_t rows, int64_t columns) {
  OfKind(a.kind, [&]<Kind kKind>() { Run<kKind>(a, y, ld, rows, columns); });
}

void Between(const Activation& a, AroundActivation around, float* y, int64_t ld, int64_t rows,
             int64_t columns) {
  OfKind(a.kind, [&]<Kind kKind>() { RunBetween<kKind>(a, around, y, ld, rows, columns); });
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Apply);
HWY_EXPORT(Between);

void ApplyActivation(const Activation& activation, float* y, int64_t ld, int64_t rows,
                     int64_t columns) {
  HWY_DYNAMIC_DISPATCH(Apply)(activation, y, ld, rows, columns);
}

void ActivateBetween(const Activation& activation, AroundActivation around, float* y, int64_t ld,
                     int64_t rows, int64_t columns) {
  HWY_DYNAMIC_DISPATCH(Between)(activation, around, y, ld, rows, columns);
}

}  // namespace sardonyx
#endif  // HWY_ONCE
