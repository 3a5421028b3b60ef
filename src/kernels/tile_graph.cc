#include "kernels/tile_graph.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace sardonyx {
namespace {

DType ComputedType(DType type) { return IsNarrowFloat(type) ? DType::kFloat32 : type; }

// No complex numbers, nothing below a byte.
bool IsReal(DType type) {
  return type == DType::kBool || ((IsFloat(type) || IsInteger(type)) && !IsPacked(type));
}

bool IsLogical(Fn fn) {
  return fn == Fn::kNot || fn == Fn::kAnd || fn == Fn::kOr || fn == Fn::kXor;
}

bool IsWord(DType type) { return type == DType::kInt16 || type == DType::kUInt16; }

}  // namespace

// ---- nodes ----

int TileGraph::Constant(DType type, double value) {
  Node node{};
  node.kind = Kind::kConstant;
  node.type = type;
  node.value = type == DType::kFloat32 ? static_cast<float>(value) : value;
  nodes.push_back(node);
  return nodes.size() - 1;
}

int TileGraph::Cast(int from, DType type) {
  if (nodes[from].type == type) return from;
  if (IsConstant(from) && IsFloat(type) && !IsNarrowFloat(type)) {
    return Constant(type, nodes[from].value);
  }
  Node node{};
  node.kind = Kind::kCast;
  node.type = type;
  node.uses = nodes[from].uses;
  node.arity = 1;
  node.args[0] = static_cast<int16_t>(from);
  nodes.push_back(node);
  return nodes.size() - 1;
}

int TileGraph::Op(TileOpcode op, DType type, std::initializer_list<int> args) {
  Node node{};
  node.kind = Kind::kOp;
  node.op = op;
  node.type = type;
  node.uses = 1;  // of a node within a rewrite; Build sets the number for the instruction's own
  for (const int arg : args) node.args[node.arity++] = static_cast<int16_t>(arg);
  nodes.push_back(node);
  return nodes.size() - 1;
}

bool TileGraph::IsConstant(int node, double value) const {
  return IsConstant(node) && nodes[node].value == value;
}

bool TileGraph::WithConstant(int node, TileOpcode op, int* x, double* constant) const {
  if (!Is(node, op)) return false;
  for (const int i : {1, 0}) {
    if (!IsConstant(nodes[node].args[i])) continue;
    *constant = nodes[nodes[node].args[i]].value;
    *x = nodes[node].args[1 - i];
    return true;
  }
  return false;
}

// ---- float32 ----

// min(max(x, lo), hi), merged with a clamp below.
int TileGraph::Clamp(int x, double lo, double hi) {
  if (Absorbable(x, TileOpcode::kAddRelu) && hi >= 0) {
    const auto args = nodes[x].args;
    return FloatOp(TileOpcode::kClamp,
                   {FloatOp(TileOpcode::kAdd, {args[0], args[1]}),
                    Constant(DType::kFloat32, std::max(lo, 0.0)), Constant(DType::kFloat32, hi)});
  }
  if (Absorbable(x, TileOpcode::kClamp)) {
    const Node& inner = nodes[x];
    const double inner_lo = nodes[inner.args[1]].value;
    const double inner_hi = nodes[inner.args[2]].value;
    if (inner_lo <= inner_hi && lo <= inner_hi && hi >= inner_lo) {
      return Clamp(inner.args[0], std::max(lo, inner_lo), std::min(hi, inner_hi));
    }
  }
  if (lo == 0 && hi == kInfinity && Absorbable(x, TileOpcode::kAdd)) {
    return FloatOp(TileOpcode::kAddRelu, {nodes[x].args[0], nodes[x].args[1]});
  }
  return FloatOp(TileOpcode::kClamp,
                 {x, Constant(DType::kFloat32, lo), Constant(DType::kFloat32, hi)});
}

