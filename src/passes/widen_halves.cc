// h = matmul(x: bfloat16, w: bfloat16)      c = cast(x) {to=float}
// y = softmax(h)                       ->   h = matmul(c, w) {epilogue = rounds to bfloat16}
//                                           s = softmax(h)
//                                           y = cast(s) {to=bfloat16}
//
// Values of float16 and bfloat16 between products and whatever else computes in float32 are kept
// in float32: kernels read and write one type, and no sweep converts. Weights and what comes in as
// halves stay halves until a product reads them. Values of bfloat16 are rounded, for they are
// multiplied in pairs; values of float16 where something else than float32 arithmetic sees them.

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>

#include "passes/expressions.h"
#include "passes/passes.h"

namespace sardonyx::passes {
namespace {

bool IsHalf(const Value* value) {
  return value != nullptr && value->fact.type.is_tensor() && IsHalf(value->fact.type.dtype);
}

bool IsOneOf(const CoreOp* op, std::initializer_list<const CoreOp*> list) {
  return std::find(list.begin(), list.end(), op) != list.end();
}

bool IsConvolution(const Node& node) {
  return IsOneOf(node.op, {&core::conv, &core::conv_transpose});
}
bool IsRecurrent(const Node& node) {
  return IsOneOf(node.op, {&core::lstm, &core::gru, &core::rnn});
}
bool IsProduct(const Node& node) { return IsConvolution(node) || node.op == &core::matmul; }

bool IsNearest(const Node& node) {
  return node.op == &core::resize && node.attributes.String("mode", "nearest") == "nearest";
}

// Computes in float32, and is worth it.
bool Computes(const Node& node) {
  return IsProduct(node) ||
         IsOneOf(node.op, {&core::matmul_nbits, &core::attention, &core::linear_attention,
                           &core::rotary, &core::softmax, &core::layer_norm, &core::average_pool,
                           &core::lp_pool, &core::max_pool, &core::reduce, &core::arg_reduce}) ||
         IsRecurrent(node) || (node.op == &core::resize && !IsNearest(node));
}

// Weights are read as halves by whatever packs them.
bool ReadsHalves(const Node& node, size_t input) {
  if (node.op == &core::matmul) return input == 1;
  const bool is_weight = input == 1 || (input == 2 && IsRecurrent(node));
  return is_weight && (IsConvolution(node) || IsRecurrent(node)) &&
         node.input(input)->is_constant();
}

// Hands elements on as they are.
bool Moves(const Node& node) {
  return node.op->is_view || IsNearest(node) ||
         IsOneOf(node.op, {&core::transpose, &core::slice, &core::expand, &core::concat,
                           &core::split, &core::pad, &core::tile, &core::gather});
}

// An expression over halves as one over float32.
class WideExpression {
 public:
  // `narrow[i]` says that input i is still a half; `rounds_first`, that the first one is wider than
  // the half that it stands for.
  WideExpression(const Expression& from, const std::vector<bool>& narrow,
                 bool rounds_first = false) {
    std::vector<uint8_t> map;
    for (size_t i = 0; i < from.inputs.size(); ++i) {
      const bool is_wide = IsHalf(from.inputs[i]) && !narrow[i];
      result_.inputs.push_back(is_wide ? DType::kFloat32 : from.inputs[i]);
      map.push_back(static_cast<uint8_t>(i));
    }
    result_.constants = from.constants;
    for (Expression::Constant& constant : result_.constants) {
      if (IsHalf(constant.type)) constant.type = DType::kFloat32;
      map.push_back(static_cast<uint8_t>(map.size()));
    }
    for (size_t i = 0; i < from.inputs.size(); ++i) {
      if (IsHalf(from.inputs[i]) && narrow[i]) map[i] = Append(Fn::kCast, DType::kFloat32, map[i]);
    }
    if (rounds_first && !from.code.empty() && IsHalf(from.inputs[0])) {
      map[0] = Round(from.inputs[0], 0);
    }
    for (const Instruction& instruction : from.code) {
      Instruction wide = instruction;
      for (int i = 0; i < Arity(wide.fn); ++i) wide.args[i] = map[wide.args[i]];
      const bool is_half = IsHalf(wide.type);
      if (wide.fn == Fn::kCast &&
          result_.RegisterType(wide.args[0]) == (is_half ? DType::kFloat32 : wide.type)) {
        // Rounds if it comes from a wider type, or from the other one of 16 bits.
        const bool rounds = is_half && from.RegisterType(instruction.args[0]) != wide.type;
        map.push_back(rounds ? Round(wide.type, wide.args[0]) : wide.args[0]);
        continue;
      }
      if (is_half && wide.fn != Fn::kCast) wide.type = DType::kFloat32;
      result_.code.push_back(wide);
      map.push_back(Last());
      if (is_half && wide.fn == Fn::kCast) map.back() = Append(Fn::kCast, DType::kFloat32, Last());
    }
    value_ = map.back();
    if (from.code.empty()) value_ = map[0];
  }

