#include "ops/core/control.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/cast.h"
#include "ops/core/core.h"
#include "ops/evaluate.h"

namespace sardonyx::core {

Fact Variable(const Fact& fact) {
  Fact result;
  result.type = fact.type;
  result.shape = fact.shape;
  return result;
}

std::vector<int> Carried(size_t formals, size_t first, size_t count, int output) {
  std::vector<int> carried(formals, -1);
  for (size_t i = first; i < std::min(formals, first + count); ++i) carried[i] = output++;
  return carried;
}

namespace {

// A formal that no iteration changes any more: facts of all formals, captures included, such that
// one run of the body gives carried values of the same shapes.
std::vector<Fact> SettleFormals(const Graph& body, std::vector<Fact> formals,
                                std::span<const int> carried, SymbolTable& symbols,
                                std::vector<Fact>* outputs) {
  Dims forgotten;
  for (bool changed = true; changed;) {
    std::vector<const Fact*> facts;
    for (const Fact& formal : formals) facts.push_back(&formal);
    *outputs = InferBody(body, facts, symbols);
    changed = false;
    for (size_t i = 0; i < carried.size(); ++i) {
      if (carried[i] < 0) continue;
      changed |= Relax(&formals[i], (*outputs)[carried[i]], symbols, &forgotten);
    }
  }
  return formals;
}

Fact WithLeading(const Fact& element, Dim size, int64_t axis) {
  Fact fact;
  fact.type = element.type;
  if (!element.ranked()) return fact;
  fact.shape = element.shape;
  const int64_t rank = element.rank() + 1;
  if (axis < 0) axis += rank;
  fact.shape->insert(fact.shape->begin() + std::clamp<int64_t>(axis, 0, rank - 1), size);
  return fact;
}

// ---- if_

void InferIf(InferContext& context) {
  const auto then_branch = context.attributes().Body("then_branch");
  const auto else_branch = context.attributes().Body("else_branch");
  if (then_branch->outputs.size() != else_branch->outputs.size() ||
      then_branch->outputs.size() < context.output_count()) {
    context.Fail("the branches have {} and {} outputs, the node {}", then_branch->outputs.size(),
                 else_branch->outputs.size(), context.output_count());
  }
  std::vector<const Fact*> captures;
  for (size_t i = 1; i < context.input_count(); ++i) captures.push_back(&context.input(i));
  // The other branch need not even make sense for these shapes.
  if (std::vector<int64_t> condition; context.Ints(0, &condition)) {
    if (condition.size() != 1) context.Fail("the condition has {} elements", condition.size());
    const auto& branch = condition[0] != 0 ? then_branch : else_branch;
    std::vector<Fact> facts = InferBody(*branch, captures, context.symbols());
    for (size_t i = 0; i < context.output_count(); ++i) context.Set(i, std::move(facts[i]));
    return;
  }
  // A branch that does not fit these shapes cannot be taken, so that the other alone tells the
  // outputs; should it be taken after all, running it says what is wrong.
  auto infer = [&](const Graph& branch) -> std::optional<std::vector<Fact>> {
    try {
      return InferBody(branch, captures, context.symbols());
    } catch (const Error&) {
      return std::nullopt;
    }
  };
  std::optional<std::vector<Fact>> a = infer(*then_branch), b = infer(*else_branch);
  if (!a && !b) a = InferBody(*then_branch, captures, context.symbols());  // throws
  for (size_t i = 0; i < context.output_count(); ++i) {
    context.Set(
        i, a && b ? Join((*a)[i], (*b)[i], context.symbols()) : Variable(a ? (*a)[i] : (*b)[i]));
  }
}

bool Truth(const Tensor& condition) {
  if (condition.dtype() != DType::kBool || condition.size() != 1) {
    Fail(ErrorCode::kInvalidModel, "the condition must be one bool, is {}{}",
         Name(condition.dtype()), PrintDims(condition.dims()));
  }
  return condition.data<bool>()[0];
}

void ComputeIf(ComputeContext& context) {
  const auto body =
      context.attributes().Body(Truth(context.input(0)) ? "then_branch" : "else_branch");
  std::vector<Datum> captures;
  for (size_t i = 1; i < context.input_count(); ++i) captures.push_back(context.datum(i));
  std::vector<Datum> outputs = Evaluate(*body, captures);
  for (size_t i = 0; i < context.output_count(); ++i) context.Set(i, std::move(outputs[i]));
}

// ---- loop

// The trip count or the condition of a loop.
void CheckSingle(InferContext& context, size_t i, std::string_view what) {
  if (!context.has(i) || !context.input(i).static_shape()) return;
  for (Dim dim : context.shape(i)) {
    if (!(dim == 1))
      context.Fail("the {} is one element, not {}", what, context.Print(context.shape(i)));
  }
}

void InferLoop(InferContext& context) {
  CheckSingle(context, 0, "trip count");
  CheckSingle(context, 1, "condition");
  const auto body = context.attributes().Body("body");
  const size_t carried = context.attributes().Int("carried");
  SymbolTable& symbols = context.symbols();
  std::vector<Fact> formals;
  Fact iteration, condition;
  iteration.type = DType::kInt64;
  iteration.shape.emplace();
  condition.type = DType::kBool;
  condition.shape.emplace();
  formals.push_back(iteration);
  formals.push_back(condition);
  for (size_t i = 2; i < context.input_count(); ++i) {
    const bool varies = i < 2 + carried;
    formals.push_back(!context.has(i) ? body->inputs[i]->fact
                      : varies        ? Variable(context.input(i))
                                      : context.input(i));
  }
  std::vector<Fact> outputs;
  formals =
      SettleFormals(*body, formals, Carried(formals.size(), 2, carried, 1), symbols, &outputs);
  // The trip count is known if nothing can end the loop early.
  Dim trips = symbols.Fresh();
  const Dims* limit = context.elements(0);
  const bool starts =
      !context.has(1) || (context.constant(1) != nullptr && context.constant(1)->data<bool>()[0]);
  const bool passes_condition = body->outputs[0] == body->inputs[1];
  const bool goes_on =
      passes_condition || (outputs[0].constant.defined() && outputs[0].constant.data<bool>()[0]);
  if (limit != nullptr && limit->size() == 1 && starts && goes_on) trips = (*limit)[0];
  if (trips.known() && trips.value() < 0) trips = 0;
  for (size_t i = 0; i < context.output_count(); ++i) {
    if (i < carried) {
      // Zero trips hand the initial value through.
      context.Set(i, context.has(2 + i)
                         ? Join(Variable(context.input(2 + i)), formals[2 + i], symbols)
                         : formals[2 + i]);
    } else {
      context.Set(i, WithLeading(Variable(outputs[1 + i]), trips, 0));
    }
  }
}

void ComputeLoop(ComputeContext& context) {
  const auto body = context.attributes().Body("body");
  const size_t carried = context.attributes().Int("carried");
  const int64_t limit =
      context.has(0) ? ToInts(context.input(0)).at(0) : std::numeric_limits<int64_t>::max();
  bool running = !context.has(1) || Truth(context.input(1));
  std::vector<Datum> inputs(context.input_count() < 2 ? 2 : context.input_count());
  for (size_t i = 2; i < context.input_count(); ++i) inputs[i] = context.datum(i);
  const size_t scanned = body->outputs.size() - 1 - carried;
  std::vector<std::vector<Tensor>> parts(scanned);
  for (int64_t iteration = 0; running && iteration < limit; ++iteration) {
    inputs[0] = MakeScalar<int64_t>(iteration);
    inputs[1] = MakeScalar<bool>(running);
    std::vector<Datum> outputs = Evaluate(*body, inputs);
    running = Truth(*outputs[0].tensor());
    for (size_t i = 0; i < carried; ++i) inputs[2 + i] = outputs[1 + i];
    for (size_t i = 0; i < scanned; ++i) parts[i].push_back(*outputs[1 + carried + i].tensor());
  }
  for (size_t i = 0; i < context.output_count(); ++i) {
    if (i < carried) {
      context.Set(i, inputs[2 + i]);
    } else {
      context.Set(i, Stack(parts[i - carried], body->outputs[1 + i]->fact, 0));
    }
  }
}

// ---- scan

int64_t ItemOr(const std::vector<int64_t>& values, size_t i, int64_t otherwise) {
  return i < values.size() ? values[i] : otherwise;
}

void InferScan(InferContext& context) {
  const auto body = context.attributes().Body("body");
  const size_t scanned = context.attributes().Int("scan_inputs");
  const size_t captures = context.attributes().Int("captures");
  const size_t states = context.input_count() - captures - scanned;
  SymbolTable& symbols = context.symbols();
  Dim length = symbols.Fresh();
  std::vector<Fact> formals;
  for (size_t i = 0; i < context.input_count(); ++i) {
    if (i < states) {
      formals.push_back(Variable(context.input(i)));
    } else if (i < states + scanned) {
      Fact slice = Variable(context.input(i));
      if (slice.ranked()) {
        const int axis = context.Axis(
            ItemOr(context.attributes().Ints("input_axes"), i - states, 0), slice.rank());
        const Dim size = (*slice.shape)[axis];
        if (length.known() && size.known() && !(length == size)) {
          context.Fail("scanned inputs have {} and {} elements along their scan axes",
                       length.value(), size.value());
        }
        if (size.known() || !length.known()) length = size;
        slice.shape->erase(slice.shape->begin() + axis);
      }
      formals.push_back(std::move(slice));
    } else {
      formals.push_back(context.input(i));
    }
  }
  std::vector<Fact> outputs;
  formals = SettleFormals(*body, formals, Carried(formals.size(), 0, states, 0), symbols, &outputs);
  for (size_t i = 0; i < context.output_count(); ++i) {
    if (i < states) {
      context.Set(i, Join(Variable(context.input(i)), formals[i], symbols));
    } else {
      context.Set(i, WithLeading(Variable(outputs[i]), length,
                                 ItemOr(context.attributes().Ints("output_axes"), i - states, 0)));
    }
  }
}

void ComputeScan(ComputeContext& context) {
  const auto body = context.attributes().Body("body");
  const Attributes& attributes = context.attributes();
  const size_t scanned = attributes.Int("scan_inputs");
  const size_t captures = attributes.Int("captures");
  const size_t states = context.input_count() - captures - scanned;
  std::vector<Datum> inputs;
  for (size_t i = 0; i < context.input_count(); ++i) inputs.push_back(context.datum(i));
  int64_t length = 0;
  for (size_t i = 0; i < scanned; ++i) {
    const Tensor& x = context.input(states + i);
    int64_t axis = ItemOr(attributes.Ints("input_axes"), i, 0);
    if (axis < 0) axis += x.rank();
    length = x.dims().at(axis);
  }
  const size_t stacked = body->outputs.size() - states;
  std::vector<std::vector<Tensor>> parts(stacked);
  for (int64_t t = 0; t < length; ++t) {
    for (size_t i = 0; i < scanned; ++i) {
      const bool reverse = ItemOr(attributes.Ints("input_directions"), i, 0) != 0;
      inputs[states + i] =
          SliceAt(context.input(states + i), ItemOr(attributes.Ints("input_axes"), i, 0),
                  reverse ? length - 1 - t : t);
    }
    std::vector<Datum> outputs = Evaluate(*body, inputs);
    for (size_t i = 0; i < states; ++i) inputs[i] = outputs[i];
    for (size_t i = 0; i < stacked; ++i) parts[i].push_back(*outputs[states + i].tensor());
  }
  for (size_t i = 0; i < context.output_count(); ++i) {
    if (i < states) {
      context.Set(i, inputs[i]);
      continue;
    }
    std::vector<Tensor>& list = parts[i - states];
    if (ItemOr(attributes.Ints("output_directions"), i - states, 0) != 0) {
      std::reverse(list.begin(), list.end());
    }
    context.Set(i, Stack(list, body->outputs[i]->fact,
                         ItemOr(attributes.Ints("output_axes"), i - states, 0)));
  }
}

}  // namespace

const CoreOp if_ = {.name = "if_",
                    .inputs = "tv*",
                    .outputs = {1, kAnyNumber},
                    .infer = InferIf,
                    .reference = ComputeIf};
const CoreOp loop = {.name = "loop",
                     .inputs = "t?t?v?*",
                     .outputs = {1, kAnyNumber},
                     .infer = InferLoop,
                     .reference = ComputeLoop};
const CoreOp scan = {.name = "scan",
                     .inputs = "v*",
                     .outputs = {1, kAnyNumber},
                     .infer = InferScan,
                     .reference = ComputeScan};

namespace {

// Elements [from_at, from_at + count) of one tensor to another of the same type.
void CopyRange(const Tensor& from, int64_t from_at, const Tensor& to, int64_t to_at,
               int64_t count) {
  if (from.dtype() == DType::kString) {
    std::copy_n(from.data<std::string>() + from_at, count,
                static_cast<std::string*>(to.raw()) + to_at);
  } else if (IsPacked(from.dtype())) {
    const int bits = BitWidth(from.dtype());
    for (int64_t i = 0; i < count; ++i) {
      WritePacked(to.raw(), bits, to_at + i, ReadPacked(from.raw(), bits, from_at + i));
    }
  } else if (count > 0) {
    const int64_t width = ByteSize(from.dtype(), 1);
    std::memcpy(static_cast<char*>(to.raw()) + to_at * width,
                static_cast<const char*>(from.raw()) + from_at * width, count * width);
  }
}

}  // namespace

Tensor Stack(const std::vector<Tensor>& parts, const Fact& element, int64_t axis) {
  std::vector<int64_t> dims;
  if (!parts.empty()) {
    dims = parts[0].dims();
  } else if (element.ranked()) {
    for (Dim dim : *element.shape) dims.push_back(dim.known() ? dim.value() : 0);
  }
  const int64_t rank = static_cast<int64_t>(dims.size()) + 1;
  const int64_t at = axis < 0 ? axis + rank : axis;
  if (at < 0 || at >= rank) {
    Fail(ErrorCode::kInvalidModel, "output axis {} is outside rank {}", axis, rank);
  }
  std::vector<int64_t> stacked = dims;
  const int64_t count = static_cast<int64_t>(parts.size());
  stacked.insert(stacked.begin() + at, count);
  Tensor result(parts.empty() ? element.type.dtype : parts[0].dtype(), stacked);
  const int64_t outer = ElementCount(std::span(dims).first(static_cast<size_t>(at)));
  for (int64_t p = 0; p < count; ++p) {
    if (parts[p].dims() != dims) {
      Fail(ErrorCode::kInvalidModel, "iterations give {} and {}; these cannot be stacked",
           PrintDims(dims), PrintDims(parts[p].dims()));
    }
    const int64_t inner = outer > 0 ? parts[p].size() / outer : 0;
    for (int64_t o = 0; o < outer; ++o) {
      CopyRange(parts[p], o * inner, result, (o * count + p) * inner, inner);
    }
  }
  return result;
}

Tensor SliceAt(const Tensor& x, int64_t axis, int64_t index) {
  std::vector<int64_t> dims = x.dims();
  if (axis < 0) axis += x.rank();
  const int64_t length = dims.at(axis);
  const int64_t outer = ElementCount(std::span(dims).first(static_cast<size_t>(axis)));
  const int64_t inner = ElementCount(std::span(dims).subspan(static_cast<size_t>(axis) + 1));
  dims.erase(dims.begin() + axis);
  if (outer == 1 && x.dtype() != DType::kString && !IsPacked(x.dtype())) {
    return Tensor(x.dtype(), dims, static_cast<char*>(x.raw()) + ByteSize(x.dtype(), index * inner),
                  x.owner());
  }
  Tensor result(x.dtype(), dims);
  for (int64_t o = 0; o < outer; ++o) {
    CopyRange(x, (o * length + index) * inner, result, o * inner, inner);
  }
  return result;
}

std::vector<Fact> InferBody(const Graph& body, std::span<const Fact* const> inputs,
                            SymbolTable& symbols) {
  if (inputs.size() != body.inputs.size()) {
    Fail(ErrorCode::kInvalidModel, "the body '{}' takes {} inputs, given {}", body.name,
         body.inputs.size(), inputs.size());
  }
  std::unordered_map<const Value*, Fact> facts;
  for (size_t i = 0; i < inputs.size(); ++i) facts[body.inputs[i]] = *inputs[i];
  std::vector<const Fact*> arguments;
  auto read = [&](const Value* value) -> const Fact* {
    if (value == nullptr) return nullptr;
    return value->is_constant() ? &value->fact : &facts.at(value);
  };
  for (const auto& node : body.nodes()) {
    arguments.clear();
    for (const Value* input : node->inputs) arguments.push_back(read(input));
    std::vector<Fact> inferred = Infer(*node, arguments, symbols);
    for (size_t i = 0; i < inferred.size(); ++i) facts[node->outputs[i]] = std::move(inferred[i]);
  }
  std::vector<Fact> outputs;
  for (const Value* output : body.outputs) outputs.push_back(*read(output));
  return outputs;
}

Fact Join(const Fact& a, const Fact& b, SymbolTable& symbols) {
  const auto wraps = [](const Type& outer, const Type& inner) {
    return outer.kind == Type::Kind::kOptional && outer.element != nullptr &&
           (*outer.element == inner || *outer.element == Type());
  };
  Fact result;
  if (a.type == b.type || wraps(a.type, b.type)) {
    result.type = a.type;
  } else if (wraps(b.type, a.type)) {
    result.type = b.type;
  } else {
    Fail(ErrorCode::kInvalidModel, "a value is {} on one path and {} on another", Print(a.type),
         Print(b.type));
  }
  if (!a.ranked() || !b.ranked() || a.rank() != b.rank()) return result;
  result.shape = a.shape;
  for (size_t i = 0; i < a.shape->size(); ++i) {
    if (!((*a.shape)[i] == (*b.shape)[i])) (*result.shape)[i] = symbols.Fresh();
  }
  return result;
}

bool Relax(Fact* formal, const Fact& next, SymbolTable& symbols, Dims* forgotten) {
  if (formal->shape == next.shape && formal->type == next.type) return false;
  Fact joined = Join(*formal, next, symbols);
  bool changed = joined.ranked() != formal->ranked() || !(joined.type == formal->type);
  for (size_t d = 0; joined.ranked() && d < joined.shape->size(); ++d) {
    const Dim before = (*formal->shape)[d];
    Dim& now = (*joined.shape)[d];
    if (now == before) continue;
    if (std::find(forgotten->begin(), forgotten->end(), before) != forgotten->end()) {
      now = before;
    } else {
      forgotten->push_back(now);
      changed = true;
    }
  }
  if (changed) *formal = std::move(joined);
  return changed;
}

}  // namespace sardonyx::core
