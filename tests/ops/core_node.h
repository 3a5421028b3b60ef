#pragma once
// Running and inferring single nodes in tests of core operations.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "ir/tensor.h"
#include "ops/core/core.h"

namespace sardonyx {

// A node with constant inputs (an undefined tensor: absent), run by its reference compute.
inline std::vector<Datum> RunAll(const CoreOp& op, const std::vector<Datum>& inputs,
                                 Attributes attributes = {}, size_t outputs = 1) {
  std::vector<Value> values(inputs.size() + outputs);
  Node node;
  node.op = &op;
  node.attributes = std::move(attributes);
  for (size_t i = 0; i < inputs.size(); ++i) {
    node.inputs.push_back(inputs[i].has_value() ? &values[i] : nullptr);
  }
  for (size_t i = 0; i < outputs; ++i) node.outputs.push_back(&values[inputs.size() + i]);
  return RunReference(node, inputs);
}

inline Tensor Compute(const CoreOp& op, const std::vector<Datum>& inputs,
                      Attributes attributes = {}) {
  return *RunAll(op, inputs, std::move(attributes))[0].tensor();
}

template <typename T>
Tensor Make(std::vector<int64_t> dims, const std::vector<T>& values) {
  return MakeVector(values).Reshaped(std::move(dims));
}
inline Tensor Floats(std::vector<int64_t> dims, const std::vector<float>& values) {
  return Make<float>(std::move(dims), values);
}
inline Tensor Ints(const std::vector<int64_t>& values) { return MakeVector(values); }

// 0, 1, 2, ... in row-major order.
inline Tensor Counting(std::vector<int64_t> dims) {
  Tensor result(DType::kFloat32, std::move(dims));
  for (int64_t i = 0; i < result.size(); ++i) result.data<float>()[i] = static_cast<float>(i);
  return result;
}

inline void ExpectTensor(const Tensor& actual, const std::vector<int64_t>& dims,
                         const std::vector<double>& values, double tolerance = 1e-5) {
  EXPECT_EQ(actual.dims(), dims);
  const std::vector<double> elements = ToDoubles(actual);
  ASSERT_EQ(elements.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) {
      EXPECT_TRUE(std::isnan(elements[i])) << "at " << i;
    } else if (elements[i] != values[i]) {
      EXPECT_NEAR(elements[i], values[i], tolerance) << "at " << i;
    }
  }
}

// A graph under construction whose facts are printed: "float[batch,3]", and "int64[2]{batch,3}"
// where elements are known; "float[*]" of unknown rank.
class Facts {
 public:
  // Dimensions are numbers or names.
  Value* Input(DType type, const std::vector<std::string>& dims) {
    Fact fact;
    fact.type = type;
    fact.shape.emplace();
    for (const std::string& dim : dims) {
      fact.shape->push_back(std::isdigit(static_cast<unsigned char>(dim[0])) != 0
                                ? Dim(std::stoll(dim))
                                : graph_.symbols().Named(dim));
    }
    return graph_.AddInput("", std::move(fact));
  }
  Value* Input(const std::vector<std::string>& dims) { return Input(DType::kFloat32, dims); }
  Value* Unranked(DType type) {
    Fact fact;
    fact.type = type;
    return graph_.AddInput("", std::move(fact));
  }
  Value* Constant(Tensor tensor) { return graph_.AddConstant(std::move(tensor)); }
  Value* Constant(const std::vector<int64_t>& values) { return Constant(MakeVector(values)); }

  std::vector<Value*> MakeAll(const CoreOp& op, const std::vector<Value*>& inputs,
                              Attributes attributes = {}, int outputs = 1) {
    return graph_.Append(graph_.MakeNode(op, inputs, std::move(attributes), outputs, nullptr))
        ->outputs;
  }
  Value* Make(const CoreOp& op, const std::vector<Value*>& inputs, Attributes attributes = {}) {
    return MakeAll(op, inputs, std::move(attributes))[0];
  }
  std::string Print(const Value* value) {
    const Fact& fact = value->fact;
    std::string text(Name(fact.type.dtype));
    text += fact.shape ? PrintDims(*fact.shape, '[', ']') : "[*]";
    if (fact.elements) text += PrintDims(*fact.elements, '{', '}');
    return text;
  }
  std::string Infer(const CoreOp& op, const std::vector<Value*>& inputs,
                    Attributes attributes = {}) {
    return Print(Make(op, inputs, std::move(attributes)));
  }
  // The message of the error that making the node throws.
  std::string Error(const CoreOp& op, const std::vector<Value*>& inputs,
                    Attributes attributes = {}) {
    try {
      Make(op, inputs, std::move(attributes));
    } catch (const sardonyx::Error& error) {
      return error.what();
    }
    return "";
  }
  SymbolTable& symbols() { return graph_.symbols(); }

 private:
  std::string PrintDims(const Dims& dims, char open, char close) {
    std::string text(1, open);
    for (size_t i = 0; i < dims.size(); ++i) {
      if (i > 0) text += ",";
      text += graph_.symbols().Print(dims[i]);
    }
    return text + close;
  }

  Graph graph_;
};

}  // namespace sardonyx
