// Cases in *.test beside this file. A file holds cases between lines of "====":
//
//   # what is shown
//   pass remove_identities      one pass, or several in the order of the list
//   set k = int64[1] {2}        the value of an input; others are random
//   miss also used              a near miss that must be told, any number
//   graph g                     the graph before
//   ...
//   ---
//   graph g                     the graph after, or the word "unchanged"
//   ...
//
// Besides the text, the results of both graphs are compared. "= random" makes elements of
// constants.

#include "passes/pass.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "graph_text.h"
#include "ops/evaluate.h"

namespace sardonyx {
namespace {

struct Case {
  std::string file, title, before, after;
  int line = 0;
  std::vector<std::string> passes, misses;
  std::map<std::string, Tensor> fixed;
};

void PrintTo(const Case& given, std::ostream* out) {
  *out << given.file << ":" << given.line << " " << given.title;
}

Tensor ParseValue(const std::string& text) {
  const size_t brace = text.find('{');
  const auto graph =
      Parse("const v: " + text.substr(0, brace) + "= " + text.substr(brace) + "\noutput v");
  return graph->outputs[0]->fact.constant;
}

std::vector<Case> ReadCases(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::vector<Case> cases;
  Case current;
  bool after = false, body = false;
  int number = 0;
  const auto finish = [&] {
    if (!current.before.empty()) cases.push_back(std::move(current));
    current = Case{};
    after = body = false;
  };
  for (std::string line; std::getline(stream, line);) {
    ++number;
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "====") {
      finish();
    } else if (word == "---") {
      after = true;
    } else if (!body && word == "#") {
      current.title += line.substr(std::min<size_t>(2, line.size())) + " ";
    } else if (!body && word == "pass") {
      while (words >> word) current.passes.push_back(word);
    } else if (!body && word == "miss") {
      current.misses.push_back(line.substr(5));
    } else if (!body && word == "set") {
      std::string name, equals, value;
      words >> name >> equals;
      std::getline(words, value);
      current.fixed[name] = ParseValue(value);
    } else if (!word.empty()) {
      if (!body) {
        current.file = path.filename();
        current.line = number;
      }
      body = true;
      (after ? current.after : current.before) += line + "\n";
    }
  }
  finish();
  return cases;
}

std::vector<Case> AllCases() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(SARDONYX_TESTS_DIR "/passes")) {
    if (entry.path().extension() == ".test") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Case> cases;
  for (const auto& path : paths) {
    for (Case& one : ReadCases(path)) cases.push_back(std::move(one));
  }
  return cases;
}

// All passes but these.
std::vector<std::string> Others(const std::vector<std::string>& kept) {
  std::vector<std::string> names;
  for (const Pass& pass : Pipeline()) {
    if (std::find(kept.begin(), kept.end(), pass.name) == kept.end()) names.emplace_back(pass.name);
  }
  return names;
}

class PassCase : public testing::TestWithParam<Case> {};

TEST_P(PassCase, GivesTheGraphAndTheSameNumbers) {
  const Case& given = GetParam();
  const auto before = Parse(given.before);
  const auto graph = Parse(given.before);
  const std::vector<PassRecord> records =
      Optimize(*graph, {.disabled = Others(given.passes), .fold = nullptr, .trace = nullptr});
  if (given.after == "unchanged\n") {
    EXPECT_EQ(Shape(*graph), Shape(*before));
    for (const PassRecord& record : records) EXPECT_EQ(record.changes, 0) << record.name;
  } else {
    EXPECT_EQ(Shape(*graph), Shape(*Parse(given.after)));
  }
  std::string misses;
  for (const PassRecord& record : records) {
    for (const std::string& miss : record.near_misses) misses += miss + "\n";
  }
  for (const std::string& miss : given.misses) {
    EXPECT_NE(misses.find(miss), std::string::npos) << "near misses: " << misses;
  }
  std::mt19937 random(7);
  const std::vector<Datum> inputs = RandomInputs(*before, random, given.fixed);
  const std::vector<Datum> expected = Evaluate(*before, inputs);
  const std::vector<Datum> actual = Evaluate(*graph, inputs);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) ExpectSame(actual[i], expected[i]);
}

