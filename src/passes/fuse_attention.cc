// s = matmul(q * a, transpose(k)) * b + mask
// y = matmul(softmax(s), v)              ->   y = attention(q, k, v, mask) {scale = a * b}
//
// (what a mask hides before and behind some position is told by numbers: seen_keys),
// and its forms: y and the weights transposed; factors on either side, in any number; several
// masks; soft caps; NaN or blind queries replaced by zeros; keys repeated for the heads that share
// them. Of bfloat16, whose scores and weights are rounded, the forms in which all roundings stay
// where they were. Of float16, which stays as exact as it is computed unless something but
// arithmetic sees it (widen_halves), where products with weights come next.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "passes/seen_keys.h"

namespace sardonyx::passes {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

bool Is(const Value* value, Fn fn) { return IsFrom(value, core::Elementwise(fn)); }

// A constant of one element.
bool IsNumber(const Value* value, double* number) {
  if (value == nullptr || !value->is_constant() || value->fact.constant.size() != 1) return false;
  if (!IsFloat(value->fact.constant.dtype()) || BitWidth(value->fact.constant.dtype()) <= 8) {
    return false;
  }
  *number = ToDoubles(Aligned(value->fact.constant))[0];
  return true;
}

// x, where `value` is x times a number or x divided by one; null if it is neither.
Value* Unscaled(const Value* value, double* factor) {
  double number = 0;
  if (value->producer == nullptr) return nullptr;
  const Node& node = *value->producer;
  if (Is(value, Fn::kMul)) {
    for (size_t i : {0, 1}) {
      if (IsNumber(node.input(1 - i), &number) && SameShape(node.input(i), value)) {
        *factor *= number;
        return node.input(i);
      }
    }
  } else if (Is(value, Fn::kDiv) && IsNumber(node.input(1), &number) && number != 0 &&
             SameShape(node.input(0), value)) {
    *factor /= number;
    return node.input(0);
  }
  return nullptr;
}

bool SameDims(const Dims& a, size_t a_from, const Dims& b, size_t b_from, size_t count) {
  return std::equal(a.begin() + static_cast<int64_t>(a_from),
                    a.begin() + static_cast<int64_t>(a_from + count),
                    b.begin() + static_cast<int64_t>(b_from));
}

// x, where `value` is x with its last two axes exchanged by a transpose between two reshapes that
// join and part the axes before them; else null.
Value* SwappedBehindJoin(const Value* value) {
  if (!IsFrom(value, core::reshape) || !IsFrom(value->producer->input(0), core::transpose)) {
    return nullptr;
  }
  const Node& swap = *value->producer->input(0)->producer;
  if (!IsFrom(swap.input(0), core::reshape)) return nullptr;
  Value* const x = swap.input(0)->producer->input(0);
  if (!x->fact.ranked() || !value->fact.ranked() || x->fact.rank() != value->fact.rank() ||
      x->fact.rank() < 3) {
    return nullptr;
  }
  const Dims &from = *x->fact.shape, &joined = *swap.input(0)->fact.shape, &to = *value->fact.shape;
  const size_t leading = from.size() - 2;
  const std::vector<int64_t> exchange = {0, 2, 1};
  const bool swaps = swap.attributes.Ints("perm") == exchange &&
                     SameDims(from, leading, joined, 1, 2) && SameDims(from, 0, to, 0, leading) &&
                     to[leading] == from[leading + 1] && to[leading + 1] == from[leading];
  return swaps ? x : nullptr;
}

// x, where `value` has each head of x repeated; else null. Heads are axis 1 of 4.
Value* Unrepeated(const Value* value) {
  if (!IsFrom(value, core::reshape) || !IsFrom(value->producer->input(0), core::expand)) {
    return nullptr;
  }
  const Value* copies = value->producer->input(0);
  if (!IsFrom(copies->producer->input(0), core::unsqueeze)) return nullptr;
  const Node& unsqueeze = *copies->producer->input(0)->producer;
  Value* const x = unsqueeze.input(0);
  const std::vector<int64_t> axes = {2};
  if (unsqueeze.attributes.Ints("axes") != axes || !x->fact.ranked() || x->fact.rank() != 4 ||
      !copies->fact.ranked() || copies->fact.rank() != 5 || !value->fact.ranked() ||
      value->fact.rank() != 4) {
    return nullptr;
  }
  const Dims &from = *x->fact.shape, &wide = *copies->fact.shape, &to = *value->fact.shape;
  const bool repeats = SameDims(from, 0, wide, 0, 2) && SameDims(from, 2, wide, 3, 2) &&
                       from[0] == to[0] && SameDims(from, 2, to, 2, 2) && from[1].known() &&
                       to[1].known() && wide[2].known() &&
                       from[1].value() * wide[2].value() == to[1].value();
  return repeats ? x : nullptr;
}

// What an operand of a product is made of: a value, its axes in order, and a factor.
struct Source {
  Value* value;
  std::vector<int64_t> perm;
  double factor = 1;
  bool repeated = false;
  const bool rounds;  // a factor is not as good elsewhere

