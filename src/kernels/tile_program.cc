#include "kernels/tile_program.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <mutex>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "base/dtype.h"
#include "kernels/tile_graph.h"
#include "kernels/tile_ops.h"

namespace sardonyx {
namespace {

using PlaceKind = TileProgram::PlaceKind;

int Width(DType type) { return BitWidth(type) / 8; }

bool Commutes(TileOpcode op) {
  switch (op) {
    case TileOpcode::kAdd:
    case TileOpcode::kMul:
    case TileOpcode::kMin:
    case TileOpcode::kMax:
    case TileOpcode::kAddRelu:
    case TileOpcode::kEqual:
    case TileOpcode::kAnd:
    case TileOpcode::kOr:
    case TileOpcode::kXor:
    case TileOpcode::kBitAnd:
    case TileOpcode::kBitOr:
    case TileOpcode::kBitXor:
    case TileOpcode::kFma: return true;
    default: return false;
  }
}

// Bits of a constant in the memory form of its type.
uint64_t BitsOf(DType type, double value) {
  uint64_t bits = 0;
  DispatchReal(type, "constant", [&]<typename Tag>(Tag) {
    using T = typename Tag::type;
    T typed{};
    if constexpr (std::is_same_v<T, bool>) {
      typed = value != 0;
    } else if constexpr (std::is_integral_v<T>) {
      // 2^64 and the like have no integer, so an out-of-range constant becomes the nearest one.
      constexpr double kLeast = static_cast<double>(std::numeric_limits<T>::min());
      constexpr double kMost = static_cast<double>(std::numeric_limits<T>::max());
      typed = value <= kLeast  ? std::numeric_limits<T>::min()
              : value >= kMost ? std::numeric_limits<T>::max()
              : value == value ? static_cast<T>(value)
                               : T{0};
    } else {
      typed = T(static_cast<ComputeType<T>>(value));
    }
    std::memcpy(&bits, &typed, sizeof(typed));
  });
  return bits;
}

// Makes the operations for a graph's nodes, then gives their results places.
class Lowering {
 public:
  Lowering(const TileGraph& graph, const TileInput* inputs, TileProgram* program)
      : graph_(graph), inputs_(inputs), program_(*program) {}

  std::string_view Run(int inputs) {
    program_.inputs = inputs;
    program_.slots = 0;
    program_.slot_width = 1;
    program_.scalars = 0;
    program_.cost = 0;
    program_.ops.clear();
    program_.places.clear();
    program_.expansions.clear();
    program_.constants.clear();
    AddPlace(Value{}, PlaceKind::kOutput);
    for (int i = 0; i < inputs; ++i) AddPlace(Value{}, PlaceKind::kInput);
    FindNeeded();
    for (int i = 0; i < graph_.nodes.size(); ++i) {
      if (!needed_[i]) continue;
      const std::string_view refusal = Emit(i);
      if (!refusal.empty()) return refusal;
    }
    EmitResult();
    if (overflow_) return "the expression is too long";
    AssignSlots();
    if (program_.TileElements() == 0) return "the expression has too many values alive at once";
    return {};
  }

 private:
  struct Value {
    int width = 0;
    bool uniform = false;
    bool invariant = false;
    int16_t filled = -1;  // the place of the same value as a tile
    int16_t last_use = -1;
  };

  int AddPlace(const Value& value, PlaceKind kind = PlaceKind::kSlot) {
    if (program_.places.full()) {
      overflow_ = true;
      return 0;
    }
    program_.places.push_back({kind, 0});
    values_[program_.places.size() - 1] = value;
    return program_.places.size() - 1;
  }

  void FindNeeded() {
    std::fill_n(needed_, graph_.nodes.size(), false);
    needed_[graph_.result] = true;
    for (int i = graph_.result; i >= 0; --i) {
      if (!needed_[i]) continue;
      const TileGraph::Node& node = graph_.nodes[i];
      for (int k = 0; k < node.arity; ++k) needed_[node.args[k]] = true;
    }
  }

