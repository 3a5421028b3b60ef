// Engine files: graphs and packed weights come back as they were written; changed, cut and crafted
// files are refused.

#include "engine/engine_file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "../onnx/model_builder.h"
#include "../passes/random_graph.h"
#include "../runtime/run_graph.h"
#include "engine/format.h"
#include "onnx/deferred.h"

namespace sardonyx::engine {
namespace {

using onnx::TemporaryFolder;

constexpr const char* kMachine = "machine of the test";

Provenance MakeProvenance() {
  Provenance provenance;
  provenance.machine = kMachine;
  provenance.build = BuildName();
  provenance.sources = {{"model.onnx", 100, 7}};
  provenance.disabled_passes = {"inline_if"};
  provenance.shapes = {{{"x", {1, 2}}}};
  return provenance;
}

Description Describe(const Graph& graph) {
  Description description;
  for (const Value* input : graph.inputs) {
    description.declared.emplace_back().name = input->name;
    description.declared.back().type = Print(input->fact.type);
    description.input_names.push_back(input->name);
  }
  for (const Value* output : graph.outputs) {
    description.outputs.emplace_back().name = output->name;
  }
  description.metadata = {{"producer_name", "tests"}};
  return description;
}

// Bytes in memory that is aligned as a mapping is.
Tensor ToMemory(std::string_view bytes) {
  Tensor memory(DType::kUInt8, {static_cast<int64_t>(bytes.size())});
  std::memcpy(memory.raw(), bytes.data(), bytes.size());
  return memory;
}

std::string Written(Program& program) {
  const TemporaryFolder folder;
  const std::string path = folder / "model.sdx";
  WriteEngine(path, MakeProvenance(), Describe(program.graph()), program, nullptr);
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Loaded {
  std::shared_ptr<EngineFile> file;
  std::unique_ptr<Program> program;
};

Loaded Load(std::string_view bytes) {
  Loaded loaded;
  const Tensor memory = ToMemory(bytes);
  loaded.file = EngineFile::Open({static_cast<const char*>(memory.raw()), bytes.size()},
                                 memory.owner(), "test");
  loaded.file->Decode(onnx::CheckDeferred);
  ProgramOptions options;
  options.is_external = [file = loaded.file](const Tensor& tensor) { return file->Holds(tensor); };
  auto packs = std::make_shared<PackCache>(
      nullptr, [file = loaded.file](const Tensor& tensor) { file->Check(tensor); });
  loaded.program = std::make_unique<Program>(loaded.file->graph(), CpuDevice(), packs, options);
  loaded.file->GivePacks(*loaded.program);
  return loaded;
}

void ExpectEqual(const std::vector<Datum>& actual, const std::vector<Datum>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(BitEqual(*actual[i].tensor(), *expected[i].tensor())) << "output " << i;
  }
}

TEST(EngineFile, RandomGraphsComeBack) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const std::shared_ptr<Graph> graph = RandomGraph(seed).graph();
    Optimize(*graph);
    const auto program = MakeProgram(graph);
    std::mt19937 random(seed);
    const std::vector<Datum> inputs = RandomInputs(*graph, random);
    std::vector<Datum> expected;
    try {
      expected = program->Run(inputs);
    } catch (const Error&) {
      continue;  // sizes that do not fit each other
    }
    const Loaded loaded = Load(Written(*program));
    EXPECT_EQ(PrintGraph(*loaded.file->graph()), PrintGraph(*graph));
    const size_t packs = loaded.program->packs().packs().size();
    EXPECT_EQ(packs, program->packs().packs().size());
    ExpectEqual(loaded.program->Run(inputs), expected);
    EXPECT_EQ(loaded.program->packs().packs().size(), packs);  // nothing was packed anew
  }
}

// Cells that share recurrent weights, and differ in others or in what their packing depends on.
TEST(EngineFile, PacksOfSeveralConstants) {
  const std::shared_ptr<Graph> graph = Parse(WithRandomConstants(R"(
graph cells
  input x: float[5,2,3]
  const w: float[1,12,3] = random
  const v: float[1,12,3] = random
  const r: float[1,12,4] = random
  const b: float[1,24] = random
  a0, a = gru(x, w, r) {direction="forward", hidden_size=4, layout=0, linear_before_reset=0}
  b0, b1 = gru(x, v, r) {direction="forward", hidden_size=4, layout=0, linear_before_reset=0}
  c0, c = gru(x, w, r) {direction="forward", hidden_size=4, layout=0, linear_before_reset=1}
  d0, d = gru(x, w, r, b) {direction="forward", hidden_size=4, layout=0, linear_before_reset=1}
  output a
  output b1
  output c
  output d
)"));
  const auto program = MakeProgram(graph);
  std::mt19937 random(5);
  const std::vector<Datum> inputs{RandomTensor(DType::kFloat32, {5, 2, 3}, random)};
  const std::vector<Datum> expected = program->Run(inputs);
  EXPECT_EQ(program->packs().packs().size(), 4);
  for (size_t i = 1; i < expected.size(); ++i) {
    EXPECT_FALSE(BitEqual(*expected[i].tensor(), *expected[0].tensor()));
  }
  const Loaded loaded = Load(Written(*program));
  EXPECT_EQ(loaded.program->packs().packs().size(), 4);
  ExpectEqual(loaded.program->Run(inputs), expected);
  EXPECT_EQ(loaded.program->packs().packs().size(), 4);  // nothing was packed anew
}

// A matrix of more than 16 KiB, a body, strings, an expression, an unnamed and a computed size.
constexpr const char* kText = R"(
graph small
  input x: float[n,80]
  input c: bool
  const w: float[80,80] = random
  const b: float[80] = random
  h = matmul(x, w)
  s = add(h, b)
  r = relu(s)
  y = if_(c, r)
    then_branch = {
      graph then
      input r1: float[n,80]
      const w1: float[80,70] = random
      t = matmul(r1, w1)
      output t
    }
    else_branch = {
      graph else
      input r2: float[n,80]
      const w2: float[80,70] = random
      u = matmul(r2, w2)
      v = neg(u)
      output v
    }
  output y
  output r
)";

