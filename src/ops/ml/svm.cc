// Support vector machines. The kernel matrix is a formula; who wins among the classes is the core
// operation svm_vote.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/core/fits.h"
#include "ops/core/reference.h"
#include "ops/math/distances.h"
#include "ops/ml/scores.h"

namespace sardonyx {
namespace core {
namespace {

// Of n classes there are n (n - 1) / 2 pairs: (0,1), (0,2) ... (1,2) ...
int64_t PairsOf(int64_t classes) { return classes * (classes - 1) / 2; }

void InferSvmVote(InferContext& context) {
  if (!IsFloat(context.dtype(0))) context.Fail("votes are floats, not {}", Name(context.dtype(0)));
  const Dims values = context.input(0).shape.value_or(Dims());
  const int64_t classes = context.attributes().Int("classes");
  constexpr int64_t kMostClasses = 1 << 20;
  if (classes < 0 || classes > kMostClasses ||
      !Fits(values, {values.empty() ? Dim() : values[0], PairsOf(classes)})) {
    context.Fail("{} are no votes on {} classes", context.Print(values), classes);
  }
  for (const size_t i : {size_t{1}, size_t{2}}) {
    if (context.has(i) != context.has(1) ||
        (context.has(i) && (context.dtype(i) != DType::kFloat64 || !context.ranked(i) ||
                            !Fits(context.shape(i), {PairsOf(classes)})))) {
      context.Fail("probabilities of {} classes do not fit", classes);
    }
  }
  context.Set(0, DType::kInt64, Dims{values[0]});
  context.Set(1, DType::kFloat32, Dims{values[0], context.has(1) ? classes : PairsOf(classes)});
}

// Probabilities of classes from those of each pair: the second method of Wu, Lin and Weng,
// "Probability estimates for multi-class classification by pairwise coupling" (2004).
// pairs[i * count + j]: how likely class i is, of i and j.
void CoupleProbabilities(const std::vector<double>& pairs, std::vector<double>& p) {
  constexpr int kMaxRounds = 100;
  const size_t count = p.size();
  const double tolerance = 0.005 / static_cast<double>(count);
  std::vector<double> q(count * count), qp(count);
  for (size_t i = 0; i < count; ++i) {
    p[i] = 1.0 / static_cast<double>(count);
    for (size_t j = 0; j < count; ++j) {
      if (j == i) continue;
      q[i * count + i] += pairs[j * count + i] * pairs[j * count + i];
      q[i * count + j] = -pairs[j * count + i] * pairs[i * count + j];
    }
  }
  for (int round = 0; round < kMaxRounds; ++round) {
    double pqp = 0, error = 0;
    for (size_t i = 0; i < count; ++i) {
      qp[i] = std::inner_product(p.begin(), p.end(), q.begin() + i * count, 0.0);
      pqp += p[i] * qp[i];
    }
    for (double value : qp) error = std::max(error, std::abs(value - pqp));
    if (error < tolerance) return;
    for (size_t i = 0; i < count; ++i) {
      const double step = (pqp - qp[i]) / q[i * count + i], scale = 1 + step;
      pqp = (pqp + step * (step * q[i * count + i] + 2 * qp[i])) / (scale * scale);
      p[i] += step;
      for (size_t j = 0; j < count; ++j) {
        qp[j] = (qp[j] + step * q[i * count + j]) / scale;
        p[j] /= scale;
      }
    }
  }
}

void ComputeSvmVote(ComputeContext& context) {
  constexpr double kLeast = 1e-7;  // of a pair's probability
  const auto classes = static_cast<size_t>(context.attributes().Int("classes"));
  const bool coupled = context.has(1);
  const std::vector<double> values = ToDoubles(context.input(0));
  const int64_t rows = context.input(0).dims()[0];
  const double *slopes = coupled ? context.input(1).data<double>() : nullptr,
               *offsets = coupled ? context.input(2).data<double>() : nullptr;
  int64_t* winner = context.Allocate(0).data<int64_t>();
  float* score = context.Allocate(1).data<float>();
  std::vector<double> pairs(classes * classes), probabilities(classes);
  std::vector<int64_t> votes(classes);
  const double* value = values.data();
  for (int64_t row = 0; row < rows; ++row) {
    std::fill(votes.begin(), votes.end(), 0);
    int64_t pair = 0;
    for (size_t i = 0; i < classes; ++i) {
      for (size_t j = i + 1; j < classes; ++j, ++pair, ++value) {
        ++votes[*value > 0 ? i : j];
        if (!coupled) {
          *score++ = static_cast<float>(*value);
          continue;
        }
        const double p = std::clamp(1 / (1 + std::exp(*value * slopes[pair] + offsets[pair])),
                                    kLeast, 1 - kLeast);
        pairs[i * classes + j] = p;
        pairs[j * classes + i] = 1 - p;
      }
    }
    winner[row] = std::max_element(votes.begin(), votes.end()) - votes.begin();
    if (coupled) {
      CoupleProbabilities(pairs, probabilities);
      for (double p : probabilities) *score++ = static_cast<float>(p);
    }
  }
}

}  // namespace

const CoreOp svm_vote = {.name = "svm_vote",
                         .inputs = "tt?t?",
                         .outputs = {2, 2},
                         .infer = InferSvmVote,
                         .reference = ComputeSvmVote};

}  // namespace core

namespace ops::ml {

namespace {

// Float features are computed with in float, as elsewhere; but the distances of RBF are differences
// of large numbers.
Val Features(Lowering& op) {
  const bool narrow =
      op.in(0).dtype() == DType::kFloat32 && op.String("kernel_type", "LINEAR") != "RBF";
  return Rows(op, narrow ? DType::kFloat32 : DType::kFloat64);
}

// How alike each row of x [N,F] and each support vector [V,F] are: [N,V].
Val Kernel(Lowering& op, Val x, Val vectors) {
  std::vector<double> parameters = op.attributes.Floats("kernel_params");
  if (parameters.empty()) parameters = {0, 0, 0};
  if (parameters.size() != 3) {
    op.Fail("kernel_params are gamma, coef0 and degree, not {} numbers", parameters.size());
  }
  const double gamma = parameters[0], offset = parameters[1], degree = parameters[2];
  const std::string kind = op.String("kernel_type", "LINEAR");
  if (kind == "RBF") {
    // Infinite features are far from all vectors; by the products they would be NaN.
    const Val is_far = IsInf(Reduce("sum_square", x, {1}, true));
    const Val zero = op.builder().Scalar(x.dtype(), 0);
    const Val near = SquaredDistances(Where(is_far, zero, x), vectors);
    return Where(is_far, zero, Exp(near * -gamma));
  }
  const Val product = MatMul(x, vectors, false, true);
  if (kind == "LINEAR") return product;
  if (kind == "POLY") return Pow(product * gamma + offset, degree);
  if (kind == "SIGMOID") return Tanh(product * gamma + offset);
  op.Fail("kernel_type '{}' is unknown", kind);
}

// Row r of the coefficients [C-1,V] holds those of each class against the r-th of the other
// classes. As a matrix [V,pairs], of which two classes in each column are not zero.
Val PairWeights(Lowering& op, const std::vector<int64_t>& counts, int64_t vectors) {
  const auto classes = static_cast<int64_t>(counts.size()), pairs = core::PairsOf(classes);
  Tensor coefficients(DType::kFloat64, {vectors, pairs});
  std::fill_n(coefficients.data<double>(), coefficients.size(), 0.0);
  const std::vector<double>& list = op.attributes.Floats("coefficients");
  if (static_cast<int64_t>(list.size()) != (classes - 1) * vectors) {
    op.Fail("coefficients has {} elements, not {}", list.size(), (classes - 1) * vectors);
  }
  std::vector<int64_t> starts{0};
  for (int64_t count : counts) starts.push_back(starts.back() + count);
  int64_t pair = 0;
  for (int64_t i = 0; i < classes; ++i) {
    for (int64_t j = i + 1; j < classes; ++j, ++pair) {
      const auto put = [&](int64_t own, int64_t row) {
        for (int64_t v = starts[own]; v < starts[own + 1]; ++v) {
          coefficients.data<double>()[v * pairs + pair] = list[row * vectors + v];
        }
      };
      put(i, j - 1);
      put(j, i);
    }
  }
  return op.builder().Constant(coefficients);
}

Val SupportVectors(Lowering& op, int64_t count) {
  const int64_t length = static_cast<int64_t>(op.attributes.Floats("support_vectors").size());
  if (length % count != 0) op.Fail("{} vectors cannot have {} elements in all", count, length);
  return Matrix(op, "support_vectors", {count, length / count});
}

// Without support vectors the coefficients [E,F] are those of a linear model.
Val LinearScores(Lowering& op, Val x, int64_t columns) {
  const int64_t length = static_cast<int64_t>(op.attributes.Floats("coefficients").size());
  const std::vector<double>& rho = op.attributes.Floats("rho");
  if (length == 0 || length % columns != 0) {
    op.Fail("{} coefficients cannot be those of {} scores", length, columns);
  }
  if (rho.empty()) op.Fail("rho is missing");
  const Val weights = Cast(Matrix(op, "coefficients", {columns, length / columns}), x.dtype());
  return MatMul(x, weights, false, true) + rho[0];
}

// The second of two classes wins from a half on if no coefficient is negative, else above zero.
Val LinearWinner(Lowering& op, Val scores) {
  const Val largest = Largest(scores);
  if (scores.size(1) != 2) return largest;
  const Val best = Reduce("max", scores, {1}, false);
  const std::vector<double>& coefficients = op.attributes.Floats("coefficients");
  const bool all_positive =
      std::none_of(coefficients.begin(), coefficients.end(), [](double c) { return c < 0; });
  const Val second = all_positive ? GreaterEqual(best, 0.5) : Greater(best, 0.0);
  return Where(second, op.builder().Scalar(DType::kInt64, 1), largest);
}

}  // namespace

Outputs LowerSVMRegressor(Lowering& op) {
  const Val x = Features(op);
  const int64_t count = op.Int("n_supports");
  const std::vector<double>& rho = op.attributes.Floats("rho");
  if (count < 0) op.Fail("n_supports is {}", count);
  if (rho.empty()) op.Fail("rho is missing");
  Val y;
  if (count == 0) {
    y = LinearScores(op, x, 1);
  } else {
    const Val kernels = Kernel(op, x, Cast(SupportVectors(op, count), x.dtype()));
    y = MatMul(kernels, Cast(Matrix(op, "coefficients", {count, 1}), x.dtype())) + rho[0];
  }
  y = Cast(y, DType::kFloat32);
  if (op.Int("one_class") != 0) {
    const Val one = op.builder().Scalar(DType::kFloat32, 1);
    return Where(Greater(y, 0.0), one, Neg(one));
  }
  return PostTransform(op, y);
}

Outputs LowerSVMClassifier(Lowering& op) {
  const Val x = Features(op);
  const Tensor labels = StringsOrInts(op, "classlabels_strings", "classlabels_ints");
  const std::vector<int64_t>& counts = op.Ints("vectors_per_class");
  const int64_t classes = labels.size();
  int64_t vectors = 0;
  for (int64_t count : counts) {
    if (count < 0 || count > static_cast<int64_t>(op.attributes.Floats("support_vectors").size())) {
      op.Fail("vectors_per_class holds {}", count);
    }
    vectors += count;
  }
  if (vectors == 0) {
    const Val scores = Cast(LinearScores(op, x, classes), DType::kFloat32);
    return {LabelsAt(op, labels, LinearWinner(op, scores)), PostTransform(op, scores)};
  }
  if (classes < 2 || static_cast<int64_t>(counts.size()) != classes) {
    op.Fail("{} classes cannot have {} vectors_per_class", classes, counts.size());
  }
  const int64_t pairs = classes * (classes - 1) / 2;
  const Val kernels = Kernel(op, x, Cast(SupportVectors(op, vectors), x.dtype()));
  const Val values = MatMul(kernels, Cast(PairWeights(op, counts, vectors), x.dtype())) +
                     Cast(Matrix(op, "rho", {pairs}), x.dtype());
  std::vector<Val> inputs = {values};
  const bool probabilities = !op.attributes.Floats("prob_a").empty();
  if (probabilities) {
    inputs.push_back(Matrix(op, "prob_a", {pairs}));
    inputs.push_back(Matrix(op, "prob_b", {pairs}));
  }
  const std::vector<Val> votes =
      op.builder().MakeMany(core::svm_vote, inputs, {{"classes", classes}}, 2);
  const bool single = classes == 2 && !probabilities;
  return {LabelsAt(op, labels, votes[0]),
          single ? TwoClasses(op, votes[1], op.String("post_transform", "NONE") == "NONE")
                 : PostTransform(op, votes[1])};
}

}  // namespace ops::ml
}  // namespace sardonyx
