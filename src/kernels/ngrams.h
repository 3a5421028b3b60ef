#pragma once
// Counts of n-grams, with gaps if asked for: TfIdfVectorizer. T: int32_t, int64_t or std::string
// for texts; pools of int64_t or std::string.

#include <cstdint>
#include <span>

#include "base/thread_pool.h"

namespace sardonyx {

// The pool holds the tokens of all 1-grams, then of all 2-grams ...; those of i + 1 tokens begin at
// counts[i]. Others than `shortest` to `longest` long are not looked for.
struct NgramLengths {
  std::span<const int64_t> counts;
  int64_t shortest, longest;
};

int64_t NgramTableBytes(int64_t pool);
template <typename Pool>
void FillNgramTable(const Pool* pool, int64_t size, const NgramLengths& lengths, void* table);

// Whether a table that comes from a file points nowhere but into itself and to `ngrams`.
bool NgramTableFits(int64_t pool, int64_t ngrams, const void* table);

struct NgramShape {
  int64_t rows, columns, width;  // of the texts; of the result
  int64_t pool;
  int64_t shortest, longest, skips;  // skips: most tokens between two of an n-gram
  bool once;                         // found or not, rather than how often
};

// y [rows, width]: how often n-gram i was found, times weights[i] (null: 1), in column indexes[i].
template <typename T, typename Pool>
void CountNgrams(const NgramShape& shape, const T* x, const Pool* pool, const void* table,
                 const int64_t* indexes, const float* weights, float* y, const Parallel& par);

}  // namespace sardonyx