  explicit Source(Value* operand)
      : value(operand),
        perm(operand->fact.rank()),
        rounds(operand->fact.type.dtype == DType::kBFloat16) {
    std::iota(perm.begin(), perm.end(), 0);
    while (Step()) {
    }
  }
  Dim dim(int from_end) const { return (*value->fact.shape)[perm[perm.size() - from_end]]; }
  void SwapLast() { std::swap(perm.end()[-1], perm.end()[-2]); }
  bool Step() {
    if (Value* x = rounds ? nullptr : Unscaled(value, &factor)) {
      value = x;
    } else if (IsFrom(value, core::transpose)) {
      const auto& inner = value->producer->attributes.Ints("perm");
      for (int64_t& axis : perm) axis = inner[axis];
      value = value->producer->input(0);
    } else if (Value* swapped = SwappedBehindJoin(value)) {
      const int64_t last = static_cast<int64_t>(perm.size()) - 1;
      for (int64_t& axis : perm) axis = axis == last ? last - 1 : axis == last - 1 ? last : axis;
      value = swapped;
    } else if (Value* alone = repeated || perm.size() != 4 ? nullptr : Unrepeated(value)) {
      value = alone;
      repeated = true;
    } else {
      return false;
    }
    return true;
  }
  Val Make(PatchMaker& maker) const {
    const Val x = maker.Wrap(value);
    return std::is_sorted(perm.begin(), perm.end()) ? x : Transpose(x, perm);
  }
};

// A plain product, as the importer makes it.
bool IsProduct(const Value* value) {
  return IsFrom(value, core::matmul) && value->producer->inputs.size() == 2 &&
         value->producer->attributes.Find("epilogue") == nullptr &&
         value->producer->attributes.Find("perm_a") == nullptr &&
         value->producer->attributes.Find("perm_b") == nullptr &&
         value->producer->attributes.Find("perm_y") == nullptr;
}

// What is added to the scores; or, as a condition, tells which of them are not `hidden`.
struct Mask {
  Value* value;
  bool is_condition = false;
  double hidden = kHidden;
};

// What stands between the two products.
struct Scores {
  double scale = 1, softcap = 0;
  std::string zeros;
  Value* blind_of = nullptr;  // what the blindness of queries was computed from
  std::vector<Mask> masks;
  Value* product = nullptr;
};

bool IsNowhere(const Value* condition) {
  if (!condition->is_constant()) return false;
  const Tensor& tensor = condition->fact.constant;
  const bool* begin = tensor.data<bool>();
  return std::none_of(begin, begin + tensor.size(), [](bool holds) { return holds; });
}

// where(isnan(w), 0, w), or where(max(bias) == -infinity, 0, w), or what is left of this where no
// query of a known mask is blind: w.
Value* Weights(Value* value, const Graph& graph, Scores* scores) {
  if (!Is(value, Fn::kWhere) || !IsConstantOf(value->producer->input(1), 0)) return value;
  Value* const condition = value->producer->input(0);
  Value* const weights = value->producer->input(2);
  if (!SameShape(weights, value) || !HasOneUser(graph, value)) return value;
  if (Is(condition, Fn::kIsNaN) && condition->producer->input(0) == weights) {
    if (!HasOneUser(graph, condition) || weights->users.size() != 2 || graph.IsOutput(weights)) {
      return value;
    }
    scores->zeros = "nan";
    return weights;
  }
  if (!HasOneUser(graph, weights)) return value;
  if (IsNowhere(condition)) return weights;
  if (!Is(condition, Fn::kEqual)) return value;
  for (size_t i : {0, 1}) {
    const Value* largest = condition->producer->input(i);
    if (!IsConstantOf(condition->producer->input(1 - i), kHidden) ||
        !IsFrom(largest, core::reduce)) {
      continue;
    }
    const Node& reduce = *largest->producer;
    const auto& axes = reduce.attributes.Ints("axes");
    if (reduce.attributes.String("kind") == "max" && reduce.attributes.Int("keepdims") != 0 &&
        axes.size() == 1 && (axes[0] == -1 || axes[0] == largest->fact.rank() - 1)) {
      scores->zeros = "blind";
      scores->blind_of = reduce.input(0);
      return weights;
    }
  }
  return value;
}

// The softmax of scores beside a sink, of which the sink's weights are left away again:
//
//   slice(softmax(concat(scores, expand(sink))), 0 to -1)
//
// Null if it is none. What the scores' largest is subtracted from are the same weights.
Value* WithSink(const Value* weights, Value** scores, Value** sink) {
  if (!IsFrom(weights, core::slice) || !weights->fact.ranked()) return nullptr;
  const Node& slice = *weights->producer;
  const int64_t last = weights->fact.rank() - 1;
  const auto is = [&](size_t i, double number) {
    return slice.input(i) != nullptr && IsConstantOf(slice.input(i), number);
  };
  if (!is(1, 0) || !is(2, -1) || !(is(3, static_cast<double>(last)) || is(3, -1)) ||
      slice.input(1)->fact.constant.size() != 1 || (slice.input(4) != nullptr && !is(4, 1)) ||
      !IsFrom(slice.input(0), core::softmax)) {
    return nullptr;
  }
  Value* all = slice.input(0)->producer->input(0);
  if (Is(all, Fn::kSub) && IsFrom(all->producer->input(1), core::reduce)) {
    const Node& reduce = *all->producer->input(1)->producer;
    const auto& axes = reduce.attributes.Ints("axes");
    if (reduce.attributes.String("kind") != "max" || reduce.input(0) != all->producer->input(0) ||
        reduce.attributes.Int("keepdims") == 0 || axes.size() != 1 ||
        (axes[0] != -1 && axes[0] != last)) {
      return nullptr;
    }
    all = reduce.input(0);
  }
  if (!IsFrom(all, core::concat) || all->producer->inputs.size() != 2) return nullptr;
  const Node& concat = *all->producer;
  const int64_t axis = concat.attributes.Int("axis");
  Value* const row = concat.input(1);
  if ((axis != -1 && axis != last) || !row->fact.ranked() || !((*row->fact.shape)[last] == 1)) {
    return nullptr;
  }
  *scores = concat.input(0);
  *sink = IsFrom(row, core::expand) ? row->producer->input(0) : row;
  return slice.input(0);
}

// tanh(x / c) * c: x.
Value* Uncapped(const Value* value, double* cap) {
  double after = 1, before = 1;
  const Value* tanh = Unscaled(value, &after);
  if (!Is(tanh, Fn::kTanh)) return nullptr;
  Value* const x = Unscaled(tanh->producer->input(0), &before);
  if (x == nullptr || !(after > 0) || std::abs(before * after - 1) > 1e-5) return nullptr;
  *cap = after;
  return x;
}

// where(condition, scores, number) with so low a number that a sum with it is the number itself.
bool Hides(const Value* value, double* hidden) {
  if (!Is(value, Fn::kWhere)) return false;
  const Value* shown = value->producer->input(1);
  return IsNumber(value->producer->input(2), hidden) && *hidden < -1e30 && !shown->is_constant() &&
         SameShape(shown, value);
}

// Walks from the scores to the product of queries and keys, all of one shape. False if there is
// none.
bool Walk(Value* value, const Graph& graph, Scores* scores) {
  while (value->producer != nullptr && HasOneUser(graph, value)) {
    if (IsProduct(value)) {
      scores->product = value;
      return true;
    }
    double cap = 0;
    if (Value* x = scores->softcap == 0 && scores->scale == 1 ? Uncapped(value, &cap) : nullptr) {
      scores->softcap = cap;
      value = x;
      continue;
    }
    if (Value* x = Unscaled(value, &scores->scale)) {
      value = x;
      continue;
    }
    // Masks come after caps and factors.
    if (scores->scale != 1 || scores->softcap != 0) return false;
    const Node& node = *value->producer;
    double hidden = 0;
    if (Hides(value, &hidden)) {
      scores->masks.push_back({node.input(0), true, hidden});
      value = node.input(1);
      continue;
    }
    const auto continues = [&](const Value* x) {
      double unused = 1;
      return SameShape(x, value) && !x->is_constant() &&
             (IsProduct(x) || Is(x, Fn::kAdd) || Hides(x, &unused) ||
              Unscaled(x, &unused) != nullptr);
    };
    if (!Is(value, Fn::kAdd)) return false;
    const size_t chain = continues(node.input(0)) ? 0 : 1;
    if (!continues(node.input(chain))) return false;
    scores->masks.push_back({node.input(1 - chain)});
    value = node.input(chain);
  }
  return false;
}

// A mask that only hides, as a condition for being seen: where(seen, 0, -infinity).
Value* SeenOf(const Mask& mask) {
  if (mask.is_condition) return mask.hidden == kHidden ? mask.value : nullptr;
  if (!Is(mask.value, Fn::kWhere)) return nullptr;
  const Node& where = *mask.value->producer;
  return IsConstantOf(where.input(1), 0) && IsConstantOf(where.input(2), kHidden) &&
                 SameShape(where.input(0), mask.value)
             ? where.input(0)
             : nullptr;
}

Val Hide(Val seen, DType type, double hidden = kHidden) {
  Builder& b = *seen.builder;
  return Where(seen, b.Scalar(type, 0), b.Scalar(type, hidden));
}

Val Terms(const Mask& mask, DType type, PatchMaker& maker) {
  const Val value = maker.Wrap(mask.value);
  return mask.is_condition ? Hide(value, type, mask.hidden) : value;
}

template <typename Join>
Val Joined(const std::vector<Val>& values, Join&& join) {
  Val all;
  for (const Val value : values) all = all ? join(all, value) : value;
  return all;
}

// Inputs of attention that say the same as the masks: mask, end and begin of the seen keys, as far
// as there are such.
std::vector<Val> MaskInputs(const std::vector<Mask>& masks, Dim keys, DType type,
                            PatchMaker& maker) {
  if (masks.empty()) return {};
  MaskParts parts;
  for (const Mask& mask : masks) {
    if (!mask.is_condition) {
      PartMask(mask.value, keys, maker, &parts);
    } else if (mask.hidden == kHidden) {
      PartCondition(mask.value, keys, maker, &parts);
    } else {
      parts.terms.push_back(Terms(mask, type, maker));
    }
  }
  if (parts.ends.empty() && parts.begins.empty()) {
    Value* const seen = masks.size() == 1 ? SeenOf(masks[0]) : nullptr;
    if (seen != nullptr) return {maker.Wrap(seen)};
    std::vector<Val> terms;
    for (const Mask& mask : masks) terms.push_back(Terms(mask, type, maker));
    return {Joined(terms, [](Val a, Val b) { return a + b; })};
  }
  const Val condition = Joined(parts.conditions, [](Val a, Val b) { return And(a, b); });
  Val mask = Joined(parts.terms, [](Val a, Val b) { return a + b; });
  if (condition) mask = mask ? mask + Hide(condition, type) : condition;
  return {mask, Joined(parts.ends, [](Val a, Val b) { return Min(a, b); }),
          Joined(parts.begins, [](Val a, Val b) { return Max(a, b); })};
}

// Whether nothing but products with weights reads the elements of the value, moved or not.
bool IsForWeights(const Value* value, const Graph& graph) {
  return !graph.IsOutput(value) && std::ranges::all_of(value->users, [&](const Node* user) {
    if (user->op->is_view || user->op == &core::transpose) {
      return user->input(0) == value && IsForWeights(user->output(), graph);
    }
    if (user->op == &core::shape) return true;
    return user->op == &core::matmul && user->input(0) == value && user->input(1)->is_constant();
  });
}

std::vector<int64_t> ExchangeOfLast(size_t rank) {
  std::vector<int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm.end()[-1], perm.end()[-2]);
  return perm;
}

