#include <algorithm>
#include <limits>
#include <unordered_map>

#include "ops/core/reference.h"
#include "ops/lowering.h"

namespace sardonyx {
namespace core {
namespace {

enum Input : size_t { kX, kPool, kIndexes, kWeights };

// The n-grams of the pool as a trie over numbered tokens.
class NgramTrie {
 public:
  NgramTrie(const Attributes& attributes, const Tensor& tokens) {
    if (tokens.dtype() == DType::kString) {
      strings_ = {tokens.data<std::string>(), static_cast<size_t>(tokens.size())};
    } else {
      ints_ = {tokens.data<int64_t>(), static_cast<size_t>(tokens.size())};
    }
    for (const std::string& token : strings_) words_.emplace(token, words_.size());
    for (const int64_t token : ints_) numbers_.emplace(token, numbers_.size());
    const auto& counts = attributes.Ints("ngram_counts");
    const int64_t shortest = attributes.Int("min_gram_length");
    const int64_t longest = attributes.Int("max_gram_length");
    const int64_t pool = tokens.size();
    int64_t ngram = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      const int64_t end = i + 1 < counts.size() ? counts[i + 1] : pool;
      const int64_t length = static_cast<int64_t>(i) + 1;
      for (int64_t at = counts[i]; at + length <= end; at += length, ++ngram) {
        if (length >= shortest && length <= longest) Insert(at, length, ngram);
      }
    }
  }

  // The number of a token; none that the pool has: kUnknown.
  uint32_t Token(const std::string& token) const { return Find(words_, token); }
  uint32_t Token(int64_t token) const { return Find(numbers_, token); }

  // The node below `node` by a token, kRoot if there is none.
  uint32_t Step(uint32_t node, uint32_t token) const {
    const auto found = edges_.find(Edge(node, token));
    return found == edges_.end() ? kRoot : found->second;
  }
  // The n-gram that ends in a node, or -1.
  int64_t Ngram(uint32_t node) const { return ngrams_[node]; }

  static constexpr uint32_t kRoot = 0, kUnknown = ~uint32_t{0};

 private:
  static uint64_t Edge(uint32_t node, uint32_t token) { return uint64_t{node} << 32 | token; }

  template <typename Numbers, typename Key>
  static uint32_t Find(const Numbers& numbers, const Key& key) {
    const auto found = numbers.find(key);
    return found == numbers.end() ? kUnknown : found->second;
  }

  void Insert(int64_t at, int64_t length, int64_t ngram) {
    uint32_t node = kRoot;
    for (int64_t i = at; i < at + length; ++i) {
      const uint32_t token = ints_.empty() ? Token(strings_[i]) : Token(ints_[i]);
      const auto fresh = static_cast<uint32_t>(ngrams_.size());
      const auto [edge, is_new] = edges_.emplace(Edge(node, token), fresh);
      if (is_new) ngrams_.push_back(-1);
      node = edge->second;
    }
    ngrams_[node] = ngram;
  }

  std::span<const int64_t> ints_;
  std::span<const std::string> strings_;
  std::unordered_map<std::string, uint32_t> words_;
  std::unordered_map<int64_t, uint32_t> numbers_;
  std::unordered_map<uint64_t, uint32_t> edges_;
  std::vector<int64_t> ngrams_ = {-1};
};

void InferTfIdf(InferContext& context) {
  const DType type = context.dtype(kX);
  const bool strings = context.dtype(kPool) == DType::kString;
  if (strings ? type != DType::kString : type != DType::kInt32 && type != DType::kInt64) {
    context.Fail("the pool holds {}, the input {}", strings ? "strings" : "integers", Name(type));
  }
  if (!context.ranked(kX)) return context.Set(0, DType::kFloat32, {});
  Dims shape = context.shape(kX);
  if (shape.size() != 1 && shape.size() != 2) {
    context.Fail("TfIdfVectorizer takes [C] or [N,C], not {}", context.Print(shape));
  }
  shape.back() = context.attributes().Int("columns");
  context.Set(0, DType::kFloat32, std::move(shape));
}

// Calls found(n-gram) for each n-gram of a row. Single tokens have no gaps and count once.
template <typename Found>
void ForEachNgram(const NgramTrie& trie, std::span<const uint32_t> row,
                  const Attributes& attributes, Found&& found) {
  const auto size = static_cast<int64_t>(row.size());
  const int64_t longest = std::min(attributes.Int("max_gram_length"), size);
  int64_t shortest = attributes.Int("min_gram_length");
  // Beyond the row, no distance makes an n-gram of two tokens.
  const int64_t farthest = std::min(attributes.Int("max_skip_count"), size) + 1;
  for (int64_t distance = 1; distance <= farthest && shortest <= longest; ++distance) {
    for (int64_t start = 0; start < size; ++start) {
      uint32_t node = NgramTrie::kRoot;
      for (int64_t length = 1, at = start; length <= longest && at < size;
           ++length, at += distance) {
        node = trie.Step(node, row[at]);
        if (node == NgramTrie::kRoot) break;
        if (length >= shortest && trie.Ngram(node) >= 0) found(trie.Ngram(node));
      }
    }
    shortest = std::max<int64_t>(shortest, 2);
  }
}

void ComputeTfIdf(ComputeContext& context) {
  const Tensor& x = context.input(kX);
  const Attributes& attributes = context.attributes();
  const NgramTrie trie(attributes, context.input(kPool));
  Tensor& y = context.Allocate(0);
  std::vector<uint32_t> tokens(x.size());
  if (x.dtype() == DType::kString) {
    const std::string* words = x.data<std::string>();
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = trie.Token(words[i]);
  } else {
    const std::vector<int64_t> numbers = ToInts(x);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = trie.Token(numbers[i]);
  }
  const int64_t* indexes = context.input(kIndexes).data<int64_t>();
  const float* weights = context.has(kWeights) ? context.input(kWeights).data<float>() : nullptr;
  const bool once = attributes.String("mode") == "IDF";
  const size_t columns = x.dims().back(), width = y.dims().back();
  const size_t rows = x.rank() == 2 ? x.dims()[0] : 1;
  std::vector<double> row(width);
  for (size_t i = 0; i < rows; ++i) {
    std::fill(row.begin(), row.end(), 0.0);
    // The reference evaluator weighs coordinates instead, against the text and ONNX Runtime.
    ForEachNgram(trie, std::span(tokens).subspan(i * columns, columns), attributes,
                 [&](int64_t ngram) {
                   double& value = row[indexes[ngram]];
                   const double weight = weights != nullptr ? weights[ngram] : 1;
                   value = once ? weight : value + weight;
                 });
    std::transform(row.begin(), row.end(), y.data<float>() + i * width,
                   [](double value) { return static_cast<float>(value); });
  }
}

}  // namespace

const CoreOp tf_idf_vectorizer = {
    .name = "tf_idf_vectorizer", .inputs = "tttt?", .infer = InferTfIdf, .reference = ComputeTfIdf};

}  // namespace core

