#include "ops/contrib/encoder_decoder.h"

namespace sardonyx::ops::contrib {
namespace {

// The two bodies and how they fit together.
struct Bodies {
  Subgraph encoder, decoder;
  size_t first_past;     // among the decoder's inputs
  size_t states;         // keys and values of the decoder's own attention; as many of the other
  bool decodes;          // the encoder makes the first token
  bool takes_hidden;     // the decoder takes the encoder's hidden states
  bool takes_all_texts;  // it takes texts so far rather than their last tokens
};

Bodies BodiesOf(Lowering& op, const std::vector<Val>& captures, bool has_mask) {
  std::vector<std::string_view> inputs{"encoder_input_ids"}, decoder_inputs{"input_ids"};
  if (has_mask) {
    inputs.push_back("encoder_attention_mask");
    decoder_inputs.push_back("encoder_attention_mask");
  } else {
    inputs.push_back("decoder_input_ids");
  }
  Bodies bodies;
  bodies.encoder = SubgraphOf(op, "encoder", captures, inputs);
  bodies.decoder = SubgraphOf(op, "decoder", captures, decoder_inputs);
  if (bodies.encoder.body == nullptr) op.Fail("the attribute encoder is missing");
  const Graph &encoder = *bodies.encoder.body, &decoder = *bodies.decoder.body;
  bodies.first_past = decoder_inputs.size();
  bodies.takes_hidden = bodies.decoder.formals() > bodies.first_past &&
                        decoder.inputs[bodies.first_past]->name == "encoder_hidden_states";
  if (bodies.takes_hidden) ++bodies.first_past;
  const size_t outputs = decoder.outputs.size();
  if (outputs < 3 || outputs % 2 == 0) {
    op.Fail("the decoder has {} outputs, expected logits, keys and values", outputs);
  }
  bodies.states = outputs - 1;
  const size_t expected = bodies.first_past + 2 * bodies.states;
  if (bodies.decoder.formals() > expected) {
    op.Unsupported(
        "the decoder has {} inputs and {} outputs: past states in memory that present "
        "ones share are not supported",
        bodies.decoder.formals(), outputs);
  }
  if (bodies.decoder.formals() < expected) {
    op.Fail("the decoder has {} inputs and {} outputs, expected {} inputs",
            bodies.decoder.formals(), outputs, expected);
  }
  bodies.decodes = !has_mask || bodies.encoder.formals() > inputs.size();
  const size_t taken = has_mask && bodies.decodes ? 3 : 2;
  const size_t given = bodies.states + (bodies.decodes ? bodies.states + 2 : 0);
  if (bodies.encoder.formals() != taken || encoder.outputs.size() != given) {
    op.Fail("the encoder has {} inputs and {} outputs, expected {} and {}",
            bodies.encoder.formals(), encoder.outputs.size(), taken, given);
  }
  if (bodies.takes_hidden && !bodies.decodes) {
    op.Fail("the decoder takes encoder_hidden_states, which the encoder does not give");
  }
  const Fact& ids = decoder.inputs[0]->fact;
  bodies.takes_all_texts = !(ids.ranked() && ids.rank() == 2 && (*ids.shape)[1] == 1);
  return bodies;
}

// A past of no tokens as the decoder declares it.
Val NoPast(Lowering& op, const Bodies& bodies, size_t i, Val rows) {
  Builder& b = op.builder();
  const Fact& past = bodies.decoder.body->inputs[bodies.first_past + i]->fact;
  if (!past.ranked() || past.rank() != 4 || !(*past.shape)[1].known() ||
      !(*past.shape)[3].known()) {
    op.Fail(
        "input {} of the decoder must declare a shape [rows,heads,length,features] of known "
        "heads and features",
        bodies.first_past + i);
  }
  const Val others = b.Ints({(*past.shape)[1].value(), 0, (*past.shape)[3].value()});
  return Filled(Concat({rows, others}, 0), b.Scalar(past.type.dtype, 0).constant());
}

}  // namespace

EncodedSearch Encode(Lowering& op, const BeamRules& rules, const std::vector<Val>& captures,
                     Val mask, Val begin, Val max_length, bool wants_scores) {
  Builder& b = op.builder();
  const Bodies bodies = BodiesOf(op, captures, static_cast<bool>(mask));
  const auto for_each_beam = [&](Val x) { return Repeat(x, 0, rules.beams); };
  const Val texts = for_each_beam(begin);
  std::vector<Val> arguments{op.in(0)};
  if (mask) arguments.push_back(mask);
  if (bodies.decodes) arguments.push_back(begin);
  std::vector<Val> encoded = bodies.encoder.Call(b, arguments);
  EncodedSearch search;
  Val hidden;
  if (bodies.decodes) {
    search.logits = encoded[0];
    if (bodies.takes_hidden) hidden = for_each_beam(encoded[1]);
    encoded.erase(encoded.begin(), encoded.begin() + 2);
  }
  for (Val& state : encoded) state = for_each_beam(state);

  search.state.beams = BeginBeams(op, rules, SizeOf(begin, 0), texts);
  search.state.feeds = {texts};
  for (size_t i = 0; i < bodies.states; ++i) {
    search.state.feeds.push_back(bodies.decodes ? encoded[i]
                                                : NoPast(op, bodies, i, SizeOf(texts, 0)));
  }
  search.trips = max_length - SizeOf(begin, 1);
  const bool takes_all = bodies.takes_all_texts;
  if (bodies.decodes) {
    const Val logits = for_each_beam(search.logits);
    // All beams of a prompt have the same states so far.
    const BeamDecoder first{
        .call = [&](LoopScope& scope, std::span<const Val>) -> std::vector<Val> {
          return {scope.Outside(logits)};
        },
        .next =
            [&](std::span<const Val> feeds, const BeamStep& step, std::span<const Val>) {
              std::vector<Val> next(feeds.begin(), feeds.end());
              next[0] = takes_all ? step.beams.texts : step.tokens;
              return next;
            }};
    RunBeams(op, rules, first, b.Ints({1}), wants_scores, &search.state);
    search.trips = search.trips - 1;
  }

  std::vector<Val> fixed;
  if (mask) fixed.push_back(for_each_beam(mask));
  if (hidden) fixed.push_back(hidden);
  const std::vector<Val> cross(encoded.end() - static_cast<std::ptrdiff_t>(bodies.states),
                               encoded.end());
  search.decoder.call = [decoder = bodies.decoder, fixed, cross](LoopScope& scope,
                                                                 std::span<const Val> feeds) {
    std::vector<Val> inputs{feeds[0]};
    for (const Val& value : fixed) inputs.push_back(scope.Outside(value));
    inputs.insert(inputs.end(), feeds.begin() + 1, feeds.end());
    for (const Val& value : cross) inputs.push_back(scope.Outside(value));
    return decoder.Call(scope, std::move(inputs));
  };
  search.decoder.next = [takes_all, reorders = rules.reorders()](std::span<const Val>,
                                                                 const BeamStep& step,
                                                                 std::span<const Val> outputs) {
    std::vector<Val> next(outputs.begin(), outputs.end());
    next[0] = takes_all ? step.beams.texts : step.tokens;
    for (size_t i = 1; i < next.size() && reorders; ++i) next[i] = Gather(next[i], step.rows, 0);
    return next;
  };
  return search;
}

}  // namespace sardonyx::ops::contrib
