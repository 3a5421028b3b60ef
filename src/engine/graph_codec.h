#pragma once
// Graphs as bytes and back. Facts of inputs and constants are stored; those of nodes are inferred
// again when the graph is read, which checks shapes, types and axes on the way.

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "engine/bytes.h"
#include "ir/core_op.h"
#include "ir/graph.h"

namespace sardonyx::engine {

// Constants of up to this size stand within the graph's bytes, larger ones are left to the caller.
// Whatever inference and the folding of shapes look at is no larger.
inline constexpr int64_t kInlineBytes = 16 << 10;
inline constexpr size_t kAlignment = 64;

// Where a constant stands: the graph's number among all graphs and bodies in the order of writing,
// and the value's number in its graph (inputs, constants by first use, outputs of nodes).
struct ValuePlace {
  uint32_t graph = 0;
  uint32_t value = 0;
};

class GraphWriter {
 public:
  // `store` keeps the memory of a large tensor and gives its number.
  GraphWriter(ByteWriter& to, std::function<uint32_t(const Tensor&)> store)
      : to_(to), store_(std::move(store)) {}
  void Write(const Graph& graph);

  const std::unordered_map<const Value*, ValuePlace>& places() const { return places_; }

 private:
  void WriteNode(const Node& node, const std::unordered_map<const Value*, uint32_t>& numbers);
  void WriteAttribute(const Attribute& attribute);
  void WriteFact(const Fact& fact, const SymbolTable& symbols);
  void WriteDims(const std::optional<Dims>& dims, const SymbolTable& symbols);
  void WriteTensor(const Tensor& tensor);
  void WriteOrigin(const Origin* origin);

  ByteWriter& to_;
  std::function<uint32_t(const Tensor&)> store_;
  uint32_t graphs_ = 0;
  std::unordered_map<const Value*, ValuePlace> places_;
  std::unordered_map<const Origin*, uint32_t> origins_;
};

class GraphReader {
 public:
  // Gives the memory of a large tensor by its number (kNoData: none), checked to have at least
  // `bytes`. `lazy`: whoever reads the elements checks them against their digest.
  using Load = std::function<void*(uint32_t number, int64_t bytes, bool lazy)>;
  // Throws if a deferred node is none that its operator's schema allows. Of the node it sees
  // inputs and attributes.
  using CheckDeferred = std::function<void(const Node& node)>;
  // `owner` keeps the bytes that `from` reads.
  GraphReader(ByteReader& from, std::shared_ptr<const void> owner, Load load, CheckDeferred check)
      : from_(from),
        owner_(std::move(owner)),
        load_(std::move(load)),
        check_deferred_(std::move(check)) {}
  std::shared_ptr<Graph> Read() { return ReadGraph(std::make_shared<SymbolTable>(), 0); }

  // By graph and number, as ValuePlace names them.
  const std::vector<std::vector<Value*>>& values() const { return values_; }

 private:
  std::shared_ptr<Graph> ReadGraph(const std::shared_ptr<SymbolTable>& symbols, int depth);
  void ReadNode(Graph& graph, std::vector<Value*>* values, int depth);
  Attribute ReadAttribute(const std::shared_ptr<SymbolTable>& symbols, int depth);
  Fact ReadFact(SymbolTable& symbols);
  Dims ReadDims(SymbolTable& symbols);
  Tensor ReadTensor(bool lazy);
  std::shared_ptr<const Origin> ReadOrigin();

  ByteReader& from_;
  std::shared_ptr<const void> owner_;
  Load load_;
  CheckDeferred check_deferred_;
  std::vector<std::vector<Value*>> values_;
  std::vector<std::shared_ptr<const Origin>> origins_;
  std::unordered_map<int32_t, Dim> symbols_;  // by their number in the file
};

inline constexpr uint32_t kNoData = 0xffffffff;

}  // namespace sardonyx::engine
