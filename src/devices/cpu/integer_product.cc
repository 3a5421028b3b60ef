// Products of bytes, with an epilogue that the kernel applies to sums, or else a second sweep.

#include <algorithm>
#include <array>
#include <optional>

#include "base/round.h"
#include "devices/cpu/families.h"
#include "devices/cpu/int8_rescale.h"
#include "kernels/conv_int8.h"
#include "kernels/conv_int8_winograd.h"
#include "kernels/elementwise.h"

namespace sardonyx::cpu {
namespace {

constexpr size_t kOwnInputs = 4;

int64_t AlignUp(size_t bytes) { return static_cast<int64_t>(AlignBytes(bytes)); }

// One product, or several of the same shape, each with operands some elements further.
struct Problem {
  ConvShape shape;
  Int8Weights weights;  // without data
  std::string layout;   // of the packed weights
  struct Item {
    int64_t x = 0, w = 0, y = 0;
  };
  std::vector<Item> items{1};
  int weight_axis = 0;  // of w, along which output channels lie
};

// What becomes of the sums.
class SumEpilogue {
 public:
  SumEpilogue(const BindRequest& request, int64_t columns);

  // True if sums go through scratch first.
  bool sweeps() const { return static_cast<bool>(sweep_); }
  bool plain() const { return expression_ == nullptr; }
  // The input that is added with the sums in registers, -1 for none.
  int residual() const {
    return known_.residual < 0 ? -1 : static_cast<int>(kOwnInputs) + known_.residual;
  }
  // The rescaling with the operands of a run; its columns are known or lie in `scratch`.
  Rescaling At(const StepArgs& args, void* scratch) const;
  size_t scratch_bytes() const { return scratch_floats_ * sizeof(float); }
  void Sweep(const StepArgs& args, const void* sums) const;

 private:
  std::shared_ptr<const Expression> expression_;
  std::vector<RescaleOperand> operands_;
  int64_t columns_;
  std::vector<float> columns_of_known_;
  Rescaling known_;  // if all operands but the residual are constant
  bool is_known_ = true;
  size_t scratch_floats_ = 0;
  ElementwiseKernel sweep_;
};

RescaleOperand::Kind KindOf(const Operand& operand, const Operand& y, int64_t columns, bool* fits) {
  using Kind = RescaleOperand::Kind;
  if (operand.size() == 1) return Kind::kScalar;
  if (operand.dims == y.dims) return Kind::kResidual;
  *fits = *fits && operand.size() == columns && operand.dims.back() == columns;
  return Kind::kColumns;
}

SumEpilogue::SumEpilogue(const BindRequest& request, int64_t columns) : columns_(columns) {
  const Expression* expression = request.node.attributes.Expr("epilogue");
  if (expression == nullptr) return;
  expression_ = std::make_shared<const Expression>(*expression);
  const Operand& y = request.outputs[0];
  bool fits = true;
  std::vector<Tensor> constants;
  std::vector<const void*> data;
  for (size_t i = kOwnInputs; i < request.inputs.size(); ++i) {
    const Operand& operand = request.inputs[i];
    const RescaleOperand own{KindOf(operand, y, columns, &fits), operand.dtype};
    const void*& known = data.emplace_back(nullptr);
    if (own.kind != RescaleOperand::Kind::kResidual) {
      if (operand.constant != nullptr && operand.constant->raw() != nullptr) {
        known = constants.emplace_back(Aligned(*operand.constant)).raw();
      }
      is_known_ = is_known_ && known != nullptr;
    }
    operands_.push_back(own);
  }
  if (fits) {
    // Where operands are not known yet, only the plain form is the same for all their values.
    std::vector<float> memory(RescaleFloats(*expression, columns));
    const auto found = AnalyseRescale(*expression, columns, operands_, data.data(), memory);
    if (found && (is_known_ || (!found->rescale.rounds && y.dtype == DType::kFloat32))) {
      known_ = *found;
      scratch_floats_ = found->used;
      if (is_known_) {
        const auto one = static_cast<size_t>(columns + kInt8ColumnSlack);
        columns_of_known_.assign(known_.rescale.scale, known_.rescale.scale + one);
        columns_of_known_.insert(columns_of_known_.end(), known_.rescale.offset,
                                 known_.rescale.offset + one);
        known_.rescale.scale = columns_of_known_.data();
        known_.rescale.offset = columns_of_known_.data() + one;
        scratch_floats_ = 0;
      }
      return;
    }
  }
  std::vector<int64_t> strides = BroadcastStrides(y.dims, y.dims);
  for (size_t i = kOwnInputs; i < request.inputs.size(); ++i) {
    const std::vector<int64_t> own = BroadcastStrides(request.inputs[i], y.dims);
    strides.insert(strides.end(), own.begin(), own.end());
  }
  std::string why;
  sweep_ = PrepareElementwise(*expression, y.dims, strides, &why, y.row_stride);
  if (!sweep_) Fail(ErrorCode::kInternal, "an epilogue cannot run: {}", why);
}

Rescaling SumEpilogue::At(const StepArgs& args, void* scratch) const {
  if (is_known_) return known_;
  return *AnalyseRescale(*expression_, columns_, operands_, args.in + kOwnInputs,
                         {static_cast<float*>(scratch), scratch_floats_});
}

void SumEpilogue::Sweep(const StepArgs& args, const void* sums) const {
  std::array<const void*, kMostRegisters> in;
  in[0] = sums;
  std::copy_n(args.in + kOwnInputs, operands_.size(), in.begin() + 1);
  RunElementwise(sweep_, in.data(), args.out[0], args.parallel);
}

int32_t ReadByte(const void* at, bool is_signed) {
  return is_signed ? *static_cast<const int8_t*>(at) : *static_cast<const uint8_t*>(at);
}

// Products of a problem, each followed by what becomes of its sums.
struct BoundProblem {
  Problem problem;
  bool x_signed, has_x_zero;
  int64_t w_zero_count;
  bool winograd;                       // else the direct sum
  int64_t residual_stride;             // elements from one row of the residual to the next
  std::shared_ptr<const void> packed;  // null: w is packed in every run
  std::shared_ptr<const SumEpilogue> epilogue;
  // In the scratch, behind what the kernel wants.
  int64_t packed_at, rescaling_at, sums_at;

