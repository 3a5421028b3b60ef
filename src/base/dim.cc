#include "base/dim.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace sardonyx {
namespace {

int64_t FloorDivide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

int64_t CheckedMultiply(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_mul_overflow(a, b, &result)) {
    Fail(ErrorCode::kInvalidArgument, "a shape computation overflows: {} * {}", a, b);
  }
  return result;
}

int64_t CheckedAdd(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_add_overflow(a, b, &result)) {
    Fail(ErrorCode::kInvalidArgument, "a shape computation overflows: {} + {}", a, b);
  }
  return result;
}

}  // namespace

Dim SymbolTable::Named(const std::string& name) {
  auto [it, inserted] = named_.try_emplace(name, static_cast<int32_t>(entries_.size()));
  if (inserted) entries_.push_back({Kind::kNamed, {}, {}, name});
  return Dim::Symbol(it->second);
}

Dim SymbolTable::Fresh() {
  entries_.push_back({Kind::kFresh, {}, {}, {}});
  return Dim::Symbol(static_cast<int32_t>(entries_.size()) - 1);
}

Dim SymbolTable::Intern(Kind kind, Dim a, Dim b) {
  const Key key{kind, a.known(), a.value(), b.known(), b.value()};
  auto [it, inserted] = interned_.try_emplace(key, static_cast<int32_t>(entries_.size()));
  if (inserted) entries_.push_back({kind, a, b, {}});
  return Dim::Symbol(it->second);
}

void SymbolTable::SplitCoefficient(Dim dim, Dim* factor, int64_t* coefficient) const {
  *factor = dim;
  *coefficient = 1;
  if (dim.known()) {
    *factor = Dim(1);
    *coefficient = dim.value();
    return;
  }
  const Entry& entry = entries_[dim.symbol()];
  if (entry.kind == Kind::kMul && entry.b.known()) {
    *factor = entry.a;
    *coefficient = entry.b.value();
  }
}

// Known operands are kept on the right of commutative operations.
Dim SymbolTable::Add(Dim a, Dim b) {
  if (a.known() && b.known()) return CheckedAdd(a.value(), b.value());
  if (a.known() || (!b.known() && a.symbol() > b.symbol())) std::swap(a, b);
  if (b == 0) return a;
  const Entry entry = entries_[a.symbol()];
  if (b.known() && entry.kind == Kind::kAdd && entry.b.known()) {
    return Add(entry.a, CheckedAdd(entry.b.value(), b.value()));
  }
  if (entry.kind == Kind::kSub && entry.b == b) return entry.a;  // (x-b)+b
  return Intern(Kind::kAdd, a, b);
}

Dim SymbolTable::Sub(Dim a, Dim b) {
  if (a == b) return 0;
  if (b.known()) return Add(a, Dim(-b.value()));
  if (!a.known()) {
    const Entry entry = entries_[a.symbol()];
    if (entry.kind == Kind::kAdd && entry.b == b) return entry.a;
    if (entry.kind == Kind::kAdd && entry.a == b) return entry.b;
  }
  return Intern(Kind::kSub, a, b);
}

Dim SymbolTable::Mul(Dim a, Dim b) {
  if (a.known() && b.known()) return CheckedMultiply(a.value(), b.value());
  if (a.known() || (!b.known() && a.symbol() > b.symbol())) std::swap(a, b);
  if (b == 1) return a;
  if (b == 0) return 0;
  Dim factor_a, factor_b;
  int64_t coefficient_a, coefficient_b;
  SplitCoefficient(a, &factor_a, &coefficient_a);
  SplitCoefficient(b, &factor_b, &coefficient_b);
  const int64_t coefficient = CheckedMultiply(coefficient_a, coefficient_b);
  if (b.known()) {
    return coefficient == 1 ? factor_a : Intern(Kind::kMul, factor_a, Dim(coefficient));
  }
  if (factor_a.symbol() > factor_b.symbol()) std::swap(factor_a, factor_b);
  const Dim product = Intern(Kind::kMul, factor_a, factor_b);
  return coefficient == 1 ? product : Intern(Kind::kMul, product, Dim(coefficient));
}

