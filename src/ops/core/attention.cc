// y = softmax(softcap(q k' scale) + mask) v for each head, without a tensor of scores. The last
// three axes, after perm_q, perm_k and perm_v, are heads, rows, features; those before broadcast,
// and so do queries over keys of a single head. A group of heads of q shares a head of k and v:
// head h reads head h / (heads of q / heads of k). perm_y permutes the result. A mask broadcasts to
// the scores [..., heads, queries, keys] and is added to them; a boolean one tells which keys are
// seen. causal "first": query i sees keys up to i; "last": up to i + keys - queries.
// zeros: which queries give zeros: none; "blind", whose scores are all -infinity; "nan", these and
// others whose weights are no numbers. Scores and weights of bfloat16 are rounded as those of a
// graph of nodes: products, what factor and mask make of them, weights. `rounding` bfloat16: such
// are kept in float32, results too.

#include <algorithm>
#include <cmath>

#include "ops/core/core.h"
#include "ops/core/products.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

enum Axis { kHeads = 3, kRows = 2, kFeatures = 1 };  // from the end

Dims Permuted(InferContext& context, size_t i, std::string_view attribute) {
  const Dims& dims = context.shape(i);
  const auto& perm = context.attributes().Ints(attribute);
  if (dims.size() < 3 || (!perm.empty() && perm.size() != dims.size())) {
    context.Fail("attention takes tensors of rank 3 and more, permuted by as many axes, not {}",
                 context.Print(dims));
  }
  if (perm.empty()) return dims;
  Dims result;
  for (int64_t axis : perm)
    result.push_back(dims[context.Axis(axis, static_cast<int>(dims.size()))]);
  return result;
}

// One of two sizes that must be equal: the known one.
Dim Same(InferContext& context, Dim a, Dim b, std::string_view what) {
  if (a.known() && b.known() && a.value() != b.value()) {
    context.Fail("{} of {} and of {}", what, a.value(), b.value());
  }
  return a.known() ? a : b;
}

void CheckMask(InferContext& context, const Dims& scores) {
  const DType type = context.dtype(3);
  if (type != DType::kBool && type != context.dtype(0)) {
    context.Fail("a mask of {} for scores of {}", Name(type), Name(context.dtype(0)));
  }
  if (!context.ranked(3)) return;
  const Dims& mask = context.shape(3);
  bool fits = mask.size() <= scores.size();
  for (size_t i = 1; fits && i <= mask.size(); ++i) {
    const Dim dim = mask.end()[-static_cast<int64_t>(i)];
    const Dim score = scores.end()[-static_cast<int64_t>(i)];
    fits = !dim.known() || dim == 1 || !score.known() || dim == score;
  }
  if (!fits) {
    context.Fail("a mask {} does not broadcast to scores {}", context.Print(mask),
                 context.Print(scores));
  }
}

void InferAttention(InferContext& context) {
  const DType type = context.dtype(0);
  if (!IsFloat(type)) context.Fail("attention takes floats, not {}", Name(type));
  for (size_t i : {1, 2}) {
    if (context.dtype(i) != type) {
      context.Fail("attention takes one type, not {} and {}", Name(type), Name(context.dtype(i)));
    }
  }
  if (!context.ranked(0) || !context.ranked(1) || !context.ranked(2)) {
    return context.Set(0, type, {});
  }
  const Dims q = Permuted(context, 0, "perm_q"), k = Permuted(context, 1, "perm_k"),
             v = Permuted(context, 2, "perm_v");
  if (q.size() != k.size() || q.size() != v.size()) {
    context.Fail("attention takes tensors of one rank, not {}, {} and {}", context.Print(q),
                 context.Print(k), context.Print(v));
  }
  Same(context, q.end()[-kFeatures], k.end()[-kFeatures], "queries and keys have sizes");
  const Dim keys = Same(context, k.end()[-kRows], v.end()[-kRows], "keys and values have lengths");
  const Dim shared =
      Same(context, k.end()[-kHeads], v.end()[-kHeads], "keys and values have heads");
  const Dim heads = q.end()[-kHeads];
  if (heads.known() && shared.known() &&
      (shared.value() == 0 ? heads.value() != 0 : heads.value() % shared.value() != 0)) {
    context.Fail("{} query heads cannot share {} key heads", heads.value(), shared.value());
  }
  Dims scores = context.Broadcast(
      Dims(q.begin(), q.end() - kHeads),
      context.Broadcast(Dims(k.begin(), k.end() - kHeads), Dims(v.begin(), v.end() - kHeads)));
  scores.insert(scores.end(), {heads, q.end()[-kRows], keys});
  if (context.has(3)) CheckMask(context, scores);
  Dims y = scores;
  y.back() = v.back();
  const auto& perm = context.attributes().Ints("perm_y");
  if (!perm.empty() && perm.size() != y.size()) {
    context.Fail("perm_y has {} axes for a result of rank {}", perm.size(), y.size());
  }
  if (!perm.empty()) {
    Dims permuted;
    for (int64_t axis : perm) permuted.push_back(y[context.Axis(axis, static_cast<int>(y.size()))]);
    y = std::move(permuted);
  }
  context.Set(0, type, std::move(y));
}

// An operand in double, seen through a permutation.
struct Operand {
  Operand(const Tensor& x, const std::vector<int64_t>& perm)
      : values(ConvertedTo(x, DType::kFloat64)) {
    const Walk::Strides own = RowMajorStrides(x.dims());
    for (int64_t i = 0; i < x.rank(); ++i) {
      const int64_t axis = perm.empty() ? i : perm[i];
      dims.push_back(x.dims()[axis]);
      strides.push_back(own[axis]);
    }
  }
  int64_t Size(int axis) const { return dims.end()[-axis]; }
  int64_t Stride(int axis) const { return strides.end()[-axis]; }
  // Strides for each head of each item of a batch, of which `group` share one of this.
  Walk::Strides HeadStrides(size_t leading) const {
    Walk::Strides result(strides.begin(), strides.begin() + static_cast<int64_t>(leading));
    for (size_t i = 0; i < leading; ++i) result[i] = dims[i] == 1 ? 0 : result[i];
    return result;
  }
  const double* data() const { return values.data<double>(); }

