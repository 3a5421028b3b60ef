// Operators of maps. Each is a core operation, since no formula speaks of maps.

#include <charconv>
#include <cmath>
#include <map>
#include <unordered_map>

#include "ops/core/reference.h"
#include "ops/ml/keys.h"

namespace sardonyx {
namespace core {
namespace {

Type WithElement(Type::Kind kind, DType key, const Type& element) {
  Type type;
  type.kind = kind;
  type.dtype = key;
  type.element = std::make_shared<const Type>(element);
  return type;
}

void CheckMap(InferContext& context) {
  const Type& type = context.input(0).type;
  if (type.kind != Type::Kind::kMap) context.Fail("the input is {}, not a map", Print(type));
}

// The number of keys of a vector of them.
Dim KeysOf(InferContext& context, size_t i) {
  const Fact& keys = context.input(i);
  if (!keys.ranked() || keys.rank() != 1 ||
      (keys.type.dtype != DType::kInt64 && keys.type.dtype != DType::kString)) {
    context.Fail("keys are a vector of int64 or string");
  }
  return keys.shape->front();
}

const Map& MapOf(ComputeContext& context) {
  const Map* map = context.datum(0).map();
  if (map == nullptr) Fail(ErrorCode::kInvalidArgument, "the input is no map");
  if (map->keys.size() != static_cast<int64_t>(map->values.size())) {
    Fail(ErrorCode::kInvalidArgument, "the map has {} keys and {} values", map->keys.size(),
         map->values.size());
  }
  return *map;
}

// The value of a map's entry: a tensor of one element.
const Tensor& EntryOf(const Map& map, size_t i) {
  const Tensor* tensor = map.values[i].tensor();
  if (tensor == nullptr || tensor->size() != 1) {
    Fail(ErrorCode::kInvalidArgument, "value {} of the map is not one number or string", i);
  }
  return *tensor;
}

// ---- zip_map: (x [N,K] or [K], keys [K]) -> one map a row

void InferZipMap(InferContext& context) {
  if (context.dtype(0) != DType::kFloat32) {
    context.Fail("the values of zip_map are float, not {}", Name(context.dtype(0)));
  }
  if (context.ranked(0)) {
    const Dims& shape = context.shape(0);
    if (shape.empty() || shape.size() > 2) {
      context.Fail("the values of zip_map are [N,K] or [K], not {}", context.Print(shape));
    }
    const Dim keys = KeysOf(context, 1);
    if (shape.back().known() && !(shape.back() == keys)) {
      context.Fail("{} columns have {} keys", shape.back().value(), keys.value());
    }
  }
  Fact fact;
  const Type map = WithElement(Type::Kind::kMap, context.dtype(1), DType::kFloat32);
  fact.type = WithElement(Type::Kind::kSequence, DType::kUndefined, map);
  context.Set(0, std::move(fact));
}

// As in a map of C++ and in ONNX Runtime: keys ascend, and of equal ones the last counts.
template <typename T>
std::vector<int64_t> AscendingKeys(const Tensor& keys) {
  std::map<T, int64_t> positions;
  for (int64_t i = 0; i < keys.size(); ++i) positions[keys.data<T>()[i]] = i;
  std::vector<int64_t> result;
  for (const auto& [key, position] : positions) result.push_back(position);
  return result;
}

void ComputeZipMap(ComputeContext& context) {
  const Tensor &x = context.input(0), &keys = context.input(1);
  const std::vector<int64_t> order = keys.dtype() == DType::kString
                                         ? AscendingKeys<std::string>(keys)
                                         : AscendingKeys<int64_t>(keys);
  Tensor sorted(keys.dtype(), {static_cast<int64_t>(order.size())});
  CopyElements(keys, sorted, sorted.size(), [&](int64_t i) { return std::pair(order[i], i); });
  const int64_t rows = x.rank() == 1 ? 1 : x.dims()[0];
  // The entries are parts of one copy of the numbers.
  Tensor numbers = Copy(x);
  Sequence maps;
  maps.reserve(rows);
  for (int64_t row = 0; row < rows; ++row) {
    auto map = std::make_shared<Map>();
    map->keys = sorted;
    map->values.reserve(order.size());
    float* values = numbers.data<float>() + row * keys.size();
    for (int64_t column : order) {
      map->values.emplace_back(Tensor(DType::kFloat32, {}, values + column, numbers.owner()));
    }
    maps.emplace_back(std::shared_ptr<const Map>(std::move(map)));
  }
  context.Set(0, std::make_shared<const Sequence>(std::move(maps)));
}

// ---- dict_vectorizer: (map, vocabulary [K]){dtype: of the values} -> [1,K]

void InferDictVectorizer(InferContext& context) {
  CheckMap(context);
  const auto dtype = static_cast<DType>(context.attributes().Int("dtype"));
  context.Set(0, dtype, Dims{1, KeysOf(context, 1)});
}

template <typename T>
void PlaceEntries(const Map& map, const Tensor& vocabulary, Tensor& y) {
  std::unordered_map<T, int64_t> columns;
  for (int64_t i = 0; i < vocabulary.size(); ++i) columns[vocabulary.data<T>()[i]] = i;
  for (size_t i = 0; i < map.values.size(); ++i) {
    const auto column = columns.find(map.keys.data<T>()[i]);
    if (column == columns.end()) continue;
    const Tensor& entry = EntryOf(map, i);
    if (entry.dtype() != y.dtype()) {
      Fail(ErrorCode::kInvalidArgument, "the map holds {}, not {}", Name(entry.dtype()),
           Name(y.dtype()));
    }
    CopyElements(entry, y, 1, [&](int64_t) { return std::pair(int64_t{0}, column->second); });
  }
}

void ComputeDictVectorizer(ComputeContext& context) {
  const Map& map = MapOf(context);
  const Tensor& vocabulary = context.input(1);
  Tensor& y = context.Allocate(0);
  Fill(y, nullptr);
  if (map.values.empty()) return;
  if (map.keys.dtype() != vocabulary.dtype()) {
    Fail(ErrorCode::kInvalidArgument, "keys of the map are {}, but the vocabulary is {}",
         Name(map.keys.dtype()), Name(vocabulary.dtype()));
  }
  if (vocabulary.dtype() == DType::kString) {
    PlaceEntries<std::string>(map, vocabulary, y);
  } else {
    PlaceEntries<int64_t>(map, vocabulary, y);
  }
}

// ---- cast_map: (map){to, columns: of the sparse form} -> [1,K], ascending by key

void InferCastMap(InferContext& context) {
  CheckMap(context);
  const Attributes& attributes = context.attributes();
  const bool sparse = attributes.Find("columns") != nullptr;
  const Dim columns = sparse ? Dim(attributes.Int("columns")) : context.symbols().Fresh();
  const auto to = static_cast<DType>(attributes.Int("to"));
  if (to != DType::kString && to != DType::kFloat32 && to != DType::kInt64) {
    context.Fail("a map is cast to string, float or int64");
  }
  if (columns.known() && columns.value() < 0)
    context.Fail("a map has no {} columns", columns.value());
  context.Set(0, to, Dims{1, columns});
}

template <typename T>
T Parse(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || rest != end) {
    Fail(ErrorCode::kInvalidArgument, "'{}' in the map is no number", text);
  }
  return value;
}

void CastEntry(const Tensor& from, Tensor& y, int64_t column) {
  const bool is_text = from.dtype() == DType::kString;
  if (!is_text && from.dtype() != DType::kFloat32) {
    Fail(ErrorCode::kInvalidArgument, "values of the map are {}, not float or string",
         Name(from.dtype()));
  }
  const std::string text = is_text ? from.data<std::string>()[0] : "";
  const float number = is_text ? 0 : from.data<float>()[0];
  switch (y.dtype()) {
    case DType::kString:
      y.data<std::string>()[column] = is_text ? text : fmt::format("{:f}", number);
      break;
    case DType::kFloat32: y.data<float>()[column] = is_text ? Parse<float>(text) : number; break;
    default: {
      // A float string is cut to an integer, and what no integer can hold is the least of all.
      const double limit = std::ldexp(1.0, 63);
      const bool fits = number >= -limit && number < limit;
      y.data<int64_t>()[column] = is_text ? Parse<int64_t>(text)
                                  : fits  ? static_cast<int64_t>(number)
                                          : std::numeric_limits<int64_t>::min();
    }
  }
}

void ComputeCastMap(ComputeContext& context) {
  const Map& map = MapOf(context);
  const Attributes& attributes = context.attributes();
  const bool sparse = attributes.Find("columns") != nullptr;
  if (!map.values.empty() && map.keys.dtype() != DType::kInt64) {
    Fail(ErrorCode::kInvalidArgument, "keys of the map are {}, not int64", Name(map.keys.dtype()));
  }
  std::map<int64_t, size_t> entries;
  for (size_t i = 0; i < map.values.size(); ++i) entries[map.keys.data<int64_t>()[i]] = i;
  const int64_t columns = sparse ? attributes.Int("columns") : static_cast<int64_t>(entries.size());
  Tensor& y = context.Allocate(0, static_cast<DType>(attributes.Int("to")), {1, columns});
  // ONNX Runtime's text for an absent entry.
  const Tensor absent = MakeScalar(std::string("0.f"));
  Fill(y, y.dtype() == DType::kString ? &absent : nullptr);
  int64_t column = 0;
  for (const auto& [key, entry] : entries) {
    const int64_t at = sparse ? key : column++;
    if (at < 0 || at >= columns) {
      Fail(ErrorCode::kInvalidArgument, "key {} of the map is outside [0,{}]", key, columns - 1);
    }
    CastEntry(EntryOf(map, entry), y, at);
  }
}

}  // namespace

const CoreOp zip_map = {
    .name = "zip_map", .inputs = "tt", .infer = InferZipMap, .reference = ComputeZipMap};
const CoreOp dict_vectorizer = {.name = "dict_vectorizer",
                                .inputs = "vt",
                                .infer = InferDictVectorizer,
                                .reference = ComputeDictVectorizer};
const CoreOp cast_map = {
    .name = "cast_map", .inputs = "v", .infer = InferCastMap, .reference = ComputeCastMap};

}  // namespace core

