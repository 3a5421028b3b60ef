#include "kernels/det.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/det.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/round.h"
#include "kernels/scratch_slots.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;

// row -= factor * head, over the columns [first, last), whole vectors.
HWY_INLINE void SubtractRow(D d, double factor, const double* head, double* row, int64_t first,
                            int64_t last) {
  const auto f = hn::Set(d, factor);
  for (int64_t k = first; k < last; k += static_cast<int64_t>(hn::Lanes(d))) {
    hn::Store(hn::NegMulAdd(f, hn::Load(d, head + k), hn::Load(d, row + k)), d, row + k);
  }
}

// Brings the largest of what is left of a column onto the diagonal, in columns from `first` on.
// Where it was.
int64_t SwapPivot(double* a, int64_t n, int64_t width, int64_t column, int64_t first) {
  int64_t pivot = column;
  for (int64_t row = column + 1; row < n; ++row) {
    if (std::abs(a[row * width + column]) > std::abs(a[pivot * width + column])) pivot = row;
  }
  if (pivot != column) {
    std::swap_ranges(a + pivot * width + first, a + (pivot + 1) * width,
                     a + column * width + first);
  }
  return pivot;
}

// The determinant of one matrix in the first n of `width` columns of a, rows `width` apart (a
// multiple of the vector).
double Eliminate(double* a, int64_t n, int64_t width) {
  const D d;
  double product = 1;
  for (int64_t column = 0; column < n; ++column) {
    if (SwapPivot(a, n, width, column, column) != column) product = -product;
    const double* head = a + column * width;
    product *= head[column];
    if (head[column] == 0) return product;
    // From a whole vector on: what was eliminated may be changed.
    const int64_t first =
        column / static_cast<int64_t>(hn::Lanes(d)) * static_cast<int64_t>(hn::Lanes(d));
    for (int64_t row = column + 1; row < n; ++row) {
      double* p = a + row * width;
      SubtractRow(d, p[column] / head[column], head, p, first, width);
    }
  }
  return product;
}

// The inverse of such a matrix in its place: a column that is eliminated makes room for the one of
// the inverse that begins there. `pivots` has n elements.
void Invert(double* a, int64_t n, int64_t width, int64_t* pivots) {
  const D d;
  for (int64_t column = 0; column < n; ++column) {
    pivots[column] = SwapPivot(a, n, width, column, 0);
    double* head = a + column * width;
    const double inverse = 1 / head[column];
    head[column] = 1;
    for (int64_t k = 0; k < n; ++k) head[k] *= inverse;
    for (int64_t row = 0; row < n; ++row) {
      if (row == column) continue;
      double* p = a + row * width;
      const double factor = p[column];
      SubtractRow(d, factor, head, p, 0, width);
      p[column] = -factor * inverse;
    }
  }
  // Rows that changed places are columns of the inverse that do.
  for (int64_t column = n; column-- > 0;) {
    if (pivots[column] == column) continue;
    for (int64_t row = 0; row < n; ++row) {
      std::swap(a[row * width + column], a[row * width + pivots[column]]);
    }
  }
}

// As many matrices as a vector has lanes: element (row, k) of all of them is the vector at
// a[(row * width + k) * lanes]. Their determinants go to `products`; with `whole`, they end as the
// identity, and what lies behind them goes through the same steps.
void EliminateTogether(double* a, int64_t n, int64_t width, bool whole, double* products) {
  const D d;
  using V = hn::Vec<D>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const V zero = hn::Zero(d);
  V product = hn::Set(d, 1);
  for (int64_t column = 0; column < n; ++column) {
    double* head = a + column * width * lanes;
    V most = hn::Abs(hn::Load(d, head + column * lanes));
    V pivot = hn::Set(d, static_cast<double>(column));
    for (int64_t row = column + 1; row < n; ++row) {
      const V size = hn::Abs(hn::Load(d, a + (row * width + column) * lanes));
      const auto more = hn::Gt(size, most);
      most = hn::IfThenElse(more, size, most);
      pivot = hn::IfThenElse(more, hn::Set(d, static_cast<double>(row)), pivot);
    }
    const auto stays = hn::Eq(pivot, hn::Set(d, static_cast<double>(column)));
    product = hn::IfThenElse(stays, product, hn::Neg(product));
    for (int64_t row = column + 1; row < n; ++row) {
      const auto here = hn::Eq(pivot, hn::Set(d, static_cast<double>(row)));
      if (hn::AllFalse(d, here)) continue;
      for (int64_t k = column * lanes; k < width * lanes; k += lanes) {
        double* other = a + row * width * lanes + k;
        const V p = hn::Load(d, head + k), q = hn::Load(d, other);
        hn::Store(hn::IfThenElse(here, q, p), d, head + k);
        hn::Store(hn::IfThenElse(here, p, q), d, other);
      }
    }
    const V value = hn::Load(d, head + column * lanes);
    product = hn::Mul(product, value);
    V inverse = hn::Div(hn::Set(d, 1), value);
    if (whole) {
      for (int64_t k = column * lanes; k < width * lanes; k += lanes) {
        hn::Store(hn::Mul(hn::Load(d, head + k), inverse), d, head + k);
      }
      inverse = hn::Set(d, 1);
    } else {
      inverse = hn::IfThenElse(hn::Eq(value, zero), zero, inverse);  // the product is 0 and stays
    }
    for (int64_t row = whole ? 0 : column + 1; row < n; ++row) {
      if (row == column) continue;
      double* line = a + row * width * lanes;
      const V factor = hn::Mul(hn::Load(d, line + column * lanes), inverse);
      for (int64_t k = (column + 1) * lanes; k < width * lanes; k += lanes) {
        hn::Store(hn::NegMulAdd(factor, hn::Load(d, head + k), hn::Load(d, line + k)), d, line + k);
      }
    }
  }
  hn::StoreU(product, d, products);
}

