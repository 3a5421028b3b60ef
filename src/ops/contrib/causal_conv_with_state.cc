#include <algorithm>

#include "ops/contrib/shapes.h"

namespace sardonyx::ops::contrib {
namespace {

enum Input : size_t { kInput, kWeight, kBias, kPast };

// The last `length` positions of x along an axis, without the last `behind` of these.
Val Last(Val x, int64_t length, int64_t behind, int64_t axis) {
  const int64_t end = behind > 0 ? -behind : INT64_MAX;  // up to -0 would be nothing
  if (length == 0) return Slice(x, {0}, {0}, {axis});
  return Slice(x, {-length - behind}, {end}, {axis});
}

Val Zeros(Val shape, DType type) { return Filled(shape, MakeFilled(type, {1}, 0)); }

}  // namespace

// A depthwise convolution along a sequence that sees the present and the past alone. The state is
// what of the past the kernel reaches; the states after each of the last `state_window` positions
// may be asked for, of which the last is where the next call goes on.
Outputs LowerCausalConvWithState(Lowering& op) {
  Builder& b = op.builder();
  const Val w = op.in(kWeight), given = op.in(kInput);
  const int64_t dilation = op.Int("dilation", 1), window = op.Int("state_window");
  const bool last = op.Int("channels_last") != 0;
  if (op.Int("ndim", 1) != 1) {
    op.Unsupported(
        "attribute ndim is {}: there is nothing that says how more than one axis is "
        "padded",
        op.Int("ndim"));
  }
  if (dilation < 1) op.Fail("attribute dilation is {}, but must be positive", dilation);
  if (window < 0 || window > 8) op.Fail("attribute state_window is {}, not 0 to 8", window);
  ExpectRank(op, w, "weight", 3);
  const int64_t channels = w.size(0), taps = w.size(2);
  ExpectShape(op, w, "weight", {channels, 1, taps});
  if (taps < 1) op.Fail("the weight has no elements along its last axis");
  if (taps > 1 && dilation > INT64_MAX / 8 / (taps - 1)) {
    op.Fail("a kernel of {} with dilation {} is too long", taps, dilation);
  }
  const int64_t before = (taps - 1) * dilation;
  if (given.rank() < 3 || (!last && given.rank() > 3)) {
    op.Fail("input has rank {}, not 3", given.rank());
  }

  // [batch,channels,length], or [batch,length,channels] with axes of channels made one.
  const int64_t axis = last ? 1 : 2;
  const Val more = last && given.rank() > 3 ? ShapeOf(given, 2, given.rank()) : Val{};
  const Val x = more ? Reshape(given, std::vector<int64_t>{0, 0, channels}) : given;
  const Dim batch = x.shape()[0], length = x.shape()[axis];
  const auto with = [&](Dim size) {
    return last ? Dims{batch, size, channels} : Dims{batch, channels, size};
  };
  ExpectShape(op, x, "input", with(length));
  if (op.has(kBias)) ExpectShape(op, op.in(kBias), "bias", {channels});
  Val past = op.in(kPast);
  if (past) {
    if (window > 0) {
      if (past.rank() < 1 || past.size(0) != window) {
        op.Fail("past_state is {}, expected {} states of state_window", Print(op, past.shape()),
                window);
      }
      past = Squeeze(Slice(past, {-1}, {INT64_MAX}, {0}), {0});
    }
    if (more) {
      ExpectRank(op, past, "past_state", given.rank());
      past = Reshape(past, std::vector<int64_t>{0, 0, channels});
    }
    ExpectShape(op, past, "past_state", with(before));
  }

  Attributes attributes{{"group", channels},
                        {"strides", std::vector<int64_t>{1}},
                        {"dilations", std::vector<int64_t>{dilation}},
                        {"pads", std::vector<int64_t>{past ? 0 : before, 0}}};
  Val y = Widen(past ? Concat({past, x}, axis) : x);
  y = b.Make(core::conv, {last ? y : ToChannelsLast(y), Widen(w)}, attributes);
  if (op.has(kBias)) y = y + Widen(op.in(kBias));
  const std::string activation = op.String("activation", "none");
  if (activation == "silu" || activation == "swish") {
    y = y * Sigmoid(y);
  } else if (activation != "none") {
    op.Fail("attribute activation is '{}', not silu, swish or none", activation);
  }
  if (!last) y = ToChannelsFirst(y);
  y = CastLike(more ? Reshape(y, ShapeOf(given), true) : y, x);

  // Of the input no more is read than states hold.
  const int64_t asked = window > 1 ? std::clamp<int64_t>(x.size(axis), 1, window) : 1;
  if (!past) {
    const Val room = b.Ints({before});
    past = Zeros(
        last ? Concat({SizeOf(x, 0), room, SizeOf(x, 2)}, 0) : Concat({ShapeOf(x, 0, 2), room}, 0),
        x.dtype());
  }
  const Val end = Concat({past, Last(x, before + asked - 1, 0, axis)}, axis);
  std::vector<Val> states;
  for (int64_t behind = asked - 1; behind >= 0; --behind) {
    Val state = Last(end, before, behind, axis);
    if (more) state = Reshape(state, Concat({SizeOf(x, 0), b.Ints({before}), more}, 0), true);
    states.push_back(window > 0 ? Unsqueeze(state, {0}) : state);
  }
  if (asked < window) {
    const Val shape =
        Concat({b.Ints({window - asked}), ShapeOf(states[0], 1, states[0].rank())}, 0);
    states.insert(states.begin(), Zeros(shape, x.dtype()));
  }
  return {y, states.size() > 1 ? Concat(states, 0) : states[0]};
}

}  // namespace sardonyx::ops::contrib
