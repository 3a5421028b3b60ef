#include <algorithm>
#include <cctype>
#include <map>
#include <string>

#include "ops/lowering.h"

namespace sardonyx::ops {

// Operands are multiplied two at a time: labels that both have and nobody needs later are summed by
// a matrix product, those that both have and somebody needs are its batch.

namespace {

// An axis is known by its letter; those of an ellipsis by numbers below 0 that count from its end,
// so that ellipses of different length broadcast.
using Labels = std::vector<int>;

struct Operand {
  Val value;
  Labels labels;
};

bool Has(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

Labels Join(std::initializer_list<Labels> parts) {
  Labels result;
  for (const Labels& part : parts) result.insert(result.end(), part.begin(), part.end());
  return result;
}

// The labels of a term such as "b...ij", whose ellipsis stands for `ellipsis` axes.
Labels Parse(const Lowering& op, std::string_view term, int ellipsis) {
  Labels labels;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term.substr(i, 3) == "...") {
      for (int axis = ellipsis; axis > 0; --axis) labels.push_back(-axis);
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(term[i]))) {
      labels.push_back(term[i]);
    } else {
      op.Fail("equation '{}' has an unexpected '{}'", op.String("equation"), term[i]);
    }
  }
  return labels;
}

Operand SumOut(Operand operand, const Labels& kept) {
  std::vector<int64_t> axes;
  Labels left;
  for (size_t i = 0; i < operand.labels.size(); ++i) {
    if (Has(kept, operand.labels[i])) {
      left.push_back(operand.labels[i]);
    } else {
      axes.push_back(static_cast<int64_t>(i));
    }
  }
  if (axes.empty()) return operand;
  return {Reduce("sum", operand.value, axes, false), left};
}

Operand Arrange(Operand operand, const Labels& order) {
  std::vector<int64_t> perm;
  for (int label : order) {
    perm.push_back(std::find(operand.labels.begin(), operand.labels.end(), label) -
                   operand.labels.begin());
  }
  return {Transpose(operand.value, perm), order};
}

// A label that stands twice selects the diagonal of its two axes: of the n * n elements that these
// are as one axis, each n + 1-th.
Operand TakeDiagonals(const Lowering& op, Operand operand) {
  for (size_t i = 0; i < operand.labels.size(); ++i) {
    const int label = operand.labels[i];
    const auto again = std::find(operand.labels.begin() + i + 1, operand.labels.end(), label);
    if (again == operand.labels.end()) continue;
    const auto second = again - operand.labels.begin();
    const int64_t n = operand.value.size(static_cast<int>(i));
    if (operand.value.size(static_cast<int>(second)) != n) {
      op.Fail("equation '{}' takes a diagonal of {} by {}", op.String("equation"), n,
              operand.value.size(static_cast<int>(second)));
    }
    std::vector<int64_t> perm, shape;
    Labels left;
    for (size_t axis = 0; axis < operand.labels.size(); ++axis) {
      if (operand.labels[axis] == label && (axis == i || static_cast<int64_t>(axis) == second)) {
        continue;
      }
      perm.push_back(static_cast<int64_t>(axis));
      left.push_back(operand.labels[axis]);
    }
    shape.assign(perm.size(), 0);  // as they are
    perm.insert(perm.end(), {static_cast<int64_t>(i), second});
    shape.push_back(n * n);
    const Val flat = Reshape(Transpose(operand.value, perm), shape);
    left.push_back(label);
    operand = {Slice(flat, {0}, {n * n}, {-1}, {n + 1}), left};
    --i;
  }
  return operand;
}

// The sizes of those axes, int64 [labels.size()].
Val Sizes(const Operand& operand, const Labels& labels) {
  std::vector<Val> sizes = {operand.value.builder->Ints({})};
  for (size_t i = 0; i < operand.labels.size(); ++i) {
    if (Has(labels, operand.labels[i])) sizes.push_back(SizeOf(operand.value, static_cast<int>(i)));
  }
  return Concat(sizes, 0);
}

// x, arranged as [batch, left, right], with left and right merged into an axis each.
Val Merge(const Operand& x, const Labels& batch, const Labels& left, const Labels& right) {
  if (left.size() == 1 && right.size() == 1) return x.value;
  const Val shape = Concat({Sizes(x, batch), Reduce("prod", Sizes(x, left), {0}, true),
                            Reduce("prod", Sizes(x, right), {0}, true)},
                           0);
  return Reshape(x.value, shape, true);
}

// Axes of size 1 where `order` has labels that the operand lacks.
Val Align(const Operand& x, const Labels& order) {
  std::vector<int64_t> absent;
  for (size_t i = 0; i < order.size(); ++i) {
    if (!Has(x.labels, order[i])) absent.push_back(static_cast<int64_t>(i));
  }
  return Unsqueeze(x.value, absent);
}

