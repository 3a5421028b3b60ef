// Writing engine files.

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <unordered_map>

#include "engine/bytes.h"
#include "engine/digest.h"
#include "engine/engine_file.h"
#include "engine/format.h"
#include "engine/graph_codec.h"

namespace sardonyx::engine {
namespace {

// A file that takes the place of another when it is whole, and leaves nothing behind otherwise.
class Replacement {
 public:
  explicit Replacement(std::string path) : path_(std::move(path)) {
    static std::atomic<int> count = 0;
    temporary_ = fmt::format("{}.{}.{}", path_, getpid(), count++);
    file_ = std::fopen(temporary_.c_str(), "wbx");
    if (file_ == nullptr) Refuse();
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;
  ~Replacement() {
    if (file_ == nullptr) return;
    std::fclose(file_);
    std::remove(temporary_.c_str());
  }

  void Write(const void* data, size_t bytes) {
    if (std::fwrite(data, 1, bytes, file_) != bytes) Refuse();
  }
  void Finish(const Header& header) {
    if (std::fseek(file_, 0, SEEK_SET) != 0) Refuse();
    Write(&header, sizeof(header));
    std::FILE* file = file_;
    file_ = nullptr;
    const bool whole =
        std::fclose(file) == 0 && std::rename(temporary_.c_str(), path_.c_str()) == 0;
    if (whole) return;
    const int error = errno;
    std::remove(temporary_.c_str());
    errno = error;
    Refuse();
  }

 private:
  [[noreturn]] void Refuse() const {
    Fail(ErrorCode::kNotFound, "{}: cannot write the engine file: {}", path_,
         std::generic_category().message(errno));
  }

  std::string path_, temporary_;
  std::FILE* file_ = nullptr;
};

// Large memory, block by block; equal contents are written once.
class Blocks {
 public:
  explicit Blocks(Replacement& file) : file_(file) {}

  uint32_t Add(const void* data, int64_t bytes) {
    const std::string_view content(static_cast<const char*>(data), static_cast<size_t>(bytes));
    static constexpr char kZeros[kAlignment] = {};
    const size_t padding = (kAlignment - content.size() % kAlignment) % kAlignment;
    const uint64_t digest = Digest(content);
    const auto same = by_digest_.equal_range(digest);
    for (auto it = same.first; it != same.second; ++it) {
      if (entries_[it->second].content == content) return it->second;
    }
    const auto number = static_cast<uint32_t>(entries_.size());
    by_digest_.emplace(digest, number);
    std::string padded;  // the digest covers the padding
    std::string_view whole = content;
    if (padding > 0) {
      padded = std::string(content) + std::string(kZeros, padding);
      whole = padded;
    }
    entries_.push_back({content, end_, whole.size(), Digest(whole)});
    file_.Write(whole.data(), whole.size());
    end_ += whole.size();
    return number;
  }

  void WriteTable(ByteWriter& to) const {
    to.Count(entries_.size());
    for (const Entry& entry : entries_) {
      to.Number(entry.offset);
      to.Number(entry.bytes);
      to.Number(entry.digest);
    }
  }
  uint64_t end() const { return end_; }

 private:
  struct Entry {
    std::string_view content;
    uint64_t offset, bytes, digest;
  };
  Replacement& file_;
  uint64_t end_ = sizeof(Header);
  std::vector<Entry> entries_;
  std::unordered_multimap<uint64_t, uint32_t> by_digest_;
};

void WriteValueInfos(const std::vector<ValueInfo>& infos, ByteWriter& to) {
  to.Count(infos.size());
  for (const ValueInfo& info : infos) {
    to.Text(info.name);
    to.Text(info.type);
    to.Number(info.dtype);
    to.Number(static_cast<uint8_t>(info.has_shape ? 1 : 0));
    to.Count(info.shape.size());
    for (const Dimension& dim : info.shape) {
      to.Number(dim.value);
      to.Text(dim.symbol);
    }
  }
}

void WriteMap(const std::map<std::string, std::string>& map, ByteWriter& to) {
  to.Count(map.size());
  for (const auto& [key, value] : map) {
    to.Text(key);
    to.Text(value);
  }
}

void WriteProvenance(const Provenance& provenance, ByteWriter& to) {
  to.Text(provenance.machine);
  to.Text(provenance.build);
  to.Count(provenance.sources.size());
  for (const SourceFile& source : provenance.sources) {
    to.Text(source.path);
    to.Number(source.bytes);
    to.Number(source.digest);
  }
  to.Texts(provenance.disabled_passes);
  to.Count(provenance.shapes.size());
  for (const NamedShapes& shapes : provenance.shapes) {
    to.Count(shapes.size());
    for (const auto& [name, dims] : shapes) {
      to.Text(name);
      to.Numbers(dims);
    }
  }
  to.Number(static_cast<uint8_t>(provenance.compact ? 1 : 0));
  to.Number(static_cast<uint8_t>(provenance.measured ? 1 : 0));
  to.Number(static_cast<uint8_t>(provenance.winograd ? 1 : 0));
}

// Where the constants of a program and of the programs of its bodies stand in the file.
void FindConstants(Program& program, const std::unordered_map<const Value*, ValuePlace>& places,
                   std::map<uint64_t, ValuePlace>* by_base) {
  for (size_t id = 0; id < program.values().size(); ++id) {
    const Value* value = program.values()[id];
    if (!value->is_constant()) continue;
    by_base->emplace(program.constant_id(static_cast<int>(id)).base, places.at(value));
  }
  for (const auto& node : program.graph().nodes()) {
    for (const auto& [name, attribute] : node->attributes.items()) {
      if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute)) {
        FindConstants(program.Body(**body), places, by_base);
      }
    }
  }
}

}  // namespace

