// Reading engine files.

#include "engine/engine_file.h"

#include <algorithm>
#include <unordered_map>

#include "engine/bytes.h"
#include "engine/digest.h"
#include "engine/format.h"
#include "engine/graph_codec.h"

namespace sardonyx::engine {
namespace {

ValueInfo ReadValueInfo(ByteReader& from) {
  ValueInfo info;
  info.name = from.Text();
  info.type = from.Text();
  info.dtype = static_cast<DType>(from.Number<uint8_t>());
  if (static_cast<int>(info.dtype) >= kDTypeCount) ByteReader::Damaged();
  info.has_shape = from.Number<uint8_t>() != 0;
  info.shape.resize(from.Count(sizeof(int64_t)));
  for (Dimension& dim : info.shape) {
    dim.value = from.Number<int64_t>();
    dim.symbol = from.Text();
  }
  return info;
}

std::vector<ValueInfo> ReadValueInfos(ByteReader& from) {
  std::vector<ValueInfo> infos(from.Count());
  for (ValueInfo& info : infos) info = ReadValueInfo(from);
  return infos;
}

std::map<std::string, std::string> ReadMap(ByteReader& from) {
  std::map<std::string, std::string> map;
  for (size_t left = from.Count(); left > 0; --left) {
    std::string key = from.Text();
    map[std::move(key)] = from.Text();
  }
  return map;
}

}  // namespace

bool IsEngine(std::string_view bytes) { return bytes.starts_with(kMagic); }

std::shared_ptr<EngineFile> EngineFile::Open(std::string_view bytes,
                                             std::shared_ptr<const void> owner, std::string name) {
  const auto refuse = [](std::string_view why) {
    Fail(ErrorCode::kInvalidModel, "{}: compile it again with 'sardonyx compile'", why);
  };
  if (!IsEngine(bytes)) refuse("this is no engine file");
  if (bytes.size() < sizeof(Header)) refuse("the engine file is cut short");
  Header header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.byte_order == __builtin_bswap32(kByteOrder)) {
    refuse("the engine file is of a machine with the other byte order");
  }
  if (header.format != kFormat) {
    refuse(fmt::format("the engine file has format {}, this library reads format {}", header.format,
                       kFormat));
  }
  if (header.digest != HeaderDigest(header)) refuse("the header of the engine file was changed");
  if (header.file_bytes > bytes.size()) refuse("the engine file is cut short");
  if (header.file_bytes < bytes.size() || header.manifest_offset > bytes.size() ||
      header.manifest_offset % kAlignment != 0 ||
      header.manifest_bytes != bytes.size() - header.manifest_offset) {
    refuse("the engine file is damaged: it has another length");
  }
  const std::string_view manifest = bytes.substr(header.manifest_offset);
  if (Digest(manifest) != header.manifest_digest) {
    refuse("the engine file was changed");
  }
  std::shared_ptr<EngineFile> file(new EngineFile(bytes, std::move(owner), std::move(name)));
  file->body_ = manifest;
  file->ReadProvenance();
  return file;
}

void EngineFile::ReadProvenance() {
  ByteReader from(body_);
  provenance_.machine = from.Text();
  provenance_.build = from.Text();
  provenance_.sources.resize(from.Count());
  for (SourceFile& source : provenance_.sources) {
    source.path = from.Text();
    source.bytes = from.Number<uint64_t>();
    source.digest = from.Number<uint64_t>();
  }
  provenance_.disabled_passes = from.Texts();
  provenance_.shapes.resize(from.Count(sizeof(uint32_t)));
  for (NamedShapes& shapes : provenance_.shapes) {
    shapes.resize(from.Count(sizeof(uint32_t)));
    for (auto& [name, dims] : shapes) {
      name = from.Text();
      dims = from.Numbers<int64_t>();
    }
  }
  provenance_.compact = from.Number<uint8_t>() != 0;
  provenance_.measured = from.Number<uint8_t>() != 0;
  provenance_.winograd = from.Number<uint8_t>() != 0;
  body_ = from.Aligned(from.Number<uint64_t>(), kAlignment);
  if (!from.at_end()) ByteReader::Damaged();
}

std::string EngineFile::Mismatch(std::string_view machine) const {
  if (provenance_.machine != machine) {
    return fmt::format("the engine was compiled for '{}', this machine is '{}'",
                       provenance_.machine, machine);
  }
  if (provenance_.build != BuildName()) {
    return fmt::format("the engine was compiled by Sardonyx {}, this is {}", provenance_.build,
                       BuildName());
  }
  return "";
}

