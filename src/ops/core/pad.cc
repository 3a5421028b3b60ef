// Padding (or cropping, by negative pads) of axes: a constant, or what reflection, the edge or
// wrapping around finds there. ONNX Pad-19.

#include "ops/core/pad.h"

#include "ops/core/core.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

enum class Mode { kConstant, kReflect, kEdge, kWrap };

Mode ModeOf(std::string_view name) {
  if (name == "constant") return Mode::kConstant;
  if (name == "reflect") return Mode::kReflect;
  if (name == "edge") return Mode::kEdge;
  if (name == "wrap") return Mode::kWrap;
  Fail(ErrorCode::kInvalidModel, "pad: mode '{}' is none of constant, reflect, edge, wrap", name);
}

void InferPad(InferContext& context) {
  if (context.input_count() < 2 || !context.has(1)) context.Fail("pad takes an input and pads");
  const Mode mode = ModeOf(context.attributes().String("mode", "constant"));
  const DType type = context.dtype(0);
  if (context.has(2) && context.dtype(2) != type) {
    context.Fail("cannot pad {} with a {}", Name(type), Name(context.dtype(2)));
  }
  if (context.has(2) && context.ranked(2)) {
    for (const Dim dim : context.shape(2)) {
      if (!dim.known() || dim == 1) continue;
      context.Fail("cannot pad with a value of shape {}: it must be one element",
                   context.Print(context.shape(2)));
    }
  }
  if (!context.ranked(0)) return context.Set(0, type, {});
  Dims shape = context.shape(0);
  std::vector<int64_t> axes;
  bool known_axes = true;
  if (context.has(3)) {
    known_axes = context.Ints(3, &axes);
  } else {
    for (size_t i = 0; i < shape.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  const Dims* pads = context.elements(1);
  if (!known_axes) {
    for (Dim& dim : shape) dim = context.symbols().Fresh();
    return context.Set(0, type, std::move(shape));
  }
  if (pads != nullptr && pads->size() != 2 * axes.size()) {
    context.Fail("pad: {} pads for {} axes of {}", pads->size(), axes.size(), context.Print(shape));
  }
  SymbolTable& symbols = context.symbols();
  for (size_t i = 0; i < axes.size(); ++i) {
    const int axis = context.Axis(axes[i], context.rank(0));
    if (pads == nullptr) {
      shape[axis] = symbols.Fresh();
      continue;
    }
    const Dim begin = (*pads)[i], end = (*pads)[i + axes.size()], size = shape[axis];
    shape[axis] = symbols.Add(size, symbols.Add(begin, end));
    if (shape[axis].known() && shape[axis].value() < 0) {
      context.Fail("cannot pad axis {} of size {} by {} and {}: less than nothing would be left",
                   axis, size.value(), begin.value(), end.value());
    }
    if (size == 0 && mode != Mode::kConstant && shape[axis].known() && shape[axis].value() > 0) {
      context.Fail("cannot pad axis {} of {} from its own elements: it has none", axis,
                   context.Print(context.shape(0)));
    }
  }
  context.Set(0, type, std::move(shape));
}

// Index in [0, size) that a position before or after the axis reads; -1: the constant.
int64_t Source(Mode mode, int64_t position, int64_t size) {
  if (position >= 0 && position < size) return position;
  switch (mode) {
    case Mode::kConstant: return -1;
    case Mode::kEdge: return position < 0 ? 0 : size - 1;
    case Mode::kWrap: return (position % size + size) % size;
    case Mode::kReflect: break;
  }
  if (size == 1) return 0;
  // The edge itself is not repeated: a period of 2 * (size - 1).
  const int64_t period = 2 * (size - 1), within = (position % period + period) % period;
  return within < size ? within : period - within;
}

void ComputePad(ComputeContext& context) {
  const Tensor& x = context.input(0);
  Tensor& y = context.Allocate(0);
  const Mode mode = ModeOf(context.attributes().String("mode", "constant"));
  const std::vector<int64_t> pads = ToInts(context.input(1));
  std::vector<int64_t> axes, begins(x.rank(), 0);
  if (context.has(3)) axes = ToInts(context.input(3));
  const size_t count = pads.size() / 2;
  for (size_t i = 0; i < count; ++i) {
    const int64_t axis = axes.empty() ? static_cast<int64_t>(i) : axes[i];
    begins[axis < 0 ? axis + x.rank() : axis] = pads[i];
  }
  if (mode == Mode::kConstant) Fill(y, context.has(2) ? &context.input(2) : nullptr);
  const std::vector<int64_t> strides = RowMajorStrides(x.dims());
  Walk walk(y.dims(), {});
  CopyElements(x, y, y.size(), [&](int64_t i) {
    int64_t source = 0;
    for (int axis = 0; axis < x.rank() && source >= 0; ++axis) {
      const int64_t at = Source(mode, walk.index()[axis] - begins[axis], x.dims()[axis]);
      source = at < 0 ? -1 : source + at * strides[axis];
    }
    walk.Next();
    return std::pair<int64_t, int64_t>(source, i);
  });
}

}  // namespace

int64_t PadSource(std::string_view mode, int64_t position, int64_t size) {
  return Source(ModeOf(mode), position, size);
}

const CoreOp pad = {.name = "pad", .inputs = "ttt?t?", .infer = InferPad, .reference = ComputePad};

}  // namespace sardonyx::core
