// y = softmax(softcap(q k' scale) + mask) v for each head, without a tensor of scores. The last
// three axes, after perm_q, perm_k and perm_v, are heads, rows, features; those before broadcast,
// and so do queries over keys of a single head. A group of heads of q shares a head of k and v:
// head h reads head h / (heads of q / heads of k). perm_y permutes the result. A mask broadcasts to
// the scores [..., heads, queries, keys] and is added to them; a boolean one tells which keys are
// seen. `end` and `begin` [..., heads, queries, 1] broadcast likewise and tell behind and from
// which key on none or all are. causal "first": query i sees keys up to i; "last": up to i + keys -
// queries. `sink` [..., heads, queries, 1]: the score of a further key, whose values are 0.
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

Dims PermutedInput(InferContext& context, size_t i, std::string_view attribute) {
  const Dims& dims = context.shape(i);
  if (dims.size() < 3) {
    context.Fail("attention takes tensors of rank 3 and more, not {}", context.Print(dims));
  }
  return Permuted(context, dims, attribute);
}

// One of two sizes that must be equal: the known one.
Dim Same(InferContext& context, Dim a, Dim b, std::string_view what) {
  if (a.known() && b.known() && a.value() != b.value()) {
    context.Fail("{} of {} and of {}", what, a.value(), b.value());
  }
  return a.known() ? a : b;
}

constexpr size_t kMask = 3, kEnd = 4, kBegin = 5, kSink = 6;

