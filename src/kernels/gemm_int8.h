#pragma once
// The register-blocked inner part of products of bytes, summed exactly in int32, and what is done
// to the sums before they are stored. Single-threaded; conv_int8.h cuts work for it.
//
// Left operands count as uint8, right ones as int8: int8 on the left has 128 added, uint8 on the
// right 128 subtracted, which zero points make good. Four values of K make a group, filled up with
// zeros. Packed right operand: panels of Int8PanelWidth() columns, the last one filled with zeros;
// a panel is its groups one after the other, a group 4 bytes for each column. Where the processor
// multiplies bytes (VNNI), rows of the left operand are bytes; else they are int16, and the right
// operand is widened as it is multiplied (Int8OrderPairs). AVX2 multiplies bytes too, but sums
// pairs of products in int16: operands are taken as bytes there if few weights are so large that
// these could saturate, and what exceeds that is multiplied by itself.

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace sardonyx {

// Column vectors (scales, offsets, ...) have room for this many elements behind the last column.
inline constexpr int64_t kInt8ColumnSlack = 64;

int64_t Int8PanelWidth();  // 32, 16 or 8 columns
int64_t Int8TileRows();
int64_t Int8RowUnit(int64_t groups);  // rows of a block of so many groups: best a multiple of this
bool Int8Widens();                    // whether rows are int16
bool Int8SplitsExcess();              // whether rows of bytes are an alternative then

// y = store(v), where
//   v = sum * scale[j] + offset[j]
//   v = round(clamp(v, round_low, round_high)) * again + again_offset, if `rounds`
//   v = v + r * residual_scale, if there is a residual
//   v = clamp(v, low, high), if `clamps`
// and integers are stored as round(v) + zero_point, which the clamp keeps inside their type.
// Rounding is to the nearest even.
struct Int8Rescale {
  const float* scale = nullptr;
  const float* offset = nullptr;
  bool rounds = false;
  float round_low = 0, round_high = 0, again = 1, again_offset = 0;
  bool has_residual = false;
  DType residual_type = DType::kUInt8;  // uint8, int8 or float32
  float residual_scale = 1;
  bool clamps = false;
  float low = 0, high = 0;
  DType type = DType::kFloat32;  // of y: uint8, int8 or float32
  int32_t zero_point = 0;
};

// Rows of sums on their way to the memory of y.
struct Int8Store {
  const Int8Rescale* rescale = nullptr;  // null: y is int32
  void* y = nullptr;                     // element (0, 0)
  const void* residual = nullptr;        // element (0, 0), if there is one
  int64_t y_stride = 0, residual_stride = 0;

  // Bytes of their elements.
  int64_t YBytes() const { return rescale == nullptr || rescale->type == DType::kFloat32 ? 4 : 1; }
  int64_t ResidualBytes() const {
    return rescale != nullptr && rescale->residual_type == DType::kFloat32 ? 4 : 1;
  }
  // What begins at an element.
  Int8Store From(int64_t row, int64_t column) const {
    Int8Store rest = *this;
    rest.y = static_cast<std::byte*>(y) + (row * y_stride + column) * YBytes();
    if (residual != nullptr) {
      rest.residual = static_cast<const std::byte*>(residual) +
                      (row * residual_stride + column) * ResidualBytes();
    }
    return rest;
  }
};

// Rows of `from` bytes, count of them of k values each, as the tile reads them: int16, filled up
// with zeros. With flip the bytes are int8 and 128 is added.
void Int8Widen(const uint8_t* from, int64_t stride, int64_t count, int64_t k, bool flip,
               int16_t* to, int64_t to_stride);

// sums[i] = the sum of k bytes of row i; with flip they are int8 and 128 is added to each.
void Int8SumRows(const uint8_t* a, int64_t stride, int64_t rows, int64_t k, bool flip,
                 int32_t* sums);

// What four weights of a column have beyond those in its panel.
struct Int8Excess {
  uint32_t place;  // in the panel: its group * Int8PanelWidth() + its column
  int8_t weights[4];
};

// y[0:rows, n0:n1] = store(init[j] + row_factor[j] * row_sums[i] + A[0:rows] * B[:, n0:n1]).
struct Int8BlockArgs {
  const void* a;    // groups of row 0
  int64_t a_bytes;  // from a row to the next
  bool flip;        // bytes of A are int8 (only where bytes are multiplied)
  int64_t rows;
  // A row may lie in several segments, as the lines of an image that a kernel covers; and rows may
  // go on, `rows` at a time, in further lines.
  int64_t segments = 1, segment_bytes = 0;
  int64_t lines = 1, line_bytes = 0;  // of flip one
  const void* b;                      // the packed matrix
  int64_t groups;                     // of K in a segment
  int64_t n0, n1;                     // n0 is a multiple of the panel width
  // By panel from column 0 on, with room for most_excess each; null where nothing was split. Where
  // that is a choice (Int8SplitsExcess), with these rows are bytes.
  const Int8Excess* excess = nullptr;
  const int32_t* excess_counts = nullptr;
  int64_t most_excess = 0;
  void* excess_scratch = nullptr;        // Int8ExcessBytes, aligned as vectors are
  int32_t* widened = nullptr;            // Int8WidenedBytes likewise, if there is room for them
  const int32_t* init;                   // by column
  const int32_t* column_sums = nullptr;  // of B, with flip
  const int32_t* row_factor = nullptr;   // by column; null with row_sums
  const int32_t* row_sums = nullptr;
  Int8Store store;       // column 0 of y and residual is column 0 of B
  int64_t first_column;  // of scale and offset that belongs to column 0
};
void Int8Block(const Int8BlockArgs& args);

// Scratch memory of a block of so many rows (of all its lines) and groups (of all its segments)
// whose excess was split.
size_t Int8ExcessBytes(int64_t rows, int64_t groups);

// Of a panel of so many groups (of all segments), where Int8Widens().
size_t Int8WidenedBytes(int64_t groups);

// y[rows, Int8PanelWidth()] = A * a panel of int16 [pairs, Int8PanelWidth(), 2], modulo 2^32; y is
// aligned to 64 bytes. An odd K is filled up to a pair in both.
struct Int16Product {
  const int16_t* a;
  int64_t a_stride;  // values from a row to the next
  int64_t rows;
  const int16_t* b;
  int64_t pairs;
  int32_t* y;
  const void* next = nullptr;  // the panel that is read behind this one, if any
};
void MultiplyInt16(const Int16Product& args);

}  // namespace sardonyx
