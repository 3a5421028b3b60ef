#pragma once
// The state of a TileProgram while it runs on one thread: scratch memory and pointers of places.

#include <cstddef>
#include <cstdint>

#include "kernels/tile_program.h"

namespace sardonyx {

class TileRunner {
 public:
  // `tile` elements fit into each slot.
  TileRunner(const TileProgram& program, int64_t tile) : program_(program) {
    const int64_t slot_bytes = tile * program.slot_width;
    for (int i = 0; i < program.places.size(); ++i) {
      const TileProgram::Place& place = program.places[i];
      if (place.kind == TileProgram::PlaceKind::kSlot) {
        places_[i] = file_ + place.offset * slot_bytes;
      } else if (place.kind == TileProgram::PlaceKind::kScalar) {
        const int cell = place.offset / 8;
        // Constants are read where they are; nothing writes them.
        places_[i] = cell < program.constants.size()
                         ? const_cast<uint64_t*>(&program.constants[cell])
                         : &scalars_[cell - program.constants.size()];
      }
    }
  }

  void SetInput(int i, const void* data) { places_[1 + i] = const_cast<void*>(data); }
  void SetOutput(void* data) { places_[0] = data; }
  void* PlacePointer(int place) const { return places_[place]; }

  // Runs the operations on `count` elements. The invariant ones run the first time alone, on
  // `full` elements, as many as any later tile may have.
  void Run(int64_t count, int64_t full) {
    TileArgs args;
    for (const TileOp& op : program_.ops) {
      if (op.invariant && !first_) continue;
      for (int i = 0; i < op.arity; ++i) args.in[i] = places_[op.in[i]];
      args.out = places_[op.out];
      args.count = op.uniform ? 1 : op.invariant ? full : count;
      op.fn(args);
    }
    first_ = false;
  }
  bool first() const { return first_; }

 private:
  const TileProgram& program_;
  bool first_ = true;
  void* places_[TileProgram::kMaxPlaces];
  uint64_t scalars_[TileProgram::kMaxPlaces];
  alignas(64) std::byte file_[TileProgram::kFileBytes];
};

}  // namespace sardonyx
