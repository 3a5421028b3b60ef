#include "kernels/recurrent.h"

#include <algorithm>
#include <cctype>

#include "devices/cpu/families.h"
#include "kernels/narrow.h"
#include "ops/core/core.h"

namespace sardonyx::cpu {
namespace {

using Kind = RecurrentActivation::Kind;

// Names in lower case, with the standard's default alpha and beta.
struct ActivationRow {
  std::string_view name;
  Kind kind;
  float alpha, beta;
};
constexpr ActivationRow kActivations[] = {
    {"sigmoid", Kind::kSigmoid, 0, 0},
    {"tanh", Kind::kTanh, 0, 0},
    {"relu", Kind::kRelu, 0, 0},
    {"affine", Kind::kAffine, 1, 0},
    {"leakyrelu", Kind::kLeakyRelu, 0.01f, 0},
    {"thresholdedrelu", Kind::kThresholdedRelu, 1, 0},
    {"scaledtanh", Kind::kScaledTanh, 1, 1},
    {"hardsigmoid", Kind::kHardSigmoid, 0.2f, 0.5f},
    {"elu", Kind::kElu, 1, 0},
    {"softsign", Kind::kSoftsign, 0, 0},
    {"softplus", Kind::kSoftplus, 0, 0},
};

std::string SetActivations(const Attributes& attributes, int directions, int count,
                           RecurrentOptions* options) {
  const auto& names = attributes.Strings("activations");
  const auto& alphas = attributes.Floats("activation_alpha");
  const auto& betas = attributes.Floats("activation_beta");
  if (names.empty() && alphas.empty() && betas.empty()) return "";
  if (!names.empty() && static_cast<int>(names.size()) != directions * count) {
    return fmt::format("{} activations", names.size());
  }
  size_t alpha = 0, beta = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    std::string name = names[i];
    std::transform(name.begin(), name.end(), name.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    const auto* row = std::find_if(std::begin(kActivations), std::end(kActivations),
                                   [&](const ActivationRow& r) { return r.name == name; });
    if (row == std::end(kActivations)) return fmt::format("activation {} is unknown", names[i]);
    RecurrentActivation activation{row->kind, row->alpha, row->beta};
    // Given values belong to the activations that have such a parameter, in order.
    const bool has_alpha = row->alpha != 0;
    const bool has_beta = row->beta != 0 || row->kind == Kind::kAffine;
    if (has_alpha && alpha < alphas.size()) activation.alpha = static_cast<float>(alphas[alpha++]);
    if (has_beta && beta < betas.size()) activation.beta = static_cast<float>(betas[beta++]);
    options->activations[i / count][i % count] = activation;
  }
  return "";
}

BindResult BindSteps(const BindRequest& request) {
  const Attributes& attributes = request.node.attributes;
  const Operand& x = request.inputs[0];
  if (x.dtype != DType::kFloat32) return Refuse("element type is {}", Name(x.dtype));
  if (attributes.Int("layout") != 0) return Refuse("layout is batch first");
  const CoreOp* op = request.node.op;
  const bool is_lstm = op == &core::lstm;
  const RecurrentCell cell = is_lstm            ? RecurrentCell::kLstm
                             : op == &core::gru ? RecurrentCell::kGru
                                                : RecurrentCell::kRnn;
  const std::string_view direction = attributes.String("direction", "forward");
  const RecurrentDirection way = direction == "forward"   ? RecurrentDirection::kForward
                                 : direction == "reverse" ? RecurrentDirection::kReverse
                                                          : RecurrentDirection::kBidirectional;
  const int directions = way == RecurrentDirection::kBidirectional ? 2 : 1;
  const int64_t hidden = request.inputs[2].dims[2];
  RecurrentOptions options = DefaultRecurrentOptions(cell, way, x.dims[2], hidden);
  options.has_clip = attributes.Find("clip") != nullptr;
  options.clip = static_cast<float>(attributes.Float("clip"));
  options.input_forget = attributes.Int("input_forget") != 0;
  options.linear_before_reset = attributes.Int("linear_before_reset") != 0;
  const int per_direction = is_lstm ? 3 : cell == RecurrentCell::kGru ? 2 : 1;
  if (std::string why = SetActivations(attributes, directions, per_direction, &options);
      !why.empty()) {
    return why;
  }
  auto given = [&](size_t i) { return i < request.inputs.size() && request.inputs[i].present(); };
  const size_t peepholes = 7;
  // Weights, recurrence, bias and peepholes must all be known to be packed once.
  for (size_t i : {size_t{1}, size_t{2}, size_t{3}, peepholes}) {
    if (!given(i) || (i >= 4 && !is_lstm)) continue;
    const DType dtype = request.inputs[i].dtype;
    const bool may_be_half = i < 3 && (dtype == DType::kFloat16 || dtype == DType::kBFloat16);
    if (dtype != DType::kFloat32 && !may_be_half) return Refuse("weights are {}", Name(dtype));
    if (request.inputs[i].constant == nullptr) return Refuse("weights are not constant");
  }
  const int64_t steps = x.dims[0], batch = x.dims[1];
  if (x.size() == 0) return Refuse("no elements");
  auto name = [&](size_t i) {
    if (!given(i)) return std::string("-");
    return fmt::format("{}+{}", request.inputs[i].id.base, request.inputs[i].id.offset);
  };
  // W and R are read a part at a time, B and P are small.
  auto matrix = [&](size_t i) {
    const Tensor& weights = *request.inputs[i].constant;
    return weights.Reshaped({weights.dims()[0] * weights.dims()[1], weights.dims()[2]});
  };
  auto values = [&](size_t i) {
    if (!given(i)) return Tensor();
    const Tensor& small = *request.inputs[i].constant;
    if (small.raw() == nullptr) throw ConstantDropped{};
    request.packs.Check(small);
    return Aligned(small);
  };
  const int64_t bytes = static_cast<int64_t>(RecurrentPackedBytes(options));
  auto packed = request.packs.Make(
      request.inputs[2].id, fmt::format("{} {} {} {}", op->name, name(1), name(3), name(peepholes)),
      bytes, [&](void* to) {
        PackCache::Reader w(request.packs, matrix(1)), r(request.packs, matrix(2));
        const Parallel par{&ThreadPool::Process(), request.threads};
        Tensor part, wide;
        auto read_from = [&](PackCache::Reader& from) {
          return [&](int64_t first, int64_t count) -> const float* {
            part = from.Rows(first, count);
            if (part.dtype() == DType::kFloat32) return part.data<float>();
            if (wide.size() < part.size()) wide = Tensor(DType::kFloat32, {part.size()});
            WidenHalves(part.dtype(), part.raw(), part.size(), wide.data<float>(), par);
            return wide.data<float>();
          };
        };
        const Tensor b = values(3), p = is_lstm ? values(peepholes) : Tensor();
        RecurrentPack(options, read_from(w), read_from(r), b.data<float>(), p.data<float>(), to,
                      par);
      });
  Bound bound;
  bound.packed = 0b10001110;
  bound.scratch_bytes =
      static_cast<int64_t>(RecurrentScratchBytes(options, steps, batch, request.threads));
  const size_t outputs = request.outputs.size();
  const bool lens = given(4), has_h = given(5), has_c = is_lstm && given(6);
  bound.run = [=](const StepArgs& args) {
    RecurrentRun run;
    run.steps = steps;
    run.batch = batch;
    run.x = static_cast<const float*>(args.in[0]);
    if (lens) {
      run.sequence_lens = static_cast<const int32_t*>(args.in[4]);
      for (int64_t i = 0; i < batch; ++i) {
        if (run.sequence_lens[i] < 0 || run.sequence_lens[i] > steps) {
          Fail(ErrorCode::kInvalidArgument, "sequence_lens[{}] is {}, outside [0,{}]", i,
               run.sequence_lens[i], steps);
        }
      }
    }
    if (has_h) run.initial_h = static_cast<const float*>(args.in[5]);
    if (has_c) run.initial_c = static_cast<const float*>(args.in[6]);
    run.y = static_cast<float*>(args.out[0]);
    if (outputs > 1) run.y_h = static_cast<float*>(args.out[1]);
    if (outputs > 2) run.y_c = static_cast<float*>(args.out[2]);
    Recurrent(options, packed.get(), run, args.scratch, args.parallel);
  };
  return bound;
}

constexpr Implementation kList[] = {{"packed steps", BindSteps}};

}  // namespace

std::span<const Implementation> RecurrentList() { return kList; }

}  // namespace sardonyx::cpu