std::vector<Datum> Inputs(bool condition) {
  std::mt19937 random(5);
  return {RandomTensor(DType::kFloat32, {3, 80}, random), MakeScalar(condition)};
}

std::unique_ptr<Program> SmallProgram() {
  const std::shared_ptr<Graph> graph = Parse(WithRandomConstants(kText));
  Optimize(*graph);
  auto program = MakeProgram(graph);
  for (const bool condition : {false, true}) program->Run(Inputs(condition));
  return program;
}

TEST(EngineFile, BodiesAndLargeWeights) {
  const auto program = SmallProgram();
  const Loaded loaded = Load(Written(*program));
  EXPECT_EQ(loaded.file->Mismatch(kMachine), "");
  EXPECT_NE(loaded.file->Mismatch("another").find("machine of the test"), std::string::npos);
  EXPECT_EQ(loaded.file->provenance().sources[0].path, "model.onnx");
  EXPECT_EQ(loaded.file->provenance().shapes[0][0].second, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(loaded.file->description().metadata.at("producer_name"), "tests");
  EXPECT_EQ(loaded.file->pack_count(), 3);
  loaded.file->CheckAll();
  for (const bool condition : {false, true}) {
    ExpectEqual(loaded.program->Run(Inputs(condition)), program->Run(Inputs(condition)));
  }
  EXPECT_EQ(loaded.program->packs().packs().size(), 3);
}

TEST(EngineFile, ShapesBeyondThoseCompiledForRun) {
  const auto program = SmallProgram();
  const Loaded loaded = Load(Written(*program));
  std::mt19937 random(6);
  const std::vector<Datum> inputs = {RandomTensor(DType::kFloat32, {1, 80}, random),
                                     MakeScalar(true)};
  ExpectEqual(loaded.program->Run(inputs), program->Run(inputs));
}

// Loads and runs; true if it gave the right results, false if it was refused.
bool RunsRight(std::string_view bytes, const std::vector<Datum>& expected) {
  try {
    const Loaded loaded = Load(bytes);
    ExpectEqual(loaded.program->Run(Inputs(true)), expected);
    return true;
  } catch (const Error& error) {
    EXPECT_NE(std::string_view(error.what()).find("engine file"), std::string_view::npos)
        << error.what();
    return false;
  }
}

TEST(EngineFile, EveryChangedByteIsRefused) {
  const auto program = SmallProgram();
  const std::string bytes = Written(*program);
  const std::vector<Datum> expected = program->Run(Inputs(true));
  ASSERT_TRUE(RunsRight(bytes, expected));
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  int unread = 0;
  for (size_t i = 0; i < bytes.size();
       i += i < sizeof(Header) || i >= header.manifest_offset ? 1 : 97) {
    std::string changed = bytes;
    changed[i] = static_cast<char>(changed[i] ^ (1 << (i % 8)));
    if (!RunsRight(changed, expected)) continue;
    // Not read by this run, so not compared: the plain form of packed weights, the other branch.
    ++unread;
    EXPECT_LT(i, header.manifest_offset);
    EXPECT_THROW(Load(changed).file->CheckAll(), Error) << "byte " << i;
  }
  EXPECT_GT(unread, 0);
}

TEST(EngineFile, EveryTruncationIsRefused) {
  const auto program = SmallProgram();
  const std::string bytes = Written(*program);
  for (size_t size = 0; size < bytes.size(); size += size < 300 ? 1 : 61) {
    EXPECT_FALSE(RunsRight(bytes.substr(0, size), {})) << size;
  }
  EXPECT_FALSE(RunsRight(bytes + '\0', {}));
}

// Puts the right digests on changed bytes, so that the decoder sees them.
std::string Signed(std::string bytes) {
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  header.manifest_digest = Digest(std::string_view(bytes).substr(header.manifest_offset));
  header.digest = HeaderDigest(header);
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

// No nodes: what lowerings promise to operations stands under the digests alone.
constexpr const char* kNoNodes = R"(
graph plain
  input x: float[n,80]
  input i: int64[2]
  const w: float[80,80] = random
  const b: float[80] = random
  const s: string[2] = {"a", "b"}
  output x
  output w
  output b
  output s
)";

// Decodes what can be decoded; whatever happens, it is an Error or a graph.
void Decode(const std::string& bytes) {
  try {
    Load(bytes);
  } catch (const Error&) {
  }
}

// Every number from `begin` on is replaced by others, and some bytes at random.
void Craft(const std::string& bytes, size_t begin) {
  for (const uint32_t number : {0U, 1U, 0x7fffffffU, 0xffffffffU}) {
    for (size_t at = begin; at + 4 <= bytes.size(); ++at) {
      std::string crafted = bytes;
      std::memcpy(crafted.data() + at, &number, sizeof(number));
      Decode(Signed(std::move(crafted)));
    }
  }
  std::mt19937 random(9);
  for (int i = 0; i < 3000; ++i) {
    std::string crafted = bytes;
    for (int changes = 1 + static_cast<int>(random() % 3); changes > 0; --changes) {
      crafted[begin + random() % (bytes.size() - begin)] = static_cast<char>(random());
    }
    Decode(Signed(std::move(crafted)));
  }
}

TEST(EngineFile, CraftedLengthsOffsetsAndNumbersAreRefused) {
  const auto none = MakeProgram(std::shared_ptr<Graph>(Parse(WithRandomConstants(kNoNodes))));
  std::string bytes = Written(*none);
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  Craft(bytes, header.manifest_offset);
  // Packed weights stand behind the graph.
  const auto program = SmallProgram();
  bytes = Written(*program);
  Craft(bytes, bytes.find("gemm ", bytes.rfind("neg")) - 24);
}

TEST(EngineFile, SaysWhatIsWrong) {
  const auto program = SmallProgram();
  const std::string bytes = Written(*program);
  const auto expect = [](const std::string& changed, const char* message) {
    onnx::ExpectError(ErrorCode::kInvalidModel, {message}, [&] { Load(changed); });
  };
  expect("SARDONYX", "is cut short");
  expect("nothing of the kind", "no engine file");
  std::string other = bytes;
  std::reverse(other.begin() + 8, other.begin() + 12);
  expect(other, "other byte order");
  other = bytes;
  other[12] = 99;
  expect(other, "has format 99");
  other = bytes;
  other[20] ^= 1;
  expect(other, "header of the engine file was changed");
  other = bytes;
  other.back() ^= 1;
  expect(other, "the engine file was changed");
}

TEST(Tuner, MeasuresChoosesAndRemembers) {
  const std::string text = R"(
graph conv
  input x: float[1,20,20,16]
  const w: float[16,16,3,3] = random
  y = conv(x, w) {pads=[1,1,1,1]}
  output y
)";
  const std::shared_ptr<Graph> graph = Parse(WithRandomConstants(text));
  std::vector<std::string> lines;
  ProgramOptions options;
  options.tuner =
      std::make_shared<Tuner>(true, [&](const std::string& line) { lines.push_back(line); });
  Program program(graph, CpuDevice(), std::make_shared<PackCache>(), options);
  std::mt19937 random(3);
  const std::vector<Datum> inputs = {RandomTensor(DType::kFloat32, {1, 20, 20, 16}, random)};
  ExpectSameAll(program.Run(inputs), Evaluate(*graph, inputs));
  ASSERT_EQ(lines.size(), 1);
  for (const char* word : {"winograd4", "winograd2", "gemm", "(chosen)", "ms"}) {
    EXPECT_NE(lines[0].find(word), std::string::npos) << lines[0];
  }
  Tuner::Choices choices = options.tuner->choices();
  ASSERT_EQ(choices.size(), 1);
  // What is remembered is taken without measuring, whatever it is.
  for (const std::string choice : {"winograd2", "gemm", "winograd4"}) {
    choices.begin()->second = choice;
    ProgramOptions again;
    again.tuner = std::make_shared<Tuner>(false, nullptr, choices);
    Program tuned(graph, CpuDevice(), std::make_shared<PackCache>(), again);
    const auto plan = tuned.PlanFor(DimsOf(inputs));
    ASSERT_EQ(plan->steps.size(), 1);
    EXPECT_EQ(plan->steps[0].binding->implementation, choice);
    ExpectSameAll(tuned.Run(inputs), Evaluate(*graph, inputs));
  }
  // A choice that was made with Winograd does not hold without.
  choices.begin()->second = "winograd4";
  ProgramOptions direct;
  direct.winograd = false;
  direct.tuner = std::make_shared<Tuner>(false, nullptr, choices);
  Program plain(graph, CpuDevice(), std::make_shared<PackCache>(), direct);
  EXPECT_EQ(plain.PlanFor(DimsOf(inputs))->steps[0].binding->implementation, "gemm");
  // None but gemm is left: there is nothing to measure.
  direct.tuner = std::make_shared<Tuner>(true, nullptr);
  Program measured(graph, CpuDevice(), std::make_shared<PackCache>(), direct);
  EXPECT_EQ(measured.PlanFor(DimsOf(inputs))->steps[0].binding->implementation, "gemm");
  EXPECT_TRUE(direct.tuner->choices().empty());
}

}  // namespace
}  // namespace sardonyx::engine
