#include <gtest/gtest.h>

#include <cstring>

#include "run_graph.h"

namespace sardonyx {
namespace {

TEST(PackCache, ByRows) {
  std::vector<int64_t> released;
  PackCache packs([&](const Tensor& part) {
    released.push_back(part.dims()[0]);
    return std::shared_ptr<const MappedFile>();
  });
  std::mt19937 random(1);
  const Tensor matrix = RandomTensor(DType::kFloat32, {7, 5}, random);
  // As a model file may hold it: not aligned to its elements.
  std::vector<char> file(matrix.bytes() + 1);
  std::memcpy(file.data() + 1, matrix.raw(), matrix.bytes());
  const Tensor misaligned(DType::kFloat32, {7, 5}, file.data() + 1, nullptr);
  auto copy = [](const Tensor& rows, int64_t first, void* to) {
    EXPECT_TRUE(IsAligned(rows));
    std::memcpy(static_cast<float*>(to) + first * 5, rows.raw(), rows.bytes());
  };
  for (int again = 0; again < 2; ++again) {
    const auto packed = packs.GetByRows(misaligned, {1, 0}, "copy", matrix.bytes(), 3, copy);
    EXPECT_EQ(std::memcmp(packed.get(), matrix.raw(), matrix.bytes()), 0);
    EXPECT_EQ(released, (std::vector<int64_t>{3, 3, 1}));
  }
  // Without an id it is neither kept nor given back.
  packs.GetByRows(matrix, ConstantId{}, "copy", matrix.bytes(), 3, copy);
  EXPECT_EQ(released.size(), 3u);
}

TEST(PackCache, MatricesPackedSomeColumnsAtATime) {
  std::mt19937 random(2);
  for (const int64_t columns : {1, 63, 64, 150}) {
    const auto graph = std::make_shared<Graph>();
    Value* x = graph->AddInput("x", Fact::Of(RandomTensor(DType::kFloat32, {20, 20000}, random)));
    x->fact.constant = Tensor();
    Value* w = graph->AddConstant(RandomTensor(DType::kFloat32, {columns, 20000}, random));
    Node* node = graph->Append(graph->MakeNode(core::matmul, {x, w}, {{"trans_b", int64_t{1}}}, 1,
                                               std::make_shared<Origin>()));
    graph->outputs = {node->output()};
    const auto program = MakeProgram(graph);
    const std::vector<Datum> inputs = {RandomTensor(DType::kFloat32, {20, 20000}, random)};
    ExpectSameAll(program->Run(inputs), Evaluate(*graph, inputs), 2e-3);
  }
}

}  // namespace
}  // namespace sardonyx
