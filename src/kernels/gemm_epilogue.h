#pragma once
// An Epilogue made ready for one call of Gemm or Conv: either it fits into the register tile's
// store, or it sweeps over blocks that were just stored, interpreted unless it is an activation
// between additions and products.

#include <cstdint>

#include "kernels/elementwise.h"
#include "kernels/epilogue.h"
#include "kernels/gemm_block.h"

namespace sardonyx {

class PreparedEpilogue {
 public:
  // kNone is for a caller that has no register tiles, kProduct for one whose tiles all leave
  // through kernels/tile_store-inl.h, kPlanes for one whose tiles take one value a row, which is
  // then called their residual, and bounds.
  enum class Tiles : uint8_t { kNone, kConvolution, kProduct, kPlanes };
  explicit PreparedEpilogue(const Epilogue& epilogue, Tiles tiles = Tiles::kConvolution);
  PreparedEpilogue(const PreparedEpilogue&) = delete;
  PreparedEpilogue& operator=(const PreparedEpilogue&) = delete;

  // True if Tile says all there is to do.
  bool InRegisters() const { return in_registers_; }
  // Which operand register tiles add element by element, -1 if none.
  int residual() const { return in_registers_ ? residual_ : -1; }

  // What the register tile does for the part of C that begins at (row, column) of batch item (p,
  // q).
  TileEpilogue Tile(int64_t row, int64_t column, int64_t p = 0, int64_t q = 0) const;

  // Does it for rows x columns of stored values beginning there; c is the address of the first, of
  // the type that the expression takes. Does nothing without an expression.
  void Apply(void* c, int64_t ldc, int64_t row, int64_t rows, int64_t column, int64_t columns,
             int64_t p = 0, int64_t q = 0) const;

 private:
  const Epilogue& epilogue_;
  bool in_registers_ = false;
  int bias_ = -1, residual_ = -1;  // operands
  SimpleEpilogue simple_;          // if it has operands behind the activation, which then sweeps
  TileEpilogue tile_;              // the clamp and the activation
  EpilogueKernel kernel_;          // prepared if it is interpreted
};

}  // namespace sardonyx
