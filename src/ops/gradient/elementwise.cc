// Derivatives of the scalar functions. At a kink: 0 for Abs and Relu, half for each side of Min and
// Max where both are differentiated, else all for the one that is.

#include <numbers>

#include "ops/gradient/backward.h"

namespace sardonyx::ops {
namespace {

Val Zero(Val like) { return like.builder->Scalar(like.dtype(), 0); }

void Extreme(Backward& node, bool max) {
  const Val a = node.in(0), b = node.in(1), g = node.grad();
  const Val first = max ? Greater(a, b) : Less(a, b), second = max ? Less(a, b) : Greater(a, b);
  const Val tie = node.wants(0) && node.wants(1) ? g * 0.5 : g;
  const Val shared = Where(Equal(a, b), tie, Zero(g));
  node.Add(0, Where(first, g, shared));
  node.Add(1, Where(second, g, shared));
}

void Power(Backward& node) {
  const Val x = node.in(0), g = node.grad(), y = node.out(), p = CastLike(node.in(1), x);
  if (node.wants(0)) node.Add(0, g * Where(Equal(p, 0), Zero(x), p * Pow(x, p - 1)));
  if (node.wants(1)) node.Add(1, g * y * Where(Equal(x, 0), Zero(x), Log(x)));
}

// The factor that a unary function's gradient is multiplied by; empty: it is no such function.
Val Derivative(Fn fn, Val x, Val y) {
  switch (fn) {
    case Fn::kAbs: return Sign(x);
    case Fn::kSqrt: return 0.5 / y;
    case Fn::kReciprocal: return -(y * y);
    case Fn::kExp: return y;
    case Fn::kLog: return Reciprocal(x);
    case Fn::kLog1p: return Reciprocal(1 + x);
    case Fn::kSin: return Cos(x);
    case Fn::kCos: return -Sin(x);
    case Fn::kTan: return 1 + y * y;
    case Fn::kAsin: return Reciprocal(Sqrt(1 - x * x));
    case Fn::kAcos: return -Reciprocal(Sqrt(1 - x * x));
    case Fn::kAtan: return Reciprocal(1 + x * x);
    case Fn::kSinh: return Cosh(x);
    case Fn::kCosh: return Sinh(x);
    case Fn::kTanh: return 1 - y * y;
    case Fn::kAsinh: return Reciprocal(Sqrt(1 + x * x));
    case Fn::kAcosh: return Reciprocal(Sqrt(x * x - 1));
    case Fn::kAtanh: return Reciprocal(1 - x * x);
    case Fn::kErf: return 2 * std::numbers::inv_sqrtpi * Exp(-(x * x));
    case Fn::kSigmoid: return y * (1 - y);
    default: return {};
  }
}

}  // namespace

bool ElementwiseBackward(Fn fn, Backward& node) {
  const Val g = node.grad();
  if (const Val factor = Derivative(fn, node.in(0), node.out())) {
    node.Add(0, g * factor);
    return true;
  }
  switch (fn) {
    case Fn::kSign:
    case Fn::kFloor:
    case Fn::kCeil:
    case Fn::kRound: return true;
    case Fn::kCast: node.Add(0, g); return true;
    case Fn::kNeg: node.Add(0, -g); return true;
    case Fn::kRelu: node.Add(0, Where(Greater(node.in(0), 0), g, Zero(g))); return true;
    case Fn::kAdd:
      node.Add(0, g);
      node.Add(1, g);
      return true;
    case Fn::kSub:
      node.Add(0, g);
      if (node.wants(1)) node.Add(1, -g);
      return true;
    case Fn::kMul:
      if (node.wants(0)) node.Add(0, g * node.in(1));
      if (node.wants(1)) node.Add(1, g * node.in(0));
      return true;
    case Fn::kDiv:
      if (node.wants(0)) node.Add(0, g / node.in(1));
      if (node.wants(1)) node.Add(1, -(g * node.out() / node.in(1)));
      return true;
    // a mod b = a - b * q, with the whole number q constant.
    case Fn::kMod:
    case Fn::kFMod:
      node.Add(0, g);
      if (node.wants(1)) node.Add(1, g * (node.out() - node.in(0)) / node.in(1));
      return true;
    case Fn::kPow: Power(node); return true;
    case Fn::kMin: Extreme(node, false); return true;
    case Fn::kMax: Extreme(node, true); return true;
    case Fn::kWhere:
      if (node.wants(1)) node.Add(1, Where(node.in(0), g, Zero(g)));
      if (node.wants(2)) node.Add(2, Where(node.in(0), Zero(g), g));
      return true;
    default: return false;
  }
}

}  // namespace sardonyx::ops
