#include "ops/core/signature.h"

#include <algorithm>
#include <string_view>

#include "ops/core/core.h"

namespace sardonyx::core {
namespace {

template <typename... Args>
[[noreturn]] void Refuse(const CoreOp& op, fmt::format_string<Args...> text, Args&&... args) {
  Fail(ErrorCode::kInvalidModel, "{}: {}", op.name, fmt::format(text, std::forward<Args>(args)...));
}

void CheckInput(const CoreOp& op, const Value* input, size_t number, char kind, bool optional) {
  if (input == nullptr) {
    if (!optional) Refuse(op, "input {} is missing", number);
  } else if (kind == 't' && !input->fact.type.is_tensor()) {
    Refuse(op, "input {} is {}, not a tensor", number, Print(input->fact.type));
  }
}

void CheckInputs(const CoreOp& op, std::span<const Value* const> inputs, std::string_view form) {
  size_t number = 0;
  while (!form.empty()) {
    const size_t end = std::min(form.find_first_of("tv", 1), form.size());
    const char kind = form[0];
    const std::string_view marks = form.substr(1, end - 1);
    form.remove_prefix(end);
    const auto has = [&](char mark) { return marks.find(mark) != std::string_view::npos; };
    if (!has('*')) {
      const Value* input = number < inputs.size() ? inputs[number] : nullptr;
      CheckInput(op, input, number++, kind, has('?'));
    }
    if (!has('*') && !has('+')) continue;
    for (; number < inputs.size(); ++number) {
      CheckInput(op, inputs[number], number, kind, has('?'));
    }
  }
  if (inputs.size() > number) Refuse(op, "takes {} inputs, not {}", number, inputs.size());
}

const Graph& BodyOf(const CoreOp& op, const Attributes& attributes, std::string_view name,
                    size_t inputs) {
  const Attribute* found = attributes.Find(name);
  const auto* body = found != nullptr ? std::get_if<std::shared_ptr<Graph>>(found) : nullptr;
  if (body == nullptr) Refuse(op, "has no body '{}'", name);
  if ((*body)->inputs.size() != inputs) {
    Refuse(op, "its body takes {} values, the node gives {}", (*body)->inputs.size(), inputs);
  }
  return **body;
}

void CheckOutputs(const CoreOp& op, const Graph& body, size_t outputs) {
  if (body.outputs.size() != outputs) {
    Refuse(op, "its body gives {} values, not {}", body.outputs.size(), outputs);
  }
}

// A count that an attribute states, at most `most`.
size_t CountOf(const CoreOp& op, const Attributes& attributes, std::string_view name, size_t most) {
  const int64_t count = attributes.Int(name);
  if (count < 0 || static_cast<uint64_t>(count) > most) Refuse(op, "{} is {}", name, count);
  return static_cast<size_t>(count);
}

void CheckBodies(const CoreOp& op, size_t inputs, const Attributes& attributes, size_t outputs) {
  if (&op == &if_) {
    for (const char* name : {"then_branch", "else_branch"}) {
      CheckOutputs(op, BodyOf(op, attributes, name, inputs - 1), outputs);
    }
  } else if (&op == &loop) {
    const Graph& body = BodyOf(op, attributes, "body", inputs);
    if (inputs < 2) Refuse(op, "takes a trip count and a condition");
    CheckOutputs(op, body, outputs + 1);
    CountOf(op, attributes, "carried", std::min(inputs - 2, outputs));
  } else if (&op == &scan) {
    const Graph& body = BodyOf(op, attributes, "body", inputs);
    CheckOutputs(op, body, outputs);
    const size_t captures = CountOf(op, attributes, "captures", inputs);
    const size_t scanned = CountOf(op, attributes, "scan_inputs", inputs - captures);
    if (scanned == 0) Refuse(op, "scans nothing");
    if (inputs - captures - scanned > outputs) Refuse(op, "has more states than outputs");
  } else if (&op == &deferred) {
    for (const char* name : {"@types", "@wanted"}) {
      if (attributes.Ints(name).size() != outputs) Refuse(op, "says other outputs than it has");
    }
  }
}

}  // namespace

void CheckSignature(const CoreOp& op, std::span<const Value* const> inputs,
                    const Attributes& attributes, size_t outputs) {
  CheckInputs(op, inputs, op.inputs);
  if (outputs < op.outputs.fewest || outputs > op.outputs.most) {
    Refuse(op, "cannot have {} outputs", outputs);
  }
  CheckBodies(op, inputs.size(), attributes, outputs);
}

}  // namespace sardonyx::core
