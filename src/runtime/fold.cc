#include "runtime/fold.h"

#include <algorithm>

namespace sardonyx {
namespace {

int64_t BytesOf(const Tensor& tensor) { return tensor.defined() ? tensor.bytes() : 0; }

}  // namespace

std::vector<Tensor> FoldOnDevice(const Node& node, const std::vector<Tensor>& inputs,
                                 const Device& device, int threads, bool winograd,
                                 FoldMemory& memory) {
  std::vector<Fact> facts;
  std::vector<Operand> operands;
  std::vector<const void*> in;
  facts.reserve(inputs.size());
  std::vector<const Fact*> pointers;
  std::vector<Tensor> aligned;
  const auto largest = std::max_element(inputs.begin(), inputs.end(),
                                        [](auto& a, auto& b) { return BytesOf(a) < BytesOf(b); });
  for (const Tensor& tensor : inputs) {
    aligned.push_back(&tensor == &*largest ? memory.operand.Aligned(tensor) : Aligned(tensor));
  }
  for (const Tensor& tensor : aligned) {
    operands.push_back({tensor.dtype(),
                        tensor.dims(),
                        tensor.defined() ? &tensor : nullptr,
                        {operands.size() + 1, 0}});
    in.push_back(tensor.raw());
    facts.push_back(tensor.defined() ? Fact::Of(tensor) : Fact());
    pointers.push_back(tensor.defined() ? &facts.back() : nullptr);
  }
  SymbolTable symbols;
  const std::vector<Fact> inferred = Infer(node, pointers, symbols);
  const bool known = std::all_of(inferred.begin(), inferred.end(), [](const Fact& fact) {
    return fact.type.is_tensor() && fact.type.dtype != DType::kString && fact.static_shape();
  });
  std::vector<Tensor> results;
  if (known) {
    std::vector<Operand> outputs;
    for (const Fact& fact : inferred) {
      std::vector<int64_t> dims;
      for (Dim dim : *fact.shape) dims.push_back(dim.value());
      outputs.push_back({fact.type.dtype, std::move(dims)});
    }
    PackCache packs;
    for (const Implementation& candidate : device.Implementations(*node.op)) {
      BindResult result = candidate.bind({node, operands, outputs, packs, threads, winograd});
      Bound* bound = std::get_if<Bound>(&result);
      if (bound == nullptr) continue;
      std::vector<void*> out;
      for (const Operand& output : outputs) {
        results.push_back(memory.results.Allocate(output.dtype, output.dims));
        out.push_back(results.back().raw());
      }
      const Tensor scratch(DType::kUInt8, {bound->scratch_bytes});
      bound->run({in.data(), out.data(), scratch.raw(), {&ThreadPool::Process(), threads}});
      return results;
    }
  }
  std::vector<Datum> data;  // of which results may be views: nothing that is staged
  for (const Tensor& tensor : inputs) {
    data.push_back(tensor.defined() ? Datum(Aligned(tensor)) : Datum());
  }
  for (const Datum& datum : RunReference(node, data)) {
    results.push_back(datum.tensor() != nullptr ? *datum.tensor() : Tensor());
  }
  return results;
}

}  // namespace sardonyx
