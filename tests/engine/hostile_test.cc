// Engine files whose digests are right and whose contents are hostile. Graphs that together have
// every core operation are changed in ways that a lowering never would, and in random bytes; what
// reads and runs them must throw an Error or give some result.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <list>
#include <set>
#include <sstream>

#include "../runtime/run_graph.h"
#include "engine/graph_codec.h"
#include "onnx/deferred.h"

namespace sardonyx::engine {
namespace {

constexpr int64_t kMostElements = 100'000;  // of an input
constexpr rlim_t kMostBytes = 64 << 20;     // beyond what the process has at first

std::vector<std::string> Seeds() {
  std::ifstream file(SARDONYX_TESTS_DIR "/engine/every_operation.txt");
  std::vector<std::string> graphs;
  std::string graph;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) {
      graph += line + "\n";
    } else if (!graph.empty()) {
      graphs.push_back(std::exchange(graph, ""));
    }
  }
  graphs.push_back(graph);
  return graphs;
}

// All graphs: the main one and the bodies in it.
void Collect(Graph& graph, std::vector<Graph*>* graphs) {
  graphs->push_back(&graph);
  for (const auto& node : graph.nodes()) {
    for (const auto& [name, attribute] : node->attributes.items()) {
      if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute)) {
        Collect(**body, graphs);
      }
    }
  }
}

bool Loops(const Graph& graph) {
  std::vector<Graph*> graphs;
  Collect(const_cast<Graph&>(graph), &graphs);
  return std::any_of(graphs.begin(), graphs.end(), [](const Graph* part) {
    return std::any_of(part->nodes().begin(), part->nodes().end(),
                       [](const auto& node) { return node->op == &core::loop; });
  });
}

// Changes a graph in place; whether the result still makes sense is nobody's concern.
class Mutator {
 public:
  Mutator(Graph& graph, unsigned seed) : random_(seed), loops_(Loops(graph)) {
    Collect(graph, &graphs_);
  }

  void Change() {
    Graph& graph = *graphs_[Pick(graphs_.size())];
    if (graph.nodes().empty() || Pick(12) == 0) return ChangeBorder(graph);
    Node& node = *graph.nodes()[Pick(graph.nodes().size())];
    switch (Pick(8)) {
      case 0: node.op = core::All()[Pick(core::All().size())]; break;
      case 1:
      case 2: ChangeInputs(graph, node); break;
      case 3: ChangeOutputs(node); break;
      case 4: ChangeConstant(graph, node); break;
      default: ChangeAttribute(node); break;
    }
  }

 private:
  size_t Pick(size_t count) { return random_() % count; }

  int64_t Number() {
    static constexpr int64_t kNumbers[] = {
        0,         1,        2,  3,  4,    5,         8,         33,        100,
        -1,        -2,       -3, -7, -100, INT64_MIN, INT64_MAX, 1LL << 31, -(1LL << 31) - 1,
        1LL << 45, 1LL << 62};
    return kNumbers[Pick(loops_ ? 14 : std::size(kNumbers))];
  }
  double Real() {
    static constexpr double kNumbers[] = {0, 1, -1, 0.5, 1e-30, 1e30, -1e30, 1e300, INFINITY, NAN};
    return kNumbers[Pick(std::size(kNumbers))];
  }
  DType AnyType() { return static_cast<DType>(Pick(kDTypeCount)); }

  // Any value that stands before the node.
  Value* Before(Graph& graph, const Node& node) {
    std::vector<Value*> values = graph.inputs;
    for (const auto& other : graph.nodes()) {
      for (Value* input : other->inputs) {
        if (input != nullptr && input->is_constant()) values.push_back(input);
      }
      if (other.get() == &node) break;
      values.insert(values.end(), other->outputs.begin(), other->outputs.end());
    }
    return values.empty() ? nullptr : values[Pick(values.size())];
  }

  void ChangeInputs(Graph& graph, Node& node) {
    const size_t count = node.inputs.size();
    switch (count == 0 ? 0 : Pick(5)) {
      case 0: node.inputs.push_back(Before(graph, node)); break;
      case 1: node.inputs.pop_back(); break;
      case 2: node.inputs[Pick(count)] = nullptr; break;
      case 3: std::swap(node.inputs[Pick(count)], node.inputs[Pick(count)]); break;
      default: node.inputs[Pick(count)] = Before(graph, node); break;
    }
  }

  void ChangeOutputs(Node& node) {
    if (Pick(2) == 0 && node.outputs.size() > 1) {
      std::swap(node.outputs.front(), node.outputs.back());
    } else {
      node.outputs.insert(
          node.outputs.begin() + static_cast<int64_t>(Pick(node.outputs.size() + 1)),
          &more_.emplace_back());
    }
  }