// What stands within the graph's bytes has data.
static_assert(kInlineBytes <= kMostKept);

void WriteEngine(const std::string& path, const Provenance& provenance,
                 const Description& description, Program& program, const Tuner* tuner) {
  Replacement file(path);
  Header header{};
  file.Write(&header, sizeof(header));
  Blocks blocks(file);
  // The table of blocks stands before the graph, but is known behind it: constants within the
  // graph's bytes are aligned from its own start.
  ByteWriter graph;
  std::vector<Tensor> kept;  // what blocks are compared with
  GraphWriter writer(graph, [&](const Tensor& tensor) {
    kept.push_back(tensor);
    return blocks.Add(tensor.raw(), tensor.bytes());
  });
  writer.Write(program.graph());
  std::map<uint64_t, ValuePlace> constants;
  FindConstants(program, writer.places(), &constants);
  ByteWriter rest;
  const PackCache::Packs packs = program.packs().packs();
  std::vector<PackCache::Packs::const_iterator> stored;
  for (auto it = packs.begin(); it != packs.end(); ++it) {
    const PackCache::Ids& ids = it->first.first;
    const bool are_here = std::all_of(
        ids.begin(), ids.end(), [&](const ConstantId& id) { return constants.contains(id.base); });
    if (are_here && it->second.bytes > 0) stored.push_back(it);
  }
  rest.Count(stored.size());
  for (const auto& it : stored) {
    const auto& [ids, layout] = it->first;
    rest.Count(ids.size());
    for (const ConstantId& id : ids) {
      const ValuePlace& place = constants.at(id.base);
      rest.Number(place.graph);
      rest.Number(place.value);
      rest.Number(id.offset);
    }
    rest.Text(layout);
    rest.Number(it->second.bytes);
    rest.Number(blocks.Add(it->second.data.get(), it->second.bytes));
  }
  WriteMap(tuner != nullptr ? tuner->choices() : Tuner::Choices(), rest);

  ByteWriter body;
  blocks.WriteTable(body);
  WriteValueInfos(description.declared, body);
  WriteValueInfos(description.outputs, body);
  body.Texts(description.input_names);
  body.Texts(description.default_inputs);
  WriteMap(description.metadata, body);
  body.Number(static_cast<uint64_t>(graph.bytes().size()));
  body.Aligned(graph.bytes(), kAlignment);
  body.Aligned(rest.bytes(), 1);

  ByteWriter manifest;
  WriteProvenance(provenance, manifest);
  manifest.Number(static_cast<uint64_t>(body.bytes().size()));
  manifest.Aligned(body.bytes(), kAlignment);
  file.Write(manifest.bytes().data(), manifest.bytes().size());
  std::memcpy(header.magic, kMagic.data(), kMagic.size());
  header.byte_order = kByteOrder;
  header.format = kFormat;
  header.manifest_offset = blocks.end();
  header.manifest_bytes = manifest.bytes().size();
  header.file_bytes = header.manifest_offset + header.manifest_bytes;
  header.manifest_digest = Digest(manifest.bytes());
  header.digest = HeaderDigest(header);
  file.Finish(header);
}

}  // namespace sardonyx::engine
