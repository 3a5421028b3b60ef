// Activations that are spelled in steps, found in the graph of an expression.

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/tile_graph.h"

namespace sardonyx {
namespace {

bool Near(double value, double wanted) { return std::abs(value - wanted) <= 2e-6 * wanted; }

}  // namespace

int TileGraph::SumWithRelu(int relu, int rest) {
  const auto is_clamp = [&](int node, double lo, double hi) {
    return Absorbable(node, TileOpcode::kClamp) && IsConstant(nodes[node].args[1], lo) &&
           IsConstant(nodes[node].args[2], hi);
  };
  if (!is_clamp(relu, 0, kInfinity)) return -1;
  const int x = nodes[relu].args[0];
  const auto descends = [&](int* node, TileOpcode op) {
    if (!Absorbable(*node, op)) return false;
    *node = nodes[*node].args[0];
    return true;
  };
  int e = rest;
  if (descends(&e, TileOpcode::kLog1p)) {
    const bool matches = descends(&e, TileOpcode::kExp) && descends(&e, TileOpcode::kNeg) &&
                         descends(&e, TileOpcode::kAbs) && e == x;
    return matches ? FloatOp(TileOpcode::kSoftplus, {x}) : -1;
  }
  double alpha = 1, minus = 0;
  if (Absorbable(e, TileOpcode::kMul)) WithConstant(e, TileOpcode::kMul, &e, &alpha);
  if (!Absorbable(e, TileOpcode::kAdd) || !WithConstant(e, TileOpcode::kAdd, &e, &minus) ||
      minus != -1 || !descends(&e, TileOpcode::kExp) || !is_clamp(e, -kInfinity, 0) ||
      nodes[e].args[0] != x) {
    return -1;
  }
  return FloatOp(TileOpcode::kElu, {x, Constant(DType::kFloat32, alpha)});
}

// The factors of a tree of products, constants multiplied into `scale`.
void TileGraph::Collect(int node, bool outermost, Product* product) const {
  const Node& n = nodes[node];
  if (IsConstant(node)) {
    product->scale *= n.value;
  } else if ((outermost || n.uses == 1) && Is(node, TileOpcode::kMul)) {
    Collect(n.args[0], false, product);
    Collect(n.args[1], false, product);
  } else if ((outermost || n.uses == 1) && Is(node, TileOpcode::kDiv) && IsConstant(n.args[1])) {
    product->scale /= nodes[n.args[1]].value;
    Collect(n.args[0], false, product);
  } else if (product->count == 3) {
    product->overflow = true;
  } else {
    product->factors[product->count++] = node;
  }
}

// The factor of erf(factor * x), perhaps written as a division; 0 for anything else.
double TileGraph::FactorInErf(int node, int x) const {
  if (!Is(node, TileOpcode::kErf)) return 0;
  int of = -1;
  double constant = 0;
  const int argument = nodes[node].args[0];
  if (!WithConstant(argument, TileOpcode::kMul, &of, &constant)) {
    if (!Is(argument, TileOpcode::kDiv) || !IsConstant(nodes[argument].args[1])) return 0;
    of = nodes[argument].args[0];
    constant = 1 / nodes[nodes[argument].args[1]].value;
  }
  return of == x && constant > 1e-3 && constant < 1e3 ? constant : 0;
}

// sqrt(2 / pi) * (x + 0.044715 x^3), written so or as a product with x * (1 + 0.044715 x^2).
bool TileGraph::IsGeluPolynomial(int node, int x) const {
  constexpr double kFactor = 0.7978845608028654;
  constexpr double kCubic = 0.044715;
  Product product;
  Collect(node, true, &product);
  if (product.overflow || !Near(product.scale, kFactor)) return false;
  const auto is_power = [&](int power, int exponent) {
    if (exponent == 3) return Is(power, TileOpcode::kCube) && nodes[power].args[0] == x;
    return Is(power, TileOpcode::kMul) && nodes[power].args[0] == x && nodes[power].args[1] == x;
  };
  const auto is_sum = [&](int sum, int exponent) {
    if (!Is(sum, TileOpcode::kFma)) return false;
    const auto& args = nodes[sum].args;
    const bool addend = exponent == 3 ? args[2] == x : IsConstant(args[2], 1.0);
    if (!addend) return false;
    int inner = -1;
    double constant = 0;
    for (const int i : {0, 1}) {
      if (IsConstant(args[i]) && Near(nodes[args[i]].value, kCubic) &&
          is_power(args[1 - i], exponent)) {
        return true;
      }
      if (exponent == 2 && args[i] == x &&  // (x * 0.044715) * x
          WithConstant(args[1 - i], TileOpcode::kMul, &inner, &constant) && inner == x &&
          Near(constant, kCubic)) {
        return true;
      }
    }
    return false;
  };
  if (product.count == 1) return is_sum(product.factors[0], 3);
  return product.count == 2 && ((product.factors[0] == x && is_sum(product.factors[1], 2)) ||
                                (product.factors[1] == x && is_sum(product.factors[0], 2)));
}

// x * gate as one operation, or -1. *scale becomes what remains to be multiplied.
int TileGraph::Gated(int x, int gate, double* scale) {
  const Node g = nodes[gate];
  if (g.kind != Kind::kOp || g.uses != 1) return -1;
  int inner = -1;
  double constant = 0;
  if (WithConstant(gate, TileOpcode::kAdd, &inner, &constant) && constant == 1) {
    const bool by_tanh = Is(inner, TileOpcode::kTanh) && IsGeluPolynomial(nodes[inner].args[0], x);
    const double factor = by_tanh ? 0 : FactorInErf(inner, x);
    if (!by_tanh && factor == 0) return -1;
    *scale *= 2;
    if (by_tanh) return FloatOp(TileOpcode::kGeluTanh, {x});
    return FloatOp(TileOpcode::kGelu, {x, Constant(DType::kFloat32, factor)});
  }
  if (g.op == TileOpcode::kTanh && Absorbable(g.args[0], TileOpcode::kSoftplus) &&
      nodes[g.args[0]].args[0] == x) {
    return FloatOp(TileOpcode::kMish, {x});
  }
  if (g.op == TileOpcode::kSigmoid) {
    double alpha = 1;
    if (g.args[0] != x &&
        !(WithConstant(g.args[0], TileOpcode::kMul, &inner, &alpha) && inner == x)) {
      return -1;
    }
    return FloatOp(TileOpcode::kSwish, {x, Constant(DType::kFloat32, -alpha)});
  }
  if (g.op == TileOpcode::kClamp) {
    double a = 1;
    double b = 0;
    const Node& line = nodes[g.args[0]];
    if (Is(g.args[0], TileOpcode::kFma) && IsConstant(line.args[2])) {
      b = nodes[line.args[2]].value;
      for (const int i : {0, 1}) {
        if (IsConstant(line.args[i])) {
          a = nodes[line.args[i]].value;
          inner = line.args[1 - i];
        }
      }
    } else if (!WithConstant(g.args[0], TileOpcode::kAdd, &inner, &b)) {
      return -1;
    }
    const int lo = g.args[1], hi = g.args[2];
    if (inner != x || !std::isfinite(nodes[lo].value) || !std::isfinite(nodes[hi].value)) return -1;
    return FloatOp(TileOpcode::kHardSwish,
                   {x, Constant(DType::kFloat32, a), Constant(DType::kFloat32, b), lo, hi});
  }
  return -1;
}

// A HardSwish times a constant. Were a scale such as 1/6 rounded, all values of a layer would err
// in one direction, which sums over them do not forgive. So the line and its bounds are multiplied
// by a number of few bits, which is exact, such that the rest of the scale is nearly a float32.
int TileGraph::Scaled(int hard, double scale) {
  if (scale == 1) return hard;
  const auto args = nodes[hard].args;
  const double slope = nodes[args[1]].value;
  const auto is_float = [](double value) { return value == static_cast<float>(value); };
  const auto line = [&](int i) { return nodes[args[2 + i]].value / slope; };  // b, lo, hi of x + b
  if (!is_float(line(0)) || !is_float(line(1)) || !is_float(line(2))) {
    return FloatOp(TileOpcode::kMul, {hard, Constant(DType::kFloat32, scale)});
  }
  scale *= slope;
  double factor = 0.0625, least = 1;  // below 1/6: what x is multiplied with does not overflow
  for (int i = 64; i < 128 && least > 3e-9; ++i) {
    const double tried = i / 1024.0;
    const double error = std::abs(static_cast<float>(scale / tried) * tried / scale - 1);
    if (error < least && is_float(line(0) * tried) && is_float(line(1) * tried) &&
        is_float(line(2) * tried)) {
      factor = tried;
      least = error;
    }
  }
  const auto constant = [&](double value) { return Constant(DType::kFloat32, value); };
  const int scaled =
      FloatOp(TileOpcode::kHardSwish, {args[0], constant(factor), constant(line(0) * factor),
                                       constant(line(1) * factor), constant(line(2) * factor)});
  return FloatOp(TileOpcode::kMul, {scaled, constant(scale / factor)});
}

void TileGraph::JoinHardSigmoids() {
  for (int i = 0; i < nodes.size(); ++i) {
    Node& clamp = nodes[i];
    if (!Is(i, TileOpcode::kClamp) || clamp.type != DType::kFloat32) continue;
    const int line = clamp.args[0];
    if (!Absorbable(line, TileOpcode::kFma)) continue;
    const auto args = nodes[line].args;
    const int factor = IsConstant(args[0]) ? 0 : 1;
    if (!IsConstant(args[factor]) || !IsConstant(args[2])) continue;
    if (!IsConstant(clamp.args[1]) || !IsConstant(clamp.args[2])) continue;
    clamp.op = TileOpcode::kHardSigmoid;
    clamp.args = {args[1 - factor], args[factor], args[2], clamp.args[1], clamp.args[2]};
    clamp.arity = 5;
  }
}

}  // namespace sardonyx
