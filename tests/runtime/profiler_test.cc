#include "runtime/profiler.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "run_graph.h"

namespace sardonyx {
namespace {

std::shared_ptr<Graph> Named() {
  std::shared_ptr<Graph> graph = Parse(R"(graph g
input x: float[n,3]
input keep: bool[n]
const two: int64[] = {2}
a = relu(x)
b = compress(a, keep) {axis=0}
c = loop(two, _, b) {carried=1}
  body = {
    graph body
    input i: int64[]
    input go: bool[]
    input v: float[k,3]
    w = exp(v)
    output go
    output w
  }
output c
)");
  const char* names[] = {"relu \"quoted\" \xff", "pick", "again"};
  for (size_t i = 0; i < graph->nodes().size(); ++i) {
    graph->nodes()[i]->origin = std::make_shared<const Origin>(Origin{names[i], "Op", 1});
  }
  graph->nodes()[2]->attributes.Body("body")->nodes()[0]->origin =
      std::make_shared<const Origin>(Origin{"inner", "Exp", 13});
  return graph;
}

TEST(Profiler, EventsOfEveryStep) {
  const auto program = MakeProgram(Named());
  Profiler profiler;
  const std::vector<Datum> inputs = {MakeFilled(DType::kFloat32, {3, 3}, 0.1),
                                     MakeVector<bool>({true, false, true})};
  program->Run(inputs, {.profiler = &profiler});
  const std::vector<Profiler::Event> events = profiler.events();
  ASSERT_EQ(events.size(), 5);  // relu, compress, twice exp, loop
  EXPECT_EQ(events[0].core, "relu");
  EXPECT_EQ(events[0].shape, "[3,3]");
  EXPECT_EQ(events[1].node, "pick");
  EXPECT_EQ(events[1].shape, "[2,3]");  // known only when it ran
  EXPECT_EQ(events[2].node, "inner");
  EXPECT_EQ(events[2].op_type, "Exp");
  EXPECT_EQ(events[2].depth, 1);
  EXPECT_EQ(events[4].node, "again");
  EXPECT_EQ(events[4].depth, 0);
  EXPECT_EQ(events[4].shape, "[2,3]");
  int64_t inside = 0;
  for (const Profiler::Event& event : events) {
    EXPECT_GE(event.start_ns, 0);
    EXPECT_GE(event.duration_ns, 0);
    if (event.depth == 1) inside += event.duration_ns;
  }
  EXPECT_LE(inside, events[4].duration_ns);
  profiler.Clear();
  EXPECT_TRUE(profiler.events().empty());
}

TEST(Profiler, ChromeTraceIsJson) {
  const auto program = MakeProgram(Named());
  Profiler profiler;
  const std::vector<Datum> inputs = {MakeFilled(DType::kFloat32, {3, 3}, 0.1),
                                     MakeVector<bool>({true, false, true})};
  program->Run(inputs, {.profiler = &profiler});
  const nlohmann::json trace = nlohmann::json::parse(profiler.ChromeTrace());
  ASSERT_EQ(trace["traceEvents"].size(), 5);
  const nlohmann::json& first = trace["traceEvents"][0];
  EXPECT_EQ(first["ph"], "X");
  EXPECT_EQ(first["cat"], "Op");
  EXPECT_EQ(first["args"]["core"], "relu");
  EXPECT_GE(first["dur"].get<double>(), 0);
  // The part of the name that is text.
  EXPECT_EQ(first["name"].get<std::string>().find("relu \"quoted\" "), 0);
}

TEST(Profiler, SummaryHasALineAnOperator) {
  const auto program = MakeProgram(Named());
  Profiler profiler;
  const std::vector<Datum> inputs = {MakeFilled(DType::kFloat32, {3, 3}, 0.1),
                                     MakeVector<bool>({true, false, true})};
  program->Run(inputs, {.profiler = &profiler});
  const std::string summary = profiler.Summary();
  EXPECT_EQ(std::count(summary.begin(), summary.end(), '\n'), 5) << summary;
  EXPECT_NE(summary.find("share"), std::string::npos);
  EXPECT_NE(Profiler().Summary().find("share"), std::string::npos);
}

}  // namespace
}  // namespace sardonyx
