#pragma once
// An Expression lowered to operations on tiles: short contiguous arrays that stay in the L1 cache.
// What elementwise nodes and epilogues have in common.

#include <array>
#include <cassert>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/expression.h"

namespace sardonyx {

// What an operation on tiles gets. A uniform source is read at element 0 alone.
struct TileArgs {
  const void* in[5];
  void* out;
  int64_t count;
};
using TileFn = void (*)(const TileArgs& args);

// How an input or value changes over the elements of a tile.
enum class TileAccess : uint8_t {
  kContiguous,  // one element each, dense in memory
  kUniform,     // the same element for the whole tile
  kExpanded,    // neither: copied into a slot first, by whoever runs the program
};

// A vector of bounded size without heap memory, since epilogues are lowered while a kernel runs.
template <typename T, int kCapacity>
class InlineVector {
 public:
  int size() const { return size_; }
  bool full() const { return size_ == kCapacity; }
  void clear() { size_ = 0; }
  void push_back(const T& value) {
    assert(!full());
    items_[size_++] = value;
  }
  T& operator[](int i) { return items_[i]; }
  const T& operator[](int i) const { return items_[i]; }
  const T* begin() const { return items_; }
  const T* end() const { return items_ + size_; }

 private:
  int size_ = 0;
  T items_[kCapacity];  // NOLINT: left uninitialised on purpose
};

struct TileOp {
  TileFn fn;
  std::array<uint16_t, 5> in;  // places
  uint16_t out;                // a place
  uint8_t arity;
  bool uniform;    // writes one element
  bool invariant;  // needs to run for the first tile alone
};

// Operations work on places, which stand for pointers while the program runs: place 0 is the
// output, 1 + i input i, then come slots of a scratch file, then single elements of the program
// itself. Holds no pointers to operands, so it may be shared by threads.
struct TileProgram {
  static constexpr int kMaxOps = 320;
  static constexpr int kMaxPlaces = 600;
  static constexpr int kMaxInputs = 64;
  static constexpr int64_t kFileBytes = 24 * 1024;

  enum class PlaceKind : uint8_t { kOutput, kInput, kSlot, kScalar };
  struct Place {
    PlaceKind kind;
    int32_t offset;  // kSlot: number of the slot; kScalar: bytes into the scalars
  };
  struct Expansion {
    uint8_t input;
    uint8_t element_bytes;
    uint16_t place;  // a slot
    bool invariant;
  };

  int inputs = 0;
  int slots = 0;
  int slot_width = 1;  // bytes of the widest element that a slot holds
  int scalars = 0;     // 8-byte cells
  float cost = 0;      // estimated ns an element
  InlineVector<TileOp, kMaxOps> ops;
  InlineVector<Place, kMaxPlaces> places;
  InlineVector<Expansion, kMaxInputs> expansions;
  // Values of the constant scalars, in their own type; cells that operations write come behind.
  InlineVector<uint64_t, 256> constants;

  // Most elements in a tile, up to 4 KiB of the widest, such that all slots fit into kFileBytes; a
  // multiple of 16, 0 if not even 16 fit.
  int64_t TileElements() const;
};

struct TileInput {
  TileAccess access;
  bool invariant;  // same elements for every tile
};

// Lowers an expression into *program, whatever that held. Returns an empty view, or why it cannot.
std::string_view LowerToTiles(const Expression& expression, const TileInput* inputs,
                              TileProgram* program);

// The same, lowered once for all steps and shapes that it is alike for. Null: *why it cannot.
std::shared_ptr<const TileProgram> TileProgramOf(const Expression& expression,
                                                 std::span<const TileInput> inputs,
                                                 std::string_view* why);

}  // namespace sardonyx