Dim SymbolTable::FloorDiv(Dim a, Dim b) {
  if (b == 1) return a;
  if (a.known() && b.known()) {
    if (b.value() == 0) Fail(ErrorCode::kInvalidArgument, "a shape computation divides by zero");
    return FloorDivide(a.value(), b.value());
  }
  if (a == b) return 1;
  Dim factor;
  int64_t coefficient;
  SplitCoefficient(a, &factor, &coefficient);
  if (b.known() && b.value() != 0 && coefficient % b.value() == 0) {
    return Mul(factor, Dim(coefficient / b.value()));
  }
  if (!a.known()) {
    const Entry entry = entries_[a.symbol()];
    if (entry.kind == Kind::kMul && entry.b == b) return entry.a;
    if (entry.kind == Kind::kMul && entry.a == b) return entry.b;
  }
  return Intern(Kind::kFloorDiv, a, b);
}

Dim SymbolTable::CeilDiv(Dim a, Dim b) {
  if (a.known() && b.known() && b != 0) return -FloorDivide(-a.value(), b.value());
  // The two differ where there is something to round.
  const Dim floor = FloorDiv(a, b);
  if (floor.known()) return floor;
  const Entry& entry = entries_[floor.symbol()];
  const bool rounds = entry.kind == Kind::kFloorDiv && entry.a == a && entry.b == b;
  return rounds ? Intern(Kind::kCeilDiv, a, b) : floor;
}

Dim SymbolTable::Min(Dim a, Dim b) {
  if (a == b) return a;
  if (a.known() && b.known()) return std::min(a.value(), b.value());
  if (a.known()) std::swap(a, b);
  return Intern(Kind::kMin, a, b);
}

Dim SymbolTable::Max(Dim a, Dim b) {
  if (a == b) return a;
  if (a.known() && b.known()) return std::max(a.value(), b.value());
  if (a.known()) std::swap(a, b);
  return Intern(Kind::kMax, a, b);
}

Dim SymbolTable::Broadcast(Dim a, Dim b) {
  if (a == b || b == 1) return a;
  if (a == 1) return b;
  // One known size above 1 decides: the other must equal it or be 1.
  if (a.known()) return a;
  if (b.known()) return b;
  const auto holds = [&](Dim whole, Dim part) {
    const Entry& entry = entries_[whole.symbol()];
    return entry.kind == Kind::kBroadcast && (entry.a == part || entry.b == part);
  };
  if (holds(a, b)) return a;
  if (holds(b, a)) return b;
  if (a.symbol() > b.symbol()) std::swap(a, b);
  return Intern(Kind::kBroadcast, a, b);
}

bool SymbolTable::NonNegative(Dim dim) const {
  if (dim.known()) return dim.value() >= 0;
  const Entry& entry = entries_[dim.symbol()];
  switch (entry.kind) {
    case Kind::kNamed:
    case Kind::kFresh:
    case Kind::kBroadcast: return true;
    case Kind::kSub: return false;
    case Kind::kMax: return NonNegative(entry.a) || NonNegative(entry.b);
    default: return NonNegative(entry.a) && NonNegative(entry.b);
  }
}

Dim SymbolTable::Product(const Dims& dims) {
  Dim product = 1;
  for (Dim dim : dims) product = Mul(product, dim);
  return product;
}

Dim SymbolTable::Quotient(Dims numerator, Dims denominator) {
  int64_t known_numerator = 1, known_denominator = 1;
  Dims rest;
  for (Dim dim : numerator) {
    if (dim.known()) {
      known_numerator = CheckedMultiply(known_numerator, dim.value());
    } else {
      rest.push_back(dim);
    }
  }
  Dims rest_denominator;
  for (Dim dim : denominator) {
    if (dim.known()) {
      known_denominator = CheckedMultiply(known_denominator, dim.value());
      continue;
    }
    auto it = std::find(rest.begin(), rest.end(), dim);
    if (it != rest.end()) {
      rest.erase(it);
    } else {
      rest_denominator.push_back(dim);
    }
  }
  const int64_t common = std::gcd(known_numerator, known_denominator);
  if (common > 1) {
    known_numerator /= common;
    known_denominator /= common;
  }
  return FloorDiv(Mul(Product(rest), Dim(known_numerator)),
                  Mul(Product(rest_denominator), Dim(known_denominator)));
}

std::string SymbolTable::Print(Dim dim) const {
  if (dim.known()) return std::to_string(dim.value());
  const Entry& entry = entries_[dim.symbol()];
  static constexpr const char* kSigns[] = {"", "", "+", "-", "*", "/", "^/", "min", "max", "|"};
  switch (entry.kind) {
    case Kind::kNamed: return entry.name;
    case Kind::kFresh: return fmt::format("?{}", dim.symbol());
    default:
      return fmt::format("({}{}{})", Print(entry.a), kSigns[static_cast<int>(entry.kind)],
                         Print(entry.b));
  }
}

}  // namespace sardonyx
