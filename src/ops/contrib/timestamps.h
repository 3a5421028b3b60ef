#pragma once
// The rules by which texts of speech have timestamps: in pairs, and in order.

#include "ops/vocabulary.h"

namespace sardonyx::ops::contrib {

struct TimestampRules {
  Val applies;         // bool, one element; absent: they apply
  int64_t first = 0;   // token of the first timestamp; all from there on are timestamps
  int64_t end = 0;     // ends a text; tokens before it are words
  int64_t start = -1;  // those that follow may not come after a timestamp, -1 for none
  int64_t translate = -1, transcribe = -1;
  int64_t without = -1, start_of_lm = -1;  // these may never come
};

// Scores [rows,tokens] of float32 by the rules, for texts so far [rows,length] of int32.
Val WithTimestamps(const TimestampRules& rules, Val scores, Val texts);

}  // namespace sardonyx::ops::contrib
