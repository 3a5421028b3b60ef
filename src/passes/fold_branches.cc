// a = conv(x, v: float[4,4,3,3]) {pads=[1,1,1,1]}
// b = conv(x, w: float[4,4,1,1])
// y = add(add(a, b), mul(x, s: float[4]))
//            ->   y = conv(x, v + pad(w) + pad(diagonal(s))) {pads=[1,1,1,1]}
//
// Branches as networks are trained with (RepVGG, MobileOne, FastViT), in any sum, difference or
// multiple by a factor a channel; other addends stay. x by itself is left to be added where the
// convolution is none of each channel: it costs nothing there, and Winograd's sums are the more
// exact the smaller the weights are.

#include <algorithm>
#include <numeric>

#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

constexpr int kMostDepth = 24;  // of sums in sums
constexpr size_t kMostTerms = 64;

const CoreOp& AddOp() { return core::Elementwise(Fn::kAdd); }
const CoreOp& SubOp() { return core::Elementwise(Fn::kSub); }
const CoreOp& MulOp() { return core::Elementwise(Fn::kMul); }

// A float32 constant with one element, or one for each of the channels, which are the last axis.
bool IsFactor(const Value* value, const Value* like) {
  if (!value->is_constant() || value->fact.type.dtype != DType::kFloat32 || !like->fact.ranked() ||
      value->fact.rank() > like->fact.rank()) {
    return false;
  }
  const Dim channels = like->fact.rank() > 0 ? like->fact.shape->back() : Dim(1);
  return IsOne(value) || (channels.known() && IsVector(value, channels.value()));
}

// The operand that a constant multiplies: 0 or 1; -1 if there is none.
int Multiplied(const Node& node) {
  for (int i = 0; i < 2 && node.op == &MulOp(); ++i) {
    if (!node.input(i)->is_constant() && IsFactor(node.input(1 - i), node.input(i))) return i;
  }
  return -1;
}

bool IsSum(const Node& node) { return node.op == &AddOp() || node.op == &SubOp(); }

// An addend of the sum: the value times all factors, or less it.
struct Term {
  Value* value;
  std::vector<Value*> factors;
  bool is_negative;
};

// The addends of a sum, but for what is deep inside, which is one.
void AddTerms(const Graph& graph, const Term& term, int depth, std::vector<Term>& terms) {
  const Node* node = term.value->producer;
  const bool is_inner = (depth == 0 || HasOneUser(graph, term.value)) && depth < kMostDepth &&
                        terms.size() < kMostTerms;
  if (node != nullptr && is_inner && node->inputs.size() == 2) {
    if (IsSum(*node)) {
      AddTerms(graph, {node->input(0), term.factors, term.is_negative}, depth + 1, terms);
      const bool is_less = term.is_negative != (node->op == &SubOp());
      return AddTerms(graph, {node->input(1), term.factors, is_less}, depth + 1, terms);
    }
    if (const int i = Multiplied(*node); i >= 0) {
      Term inner{node->input(i), term.factors, term.is_negative};
      inner.factors.push_back(node->input(1 - i));
      return AddTerms(graph, inner, depth + 1, terms);
    }
  }
  terms.push_back(term);
}

// How a convolution moves over its input, by spatial axis.
struct Window {
  explicit Window(const Node& conv) {
    const std::vector<int64_t>& dims = conv.input(1)->fact.constant.dims();
    kernel.assign(dims.begin() + 2, dims.end());
    const auto numbers = [&](const char* name, size_t count, int64_t otherwise) {
      std::vector<int64_t> given = conv.attributes.Ints(name);
      return given.empty() ? std::vector<int64_t>(count, otherwise) : given;
    };
    strides = numbers("strides", kernel.size(), 1);
    dilations = numbers("dilations", kernel.size(), 1);
    pads = numbers("pads", 2 * kernel.size(), 0);
  }
  // Of each pixel itself.
  explicit Window(size_t rank)
      : kernel(rank, 1), strides(rank, 1), dilations(rank, 1), pads(2 * rank, 0) {}