  std::string_view Emit(int index) {
    const TileGraph::Node& node = graph_.nodes[index];
    switch (node.kind) {
      case TileGraph::Kind::kInput: EmitInput(index, node); return {};
      case TileGraph::Kind::kConstant: EmitConstant(index, node); return {};
      case TileGraph::Kind::kCast: return EmitCast(index, node);
      case TileGraph::Kind::kOp: return EmitOp(index, node);
    }
    return {};
  }

  void EmitInput(int index, const TileGraph::Node& node) {
    const TileInput& input = inputs_[node.input];
    Value value;
    value.width = Width(node.type);
    value.uniform = input.access == TileAccess::kUniform;
    value.invariant = input.invariant;
    place_[index] = static_cast<int16_t>(1 + node.input);
    if (input.access == TileAccess::kExpanded) {
      const int place = AddPlace(value);
      program_.expansions.push_back({static_cast<uint8_t>(node.input),
                                     static_cast<uint8_t>(value.width),
                                     static_cast<uint16_t>(place), input.invariant});
      place_[index] = static_cast<int16_t>(place);
    } else {
      values_[1 + node.input] = value;
    }
  }

  void EmitConstant(int index, const TileGraph::Node& node) {
    Value value;
    value.width = Width(node.type);
    value.uniform = value.invariant = true;
    const int place = AddPlace(value, PlaceKind::kScalar);
    program_.places[place].offset = 8 * program_.constants.size();
    if (program_.constants.full()) {
      overflow_ = true;
      return;
    }
    program_.constants.push_back(BitsOf(node.type, node.value));
    place_[index] = static_cast<int16_t>(place);
  }

  std::string_view EmitCast(int index, const TileGraph::Node& node) {
    const DType from = graph_.nodes[node.args[0]].type;
    // 16-bit floats meet float32 alone.
    const TileFn fn = CastTileFn(from, node.type);
    if (fn == nullptr) {
      const bool is_double = from == DType::kFloat64;
      const TileFn first = is_double ? RoundToOddTileFn() : CastTileFn(from, DType::kFloat32);
      const TileFn second = CastTileFn(DType::kFloat32, node.type);
      if (first == nullptr || second == nullptr) return "a cast has no kernel";
      const int middle = AddOp(first, {place_[node.args[0]]}, 4);
      place_[index] = static_cast<int16_t>(AddOp(second, {middle}, Width(node.type)));
    } else {
      place_[index] = static_cast<int16_t>(AddOp(fn, {place_[node.args[0]]}, Width(node.type)));
    }
    program_.cost += 0.1f;
    return {};
  }

  std::string_view EmitOp(int index, const TileGraph::Node& node) {
    int args[5] = {};
    bool all_uniform = true;
    for (int i = 0; i < node.arity; ++i) {
      args[i] = place_[node.args[i]];
      all_uniform &= values_[args[i]].uniform;
    }
    // Comparisons are known by the type of what they compare; Where by that of its values.
    const bool is_where = node.op == TileOpcode::kWhere;
    const DType type = graph_.nodes[node.args[is_where ? 1 : 0]].type;
    const bool quantizes = node.op == TileOpcode::kQuantize;
    const auto find = [&](unsigned uniform) {
      if (node.op >= TileOpcode::kDequantize) {
        return QuantizeTileFn(node.op, quantizes ? node.type : type, uniform);
      }
      const TileFn fn = type == DType::kFloat32 ? FloatTileFn(node.op, uniform) : nullptr;
      return fn != nullptr ? fn : TypedTileFn(node.op, type, uniform);
    };
    TileFn fn = find(UniformMask(args, node.arity, all_uniform));
    if (fn == nullptr && Commutes(node.op)) {
      std::swap(args[0], args[1]);
      fn = find(UniformMask(args, node.arity, all_uniform));
    }
    if (fn == nullptr) {  // on tiles alone
      fn = find(0);
      if (fn == nullptr) return "a function is not defined for its element type";
      if (!all_uniform) Fill(args, node.arity);
    }
    if (!all_uniform) program_.cost += TileCost(node.op, type);
    place_[index] = static_cast<int16_t>(
        AddOp(fn, {args[0], args[1], args[2], args[3], args[4]}, Width(node.type), node.arity));
    return {};
  }