int TileGraph::Centred(int whole) {
  const Node node = nodes[whole];
  if (node.type != DType::kInt32 || node.uses != 1) return -1;
  const bool shifted = Is(whole, TileOpcode::kSub);
  int code = shifted ? node.args[0] : whole;
  if (nodes[code].kind == Kind::kCast) {
    code = nodes[code].args[0];
    const DType type = nodes[code].type;
    if (!IsByte(type) && !IsWord(type)) return -1;
  } else if (nodes[code].kind != Kind::kInput) {
    return -1;
  }
  const int zero = shifted ? node.args[1] : Constant(DType::kInt32, 0);
  return FloatOp(TileOpcode::kDequantize, {code, zero, Constant(DType::kFloat32, 1)});
}

int TileGraph::Quantized(int clamp, DType type) {
  if (!IsByte(type) && !IsWord(type)) return -1;
  if (!Absorbable(clamp, TileOpcode::kClamp)) return -1;
  const Node bounded = nodes[clamp];
  const double codes = IsByte(type) ? 0x1p8 : 0x1p16;
  const double least = type == DType::kInt8 || type == DType::kInt16 ? -codes / 2 : 0;
  const double most = least + codes - 1;
  const double lo = nodes[bounded.args[1]].value, hi = nodes[bounded.args[2]].value;
  if (!(lo >= least && lo <= hi && hi <= most)) return -1;
  if (lo != std::rint(lo) || hi != std::rint(hi)) return -1;
  int rounded = bounded.args[0], zero = -1;
  if (Absorbable(rounded, TileOpcode::kAdd)) {
    const auto& args = nodes[rounded].args;
    const int i = Is(args[0], TileOpcode::kRound) ? 0 : 1;
    zero = args[1 - i];
    rounded = args[i];
  }
  if (!Absorbable(rounded, TileOpcode::kRound)) return -1;
  int x = nodes[rounded].args[0], scale = -1;
  if (Absorbable(x, TileOpcode::kDiv)) {
    scale = nodes[x].args[1];
    x = nodes[x].args[0];
  }
  if (zero < 0) zero = Constant(DType::kFloat32, 0);
  if (scale < 0) scale = Constant(DType::kFloat32, 1);
  if (IsByte(type) && IsConstant(scale, 1) && IsConstant(zero) && lo == least && hi == most) {
    const int made = OfBytes(x, nodes[zero].value, type);
    if (made >= 0) return made;
  }
  return Op(TileOpcode::kQuantize, type, {x, scale, zero, bounded.args[1], bounded.args[2]});
}

int TileGraph::OfBytes(int x, double zero, DType type) {
  TileOpcode op = TileOpcode::kSumOfBytes;
  int a = x, b = -1;
  double factor = 1;
  if (Absorbable(x, TileOpcode::kDequantizeAdd)) {
    b = nodes[x].args[3];
  } else if (Absorbable(x, TileOpcode::kMul) && WithConstant(x, TileOpcode::kMul, &a, &factor) &&
             Absorbable(a, TileOpcode::kDequantize)) {
    op = TileOpcode::kProductOfBytes;
    b = nodes[a].args[2];
  } else {
    return -1;
  }
  if (!Absorbable(b, TileOpcode::kDequantize)) return -1;
  const auto of_a = nodes[a].args, of_b = nodes[b].args;
  const bool sum = op == TileOpcode::kSumOfBytes;
  if (nodes[of_a[0]].type != type || nodes[of_b[0]].type != type) return -1;
  if (!IsConstant(of_a[1]) || !IsConstant(of_b[1]) || !IsConstant(of_b[2])) return -1;
  if (sum ? !IsConstant(of_a[2]) : !IsConstant(of_b[2], 1)) return -1;
  const double factor_a = sum ? nodes[of_a[2]].value : factor, factor_b = nodes[of_b[2]].value;
  const double zeros[] = {nodes[of_a[1]].value, nodes[of_b[1]].value, zero};
  for (const double each : zeros) {
    if (!(std::abs(each) <= 255) || each != std::rint(each)) return -1;
  }
  // What is rounded has to be an int32.
  constexpr double kMost = 1e4;
  if (!(std::abs(factor_a) < kMost && std::abs(factor_b) < kMost)) return -1;
  const auto pair = [&](double zero_point, double multiplier) {
    const float both[] = {static_cast<float>(zero_point), static_cast<float>(multiplier)};
    return Constant(DType::kFloat64, std::bit_cast<double>(both));
  };
  const int pair_a = pair(zeros[0], factor_a), pair_b = pair(zeros[1], factor_b);
  return Op(op, type, {of_a[0], of_b[0], pair_a, pair_b, Constant(DType::kInt32, zero)});
}