  enum class End { kNarrow, kRounded, kAsItIs };
  // Ends it with the result as a half, rounded to one, or left as it is.
  void Finish(DType half, End end) {
    const bool is_last = value_ == Last();
    const bool is_rounded = is_last && result_.code.size() >= 2 &&
                            result_.code.back().fn == Fn::kCast &&
                            result_.code[result_.code.size() - 2].type == half;
    if (is_rounded) {
      if (end == End::kNarrow) result_.code.pop_back();
    } else if (end == End::kNarrow) {
      Append(Fn::kCast, half, value_);
    } else if (end == End::kRounded || !(is_last || IsIdentity())) {
      Round(half, value_);
    }
  }

  // The result is an input as it is.
  bool IsIdentity() const { return result_.code.empty() && value_ == 0; }
  bool fits() const { return result_.registers() < 250; }
  Expression Take() { return std::move(result_); }

 private:
  uint8_t Last() const { return static_cast<uint8_t>(result_.registers() - 1); }
  uint8_t Append(Fn fn, DType type, uint8_t arg) {
    result_.code.push_back({fn, type, {arg, 0, 0}});
    return Last();
  }
  uint8_t Round(DType half, uint8_t arg) {
    return Append(Fn::kCast, DType::kFloat32, Append(Fn::kCast, half, arg));
  }

  Expression result_;
  uint8_t value_ = 0;
};

class Widening {
 public:
  explicit Widening(PassContext& context) : context_(context), graph_(context.graph) {}

  int Run() {
    std::vector<Node*> nodes;
    for (const auto& node : graph_.nodes()) nodes.push_back(node.get());
    KeepRounded(graph_.outputs);
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
      FindNeeds(**it);
      FindRounded(**it);
    }
    const bool makes_halves = std::ranges::any_of(
        nodes, [](const Node* node) { return IsProduct(*node) && IsHalf(node->output()); });
    if (needed_.empty() && !makes_halves) return 0;
    int changes = 0;
    for (Node* node : nodes) {
      if (Widen(*node)) {
        ++changes;
      } else {
        for (size_t i = 0; i < node->inputs.size(); ++i) {
          const auto wide = wide_.find(node->input(i));
          if (wide == wide_.end()) continue;
          const bool is_shape = node->op == &core::shape;  // which either has
          graph_.SetInput(node, i, is_shape ? wide->second : Narrow(node->input(i)));
        }
      }
    }
    std::vector<Value*> outputs = graph_.outputs;
    for (Value* output : outputs) {
      if (wide_.contains(output) && is_widened_.contains(output->producer)) {
        graph_.ReplaceUses(output, Narrow(output));
      }
    }
    graph_.Splice(std::move(made_));
    return changes;
  }

 private:
  // Whether what reads a half gains from float32.
  void FindNeeds(const Node& node) {
    bool wants = Computes(node) && std::any_of(node.inputs.begin(), node.inputs.end(),
                                               [](const Value* v) { return IsHalf(v); });
    if (Moves(node)) {
      wants = wants || std::any_of(node.outputs.begin(), node.outputs.end(),
                                   [&](const Value* v) { return needed_.contains(v); });
    }
    if (!wants) return;
    for (const Value* input : node.inputs) {
      if (IsHalf(input)) needed_.insert(input);
    }
  }

