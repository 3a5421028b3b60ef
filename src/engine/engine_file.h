#pragma once
// Engine files: a compiled model as one file that is mapped and used where it lies. The format
// stands in docs/engine-files.md.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "runtime/program.h"
#include "sardonyx/sardonyx.hpp"

namespace sardonyx::engine {

// A file that the model was read from: the model itself first, then its external data.
struct SourceFile {
  std::string path;  // relative to the engine's folder
  uint64_t bytes = 0;
  uint64_t digest = 0;
};

// By what and from what an engine was made; readable on any machine, by any build of one format.
struct Provenance {
  std::string machine;  // MachineName()
  std::string build;    // BuildName()
  std::vector<SourceFile> sources;
  std::vector<std::string> disabled_passes;
  std::vector<NamedShapes> shapes;  // that weights are packed for
  bool compact = false;
  bool measured = false;  // tuned by measurement
  bool winograd = true;   // else kernels were chosen without it
};

// What a session needs beside the graph.
struct Description {
  std::vector<ValueInfo> declared;  // all inputs, those with a default as well
  std::vector<ValueInfo> outputs;
  std::vector<std::string> input_names;  // of the graph, in order
  std::vector<std::string> default_inputs;
  std::map<std::string, std::string> metadata;
};

// The library's version and a digest of the sources that decide what a file means: the layouts of
// packed weights, core operations, passes.
std::string BuildName();

// Whether the bytes begin as an engine file does.
bool IsEngine(std::string_view bytes);

// Writes beside the target and renames, so that whoever maps the old file keeps it. Plans of the
// program say what is packed. Throws kNotFound if the file cannot be written.
void WriteEngine(const std::string& path, const Provenance& provenance,
                 const Description& description, Program& program, const Tuner* tuner);

class EngineFile {
 public:
  // Checks the header and the digest of all but large constants and packed weights. Throws
  // kInvalidModel for what is no engine file, is of another format or byte order, or is damaged.
  // `name` is for messages.
  static std::shared_ptr<EngineFile> Open(std::string_view bytes, std::shared_ptr<const void> owner,
                                          std::string name);

  const Provenance& provenance() const { return provenance_; }
  // Why a process of this build on that machine cannot use the file, empty if it can.
  std::string Mismatch(std::string_view machine) const;

  // Decodes the rest; once, and only without a mismatch. Throws kInvalidModel, as `check` does if
  // a deferred node is none that its operator's schema allows.
  void Decode(const std::function<void(const Node&)>& check);
  const Description& description() const { return description_; }
  const std::shared_ptr<Graph>& graph() const { return graph_; }
  const Tuner::Choices& choices() const { return choices_; }
  // Hands the packed weights to the cache of the program that was made of graph().
  void GivePacks(Program& program) const;

  // Whether the memory is the file's.
  bool Holds(const Tensor& tensor) const;
  // If the memory is of a block, compares the block with its digest, once. Throws kInvalidModel
  // when they differ.
  void Check(const Tensor& tensor) const;
  void CheckAll() const;

  int64_t bytes() const { return static_cast<int64_t>(bytes_.size()); }
  size_t pack_count() const { return packs_.size(); }

 private:
  struct Block {
    uint64_t offset, bytes, digest;
  };
  EngineFile(std::string_view bytes, std::shared_ptr<const void> owner, std::string name)
      : bytes_(bytes), owner_(std::move(owner)), name_(std::move(name)) {}
  void ReadProvenance();
  void CheckBlock(size_t number) const;
  void* BlockData(uint32_t number, int64_t bytes) const;

  std::string_view bytes_;
  std::shared_ptr<const void> owner_;
  std::string name_;
  std::string_view body_;  // of the manifest: description, graph, packs, choices
  Provenance provenance_;
  std::vector<Block> blocks_;  // by offset
  std::unique_ptr<std::atomic<bool>[]> checked_;
  Description description_;
  std::shared_ptr<Graph> graph_;
  Tuner::Choices choices_;
  struct Pack {
    std::vector<std::pair<const Value*, int64_t>> constants;  // with offsets
    std::string layout;
    int64_t bytes;
    void* data;
  };
  std::vector<Pack> packs_;
};

}  // namespace sardonyx::engine
