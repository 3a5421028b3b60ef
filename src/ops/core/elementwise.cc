// One operation for each scalar function, and `fused` for a chain of them: all are expressions over
// operands that broadcast as in numpy.

#include <array>

#include "ops/core/core.h"
#include "ops/core/element_type.h"
#include "ops/core/interpret.h"
#include "ops/core/modest.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

// Tensors beyond this are not followed as shape computations.
constexpr size_t kMaxElements = 1024;

Fn FnOf(const CoreOp& op) {
  Fn fn{};
  if (!IsElementwise(op, &fn)) Fail(ErrorCode::kInternal, "{} is no scalar function", op.name);
  return fn;
}

// A cast that no expression can say.
bool IsSpecialCast(const Node& node) {
  return node.attributes.Int("saturate", 1) == 0 ||
         node.attributes.String("round_mode", "up") != "up";
}

Expression FusedExpression(const Node& node, std::span<const DType>) {
  const Expression* const expression = node.attributes.Expr("expression");
  if (expression == nullptr) Fail(ErrorCode::kInternal, "fused: the expression is missing");
  return *expression;
}

// Of a function; attributes of other operations, as a file may give it, count for nothing.
Expression ExpressionOf(const Node& node, std::span<const DType> inputs) {
  const Fn fn = FnOf(*node.op);
  Expression result;
  if (fn == Fn::kCast && IsSpecialCast(node)) return result;
  result.inputs.assign(inputs.begin(), inputs.end());
  const DType type = ReturnsBool(fn)    ? DType::kBool
                     : fn == Fn::kCast  ? ElementType(node.attributes, "to")
                     : fn == Fn::kWhere ? inputs[1]
                                        : inputs[0];
  result.code.push_back({fn, type, {0, 1, 2}});
  for (int i = Arity(fn); i < 3; ++i) result.code[0].args[i] = 0;
  return result;
}

void CheckTypes(InferContext& context, Fn fn) {
  const size_t arity = static_cast<size_t>(Arity(fn));
  if (context.input_count() != arity) {
    context.Fail("{} takes {} inputs, not {}", Name(fn), arity, context.input_count());
  }
  const size_t first = fn == Fn::kWhere ? 1 : 0;
  if (first == 1 && context.dtype(0) != DType::kBool) {
    context.Fail("the condition of where is {}, not bool", Name(context.dtype(0)));
  }
  if (!Accepts(fn, context.dtype(first))) {
    Fail(ErrorCode::kUnsupported, "{}: element type {} is not supported", Name(fn),
         Name(context.dtype(first)));
  }
  for (size_t i = first + 1; i < arity; ++i) {
    if (fn != Fn::kPow && context.dtype(i) != context.dtype(first)) {
      context.Fail("{} of {} and {}: the element types must be the same", Name(fn),
                   Name(context.dtype(first)), Name(context.dtype(i)));
    }
  }
}

using MaybeDim = std::optional<Dim>;

MaybeDim CompareElements(InferContext& context, Fn fn, Dim a, Dim b) {
  if (a.known() && b.known()) {
    const int64_t x = a.value(), y = b.value();
    switch (fn) {
      case Fn::kEqual: return Dim(x == y);
      case Fn::kLess: return Dim(x < y);
      case Fn::kLessEqual: return Dim(x <= y);
      case Fn::kGreater: return Dim(x > y);
      default: return Dim(x >= y);
    }
  }
  if (a == b) return Dim(fn == Fn::kEqual || fn == Fn::kLessEqual || fn == Fn::kGreaterEqual);
  // A size against a negative number, as in "-1 means: take the other shape's size".
  const bool a_larger = b.known() && b.value() < 0 && context.symbols().NonNegative(a);
  const bool b_larger = a.known() && a.value() < 0 && context.symbols().NonNegative(b);
  if (!a_larger && !b_larger) return {};
  if (fn == Fn::kEqual) return Dim(0);
  return Dim((fn == Fn::kGreater || fn == Fn::kGreaterEqual) == a_larger);
}

