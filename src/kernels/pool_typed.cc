#include "kernels/pool_typed.h"

#include <cmath>

namespace sardonyx {

template <typename T>
void MaxPool(const PoolShape& shape, const T* x, T* y, int64_t* indices, PoolIndexOrder order,
             const Parallel& par) {
  MaxPoolElements(shape, x, y, indices, order, par);
}
template void MaxPool<double>(const PoolShape&, const double*, double*, int64_t*, PoolIndexOrder,
                              const Parallel&);

template <>
void AveragePool<double>(const PoolShape& shape, const double* x, double* y, bool count_include_pad,
                         const Parallel& par) {
  ForEachPoolWindow(
      shape, count_include_pad, par, [&](int64_t at, const PoolWindow& window, int64_t c) {
        double sum = 0.0;
        ForEachInWindow(window, x + c, [&](double v, int64_t, int64_t, int64_t) { sum += v; });
        y[at] = window.counted == 0 ? 0.0 : sum / static_cast<double>(window.counted);
      });
}

void LpPool(const PoolShape& shape, const float* x, float* y, int64_t p, const Parallel& par) {
  ForEachPoolWindow(shape, false, par, [&](int64_t at, const PoolWindow& window, int64_t c) {
    double sum = 0.0;
    ForEachInWindow(window, x + c, [&](float v, int64_t, int64_t, int64_t) {
      const double size = std::abs(v);
      sum += p == 1 ? size : p == 2 ? size * size : std::pow(size, static_cast<double>(p));
    });
    const double root = p == 1   ? sum
                        : p == 2 ? std::sqrt(sum)
                                 : std::pow(sum, 1.0 / static_cast<double>(p));
    y[at] = static_cast<float>(root);
  });
}

}  // namespace sardonyx
