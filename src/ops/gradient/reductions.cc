// Products, reductions, running sums and normalisations.

#include <algorithm>
#include <numeric>

#include "ops/gradient/backward.h"

namespace sardonyx::ops {
namespace {

void MatmulBackward(Backward& node) {
  const Val a = node.in(0), b = node.in(1), g = node.grad();
  const bool ta = node.attributes().Int("trans_a") != 0, tb = node.attributes().Int("trans_b") != 0;
  if (node.wants(0)) node.Add(0, ta ? MatMul(b, g, tb, true) : MatMul(g, b, false, !tb));
  if (node.wants(1)) node.Add(1, tb ? MatMul(g, a, true, ta) : MatMul(a, g, !ta, false));
}

Val Count(Val x) { return Cast(x.builder->Make(core::size, {x}), x.dtype()); }

Val Running(Val x, std::string_view kind, int64_t axis, bool exclusive, bool reverse) {
  return x.builder->Make(core::cumulative, {x},
                         {{"kind", std::string(kind)},
                          {"axis", axis},
                          {"exclusive", int64_t{exclusive}},
                          {"reverse", int64_t{reverse}}});
}

// The product of all other elements of each reduced set: right where some are zero.
Val ProductOfOthers(Val x, std::vector<int64_t> axes) {
  const int rank = x.rank();
  for (int64_t& axis : axes) axis = x.Axis(axis);
  std::vector<int64_t> perm, inverse(rank);
  for (int64_t i = 0; i < rank; ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) perm.push_back(i);
  }
  const int64_t kept = static_cast<int64_t>(perm.size());
  perm.insert(perm.end(), axes.begin(), axes.end());
  for (int i = 0; i < rank; ++i) inverse[perm[i]] = i;
  const Val last = Transpose(x, perm);
  const Val lines = Reshape(
      last,
      Concat({ShapeOf(last, 0, kept), Reduce("prod", ShapeOf(last, kept, rank), {0}, true)}, 0),
      true);
  const Val others =
      Running(lines, "prod", -1, true, false) * Running(lines, "prod", -1, true, true);
  return Transpose(Reshape(others, ShapeOf(last), true), inverse);
}

// Of the greatest or least element; ties share alike.
Val OfExtreme(Val x, Val extreme, Val g) {
  const Val hits = Cast(Equal(x, extreme), x.dtype());
  return hits * (g / ReduceAll("sum", hits, false));
}

void ReduceBackward(Backward& node) {
  const Val x = node.in(0);
  if (node.attributes().String("kind") == "range") {
    for (size_t i : {0, 1}) {
      if (node.grad(i)) node.Add(0, OfExtreme(x, node.out(i), node.grad(i)));
    }
    return;
  }
  Val g = node.grad(), y = node.out();
  const std::string_view kind = node.attributes().String("kind");
  const bool all = node.attributes().Find("axes") == nullptr;
  std::vector<int64_t> axes = node.attributes().Ints("axes");
  if (!all && node.attributes().Int("keepdims", 1) == 0) {
    g = Unsqueeze(g, axes);
    y = Unsqueeze(y, axes);
  }
  const auto spread = [&](Val value) { return Expand(value, ShapeOf(x)); };
  const auto reduced = [&](Val value) {
    return all ? ReduceAll("sum", value, true) : Reduce("sum", value, axes, true);
  };
  const Val zero = node.b.Scalar(x.dtype(), 0);
  if (kind == "sum") return node.Add(0, spread(g));
  if (kind == "mean") return node.Add(0, spread(g * (Count(y) / Count(x))));
  if (kind == "sum_square") return node.Add(0, g * x * 2);
  if (kind == "l1") return node.Add(0, g * Sign(x));
  if (kind == "l2") return node.Add(0, Where(Equal(y, 0), zero, g * x / y));
  if (kind == "log_sum") return node.Add(0, spread(g / Exp(y)));
  if (kind == "log_sum_exp") return node.Add(0, g * Exp(x - y));
  if (kind == "max" || kind == "min") {  // ties share alike
    const Val hits = Cast(Equal(x, y), x.dtype());
    return node.Add(0, hits * (g / reduced(hits)));
  }
  if (all) {
    axes.resize(x.rank());
    std::iota(axes.begin(), axes.end(), 0);
  }
  node.Add(0, g * ProductOfOthers(x, axes));
}

// Of a running product: for each element k and each product i that it is part of, the product of
// all others, as a matrix [k, i] a line. Quadratic, but right where some are zero.
void RunningProductBackward(Backward& node, int64_t axis, bool exclusive, bool reverse) {
  const Val x = node.in(0);
  std::vector<int64_t> perm(x.rank());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[x.Axis(axis)], perm.back());  // its own inverse
  const Val positions = Positions(SizeOf(x, axis));
  const Val k = Unsqueeze(positions, {1}), i = Unsqueeze(positions, {0});
  const auto lines = [&](Val value) { return Unsqueeze(Transpose(value, perm), {-2}); };
  const Val one = node.b.Scalar(x.dtype(), 1), zero = node.b.Scalar(x.dtype(), 0);
  const Val others = Running(Where(Equal(k, i), one, lines(x)), "prod", -1, exclusive, reverse);
  const Val before = reverse ? Greater(k, i) : Less(k, i);
  const Val part = exclusive ? before : Or(before, Equal(k, i));
  const Val products = Where(part, lines(node.grad()) * others, zero);
  node.Add(0, Transpose(Reduce("sum", products, {-1}, false), perm));
}

