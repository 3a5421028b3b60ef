#include "ops/control/make_loop.h"

#include "ops/control/body.h"
#include "ops/core/control.h"
#include "ops/core/core.h"

namespace sardonyx::ops {
namespace {

Fact ScalarFact(DType dtype) {
  Fact fact;
  fact.type = dtype;
  fact.shape.emplace();
  return fact;
}

}  // namespace

LoopScope::LoopScope(Graph& body, const Builder& around, std::span<const Fact> states)
    : body_(body), builder_(body) {
  builder_.SetOrigin(around.origin());
  iteration_ = builder_.Wrap(body.AddInput("", ScalarFact(DType::kInt64)));
  body.AddInput("", ScalarFact(DType::kBool));
  for (const Fact& fact : states) states_.push_back(builder_.Wrap(body.AddInput("", fact)));
}

Val LoopScope::Outside(Val value) {
  if (!value) return {};
  if (value.is_constant()) return builder_.Constant(value.constant());
  for (const auto& [outside, inside] : captures_) {
    if (outside.value == value.value) return inside;
  }
  Fact fact = value.fact();
  fact.constant = Tensor();
  captures_.emplace_back(value, builder_.Wrap(body_.AddInput("", std::move(fact))));
  return captures_.back().second;
}

std::vector<Val> LoopScope::Captures() const {
  std::vector<Val> captures;
  for (const auto& [outside, inside] : captures_) captures.push_back(outside);
  return captures;
}

std::vector<Val> MakeLoop(Builder& builder, Val trips, Val starts, const std::vector<Val>& initial,
                          const std::function<LoopStep(LoopScope&)>& step) {
  std::vector<Fact> formals;
  for (const Val& state : initial) formals.push_back(core::Variable(state.fact()));
  Dims forgotten;
  for (int tries = 0;; ++tries) {
    const auto body = std::make_shared<Graph>(builder.graph().shared_symbols());
    LoopScope scope(*body, builder, formals);
    const LoopStep made = step(scope);
    body->outputs.push_back(made.goes_on.value);
    for (const Val& state : made.states) body->outputs.push_back(state.value);
    for (const Val& part : made.stacked) body->outputs.push_back(part.value);
    std::vector<Fact> settled{body->inputs[0]->fact, body->inputs[1]->fact};
    settled.insert(settled.end(), formals.begin(), formals.end());
    const std::vector<int> carried = core::Carried(settled.size(), 2, formals.size(), 1);
    if (RelaxCarried(*body, carried, &settled, &forgotten)) {
      if (tries > 64) Fail(ErrorCode::kInternal, "shapes of a loop do not settle");
      formals.assign(settled.begin() + 2, settled.end());
      continue;
    }
    std::vector<Val> inputs{trips, starts};
    inputs.insert(inputs.end(), initial.begin(), initial.end());
    for (const Val& capture : scope.Captures()) inputs.push_back(capture);
    return builder.MakeMany(core::loop, inputs,
                            {{"body", body}, {"carried", static_cast<int64_t>(initial.size())}},
                            static_cast<int>(made.states.size() + made.stacked.size()));
  }
}

}  // namespace sardonyx::ops
