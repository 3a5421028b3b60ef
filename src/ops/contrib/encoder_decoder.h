#pragma once
// Beam searches whose decoder attends to what an encoder gives once, as those of T5 and Whisper do:
//
// encoder: (encoder_input_ids, encoder_attention_mask?, decoder_input_ids)
//            -> logits, encoder_hidden_states, present_key_self_0, present_value_self_0, ...,
//               present_key_cross_0, present_value_cross_0, ...
//    or    (encoder_input_ids, encoder_attention_mask) -> present_key_cross_0, ...
// decoder: (input_ids, encoder_attention_mask?, encoder_hidden_states?, past_key_self_0, ...,
//           past_key_cross_0, ...) -> logits, present_key_self_0, ...
//
// States are [rows,heads,length,features].

#include "ops/contrib/beams.h"
#include "ops/contrib/gpt_decoder.h"

namespace sardonyx::ops::contrib {

// A search that has begun: the first token is made if the encoder gives logits.
struct EncodedSearch {
  BeamSearchState state;
  BeamDecoder decoder;
  Val trips;   // int64 [1]: steps that remain
  Val logits;  // of the encoder [prompts,length,tokens], if it gives any
};

// `mask`: of what the encoder reads, absent if it takes none; `begin`: tokens that texts begin with
// [prompts,length]. Every search has at least one step.
EncodedSearch Encode(Lowering& op, const BeamRules& rules, const std::vector<Val>& captures,
                     Val mask, Val begin, Val max_length, bool wants_scores);

}  // namespace sardonyx::ops::contrib
