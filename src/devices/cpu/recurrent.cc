#include "kernels/recurrent.h"

#include <algorithm>
#include <cctype>

#include "base/round.h"
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

constexpr size_t kWeights = 1, kRecurrence = 2, kBias = 3, kPeepholes = 7, kXScale = 8, kXZero = 9,
                 kWScale = 10, kWZero = 11, kRScale = 12, kRZero = 13;
// All that is packed.
constexpr size_t kConstants[] = {kWeights, kRecurrence, kBias,   kPeepholes,
                                 kWScale,  kWZero,      kRScale, kRZero};

bool IsLstm(const BindRequest& request) { return request.node.op == &core::lstm; }
bool Given(const BindRequest& request, size_t i) {
  return (i <= 5 || IsLstm(request)) && request.has(i);
}

// Why the kernel cannot do what the attributes say; empty if it can.
std::string ReadOptions(const BindRequest& request, RecurrentOptions* options) {
  const Attributes& attributes = request.node.attributes;
  if (attributes.Int("layout") != 0) return "layout is batch first";
  const RecurrentCell cell = IsLstm(request)                 ? RecurrentCell::kLstm
                             : request.node.op == &core::gru ? RecurrentCell::kGru
                                                             : RecurrentCell::kRnn;
  const std::string_view direction = attributes.String("direction", "forward");
  const RecurrentDirection way = direction == "forward"   ? RecurrentDirection::kForward
                                 : direction == "reverse" ? RecurrentDirection::kReverse
                                                          : RecurrentDirection::kBidirectional;
  *options = DefaultRecurrentOptions(cell, way, request.inputs[0].dims[2],
                                     request.inputs[kRecurrence].dims[2]);
  options->has_clip = attributes.Find("clip") != nullptr;
  options->clip = static_cast<float>(attributes.Float("clip"));
  options->input_forget = attributes.Int("input_forget") != 0;
  options->linear_before_reset = attributes.Int("linear_before_reset") != 0;
  const int directions = way == RecurrentDirection::kBidirectional ? 2 : 1;
  const int per_direction = IsLstm(request) ? 3 : cell == RecurrentCell::kGru ? 2 : 1;
  return SetActivations(attributes, directions, per_direction, options);
}

bool IsOfBytes(const BindRequest& request) { return IsInteger(request.inputs[0].dtype); }

// Whether weights are packed once; else in each run.
bool AreConstant(const BindRequest& request) {
  return std::all_of(std::begin(kConstants), std::end(kConstants), [&](size_t i) {
    return !Given(request, i) || request.inputs[i].constant != nullptr;
  });
}

// Why weights cannot be packed; empty if they can.
std::string WeightsRefusal(const BindRequest& request) {
  const bool are_constant = AreConstant(request);
  for (size_t i : {kWeights, kRecurrence, kBias, kPeepholes}) {
    if (!Given(request, i)) continue;
    const DType dtype = request.inputs[i].dtype;
    const bool is_matrix = i < kBias;
    const bool fits =
        is_matrix && IsOfBytes(request)
            ? dtype == request.inputs[kWeights].dtype
            : dtype == DType::kFloat32 || (is_matrix && are_constant && IsHalf(dtype));
    if (!fits) return fmt::format("weights are {}", Name(dtype));
  }
  return "";
}

std::shared_ptr<const void> PackWeights(const BindRequest& request,
                                        const RecurrentOptions& options) {
  PackCache::Ids ids{request.inputs[kRecurrence].id};
  std::string given;
  for (const size_t i : kConstants) {
    given += Given(request, i) ? '+' : '-';
    if (Given(request, i) && i != kRecurrence) ids.push_back(request.inputs[i].id);
  }
  // W and R are read a part at a time, B and P are small.
  const auto matrix = [&](size_t i) {
    const Tensor& weights = *request.inputs[i].constant;
    return weights.Reshaped({weights.dims()[0] * weights.dims()[1], weights.dims()[2]});
  };
  const auto values = [&](size_t i) {
    if (!Given(request, i)) return Tensor();
    const Tensor& small = *request.inputs[i].constant;
    if (small.raw() == nullptr) throw ConstantDropped{};
    request.packs.Check(small);
    return Aligned(small);
  };
  return request.packs.Make(
      ids,
      fmt::format("{} {} {}{}", request.node.op->name, given, Name(options.r_type),
                  options.linear_before_reset ? " linear before reset" : ""),
      static_cast<int64_t>(RecurrentPackedBytes(options)), [&](void* to) {
        PackCache::Reader w(request.packs, matrix(kWeights)), r(request.packs, matrix(kRecurrence));
        const Parallel par{&ThreadPool::Process(), request.threads};
        Tensor part, wide;
        const auto read_from = [&](PackCache::Reader& from, DType as) {
          return [&from, as, &part, &wide, &par](int64_t first, int64_t count) -> const void* {
            part = from.Rows(first, count);
            if (part.dtype() == as) return part.raw();
            if (wide.size() < part.size()) wide = Tensor(DType::kFloat32, {part.size()});
            WidenHalves(part.dtype(), part.raw(), part.size(), wide.data<float>(), par);
            return wide.data<float>();
          };
        };
        const Tensor b = values(kBias), p = values(kPeepholes), w_scales = values(kWScale),
                     w_zeros = values(kWZero), r_scales = values(kRScale), r_zeros = values(kRZero);
        RecurrentPack(options,
                      {.w = read_from(w, IsOfBytes(request) ? options.r_type : DType::kFloat32),
                       .r = read_from(r, options.r_type),
                       .b = b.data<float>(),
                       .peepholes = p.data<float>(),
                       .w_scales = w_scales.data<float>(),
                       .r_scales = r_scales.data<float>(),
                       .w_zeros = static_cast<const uint8_t*>(w_zeros.raw()),
                       .r_zeros = static_cast<const uint8_t*>(r_zeros.raw())},
                      to, par);
      });
}