// Without the axes that are of size 1 here and not in `other`, for which they repeat.
Operand WithoutRepeated(const Operand& operand, const Operand& other) {
  const auto is_one = [](const Operand& of, int label) {
    const auto at = std::find(of.labels.begin(), of.labels.end(), label) - of.labels.begin();
    return of.value.shape()[at] == Dim(1);
  };
  std::vector<int64_t> axes;
  Labels left;
  for (size_t i = 0; i < operand.labels.size(); ++i) {
    const int label = operand.labels[i];
    const bool repeats = Has(other.labels, label) && is_one(operand, label);
    if (repeats && !is_one(other, label)) {
      axes.push_back(static_cast<int64_t>(i));
    } else {
      left.push_back(label);
    }
  }
  return {Squeeze(operand.value, axes), left};
}

Operand Multiply(const Operand& first, const Operand& second, const Labels& kept) {
  Operand a = WithoutRepeated(first, second), b = WithoutRepeated(second, first);
  if (a.labels.size() < first.labels.size() || b.labels.size() < second.labels.size()) {
    const Labels of_a = a.labels;  // what one alone has now is summed there
    a = SumOut(a, Join({kept, b.labels}));
    b = SumOut(b, Join({kept, of_a}));
  }
  Labels batch, left, right, summed;
  for (int label : a.labels) {
    if (!Has(b.labels, label)) {
      left.push_back(label);
    } else if (Has(kept, label)) {
      batch.push_back(label);
    } else {
      summed.push_back(label);
    }
  }
  for (int label : b.labels) {
    if (!Has(a.labels, label)) right.push_back(label);
  }
  const Labels order = Join({batch, left, right});
  if (summed.empty()) {
    const Operand x = Arrange(a, Join({batch, left})), y = Arrange(b, Join({batch, right}));
    return {Align(x, order) * Align(y, order), order};
  }
  const Operand x = Arrange(a, Join({batch, left, summed}));
  const Operand y = Arrange(b, Join({batch, summed, right}));
  Val product = MatMul(Merge(x, batch, left, summed), Merge(y, batch, summed, right));
  if (left.size() != 1 || right.size() != 1) {
    const int count = static_cast<int>(batch.size());
    product = Reshape(
        product, Concat({ShapeOf(product, 0, count), Sizes(x, left), Sizes(y, right)}, 0), true);
  }
  return {product, order};
}

}  // namespace

Outputs LowerEinsum(Lowering& op) {
  std::string equation = op.String("equation");
  std::erase_if(equation, [](unsigned char c) { return std::isspace(c); });
  const size_t arrow = equation.find("->");
  std::vector<std::string> terms(1);
  for (char c : equation.substr(0, arrow)) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  if (terms.size() != op.inputs.size()) {
    op.Fail("equation '{}' has {} terms for {} inputs", equation, terms.size(), op.inputs.size());
  }

  std::vector<Operand> operands;
  std::map<int, int> count;  // how often each label stands
  int longest_ellipsis = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    const int letters = static_cast<int>(Parse(op, terms[i], 0).size());
    const bool has_ellipsis = terms[i].find("...") != std::string::npos;
    const int ellipsis = has_ellipsis ? op.in(i).rank() - letters : 0;
    const Labels labels = Parse(op, terms[i], ellipsis);
    if (ellipsis < 0 || static_cast<int>(labels.size()) != op.in(i).rank()) {
      op.Fail("term '{}' does not fit an input of rank {}", terms[i], op.in(i).rank());
    }
    longest_ellipsis = std::max(longest_ellipsis, ellipsis);
    for (int label : labels) ++count[label];
    operands.push_back({op.in(i), labels});
  }
  Labels output;
  if (arrow != std::string::npos) {
    output = Parse(op, std::string_view(equation).substr(arrow + 2), longest_ellipsis);
    for (int label : output) {
      if (count.count(label) == 0) {
        op.Fail("equation '{}' has '{}' on the right alone", equation, static_cast<char>(label));
      }
    }
  } else {  // the ellipsis, then what stands once, in the order of the alphabet
    for (const auto& [label, times] : count) {
      if (label < 0 || times == 1) output.push_back(label);
    }
  }

  Operand result;
  for (size_t i = 0; i < operands.size(); ++i) {
    Labels others = output;
    for (size_t j = 0; j < operands.size(); ++j) {
      if (j > i) others = Join({others, operands[j].labels});
    }
    const Labels needed = i == 0 ? others : Join({others, result.labels});
    const Operand next = SumOut(TakeDiagonals(op, operands[i]), needed);
    result = i == 0 ? next : SumOut(Multiply(result, next, others), others);
  }
  return Arrange(result, output).value;
}

}  // namespace sardonyx::ops
