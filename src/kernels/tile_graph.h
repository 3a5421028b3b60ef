#pragma once
// An Expression as a graph of tile opcodes in computed types, with chains that have a kernel of
// their own replaced by it. The step between an Expression and a TileProgram.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string_view>

#include "base/expression.h"
#include "kernels/tile_ops.h"
#include "kernels/tile_program.h"

namespace sardonyx {

struct TileGraph {
  static constexpr int kMaxNodes = 1200;
  enum class Kind : uint8_t { kInput, kConstant, kOp, kCast };
  struct Node {
    Kind kind;
    TileOpcode op;  // of kOp
    DType type;     // of the value; 16-bit floats for inputs and roundings alone
    int16_t input;  // of kInput
    int16_t uses;   // by the expression's instructions: one use means that it may be absorbed
    double value;   // of kConstant
    std::array<int16_t, 5> args;
    int8_t arity;
  };

  InlineVector<Node, kMaxNodes> nodes;  // operands come before their users
  int result = 0;

  // Returns an empty view, or why the expression has no such graph.
  std::string_view Build(const Expression& expression);

  // Makes one operation of a product, a sum and a clamp by constants, once no pattern looks for
  // these any more.
  void JoinHardSigmoids();

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  int Constant(DType type, double value);
  int Cast(int node, DType type);
  int Op(TileOpcode op, DType type, std::initializer_list<int> args);
  int FloatOp(TileOpcode op, std::initializer_list<int> args) {
    return Op(op, DType::kFloat32, args);
  }

  // One instruction, its operands being nodes already: casts; all others, by what they return.
  int Convert(const Expression& expression, const Instruction& cast, int x, bool is_result);
  int Apply(const Instruction& instruction, int* args);
  int Test(Fn fn, int a, int b);                    // a comparison, or whether a float is finite
  int Compute(Fn fn, DType type, const int* args);  // operands and result of one type

  // a + b, as one operation where one of them is a product.
  int Sum(DType type, int a, int b);
  // Float32 operations, simplified.
  int Float(TileOpcode op, const int* args);
  int Add(int a, int b);
  int Mul(int a, int b);
  int Pow(DType type, int a, int b);
  int Clamp(int x, double lo, double hi);
  // code - zero point, in int32, as one operation to float32, or -1; a product scales it.
  int Centred(int whole);
  // A clamp of rounded values cast to bytes or words, likewise.
  int Quantized(int clamp, DType type);
  // Rounded sums and products of two centred bytes by constants, plus a constant, as bytes again:
  // one operation, or -1.
  int OfBytes(int x, double zero, DType type);
  int Where(int condition, int yes, int no);

  // Of activations that are spelled in steps (tile_graph_activations.cc).
  struct Product {
    int factors[3];
    int count = 0;
    double scale = 1;
    bool overflow = false;  // more than three factors
  };
  void Collect(int node, bool outermost, Product* product) const;
  int Gated(int x, int gate, double* scale);
  int Scaled(int hard, double scale);
  // max(x, 0) + what follows as one operation, or -1.
  int SumWithRelu(int relu, int rest);

  bool Is(int node, TileOpcode op) const {
    return nodes[node].kind == Kind::kOp && nodes[node].op == op;
  }
  bool Absorbable(int node, TileOpcode op) const { return Is(node, op) && nodes[node].uses == 1; }
  bool IsConstant(int node) const { return nodes[node].kind == Kind::kConstant; }
  bool IsConstant(int node, double value) const;
  // If `node` is op(x, constant) in either order.
  bool WithConstant(int node, TileOpcode op, int* x, double* constant) const;
  double FactorInErf(int node, int x) const;
  bool IsGeluPolynomial(int node, int x) const;
};

}  // namespace sardonyx