  Int8ConvArgs Factors(const StepArgs& args, const Problem::Item& item) const;
  void Run(const StepArgs& args) const;
};

Int8ConvArgs BoundProblem::Factors(const StepArgs& args, const Problem::Item& item) const {
  Int8ConvArgs conv;
  conv.x = static_cast<const char*>(args.in[0]) + item.x;
  conv.x_signed = x_signed;
  if (has_x_zero) conv.x_zero = ReadByte(args.in[2], x_signed);
  conv.packed = packed.get();
  if (packed == nullptr) {
    char* const to = static_cast<char*>(args.scratch) + packed_at;
    Int8Weights weights = problem.weights;
    weights.data = static_cast<const char*>(args.in[1]) + item.w;
    ConvInt8Pack(problem.shape, weights, to, args.parallel);
    conv.packed = to;
  }
  conv.w_signed = problem.weights.is_signed;
  conv.w_zero_count = w_zero_count;
  if (w_zero_count > 0) conv.w_zeros = args.in[3];
  return conv;
}

void BoundProblem::Run(const StepArgs& args) const {
  char* const sums = static_cast<char*>(args.scratch) + sums_at;
  const bool rescales = !epilogue->plain() && !epilogue->sweeps();
  Rescaling rescaling;
  if (rescales) rescaling = epilogue->At(args, static_cast<char*>(args.scratch) + rescaling_at);
  const Int8Rescale& rescale = rescaling.rescale;
  for (const Problem::Item& item : problem.items) {
    Int8ConvArgs conv = Factors(args, item);
    char* y = epilogue->sweeps() ? sums : static_cast<char*>(args.out[0]);
    if (!rescales) {
      conv.y = y + item.y * 4;
    } else {
      conv.rescale = &rescale;
      conv.y = y + item.y * (rescale.type == DType::kFloat32 ? 4 : 1);
      if (rescaling.residual >= 0) {
        const bool real = rescale.residual_type == DType::kFloat32;
        const size_t input = kOwnInputs + static_cast<size_t>(rescaling.residual);
        conv.residual = static_cast<const char*>(args.in[input]) + item.y * (real ? 4 : 1);
        conv.residual_stride = residual_stride;
      }
    }
    const auto run = winograd ? conv_int8_winograd::Run : ConvInt8;
    run(problem.shape, conv, args.scratch, args.parallel);
  }
  if (epilogue->sweeps()) epilogue->Sweep(args, sums);
}

// Why the kernel cannot take the zero points; empty if it can.
std::string ZeroPointsRefusal(const BindRequest& request, const Problem& problem) {
  if (request.has(2) && request.inputs[2].size() != 1) return "several zero points of the input";
  if (!request.has(3) || request.inputs[3].size() == 1) return "";
  const Operand& zero = request.inputs[3];
  const int from_end = request.inputs[1].rank() - problem.weight_axis;
  const bool along = zero.size() == problem.shape.cout && zero.rank() >= from_end &&
                     zero.dims[zero.rank() - from_end] == problem.shape.cout;
  return along ? "" : "zero points of weights not one a column";
}

std::shared_ptr<const void> PackConstant(const BindRequest& request, const Problem& problem) {
  const Operand& w = request.inputs[1];
  if (w.constant == nullptr || problem.items.size() != 1) return nullptr;
  return request.packs.Get(
      *w.constant, w.id, problem.layout, static_cast<int64_t>(ConvInt8PackedBytes(problem.shape)),
      [&](const Tensor& source, void* to) {
        Int8Weights weights = problem.weights;
        weights.data = source.raw();
        ConvInt8Pack(problem.shape, weights, to, Parallel{&ThreadPool::Process(), request.threads});
      });
}

// `winograd`: packed weights, if it is by Winograd's algorithm.
BindResult BindProblem(const BindRequest& request, Problem problem,
                       std::shared_ptr<const void> winograd = nullptr) {
  if (std::string why = ZeroPointsRefusal(request, problem); !why.empty()) return why;
  problem.weights.is_signed = request.inputs[1].dtype == DType::kInt8;
  const ConvShape& shape = problem.shape;
  const bool is_winograd = winograd != nullptr;
  const size_t own = is_winograd ? conv_int8_winograd::ScratchBytes(shape, request.threads)
                                 : ConvInt8ScratchBytes(shape, request.threads);
  BoundProblem step{.problem = problem,
                    .x_signed = request.inputs[0].dtype == DType::kInt8,
                    .has_x_zero = request.has(2),
                    .w_zero_count = request.has(3) ? request.inputs[3].size() : 0,
                    .winograd = is_winograd,
                    .residual_stride = 0,
                    .packed = is_winograd ? std::move(winograd) : PackConstant(request, problem),
                    .epilogue = std::make_shared<const SumEpilogue>(request, shape.cout),
                    .packed_at = AlignUp(own),
                    .rescaling_at = 0,
                    .sums_at = 0};
  const int residual = step.epilogue->residual();
  if (residual >= 0) step.residual_stride = request.inputs[residual].RowStride();
  if (step.epilogue->sweeps()) step.problem.shape.y_stride = shape.cout;  // of the sums
  step.rescaling_at =
      step.packed_at + (step.packed == nullptr ? AlignUp(ConvInt8PackedBytes(shape)) : 0);
  step.sums_at = step.rescaling_at + AlignUp(step.epilogue->scratch_bytes());
  Bound bound;
  if (step.packed != nullptr) bound.packed = 1u << 1;
  if (residual >= 0) bound.inplace = 1u << residual;
  // Several products find theirs by counting elements.
  constexpr uint32_t kWeights = 1u << 1, kZeros = 3u << 2;
  bound.apart_output = problem.items.size() == 1;
  if (bound.apart_output) bound.apart = ~(kWeights | kZeros);
  bound.scratch_bytes = step.sums_at;
  if (step.epilogue->sweeps()) bound.scratch_bytes += AlignBytes(request.outputs[0].size() * 4);
  bound.run = [step = std::move(step)](const StepArgs& args) { step.Run(args); };
  return bound;
}

// The zero point that all weights have, if that is known.
std::optional<int32_t> ZeroOfWeights(const BindRequest& request) {
  if (!request.has(3)) return 0;
  const Operand& zero = request.inputs[3];
  if (zero.constant == nullptr || zero.size() == 0) return std::nullopt;
  if (zero.constant->raw() == nullptr) throw ConstantDropped{};
  const auto* const bytes = static_cast<const uint8_t*>(zero.constant->raw());
  if (std::any_of(bytes, bytes + zero.size(), [&](uint8_t b) { return b != bytes[0]; })) {
    return std::nullopt;
  }
  return ReadByte(bytes, zero.dtype == DType::kInt8);
}

BindResult BindWinograd(const BindRequest& request) {
  namespace winograd = conv_int8_winograd;
  Problem problem;
  const ConvShape& shape = problem.shape;
  if (std::string why = ConvShapeOf(request, false, &problem.shape); !why.empty()) return why;
  if (std::string_view why = winograd::Refusal(shape); !why.empty()) return std::string(why);
  if (!request.winograd) return "Winograd is turned off";
  const Operand& w = request.inputs[1];
  if (w.constant == nullptr || w.id.base == 0) return "weights are not constant";
  const std::optional<int32_t> zero = ZeroOfWeights(request);
  if (!zero) return "weights have several zero points";
  if (!winograd::IsFaster(shape) && request.wanted != Name(ConvAlgorithm::kWinograd4)) {
    return "the direct sum is expected to be faster";
  }
  const auto weights_at = [&, is_signed = w.dtype == DType::kInt8](const Tensor& source) {
    return winograd::Weights{source.raw(), is_signed, *zero};
  };
  const std::string layout = fmt::format("{}>{} zero {}", shape.cin, shape.cout, *zero);
  const auto exact = request.packs.Get(*w.constant, w.id, "int8 winograd4 is exact " + layout, 1,
                                       [&](const Tensor& source, void* to) {
                                         *static_cast<bool*>(to) =
                                             winograd::IsExact(shape, weights_at(source));
                                       });
  if (!*static_cast<const bool*>(exact.get())) return "sums may be too large to be exact";
  const auto bytes = static_cast<int64_t>(winograd::PackedBytes(shape));
  return BindProblem(request, problem,
                     request.packs.Get(*w.constant, w.id, "int8 winograd4 " + layout, bytes,
                                       [&](const Tensor& source, void* to) {
                                         winograd::Pack(
                                             shape, weights_at(source), to,
                                             Parallel{&ThreadPool::Process(), request.threads});
                                       }));
}

BindResult BindConv(const BindRequest& request) {
  Problem problem;
  ConvShape& shape = problem.shape;
  if (std::string why = ConvShapeOf(request, false, &shape); !why.empty()) return why;
  const int64_t taps = shape.KernelSize(), channels = shape.cin / shape.groups;
  problem.weights.n_stride = channels * taps;
  problem.weights.c_stride = taps;
  problem.weights.t_stride = 1;
  problem.layout =
      fmt::format("int8 conv {} taps {}>{} g{}", taps, shape.cin, shape.cout, shape.groups);
  return BindProblem(request, std::move(problem));
}

BindResult BindMatMul(const BindRequest& request) {
  const Operand &a = request.inputs[0], &b = request.inputs[1], &y = request.outputs[0];
  if (request.node.attributes.Int("trans_a") != 0) return Refuse("A is transposed");
  if (y.size() == 0 || a.size() == 0) return Refuse("no elements");
  const bool transposed = request.node.attributes.Int("trans_b") != 0;
  Problem problem;
  ConvShape& shape = problem.shape;
  const int64_t m = a.dims.end()[-2], k = a.dims.back(), n = y.dims.back();
  shape.cin = k;
  shape.cout = n;
  shape.x_stride = a.RowStride();
  shape.y_stride = y.RowStride();
  problem.weights.n_stride = transposed ? k : 1;
  problem.weights.c_stride = transposed ? 1 : n;
  problem.weight_axis = b.rank() - (transposed ? 2 : 1);
  problem.layout = fmt::format("int8 matmul {}x{}{}", k, n, transposed ? "t" : "");
  shape.in[2] = shape.out[2] = m;
  if (b.size() == k * n) {
    shape.in[2] = shape.out[2] = a.size() / k;
    return BindProblem(request, std::move(problem));
  }
  // A product for each matrix of B.
  const std::span<const int64_t> batch(y.dims.data(), y.dims.size() - 2);
  const auto strides = [&](const Operand& operand) {
    return BroadcastStrides({operand.dims.begin(), operand.dims.end() - 2}, batch);
  };
  const std::vector<int64_t> of_a = strides(a), of_b = strides(b);
  problem.items.clear();
  for (int64_t item = 0; item < y.size() / (m * n); ++item) {
    int64_t rest = item, at_a = 0, at_b = 0;
    for (size_t i = batch.size(); i-- > 0; rest /= batch[i]) {
      at_a += rest % batch[i] * of_a[i];
      at_b += rest % batch[i] * of_b[i];
    }
    problem.items.push_back({at_a * m * k, at_b * k * n, item * m * n});
  }
  return BindProblem(request, std::move(problem));
}

constexpr Implementation kMatMul[] = {{"gemm", BindMatMul}};
constexpr Implementation kConv[] = {{Name(ConvAlgorithm::kWinograd4), BindWinograd},
                                    {"gemm", BindConv}};

}  // namespace

std::span<const Implementation> IntegerMatMulList() { return kMatMul; }
std::span<const Implementation> IntegerConvList() { return kConv; }

}  // namespace sardonyx::cpu
