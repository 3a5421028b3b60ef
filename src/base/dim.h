#pragma once
// Dimensions of a shape, known or symbolic, and arithmetic on them.

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace sardonyx {

// A known size (>= 0, or any integer when it is an element of a shape computation), or a symbol of
// a SymbolTable. Two equal Dims always have the same size.
class Dim {
 public:
  Dim() = default;                       // known 0
  Dim(int64_t value) : value_(value) {}  // NOLINT: a number is a dimension
  static Dim Symbol(int32_t id) {
    Dim dim;
    dim.value_ = id;
    dim.symbolic_ = true;
    return dim;
  }

  bool known() const { return !symbolic_; }
  int64_t value() const { return value_; }  // meaningful if known
  int32_t symbol() const { return static_cast<int32_t>(value_); }
  bool operator==(const Dim&) const = default;
  bool operator==(int64_t value) const { return known() && value_ == value; }

 private:
  int64_t value_ = 0;
  bool symbolic_ = false;
};

using Dims = std::vector<Dim>;

// Symbols are interned: the same expression of the same symbols is the same Dim. Folding covers
// what shape arithmetic of exported models needs: constants, a+0, a*1, a-a, (a*k)/k, max(a,a).
class SymbolTable {
 public:
  Dim Named(const std::string& name);  // one symbol a name (ONNX dim_param)
  Dim Fresh();                         // unknown, equal to itself alone

  Dim Add(Dim a, Dim b);
  Dim Sub(Dim a, Dim b);
  Dim Mul(Dim a, Dim b);
  Dim FloorDiv(Dim a, Dim b);  // b known: not 0
  Dim CeilDiv(Dim a, Dim b);
  Dim Min(Dim a, Dim b);
  Dim Max(Dim a, Dim b);
  // Broadcast of two dimensions of which neither is known to be 1 and not both are known: equal to
  // whichever is not 1 at run time.
  Dim Broadcast(Dim a, Dim b);
  // Whether the dimension can be shown to be at least 0: a size, or made of sizes without
  // subtraction.
  bool NonNegative(Dim dim) const;
  Dim Product(const Dims& dims);
  // Product(numerator) / Product(denominator) with common factors cancelled.
  Dim Quotient(Dims numerator, Dims denominator);

  // "batch", "(batch*12)", "?3".
  std::string Print(Dim dim) const;

 private:
  enum class Kind : uint8_t {
    kNamed,
    kFresh,
    kAdd,
    kSub,
    kMul,
    kFloorDiv,
    kCeilDiv,
    kMin,
    kMax,
    kBroadcast
  };
  struct Entry {
    Kind kind;
    Dim a, b;
    std::string name;
  };
  using Key = std::tuple<Kind, bool, int64_t, bool, int64_t>;
  Dim Intern(Kind kind, Dim a, Dim b);
  // dim = factor * coefficient with a known coefficient.
  void SplitCoefficient(Dim dim, Dim* factor, int64_t* coefficient) const;

  std::vector<Entry> entries_;
  std::map<Key, int32_t> interned_;
  std::map<std::string, int32_t> named_;
};

}  // namespace sardonyx