// The mask, or what is alike for all keys, whose last axis is 1.
void CheckMask(InferContext& context, size_t input, const Dims& scores) {
  if (!context.ranked(input)) return;
  const Dims& mask = context.shape(input);
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
  const Dims q = PermutedInput(context, 0, "perm_q"), k = PermutedInput(context, 1, "perm_k"),
             v = PermutedInput(context, 2, "perm_v");
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
  if (context.has(kMask)) {
    const DType mask = context.dtype(kMask);
    if (mask != DType::kBool && mask != type) {
      context.Fail("a mask of {} for scores of {}", Name(mask), Name(type));
    }
    CheckMask(context, kMask, scores);
  }
  for (const size_t input : {kEnd, kBegin}) {
    if (!context.has(input) || context.dtype(input) == DType::kInt64) continue;
    context.Fail("attention counts keys in int64, not {}", Name(context.dtype(input)));
  }
  if (context.has(kSink) && context.dtype(kSink) != type) {
    context.Fail("a sink of {} for scores of {}", Name(context.dtype(kSink)), Name(type));
  }
  Dims rows = scores;
  rows.back() = 1;
  for (const size_t input : {kEnd, kBegin, kSink}) {
    if (context.has(input)) CheckMask(context, input, rows);
  }
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

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// What becomes of the product of a query and a key.
struct Scoring {
  Scoring(ComputeContext& context, int64_t queries, const std::vector<int64_t>& scores)
      : scale(context.attributes().Float("scale", 1)),
        cap(context.attributes().Float("softcap", 0)),
        rounds(context.input(0).dtype() == DType::kBFloat16 ||
               context.attributes().Int("rounding") == static_cast<int64_t>(DType::kBFloat16)) {
    const std::string_view causal = context.attributes().String("causal");
    const int64_t keys = scores.back();
    ahead = causal.empty() ? keys : causal == "last" ? keys - queries : 0;
    const auto read = [&](size_t input, Tensor* values, Walk::Strides* strides) {
      strides->assign(scores.size(), 0);
      if (!context.has(input)) return;
      *values = ConvertedTo(context.input(input), DType::kFloat64);
      *strides = BroadcastStrides(values->dims(), scores);
    };
    read(kMask, &mask, &mask_strides);
    read(kEnd, &end, &end_strides);
    read(kBegin, &begin, &begin_strides);
    read(kSink, &sink, &sink_strides);
    mask_tells = context.has(kMask) && context.input(kMask).dtype() == DType::kBool;
  }

  // An element for query i of a head; `absent` without.
  static double OfRow(const Tensor& values, const Walk::Strides& strides, int64_t at, int64_t i,
                      double absent) {
    return values.defined() ? values.data<double>()[at + i * strides.end()[-kRows]] : absent;
  }

  double Round(double value) const {
    return rounds ? static_cast<double>(BFloat16(static_cast<float>(value))) : value;
  }

  // Of query i and key j; elements at `walk` of what tells of its head.
  double Score(double product, const Walk& walk, int64_t i, int64_t j) const {
    double score = Round(Round(product) * scale);
    if (cap > 0) score = Round(std::tanh(score / cap) * cap);
    if (mask.defined()) {
      const double term =
          mask.data<double>()[walk[4] + i * mask_strides.end()[-kRows] + j * mask_strides.back()];
      score = mask_tells ? (term != 0 ? score : kHidden) : Round(score + term);
    }
    const auto key = static_cast<double>(j);
    const bool is_seen = key < OfRow(end, end_strides, walk[5], i, key + 1) &&
                         key >= OfRow(begin, begin_strides, walk[6], i, 0);
    return !is_seen || j > i + ahead ? kHidden : score;
  }

  double scale, cap;
  bool rounds;    // products, scores, weights and results, to bfloat16
  int64_t ahead;  // query i sees keys up to i + ahead
  Tensor mask;
  Walk::Strides mask_strides;
  bool mask_tells = false;  // which keys are seen, rather than what is added
  Tensor end, begin, sink;
  Walk::Strides end_strides, begin_strides, sink_strides;
};

double Dot(const double* a, int64_t a_stride, const double* b, int64_t b_stride, int64_t size) {
  double sum = 0;
  for (int64_t i = 0; i < size; ++i) sum += a[i * a_stride] * b[i * b_stride];
  return sum;
}

// Turns scores into their exponentials; the sum of these and that of the sink, 0 where the query
// gives zeros.
double Exponentials(std::string_view zeros, double sink, std::vector<double>* row) {
  double largest = sink, sum = 0;
  bool sees = sink != kHidden;
  for (double score : *row) {
    sees = sees || score != kHidden;
    largest = std::max(largest, score);
  }
  for (double& score : *row) sum += score = std::exp(score - largest);
  if (sink != kHidden) sum += std::exp(sink - largest);
  const bool blind = zeros == "nan" ? std::isnan(sum) : zeros == "blind" && !sees;
  return blind ? 0 : sum;
}

void ComputeAttention(ComputeContext& context) {
  const Attributes& attributes = context.attributes();
  const Operand q(context.input(0), attributes.Ints("perm_q")),
      k(context.input(1), attributes.Ints("perm_k")),
      v(context.input(2), attributes.Ints("perm_v"));
  const std::string_view zeros = attributes.String("zeros");
  const int64_t queries = q.Size(kRows), keys = k.Size(kRows), width = v.Size(kFeatures);

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
  const Scoring scoring(context, queries, scores);

  const size_t leading = dims.size() - kHeads;
  const int64_t group = k.Size(kHeads) == 0 ? 1 : q.Size(kHeads) / k.Size(kHeads);
  const auto strides_of = [&](const Walk::Strides& strides, int64_t head) {
    Walk::Strides result(strides.begin(), strides.begin() + static_cast<int64_t>(leading));
    result.push_back(head);
    return result;
  };
  std::vector<double> row(keys);
  for (Walk walk(std::vector<int64_t>(dims.begin(), dims.end() - 2),
                 {strides_of(q.HeadStrides(leading), q.Stride(kHeads)),
                  strides_of(k.HeadStrides(leading), 0), strides_of(v.HeadStrides(leading), 0),
                  strides_of(y_strides, y_strides.end()[-kHeads]),
                  strides_of(scoring.mask_strides, scoring.mask_strides.end()[-kHeads]),
                  strides_of(scoring.end_strides, scoring.end_strides.end()[-kHeads]),
                  strides_of(scoring.begin_strides, scoring.begin_strides.end()[-kHeads]),
                  strides_of(scoring.sink_strides, scoring.sink_strides.end()[-kHeads])});
       !walk.done(); walk.Next()) {
    const int64_t shared = walk.index().back() / group;
    const double* keys_at = k.data() + walk[1] + shared * k.Stride(kHeads);
    const double* values_at = v.data() + walk[2] + shared * v.Stride(kHeads);
    for (int64_t i = 0; i < queries; ++i) {
      const double* query = q.data() + walk[0] + i * q.Stride(kRows);
      for (int64_t j = 0; j < keys; ++j) {
        const double product = Dot(query, q.Stride(kFeatures), keys_at + j * k.Stride(kRows),
                                   k.Stride(kFeatures), q.Size(kFeatures));
        row[j] = scoring.Score(product, walk, i, j);
      }
      const double sink = Scoring::OfRow(scoring.sink, scoring.sink_strides, walk[7], i, kHidden);
      double sum = Exponentials(zeros, sink, &row);
      if (scoring.rounds && sum != 0) {
        for (double& weight : row) weight = scoring.Round(weight / sum);
        sum = 1;
      }
      for (int64_t e = 0; e < width; ++e) {
        const double total =
            Dot(row.data(), 1, values_at + e * v.Stride(kFeatures), v.Stride(kRows), keys);
        sums.data<double>()[walk[3] + i * y_strides.end()[-kRows] + e * y_strides.back()] =
            sum == 0 ? 0 : scoring.Round(total / sum);
      }
    }
  }
  y = ConvertedTo(sums, y.dtype());
}

}  // namespace

const CoreOp attention = {.name = "attention",
                          .inputs = "tttt?t?t?t?",
                          .infer = InferAttention,
                          .reference = ComputeAttention};

}  // namespace sardonyx::core
