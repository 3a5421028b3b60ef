#include "ops/control/body.h"
#include "ops/core/control.h"
#include "ops/lowering.h"

namespace sardonyx::ops {

// A loop over positions that appends what the body gives to the sequences it carries.
Outputs LowerSequenceMap(Lowering& op) {
  Builder& b = op.builder();
  const auto body = op.attributes.Body("body");
  const size_t given = op.inputs.size() - static_cast<size_t>(op.Int("captures"));
  const size_t results = body->outputs.size();
  if (op.output_count() > results) {
    op.Fail("has {} outputs, but its body gives {}", op.output_count(), results);
  }
  auto loop = std::make_shared<Graph>(b.graph().shared_symbols());
  Builder inner(*loop);
  inner.SetOrigin(b.origin());
  const auto input = [&](Fact fact) { return inner.Wrap(loop->AddInput("", std::move(fact))); };
  Fact counter, condition;
  counter.type = DType::kInt64;
  condition.type = DType::kBool;
  counter.shape = condition.shape = Dims{};
  const Val position = input(counter);
  loop->outputs.push_back(input(condition).value);
  std::vector<Val> node_inputs{b.Make(core::sequence_length, {op.in(0)}), Val{}}, lists, arguments;
  for (const Value* output : body->outputs) {
    const int64_t dtype = static_cast<int64_t>(output->fact.type.dtype);
    node_inputs.push_back(b.Make(core::sequence, {}, {{"dtype", dtype}}));
    lists.push_back(input(core::Variable(node_inputs.back().fact())));
  }
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    node_inputs.push_back(op.inputs[i]);
    const Val value = input(core::Variable(op.inputs[i].fact()));
    const bool one_by_one = i < given && value.type().kind == Type::Kind::kSequence;
    arguments.push_back(one_by_one ? inner.Make(core::sequence_at, {value, position}) : value);
  }
  const std::vector<Val> items = Inline(inner, *body, arguments);
  for (size_t i = 0; i < results; ++i) {
    loop->outputs.push_back(inner.Make(core::sequence_insert, {lists[i], items[i]}).value);
  }
  return b.MakeMany(core::loop, node_inputs,
                    {{"body", loop}, {"carried", static_cast<int64_t>(results)}},
                    static_cast<int>(op.output_count()));
}

}  // namespace sardonyx::ops
