#include "base/mapped_file.h"
#include "engine/engine_file.h"
#include "kernels/targets.h"
#include "onnx/deferred.h"
#include "sardonyx/sardonyx.hpp"

namespace sardonyx {

bool IsEngineFile(const std::string& path) {
  return engine::IsEngine(MappedFile::Open(path)->bytes());
}

std::string DescribeEngine(const std::string& path) {
  const auto mapping = MappedFile::Open(path);
  return WithContext(path, [&] {
    const auto file = engine::EngineFile::Open(mapping->bytes(), mapping, path);
    const engine::Provenance& provenance = file->provenance();
    std::string text = fmt::format("engine file\n  machine   {}\n  Sardonyx  {}\n",
                                   provenance.machine, provenance.build);
    for (const engine::SourceFile& source : provenance.sources) {
      text += fmt::format("  from      {} ({} bytes)\n", source.path, source.bytes);
    }
    for (const NamedShapes& shapes : provenance.shapes) {
      text += "  shapes   ";
      for (const auto& [name, dims] : shapes) {
        text += fmt::format(" {}={}", name, fmt::join(dims, "x"));
      }
      text += shapes.empty() ? " as declared, 1 where not fixed\n" : "\n";
    }
    if (!provenance.winograd) text += "  compiled without Winograd's transforms\n";
    const std::string why = file->Mismatch(MachineName());
    if (!why.empty()) return text + fmt::format("  cannot be used here: {}\n", why);
    file->Decode(onnx::CheckDeferred);
    file->CheckAll();
    return text + fmt::format(
                      "  {} nodes, {} packed weights, {} measured choices, {} bytes: all as "
                      "they were written\n",
                      file->graph()->nodes().size(), file->pack_count(), file->choices().size(),
                      file->bytes());
  });
}

}  // namespace sardonyx