  // Float16 kept in float32 stays as exact as it is computed, but where something else than float32
  // arithmetic sees it: then all see the same, back to the product with weights or the sum that
  // made it. So attention that is seen rounds within as the standard's body does.
  void FindRounded(const Node& node) {
    const bool hands_on = Moves(node) ||
                          IsOneOf(node.op, {&core::max_pool, &core::reduce, &core::softmax}) ||
                          (node.op == &core::matmul && !node.input(1)->is_constant()) ||
                          (IsElementwise(node) && IsFloat(node.output()->fact.type.dtype));
    const bool is_seen = std::any_of(node.outputs.begin(), node.outputs.end(),
                                     [&](const Value* v) { return rounded_.contains(v); });
    if (hands_on ? is_seen : !(Computes(node) || node.op == &core::shape)) {
      KeepRounded(node.inputs);
    }
  }
  void KeepRounded(const std::vector<Value*>& values) {
    std::copy_if(values.begin(), values.end(), std::inserter(rounded_, rounded_.end()),
                 [](const Value* v) { return IsHalf(v); });
  }
  bool Rounds(const Value* value) const {
    return value->fact.type.dtype == DType::kBFloat16 || rounded_.contains(value);
  }
  WideExpression::End WideEnd(const Value* value) const {
    return Rounds(value) ? WideExpression::End::kRounded : WideExpression::End::kAsItIs;
  }

  // In float32, if need be by a cast.
  Value* Wide(Value* value) {
    if (Value*& wide = wide_[value]; wide != nullptr) return wide;
    Value* made = Cast(value, DType::kFloat32, value->producer);
    wide_[value] = made;
    return made;
  }
  // As the half that it was.
  Value* Narrow(Value* value) {
    if (value->producer == nullptr || !is_widened_.contains(value->producer)) return value;
    if (Value*& narrow = narrow_[value]; narrow != nullptr) return narrow;
    Value* made = Cast(wide_.at(value), value->fact.type.dtype, value->producer);
    narrow_[value] = made;
    return made;
  }
  bool IsNarrow(const Value* value) const {
    return value->producer == nullptr || !is_widened_.contains(value->producer);
  }

  Value* Cast(Value* value, DType to, const Node* like) {
    if (value->is_constant()) {
      Node cast;
      cast.op = &core::Elementwise(Fn::kCast);
      cast.inputs = {value};
      cast.outputs = {nullptr};
      cast.attributes.Set("to", static_cast<int64_t>(to));
      return graph_.AddConstant(context_.fold(cast, {value->fact.constant}).at(0));
    }
    made_.push_back(graph_.MakeNode(core::Elementwise(Fn::kCast), {value},
                                    {{"to", static_cast<int64_t>(to)}}, 1,
                                    like != nullptr ? like->origin : nullptr));
    return made_.back()->output();
  }

  bool Widen(Node& node) {
    const bool has_half = std::any_of(node.inputs.begin(), node.inputs.end(),
                                      [](const Value* v) { return IsHalf(v); });
    const bool makes_half = std::any_of(node.outputs.begin(), node.outputs.end(),
                                        [](const Value* v) { return IsHalf(v); });
    if (!has_half && !makes_half) return false;
    if (IsElementwise(node)) return WidenElementwise(node);
    if (Moves(node)) {
      // What comes as halves is moved as halves: a cache of keys is larger than what joins it.
      const bool from_halves = std::any_of(
          node.inputs.begin(), node.inputs.end(),
          [&](const Value* v) { return IsHalf(v) && !v->is_constant() && IsNarrow(v); });
      const bool from_constants =
          std::all_of(node.inputs.begin(), node.inputs.end(),
                      [&](const Value* v) { return !IsHalf(v) || v->is_constant(); });
      if (from_halves || from_constants) return false;
    } else if (!Computes(node)) {
      return false;
    }
    Attributes attributes = node.attributes;
    std::vector<Value*> inputs = node.inputs;
    std::vector<bool> narrow(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!IsHalf(inputs[i])) continue;
      narrow[i] = IsNarrow(inputs[i]) && ReadsHalves(node, i);
      if (!narrow[i]) inputs[i] = Wide(inputs[i]);
    }
    const DType type = node.output()->fact.type.dtype;
    if (IsProduct(node)) {
      Expression epilogue{{type}, {}, {}};
      if (const Expression* given = attributes.Expr("epilogue")) epilogue = *given;
      // What is added to a product with weights is its bias, which Gemm and Conv add before they
      // round; what is added to one of two values, a mask of scores, comes after.
      WideExpression wide(epilogue, std::vector<bool>(epilogue.inputs.size()),
                          !node.inputs[1]->is_constant() && Rounds(node.output()));
      if (IsHalf(type)) wide.Finish(type, WideEnd(node.output()));
      if (!wide.fits()) return false;
      if (wide.IsIdentity()) {
        attributes.Erase("epilogue");
      } else {
        attributes.Set("epilogue", wide.Take());
      }
    }
    if (node.op == &core::softmax && type == DType::kFloat16 && Rounds(node.output()) &&
        attributes.Int("log") == 0) {
      attributes.Set("rounding", static_cast<int64_t>(type));
    }
    const bool is_attention = node.op == &core::attention && type == DType::kBFloat16;
    if (is_attention) attributes.Set("rounding", static_cast<int64_t>(type));
    const bool rounds =
        !IsProduct(node) && !Moves(node) && node.op != &core::max_pool && !is_attention;
    Make(node, std::move(inputs), std::move(attributes), rounds);
    return true;
  }