// Selections between float32 values: those that compare x itself with a constant are one operation.
int TileGraph::Where(int condition, int yes, int no) {
  const Node& c = nodes[condition];
  if (Absorbable(condition, TileOpcode::kLess) && c.args[0] == no && IsConstant(c.args[1], 0) &&
      Absorbable(yes, TileOpcode::kMul)) {
    for (const int i : {0, 1}) {
      const int slope = nodes[yes].args[1 - i];
      if (nodes[yes].args[i] == no && IsConstant(slope)) {
        return FloatOp(TileOpcode::kLeakyRelu, {no, slope});
      }
    }
  }
  if (Absorbable(condition, TileOpcode::kGreater) && c.args[0] == yes && IsConstant(c.args[1]) &&
      IsConstant(no, 0) && !std::signbit(nodes[no].value)) {
    return FloatOp(TileOpcode::kThreshold, {yes, c.args[1]});
  }
  return FloatOp(TileOpcode::kWhere, {condition, yes, no});
}

int TileGraph::Add(int a, int b) {
  for (const auto& [relu, rest] : {std::pair{a, b}, std::pair{b, a}}) {
    if (const int made = SumWithRelu(relu, rest); made >= 0) return made;
  }
  for (const auto& [product, addend] : {std::pair{a, b}, std::pair{b, a}}) {
    if (!Absorbable(product, TileOpcode::kDequantize)) continue;
    const auto args = nodes[product].args;
    return FloatOp(TileOpcode::kDequantizeAdd, {args[0], args[1], args[2], addend});
  }
  return Sum(DType::kFloat32, a, b);
}

int TileGraph::Sum(DType type, int a, int b) {
  for (const auto& [product, addend] : {std::pair{a, b}, std::pair{b, a}}) {
    if (!Absorbable(product, TileOpcode::kMul)) continue;
    return Op(TileOpcode::kFma, type, {nodes[product].args[0], nodes[product].args[1], addend});
  }
  return Op(TileOpcode::kAdd, type, {a, b});
}

// x to a constant power by multiplications and roots, which are exact where pow is.
int TileGraph::Pow(DType type, int a, int b) {
  if (!IsConstant(b)) return Op(TileOpcode::kPow, type, {a, b});
  const double exponent = nodes[b].value;
  if (exponent == 1) return a;
  if (exponent == 2) return Op(TileOpcode::kMul, type, {a, a});
  if (exponent == 3) {
    if (IsFloat(type)) return Op(TileOpcode::kCube, type, {a});
    return Op(TileOpcode::kMul, type, {Op(TileOpcode::kMul, type, {a, a}), a});
  }
  if (!IsFloat(type)) return Op(TileOpcode::kPow, type, {a, b});
  if (exponent == 0.5) return Op(TileOpcode::kSqrt, type, {a});
  if (exponent == -1) return Op(TileOpcode::kReciprocal, type, {a});
  if (exponent == -0.5) {
    return Op(TileOpcode::kReciprocal, type, {Op(TileOpcode::kSqrt, type, {a})});
  }
  return Op(TileOpcode::kPow, type, {a, b});
}

