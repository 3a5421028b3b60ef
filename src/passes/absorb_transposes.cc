// t = transpose(k) {perm=[0,2,3,1]}
// s = matmul(q, t)                      ->   s = matmul(q, k) {perm_b=[0,2,3,1]}
//
// and for a transpose of the result (perm_y), where rows stay contiguous; so for attention.
//
// t = transpose(x) {perm=[0,2,3,1]}
// y = conv(t, w)                        ->   y = conv(x, w) {perm_x=[0,2,3,1]}
//
// where the channels are few, as those of pictures are, or in groups that a kernel copies for
// itself: kernels turn some lines at a time.

#include <algorithm>
#include <span>

#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

// A matrix is read through strides if one of its two dimensions is contiguous.
bool IsReadable(const std::vector<int64_t>& perm) {
  const int64_t last = static_cast<int64_t>(perm.size()) - 1;
  return perm.size() >= 2 && (perm[last] == last || perm[last - 1] == last);
}

// Attention reads queries and values by rows.
bool IsReadableAs(std::string_view attribute, const std::vector<int64_t>& perm) {
  const bool by_rows = attribute == "perm_q" || attribute == "perm_v";
  return by_rows ? perm.back() == static_cast<int64_t>(perm.size()) - 1 : IsReadable(perm);
}

// The sizes of what lies in one piece among the first `count` dimensions of a transpose's result:
// those that neighbour each other before it, too, are one to a kernel. Those not known count as -1.
std::vector<int64_t> PiecesOf(const Node& transpose, int64_t count) {
  const std::vector<int64_t>& perm = transpose.attributes.Ints("perm");
  const Dims& dims = *transpose.output()->fact.shape;
  std::vector<int64_t> sizes;
  int64_t last = -1;
  for (int64_t i = 0; i < count; ++i) {
    if (dims[i] == 1) continue;
    const int64_t size = dims[i].known() ? dims[i].value() : -1;
    const bool continues = !sizes.empty() && perm[i] == last + 1;
    if (!continues)
      sizes.push_back(size);
    else
      sizes.back() = size < 0 || sizes.back() < 0 ? -1 : sizes.back() * size;
    last = perm[i];
  }
  return sizes;
}

// Empty if a product reads its operand about as fast before the transpose as behind it, else why
// not: kernels have two batch dimensions.
std::string_view WhyMoveRows(const Node& product, size_t i) {
  constexpr size_t kMostBatches = 2;
  constexpr int64_t kLeastRows = 16;
  const Node& transpose = *product.input(i)->producer;
  if (!transpose.output()->fact.ranked() || !product.input(1)->fact.ranked()) return "";
  const int64_t rank = transpose.output()->fact.rank();
  // Rows that all meet one matrix go on from one of the batch to the next.
  const bool is_one =
      i == 0 && product.input(1)->fact.rank() == 2 && product.attributes.Int("trans_a") == 0;
  const std::vector<int64_t> pieces = PiecesOf(transpose, is_one ? rank - 1 : rank - 2);
  if (pieces.size() > kMostBatches + (is_one ? 1 : 0)) return "its batch would lie in many pieces";
  const bool are_short = pieces.size() > 1 && pieces.back() >= 0 && pieces.back() < kLeastRows;
  return is_one && are_short ? "few rows would lie together" : "";
}

// Input i as it was before its transpose, which becomes an attribute.
Rewrite MoveIntoAttribute(Node& node, PassContext& context, size_t i, const char* attribute) {
  Value* input = node.input(i);
  const auto& perm = input->producer->attributes.Ints("perm");
  PatchMaker maker(context, node);
  std::vector<Val> inputs;
  for (Value* value : node.inputs) inputs.push_back(maker.Wrap(value));
  inputs[i] = maker.Wrap(input->producer->input(0));
  Attributes attributes = node.attributes;
  attributes.Set(attribute, perm);
  return maker.Replace(node, {maker.builder().Make(*node.op, inputs, std::move(attributes))});
}