// One element of a shape computation; nothing if the function or these elements are not followed.
MaybeDim ComputeElement(InferContext& context, Fn fn, std::span<const Dim> args) {
  SymbolTable& symbols = context.symbols();
  const Dim a = args[0], b = args.size() > 1 ? args[1] : Dim();
  const bool moves = fn == Fn::kCast || fn == Fn::kWhere || fn == Fn::kMin || fn == Fn::kMax;
  if (!moves && (!IsModest(a) || !IsModest(b))) return {};
  // Division of integers truncates; of sizes that is the floor. By zero it is 0.
  const bool divides = symbols.NonNegative(a) && b.known() && b.value() > 0;
  switch (fn) {
    case Fn::kAdd: return symbols.Add(a, b);
    case Fn::kSub: return symbols.Sub(a, b);
    case Fn::kMul: return symbols.Mul(a, b);
    case Fn::kMin: return symbols.Min(a, b);
    case Fn::kMax: return symbols.Max(a, b);
    case Fn::kNeg: return symbols.Sub(Dim(0), a);
    case Fn::kRelu: return symbols.Max(a, Dim(0));
    case Fn::kAbs:
      if (symbols.NonNegative(a)) return a;
      return a.known() ? MaybeDim(-a.value()) : MaybeDim();
    case Fn::kSign: return a.known() ? MaybeDim((a.value() > 0) - (a.value() < 0)) : MaybeDim();
    case Fn::kDiv:
      if (divides) return symbols.FloorDiv(a, b);
      if (!a.known() || !b.known()) return {};
      return b.value() == 0 ? 0 : a.value() / b.value();
    case Fn::kMod:
    case Fn::kFMod:
      if (divides) return symbols.Sub(a, symbols.Mul(symbols.FloorDiv(a, b), b));
      return {};
    case Fn::kNot: return a.known() ? MaybeDim(a == 0) : MaybeDim();
    case Fn::kAnd:
    case Fn::kOr:
      if (!a.known() || !b.known()) return {};
      return Dim(fn == Fn::kAnd ? a.value() != 0 && b.value() != 0
                                : a.value() != 0 || b.value() != 0);
    case Fn::kWhere: {
      if (args[1] == args[2]) return args[1];
      return a.known() ? MaybeDim(a == 0 ? args[2] : args[1]) : MaybeDim();
    }
    case Fn::kCast: return a;
    default:
      return ReturnsBool(fn) && args.size() == 2 ? CompareElements(context, fn, a, b) : MaybeDim();
  }
}

bool CarriesElements(DType type) {
  return type == DType::kInt64 || type == DType::kInt32 || type == DType::kBool;
}

// Elements of the result if all operands' are known and the type can carry them.
void PropagateElements(InferContext& context, Fn fn, DType result, const Dims& shape) {
  if (!CarriesElements(result) || shape.size() > 1) return;
  if (shape.size() == 1 && !shape[0].known()) return;
  const size_t count = shape.empty() ? 1 : static_cast<size_t>(shape[0].value());
  if (count > kMaxElements) return;
  // To bool is x != 0, not x.
  if (fn == Fn::kCast && result == DType::kBool && context.dtype(0) != DType::kBool) return;
  std::vector<const Dims*> operands;
  for (size_t i = 0; i < context.input_count(); ++i) {
    operands.push_back(context.elements(i));
    if (operands.back() == nullptr) return;
  }
  Dims elements;
  for (size_t k = 0; k < count; ++k) {
    std::array<Dim, 3> args;
    for (size_t i = 0; i < operands.size(); ++i) {
      args[i] = (*operands[i])[operands[i]->size() == 1 ? 0 : k];
    }
    const MaybeDim element = ComputeElement(context, fn, std::span(args.data(), operands.size()));
    if (!element) return;
    if (result == DType::kInt32 && element->known() &&
        element->value() != static_cast<int32_t>(element->value())) {
      return;
    }
    elements.push_back(*element);
  }
  context.SetElements(0, std::move(elements));
}