int TileGraph::Mul(int a, int b) {
  for (const auto& [x, scale] : {std::pair{a, b}, std::pair{b, a}}) {
    if (!Absorbable(x, TileOpcode::kDequantize) || !IsConstant(nodes[x].args[2], 1)) continue;
    return FloatOp(TileOpcode::kDequantize, {nodes[x].args[0], nodes[x].args[1], scale});
  }
  for (const auto& [square, x] : {std::pair{a, b}, std::pair{b, a}}) {
    if (Absorbable(square, TileOpcode::kMul) && nodes[square].args[0] == x &&
        nodes[square].args[1] == x) {
      return FloatOp(TileOpcode::kCube, {x});
    }
  }
  Product product;
  Collect(a, false, &product);
  Collect(b, false, &product);
  if (!product.overflow && product.count == 2) {
    for (const int i : {0, 1}) {
      double scale = product.scale;
      const int gated = Gated(product.factors[i], product.factors[1 - i], &scale);
      if (gated < 0) continue;
      if (Is(gated, TileOpcode::kHardSwish)) return Scaled(gated, scale);
      if (scale == 1) return gated;
      return FloatOp(TileOpcode::kMul, {gated, Constant(DType::kFloat32, scale)});
    }
  }
  if (!product.overflow && product.count == 1 &&
      Absorbable(product.factors[0], TileOpcode::kHardSwish)) {
    return Scaled(product.factors[0], product.scale);
  }
  // A constant that completes one of the above, such as the half in front of a GELU.
  if (!product.overflow && product.count == 1 && product.scale == 1 &&
      (Is(product.factors[0], TileOpcode::kGelu) ||
       Is(product.factors[0], TileOpcode::kGeluTanh))) {
    return product.factors[0];
  }
  return FloatOp(TileOpcode::kMul, {a, b});
}

int TileGraph::Float(TileOpcode op, const int* args) {
  const int a = args[0];
  const int b = args[1];
  double value = 0;
  switch (op) {
    case TileOpcode::kAdd: return Add(a, b);
    case TileOpcode::kMul: return Mul(a, b);
    case TileOpcode::kPow: return Pow(DType::kFloat32, a, b);
    case TileOpcode::kRelu: return Clamp(a, 0, kInfinity);
    case TileOpcode::kSub:
      if (IsConstant(b)) return Add(a, Constant(DType::kFloat32, -nodes[b].value));
      break;
    case TileOpcode::kDiv:
      if (IsConstant(b)) {
        int exponent = 0;
        const double mantissa = std::frexp(nodes[b].value, &exponent);
        // Exact when the reciprocal of the power of two is a normal number.
        if (std::abs(mantissa) == 0.5 && std::abs(exponent) < 120) {
          return Mul(a, Constant(DType::kFloat32, 1 / nodes[b].value));
        }
        const double size = std::abs(nodes[b].value);
        if (Absorbable(a, TileOpcode::kHardSwish) && size > 1e-30 && size < 1e30) {
          return Scaled(a, 1 / nodes[b].value);
        }
      } else if (int magnitude = -1; WithConstant(b, TileOpcode::kAdd, &magnitude, &value) &&
                                     value == 1 && Absorbable(b, TileOpcode::kAdd) &&
                                     Absorbable(magnitude, TileOpcode::kAbs) &&
                                     nodes[magnitude].args[0] == a) {
        return FloatOp(TileOpcode::kSoftsign, {a});
      }
      break;
    case TileOpcode::kMax:
    case TileOpcode::kMin:
      for (const auto& [x, bound] : {std::pair{a, b}, std::pair{b, a}}) {
        if (!IsConstant(bound) || std::isnan(nodes[bound].value)) continue;
        const double value = nodes[bound].value;
        return op == TileOpcode::kMax ? Clamp(x, value, kInfinity) : Clamp(x, -kInfinity, value);
      }
      break;
    default: break;
  }
  return b < 0 ? FloatOp(op, {a}) : FloatOp(op, {a, b});
}

// ---- building ----

int TileGraph::Convert(const Expression& expression, const Instruction& cast, int x,
                       bool is_result) {
  const DType type = ComputedType(cast.type);
  if (IsNarrowFloat(cast.type) && nodes[x].type == DType::kFloat64) {  // rounded once
    const int narrow = Cast(x, cast.type);
    return is_result ? narrow : Cast(narrow, type);
  }
  int made = -1;
  if (nodes[x].type == DType::kFloat32) made = Quantized(x, type);
  if (type == DType::kFloat32) made = Centred(x);
  if (made < 0) made = Cast(x, type);
  if (IsNarrowFloat(cast.type) && expression.RegisterType(cast.args[0]) != cast.type &&
      !is_result) {
    made = Cast(Cast(made, cast.type), type);  // the rounding is meant
  }
  return made;
}