  // Where the first position of `other`'s kernel lies in this one along an axis; -1: it does not
  // fit, or makes other pixels.
  int64_t PlaceOf(const Window& other, size_t axis) const {
    const size_t rank = kernel.size();
    const auto more = [&](const Window& w) {  // pixels than a kernel of one position makes
      return w.pads[axis] + w.pads[rank + axis] - (w.kernel[axis] - 1) * w.dilations[axis];
    };
    const int64_t distance = pads[axis] - other.pads[axis], step = dilations[axis];
    if (more(*this) != more(other) || strides[axis] != other.strides[axis] || distance < 0 ||
        distance % step != 0 || (other.kernel[axis] > 1 && other.dilations[axis] != step)) {
      return -1;
    }
    return distance / step + other.kernel[axis] <= kernel[axis] ? distance / step : -1;
  }
  bool Fits(const Window& other) const {
    for (size_t i = 0; i < kernel.size(); ++i) {
      if (PlaceOf(other, i) < 0) return false;
    }
    return true;
  }

  std::vector<int64_t> kernel, strides, dilations, pads;
};

// A convolution whose weights are known and that nothing else reads.
bool IsBranch(const Graph& graph, const Value* value) {
  if (!IsFrom(value, core::conv) || !HasOneUser(graph, value)) return false;
  const Node& conv = *value->producer;
  const bool is_plain =
      std::ranges::none_of(std::initializer_list<std::string_view>{"epilogue", "perm_x", "perm_y"},
                           [&](auto name) { return conv.attributes.Find(name) != nullptr; });
  const Value* weights = conv.input(1);
  return is_plain && conv.inputs.size() == 2 && weights->is_constant() &&
         weights->fact.constant.size() > 0 && weights->fact.type.dtype == DType::kFloat32 &&
         weights->fact.rank() > 2 && conv.attributes.String("auto_pad", "NOTSET") == "NOTSET";
}

// Whether the term can be part of the weights of `conv`.
bool Joins(const Graph& graph, const Term& term, const Node& conv) {
  const std::vector<int64_t>& dims = conv.input(1)->fact.constant.dims();
  const int64_t groups = conv.attributes.Int("group", 1);
  const Window window(conv);
  // One for more channels makes more of a single one.
  const bool fit = std::ranges::all_of(term.factors, [&](const Value* factor) {
    return IsOne(factor) || factor->fact.constant.size() == dims[0];
  });
  if (!fit) return false;
  if (term.value == conv.input(0)) {
    const int64_t channels = dims[1] * groups;
    const bool is_plain = term.factors.empty() && !term.is_negative;
    return channels == dims[0] && (!is_plain || groups == channels) &&
           window.Fits(Window(window.kernel.size()));
  }
  if (!IsBranch(graph, term.value)) return false;
  const Node& other = *term.value->producer;
  const std::vector<int64_t>& own = other.input(1)->fact.constant.dims();
  return other.input(0) == conv.input(0) && other.attributes.Int("group", 1) == groups &&
         own.size() == dims.size() && own[0] == dims[0] && own[1] == dims[1] &&
         window.Fits(Window(other));
}

// Where each position of `other`'s kernel lies in that of `window`.
std::vector<int64_t> PlacesOf(const Window& window, const Window& other) {
  std::vector<int64_t> places = {0};
  for (size_t axis = 0; axis < window.kernel.size(); ++axis) {
    const int64_t first = window.PlaceOf(other, axis);
    std::vector<int64_t> further;
    for (const int64_t place : places) {
      for (int64_t i = first; i < first + other.kernel[axis]; ++i) {
        further.push_back(place * window.kernel[axis] + i);
      }
    }
    places = std::move(further);
  }
  return places;
}

// The number by which each output channel of a term is multiplied.
std::vector<double> MultiplesOf(const Term& term, int64_t channels) {
  std::vector<double> multiples(static_cast<size_t>(channels), term.is_negative ? -1.0 : 1.0);
  for (const Value* factor : term.factors) {
    const std::vector<double> given = ToDoubles(factor->fact.constant);
    for (size_t c = 0; c < multiples.size(); ++c) multiples[c] *= given[given.size() > 1 ? c : 0];
  }
  return multiples;
}