  unsigned UniformMask(const int* args, int arity, bool all_uniform) const {
    unsigned mask = 0;
    if (all_uniform) return 0;
    for (int i = 0; i < arity; ++i) mask |= values_[args[i]].uniform ? 1u << i : 0u;
    return mask;
  }

  void Fill(int* args, int arity) {
    for (int i = 0; i < arity; ++i) args[i] = Filled(args[i]);
  }
  int Filled(int place) {
    if (!values_[place].uniform) return place;
    if (values_[place].filled < 0) {
      const int width = values_[place].width;
      const int tile = AddOp(FillTileFn(width), {place}, width, 1, /*as_tile=*/true);
      values_[place].filled = static_cast<int16_t>(tile);
    }
    return values_[place].filled;
  }

  // Appends an operation and returns the place of its result.
  int AddOp(TileFn fn, std::initializer_list<int> args, int width, int arity = 1,
            bool as_tile = false) {
    if (program_.ops.full()) {
      overflow_ = true;
      return 0;
    }
    Value value;
    value.width = width;
    value.uniform = !as_tile;
    value.invariant = true;
    TileOp op{};
    op.fn = fn;
    for (int i = 0; i < arity; ++i) {
      const int arg = args.begin()[i];
      op.in[i] = static_cast<uint16_t>(arg);
      value.uniform &= values_[arg].uniform;
      value.invariant &= values_[arg].invariant;
      values_[arg].last_use = static_cast<int16_t>(program_.ops.size());
    }
    op.arity = static_cast<uint8_t>(arity);
    op.uniform = value.uniform;
    op.invariant = value.invariant;
    const int place = AddPlace(value, value.uniform ? PlaceKind::kScalar : PlaceKind::kSlot);
    op.out = static_cast<uint16_t>(place);
    program_.ops.push_back(op);
    return place;
  }

  void EmitResult() {
    const int place = place_[graph_.result];
    const Value& value = values_[place];
    const int last = program_.ops.size() - 1;
    if (last >= 0 && program_.ops[last].out == place && !value.uniform) {
      program_.ops[last].out = 0;
      program_.ops[last].invariant = false;  // every tile of the output needs it
      return;
    }
    const TileFn fn = value.uniform ? FillTileFn(value.width) : CopyTileFn(value.width);
    AddOp(fn, {place}, value.width, 1, /*as_tile=*/true);
    if (overflow_) return;
    TileOp& op = program_.ops[program_.ops.size() - 1];
    op.out = 0;
    op.invariant = false;
  }

  // Slots are given out in the order of the operations and taken back after the last use.
  void AssignSlots() {
    bool free[TileProgram::kMaxPlaces] = {};
    const auto take = [&](int place) {
      // What stays for all tiles needs a slot that no operation before it writes again.
      int slot = values_[place].invariant ? program_.slots : 0;
      while (slot < program_.slots && !free[slot]) ++slot;
      if (slot == program_.slots) ++program_.slots;
      free[slot] = false;
      program_.places[place].offset = slot;
      program_.slot_width = std::max(program_.slot_width, values_[place].width);
    };
    const auto release = [&](const TileOp& op, int index, bool same_width) {
      for (int i = 0; i < op.arity; ++i) {
        const int arg = op.in[i];
        const Value& value = values_[arg];
        if (program_.places[arg].kind != PlaceKind::kSlot || value.invariant) continue;
        if (value.last_use != index || free[program_.places[arg].offset]) continue;
        // An operation may overwrite an operand of its own width, element by element.
        if (same_width == (value.width == values_[op.out].width)) {
          free[program_.places[arg].offset] = true;
        }
      }
    };
    int cell = program_.constants.size();
    for (const TileProgram::Expansion& expansion : program_.expansions) take(expansion.place);
    for (int i = 0; i < program_.ops.size(); ++i) {
      const TileOp& op = program_.ops[i];
      release(op, i, true);
      if (op.out != 0) {
        if (program_.places[op.out].kind == PlaceKind::kSlot) {
          take(op.out);
        } else {
          program_.places[op.out].offset = 8 * cell++;
        }
      }
      release(op, i, false);
    }
    program_.scalars = cell;
  }