  void ChangeConstant(Graph& graph, const Node& node) {
    Value* value = Before(graph, node);
    if (value == nullptr) return;
    if (value->is_constant()) {
      value->fact.constant = Changed(value->fact.constant);
    } else if (value->is_input) {
      ChangeFact(graph, value->fact);
    }
  }

  void ChangeFact(Graph& graph, Fact& fact) {
    if (Pick(3) == 0) fact.type.dtype = AnyType();
    if (Pick(6) == 0) fact.shape.reset();
    if (!fact.shape || fact.shape->empty()) return;
    Dim& dim = (*fact.shape)[Pick(fact.shape->size())];
    switch (Pick(3)) {
      case 0: dim = graph.symbols().Fresh(); break;
      case 1: fact.shape->pop_back(); break;
      default: dim = static_cast<int64_t>(Pick(7)); break;
    }
  }

  Tensor Changed(const Tensor& tensor) {
    std::vector<int64_t> dims = tensor.dims();
    DType dtype = tensor.dtype();
    switch (Pick(4)) {
      case 0: dtype = AnyType(); break;
      case 1: dims.push_back(static_cast<int64_t>(Pick(3))); break;
      case 2:
        if (!dims.empty()) dims[Pick(dims.size())] = static_cast<int64_t>(Pick(6));
        break;
      default: break;
    }
    if (dtype == DType::kUndefined) return MakeScalar(Real());
    Tensor changed(dtype, dims);
    if (dtype == DType::kString) return changed;
    auto* to = static_cast<char*>(changed.raw());
    const auto bytes = static_cast<size_t>(changed.bytes());
    std::memset(to, 0, bytes);
    if (tensor.dtype() != DType::kString) {
      std::memcpy(to, tensor.raw(), std::min(bytes, static_cast<size_t>(tensor.bytes())));
    }
    const size_t width = std::max<size_t>(1, static_cast<size_t>(BitWidth(dtype)) / 8);
    for (size_t changes = Pick(3); bytes >= width && changes > 0; --changes) {
      const int64_t integer = Number();
      std::memcpy(to + Pick(bytes / width) * width, &integer, std::min<size_t>(width, 8));
    }
    return changed;
  }

  void ChangeAttribute(Node& node) {
    const auto& items = node.attributes.items();
    if (items.empty()) return;
    const auto& [name, attribute] = items[Pick(items.size())];
    const std::string key = name;
    kept_.push_back(attribute);
    if (Pick(8) == 0) return node.attributes.Erase(key);
    if (Pick(8) == 0) return node.attributes.Set(key, Other());
    node.attributes.Set(key,
                        std::visit([&](const auto& value) { return Altered(value); }, attribute));
  }

  Attribute Other() {
    switch (Pick(5)) {
      case 0: return Number();
      case 1: return Real();
      case 2: return std::string("linear");
      case 3: return std::vector<int64_t>{Number(), Number()};
      default: return MakeScalar(Number());
    }
  }

  Attribute Altered(int64_t) { return Number(); }
  Attribute Altered(double) { return Real(); }
  Attribute Altered(const std::string& text) {
    static constexpr const char* kTexts[] = {"",        "max",        "mean",    "constant",
                                             "nearest", "SAME_LOWER", "reverse", "tensor(float)",
                                             "Softmax", "If"};
    return Pick(3) == 0 ? text + "x" : std::string(kTexts[Pick(std::size(kTexts))]);
  }
  Attribute Altered(std::vector<int64_t> values) {
    const size_t what = Pick(4);
    if (values.empty() || what == 0) values.push_back(Number());
    if (what == 1) values.pop_back();
    if (what == 2) values.insert(values.end(), values.begin(), values.end());
    if (what == 3) values[Pick(values.size())] = Number();
    return values;
  }
  Attribute Altered(std::vector<double> values) {
    if (values.empty() || Pick(2) == 0) values.push_back(Real());
    values[Pick(values.size())] = Real();
    return values;
  }
  Attribute Altered(std::vector<std::string> values) {
    if (values.empty() || Pick(2) == 0) {
      values.emplace_back("Affine");
    } else {
      values.pop_back();
    }
    return values;
  }
  Attribute Altered(const Tensor& tensor) { return tensor.defined() ? Changed(tensor) : tensor; }
  Attribute Altered(const std::shared_ptr<Graph>& body) { return body; }
  Attribute Altered(const Expression& expression) {
    std::string text = expression.Print();
    const size_t at = Pick(text.size());
    text[at] = static_cast<char>(std::isdigit(text[at]) != 0 ? '0' + Pick(10) : ' ' + Pick(90));
    try {
      return Expression::Parse(text);
    } catch (const Error&) {
      return expression;
    }
  }

