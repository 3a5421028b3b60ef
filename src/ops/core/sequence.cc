// Sequences of tensors, and optional values.

#include <algorithm>

#include "ops/core/core.h"
#include "ops/core/element_type.h"
#include "ops/core/reference.h"

namespace sardonyx::core {
namespace {

Type Wrapped(Type::Kind kind, const Type& element) {
  Type type;
  type.kind = kind;
  type.element = std::make_shared<const Type>(element);
  return type;
}

Fact FactOfType(Type type) {
  Fact fact;
  fact.type = std::move(type);
  return fact;
}

const Type& ElementOf(InferContext& context, size_t i, Type::Kind kind) {
  const Type* type = &context.input(i).type;
  // A loop may turn an optional that it got into what it holds.
  const bool unwraps = kind == Type::Kind::kSequence && type->kind == Type::Kind::kOptional;
  if (unwraps && type->element != nullptr) type = type->element.get();
  if (type->kind != kind || type->element == nullptr) {
    context.Fail("{}: input {} is {}, not {}", context.node().op->name, i,
                 Print(context.input(i).type),
                 kind == Type::Kind::kSequence ? "a sequence" : "an optional");
  }
  return *type->element;
}

const Sequence& SequenceOf(ComputeContext& context, size_t i) {
  const Sequence* sequence = context.datum(i).sequence();
  if (sequence == nullptr) {
    Fail(ErrorCode::kInvalidArgument, "{}: input {} is no sequence", context.node().op->name, i);
  }
  return *sequence;
}

void SetSequence(ComputeContext& context, Sequence items) {
  context.Set(0, std::make_shared<const Sequence>(std::move(items)));
}

// A position in [-size, limit), counted from the end if negative.
int64_t Position(ComputeContext& context, size_t i, int64_t size, int64_t limit,
                 int64_t otherwise) {
  if (!context.has(i)) return otherwise;
  const std::vector<int64_t> given = ToInts(context.input(i));
  if (given.size() != 1)
    Fail(ErrorCode::kInvalidArgument, "a position is one number, not {}", given.size());
  if (given[0] < -size || given[0] >= limit) {
    Fail(ErrorCode::kInvalidArgument, "{}: position {} is outside [{},{}] of a sequence of {}",
         context.node().op->name, given[0], -size, limit - 1, size);
  }
  return given[0] < 0 ? given[0] + size : given[0];
}

// Attribute dtype: the element type of an empty sequence.
void InferSequence(InferContext& context) {
  Type element(ElementType(context.attributes(), "dtype", DType::kFloat32));
  for (size_t i = 0; i < context.input_count(); ++i) {
    const Type& type = context.input(i).type;
    if (i > 0 && !(type == element)) {
      context.Fail("a sequence of {} and {}: the types must be the same", Print(element),
                   Print(type));
    }
    element = type;
  }
  context.Set(0, FactOfType(Wrapped(Type::Kind::kSequence, element)));
}

void ComputeSequence(ComputeContext& context) {
  Sequence items;
  for (size_t i = 0; i < context.input_count(); ++i) items.push_back(context.datum(i));
  SetSequence(context, std::move(items));
}

void InferSequenceAt(InferContext& context) {
  context.Set(0, FactOfType(ElementOf(context, 0, Type::Kind::kSequence)));
}

void ComputeSequenceAt(ComputeContext& context) {
  const Sequence& items = SequenceOf(context, 0);
  const int64_t size = static_cast<int64_t>(items.size());
  context.Set(0, items[Position(context, 1, size, size, 0)]);
}

void InferSameSequence(InferContext& context) {
  const Type& element = ElementOf(context, 0, Type::Kind::kSequence);
  context.Set(0, FactOfType(Wrapped(Type::Kind::kSequence, element)));
}

void InferSequenceInsert(InferContext& context) {
  // The element type of a sequence that is empty at run time is unknown there.
  const Type& element = ElementOf(context, 0, Type::Kind::kSequence);
  const Type& inserted = context.input(1).type;
  if (!(element == inserted) && !(element == Type())) {
    context.Fail("cannot insert {} into {}", Print(inserted), Print(context.input(0).type));
  }
  context.Set(0, FactOfType(Wrapped(Type::Kind::kSequence, inserted)));
}

void ComputeSequenceInsert(ComputeContext& context) {
  const Sequence& old = SequenceOf(context, 0);
  const int64_t size = static_cast<int64_t>(old.size());
  const auto at = old.begin() + Position(context, 2, size, size + 1, size);
  Sequence items;
  items.reserve(old.size() + 1);
  items.assign(old.begin(), at);
  items.push_back(context.datum(1));
  items.insert(items.end(), at, old.end());
  SetSequence(context, std::move(items));
}

void ComputeSequenceErase(ComputeContext& context) {
  Sequence items = SequenceOf(context, 0);
  const int64_t size = static_cast<int64_t>(items.size());
  if (size == 0) Fail(ErrorCode::kInvalidArgument, "cannot erase from an empty sequence");
  items.erase(items.begin() + Position(context, 1, size, size, size - 1));
  SetSequence(context, std::move(items));
}

void InferSequenceLength(InferContext& context) {
  ElementOf(context, 0, Type::Kind::kSequence);
  context.Set(0, DType::kInt64, Dims{});
}

void ComputeSequenceLength(ComputeContext& context) {
  context.Set(0, MakeScalar(static_cast<int64_t>(SequenceOf(context, 0).size())));
}

void InferConcatFromSequence(InferContext& context) {
  context.Set(0, ElementOf(context, 0, Type::Kind::kSequence).dtype, {});
}

// The node concat, run by its own reference compute, of the items or views of them.
void ComputeConcatFromSequence(ComputeContext& context) {
  std::vector<Datum> parts = SequenceOf(context, 0);
  const int64_t axis = context.attributes().Int("axis");
  for (Datum& part : parts) {
    if (context.attributes().Int("new_axis") == 0) break;
    std::vector<int64_t> dims = part.tensor()->dims();
    const int64_t rank = part.tensor()->rank() + 1;
    if (axis < -rank || axis >= rank) {
      Fail(ErrorCode::kInvalidArgument, "axis {} is out of range for rank {}", axis, rank);
    }
    dims.insert(dims.begin() + (axis < 0 ? axis + rank : axis), 1);
    part = part.tensor()->Reshaped(std::move(dims));
  }
  if (parts.empty()) Fail(ErrorCode::kInvalidArgument, "cannot concatenate an empty sequence");
  Value result;
  Node node;
  node.outputs = {&result};
  node.op = &concat;
  node.attributes = {{"axis", axis}};
  context.Set(0, RunReference(node, parts)[0]);
}

void InferSplitToSequence(InferContext& context) {
  if (context.ranked(0)) context.Axis(context.attributes().Int("axis"), context.rank(0));
  context.Set(0, FactOfType(Wrapped(Type::Kind::kSequence, context.input(0).type)));
}

void ComputeSplitToSequence(ComputeContext& context) {
  const Tensor& x = context.input(0);
  const int64_t given = context.attributes().Int("axis");
  const int64_t axis = given < 0 ? given + x.rank() : given;
  const int64_t size = x.dims()[axis];
  const bool scalar = context.has(1) && context.input(1).rank() == 0;
  std::vector<int64_t> sizes;
  if (context.has(1) && !scalar) {
    sizes = ToInts(context.input(1));
    int64_t sum = 0;
    for (int64_t part : sizes) {
      if (part < 0 || part > size - sum) sum = size + 1;
      if (sum > size) break;
      sum += part;
    }
    if (sum != size) {
      Fail(ErrorCode::kInvalidArgument, "cannot split axis {} of {} into {}", axis,
           PrintDims(x.dims()), PrintDims(sizes));
    }
  } else {
    const int64_t chunk = scalar ? ToInts(context.input(1))[0] : 1;
    if (chunk < 1) Fail(ErrorCode::kInvalidArgument, "cannot split into parts of {}", chunk);
    for (int64_t rest = size; rest > 0; rest -= chunk) sizes.push_back(std::min(chunk, rest));
  }
  const bool squeezes = !context.has(1) && context.attributes().Int("keepdims", 1) == 0;
  const std::vector<int64_t> strides = RowMajorStrides(x.dims());
  const auto slice = [&](int64_t first, const std::vector<int64_t>& dims) {
    // Parts of what lies in one piece are views: items of a sequence are never written to.
    const bool whole = SplitAt(x.dims(), static_cast<int>(axis)).outer == 1;
    if (whole && x.owner() && x.dtype() != DType::kString && !IsPacked(x.dtype())) {
      char* from = static_cast<char*>(x.raw()) + ByteSize(x.dtype(), first * strides[axis]);
      return Tensor(x.dtype(), dims, from, x.owner());
    }
    Tensor item(x.dtype(), dims);
    CopyStrided(x, first * strides[axis], strides, item, 0, RowMajorStrides(dims), dims);
    return item;
  };
  Sequence items;
  int64_t position = 0;
  for (int64_t part : sizes) {
    std::vector<int64_t> dims = x.dims();
    dims[axis] = part;
    Tensor item = slice(position, dims);
    if (squeezes) {
      dims.erase(dims.begin() + axis);
      item = item.Reshaped(dims);
    }
    items.push_back(std::move(item));
    position += part;
  }
  SetSequence(context, std::move(items));
}

void InferOptional(InferContext& context) {
  Type element;
  if (context.has(0)) {
    element = context.input(0).type;
  } else if (context.attributes().Find("type") != nullptr) {
    element = TypeFromText(context.attributes().String("type"));
  }
  context.Set(0, FactOfType(Wrapped(Type::Kind::kOptional, element)));
}

// A full optional is represented by its value, an empty one by an empty datum.
void ComputeOptional(ComputeContext& context) {
  context.Set(0, context.input_count() > 0 ? context.datum(0) : Datum());
}

void InferOptionalGet(InferContext& context) {
  const Fact& from = context.input(0);
  if (from.type.kind == Type::Kind::kOptional) {
    return context.Set(0, FactOfType(ElementOf(context, 0, Type::Kind::kOptional)));
  }
  context.Set(0, from);
}

void ComputeOptionalGet(ComputeContext& context) {
  if (!context.has(0)) Fail(ErrorCode::kInvalidArgument, "an empty optional has no element");
  context.Set(0, context.datum(0));
}

void InferOptionalHas(InferContext& context) { context.Set(0, DType::kBool, Dims{}); }

void ComputeOptionalHas(ComputeContext& context) { context.Set(0, MakeScalar(context.has(0))); }

}  // namespace

const CoreOp sequence = {
    .name = "sequence", .inputs = "v*", .infer = InferSequence, .reference = ComputeSequence};
const CoreOp sequence_at = {.name = "sequence_at",
                            .inputs = "vt",
                            .infer = InferSequenceAt,
                            .reference = ComputeSequenceAt};
const CoreOp sequence_insert = {.name = "sequence_insert",
                                .inputs = "vvt?",
                                .infer = InferSequenceInsert,
                                .reference = ComputeSequenceInsert};
const CoreOp sequence_erase = {.name = "sequence_erase",
                               .inputs = "vt?",
                               .infer = InferSameSequence,
                               .reference = ComputeSequenceErase};
const CoreOp sequence_length = {.name = "sequence_length",
                                .inputs = "v",
                                .infer = InferSequenceLength,
                                .reference = ComputeSequenceLength};
const CoreOp concat_from_sequence = {.name = "concat_from_sequence",
                                     .inputs = "v",
                                     .infer = InferConcatFromSequence,
                                     .reference = ComputeConcatFromSequence};
const CoreOp split_to_sequence = {.name = "split_to_sequence",
                                  .inputs = "tt?",
                                  .infer = InferSplitToSequence,
                                  .reference = ComputeSplitToSequence};
const CoreOp optional = {
    .name = "optional", .inputs = "v?", .infer = InferOptional, .reference = ComputeOptional};
const CoreOp optional_get = {.name = "optional_get",
                             .inputs = "v",
                             .infer = InferOptionalGet,
                             .reference = ComputeOptionalGet};
const CoreOp optional_has = {.name = "optional_has",
                             .inputs = "v?",
                             .infer = InferOptionalHas,
                             .reference = ComputeOptionalHas};

}  // namespace sardonyx::core