int TileGraph::Test(Fn fn, int a, int b) {
  const DType operands = nodes[a].type;
  if (Arity(fn) == 2) return Op(OpcodeOf(fn), DType::kBool, {a, Cast(b, operands)});
  // An integer is neither NaN nor infinite.
  if (!IsFloat(operands)) return Constant(DType::kBool, 0);
  const Node& x = nodes[a];
  const bool widened = x.kind == Kind::kCast && IsHalf(nodes[x.args[0]].type);
  return Op(OpcodeOf(fn), DType::kBool, {widened ? x.args[0] : a});
}

int TileGraph::Compute(Fn fn, DType type, const int* args) {
  const auto [a, b] = std::pair(args[0], args[1]);
  if (type == DType::kFloat32) return Float(OpcodeOf(fn), args);
  if (fn == Fn::kAdd && type == DType::kFloat64) return Sum(type, a, b);
  if (fn == Fn::kPow) return Pow(type, a, b);
  if (fn == Fn::kMin && type != DType::kBool && Absorbable(a, TileOpcode::kMax)) {
    const auto [x, least] = std::pair(nodes[a].args[0], nodes[a].args[1]);
    return Op(TileOpcode::kClamp, type, {x, least, b});
  }
  return Arity(fn) == 1 ? Op(OpcodeOf(fn), type, {a}) : Op(OpcodeOf(fn), type, {a, b});
}

int TileGraph::Apply(const Instruction& instruction, int* args) {
  const Fn fn = instruction.fn;
  const DType type = ComputedType(instruction.type);
  if (ReturnsBool(fn)) return Cast(Test(fn, args[0], args[1]), type);
  const DType operands = IsLogical(fn) ? DType::kBool : type;
  for (int i = 0; i < Arity(fn); ++i) {
    args[i] = Cast(args[i], fn == Fn::kWhere && i == 0 ? DType::kBool : operands);
  }
  if (fn != Fn::kWhere) return Cast(Compute(fn, operands, args), type);
  return type == DType::kFloat32 ? Where(args[0], args[1], args[2])
                                 : Op(TileOpcode::kWhere, type, {args[0], args[1], args[2]});
}

std::string_view TileGraph::Build(const Expression& expression) {
  int map[256];  // register -> node
  int16_t uses[256] = {};
  for (const Instruction& instruction : expression.code) {
    for (int i = 0; i < Arity(instruction.fn); ++i) ++uses[instruction.args[i]];
  }
  int reg = 0;
  for (const DType type : expression.inputs) {
    if (!IsReal(type)) return "an operand's element type is not a real number or bool";
    Node node{};
    node.kind = Kind::kInput;
    node.type = type;
    node.input = static_cast<int16_t>(reg);
    node.uses = uses[reg];
    nodes.push_back(node);
    map[reg++] = Cast(nodes.size() - 1, ComputedType(type));
  }
  for (const Expression::Constant& constant : expression.constants) {
    if (!IsReal(constant.type)) return "a constant's element type is not a real number or bool";
    map[reg++] = Constant(ComputedType(constant.type), constant.value);
  }
  for (const Instruction& instruction : expression.code) {
    if (!IsReal(instruction.type)) return "a result's element type is not a real number or bool";
    // An integer that float32 does not have would be rounded twice, to the nearest and up.
    if (instruction.type == DType::kFloat8E8M0 &&
        !IsFloat(expression.RegisterType(instruction.args[0]))) {
      return "powers of two are made of floats alone";
    }
    int args[3] = {-1, -1, -1};
    for (int i = 0; i < Arity(instruction.fn); ++i) args[i] = map[instruction.args[i]];
    const bool is_result = reg == expression.registers() - 1;
    const int made = instruction.fn == Fn::kCast
                         ? Convert(expression, instruction, args[0], is_result)
                         : Apply(instruction, args);
    // A node that stands for two registers may not be absorbed by a user of one of them.
    const bool shared = std::find(map, map + reg, made) != map + reg;
    nodes[made].uses = shared ? static_cast<int16_t>(nodes[made].uses + uses[reg]) : uses[reg];
    map[reg++] = made;
    if (nodes.size() > kMaxNodes - 16) return "the expression is too long";
  }
  result = Cast(map[expression.code.empty() ? 0 : reg - 1], expression.ResultType());
  return {};
}

}  // namespace sardonyx