void CumulativeBackward(Backward& node) {
  const int64_t axis = node.attributes().Int("axis");
  const bool exclusive = node.attributes().Int("exclusive") != 0;
  const bool reverse = node.attributes().Int("reverse") != 0;
  if (node.attributes().String("kind") != "sum") {
    return RunningProductBackward(node, axis, exclusive, reverse);
  }
  node.Add(0, Running(node.grad(), "sum", axis, exclusive, !reverse));
}

void SoftmaxBackward(Backward& node) {
  const Val y = node.out(), g = node.grad();
  const int64_t axis = node.attributes().Int("axis", -1);
  if (node.attributes().Int("log") != 0) {
    return node.Add(0, g - Exp(y) * Reduce("sum", g, {axis}, true));
  }
  node.Add(0, y * (g - Reduce("sum", g * y, {axis}, true)));
}

void LayerNormBackward(Backward& node) {
  if (node.grad(1) || node.grad(2)) node.Refuse("through its mean and deviation");
  const DType type = node.in(0).dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const Val x = Cast(node.in(0), type), g = Cast(node.grad(), type);
  std::vector<int64_t> axes;
  for (int64_t i = x.Axis(node.attributes().Int("axis", -1)); i < x.rank(); ++i) axes.push_back(i);
  const auto mean = [&](Val value) { return Reduce("mean", value, axes, true); };
  const bool rms = node.attributes().Int("rms") != 0;
  const Val centred = rms ? x : x - mean(x);
  const double epsilon = node.attributes().Float("epsilon", 1e-5);
  const Val inverse = Reciprocal(Sqrt(mean(centred * centred) + epsilon));
  const Val normal = centred * inverse;
  if (node.wants(1)) node.Add(1, g * normal);
  node.Add(2, g);
  const Val scaled = node.in(1) ? g * Cast(node.in(1), type) : g;
  const Val along = scaled - normal * mean(scaled * normal);
  node.Add(0, inverse * (rms ? along : along - mean(scaled)));
}

// The other way round; and of the tables, what each pair has to do with its angle.
void RotaryBackward(Backward& node) {
  const Val x = node.in(0), cosine = node.in(1), sine = node.in(2), g = node.grad();
  if (node.wants(0)) {
    node.Add(0, x.builder->Make(core::rotary, {g, cosine, -sine}, node.attributes()));
  }
  if (!node.wants(1) && !node.wants(2)) return;
  const int64_t turned = node.attributes().Int("turned");
  const bool interleaved = node.attributes().Int("interleaved") != 0;
  const auto half = [&](Val value, int64_t which) {
    if (interleaved) return Slice(value, {which}, {turned}, {3}, {2});
    return Slice(value, {which * turned / 2}, {(which + 1) * turned / 2}, {3});
  };
  const Val a = half(x, 0), b = half(x, 1), real = half(g, 0), imaginary = half(g, 1);
  node.Add(1, real * a + imaginary * b);
  node.Add(2, imaginary * a - real * b);
}

void SumToBackward(Backward& node) { node.Add(0, Expand(node.grad(), ShapeOf(node.in(0)))); }

}  // namespace

std::span<const GradientRule> ReductionRules() {
  static constexpr GradientRule kRules[] = {
      {&core::matmul, MatmulBackward},         {&core::reduce, ReduceBackward},
      {&core::cumulative, CumulativeBackward}, {&core::softmax, SoftmaxBackward},
      {&core::layer_norm, LayerNormBackward},  {&core::sum_to, SumToBackward},
      {&core::rotary, RotaryBackward},
  };
  return kRules;
}

}  // namespace sardonyx::ops