  bool WidenElementwise(Node& node) {
    std::vector<Value*> inputs = node.inputs;
    std::vector<bool> narrow(inputs.size());
    bool has_wide = false;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (!IsHalf(inputs[i])) continue;
      narrow[i] = IsNarrow(inputs[i]);
      if (!narrow[i]) inputs[i] = Wide(inputs[i]);
      has_wide = has_wide || !narrow[i];
    }
    const Value* output = node.output();
    const bool is_needed = IsHalf(output) && needed_.contains(output);
    if (!has_wide && !is_needed) return false;
    const Expression expression = ExpressionOf(node);
    WideExpression wide(expression, narrow);
    if (!wide.fits()) return false;
    if (!IsHalf(output) && wide.IsIdentity() && SameShape(inputs[0], output)) {
      graph_.ReplaceUses(node.output(), inputs[0]);
      return true;
    }
    if (IsHalf(output)) {
      wide.Finish(output->fact.type.dtype,
                  is_needed ? WideEnd(output) : WideExpression::End::kNarrow);
    }
    // A cast changes nothing either, unless others read what it casts as well: the difference of
    // the two may be what a model is after.
    const bool is_cast = expression.code.size() == 1 && expression.code[0].fn == Fn::kCast &&
                         expression.inputs[0] == DType::kFloat32;
    const bool is_same =
        wide.IsIdentity() || (is_cast && !Rounds(output) && HasOneUser(graph_, inputs[0]));
    if (is_needed && is_same && SameShape(inputs[0], output)) {
      wide_[output] = inputs[0];
      is_widened_.insert(&node);
      return true;
    }
    std::unique_ptr<Node> made = graph_.MakeNode(core::fused, std::move(inputs),
                                                 {{"expression", wide.Take()}}, 1, node.origin);
    if (is_needed) {
      wide_[node.output()] = made->output();
      is_widened_.insert(&node);
    } else {
      graph_.ReplaceUses(node.output(), made->output());
    }
    made_.push_back(std::move(made));
    return true;
  }

  // The node over float32, with its outputs rounded behind it if asked.
  void Make(Node& node, std::vector<Value*> inputs, Attributes attributes, bool rounds) {
    is_widened_.insert(&node);
    made_.push_back(graph_.MakeNode(*node.op, std::move(inputs), std::move(attributes),
                                    static_cast<int>(node.outputs.size()), node.origin));
    const std::vector<Value*> outputs = made_.back()->outputs;
    for (size_t i = 0; i < outputs.size(); ++i) {
      Value* output = node.output(i);
      if (!IsHalf(output)) {
        graph_.ReplaceUses(output, outputs[i]);
        continue;
      }
      wide_[output] = outputs[i];
      const bool is_read = !output->users.empty() || graph_.IsOutput(output);
      if (!rounds || !is_read || !Rounds(output)) continue;
      WideExpression round(Expression{{output->fact.type.dtype}, {}, {}}, {false});
      round.Finish(output->fact.type.dtype, WideExpression::End::kRounded);
      made_.push_back(graph_.MakeNode(core::fused, {outputs[i]}, {{"expression", round.Take()}}, 1,
                                      node.origin));
      wide_[output] = made_.back()->output();
    }
  }

  PassContext& context_;
  Graph& graph_;
  std::unordered_set<const Value*> needed_, rounded_;
  std::unordered_set<const Node*> is_widened_;
  std::unordered_map<const Value*, Value*> wide_, narrow_;
  std::vector<std::unique_ptr<Node>> made_;
};

}  // namespace

int WidenHalves(PassContext& context) { return Widening(context).Run(); }

}  // namespace sardonyx::passes
