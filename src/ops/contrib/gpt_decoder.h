#pragma once
// The subgraphs that searches call for each token, of decoders like GPT-2:
// (input_ids, position_ids, attention_mask, past_0, ...) -> logits, present_0, ...
// where past states are [2,rows,heads,length,features].

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ops/contrib/next_token.h"

namespace sardonyx::ops::contrib {

// A body and what it captures.
struct Subgraph {
  std::shared_ptr<Graph> body;
  std::vector<Val> captures;

  size_t formals() const { return body->inputs.size() - captures.size(); }
  // Its outputs for values of its formals, which are cast to the types of those: inside of a loop,
  // or where the node is.
  std::vector<Val> Call(LoopScope& scope, std::vector<Val> arguments) const;
  std::vector<Val> Call(Builder& builder, std::vector<Val> arguments) const;
};

// What the importer put behind the inputs of the node, for its bodies.
std::vector<Val> TakeCaptures(Lowering& op);
// The graph attribute of that name; absent: no body. The names of its first inputs must be those.
Subgraph SubgraphOf(Lowering& op, std::string_view attribute, const std::vector<Val>& captures,
                    std::span<const std::string_view> inputs);
// A decoder as above.
Subgraph GptDecoder(Lowering& op, std::string_view attribute, const std::vector<Val>& captures);
// Refuses an init_decoder of other inputs than the decoder's.
void CheckSameInputs(Lowering& op, const Subgraph& first, const Subgraph& decoder);

// What a decoder takes: of prompts, or of one token more.
struct GptFeeds {
  Val ids, positions, mask;  // int32 [rows,length], [rows,length], [rows,total]
  Val next_positions;        // int32 [rows,1]
  std::vector<Val> past;

  // As a list, and from one.
  std::vector<Val> States() const;
  static GptFeeds Of(std::span<const Val> states);
  std::vector<Val> Arguments() const;
};
// For prompts [rows,length]; positions and, where it is absent, the mask leave out the padding.
GptFeeds FirstFeeds(Lowering& op, const Subgraph& decoder, Val prompts, Val attention_mask);
// After a run that gave `presents`, for the next tokens [rows,1].
GptFeeds NextFeeds(const GptFeeds& feeds, Val tokens, std::span<const Val> presents);

}  // namespace sardonyx::ops::contrib
