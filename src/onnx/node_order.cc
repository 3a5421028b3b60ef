#include "onnx/node_order.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace sardonyx::onnx {
namespace {

using NameSet = std::unordered_set<std::string_view>;

// Names that the graph reads from outside.
void CollectFreeNames(const GraphProto& graph, NameSet& result) {
  NameSet used;
  NameSet own;
  for (const ValueInfoProto& input : graph.input) own.insert(input.name.Get());
  for (const TensorProto& tensor : graph.initializer) own.insert(tensor.name.Get());
  for (const SparseTensorProto& tensor : graph.sparse_initializer) {
    if (tensor.values) own.insert(tensor.values->name.Get());
  }
  for (const NodeProto& node : graph.node) {
    used.insert(node.input.begin(), node.input.end());
    own.insert(node.output.begin(), node.output.end());
    ForEachSubgraph(node, [&](const GraphProto& inner) { CollectFreeNames(inner, used); });
  }
  for (const ValueInfoProto& output : graph.output) used.insert(output.name.Get());
  for (const std::string_view name : used) {
    if (!own.contains(name)) result.insert(name);
  }
}

std::vector<NodeProto> Sorted(std::vector<NodeProto> nodes) {
  const NodeSources sources = SourcesOf(nodes);
  std::vector<NodeProto> sorted;
  sorted.reserve(nodes.size());
  std::vector<bool> was_met(nodes.size());
  std::vector<std::pair<size_t, size_t>> path;  // a node, and its next source
  for (size_t root = 0; root < nodes.size(); ++root) {
    if (was_met[root]) continue;
    was_met[root] = true;
    path.emplace_back(root, 0);
    while (!path.empty()) {
      auto& [node, next] = path.back();
      if (next == sources[node].size()) {
        sorted.push_back(std::move(nodes[node]));
        path.pop_back();
        continue;
      }
      const size_t source = sources[node][next++];
      if (was_met[source]) continue;
      was_met[source] = true;
      path.emplace_back(source, 0);
    }
  }
  return sorted;
}

void SortGraph(GraphProto& graph);

void SortList(std::vector<NodeProto>& nodes) {
  nodes = Sorted(std::move(nodes));
  for (NodeProto& node : nodes) {
    for (AttributeProto& attribute : node.attribute) {
      if (attribute.g) SortGraph(*attribute.g);
      for (GraphProto& graph : attribute.graphs) SortGraph(graph);
    }
  }
}

void SortGraph(GraphProto& graph) { SortList(graph.node); }

}  // namespace

NodeSources SourcesOf(const std::vector<NodeProto>& nodes) {
  std::unordered_map<std::string_view, size_t> producer;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const std::string_view name : nodes[i].output) producer.emplace(name, i);
  }
  NodeSources sources(nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    NameSet reads(nodes[i].input.begin(), nodes[i].input.end());
    ForEachSubgraph(nodes[i], [&](const GraphProto& inner) { CollectFreeNames(inner, reads); });
    reads.erase("");
    for (const std::string_view name : reads) {
      if (const auto found = producer.find(name); found != producer.end()) {
        sources[i].push_back(found->second);
      }
    }
    std::ranges::sort(sources[i]);  // the set has no order that is the same everywhere
  }
  return sources;
}

std::vector<size_t> FindCycle(const NodeSources& sources) {
  enum class Mark : uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(sources.size(), Mark::kNew);
  std::vector<size_t> path;         // from a node to its sources
  std::vector<size_t> next_source;  // beside path
  for (size_t root = 0; root < sources.size(); ++root) {
    if (marks[root] != Mark::kNew) continue;
    path = {root};
    next_source = {0};
    marks[root] = Mark::kOpen;
    while (!path.empty()) {
      const size_t node = path.back();
      if (next_source.back() == sources[node].size()) {
        marks[node] = Mark::kDone;
        path.pop_back();
        next_source.pop_back();
        continue;
      }
      const size_t source = sources[node][next_source.back()++];
      if (marks[source] == Mark::kOpen) {
        path.erase(path.begin(), std::find(path.begin(), path.end(), source));
        std::reverse(path.begin(), path.end());
        std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
        return path;
      }
      if (marks[source] == Mark::kNew) {
        marks[source] = Mark::kOpen;
        path.push_back(source);
        next_source.push_back(0);
      }
    }
  }
  return {};
}

void SortNodes(ModelProto& model) {
  if (model.graph) SortGraph(*model.graph);
  for (FunctionProto& function : model.functions) SortList(function.node);
}

}  // namespace sardonyx::onnx