  void ChangeBorder(Graph& graph) {
    const size_t what = Pick(4);
    if (what == 0 && !graph.inputs.empty()) {
      ChangeFact(graph, graph.inputs[Pick(graph.inputs.size())]->fact);
    } else if (what == 1 && !graph.outputs.empty()) {
      graph.outputs.pop_back();
    } else if (what == 2 && !graph.outputs.empty()) {
      graph.outputs.push_back(graph.outputs[Pick(graph.outputs.size())]);
    } else if (!graph.inputs.empty() && !graph.outputs.empty()) {
      graph.outputs[Pick(graph.outputs.size())] = graph.inputs[Pick(graph.inputs.size())];
    }
  }

  std::mt19937 random_;
  bool loops_;  // then numbers stay small: a loop may run for as long as it likes
  std::vector<Graph*> graphs_;
  std::list<Value> more_;
  std::vector<Attribute> kept_;  // bodies that graphs_ names
};

std::string Encoded(const Graph& graph) {
  ByteWriter to;
  GraphWriter(to, [](const Tensor&) { return kNoData; }).Write(graph);
  return to.bytes();
}

std::shared_ptr<Graph> Decoded(const std::string& bytes) {
  const Tensor memory(DType::kUInt8, {static_cast<int64_t>(bytes.size())});
  std::memcpy(memory.raw(), bytes.data(), bytes.size());
  ByteReader from({static_cast<const char*>(memory.raw()), bytes.size()});
  return GraphReader(
             from, memory.owner(),
             [](uint32_t number, int64_t, bool lazy) -> void* {
               if (number != kNoData || !lazy) ByteReader::Damaged();
               return nullptr;
             },
             onnx::CheckDeferred)
      .Read();
}

// Complex, or of less than a byte an element: types that FillRandom does not know.
bool IsOdd(DType type) {
  return BitWidth(type) < 8 || (!IsFloat(type) && !IsInteger(type) && type != DType::kBool);
}

// A value of the type, as a session lets it in; false: one that would be too large.
bool MakeInput(const Type& type, const std::vector<int64_t>& dims, std::mt19937& random,
               Datum* datum) {
  if (!type.is_tensor()) {
    Datum element;
    if (!MakeInput(*type.element, dims, random, &element)) return false;
    if (type.kind == Type::Kind::kSequence) {
      *datum = std::make_shared<const Sequence>(Sequence{element, element});
    } else if (type.kind == Type::Kind::kOptional) {
      *datum = element;
    } else {
      if (type.dtype != DType::kInt64 && type.dtype != DType::kString) return false;
      auto map = std::make_shared<Map>();
      map->keys = RandomTensor(type.dtype, {1}, random);
      map->values = {type.element->is_tensor() ? RandomTensor(type.element->dtype, {}, random)
                                               : element};
      *datum = std::shared_ptr<const Map>(std::move(map));
    }
    return true;
  }
  int64_t count = 1;
  for (const int64_t dim : dims) {
    count = std::min(count * std::min(dim, kMostElements + 1), kMostElements + 1);
  }
  if (count > kMostElements || type.dtype == DType::kUndefined) return false;
  Tensor tensor(type.dtype, dims);
  if (type.dtype != DType::kString && IsOdd(type.dtype)) {
    std::memset(tensor.raw(), 1, static_cast<size_t>(tensor.bytes()));
  } else {
    FillRandom(tensor, random);
  }
  *datum = tensor;
  return true;
}

// Whether huge allocations fail: qemu-user keeps no limit, and a sanitizer has one of its own.
bool HasLimit() {
  void* memory = std::malloc(4 * kMostBytes);
  std::free(memory);
  return memory == nullptr;
}

rlim_t Bytes(const Plan& plan) {
  double bytes = 0;
  for (const PlannedValue& value : plan.values) {
    double size = 8;
    // An empty tensor is counted as what a reduction by a deferred node would make of it.
    for (const int64_t dim : value.dims) size *= static_cast<double>(std::max<int64_t>(dim, 1));
    bytes += size;
  }
  return static_cast<rlim_t>(std::min(bytes, 1e18));
}