// Adds the term, of a smaller kernel or x itself, to weights of `conv`.
void AddWeights(const Term& term, const Node& conv, Tensor& weights) {
  const int64_t channels = weights.dims()[0], inputs = weights.dims()[1];
  const int64_t row = weights.size() / channels, area = row / inputs;
  const std::vector<double> multiples = MultiplesOf(term, channels);
  const Window window(conv);
  const bool is_x = term.value == conv.input(0);
  const Window own = is_x ? Window(window.kernel.size()) : Window(*term.value->producer);
  const std::vector<int64_t> places = PlacesOf(window, own);
  const Tensor given = is_x ? Tensor() : Aligned(term.value->producer->input(1)->fact.constant);
  const float* from = is_x ? nullptr : given.data<float>();
  for (int64_t c = 0; c < channels; ++c) {
    float* const to = weights.data<float>() + c * row;
    const double multiple = multiples[static_cast<size_t>(c)];
    if (is_x) {  // the same channel, which is one of its group
      to[c % inputs * area + places[0]] += static_cast<float>(multiple);
      continue;
    }
    for (int64_t i = 0; i < inputs; ++i) {
      for (const int64_t place : places)
        to[i * area + place] += static_cast<float>(multiple * *from++);
    }
  }
}

// The terms as weights of `conv`.
Val WeightsOf(PatchMaker& maker, const std::vector<Term>& terms, const Node& conv) {
  const Fact& like = conv.input(1)->fact;
  Val sum;
  Tensor rest;
  for (const Term& term : terms) {
    const bool is_same =
        term.value != conv.input(0) &&
        term.value->producer->input(1)->fact.constant.dims() == like.constant.dims();
    if (is_same) {
      Val weights = maker.Wrap(term.value->producer->input(1));
      for (Value* factor : term.factors) {
        std::vector<int64_t> dims(static_cast<size_t>(like.rank()), 1);
        dims[0] = factor->fact.constant.size();
        weights = weights * Reshape(maker.Wrap(factor), dims);
      }
      if (term.is_negative) weights = -weights;
      sum = sum ? sum + weights : weights;
      continue;
    }
    if (!rest.defined()) {
      rest = Tensor(DType::kFloat32, like.constant.dims());
      std::fill_n(rest.data<float>(), rest.size(), 0.0f);
    }
    AddWeights(term, conv, rest);
  }
  return rest.defined() ? sum + maker.builder().Constant(std::move(rest)) : sum;
}

// The term as it is.
Val ValueOf(PatchMaker& maker, const Term& term) {
  Val value = maker.Wrap(term.value);
  for (Value* factor : term.factors) value = value * maker.Wrap(factor);
  return term.is_negative ? -value : value;
}

int64_t Positions(const Node& conv) {
  const std::vector<int64_t> kernel = Window(conv).kernel;
  return std::accumulate(kernel.begin(), kernel.end(), int64_t{1}, std::multiplies<>());
}

}  // namespace

Rewrite FoldBranches(Node& node, PassContext& context) {
  const Value* sum = node.output();
  if (!IsSum(node) || sum->fact.type.dtype != DType::kFloat32) return NoMatch{};
  if (HasOneUser(context.graph, sum)) {  // else this is a part of that
    const Node& user = *sum->users[0];
    if (IsSum(user) || Multiplied(user) >= 0) return NoMatch{};
  }
  std::vector<Term> terms;
  AddTerms(context.graph, {node.output(), {}, false}, 0, terms);
  // The largest kernel that another term fits in.
  const Node* conv = nullptr;
  for (const Term& term : terms) {
    if (!IsBranch(context.graph, term.value)) continue;
    const Node* candidate = term.value->producer;
    if (!Joins(context.graph, term, *candidate)) continue;
    const auto joining = std::ranges::count_if(
        terms, [&](const Term& other) { return Joins(context.graph, other, *candidate); });
    if (joining > 1 && (conv == nullptr || Positions(*candidate) > Positions(*conv))) {
      conv = candidate;
    }
  }
  if (conv == nullptr) return NoMatch{};

  PatchMaker maker(context, node);
  std::vector<Term> joined;
  Val addend, rest;
  for (const Term& term : terms) {
    if (Joins(context.graph, term, *conv)) {
      joined.push_back(term);
      continue;
    }
    Val& to = term.value->is_constant() ? addend : rest;
    const Val value = ValueOf(maker, term);
    to = to ? to + value : value;
  }
  Val y = maker.builder().Make(
      core::conv, {maker.Wrap(conv->input(0)), WeightsOf(maker, joined, *conv)}, conv->attributes);
  if (addend) y = y + addend;
  if (rest) y = y + rest;
  return maker.Replace(node, {y});
}

}  // namespace sardonyx::passes
