// Support vector machines. The kernel matrix is a formula; who wins among the classes is the core
// operation svm_vote.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/core/reference.h"
#include "ops/ml/scores.h"

namespace sardonyx {
namespace core {
namespace {

int64_t PairsOf(int64_t classes) { return classes * (classes - 1) / 2; }

void InferSvmVote(InferContext& context) {
  const Dims& kernels = context.shape(0);
  const int64_t classes = context.shape(3)[0].value();
  context.Set(0, DType::kInt64, Dims{kernels[0]});
  const int64_t scores = context.has(4) ? classes : PairsOf(classes);
  context.Set(1, DType::kFloat32, Dims{kernels[0], scores});
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
  const Tensor& kernels = context.input(0);
  const double *coefficients = context.input(1).data<double>(),
               *rho = context.input(2).data<double>();
  const Tensor& counts = context.input(3);
  const size_t classes = static_cast<size_t>(counts.size());
  const int64_t vectors = kernels.dims()[1];
  std::vector<int64_t> starts{0};
  for (size_t i = 0; i < classes; ++i) starts.push_back(starts[i] + counts.data<int64_t>()[i]);
  int64_t* winner = context.Allocate(0).data<int64_t>();
  float* score = context.Allocate(1).data<float>();
  std::vector<double> pairs(classes * classes), probabilities(classes);
  std::vector<int64_t> votes(classes);
  for (int64_t row = 0; row < kernels.dims()[0]; ++row) {
    const double* kernel = kernels.data<double>() + row * vectors;
    std::fill(votes.begin(), votes.end(), 0);
    // Row r of the coefficients holds those of each class against the r-th of the other classes.
    const auto part = [&](size_t one, size_t coefficient_row) {
      return std::inner_product(kernel + starts[one], kernel + starts[one + 1],
                                coefficients + coefficient_row * vectors + starts[one], 0.0);
    };
    int64_t pair = 0;
    for (size_t i = 0; i < classes; ++i) {
      for (size_t j = i + 1; j < classes; ++j, ++pair) {
        const double value = part(i, j - 1) + part(j, i) + rho[pair];
        ++votes[value > 0 ? i : j];
        if (!context.has(4)) {
          *score++ = static_cast<float>(value);
          continue;
        }
        const double slope = context.input(4).data<double>()[pair];
        const double offset = context.input(5).data<double>()[pair];
        const double p = std::clamp(1 / (1 + std::exp(value * slope + offset)), kLeast, 1 - kLeast);
        pairs[i * classes + j] = p;
        pairs[j * classes + i] = 1 - p;
      }
    }
    winner[row] = std::max_element(votes.begin(), votes.end()) - votes.begin();
    if (context.has(4)) {
      CoupleProbabilities(pairs, probabilities);
      for (double p : probabilities) *score++ = static_cast<float>(p);
    }
  }
}

}  // namespace

const CoreOp svm_vote = {.name = "svm_vote", .infer = InferSvmVote, .reference = ComputeSvmVote};

}  // namespace core

namespace ops::ml {

namespace {

// How alike each row of x [N,F] and each support vector [V,F] are: [N,V].
Val Kernel(Lowering& op, Val x, Val vectors) {
  std::vector<double> parameters = op.attributes.Floats("kernel_params");
  if (parameters.empty()) parameters = {0, 0, 0};
  if (parameters.size() != 3) {
    op.Fail("kernel_params are gamma, coef0 and degree, not {} numbers", parameters.size());
  }
  const double gamma = parameters[0], offset = parameters[1], degree = parameters[2];
  const std::string kind = op.String("kernel_type", "LINEAR");
  const Val product = MatMul(x, vectors, false, true);
  if (kind == "LINEAR") return product;
  if (kind == "POLY") return Pow(product * gamma + offset, degree);
  if (kind == "SIGMOID") return Tanh(product * gamma + offset);
  if (kind != "RBF") op.Fail("kernel_type '{}' is unknown", kind);
  const Val x_norm = Reduce("sum_square", x, {1}, true);
  const Val norm = Unsqueeze(Reduce("sum_square", vectors, {1}, false), {0});
  return Exp((x_norm + norm - product * 2.0) * -gamma);
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
  return MatMul(x, Matrix(op, "coefficients", {columns, length / columns}), false, true) + rho[0];
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
  const Val x = Rows(op, DType::kFloat64);
  const int64_t count = op.Int("n_supports");
  const std::vector<double>& rho = op.attributes.Floats("rho");
  if (count < 0) op.Fail("n_supports is {}", count);
  if (rho.empty()) op.Fail("rho is missing");
  Val y;
  if (count == 0) {
    y = LinearScores(op, x, 1);
  } else {
    const Val kernels = Kernel(op, x, SupportVectors(op, count));
    y = MatMul(kernels, Matrix(op, "coefficients", {count, 1})) + rho[0];
  }
  y = Cast(y, DType::kFloat32);
  if (op.Int("one_class") != 0) {
    const Val one = op.builder().Scalar(DType::kFloat32, 1);
    return Where(Greater(y, 0.0), one, Neg(one));
  }
  return PostTransform(op, y);
}

Outputs LowerSVMClassifier(Lowering& op) {
  const Val x = Rows(op, DType::kFloat64);
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
  std::vector<Val> inputs = {Kernel(op, x, SupportVectors(op, vectors)),
                             Matrix(op, "coefficients", {classes - 1, vectors}),
                             Matrix(op, "rho", {pairs}), op.builder().Ints(counts)};
  const bool probabilities = !op.attributes.Floats("prob_a").empty();
  if (probabilities) {
    inputs.push_back(Matrix(op, "prob_a", {pairs}));
    inputs.push_back(Matrix(op, "prob_b", {pairs}));
  }
  const std::vector<Val> votes = op.builder().MakeMany(core::svm_vote, inputs, {}, 2);
  const bool single = classes == 2 && !probabilities;
  return {LabelsAt(op, labels, votes[0]),
          single ? TwoClasses(op, votes[1], op.String("post_transform", "NONE") == "NONE")
                 : PostTransform(op, votes[1])};
}

}  // namespace ops::ml
}  // namespace sardonyx
