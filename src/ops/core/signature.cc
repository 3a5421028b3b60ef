#include "ops/core/signature.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "ops/core/core.h"

namespace sardonyx::core {
namespace {

constexpr size_t kAny = 1000;

struct Signature {
  // A letter an input: t, a tensor; v, a value of any kind. After it ?: may be absent; *: any
  // number of them; +: one or more.
  std::string_view inputs;
  size_t least = 1, most = 1;  // outputs
};

const std::map<std::string_view, Signature>& Signatures() {
  static const std::map<std::string_view, Signature> kSignatures = {
      {"fused", {"t*"}},
      {"matmul", {"ttt*"}},
      {"matmul_nbits", {"tttt?t?t?"}},
      {"conv", {"ttt*"}},
      {"integer_matmul", {"ttt?t?t*"}},
      {"integer_conv", {"ttt?t?t*"}},
      {"conv_transpose", {"ttt*"}},
      {"max_pool", {"t", 1, 2}},
      {"average_pool", {"t"}},
      {"lp_pool", {"t"}},
      {"reduce", {"t"}},
      {"arg_reduce", {"t"}},
      {"cumulative", {"t"}},
      {"softmax", {"t"}},
      {"layer_norm", {"tt?t?", 1, 3}},
      {"attention", {"tttt?"}},
      {"linear_attention", {"tttt?t?t?", 1, 2}},
      {"rotary", {"ttt"}},
      {"lstm", {"tttt?t?t?t?t?", 1, 3}},
      {"gru", {"tttt?t?t?", 1, 2}},
      {"rnn", {"tttt?t?t?", 1, 2}},
      {"resize", {"tt?t?t?"}},
      {"reshape", {"tt"}},
      {"squeeze", {"t"}},
      {"unsqueeze", {"t"}},
      {"flatten", {"t"}},
      {"bit_cast", {"t"}},
      {"transpose", {"t"}},
      {"slice", {"tttt?t?"}},
      {"expand", {"tt"}},
      {"concat", {"t+"}},
      {"split", {"tt?", 1, kAny}},
      {"pad", {"ttt?t?"}},
      {"tile", {"tt"}},
      {"gather", {"tt"}},
      {"gather_elements", {"tt"}},
      {"gather_nd", {"tt"}},
      {"scatter_elements", {"ttt"}},
      {"scatter_nd", {"ttt"}},
      {"range", {"ttt"}},
      {"constant_of_shape", {"t"}},
      {"shape", {"t"}},
      {"size", {"t"}},
      {"nonzero", {"t"}},
      {"compress", {"tt"}},
      {"one_hot", {"ttt"}},
      {"topk", {"tt", 2, 2}},
      {"trilu", {"tt?"}},
      {"eye_like", {"t"}},
      {"if_", {"tv*", 1, kAny}},
      {"loop", {"t?t?v?*", 1, kAny}},
      {"scan", {"v*", 1, kAny}},
      {"deferred", {"v?*", 1, kAny}},
      {"sequence", {"v*"}},
      {"sequence_at", {"vt"}},
      {"sequence_insert", {"vvt?"}},
      {"sequence_erase", {"vt?"}},
      {"sequence_length", {"v"}},
      {"concat_from_sequence", {"v"}},
      {"split_to_sequence", {"tt?"}},
      {"optional", {"v?"}},
      {"optional_get", {"v"}},
      {"optional_has", {"v?"}},
      {"unique", {"t", 1, 4}},
      {"string_concat", {"tt"}},
      {"string_split", {"t", 1, 2}},
      {"string_normalizer", {"t"}},
      {"regex_full_match", {"t"}},
      {"tf_idf_vectorizer", {"tttt?"}},
      {"image_decoder", {"t"}},
      {"inverse", {"t"}},
      {"dft", {"t"}},
      {"det", {"t"}},
      {"col2im", {"t"}},
      {"deform_columns", {"ttt?"}},
      {"grid_sample", {"tt"}},
      {"roi_align", {"ttt"}},
      {"max_roi_pool", {"tt"}},
      {"non_max_suppression", {"ttt?t?t?"}},
      {"mel_weight_matrix", {"ttttt"}},
      {"random", {"t"}},
      {"bernoulli", {"t"}},
      {"multinomial", {"t"}},
      {"dropout_mask", {"ttt"}},
      {"sum_to", {"tt"}},
      {"conv_input_gradient", {"ttt"}},
      {"conv_weight_gradient", {"ttt"}},
      {"average_pool_gradient", {"tt"}},
      {"lookup", {"tt"}},
      {"svm_vote", {"tt?t?", 2, 2}},
      {"zip_map", {"tt"}},
      {"dict_vectorizer", {"vt"}},
      {"cast_map", {"v"}},
      {"tree_ensemble", {"tttttttt?t?"}},
      {"rows", {"t"}},
  };
  return kSignatures;
}

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
  Fn fn{};
  if (IsElementwise(op, &fn)) {
    CheckInputs(op, inputs, std::string_view("ttt").substr(0, static_cast<size_t>(Arity(fn))));
    if (outputs != 1) Refuse(op, "gives one output, not {}", outputs);
    return;
  }
  const auto found = Signatures().find(op.name);
  if (found == Signatures().end()) Fail(ErrorCode::kInternal, "{} has no signature", op.name);
  const Signature& signature = found->second;
  CheckInputs(op, inputs, signature.inputs);
  if (outputs < signature.least || outputs > signature.most) {
    Refuse(op, "cannot have {} outputs", outputs);
  }
  CheckBodies(op, inputs.size(), attributes, outputs);
}

}  // namespace sardonyx::core