// x, where `value` is x with its last two axes exchanged, by a transpose of its own; else null.
Value* Swapped(const Value* value, const Graph& graph) {
  if (!IsFrom(value, core::transpose) || !HasOneUser(graph, value)) return nullptr;
  const auto& perm = value->producer->attributes.Ints("perm");
  return perm == ExchangeOfLast(perm.size()) ? value->producer->input(0) : nullptr;
}

}  // namespace

Rewrite FuseAttention(Node& node, PassContext& context) {
  if (node.op != &core::matmul || !IsProduct(node.output())) return NoMatch{};
  Scores scores;
  Value* weights = Weights(node.input(0), context.graph, &scores);
  Value *sink = nullptr, *beside_sink = nullptr;
  if (Value* const all = WithSink(node.input(0), &beside_sink, &sink)) {
    if (!HasOneUser(context.graph, node.input(0))) {
      return CheckFailed{"the weights are also used otherwise"};
    }
    weights = all;
    scores = Scores();
  }
  // Or y^T = v^T * weights^T.
  const bool is_turned = !IsFrom(weights, core::softmax);
  const auto transposes = [&](const char* name) { return node.attributes.Int(name) != 0; };
  if (is_turned) {
    Value* const right =
        transposes("trans_b") ? node.input(1) : Swapped(node.input(1), context.graph);
    if (right == nullptr) return NoMatch{};
    scores = Scores();
    weights = Weights(right, context.graph, &scores);
  }
  if (!IsFrom(weights, core::softmax)) return NoMatch{};
  Value* const values = node.input(is_turned ? 0 : 1);
  const Node& softmax = *weights->producer;
  const int64_t axis = softmax.attributes.Int("axis", -1);
  if (!weights->fact.ranked() || softmax.attributes.Int("log") != 0 ||
      (axis != -1 && axis != weights->fact.rank() - 1)) {
    return NoMatch{};
  }
  if (!Walk(sink != nullptr ? beside_sink : softmax.input(0), context.graph, &scores)) {
    return NoMatch{};
  }
  const DType type = node.input(0)->fact.type.dtype;
  const bool rounds = type == DType::kBFloat16;
  const bool is_exact = type == DType::kFloat32 ||
                        (type == DType::kFloat16 && IsForWeights(node.output(), context.graph));
  if (!is_exact && !rounds) return CheckFailed{"the scores are to be rounded to their type"};
  if (rounds && (scores.softcap > 0 || scores.masks.size() > 1 || sink != nullptr)) {
    return CheckFailed{"scores are rounded between several masks, around a cap or a sink"};
  }
  if (scores.zeros != "nan" && !HasOneUser(context.graph, weights)) {
    return CheckFailed{"the weights are also used otherwise"};
  }
  const Node& product = *scores.product->producer;
  for (const Value* value : {product.input(0), product.input(1), values}) {
    if (!value->fact.ranked() || value->fact.rank() != weights->fact.rank() ||
        value->fact.rank() < 3) {
      return CheckFailed{"operands of different ranks"};
    }
  }
  if (!is_turned && transposes("trans_a")) return CheckFailed{"the weights are transposed"};
  if (scores.blind_of != nullptr &&
      (scores.masks.size() != 1 || scores.masks[0].value != scores.blind_of)) {
    return CheckFailed{"queries are blind for another reason than their mask"};
  }

  Source q(product.input(0)), k(product.input(1)), v(values);
  if (product.attributes.Int("trans_a") != 0) q.SwapLast();
  if (product.attributes.Int("trans_b") == 0) k.SwapLast();
  if (is_turned ? !transposes("trans_a") : transposes("trans_b")) v.SwapLast();
  if (v.factor != 1) return CheckFailed{"the values are scaled"};
  constexpr int kHeads = 3, kRows = 2;
  if (k.repeated != v.repeated || !(k.dim(kHeads) == v.dim(kHeads)) ||
      !(k.repeated || q.dim(kHeads) == k.dim(kHeads))) {
    return CheckFailed{"queries, keys and values have different heads"};
  }

  PatchMaker maker(context, node);
  std::vector<Val> inputs = {q.Make(maker), k.Make(maker), v.Make(maker)};
  const std::vector<Val> masks = MaskInputs(scores.masks, k.dim(kRows), type, maker);
  inputs.insert(inputs.end(), masks.begin(), masks.end());
  if (sink != nullptr) {
    inputs.resize(6);
    inputs.push_back(maker.Wrap(sink));
  }
  Attributes attributes{{"scale", scores.scale * q.factor * k.factor}};
  if (scores.softcap > 0) attributes.Set("softcap", scores.softcap);
  if (!scores.zeros.empty()) attributes.Set("zeros", scores.zeros);
  Val y = maker.builder().Make(core::attention, inputs, std::move(attributes));
  if (is_turned) y = Transpose(y, ExchangeOfLast(static_cast<size_t>(y.rank())));
  return maker.Replace(node, {y});
}

}  // namespace sardonyx::passes