namespace ops::ml {

Outputs LowerZipMap(Lowering& op) {
  const Tensor keys = StringsOrInts(op, "classlabels_strings", "classlabels_int64s");
  return op.builder().Make(core::zip_map, {op.in(0), op.builder().Constant(keys)});
}

Outputs LowerDictVectorizer(Lowering& op) {
  const Tensor vocabulary = StringsOrInts(op, "string_vocabulary", "int64_vocabulary");
  const Type& type = op.in(0).type();
  if (type.kind != Type::Kind::kMap) op.Fail("the input is {}, not a map", Print(type));
  if (type.dtype != vocabulary.dtype()) {
    op.Fail("keys of the map are {}, but the vocabulary is {}", Name(type.dtype),
            Name(vocabulary.dtype()));
  }
  const auto dtype = static_cast<int64_t>(type.element->dtype);
  return op.builder().Make(core::dict_vectorizer, {op.in(0), op.builder().Constant(vocabulary)},
                           {{"dtype", dtype}});
}

Outputs LowerCastMap(Lowering& op) {
  const std::string to = op.String("cast_to", "TO_FLOAT"), form = op.String("map_form", "DENSE");
  DType dtype = DType::kFloat32;
  if (to == "TO_STRING") {
    dtype = DType::kString;
  } else if (to == "TO_INT64") {
    dtype = DType::kInt64;
  } else if (to != "TO_FLOAT") {
    op.Fail("cast_to must be TO_FLOAT, TO_INT64 or TO_STRING, not '{}'", to);
  }
  if (form != "DENSE" && form != "SPARSE") {
    op.Fail("map_form must be DENSE or SPARSE, not '{}'", form);
  }
  Attributes attributes{{"to", static_cast<int64_t>(dtype)}};
  if (form == "SPARSE") {
    if (op.Int("max_map", 1) < 1) op.Fail("max_map is {}", op.Int("max_map"));
    attributes.Set("columns", op.Int("max_map", 1));
  }
  return op.builder().Make(core::cast_map, {op.in(0)}, std::move(attributes));
}

}  // namespace ops::ml
}  // namespace sardonyx
