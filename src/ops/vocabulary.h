#pragma once
// The words operators are written in. Types and shapes of results follow from the core operations.
// Scalars written as numbers take the element type of the other operand.

#include <string_view>
#include <vector>

#include "ops/builder.h"
#include "ops/core/core.h"

namespace sardonyx {

// One function a scalar function: Abs(x), Add(a, b), Where(c, a, b), ... Broadcast as in numpy.
Val Apply(Fn fn, const std::vector<Val>& operands);
#define SARDONYX_UNARY(name) \
  inline Val name(Val x) { return Apply(Fn::k##name, {x}); }
#define SARDONYX_BINARY(name)                                          \
  inline Val name(Val a, Val b) { return Apply(Fn::k##name, {a, b}); } \
  inline Val name(Val a, double b) {                                   \
    return Apply(Fn::k##name, {a, a.builder->Scalar(a.dtype(), b)});   \
  }
SARDONYX_UNARY(Abs)
SARDONYX_UNARY(Neg)
SARDONYX_UNARY(Sign)
SARDONYX_UNARY(Floor)
SARDONYX_UNARY(Ceil)
SARDONYX_UNARY(Round)
SARDONYX_UNARY(Sqrt)
SARDONYX_UNARY(Reciprocal)
SARDONYX_UNARY(Exp)
SARDONYX_UNARY(Log)
SARDONYX_UNARY(Log1p)
SARDONYX_UNARY(Sin)
SARDONYX_UNARY(Cos)
SARDONYX_UNARY(Tan)
SARDONYX_UNARY(Asin)
SARDONYX_UNARY(Acos)
SARDONYX_UNARY(Atan)
SARDONYX_UNARY(Sinh)
SARDONYX_UNARY(Cosh)
SARDONYX_UNARY(Tanh)
SARDONYX_UNARY(Asinh)
SARDONYX_UNARY(Acosh)
SARDONYX_UNARY(Atanh)
SARDONYX_UNARY(Erf)
SARDONYX_UNARY(Sigmoid)
SARDONYX_UNARY(Relu)
SARDONYX_UNARY(Not)
SARDONYX_UNARY(BitNot)
SARDONYX_UNARY(IsNaN)
SARDONYX_UNARY(IsInf)
SARDONYX_BINARY(Add)
SARDONYX_BINARY(Sub)
SARDONYX_BINARY(Mul)
SARDONYX_BINARY(Div)
SARDONYX_BINARY(Mod)
SARDONYX_BINARY(FMod)
SARDONYX_BINARY(Pow)
SARDONYX_BINARY(Min)
SARDONYX_BINARY(Max)
SARDONYX_BINARY(And)
SARDONYX_BINARY(Or)
SARDONYX_BINARY(Xor)
SARDONYX_BINARY(BitAnd)
SARDONYX_BINARY(BitOr)
SARDONYX_BINARY(BitXor)
SARDONYX_BINARY(ShiftLeft)
SARDONYX_BINARY(ShiftRight)
SARDONYX_BINARY(Equal)
SARDONYX_BINARY(Less)
SARDONYX_BINARY(LessEqual)
SARDONYX_BINARY(Greater)
SARDONYX_BINARY(GreaterEqual)
#undef SARDONYX_UNARY
#undef SARDONYX_BINARY
inline Val operator-(Val x) { return Neg(x); }
inline Val operator+(Val a, Val b) { return Add(a, b); }
inline Val operator-(Val a, Val b) { return Sub(a, b); }
inline Val operator*(Val a, Val b) { return Mul(a, b); }
inline Val operator/(Val a, Val b) { return Div(a, b); }
inline Val operator+(Val a, double b) { return Add(a, b); }
inline Val operator-(Val a, double b) { return Sub(a, b); }
inline Val operator*(Val a, double b) { return Mul(a, b); }
inline Val operator/(Val a, double b) { return Div(a, b); }
inline Val operator+(double a, Val b) { return Add(b, a); }
inline Val operator*(double a, Val b) { return Mul(b, a); }
inline Val operator-(double a, Val b) { return Sub(b.builder->Scalar(b.dtype(), a), b); }
inline Val operator/(double a, Val b) { return Div(b.builder->Scalar(b.dtype(), a), b); }

Val Where(Val condition, Val a, Val b);
Val Cast(Val x, DType to);  // x itself if it has that type
// As Cast-25: `saturate` and `round_mode` (up, down, nearest) matter for 8-bit floats alone.
Val CastTo(Val x, DType to, bool saturate, std::string_view round_mode);
Val CastLike(Val x, Val like);
Val Widen(Val x);  // float16 and bfloat16 as float32; all other types as they are
Val Clip(Val x, double low, double high);
Val Softplus(Val x);  // log(1 + exp(x)) without overflow

Val MatMul(Val a, Val b, bool transpose_a = false, bool transpose_b = false);  // rank >= 2 each
Val Reduce(std::string_view kind, Val x, const std::vector<int64_t>& axes, bool keepdims);
Val ReduceAll(std::string_view kind, Val x, bool keepdims);
Val Softmax(Val x, int64_t axis, bool log = false);

Val Transpose(Val x, const std::vector<int64_t>& perm);  // x itself if perm is the identity
Val Reshape(Val x, const std::vector<int64_t>& dims);    // ONNX meaning: 0 copies, -1 infers
Val Reshape(Val x, Val shape, bool allowzero = false);
Val Squeeze(Val x, const std::vector<int64_t>& axes);
Val Unsqueeze(Val x, const std::vector<int64_t>& axes);
Val Flatten(Val x, int64_t axis);
Val Slice(Val x, const std::vector<int64_t>& starts, const std::vector<int64_t>& ends,
          const std::vector<int64_t>& axes, const std::vector<int64_t>& steps = {});
Val Expand(Val x, Val shape);
Val Filled(Val shape, Tensor value);  // every element is the one of `value`
Val Concat(const std::vector<Val>& parts, int64_t axis);
std::vector<Val> Split(Val x, const std::vector<int64_t>& sizes, int64_t axis);
Val Gather(Val x, Val indices, int64_t axis);
Val ShapeOf(Val x);                              // int64 [rank]
Val ShapeOf(Val x, int64_t start, int64_t end);  // a part of it
Val SizeOf(Val x, int64_t axis);                 // int64 [1]: one dimension
Val Positions(Val count);                        // int64 [count]: 0, 1, ..., count - 1
Val GatherElements(Val x, Val indices, int64_t axis);
Val ScatterElements(Val x, Val indices, Val updates, int64_t axis);
// x, lengthened by zeros to `size` along the axis if that is more, with rows written from `start`
// on (int64 [1], or one for each item of axis 0).
Val WriteRows(Val x, Val rows, Val start, int64_t axis, Val size = {});
// Each slice along `axis` `count` times in a row: [a,b] -> [a,a,b,b].
Val Repeat(Val x, int64_t axis, Val count);
Val ToChannelsLast(Val x);            // [N,C,spatial...] -> [N,spatial...,C]
Val ToChannelsLast(Val x, int rank);  // where x may not know its rank
Val ToChannelsFirst(Val x);           // and back
// A vector [C] shaped to broadcast along axis 1 of a rank-r tensor: [C,1,...,1].
Val AlongChannels(Val vector, int rank);
Val AlongAxis(Val vector, int rank, int axis);  // the same for any axis

}  // namespace sardonyx