void Run(const std::shared_ptr<Graph>& graph) {
  const auto program = MakeProgram(graph);
  std::mt19937 random(1);
  std::vector<Datum> inputs(graph->inputs.size());
  std::vector<std::vector<int64_t>> input_dims;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Fact& fact = graph->inputs[i]->fact;
    std::vector<int64_t> dims;
    for (const Dim dim : fact.shape.value_or(Dims{2, 3})) {
      dims.push_back(dim.known() ? dim.value() : 2);
    }
    if (!MakeInput(fact.type, dims, random, &inputs[i])) return;
    input_dims.push_back(fact.type.is_tensor() ? dims : std::vector<int64_t>());
  }
  // Such a run would be refused for its memory.
  static const bool has_limit = HasLimit();
  if (!has_limit && Bytes(*program->PlanFor(input_dims)) > kMostBytes) return;
  program->Run(inputs);
}

// True if it ran.
bool Survives(const std::string& bytes) {
  try {
    Run(Decoded(bytes));
    return true;
  } catch (const Error&) {
    return false;
  }
}

// What a hostile graph asks for is refused before it harms the machine.
class Hostile : public testing::Test {
 protected:
  void SetUp() override {
    getrlimit(RLIMIT_AS, &before_);
    // The sanitizers take memory of their own, so `./dev` sets them a limit an allocation instead.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + kMostBytes;
    setrlimit(RLIMIT_AS, &limit);
#endif
  }
  void TearDown() override { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_ = {};
};

TEST_F(Hostile, SeedsHaveEveryOperation) {
  std::set<std::string_view> missing;
  for (const CoreOp* op : core::All()) missing.insert(op->name);
  Fn fn{};
  std::erase_if(missing,
                [&](std::string_view name) { return core::IsElementwise(*core::Find(name), &fn); });
  for (const std::string& text : Seeds()) {
    const std::shared_ptr<Graph> graph = Parse(text);
    std::vector<Graph*> graphs;
    Collect(*graph, &graphs);
    for (const Graph* part : graphs) {
      for (const auto& node : part->nodes()) missing.erase(node->op->name);
    }
    EXPECT_EQ(PrintGraph(*Decoded(Encoded(*graph))), PrintGraph(*graph));
  }
  EXPECT_EQ(missing, std::set<std::string_view>());
}

// The result would be written in another type than there is room for.
TEST_F(Hostile, AnExpressionOfAnotherOperationCountsForNothing) {
  const std::shared_ptr<Graph> graph = Parse(
      "graph g\ninput x: float16[40]\n"
      "y = neg(x) {expression=<(float16) cast(0):float>}\noutput y\n");
  const auto program = MakeProgram(graph);
  Tensor x(DType::kFloat16, {40});
  std::fill_n(static_cast<uint16_t*>(x.raw()), 40, uint16_t{0x4000});  // 2
  const std::vector<Datum> outputs = program->Run(std::vector<Datum>{Datum(x)});
  ASSERT_EQ(outputs.at(0).tensor()->dtype(), DType::kFloat16);
  EXPECT_EQ(ToDoubles(*outputs[0].tensor()), std::vector<double>(40, -2.0));
}

TEST_F(Hostile, ChangedGraphsAreRefusedOrRun) {
  const std::vector<std::string> seeds = Seeds();
  int ran = 0;
  for (size_t i = 0; i < seeds.size(); ++i) {
    for (unsigned seed = 0; seed < 300; ++seed) {
      SCOPED_TRACE(fmt::format("graph {}, seed {}", i, seed));
      const std::shared_ptr<Graph> graph = Parse(seeds[i]);
      Mutator mutator(*graph, seed);
      for (unsigned changes = 1 + seed % 3; changes > 0; --changes) mutator.Change();
      ran += Survives(Encoded(*graph));
    }
  }
  EXPECT_GT(ran, 100);
}

TEST_F(Hostile, ChangedBytesAreRefusedOrRun) {
  const std::vector<std::string> seeds = Seeds();
  for (size_t i = 0; i < seeds.size(); ++i) {
    const std::shared_ptr<Graph> graph = Parse(seeds[i]);
    if (Loops(*graph)) continue;
    const std::string bytes = Encoded(*graph);
    std::mt19937 random(static_cast<unsigned>(i));
    for (int round = 0; round < 300; ++round) {
      SCOPED_TRACE(fmt::format("graph {}, round {}", i, round));
      std::string changed = bytes;
      for (size_t changes = 1 + random() % 3; changes > 0; --changes) {
        const size_t at = random() % bytes.size();
        changed[at] = static_cast<char>(random() % 2 == 0 ? random() : changed[at] + 1);
      }
      Survives(changed);
    }
  }
}

}  // namespace
}  // namespace sardonyx::engine
