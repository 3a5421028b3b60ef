// Random graphs give the same numbers whatever passes run.

#include <gtest/gtest.h>

#include "ops/evaluate.h"
#include "passes/pass.h"
#include "random_graph.h"

namespace sardonyx {
namespace {

constexpr unsigned kGraphs = 400;

// Optimises each graph with the passes that `disabled` leaves and compares.
void Check(const std::vector<std::string>& disabled, unsigned graphs) {
  for (unsigned seed = 0; seed < graphs; ++seed) {
    const std::shared_ptr<Graph> plain = RandomGraph(seed).graph();
    const std::shared_ptr<Graph> graph = RandomGraph(seed).graph();
    const std::string before = PrintGraph(*plain);
    ASSERT_EQ(PrintGraph(*graph), before);
    std::mt19937 random(seed);
    const std::vector<Datum> inputs = RandomInputs(*plain, random);
    const std::vector<Datum> expected = Evaluate(*plain, inputs);
    try {
      Optimize(*graph, {.disabled = disabled});
      const std::vector<Datum> actual = Evaluate(*graph, inputs);
      ASSERT_EQ(actual.size(), expected.size());
      for (size_t i = 0; i < actual.size(); ++i) ExpectSame(actual[i], expected[i], 2e-4);
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
    if (testing::Test::HasFailure()) {
      FAIL() << "seed " << seed << "\n" << before << "\nbecame\n" << PrintGraph(*graph);
    }
  }
}

TEST(RandomGraphs, AllPasses) { Check({}, 4 * kGraphs); }

TEST(RandomGraphs, EachPassAlone) {
  for (const Pass& kept : Pipeline()) {
    SCOPED_TRACE(std::string(kept.name));
    std::vector<std::string> disabled;
    for (const Pass& pass : Pipeline()) {
      if (pass.name != kept.name) disabled.emplace_back(pass.name);
    }
    Check(disabled, kGraphs);
    if (HasFailure()) return;
  }
}

TEST(RandomGraphs, AllButOne) {
  for (const Pass& pass : Pipeline()) {
    SCOPED_TRACE(std::string(pass.name));
    Check({std::string(pass.name)}, kGraphs / 2);
    if (HasFailure()) return;
  }
}

// What is optimised already stays as it is.
TEST(RandomGraphs, TwiceGivesTheSame) {
  for (unsigned seed = 0; seed < kGraphs; ++seed) {
    const std::shared_ptr<Graph> graph = RandomGraph(seed).graph();
    Optimize(*graph);
    std::mt19937 random(seed);
    const std::vector<Datum> inputs = RandomInputs(*graph, random);
    const std::vector<Datum> expected = Evaluate(*graph, inputs);
    Optimize(*graph);
    const std::vector<Datum> actual = Evaluate(*graph, inputs);
    for (size_t i = 0; i < actual.size(); ++i) ExpectSame(actual[i], expected[i], 2e-4);
    ASSERT_FALSE(HasFailure()) << "seed " << seed << "\n" << PrintGraph(*graph);
  }
}

// The text of a random graph reads back as the same graph.
TEST(RandomGraphs, TextReadsBack) {
  for (unsigned seed = 0; seed < kGraphs; ++seed) {
    const std::shared_ptr<Graph> graph = RandomGraph(seed).graph();
    const std::string text = PrintGraph(*graph);
    if (text.find("= ...") != std::string::npos) continue;
    ASSERT_EQ(PrintGraph(*Parse(text)), text);
  }
}

}  // namespace
}  // namespace sardonyx
