// Linear attention: a state S [key size, value size] for each head of keys and values, which every
// token decays, corrects and adds to, and each query reads. ONNX LinearAttention-27.

#include <algorithm>
#include <cmath>

#include "ops/core/fits.h"
#include "ops/core/reference.h"
#include "ops/lowering.h"

namespace sardonyx {
namespace core {
namespace {

enum Input : size_t { kQuery, kKey, kValue, kPast, kDecay, kBeta };

struct Heads {
  int64_t query, shared, group;  // of queries; of keys and values; queries that share one of these
};

Heads HeadsOf(const Attributes& attributes) {
  Heads heads{attributes.Int("q_num_heads"), attributes.Int("kv_num_heads"), 0};
  if (heads.query < 1 || heads.shared < 1 || heads.query % heads.shared != 0) {
    Fail(ErrorCode::kInvalidModel, "{} query heads cannot share {} heads of keys and values",
         heads.query, heads.shared);
  }
  heads.group = heads.query / heads.shared;
  return heads;
}

void CheckDims(InferContext& context, size_t input, std::string_view name, const Dims& expected) {
  if (!context.has(input) || !context.ranked(input)) return;
  const Dims& shape = context.shape(input);
  if (!Fits(shape, expected)) {
    context.Fail("{} is {}, expected {}", name, context.Print(shape), context.Print(expected));
  }
}

// The size of a head where `heads` of them are packed along the last axis.
Dim HeadSize(InferContext& context, size_t input, std::string_view name, int64_t heads) {
  if (!context.ranked(input) || context.rank(input) != 3) return context.symbols().Fresh();
  const Dim packed = context.shape(input)[2];
  if (!packed.known()) return context.symbols().Fresh();
  if (packed.value() % heads != 0) {
    context.Fail("{} has {} features, which {} heads do not divide", name, packed.value(), heads);
  }
  return packed.value() / heads;
}

void CheckGates(InferContext& context) {
  const std::string_view rule = context.attributes().String("update_rule");
  const bool gated = rule == "gated" || rule == "gated_delta";
  const bool delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear") {
    context.Fail("update_rule '{}' is none of linear, gated, delta, gated_delta", rule);
  }
  const auto check = [&](size_t input, std::string_view name, bool needed) {
    if (context.has(input) == needed) return;
    context.Fail("update_rule '{}' {} the input '{}'", rule, needed ? "needs" : "has no use for",
                 name);
  };
  check(kDecay, "decay", gated);
  check(kBeta, "beta", delta);
}

void InferLinearAttention(InferContext& context) {
  const Heads heads = HeadsOf(context.attributes());
  CheckGates(context);
  SymbolTable& symbols = context.symbols();
  Dim batch = symbols.Fresh(), steps = symbols.Fresh();
  if (context.ranked(kQuery) && context.rank(kQuery) == 3) {
    batch = context.shape(kQuery)[0];
    steps = context.shape(kQuery)[1];
  }
  const Dim key_size = HeadSize(context, kQuery, "query", heads.query);
  const Dim value_size = HeadSize(context, kValue, "value", heads.shared);
  const auto packed = [&](Dim size, int64_t count) -> Dim {
    return size.known() ? Dim(size.value() * count) : symbols.Fresh();
  };
  CheckDims(context, kQuery, "query", {batch, steps, packed(key_size, heads.query)});
  CheckDims(context, kKey, "key", {batch, steps, packed(key_size, heads.shared)});
  CheckDims(context, kValue, "value", {batch, steps, packed(value_size, heads.shared)});
  const Dims state{batch, heads.shared, key_size, value_size};
  CheckDims(context, kPast, "past_state", state);
  const auto last = [&](size_t input) -> Dim {
    const bool known = context.has(input) && context.ranked(input) && context.rank(input) == 3;
    return known ? context.shape(input)[2] : symbols.Fresh();
  };
  const Dim decays = last(kDecay), betas = last(kBeta);
  const bool per_head = decays.known() && decays.value() == heads.shared;
  CheckDims(context, kDecay, "decay",
            {batch, steps, per_head ? decays : packed(key_size, heads.shared)});
  const bool one = betas.known() && betas.value() == 1;
  CheckDims(context, kBeta, "beta", {batch, steps, one ? betas : Dim(heads.shared)});
  context.Set(0, context.dtype(kQuery), Dims{batch, steps, packed(value_size, heads.query)});
  // Nothing else says of which type the first state is.
  if (context.output_count() > 1) {
    context.Set(1, context.dtype(context.has(kPast) ? kPast : kQuery), state);
  }
}

std::vector<double> Read(ComputeContext& context, size_t input) {
  return context.has(input) ? ToDoubles(context.input(input)) : std::vector<double>();
}

void Store(ComputeContext& context, size_t output, const std::vector<double>& values) {
  Tensor& to = context.Allocate(output);
  ConvertElements(DType::kFloat64, values.data(), to.dtype(), to.raw(), to.size(), false);
}

void ComputeLinearAttention(ComputeContext& context) {
  const Attributes& attributes = context.attributes();
  const Heads heads = HeadsOf(attributes);
  const std::vector<int64_t>& dims = context.input(kQuery).dims();
  const int64_t batch = dims[0], steps = dims[1], keys = dims[2] / heads.query;
  const int64_t values = context.input(kValue).dims()[2] / heads.shared;
  const double given = attributes.Float("scale");
  const double scale = given != 0 ? given : 1 / std::sqrt(static_cast<double>(keys));
  const std::vector<double> q = Read(context, kQuery), k = Read(context, kKey),
                            v = Read(context, kValue), decay = Read(context, kDecay),
                            beta = Read(context, kBeta);
  const int64_t decays = decay.empty() ? 0 : context.input(kDecay).dims()[2];
  const int64_t betas = beta.empty() ? 0 : context.input(kBeta).dims()[2];
  const bool per_head = decays == heads.shared;
  std::vector<double> states = Read(context, kPast);
  states.resize(batch * heads.shared * keys * values, 0);
  std::vector<double> y(batch * steps * heads.query * values, 0), written(values);
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t h = 0; h < heads.shared; ++h) {
      double* state = states.data() + (n * heads.shared + h) * keys * values;
      for (int64_t t = n * steps; t < (n + 1) * steps; ++t) {
        const double* key = k.data() + (t * heads.shared + h) * keys;
        const double* value = v.data() + (t * heads.shared + h) * values;
        for (int64_t i = 0; decays > 0 && i < keys; ++i) {
          const double factor = std::exp(decay[t * decays + (per_head ? h : h * keys + i)]);
          for (int64_t j = 0; j < values; ++j) state[i * values + j] *= factor;
        }
        std::copy_n(value, values, written.begin());
        if (betas > 0) {
          for (int64_t i = 0; i < keys; ++i) {
            for (int64_t j = 0; j < values; ++j) written[j] -= key[i] * state[i * values + j];
          }
          const double rate = beta[t * betas + (betas == 1 ? 0 : h)];
          for (double& item : written) item *= rate;
        }
        for (int64_t i = 0; i < keys; ++i) {
          for (int64_t j = 0; j < values; ++j) state[i * values + j] += key[i] * written[j];
        }
        for (int64_t g = h * heads.group; g < (h + 1) * heads.group; ++g) {
          const double* query = q.data() + (t * heads.query + g) * keys;
          double* out = y.data() + (t * heads.query + g) * values;
          for (int64_t i = 0; i < keys; ++i) {
            for (int64_t j = 0; j < values; ++j) out[j] += scale * query[i] * state[i * values + j];
          }
        }
      }
    }
  }
  Store(context, 0, y);
  if (context.output_count() > 1) Store(context, 1, states);
}

}  // namespace

const CoreOp linear_attention = {.name = "linear_attention",
                                 .inputs = "tttt?t?t?",
                                 .outputs = {1, 2},
                                 .infer = InferLinearAttention,
                                 .reference = ComputeLinearAttention};

}  // namespace core

namespace ops {

// `chunk_size` is a hint to devices that compute many tokens at once.
Outputs LowerLinearAttention(Lowering& op) {
  return op.builder().MakeMany(core::linear_attention, op.inputs,
                               {{"q_num_heads", op.Int("q_num_heads")},
                                {"kv_num_heads", op.Int("kv_num_heads")},
                                {"scale", op.Float("scale")},
                                {"update_rule", op.String("update_rule")}},
                               static_cast<int>(op.output_count()));
}

}  // namespace ops
}  // namespace sardonyx
