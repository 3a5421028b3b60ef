#include "kernels/ngrams.h"

#include <algorithm>
#include <string>

#include "kernels/key_table.h"
#include "kernels/slices.h"

namespace sardonyx {
namespace {

// A trie over the tokens of the pool, which are numbered by where they stand first. Each edge leads
// to a node of its own.
struct Trie {
  KeyTable tokens, edges;
  int64_t* ngrams;  // that end in a node, -1: none

  Trie(int64_t pool, const void* memory)
      : tokens(pool, memory),
        edges(pool, Behind(memory, KeyTable::Bytes(pool))),
        ngrams(static_cast<int64_t*>(Behind(memory, 2 * KeyTable::Bytes(pool)))) {}

  static void* Behind(const void* memory, int64_t bytes) {
    return const_cast<std::byte*>(static_cast<const std::byte*>(memory) + bytes);
  }
  static uint64_t Edge(int64_t node, int64_t token) {
    return static_cast<uint64_t>(node) << 32 | static_cast<uint64_t>(token);
  }
  // The node below `node`, kRoot if there is none.
  KeySlot& Below(int64_t node, int64_t token) const {
    return edges.Find(Edge(node, token), [](int64_t) { return true; });
  }

  static constexpr int64_t kRoot = 0;
};

}  // namespace

int64_t NgramTableBytes(int64_t pool) { return 2 * KeyTable::Bytes(pool) + 8 * (pool + 1); }

template <typename Pool>
void FillNgramTable(const Pool* pool, int64_t size, const NgramLengths& lengths, void* table) {
  Trie trie(size, table);
  FillKeys(trie.tokens, pool, size);
  trie.edges.Clear();
  std::fill_n(trie.ngrams, size + 1, int64_t{-1});
  int64_t nodes = 1, ngram = 0;
  for (size_t i = 0; i < lengths.counts.size(); ++i) {
    const int64_t end = i + 1 < lengths.counts.size() ? lengths.counts[i + 1] : size;
    const auto length = static_cast<int64_t>(i) + 1;
    for (int64_t at = lengths.counts[i]; at + length <= end; at += length, ++ngram) {
      if (length < lengths.shortest || length > lengths.longest) continue;
      int64_t node = Trie::kRoot;
      for (int64_t token = at; token < at + length; ++token) {
        const int64_t number = FindKey(trie.tokens, pool[token], pool);
        KeySlot& slot = trie.Below(node, number);
        if (slot.position < 0) slot = {Trie::Edge(node, number), nodes++};
        node = slot.position;
      }
      trie.ngrams[node] = ngram;
    }
  }
}

bool NgramTableFits(int64_t pool, int64_t ngrams, const void* table) {
  const Trie trie(pool, table);
  return trie.tokens.Fits(pool) && trie.edges.Fits(pool + 1) &&
         std::all_of(trie.ngrams, trie.ngrams + pool + 1,
                     [&](int64_t ngram) { return ngram < ngrams; });
}

template <typename T, typename Pool>
void CountNgrams(const NgramShape& shape, const T* x, const Pool* pool, const void* table,
                 const int64_t* indexes, const float* weights, float* y, const Parallel& par) {
  const Trie trie(shape.pool, table);
  const int64_t longest = std::min(shape.longest, shape.columns);
  // Beyond the row, no distance makes an n-gram of two tokens.
  const int64_t farthest = std::min(shape.skips, shape.columns) + 1;
  const Slices slices =
      Slice(shape.rows, shape.columns * longest * farthest * 10 + shape.width / 4);
  par.For(slices.tasks, [&](int64_t task) {
    for (int64_t row = slices.Begin(task); row < slices.End(task, shape.rows); ++row) {
      const T* text = x + row * shape.columns;
      float* out = y + row * shape.width;
      std::fill_n(out, shape.width, 0.0f);
      const auto token = [&](int64_t i) {
        if constexpr (std::is_same_v<T, Pool>)
          return FindKey(trie.tokens, text[i], pool);
        else
          return FindKey(trie.tokens, static_cast<Pool>(text[i]), pool);
      };
      // Single tokens have no gaps and count once.
      int64_t shortest = shape.shortest;
      for (int64_t distance = 1; distance <= farthest && shortest <= longest; ++distance) {
        for (int64_t start = 0; start < shape.columns; ++start) {
          int64_t node = Trie::kRoot;
          for (int64_t length = 1, at = start; length <= longest && at < shape.columns;
               ++length, at += distance) {
            const int64_t number = token(at);
            if (number < 0) break;
            node = trie.Below(node, number).position;
            if (node < 0) break;
            const int64_t ngram = trie.ngrams[node];
            if (length < shortest || ngram < 0) continue;
            float& value = out[indexes[ngram]];
            const float weight = weights != nullptr ? weights[ngram] : 1;
            value = shape.once ? weight : value + weight;
          }
        }
        shortest = std::max<int64_t>(shortest, 2);
      }
    }
  });
}

template void FillNgramTable(const int64_t*, int64_t, const NgramLengths&, void*);
template void FillNgramTable(const std::string*, int64_t, const NgramLengths&, void*);
template void CountNgrams(const NgramShape&, const int32_t*, const int64_t*, const void*,
                          const int64_t*, const float*, float*, const Parallel&);
template void CountNgrams(const NgramShape&, const int64_t*, const int64_t*, const void*,
                          const int64_t*, const float*, float*, const Parallel&);
template void CountNgrams(const NgramShape&, const std::string*, const std::string*, const void*,
                          const int64_t*, const float*, float*, const Parallel&);

}  // namespace sardonyx
