#pragma once
// How searches for texts choose the next token: rules that change the scores of all tokens.

#include <optional>
#include <string_view>
#include <vector>

#include "ops/contrib/timestamps.h"
#include "ops/control/make_loop.h"
#include "ops/lowering.h"

namespace sardonyx::ops::contrib {

// Rules of a search; absent ones do not apply.
struct TokenRules {
  Val repetition_penalty;            // float32 []
  int64_t no_repeat_ngram_size = 0;  // of so many tokens, none twice; 0: no such rule
  Val forbidden;                     // bool [tokens]
  Val forbidden_first;               // bool [rows,tokens]: of the first token that is made
  Val min_length;                    // int64 [1]: no end before
  int64_t end = -1;                  // the token that ends a text
  Val temperature;                   // float32 []
  Val penalties;                     // float32 [rows,tokens], subtracted
  std::optional<TimestampRules> timestamps;

  // The same inside of a loop.
  TokenRules Inside(LoopScope& scope) const;
};

// Where a node has the inputs that rules come from.
struct RuleInputs {
  size_t min_length, repetition_penalty, vocab_mask, prefix_vocab_mask;
};
TokenRules RulesOf(Lowering& op, const RuleInputs& inputs);

// An attribute that is a token, or none if it is negative; refused where int32 cannot hold it.
int64_t TokenAttribute(Lowering& op, std::string_view name);
// Refuses an input of another rank; an absent one may be.
void CheckRank(Lowering& op, size_t input, std::string_view name, int rank);
// An input of one number in that type and of dimensions [] or [1]; absent if it is.
Val Number(Lowering& op, size_t input, std::string_view name, DType type,
           const std::vector<int64_t>& dims);
// max_length, input 1, as int64 [1], which must be more than the length that texts begin with.
Val MaxLength(Lowering& op, Dim begin);
// A mask of tokens as the node has it: [tokens], or [prompts,tokens].
Val TokenMask(Lowering& op, size_t input, std::string_view name, bool for_each_prompt);

// The scores after the last token of logits [rows,length,tokens], in float32: of the first tokens
// where the attribute vocab_size says how many are any.
Val LastScores(Lowering& op, Val logits);
// Scores [rows,tokens] by the rules, for texts so far [rows,length] of int32. `is_first`: one bool.
Val Apply(const TokenRules& rules, Val scores, Val texts, Val is_first);

// The token that fills up texts, as int32; texts [...,length] filled up to a length [1].
Val Padding(Lowering& op, Builder& builder);
Val Padded(Lowering& op, Val texts, Val length);
// What was stacked by one loop and then by another, which may have had no iteration.
Val Stacked(Val first, Val later);
// Whether any element of a bool tensor holds.
Val Any(Val x);

}  // namespace sardonyx::ops::contrib
