#include "ops/contrib/shapes.h"

#include "ops/core/fits.h"

namespace sardonyx::ops::contrib {

void ExpectRank(Lowering& op, Val x, std::string_view name, int rank) {
  if (x.rank() != rank) op.Fail("{} has rank {}, not {}", name, x.rank(), rank);
}

void ExpectShape(Lowering& op, Val x, std::string_view name, const Dims& expected) {
  if (core::Fits(x.shape(), expected)) return;
  op.Fail("{} is {}, expected {}", name, Print(op, x.shape()), Print(op, expected));
}

std::string Print(Lowering& op, const Dims& dims) {
  std::string text;
  for (const Dim dim : dims) {
    text += text.empty() ? "[" : ",";
    text += op.builder().symbols().Print(dim);
  }
  return text.empty() ? "[]" : text + "]";
}

}  // namespace sardonyx::ops::contrib
