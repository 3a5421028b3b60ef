// Constant indices that go in even steps are copies between strides; all others are looked up.

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <numeric>

#include "run_graph.h"

namespace sardonyx {
namespace {

std::string ConstantOf(std::string_view name, std::string_view type,
                       const std::vector<int64_t>& dims, const std::vector<int64_t>& values) {
  return fmt::format("const {}: {}[{}] = {{{}}}\n", name, type, fmt::join(dims, ","),
                     fmt::join(values, ", "));
}

// Runs `text` against the reference and names what its first step ran on.
std::string ImplementationOf(const std::string& text, std::vector<std::vector<int64_t>> dims,
                             int threads = 1) {
  const auto program = MakeProgram(text, threads);
  std::mt19937 random(1);
  std::vector<Datum> inputs;
  for (auto& each : dims) inputs.emplace_back(RandomTensor(DType::kFloat32, each, random));
  const auto plan = program->PlanFor(dims);
  ExpectRuns(*program, inputs);
  return plan->steps.empty() ? "" : std::string(plan->steps[0].binding->implementation);
}

std::string Gathered(const std::vector<int64_t>& dims, const std::vector<int64_t>& indices,
                     std::string_view type = "int64") {
  return ImplementationOf("graph g\ninput x: float[3,20,2]\n" +
                              ConstantOf("at", type, dims, indices) +
                              "y = gather(x, at) {axis=1}\noutput y\n",
                          {{3, 20, 2}});
}

TEST(IndexLattice, GatherOfEvenSteps) {
  EXPECT_EQ(Gathered({3, 3}, {0, 1, 2, 4, 5, 6, 8, 9, 10}), "strides");
  EXPECT_EQ(Gathered({3, 3}, {0, 1, 2, 1, 2, 3, 2, 3, 4}), "strides");  // windows overlap
  EXPECT_EQ(Gathered({2, 1, 4}, {19, 17, 15, 13, -10, 8, -14, 4}), "strides");
  EXPECT_EQ(Gathered({2, 1, 4}, {19, 17, 15, 13, -10, 8, -14, 4}, "int32"), "strides");
  EXPECT_EQ(Gathered({4}, {7, 7, 7, 7}), "strides");
  EXPECT_EQ(Gathered({1, 1}, {-20}), "strides");
}

TEST(IndexLattice, GatherOfOtherSteps) {
  EXPECT_EQ(Gathered({3, 3}, {0, 1, 2, 4, 5, 6, 8, 9, 11}), "rows");
  EXPECT_EQ(Gathered({3, 3}, {0, 1, 2, 4, 5, 6, 9, 10, 11}), "rows");
  EXPECT_EQ(Gathered({3}, {18, 19, 0}), "rows");
}

// The first index that is outside is named, as where all are looked up.
TEST(IndexLattice, OutsideOfTheAxis) {
  for (const int64_t begin : {18, -21}) {
    const auto program =
        MakeProgram("graph g\ninput x: float[3,20,2]\n" +
                    ConstantOf("at", "int64", {4}, {begin, begin + 1, begin + 2, begin + 3}) +
                    "y = gather(x, at) {axis=1}\noutput y\n");
    std::mt19937 random(1);
    const std::vector<Datum> inputs = {RandomTensor(DType::kFloat32, {3, 20, 2}, random)};
    try {
      program->Run(inputs);
      FAIL() << "no error";
    } catch (const Error& error) {
      const std::string expected = begin < 0 ? "index -21 (element 0" : "index 20 (element 2";
      EXPECT_NE(std::string_view(error.what()).find(expected), std::string_view::npos)
          << error.what();
    }
  }
}

// Vectors that name a box of steps in the leading axes of [4,6,3,2].
struct Box {
  std::vector<int64_t> first, step, count;
  std::vector<int64_t> dims() const {
    std::vector<int64_t> dims = count;
    dims.push_back(static_cast<int64_t>(count.size()));
    return dims;
  }
  std::vector<int64_t> Vectors() const {
    std::vector<int64_t> vectors, at(count.size(), 0);
    const int64_t all = std::accumulate(count.begin(), count.end(), int64_t{1}, std::multiplies());
    for (int64_t i = 0; i < all; ++i) {
      for (size_t k = 0; k < count.size(); ++k) vectors.push_back(first[k] + at[k] * step[k]);
      for (size_t k = count.size(); k-- > 0 && ++at[k] == count[k];) at[k] = 0;
    }
    return vectors;
  }
};

std::string GatheredNd(const std::vector<int64_t>& dims, const std::vector<int64_t>& vectors) {
  return ImplementationOf("graph g\ninput x: float[4,6,3,2]\n" +
                              ConstantOf("at", "int64", dims, vectors) +
                              "y = gather_nd(x, at) {batch_dims=0}\noutput y\n",
                          {{4, 6, 3, 2}});
}

// `updates` have the shape of what the vectors name.
std::string ScatteredNd(const std::vector<int64_t>& dims, const std::vector<int64_t>& vectors,
                        std::string_view reduction = "none", int threads = 1) {
  const std::vector<int64_t> x = {4, 6, 3, 2};
  std::vector<int64_t> updates(dims.begin(), dims.end() - 1);
  updates.insert(updates.end(), x.begin() + dims.back(), x.end());
  return ImplementationOf(
      fmt::format("graph g\ninput x: float[4,6,3,2]\ninput u: float[{}]\n",
                  fmt::join(updates, ",")) +
          ConstantOf("at", "int64", dims, vectors) +
          fmt::format("y = scatter_nd(x, at, u) {{reduction=\"{}\"}}\noutput y\noutput x\n",
                      reduction),
      {x, updates}, threads);
}

TEST(IndexLattice, BoxesOfVectors) {
  const Box boxes[] = {{{1}, {2}, {2}},
                       {{0, 0}, {1, 1}, {4, 6}},
                       {{1, 2}, {1, 1}, {3, 2}},
                       {{3, 5}, {-1, -2}, {4, 3}},
                       {{0, 1, 0, 0}, {2, 1, 1, 1}, {2, 5, 3, 1}},
                       {{2, 0, 1, 1}, {0, 1, 1, 1}, {1, 1, 1, 1}}};
  for (const Box& box : boxes) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(box.Vectors(), ",")));
    EXPECT_EQ(GatheredNd(box.dims(), box.Vectors()), "strides");
    for (const int threads : {1, 2}) {
      EXPECT_EQ(ScatteredNd(box.dims(), box.Vectors(), "none", threads), "strides");
    }
    EXPECT_EQ(ScatteredNd(box.dims(), box.Vectors(), "add"), "slices");
  }
}

TEST(IndexLattice, UpdatesThatMeetKeepTheirOrder) {
  EXPECT_EQ(ScatteredNd({3, 1}, {2, 2, 2}), "slices");
  EXPECT_EQ(ScatteredNd({2, 2, 1}, {0, 1, 1, 2}), "slices");
  EXPECT_EQ(GatheredNd({2, 2, 1}, {0, 1, 1, 2}), "strides");
  EXPECT_EQ(ScatteredNd({2, 2, 1}, {0, 2, 1, 3}), "strides");  // they interleave
  EXPECT_EQ(ScatteredNd({3, 2}, {0, 0, 1, 1, 2, 3}), "slices");
}

}  // namespace
}  // namespace sardonyx