int64_t MatrixLanes() { return static_cast<int64_t>(hn::Lanes(D())); }

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(Eliminate);
HWY_EXPORT(Invert);
HWY_EXPORT(EliminateTogether);
HWY_EXPORT(MatrixLanes);

namespace {

constexpr int64_t kMostLanes = 8;

// How matrices are cut: `together` share vectors, a task takes `groups` of these.
struct Cut {
  int64_t together, groups, width, tasks;

  Cut(int64_t count, int64_t n, bool inverse) {
    const int64_t lanes = HWY_DYNAMIC_DISPATCH(MatrixLanes)();
    // Larger ones fill vectors with their rows, and together would not stay in the cache.
    together = n <= 24 && 2 * count > lanes ? lanes : 1;
    width = inverse ? 2 * n : n;
    if (together == 1) width = (n + kMostLanes - 1) / kMostLanes * kMostLanes;
    groups = std::max<int64_t>(1, 40'000 / (n * n * (width + 8) / 4 + 1));
    tasks = (count + together * groups - 1) / (together * groups);
  }
  int64_t Bytes(int64_t n) const { return AlignBytes(n * (width * together + 1) * 8); }
};

// Eliminates or inverts all matrices and hands `store` where the result is: its first element, the
// elements from one to the next and from row to row, and the determinant.
template <typename T, typename Store>
void ForEachMatrix(const T* x, int64_t count, int64_t n, bool inverse, void* scratch,
                   const Parallel& par, Store&& store) {
  const Cut cut(count, n, inverse);
  ScratchSlots slots(scratch, cut.Bytes(n), ScratchSlots::CountFor(par.threads));
  const int64_t lanes = cut.together, step = lanes * cut.groups, width = cut.width;
  par.For(cut.tasks, [&](int64_t task) {
    const ScratchSlots::Lease lease(slots);
    auto* a = reinterpret_cast<double*>(lease.floats());
    const double* result = inverse && lanes > 1 ? a + n * lanes : a;
    for (int64_t i = task * step; i < std::min(count, (task + 1) * step); i += lanes) {
      for (int64_t lane = 0; lane < lanes; ++lane) {
        const T* from = x + std::min(i + lane, count - 1) * n * n;  // the last one once more
        for (int64_t row = 0; row < n; ++row, from += n) {
          double* to = a + row * width * lanes + lane;
          for (int64_t k = 0; k < n; ++k) to[k * lanes] = static_cast<double>(from[k]);
          // Beside matrices that share vectors the identity, which becomes their inverse.
          for (int64_t k = n; k < width; ++k) to[k * lanes] = k == n + row ? 1 : 0;
        }
      }
      double products[kMostLanes];
      if (lanes == 1 && inverse) {
        HWY_DYNAMIC_DISPATCH(Invert)(a, n, width, reinterpret_cast<int64_t*>(a + n * width));
      } else if (lanes == 1) {
        products[0] = HWY_DYNAMIC_DISPATCH(Eliminate)(a, n, width);
      } else {
        HWY_DYNAMIC_DISPATCH(EliminateTogether)(a, n, width, inverse, products);
      }
      for (int64_t lane = 0; lane < std::min(lanes, count - i); ++lane) {
        store(i + lane, result + lane, lanes, width, products[lane]);
      }
    }
  });
}

int64_t ScratchBytes(int64_t count, int64_t n, bool inverse, int threads) {
  return ScratchSlots::CountFor(threads) * Cut(count, n, inverse).Bytes(n);
}

}  // namespace

int64_t DeterminantsScratchBytes(int64_t count, int64_t n, int threads) {
  return ScratchBytes(count, n, false, threads);
}
int64_t InversesScratchBytes(int64_t count, int64_t n, int threads) {
  return ScratchBytes(count, n, true, threads);
}

template <typename T>
void Determinants(const T* x, int64_t count, int64_t n, T* y, void* scratch, const Parallel& par) {
  ForEachMatrix(x, count, n, false, scratch, par,
                [&](int64_t i, const double*, int64_t, int64_t, double product) {
                  y[i] = static_cast<T>(product);
                });
}

template <typename T>
void Inverses(const T* x, int64_t count, int64_t n, T* y, void* scratch, const Parallel& par) {
  ForEachMatrix(x, count, n, true, scratch, par,
                [&](int64_t i, const double* a, int64_t lanes, int64_t width, double) {
                  for (int64_t row = 0; row < n; ++row) {
                    const double* from = a + row * width * lanes;
                    T* to = y + (i * n + row) * n;
                    for (int64_t k = 0; k < n; ++k) to[k] = static_cast<T>(from[k * lanes]);
                  }
                });
}

template void Determinants(const float*, int64_t, int64_t, float*, void*, const Parallel&);
template void Determinants(const double*, int64_t, int64_t, double*, void*, const Parallel&);
template void Inverses(const float*, int64_t, int64_t, float*, void*, const Parallel&);
template void Inverses(const double*, int64_t, int64_t, double*, void*, const Parallel&);

}  // namespace sardonyx
#endif
