#include "ops/contrib/gpt_decoder.h"

#include "ops/control/body.h"

namespace sardonyx::ops::contrib {

std::vector<Val> Subgraph::Call(LoopScope& scope, std::vector<Val> arguments) const {
  Subgraph inside = *this;
  for (Val& capture : inside.captures) capture = scope.Outside(capture);
  return inside.Call(scope.builder(), std::move(arguments));
}

std::vector<Val> Subgraph::Call(Builder& builder, std::vector<Val> arguments) const {
  for (size_t i = 0; i < arguments.size(); ++i) {
    arguments[i] = Cast(arguments[i], body->inputs[i]->fact.type.dtype);
  }
  arguments.insert(arguments.end(), captures.begin(), captures.end());
  return Inline(builder, *body, arguments);
}

std::vector<Val> TakeCaptures(Lowering& op) {
  const auto count = static_cast<std::ptrdiff_t>(op.Int("captures"));
  std::vector<Val> captures(op.inputs.end() - count, op.inputs.end());
  op.inputs.erase(op.inputs.end() - count, op.inputs.end());
  return captures;
}

Subgraph SubgraphOf(Lowering& op, std::string_view attribute, const std::vector<Val>& captures,
                    std::span<const std::string_view> inputs) {
  Subgraph subgraph{.body = op.attributes.Body(attribute), .captures = captures};
  if (subgraph.body == nullptr) return subgraph;
  if (subgraph.formals() < inputs.size()) {
    op.Fail("the {} takes {} inputs, expected at least {}", attribute, subgraph.formals(),
            inputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = subgraph.body->inputs[i]->name;
    if (name != inputs[i]) {
      op.Fail("input {} of the {} is '{}', expected '{}'", i, attribute, name, inputs[i]);
    }
  }
  return subgraph;
}

Subgraph GptDecoder(Lowering& op, std::string_view attribute, const std::vector<Val>& captures) {
  constexpr std::string_view kInputs[] = {"input_ids", "position_ids", "attention_mask", "past_0"};
  Subgraph decoder = SubgraphOf(op, attribute, captures, kInputs);
  if (decoder.body == nullptr) return decoder;
  const size_t outputs = decoder.body->outputs.size();
  if (decoder.formals() > outputs + 2) {
    op.Unsupported(
        "the {} has {} inputs and {} outputs: past states in memory that present ones "
        "share are not supported",
        attribute, decoder.formals(), outputs);
  }
  if (decoder.formals() < outputs + 2) {
    op.Fail("the {} has {} inputs and {} outputs, expected two inputs more than outputs", attribute,
            decoder.formals(), outputs);
  }
  for (size_t i = 3; i < decoder.formals(); ++i) {
    const Fact& past = decoder.body->inputs[i]->fact;
    if (!past.ranked() || past.rank() != 5 || !(*past.shape)[2].known() ||
        !(*past.shape)[4].known()) {
      op.Fail(
          "input {} of the {} must declare a shape [2,rows,heads,length,features] of known "
          "heads and features",
          i, attribute);
    }
  }
  return decoder;
}

void CheckSameInputs(Lowering& op, const Subgraph& first, const Subgraph& decoder) {
  if (first.formals() == decoder.formals()) return;
  op.Fail("the init_decoder takes {} inputs, the decoder {}", first.formals(), decoder.formals());
}

std::vector<Val> GptFeeds::Arguments() const {
  std::vector<Val> arguments{ids, positions, mask};
  arguments.insert(arguments.end(), past.begin(), past.end());
  return arguments;
}

std::vector<Val> GptFeeds::States() const {
  std::vector<Val> states{ids, positions, mask, next_positions};
  states.insert(states.end(), past.begin(), past.end());
  return states;
}

GptFeeds GptFeeds::Of(std::span<const Val> states) {
  return {.ids = states[0],
          .positions = states[1],
          .mask = states[2],
          .next_positions = states[3],
          .past = {states.begin() + 4, states.end()}};
}

GptFeeds FirstFeeds(Lowering& op, const Subgraph& decoder, Val prompts, Val attention_mask) {
  Builder& b = op.builder();
  for (int axis = 0; attention_mask && axis < 2; ++axis) {
    const Dim found = attention_mask.shape()[axis], wanted = prompts.shape()[axis];
    if (found.known() && wanted.known() && !(found == wanted)) {
      op.Fail("attention_mask has {} elements along axis {}, input_ids has {}", found.value(), axis,
              wanted.value());
    }
  }
  const Val is_word = Cast(Not(Equal(prompts, Padding(op, b))), DType::kInt32);
  const Val before =
      b.Make(core::cumulative, {is_word},
             {{"kind", std::string("sum")}, {"axis", int64_t{1}}, {"exclusive", int64_t{1}}});
  GptFeeds feeds;
  feeds.ids = prompts;
  feeds.positions = before * is_word;
  feeds.mask = attention_mask ? attention_mask : is_word;
  feeds.next_positions = Reduce("sum", is_word, {1}, true);
  for (size_t i = 3; i < decoder.formals(); ++i) {
    const Fact& past = decoder.body->inputs[i]->fact;
    const Val others = b.Ints({(*past.shape)[2].value(), 0, (*past.shape)[4].value()});
    const Val none = b.Scalar(past.type.dtype, 0);
    feeds.past.push_back(
        Filled(Concat({b.Ints({2}), SizeOf(prompts, 0), others}, 0), none.constant()));
  }
  return feeds;
}

GptFeeds NextFeeds(const GptFeeds& feeds, Val tokens, std::span<const Val> presents) {
  Builder& b = *tokens.builder;
  const Val one = b.Scalar(tokens.dtype(), 1);
  GptFeeds next;
  next.ids = tokens;
  next.positions = feeds.next_positions;
  next.mask = Concat({feeds.mask, Expand(one, ShapeOf(tokens))}, 1);
  next.next_positions = feeds.next_positions + 1;
  next.past.assign(presents.begin(), presents.end());
  return next;
}

}  // namespace sardonyx::ops::contrib