namespace ops {

namespace {

// Throws if the lists do not fit each other.
void CheckPool(Lowering& op) {
  const auto& ints = op.Ints("pool_int64s");
  const auto& strings = op.attributes.Strings("pool_strings");
  const auto& counts = op.Ints("ngram_counts");
  const auto& indexes = op.Ints("ngram_indexes");
  const auto& weights = op.attributes.Floats("weights");
  const int64_t shortest = op.Int("min_gram_length"), longest = op.Int("max_gram_length");
  const std::string mode = op.String("mode");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") {
    op.Fail("mode is TF, IDF or TFIDF, not '{}'", mode);
  }
  if (shortest < 1 || longest < shortest) {
    op.Fail("min_gram_length {} and max_gram_length {} are no range of lengths", shortest, longest);
  }
  if (op.Int("max_skip_count") < 0) op.Fail("max_skip_count is negative");
  if (ints.empty() == strings.empty()) {
    op.Fail("one of pool_int64s and pool_strings is needed, and not both");
  }
  const auto pool = static_cast<int64_t>(std::max(ints.size(), strings.size()));
  int64_t ngrams = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const int64_t end = i + 1 < counts.size() ? counts[i + 1] : pool;
    const auto length = static_cast<int64_t>(i) + 1;
    if (counts[i] < 0 || end < counts[i] || end > pool) {
      op.Fail("ngram_counts does not ascend within the pool of {}", pool);
    }
    if ((end - counts[i]) % length != 0) {
      op.Fail("the pool has {} tokens of {}-grams", end - counts[i], length);
    }
    ngrams += (end - counts[i]) / length;
  }
  if (ngrams != static_cast<int64_t>(indexes.size()) || indexes.empty()) {
    op.Fail("the pool has {} n-grams, ngram_indexes {}", ngrams, indexes.size());
  }
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  for (const int64_t index : indexes) {
    if (index < 0 || index > kMost) {
      op.Fail("an index of ngram_indexes is {}, not from 0 to {}", index, kMost);
    }
  }
  if (!weights.empty() && weights.size() != indexes.size()) {
    op.Fail("there are {} weights for {} n-grams", weights.size(), indexes.size());
  }
}

}  // namespace

Outputs LowerTfIdfVectorizer(Lowering& op) {
  CheckPool(op);
  Builder& b = op.builder();
  const auto& strings = op.attributes.Strings("pool_strings");
  const auto& indexes = op.Ints("ngram_indexes");
  const auto& weights = op.attributes.Floats("weights");
  std::vector<Val> inputs = {
      op.in(0),
      b.Constant(strings.empty() ? MakeVector(op.Ints("pool_int64s")) : MakeVector(strings)),
      b.Constant(MakeVector(indexes))};
  if (op.String("mode") != "TF" && !weights.empty()) {
    inputs.push_back(b.Constant(MakeVector(std::vector<float>(weights.begin(), weights.end()))));
  }
  return b.Make(core::tf_idf_vectorizer, inputs,
                {{"mode", op.String("mode")},
                 {"min_gram_length", op.Int("min_gram_length")},
                 {"max_gram_length", op.Int("max_gram_length")},
                 {"max_skip_count", op.Int("max_skip_count")},
                 {"ngram_counts", op.Ints("ngram_counts")},
                 {"columns", *std::max_element(indexes.begin(), indexes.end()) + 1}});
}

}  // namespace ops
}  // namespace sardonyx
