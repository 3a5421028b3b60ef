#include "kernels/narrow.h"

#include <algorithm>

#include "kernels/tile_ops.h"

namespace sardonyx {

void WidenHalves(DType from, const void* in, int64_t count, float* out, const Parallel& par) {
  constexpr int64_t kPart = 65536;
  const TileFn widen = CastTileFn(from, DType::kFloat32);
  const auto* halves = static_cast<const uint16_t*>(in);
  par.For((count + kPart - 1) / kPart, [&](int64_t part) {
    const int64_t begin = part * kPart, end = std::min(count, begin + kPart);
    widen(TileArgs{{halves + begin}, out + begin, end - begin});
  });
}

}  // namespace sardonyx
