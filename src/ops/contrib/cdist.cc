#include "ops/lowering.h"
#include "ops/math/distances.h"

// Distances of each row of A [M,N] from each of B [K,N], defined as in SciPy's
// scipy.spatial.distance.cdist.

namespace sardonyx::ops::contrib {
namespace {

Val SumRows(Val x) { return Reduce("sum", x, {1}, true); }
Val AsRow(Val column) { return Transpose(column, {1, 0}); }
Val Products(Val a, Val b) { return MatMul(a, b, false, true); }

// With both moved to the middle of B first: what they lie away from zero would cancel.
Val SquaredEuclidean(Val a, Val b) {
  const Val mean = Reduce("mean", b, {0}, true);
  constexpr double kMost = 1e30;  // no middle: as they are
  const Val middle = Where(Less(Abs(mean), kMost), mean, a.builder->Scalar(a.dtype(), 0));
  return Max(SquaredDistances(a - middle, b - middle), 0);
}

Val Cosine(Val a, Val b) {
  return 1 - Products(a / Sqrt(SumRows(a * a)), b / Sqrt(SumRows(b * b)));
}

Val Centred(Val x) { return x - Reduce("mean", x, {1}, true); }

// a / b, and 0 where a is.
Val Ratio(Val a, Val b) {
  const Val zero = a.builder->Scalar(a.dtype(), 0);
  return Where(Equal(a, 0), zero, a / b);
}

// Between all pairs, element by element: [M,1,N] and [1,K,N].
Val Elementwise(Lowering& op, const std::string& metric, Val a, Val b) {
  const auto sum = [](Val x) { return Reduce("sum", x, {2}, false); };
  a = Unsqueeze(a, {1});
  b = Unsqueeze(b, {0});
  const Val difference = Abs(a - b);
  if (metric == "cityblock") return sum(difference);
  if (metric == "chebyshev") return Reduce("max", difference, {2}, false);
  if (metric == "canberra") return sum(Ratio(difference, Abs(a) + Abs(b)));
  if (metric == "braycurtis") return sum(difference) / sum(Abs(a + b));
  const Val differs = Cast(Not(Equal(a, b)), a.dtype());
  if (metric == "hamming" || metric == "matching") return Reduce("mean", differs, {2}, false);
  if (metric == "jaccard") {
    return Ratio(sum(differs), sum(Cast(Or(Not(Equal(a, 0)), Not(Equal(b, 0))), a.dtype())));
  }
  // Of the distributions that rows are in proportion to.
  const auto divergence = [&](Val p, Val middle) {
    return sum(p * Log(Where(Equal(p, 0), p.builder->Scalar(p.dtype(), 1), p / middle)));
  };
  const Val p = a / Reduce("sum", a, {2}, true), q = b / Reduce("sum", b, {2}, true);
  const Val middle = (p + q) / 2;
  if (metric == "jensenshannon") {
    return Sqrt(Max((divergence(p, middle) + divergence(q, middle)) / 2, 0));
  }
  op.Unsupported("attribute metric is '{}', which needs more than two inputs, or is unknown",
                 metric);
}

// Of rows of truths, from how many are true in both, in one or in none.
Val OfTruths(const std::string& metric, Val a, Val b) {
  const Val count = Cast(SizeOf(a, 1), a.dtype());
  a = Cast(Not(Equal(a, 0)), a.dtype());
  b = Cast(Not(Equal(b, 0)), b.dtype());
  const Val both = Products(a, b), first = SumRows(a) - both, second = AsRow(SumRows(b)) - both;
  const Val one = first + second, none = count - both - one;
  if (metric == "dice") return one / (2 * both + one);
  if (metric == "russellrao") return (count - both) / count;
  if (metric == "sokalsneath") return 2 * one / (both + 2 * one);
  if (metric == "kulsinski") return (one - both + count) / (one + count);
  if (metric == "yule") return Ratio(2 * first * second, both * none + first * second);
  return 2 * one / (both + none + 2 * one);  // rogerstanimoto, sokalmichener
}

}  // namespace

Outputs LowerCDist(Lowering& op) {
  const Val a = op.in(0), b = op.in(1);
  for (const Val& x : {a, b}) {
    if (x.rank() != 2) op.Fail("inputs have {} axes, but must have 2", x.rank());
  }
  // Known, for a single column would broadcast.
  if (a.size(1) != b.size(1)) {
    op.Fail("A has {} columns, but B has {}", a.size(1), b.size(1));
  }
  const std::string metric = op.String("metric", "sqeuclidean");
  if (metric == "sqeuclidean") return SquaredEuclidean(a, b);
  // Minkowski's of SciPy's default order, 2.
  if (metric == "euclidean" || metric == "minkowski") return Sqrt(SquaredEuclidean(a, b));
  if (metric == "cosine") return Cosine(a, b);
  if (metric == "correlation") return Cosine(Centred(a), Centred(b));
  for (const std::string_view name : {"dice", "russellrao", "sokalsneath", "kulsinski", "yule",
                                      "rogerstanimoto", "sokalmichener"}) {
    if (metric == name) return OfTruths(metric, a, b);
  }
  return Elementwise(op, metric, a, b);
}

}  // namespace sardonyx::ops::contrib