INSTANTIATE_TEST_SUITE_P(Files, PassCase, testing::ValuesIn(AllCases()), [](const auto& info) {
  std::string name = info.param.file + "_" + std::to_string(info.param.line);
  std::replace_if(name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

std::string ErrorOf(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

constexpr const char* kTwoRelus = R"(graph g
input x: float[n,3]
a = relu(x)
b = relu(x)
y = add(a, b)
output y
)";

TEST(Driver, UnknownNameIsAnErrorThatListsThePasses) {
  const auto graph = Parse(kTwoRelus);
  const std::string message = ErrorOf([&] { Optimize(*graph, {.disabled = {"merge"}}); });
  EXPECT_NE(message.find("no pass 'merge'"), std::string::npos) << message;
  for (const Pass& pass : Pipeline()) {
    EXPECT_NE(message.find(pass.name), std::string::npos) << message;
  }
}

TEST(Driver, TellsOfTheGraphBeforeAndAfterEachChange) {
  const auto graph = Parse(kTwoRelus);
  std::vector<std::string> names;
  const auto records = Optimize(
      *graph, {.trace = [&](std::string_view pass, const Graph&) { names.emplace_back(pass); }});
  EXPECT_EQ(names, (std::vector<std::string>{"", "merge_imported_duplicates", "fuse_elementwise"}));
  EXPECT_EQ(records.size(), Pipeline().size());
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(records[i].name, Pipeline()[i].name);
    const bool told = std::find(names.begin(), names.end(), records[i].name) != names.end();
    EXPECT_EQ(records[i].changes > 0, told) << records[i].name;
  }
}

TEST(MergeDuplicates, LargeConstants) {
  const auto graph = Parse(R"(graph g
input x: float[3,64]
const a: float[64,40] = random
const b: float[64,40] = random
const c: float[64,40] = random
d = matmul(x, a)
e = matmul(x, b)
f = matmul(x, c)
output d
output e
output f
)");
  const auto constant = [&](int node) -> Tensor& {
    return graph->nodes()[node]->inputs[1]->fact.constant;
  };
  constant(1) = Copy(constant(0));
  constant(2) = Copy(constant(0));
  constant(2).data<float>()[64 * 40 - 1] += 1;  // behind what is hashed
  Optimize(*graph, {});
  EXPECT_EQ(graph->outputs[0], graph->outputs[1]);
  EXPECT_NE(graph->outputs[0], graph->outputs[2]);
}

TEST(Driver, NearMissesNameTheNode) {
  const auto graph = Parse(R"(graph g
input x: float[2,3]
const w: float[3,3] = random
const s: float[3] = random
c = matmul(x, w)
y = mul(c, s)
output y
output c
)");
  const auto origin = std::make_shared<const Origin>(Origin{"scale", "Mul", 14});
  graph->nodes()[1]->origin = origin;
  const auto records = Optimize(*graph, {.disabled = Others({"fold_scales"})});
  for (const PassRecord& record : records) {
    if (record.name != "fold_scales") continue;
    ASSERT_EQ(record.near_misses.size(), 1);
    EXPECT_EQ(record.near_misses[0],
              "node 'scale' (Mul-14): the product is also used without the factor");
  }
}

// What passes list is unique: names switch passes off.
TEST(Driver, NamesAreUnique) {
  std::set<std::string_view> names;
  for (const Pass& pass : Pipeline()) {
    EXPECT_TRUE(names.insert(pass.name).second) << pass.name;
    EXPECT_FALSE(pass.reason.empty()) << pass.name;
    EXPECT_TRUE((pass.rewrite == nullptr) != (pass.run == nullptr)) << pass.name;
  }
}

TEST(Driver, EveryPassHasACase) {
  std::set<std::string> shown;
  for (const Case& one : AllCases()) shown.insert(one.passes.begin(), one.passes.end());
  for (const Pass& pass : Pipeline())
    EXPECT_TRUE(shown.contains(std::string(pass.name))) << pass.name;
}

}  // namespace
}  // namespace sardonyx