void EngineFile::Decode(const std::function<void(const Node&)>& check) {
  ByteReader from(body_);
  blocks_.resize(from.Count(sizeof(Block)));
  uint64_t end = sizeof(Header);
  for (Block& block : blocks_) {
    block.offset = from.Number<uint64_t>();
    block.bytes = from.Number<uint64_t>();
    block.digest = from.Number<uint64_t>();
    // Blocks stand one behind the other from the header to the manifest: no byte is outside.
    const uint64_t manifest = static_cast<uint64_t>(body_.data() - bytes_.data());
    if (block.offset != end || block.bytes == 0 || block.bytes % kAlignment != 0 ||
        block.bytes > manifest - block.offset) {
      ByteReader::Damaged();
    }
    end += block.bytes;
  }
  checked_ = std::make_unique<std::atomic<bool>[]>(blocks_.size());
  description_.declared = ReadValueInfos(from);
  description_.outputs = ReadValueInfos(from);
  description_.input_names = from.Texts();
  description_.default_inputs = from.Texts();
  description_.metadata = ReadMap(from);
  ByteReader graph_bytes(from.Aligned(from.Number<uint64_t>(), kAlignment));
  const auto load = [&](uint32_t number, int64_t bytes, bool lazy) -> void* {
    if (number == kNoData && lazy) return nullptr;
    void* data = BlockData(number, bytes);
    if (!lazy) CheckBlock(number);
    return data;
  };
  GraphReader graphs(graph_bytes, owner_, load, check);
  try {
    graph_ = graphs.Read();
  } catch (const Error& error) {
    if (std::string_view(error.what()).starts_with("the engine file")) throw;
    Fail(ErrorCode::kInvalidModel, "the engine file is damaged: {}", error.what());
  }
  if (!graph_bytes.at_end()) ByteReader::Damaged();
  if (description_.input_names.size() != graph_->inputs.size() ||
      description_.outputs.size() != graph_->outputs.size()) {
    ByteReader::Damaged();
  }
  for (const std::string& name : description_.input_names) {
    const bool known = std::any_of(description_.declared.begin(), description_.declared.end(),
                                   [&](const ValueInfo& info) { return info.name == name; });
    if (!known) ByteReader::Damaged();
  }
  for (size_t left = from.Count(); left > 0; --left) {
    Pack& pack = packs_.emplace_back();
    for (size_t ids = from.Count(); ids > 0; --ids) {
      const size_t graph = from.Index(graphs.values().size());
      const Value* constant = graphs.values()[graph][from.Index(graphs.values()[graph].size())];
      const auto offset = from.Number<int64_t>();
      if (!constant->is_constant() || offset < 0) ByteReader::Damaged();
      pack.constants.emplace_back(constant, offset);
    }
    if (pack.constants.empty()) ByteReader::Damaged();
    pack.layout = from.Text();
    pack.bytes = from.Number<int64_t>();
    pack.data = BlockData(from.Number<uint32_t>(), pack.bytes);
  }
  choices_ = ReadMap(from);
  if (!from.at_end()) ByteReader::Damaged();
}

void* EngineFile::BlockData(uint32_t number, int64_t bytes) const {
  if (number >= blocks_.size() || bytes <= 0 ||
      static_cast<uint64_t>(bytes) > blocks_[number].bytes) {
    ByteReader::Damaged();
  }
  return const_cast<char*>(bytes_.data()) + blocks_[number].offset;
}

void EngineFile::GivePacks(Program& program) const {
  std::unordered_map<const Value*, std::pair<Program*, int>> ids;
  const auto number = [&](const auto& self, Program& of) -> void {
    for (size_t id = 0; id < of.values().size(); ++id) ids[of.values()[id]] = {&of, id};
    for (const auto& node : of.graph().nodes()) {
      for (const auto& [name, attribute] : node->attributes.items()) {
        if (const auto* body = std::get_if<std::shared_ptr<Graph>>(&attribute)) {
          self(self, of.Body(**body));
        }
      }
    }
  };
  number(number, program);
  for (const Pack& pack : packs_) {
    PackCache::Ids constants;
    for (const auto& [constant, offset] : pack.constants) {
      const auto found = ids.find(constant);
      if (found == ids.end()) ByteReader::Damaged();  // nobody uses it
      const auto [owner, id] = found->second;
      constants.push_back({owner->constant_id(id).base, offset});
    }
    program.packs().Put(constants, pack.layout,
                        {std::shared_ptr<const void>(owner_, pack.data), pack.bytes});
  }
}

bool EngineFile::Holds(const Tensor& tensor) const {
  const char* data = static_cast<const char*>(tensor.raw());
  return data >= bytes_.data() && data < bytes_.data() + bytes_.size();
}

void EngineFile::Check(const Tensor& tensor) const {
  if (!Holds(tensor)) return;
  const auto offset = static_cast<uint64_t>(static_cast<const char*>(tensor.raw()) - bytes_.data());
  const auto after =
      std::upper_bound(blocks_.begin(), blocks_.end(), offset,
                       [](uint64_t at, const Block& block) { return at < block.offset; });
  if (after == blocks_.begin()) return;
  const auto number = static_cast<size_t>(after - blocks_.begin()) - 1;
  if (offset < blocks_[number].offset + blocks_[number].bytes) CheckBlock(number);
}

void EngineFile::CheckBlock(size_t number) const {
  if (checked_[number].load(std::memory_order_acquire)) return;
  const Block& block = blocks_[number];
  if (Digest(bytes_.substr(block.offset, block.bytes)) != block.digest) {
    Fail(ErrorCode::kInvalidModel,
         "{}: the engine file was changed: weights at byte {} are not what was written; compile it "
         "again with 'sardonyx compile'",
         name_, block.offset);
  }
  checked_[number].store(true, std::memory_order_release);
}

void EngineFile::CheckAll() const {
  for (size_t i = 0; i < blocks_.size(); ++i) CheckBlock(i);
}

}  // namespace sardonyx::engine
