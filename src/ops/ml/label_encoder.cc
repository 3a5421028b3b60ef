#include "ops/ml/keys.h"

namespace sardonyx::ops::ml {
namespace {

// A list that stands in one of several attributes: strings, int64s, floats, or a tensor.
Tensor ListOf(Lowering& op, const std::string& prefix) {
  std::vector<Tensor> given;
  if (const auto& strings = op.attributes.Strings(prefix + "strings"); !strings.empty()) {
    given.push_back(MakeVector(strings));
  }
  if (const auto& ints = op.Ints(prefix + "int64s"); !ints.empty()) {
    given.push_back(MakeVector(ints));
  }
  if (const auto& floats = op.attributes.Floats(prefix + "floats"); !floats.empty()) {
    given.push_back(MakeVector(std::vector<float>(floats.begin(), floats.end())));
  }
  if (const Tensor& tensor = op.attributes.TensorValue(prefix + "tensor"); tensor.defined()) {
    given.push_back(tensor.rank() == 0 ? tensor.Reshaped({1}) : tensor);
  }
  if (given.size() != 1) {
    op.Fail("one of the attributes {}* must be given, not {}", prefix, given.size());
  }
  return given[0];
}

// What a key that is not there becomes: one element.
Tensor DefaultOf(Lowering& op, DType type) {
  const Tensor& given = op.attributes.TensorValue("default_tensor");
  if (given.defined()) {
    if (given.dtype() != type || given.size() != 1) {
      op.Fail("default_tensor must be one {}, not {}{}", Name(type), Name(given.dtype()),
              PrintDims(given.dims()));
    }
    return given.Reshaped({1});
  }
  switch (type) {
    case DType::kString: return MakeVector(std::vector{op.String("default_string", "_Unused")});
    case DType::kFloat32: return MakeFilled(type, {1}, op.Float("default_float", -0.0));
    case DType::kInt64: return MakeVector(std::vector{op.Int("default_int64", -1)});
    default: return MakeFilled(type, {1}, IsInteger(type) ? -1 : -0.0);
  }
}

Val Encode(Lowering& op, const Tensor& keys, const Tensor& values, Repeated repeated) {
  if (values.rank() != 1 || values.size() != keys.size()) {
    op.Fail("{} keys cannot have values of shape {}", keys.size(), PrintDims(values.dims()));
  }
  Builder& builder = op.builder();
  const Val otherwise = builder.Constant(DefaultOf(op, values.dtype()));
  return Translate(op, op.in(0), keys, Concat({builder.Constant(values), otherwise}, 0), repeated);
}

Tensor Counted(size_t size) {
  std::vector<int64_t> numbers(size);
  for (size_t i = 0; i < size; ++i) numbers[i] = static_cast<int64_t>(i);
  return MakeVector(numbers);
}

}  // namespace

// Version 1 has a list of strings, whose positions are the integers.
Outputs LowerLabelEncoder(Lowering& op) {
  if (op.version() > 1) {
    return Encode(op, ListOf(op, "keys_"), ListOf(op, "values_"),
                  op.version() < 4 ? Repeated::kFirst : Repeated::kLast);
  }
  const auto& strings = op.attributes.Strings("classes_strings");
  const Tensor names = MakeVector(strings), numbers = Counted(strings.size());
  if (op.in(0).dtype() == DType::kString) return Encode(op, names, numbers, Repeated::kLast);
  return Encode(op, numbers, names, Repeated::kLast);
}

Outputs LowerCategoryMapper(Lowering& op) {
  const Tensor strings = MakeVector(op.attributes.Strings("cats_strings"));
  const Tensor ints = MakeVector(op.Ints("cats_int64s"));
  if (op.in(0).dtype() == DType::kString) return Encode(op, strings, ints, Repeated::kLast);
  return Encode(op, ints, strings, Repeated::kLast);
}

}  // namespace sardonyx::ops::ml