  const TileGraph& graph_;
  const TileInput* inputs_;
  TileProgram& program_;
  bool overflow_ = false;
  bool needed_[TileGraph::kMaxNodes];
  int16_t place_[TileGraph::kMaxNodes];
  Value values_[TileProgram::kMaxPlaces];
};

// A tile's reads from memory, its arithmetic and its writes follow each other: short ones overlap.
constexpr int64_t kTileBytes = 4096;

}  // namespace

int64_t TileProgram::TileElements() const {
  const int64_t bytes = std::max<int64_t>(1, int64_t{slots} * slot_width);
  const int64_t fitting = kFileBytes / bytes;
  const int64_t whole = fitting / (fitting < 64 ? 16 : 64) * (fitting < 64 ? 16 : 64);
  return std::min<int64_t>(whole, kTileBytes / slot_width);
}

std::string_view LowerToTiles(const Expression& expression, const TileInput* inputs,
                              TileProgram* program) {
  if (expression.inputs.size() > TileProgram::kMaxInputs) return "there are too many operands";
  if (expression.registers() > 255) return "the expression has more than 255 registers";
  TileGraph graph;
  const std::string_view refusal = graph.Build(expression);
  if (!refusal.empty()) return refusal;
  graph.JoinHardSigmoids();
  Lowering lowering(graph, inputs, program);
  return lowering.Run(static_cast<int>(expression.inputs.size()));
}

std::shared_ptr<const TileProgram> TileProgramOf(const Expression& expression,
                                                 std::span<const TileInput> inputs,
                                                 std::string_view* why) {
  constexpr size_t kMostKept = 128;  // of some 15 KiB
  static std::mutex mutex;
  static std::unordered_map<std::string, std::shared_ptr<const TileProgram>> kept;
  std::string key;
  const auto append = [&key](const auto& value) {
    key.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  append(FloatTileFn(TileOpcode::kAdd, 0));  // says which target runs
  append(static_cast<uint32_t>(expression.inputs.size()));
  append(static_cast<uint32_t>(expression.constants.size()));
  for (const DType type : expression.inputs) append(type);
  for (const Expression::Constant& constant : expression.constants) {
    append(constant.type);
    append(constant.value);
  }
  for (const TileInput& input : inputs) {
    append(input.access);
    append(input.invariant);
  }
  for (const Instruction& instruction : expression.code) {
    append(instruction.fn);
    append(instruction.type);
    append(instruction.args);
  }
  {
    const std::lock_guard lock(mutex);
    if (const auto found = kept.find(key); found != kept.end()) return found->second;
  }
  auto program = std::make_shared_for_overwrite<TileProgram>();
  *why = LowerToTiles(expression, inputs.data(), program.get());
  if (!why->empty()) return nullptr;
  const std::lock_guard lock(mutex);
  if (kept.size() >= kMostKept) kept.clear();
  return kept.insert_or_assign(std::move(key), std::move(program)).first->second;
}

float TileCost(TileOpcode op, DType type) {
  using enum TileOpcode;
  switch (op) {
    case kExp:
    case kLog:
    case kLog1p:
    case kSin:
    case kCos:
    case kTanh:
    case kErf:
    case kSigmoid:
    case kGelu:
    case kGeluTanh:
    case kSoftplus:
    case kMish:
    case kElu:
    case kSwish: return type == DType::kFloat32 ? 0.5f : 8.0f;
    case kTan:
    case kAsin:
    case kAcos:
    case kAtan:
    case kSinh:
    case kCosh:
    case kAsinh:
    case kAcosh:
    case kAtanh:
    case kPow:
    case kMod:
    case kFMod: return 8.0f;
    case kSoftsign:
    case kDiv: return IsInteger(type) ? 2.0f : 0.2f;
    default: return type == DType::kFloat32 ? 0.1f : 0.2f;
  }
}

}  // namespace sardonyx
