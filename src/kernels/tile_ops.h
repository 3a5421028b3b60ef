#pragma once
// The operations on tiles that programs are made of; see tile_program.h.

#include <cstdint>

#include "base/expression.h"
#include "kernels/tile_program.h"

namespace sardonyx {

// The scalar functions, then what chains of them are replaced by.
enum class TileOpcode : uint8_t {
#define SARDONYX_ENUM(name, text, arity, is_bool) k##name,
  SARDONYX_SCALAR_FUNCTIONS(SARDONYX_ENUM)
#undef SARDONYX_ENUM
      kFma,  // a * b + c, rounded once or twice
  kClamp,    // min(max(x, lo), hi)
  kAddRelu,  // max(a + b, 0)
  kCube,
  kGelu,  // x / 2 * (1 + erf(factor * x)), two operands
  kGeluTanh,
  kSoftsign,
  kSoftplus,       // log(1 + exp(x))
  kMish,           // x * tanh(log(1 + exp(x)))
  kElu,            // max(x, 0) + y * (exp(min(x, 0)) - 1)
  kSwish,          // x / (1 + exp(minus_alpha * x)), two operands
  kLeakyRelu,      // x < 0 ? x * y : x
  kThreshold,      // x > y ? x : 0
  kHardSigmoid,    // min(max(x * a + b, lo), hi), five operands
  kHardSwish,      // x * min(max(x * a + b, lo), hi), five operands
  kDequantize,     // (x - zero) * scale: a code of 8 or 16 bits, int32, float32
  kDequantizeAdd,  // the same + t, rounded once or twice
  kQuantize,       // such a code: min(max(round(x / scale) + zero, lo), hi), lo and hi uniform
  // Bytes a, b and, uniform, the zero point and the factor of each as pairs of float32 in a
  // float64, then what is added as int32: a byte, round((a - za) * fa + (b - zb) * fb) + zero.
  kSumOfBytes,
  kProductOfBytes,  // the same of (a - za) * (b - zb) * fa
};
inline TileOpcode OpcodeOf(Fn fn) { return static_cast<TileOpcode>(fn); }

// Float32 operation whose operand i is uniform where bit i of `uniform` is set; null if there is no
// such variant. The best SIMD target at the time of the call.
TileFn FloatTileFn(TileOpcode op, unsigned uniform);

// Float32 operations on tiles that are computed in float64, null for the others.
TileFn WideTileFn(TileOpcode op);

// kDequantize and what follows it, from or to codes of that type; `uniform` as above. Null if there
// is no such variant.
TileFn QuantizeTileFn(TileOpcode op, DType codes, unsigned uniform);

// Operation on operands of a computed type (of 16-bit floats kIsNaN and kIsInf alone), `uniform` as
// above, null if the type has no such function or variant. kWhere: `type` is that of the values;
// comparisons: of the operands.
TileFn TypedTileFn(TileOpcode op, DType type, unsigned uniform);

// Float64 operations that have a vector form of their own, null for the others.
TileFn DoubleTileFn(TileOpcode op, unsigned uniform);

// Conversion between computed types, or between float32 and a float of 8 or 16 bits.
TileFn CastTileFn(DType from, DType to);

// Float32 to one of the formats of 4, 6 and 8 bits, a byte each; or from one of 8 bits to float32.
// Null for other conversions.
TileFn SmallFloatTileFn(DType from, DType to);

// Float64 to float32, so that rounding it again to a narrower type gives what rounding once would.
TileFn RoundToOddTileFn();

// Floating point to a signed or narrow integer, null for other conversions.
TileFn TruncateTileFn(DType from, DType to);

// Float16 to float32 or back.
TileFn HalfTileFn(bool to_half);

// Copies a uniform source of 1, 2, 4 or 8 bytes to the whole tile; copies a tile.
TileFn FillTileFn(int element_bytes);
TileFn CopyTileFn(int element_bytes);

// Gathers dims[0] x ... x dims[rank - 1] elements at strides given in elements into a dense array.
void ExpandTile(const void* in, const int64_t* dims, const int64_t* strides, int rank,
                int element_bytes, void* out);

// Estimated time of an operation in ns an element, for choosing the number of tasks.
float TileCost(TileOpcode op, DType type);

}  // namespace sardonyx
