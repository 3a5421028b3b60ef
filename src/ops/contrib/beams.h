#pragma once
// Beam search: for each prompt the texts of highest scores are followed, some at a time.

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "ops/contrib/next_token.h"

namespace sardonyx::ops::contrib {

// What stays the same. `beams`: how many texts are followed for each prompt.
struct BeamRules {
  TokenRules tokens;
  Val beams;           // int64 [1]
  Val length_penalty;  // float32 []; absent: 1
  bool early_stopping = false;

  BeamRules Inside(LoopScope& scope) const;
  // Where there is one beam, no text ever takes the place of another.
  bool reorders() const { return !beams.is_constant() || beams.ints()[0] != 1; }
};

// Texts [prompts*beams,length] that are followed, and the sums of the logarithms of their
// probabilities [prompts,beams]; texts that have ended, the best first and padded,
// [prompts,beams,length], with their scores, how many they are and whether nothing can become
// better any more [prompts,1]; whether there is another step.
struct Beams {
  Val texts, sums;
  Val ended, ended_scores, ended_count, done;
  Val goes_on;

  // As a list, and from one that begins with these.
  static constexpr size_t kCount = 7;
  std::vector<Val> States() const;
  static Beams Of(std::span<const Val> states);
};

// Beams that begin with texts [prompts*beams,length].
Beams BeginBeams(Lowering& op, const BeamRules& rules, Val prompts, Val texts);

// A step by logits [prompts*beams,any,tokens].
struct BeamStep {
  Beams beams;
  Val rows;    // int64 [prompts*beams]: which texts go on
  Val tokens;  // int32 [prompts*beams,1]: with these
  Val scores;  // float32 [prompts,beams,tokens]
};
BeamStep StepBeams(Lowering& op, const BeamRules& rules, const Beams& before, Val logits,
                   Val is_first);

// The results: texts [prompts,count,max_length] and their scores [prompts,count]. Texts that were
// followed to the end count as if they had ended there.
std::vector<Val> FinishBeams(Lowering& op, const BeamRules& rules, Beams beams, Val max_length,
                             Val count);

// A number of texts [1]: input `i`, at least 1 and at most `most` where both are known.
Val CountOfTexts(Lowering& op, size_t i, std::string_view name, Val most);

// How a search calls its decoder: with feeds, states of the loop behind the beams, for logits and
// whatever else; and what the next feeds are, by these outputs and the step.
struct BeamDecoder {
  std::function<std::vector<Val>(LoopScope&, std::span<const Val> feeds)> call;
  std::function<std::vector<Val>(std::span<const Val> feeds, const BeamStep&,
                                 std::span<const Val> outputs)>
      next;
};

// Beams and feeds on the way, and the scores of all steps so far [steps,prompts,beams,tokens] if
// they are asked for.
struct BeamSearchState {
  Beams beams;
  std::vector<Val> feeds;
  Val scores;
  bool is_first = true;  // no token was made yet
};
// At most `trips` steps.
void RunBeams(Lowering& op, const BeamRules& rules, const BeamDecoder& decoder, Val trips,
              bool wants_scores, BeamSearchState* state);

}  // namespace sardonyx::ops::contrib
