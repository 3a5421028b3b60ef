#pragma once
// Graphs as text in tests: random constants and inputs, one form for comparisons, comparing values.

#include <gtest/gtest.h>
#include <re2/re2.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/cast.h"
#include "ir/text.h"
#include "ops/core/core.h"

namespace sardonyx {

// Fills with numbers that suit most operations: floats in [-2, 2), integers in [0, 4).
inline void FillRandom(Tensor& tensor, std::mt19937& random) {
  if (tensor.dtype() == DType::kString) {
    for (int64_t i = 0; i < tensor.size(); ++i) {
      tensor.data<std::string>()[i] = std::to_string(random() % 100);
    }
    return;
  }
  DispatchReal(tensor.dtype(), "a random tensor", [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < tensor.size(); ++i) {
      if constexpr (std::is_integral_v<T>) {
        tensor.data<T>()[i] = static_cast<T>(random() % (std::is_same_v<T, bool> ? 2 : 4));
      } else {
        tensor.data<T>()[i] = static_cast<T>(static_cast<float>(random() % 4000) / 1000.0F - 2.0F);
      }
    }
  });
}

inline Tensor RandomTensor(DType dtype, std::vector<int64_t> dims, std::mt19937& random) {
  Tensor tensor(dtype, std::move(dims));
  FillRandom(tensor, random);
  return tensor;
}

// "const w: float[2,2] = random" becomes numbers that follow from the name alone.
inline std::string WithRandomConstants(const std::string& text) {
  static const RE2 kRandom(R"((?s)(.*?const (\S+): \w+\[([0-9,]*)\] = )random)");
  std::string result, before, name, sizes;
  re2::StringPiece rest(text);
  while (RE2::Consume(&rest, kRandom, &before, &name, &sizes)) {
    std::mt19937 random(static_cast<unsigned>(std::hash<std::string>()(name)));
    int64_t count = 1;
    std::stringstream dims(sizes);
    for (std::string dim; std::getline(dims, dim, ',');) count *= std::stoll(dim);
    result += before + "{";
    for (int64_t i = 0; i < count; ++i) {
      result +=
          (i > 0 ? ", " : "") + fmt::format("{}", static_cast<int>(random() % 400) * 0.01 - 2);
    }
    result += "}";
  }
  return result + std::string(rest);
}

inline std::unique_ptr<Graph> Parse(const std::string& text) {
  return ParseGraph(WithRandomConstants(text), core::Find);
}

// The printed graph without facts and origins.
inline std::string Shape(const Graph& graph) {
  static const RE2 kComment(R"( *#[^\n]*)");
  std::string text = PrintGraph(graph);
  RE2::GlobalReplace(&text, kComment, "");
  return text;
}

// Values for the inputs of a graph: symbols get the sizes 2, 3, 4, ... in order of appearance,
// unknown ranks are 2, and `fixed` holds what a case prescribes.
inline std::vector<Datum> RandomInputs(Graph& graph, std::mt19937& random,
                                       const std::map<std::string, Tensor>& fixed = {}) {
  std::map<std::string, int64_t> sizes;
  std::vector<Datum> inputs;
  for (const Value* input : graph.inputs) {
    if (auto it = fixed.find(input->name); it != fixed.end()) {
      inputs.push_back(it->second);
      continue;
    }
    std::vector<int64_t> dims;
    const Dims shape = input->fact.shape.value_or(Dims{2, 3});
    for (Dim dim : shape) {
      const auto next = static_cast<int64_t>(2 + sizes.size());
      dims.push_back(dim.known()
                         ? dim.value()
                         : sizes.try_emplace(graph.symbols().Print(dim), next).first->second);
    }
    inputs.push_back(RandomTensor(input->fact.type.dtype, dims, random));
  }
  return inputs;
}

// Expects equal kinds, types and dimensions, and numbers within `tolerance` of the largest one.
inline void ExpectSame(const Datum& actual, const Datum& expected, double tolerance = 1e-4) {
  ASSERT_EQ(actual.value.index(), expected.value.index());
  if (const Sequence* sequence = expected.sequence()) {
    ASSERT_EQ(actual.sequence()->size(), sequence->size());
    for (size_t i = 0; i < sequence->size(); ++i) {
      ExpectSame((*actual.sequence())[i], (*sequence)[i], tolerance);
    }
    return;
  }
  if (expected.tensor() == nullptr) return;
  const Tensor &a = *actual.tensor(), &e = *expected.tensor();
  ASSERT_EQ(Name(a.dtype()), Name(e.dtype()));
  ASSERT_EQ(a.dims(), e.dims());
  if (!IsFloat(e.dtype())) {
    EXPECT_TRUE(BitEqual(a, e));
    return;
  }
  // Halves may be rounded once less than by the reference: one unit in the last place.
  if (e.dtype() == DType::kFloat16) tolerance = std::max(tolerance, 0x1p-10);
  if (e.dtype() == DType::kBFloat16) tolerance = std::max(tolerance, 0x1p-7);
  const std::vector<double> x = ToDoubles(a), y = ToDoubles(e);
  double largest = 1e-3;
  for (double value : y) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  for (size_t i = 0; i < y.size(); ++i) {
    const bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]));
    if (same || std::abs(x[i] - y[i]) <= tolerance * largest) continue;
    ADD_FAILURE() << "element " << i << " of " << PrintDims(e.dims()) << " is " << x[i]
                  << ", expected " << y[i];
    return;
  }
}

}  // namespace sardonyx