// As above, of what is given to a run.
void PackGiven(const RecurrentOptions& options, const StepArgs& args,
               const std::array<bool, kRZero + 1>& given, void* to) {
  struct Rows {
    const char* first;
    int64_t bytes;
  };
  const auto matrix = [&](size_t i, DType type, int64_t columns) {
    return Rows{static_cast<const char*>(args.in[i]), ByteSize(type, columns)};
  };
  const Rows w = matrix(kWeights, IsInteger(options.r_type) ? options.r_type : DType::kFloat32,
                        options.input_size),
             r = matrix(kRecurrence, options.r_type, options.hidden_size);
  const auto read_from = [](const Rows& rows) {
    return
        [&rows](int64_t first, int64_t) -> const void* { return rows.first + first * rows.bytes; };
  };
  const auto values = [&](size_t i) { return given[i] ? args.in[i] : nullptr; };
  const auto floats = [&](size_t i) { return static_cast<const float*>(values(i)); };
  const auto bytes = [&](size_t i) { return static_cast<const uint8_t*>(values(i)); };
  RecurrentPack(options,
                {.w = read_from(w),
                 .r = read_from(r),
                 .b = floats(kBias),
                 .peepholes = floats(kPeepholes),
                 .w_scales = floats(kWScale),
                 .r_scales = floats(kRScale),
                 .w_zeros = bytes(kWZero),
                 .r_zeros = bytes(kRZero)},
                to, args.parallel);
}

// Whether states stay small whatever is given: of others, rounding grows from step to step, and
// what weights are not known to be trained is left to the reference, which rounds less.
bool StaysSmall(const RecurrentOptions& options) {
  constexpr Kind kSmall[] = {Kind::kSigmoid,     Kind::kTanh,     Kind::kRelu,
                             Kind::kHardSigmoid, Kind::kSoftsign, Kind::kScaledTanh};
  return std::ranges::all_of(options.activations, [&](const auto& of_direction) {
    return std::ranges::all_of(of_direction, [&](const RecurrentActivation& activation) {
      return std::ranges::find(kSmall, activation.kind) != std::end(kSmall);
    });
  });
}

void CheckLengths(const int32_t* lengths, int64_t batch, int64_t steps) {
  for (int64_t i = 0; i < batch; ++i) {
    if (lengths[i] < 0 || lengths[i] > steps) {
      Fail(ErrorCode::kInvalidArgument, "sequence_lens[{}] is {}, outside [0,{}]", i, lengths[i],
           steps);
    }
  }
}

BindResult BindSteps(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  if (x.dtype != DType::kFloat32 && x.dtype != DType::kUInt8) {
    return Refuse("element type is {}", Name(x.dtype));
  }
  RecurrentOptions options;
  if (std::string why = ReadOptions(request, &options); !why.empty()) return why;
  if (std::string why = WeightsRefusal(request); !why.empty()) return why;
  if (!AreConstant(request) && !StaysSmall(options)) {
    return Refuse("weights are not constant, and states may grow");
  }
  if (x.size() == 0) return Refuse("no elements");
  const int64_t steps = x.dims[0], batch = x.dims[1];
  const size_t outputs = request.outputs.size();
  const bool lens = request.has(4), has_h = request.has(5), has_c = Given(request, 6);
  if (request.inputs[kRecurrence].dtype == DType::kFloat16 && RecurrentKeepsHalves(batch)) {
    options.r_type = DType::kFloat16;
  }
  const bool of_bytes = IsOfBytes(request), has_x_zero = Given(request, kXZero);
  if (of_bytes) options.r_type = request.inputs[kRecurrence].dtype;
  Bound bound;
  const auto own = static_cast<int64_t>(
      AlignBytes(RecurrentScratchBytes(options, steps, batch, request.threads)));
  bound.scratch_bytes = own;
  std::shared_ptr<const void> constants;
  std::array<bool, kRZero + 1> given = {};
  for (size_t i : kConstants) given[i] = Given(request, i);
  if (AreConstant(request)) {
    constants = PackWeights(request, options);
    for (size_t i : kConstants) bound.packed |= 1u << i;
  } else {
    bound.scratch_bytes += static_cast<int64_t>(RecurrentPackedBytes(options));
  }
  bound.run = [=](const StepArgs& args) {
    const void* packed = constants.get();
    if (packed == nullptr) {
      void* const to = static_cast<char*>(args.scratch) + own;
      PackGiven(options, args, given, to);
      packed = to;
    }
    RecurrentRun run;
    run.steps = steps;
    run.batch = batch;
    run.x = args.in[0];
    if (of_bytes) run.x_scale = *static_cast<const float*>(args.in[kXScale]);
    if (has_x_zero) run.x_zero = *static_cast<const uint8_t*>(args.in[kXZero]);
    if (lens) {
      run.sequence_lens = static_cast<const int32_t*>(args.in[4]);
      CheckLengths(run.sequence_lens, batch, steps);
    }
    if (has_h) run.initial_h = static_cast<const float*>(args.in[5]);
    if (has_c) run.initial_c = static_cast<const float*>(args.in[6]);
    run.y = static_cast<float*>(args.out[0]);
    if (outputs > 1) run.y_h = static_cast<float*>(args.out[1]);
    if (outputs > 2) run.y_c = static_cast<float*>(args.out[2]);
    Recurrent(options, packed, run, args.scratch, args.parallel);
  };
  return bound;
}

constexpr Implementation kList[] = {{"packed steps", BindSteps}};

}  // namespace

std::span<const Implementation> RecurrentList() { return kList; }

}  // namespace sardonyx::cpu