  Tensor values;
  std::vector<int64_t> dims;
  Walk::Strides strides;
};

void ComputeAttention(ComputeContext& context) {
  const Attributes& attributes = context.attributes();
  const Operand q(context.input(0), attributes.Ints("perm_q")),
      k(context.input(1), attributes.Ints("perm_k")),
      v(context.input(2), attributes.Ints("perm_v"));
  const double scale = attributes.Float("scale", 1), cap = attributes.Float("softcap", 0);
  const std::string_view causal = attributes.String("causal");
  const std::string_view zeros = attributes.String("zeros");
  const int64_t queries = q.Size(kRows), keys = k.Size(kRows), size = q.Size(kFeatures),
                width = v.Size(kFeatures);
  const int64_t ahead = causal.empty() ? keys : causal == "last" ? keys - queries : 0;
  constexpr double kHidden = -std::numeric_limits<double>::infinity();

  Tensor& y = context.Allocate(0);
  Tensor sums(DType::kFloat64, y.dims());
  // The result's dimensions and strides in the order of the operands.
  const auto& perm_y = attributes.Ints("perm_y");
  const Walk::Strides own = RowMajorStrides(y.dims());
  Walk::Strides y_strides(own.size());
  std::vector<int64_t> dims(own.size());
  for (size_t i = 0; i < own.size(); ++i) {
    const size_t axis = perm_y.empty() ? i : static_cast<size_t>(perm_y[i]);
    y_strides[axis] = own[i];
    dims[axis] = y.dims()[i];
  }
  std::vector<int64_t> scores = dims;
  scores.back() = keys;
  const bool masked = context.has(3),
             seen_mask = masked && context.input(3).dtype() == DType::kBool;
  const Tensor mask = masked ? ConvertedTo(context.input(3), DType::kFloat64) : Tensor();
  const Walk::Strides mask_strides =
      masked ? BroadcastStrides(context.input(3).dims(), scores) : Walk::Strides(scores.size());

  const size_t leading = dims.size() - kHeads;
  const int64_t group = k.Size(kHeads) == 0 ? 1 : q.Size(kHeads) / k.Size(kHeads);
  const auto strides_of = [&](const Walk::Strides& strides, int64_t head) {
    Walk::Strides result(strides.begin(), strides.begin() + static_cast<int64_t>(leading));
    result.push_back(head);
    return result;
  };
  std::vector<double> row(keys);
  const bool rounds = context.input(0).dtype() == DType::kBFloat16 ||
                      attributes.Int("rounding") == static_cast<int64_t>(DType::kBFloat16);
  const auto round = [&](double value) {
    return rounds ? static_cast<double>(BFloat16(static_cast<float>(value))) : value;
  };
  for (Walk walk(std::vector<int64_t>(dims.begin(), dims.end() - 2),
                 {strides_of(q.HeadStrides(leading), q.Stride(kHeads)),
                  strides_of(k.HeadStrides(leading), 0), strides_of(v.HeadStrides(leading), 0),
                  strides_of(y_strides, y_strides.end()[-kHeads]),
                  strides_of(mask_strides, mask_strides.end()[-kHeads])});
       !walk.done(); walk.Next()) {
    const int64_t shared = walk.index().back() / group;
    const double* keys_at = k.data() + walk[1] + shared * k.Stride(kHeads);
    const double* values_at = v.data() + walk[2] + shared * v.Stride(kHeads);
    for (int64_t i = 0; i < queries; ++i) {
      const double* query = q.data() + walk[0] + i * q.Stride(kRows);
      double largest = kHidden, sum = 0;
      bool sees = false;
      for (int64_t j = 0; j < keys; ++j) {
        double score = 0;
        for (int64_t d = 0; d < size; ++d) {
          score += query[d * q.Stride(kFeatures)] *
                   keys_at[j * k.Stride(kRows) + d * k.Stride(kFeatures)];
        }
        score = round(round(score) * scale);
        if (cap > 0) score = round(std::tanh(score / cap) * cap);
        if (masked) {
          const double term = mask.data<double>()[walk[4] + i * mask_strides.end()[-kRows] +
                                                  j * mask_strides.back()];
          score = seen_mask ? (term != 0 ? score : kHidden) : round(score + term);
        }
        if (j > i + ahead) score = kHidden;
        row[j] = score;
        sees = sees || score != kHidden;
        largest = std::max(largest, score);
      }
      for (double& score : row) sum += score = std::exp(score - largest);
      const bool blind = zeros == "nan" ? std::isnan(sum) : zeros == "blind" && !sees;
      for (int64_t e = 0; e < width; ++e) {
        double total = 0;
        for (int64_t j = 0; j < keys; ++j) {
          const double weight = rounds ? round(row[j] / sum) : row[j];
          total += weight * values_at[j * v.Stride(kRows) + e * v.Stride(kFeatures)];
        }
        sums.data<double>()[walk[3] + i * y_strides.end()[-kRows] + e * y_strides.back()] =
            blind || keys == 0 ? 0 : round(rounds ? total : total / sum);
      }
    }
  }
  y = ConvertedTo(sums, y.dtype());
}

}  // namespace

const CoreOp attention = {
    .name = "attention", .inputs = "tttt?", .infer = InferAttention, .reference = ComputeAttention};

}  // namespace sardonyx::core
