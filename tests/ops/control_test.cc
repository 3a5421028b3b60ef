// What loops know of the values they carry, and values that iterations take and give, of element
// types that are not a whole number of bytes.

#include "ops/core/control.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/cast.h"
#include "ir/tensor.h"
#include "ops/builder.h"
#include "ops/core/core.h"
#include "ops/vocabulary.h"

namespace sardonyx {
namespace {

Tensor Packed(std::vector<int64_t> dims, const std::vector<uint32_t>& values) {
  Tensor tensor(DType::kUInt4, std::move(dims));
  for (size_t i = 0; i < values.size(); ++i) {
    WritePacked(tensor.raw(), 4, static_cast<int64_t>(i), values[i]);
  }
  return tensor;
}

std::vector<uint32_t> Codes(const Tensor& tensor) {
  std::vector<uint32_t> values;
  for (int64_t i = 0; i < tensor.size(); ++i) values.push_back(ReadPacked(tensor.raw(), 4, i));
  return values;
}

TEST(Control, StacksPackedElements) {
  const std::vector<Tensor> parts = {Packed({3}, {1, 2, 3}), Packed({3}, {4, 5, 6})};
  const Tensor rows = core::Stack(parts, Fact(), 0);
  EXPECT_EQ(rows.dims(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(Codes(rows), (std::vector<uint32_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Codes(core::Stack(parts, Fact(), 1)), (std::vector<uint32_t>{1, 4, 2, 5, 3, 6}));
}

TEST(Control, SlicesPackedElements) {
  const Tensor x = Packed({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(Codes(core::SliceAt(x, 0, 1)), (std::vector<uint32_t>{4, 5, 6}));
  EXPECT_EQ(Codes(core::SliceAt(x, 1, 1)), (std::vector<uint32_t>{2, 5}));
}

// A state that follows one that grows, an iteration later, has no known size either.
TEST(Control, SizesThatChangeLater) {
  Graph graph;
  Builder builder(graph);
  Fact whole, truth, line;
  whole.type = DType::kInt64;
  whole.shape.emplace();
  truth.type = DType::kBool;
  truth.shape.emplace();
  line.type = DType::kFloat32;
  line.shape = Dims{graph.symbols().Fresh()};
  const auto body = std::make_shared<Graph>(graph.shared_symbols());
  Builder inside(*body);
  body->AddInput("", whole);
  Value* const goes_on = body->AddInput("", truth);
  Value* states[4];
  for (Value*& state : states) state = body->AddInput("", line);
  const Val grown =
      Concat({inside.Wrap(states[0]), inside.Constant(MakeFilled(DType::kFloat32, {1}, 0))}, 0);
  body->outputs = {goes_on, grown.value, states[0], states[1], states[3]};
  const Val x = builder.Wrap(graph.AddInput("x", line));
  const Val trips = builder.Wrap(graph.AddInput("trips", whole));
  const std::vector<Val> results = builder.MakeMany(core::loop, {trips, {}, x, x, x, x},
                                                    {{"body", body}, {"carried", int64_t{4}}}, 4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(results[i].shape()[0] == x.shape()[0], i == 3) << "state " << i;
  }
}

}  // namespace
}  // namespace sardonyx
