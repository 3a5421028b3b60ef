#include <optional>
#include <string>

#include "devices/cpu/families.h"
#include "kernels/normalization.h"

namespace sardonyx::cpu {
namespace {

// How far each number of a scale or bias reaches, as RowNorm has it.
struct Runs {
  int64_t run = 1, runs = 0;
  bool operator==(const Runs&) const = default;
};

// What the node says, as rows of n elements.
struct Rows {
  int64_t rows = 1, n = 1;
  Runs runs;  // of scale and bias
  bool rms = false;
  double epsilon = 0;

  explicit Rows(const BindRequest& request) {
    const std::vector<int64_t>& dims = request.inputs[0].dims;
    const Attributes& attributes = request.node.attributes;
    int64_t axis = attributes.Int("axis", -1);
    if (axis < 0) axis += request.inputs[0].rank();
    for (int64_t i = 0; i < axis; ++i) rows *= dims[i];
    for (int64_t i = axis; i < request.inputs[0].rank(); ++i) n *= dims[i];
    rms = attributes.Int("rms") != 0;
    epsilon = attributes.Float("epsilon", 1e-5);
  }

  template <typename T>
  RowNorm<T> For(const StepArgs& args, bool scale, bool bias, size_t outputs) const {
    auto in = [&](size_t i) { return static_cast<const T*>(args.in[i]); };
    auto out = [&](size_t i) { return i < outputs ? static_cast<T*>(args.out[i]) : nullptr; };
    return {.x = in(0),
            .scale = scale ? in(1) : nullptr,
            .bias = bias ? in(2) : nullptr,
            .y = out(0),
            .rows = rows,
            .n = n,
            .epsilon = static_cast<T>(epsilon),
            .rms = rms,
            .mean = out(1),
            .inv_std_dev = out(2),
            .run = runs.run,
            .runs = runs.runs};
  }
};

// Those of a scale or bias that broadcasts to x, in rows of n elements; none if the kernels have no
// such.
std::optional<Runs> RunsOf(const std::vector<int64_t>& parameter, const std::vector<int64_t>& x,
                           int64_t n) {
  const size_t lacking = x.size() - parameter.size();
  const auto size = [&](size_t i) { return i < lacking ? 1 : parameter[i - lacking]; };
  Runs found{1, 1};
  size_t d = x.size();
  for (; d > 0 && size(d - 1) == 1 && found.run < n; --d) found.run *= x[d - 1];
  for (; d > 0 && size(d - 1) == x[d - 1]; --d) found.runs *= x[d - 1];
  for (; d > 0; --d) {
    if (size(d - 1) != 1) return std::nullopt;
  }
  const bool fits = n % found.run == 0 && (found.run > 1 || found.runs % n == 0);
  return fits ? std::optional(found) : std::nullopt;
}

// Takes in scale and bias; why these, or the statistics, are not what a kernel of that type takes,
// if so.
std::optional<std::string> WhyNot(const BindRequest& request, DType type, Rows* rows) {
  const std::vector<int64_t>& x = request.inputs[0].dims;
  for (size_t i = 1; i < request.inputs.size(); ++i) {
    const Operand& parameter = request.inputs[i];
    if (!parameter.present()) continue;
    const auto runs = RunsOf(parameter.dims, x, rows->n);
    const bool differs = rows->runs != Runs() && runs != rows->runs;
    if (parameter.dtype != type || !runs || differs) {
      return fmt::format("scale or bias is {}{}, not {} by runs of {}", Name(parameter.dtype),
                         PrintDims(parameter.dims), Name(type), PrintDims(x));
    }
    rows->runs = *runs;
  }
  for (size_t i = 1; i < request.outputs.size(); ++i) {
    const DType given = request.outputs[i].dtype;
    if (given != type) return fmt::format("an output is {}", Name(given));
  }
  return std::nullopt;
}

BindResult BindRows(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  if (x.dtype != DType::kFloat32 && x.dtype != DType::kFloat64) {
    return Refuse("element type is {}", Name(x.dtype));
  }
  if (request.outputs[0].dtype != x.dtype) {
    return Refuse("an output is {}", Name(request.outputs[0].dtype));
  }
  if (x.size() == 0) return Refuse("no elements");
  Rows rows(request);
  if (const auto why = WhyNot(request, x.dtype, &rows)) return *why;
  Bound bound;
  bound.inplace = 1;
  const auto with = [&](auto tag) -> BindResult {
    using T = typename decltype(tag)::type;
    bound.run = [rows, scale = request.has(1), bias = request.has(2),
                 outputs = request.outputs.size()](const StepArgs& args) {
      NormalizeRows(rows.For<T>(args, scale, bias, outputs), args.parallel);
    };
    return std::move(bound);
  };
  return x.dtype == DType::kFloat32 ? with(TypeTag<float>{}) : with(TypeTag<double>{});
}

bool IsHalfOrFloat(DType type) { return IsHalf(type) || type == DType::kFloat32; }

BindResult BindHalfRows(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const DType y_type = request.outputs[0].dtype;
  if (!IsHalfOrFloat(x.dtype) || !IsHalfOrFloat(y_type)) {
    return Refuse("element types are {} and {}", Name(x.dtype), Name(y_type));
  }
  if (x.size() == 0) return Refuse("no elements");
  Rows rows(request);
  if (const auto why = WhyNot(request, DType::kFloat32, &rows)) return *why;
  Bound bound;
  bound.inplace = x.dtype == y_type ? 1 : 0;
  bound.scratch_bytes = static_cast<int64_t>(HalfRowsScratchBytes(rows.n, request.threads));
  bound.run = [rows, x_type = x.dtype, y_type, scale = request.has(1), bias = request.has(2),
               outputs = request.outputs.size()](const StepArgs& args) {
    NormalizeHalfRows(rows.For<float>(args, scale, bias, outputs),
                      {.x_type = x_type, .y_type = y_type, .x = args.in[0], .y = args.out[0]},
                      args.scratch, args.parallel);
  };
  return bound;
}

constexpr Implementation kList[] = {{"rows", BindRows}, {"rows of halves", BindHalfRows}};

}  // namespace

std::span<const Implementation> LayerNormList() { return kList; }

}  // namespace sardonyx::cpu
