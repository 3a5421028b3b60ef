#include "kernels/ngrams.h"

#include "devices/cpu/families.h"

namespace sardonyx::cpu {
namespace {

enum Input : size_t { kX, kPool, kIndexes, kWeights };

template <typename T, typename Pool>
BindResult BindTyped(const BindRequest& request) {
  const Operand &x = request.inputs[kX], &pool = request.inputs[kPool];
  const Attributes& attributes = request.node.attributes;
  const NgramShape shape{.rows = x.rank() == 2 ? x.dims[0] : 1,
                         .columns = x.dims.back(),
                         .width = attributes.Int("columns"),
                         .pool = pool.size(),
                         .shortest = attributes.Int("min_gram_length"),
                         .longest = attributes.Int("max_gram_length"),
                         .skips = attributes.Int("max_skip_count"),
                         .once = attributes.String("mode") == "IDF"};
  const std::vector<int64_t>& counts = attributes.Ints("ngram_counts");
  const std::string layout =
      fmt::format("ngrams {}-{} {}", shape.shortest, shape.longest, PrintDims(counts));
  const auto table = request.packs.Get(
      *pool.constant, pool.id, layout, NgramTableBytes(pool.size()),
      [&](const Tensor& from, void* to) {
        FillNgramTable(from.data<Pool>(), from.size(), {counts, shape.shortest, shape.longest}, to);
      });
  const int64_t ngrams = request.inputs[kIndexes].size();
  const auto fits = [&] { return NgramTableFits(pool.size(), ngrams, table.get()); };
  if (!request.packs.IsSound({pool.id}, layout, ngrams, fits)) {
    Fail(ErrorCode::kInvalidModel, "the packed table of n-grams is damaged");
  }
  Bound bound;
  bound.run = [table, shape, weighted = request.inputs.size() > kWeights](const StepArgs& args) {
    CountNgrams(shape, static_cast<const T*>(args.in[kX]), static_cast<const Pool*>(args.in[kPool]),
                table.get(), static_cast<const int64_t*>(args.in[kIndexes]),
                weighted ? static_cast<const float*>(args.in[kWeights]) : nullptr,
                static_cast<float*>(args.out[0]), args.parallel);
  };
  return bound;
}

BindResult BindTrie(const BindRequest& request) {
  if (request.inputs[kPool].constant == nullptr) return Refuse("the pool is computed");
  switch (request.inputs[kX].dtype) {
    case DType::kString: return BindTyped<std::string, std::string>(request);
    case DType::kInt32: return BindTyped<int32_t, int64_t>(request);
    default: return BindTyped<int64_t, int64_t>(request);
  }
}

constexpr Implementation kList[] = {{"trie", BindTrie}};

}  // namespace

std::span<const Implementation> TfIdfVectorizerList() { return kList; }

}  // namespace sardonyx::cpu