std::optional<Dims> BroadcastAll(InferContext& context) {
  Dims shape;
  for (size_t i = 0; i < context.input_count(); ++i) {
    if (!context.ranked(i)) return {};
    shape = context.Broadcast(shape, context.shape(i));
  }
  return shape;
}

void InferScalarFunction(InferContext& context) {
  const Fn fn = FnOf(*context.node().op);
  CheckTypes(context, fn);
  const DType type = ReturnsBool(fn)    ? DType::kBool
                     : fn == Fn::kCast  ? ElementType(context.attributes(), "to")
                     : fn == Fn::kWhere ? context.dtype(1)
                                        : context.dtype(0);
  if (!Accepts(Fn::kCast, type) && fn == Fn::kCast) {
    Fail(ErrorCode::kUnsupported, "cast to {} is not supported", Name(type));
  }
  const std::optional<Dims> shape = BroadcastAll(context);
  context.Set(0, type, shape);
  if (shape) PropagateElements(context, fn, type, *shape);
}

void InferFused(InferContext& context) {
  const Expression expression = FusedExpression(context.node(), {});
  if (expression.inputs.size() != context.input_count()) {
    context.Fail("the expression has {} inputs, the node {}", expression.inputs.size(),
                 context.input_count());
  }
  for (size_t i = 0; i < context.input_count(); ++i) {
    if (context.dtype(i) != expression.inputs[i]) {
      context.Fail("input {} of the expression is {}, not {}", i, Name(expression.inputs[i]),
                   Name(context.dtype(i)));
    }
  }
  context.Set(0, expression.ResultType(), BroadcastAll(context));
}

void ComputeSpecialCast(ComputeContext& context) {
  const Tensor& x = context.input(0);
  Tensor& y = context.Allocate(0);
  const std::string_view mode = context.attributes().String("round_mode", "up");
  if (mode != "up" && mode != "down" && mode != "nearest") {
    Fail(ErrorCode::kInvalidModel, "cast: round_mode '{}' is none of up, down, nearest", mode);
  }
  const ScaleRounding rounding = mode == "up"     ? ScaleRounding::kUp
                                 : mode == "down" ? ScaleRounding::kDown
                                                  : ScaleRounding::kNearest;
  ConvertElements(x.dtype(), x.raw(), y.dtype(), y.raw(), x.size(),
                  context.attributes().Int("saturate", 1) != 0, rounding);
}

void Compute(ComputeContext& context) {
  std::vector<Tensor> operands;
  std::vector<DType> types;
  for (size_t i = 0; i < context.input_count(); ++i) {
    operands.push_back(context.input(i));
    types.push_back(operands.back().dtype());
  }
  const Node& node = context.node();
  const Expression expression = node.op->expression(node, types);
  if (expression.inputs.empty() && !operands.empty()) return ComputeSpecialCast(context);
  Interpret(expression, operands, context.Allocate(0));
}

constexpr std::array<CoreOp, kFnCount> kOps = {{
#define SARDONYX_ROW(fn, text, arity, is_bool)          \
  {.name = #text,                                       \
   .inputs = std::string_view("ttt").substr(3 - arity), \
   .infer = InferScalarFunction,                        \
   .reference = Compute,                                \
   .expression = ExpressionOf},
    SARDONYX_SCALAR_FUNCTIONS(SARDONYX_ROW)
#undef SARDONYX_ROW
}};

}  // namespace

const CoreOp fused = {.name = "fused",
                      .inputs = "t*",
                      .infer = InferFused,
                      .reference = Compute,
                      .expression = FusedExpression};

const CoreOp& Elementwise(Fn fn) { return kOps[static_cast<size_t>(fn)]; }

bool IsElementwise(const CoreOp& op, Fn* fn) {
  const std::less<const CoreOp*> before;
  if (before(&op, kOps.data()) || !before(&op, kOps.data() + kOps.size())) return false;
  *fn = static_cast<Fn>(&op - kOps.data());
  return true;
}

}  // namespace sardonyx::core