Rewrite AbsorbInput(Node& node, PassContext& context, size_t i, const char* attribute) {
  Value* input = node.input(i);
  if (!IsFrom(input, core::transpose) || node.attributes.Find(attribute) != nullptr) {
    return NoMatch{};
  }
  if (!IsReadableAs(attribute, input->producer->attributes.Ints("perm"))) {
    return CheckFailed{"neither rows nor columns would be contiguous"};
  }
  if (node.op == &core::matmul) {
    if (const std::string_view why = WhyMoveRows(node, i); !why.empty()) {
      return CheckFailed{std::string(why)};
    }
  }
  return MoveIntoAttribute(node, context, i, attribute);
}

// Whether kernels turn so many channels of an image themselves.
bool TurnsChannels(const Node& conv, int64_t channels) {
  constexpr int64_t kMostPlanes = 4, kLeastOfGroup = 8;
  const int64_t groups = conv.attributes.Int("group", 1);
  if (groups == 1) return channels <= kMostPlanes;
  // Without steps they are mostly Winograd's, who transforms all of a tile's channels at once.
  const std::vector<int64_t>& strides = conv.attributes.Ints("strides");
  const bool has_steps =
      std::any_of(strides.begin(), strides.end(), [](int64_t s) { return s > 1; });
  return channels <= kMostPlanes ||
         (strides.size() == 2 && has_steps && channels / groups >= kLeastOfGroup);
}

Rewrite AbsorbPlanes(Node& node, PassContext& context) {
  Value* input = node.input(0);
  if (!IsFrom(input, core::transpose) || node.attributes.Find("perm_x") != nullptr) {
    return NoMatch{};
  }
  const std::vector<int64_t>& perm = input->producer->attributes.Ints("perm");
  const Fact& fact = input->fact;
  if (!fact.ranked() || fact.rank() < 3 || perm != ChannelsLast(fact.rank())) return NoMatch{};
  const Dim channels = fact.shape->back();
  if (!channels.known() || !TurnsChannels(node, channels.value())) {
    return CheckFailed{"many channels"};
  }
  if (channels.value() < 2) return CheckFailed{"the transpose moves nothing"};
  if (fact.type != DType::kFloat32) return CheckFailed{"its kernels read pixels"};
  if (!HasOneUser(context.graph, input)) return CheckFailed{"the transpose has other users"};
  return MoveIntoAttribute(node, context, 0, "perm_x");
}

Rewrite AbsorbOutput(Node& node, PassContext& context) {
  Value* product = node.input(0);
  const Node& source = *product->producer;
  const auto& perm = node.attributes.Ints("perm");
  const int64_t last = static_cast<int64_t>(perm.size()) - 1;
  if (source.attributes.Find("perm_y") != nullptr) return NoMatch{};
  if (source.attributes.Expr("epilogue") != nullptr && source.inputs.size() > 2) {
    return CheckFailed{"the epilogue's operands are in the order before the transpose"};
  }
  if (perm.size() < 3 || perm[last] != last) return CheckFailed{"rows would not be contiguous"};
  if (!HasOneUser(context.graph, product)) return CheckFailed{"the product is also used as it is"};
  PatchMaker maker(context, node);
  std::vector<Val> inputs;
  for (Value* value : source.inputs) inputs.push_back(maker.Wrap(value));
  Attributes attributes = source.attributes;
  attributes.Set("perm_y", perm);
  maker.builder().SetOrigin(source.origin);
  return maker.Replace(node, {maker.builder().Make(*source.op, inputs, std::move(attributes))});
}

}  // namespace

Rewrite AbsorbTransposes(Node& node, PassContext& context) {
  static constexpr const char* kProduct[] = {"perm_a", "perm_b"};
  static constexpr const char* kAttention[] = {"perm_q", "perm_k", "perm_v"};
  if (node.op == &core::transpose &&
      (IsFrom(node.input(0), core::matmul) || IsFrom(node.input(0), core::attention))) {
    return AbsorbOutput(node, context);
  }
  if (node.op == &core::conv) return AbsorbPlanes(node, context);
  std::span<const char* const> attributes;
  if (node.op == &core::matmul) attributes = kProduct;
  if (node.op == &core::attention) attributes = kAttention;
  Rewrite outcome = NoMatch{};
  for (size_t i = 0; i < attributes.size(); ++i) {
    Rewrite input = AbsorbInput(node, context, i, attributes[i]);
    if (std::holds_alternative<Patch>(input)) return input;
    if (std::holds_alternative<CheckFailed>(input)) outcome = std::move(input);
  }
  return outcome;
}

}  // namespace sardonyx::passes
