// DFT and STFT on one core operation: transforms along an axis.

#include <algorithm>

#include "ops/core/reference.h"
#include "ops/lowering.h"
#include "ops/signal/fft.h"

namespace sardonyx {
namespace core {
namespace {

constexpr int64_t kLongest = int64_t{1} << 31;

struct Transform {
  int axis;
  int64_t length;  // 0: not given
  bool inverse, onesided;

  Transform(const Attributes& attributes, int rank)
      : axis(static_cast<int>(attributes.Int("axis"))),
        length(attributes.Int("length")),
        inverse(attributes.Int("inverse") != 0),
        onesided(attributes.Int("onesided") != 0) {
    if (rank < 2) Fail(ErrorCode::kInvalidModel, "dft needs a rank of 2 or more, not {}", rank);
    const int64_t given = attributes.Int("axis");
    if (given < -rank || given >= rank - 1 || given == -1) {
      Fail(ErrorCode::kInvalidModel, "dft: axis {} is outside [{},-2] and [0,{}]", given, -rank,
           rank - 2);
    }
    if (axis < 0) axis += rank;
    if (attributes.Find("length") != nullptr) CheckLength(length);
  }

  static void CheckLength(int64_t length) {
    if (length < 1 || length > kLongest) {
      Fail(ErrorCode::kInvalidModel, "dft: a length of {} is outside [1,2^31]", length);
    }
  }
  bool to_real() const { return inverse && onesided; }
};

void InferDft(InferContext& context) {
  if (!IsFloat(context.dtype(0))) context.Fail("dft takes floats, not {}", Name(context.dtype(0)));
  if (!context.ranked(0)) return context.Set(0, context.dtype(0), {});
  Dims shape = context.shape(0);
  const Transform transform(context.attributes(), context.rank(0));
  const Dim parts = shape.back();
  if (parts.known() && parts.value() != 1 && parts.value() != 2) {
    context.Fail("dft: the last axis of {} is neither 1 (real) nor 2 (complex)",
                 context.Print(shape));
  }
  Dim& size = shape[transform.axis];
  SymbolTable& symbols = context.symbols();
  if (transform.length > 0) {
    size = transform.length;
  } else if (transform.to_real()) {
    size = symbols.Mul(symbols.Add(size, Dim(-1)), Dim(2));
  }
  if (size.known()) Transform::CheckLength(size.value());
  if (transform.onesided && !transform.inverse) {
    size = symbols.Add(symbols.FloorDiv(size, Dim(2)), Dim(1));
  }
  shape.back() = transform.to_real() ? 1 : 2;
  context.Set(0, context.dtype(0), std::move(shape));
}

template <typename T>
void TransformLines(const Transform& transform, const Tensor& x, Tensor& y) {
  using Complex = std::complex<T>;
  const AxisSplit split = SplitAt(x.dims(), transform.axis);
  const int64_t parts = x.dims().back(), out_parts = y.dims().back();
  const int64_t inner = split.inner / parts, out_size = y.dims()[transform.axis];
  const int64_t length = transform.length > 0  ? transform.length
                         : transform.to_real() ? 2 * (split.size - 1)
                                               : split.size;
  const ops::Fourier<T> fourier(length);
  // A real result reads half of the spectrum; the rest follows from it.
  const int64_t read = std::min(split.size, transform.to_real() ? length / 2 + 1 : length);
  const double scale = transform.inverse ? 1 / static_cast<double>(length) : 1;
  const std::vector<double> values = ToDoubles(x);
  std::vector<double> result(y.size());
  std::vector<Complex> line(length), scratch;
  for (int64_t i = 0; i < split.outer * inner; ++i) {
    const int64_t outer = i / inner, at = i % inner;
    for (int64_t j = 0; j < read; ++j) {
      const double* pair = values.data() + ((outer * split.size + j) * inner + at) * parts;
      line[j] = Complex(static_cast<T>(pair[0]), parts == 2 ? static_cast<T>(pair[1]) : T(0));
      // The inverse is the forward transform of the conjugate, conjugated.
      if (transform.inverse) line[j] = std::conj(line[j]);
    }
    std::fill(line.begin() + read, line.end(), Complex());
    if (transform.to_real()) {
      for (int64_t j = 1; j < length - j; ++j) line[length - j] = std::conj(line[j]);
      line[0].imag(0);
      if (length % 2 == 0) line[length / 2].imag(0);
    }
    fourier.Transform(line, scratch);
    for (int64_t k = 0; k < out_size; ++k) {
      double* pair = result.data() + ((outer * out_size + k) * inner + at) * out_parts;
      pair[0] = line[k].real() * scale;
      if (out_parts == 2) pair[1] = line[k].imag() * (transform.inverse ? -scale : scale);
    }
  }
  ConvertElements(DType::kFloat64, result.data(), y.dtype(), y.raw(), y.size(), false);
}

// Complex float32 is transformed in float32, all else in double and rounded once. The standard's
// own cases want it so, within 1e-7 of zero: those of the inverse DFT hold the rounding errors of a
// transform in float32 (NumPy's, whose order of operations Fourier has), those of STFT hold zeros.
void ComputeDft(ComputeContext& context) {
  const Tensor& x = context.input(0);
  Tensor& y = context.Allocate(0);
  if (y.size() == 0) return;
  const Transform transform(context.attributes(), x.rank());
  const bool single = x.dtype() == DType::kFloat32 && x.dims().back() == 2 && !transform.onesided;
  (single ? TransformLines<float> : TransformLines<double>)(transform, x, y);
}

}  // namespace

const CoreOp dft = {.name = "dft", .inputs = "t", .infer = InferDft, .reference = ComputeDft};

}  // namespace core

namespace ops {
namespace {

// The one element of an integer input.
int64_t ScalarInput(const Lowering& op, size_t i, std::string_view name) {
  const std::vector<int64_t> values = op.in(i).ints();
  if (values.size() != 1) op.Fail("input {} is not a scalar", name);
  return values[0];
}

Val Dft(Val x, int64_t axis, int64_t length, bool inverse, bool onesided) {
  Attributes attributes{
      {"axis", axis}, {"inverse", int64_t{inverse}}, {"onesided", int64_t{onesided}}};
  if (length != 0) attributes.Set("length", length);
  return x.builder->Make(core::dft, {x}, attributes);
}

}  // namespace

Outputs LowerDFT(Lowering& op) {
  int64_t axis = op.version() < 20 ? op.Int("axis", 1) : -2;
  if (op.has(2)) axis = ScalarInput(op, 2, "axis");
  int64_t length = 0;
  if (op.has(1)) {
    length = ScalarInput(op, 1, "dft_length");
    if (length < 1) op.Fail("dft_length is {}, less than 1", length);
  }
  return Dft(op.in(0), axis, length, op.Int("inverse") != 0, op.Int("onesided") != 0);
}

// Frames of the signal, `step` apart, times the window, transformed.
Outputs LowerSTFT(Lowering& op) {
  Val x = op.in(0);
  Builder& b = op.builder();
  if (x.rank() == 2) x = Unsqueeze(x, {2});
  if (x.rank() != 3) op.Fail("the signal has rank {}, not 3", x.rank());
  const int64_t step = ScalarInput(op, 1, "frame_step");
  if (step < 1) op.Fail("frame_step is {}, less than 1", step);
  const Val window = op.in(2);
  if (window && window.rank() != 1) op.Fail("the window has rank {}, not 1", window.rank());
  const int64_t length = op.has(3) ? ScalarInput(op, 3, "frame_length")
                         : window  ? window.size(0)
                                   : x.size(1);
  if (length < 1) op.Fail("frame_length is {}, less than 1", length);
  if (window && window.shape()[0].known() && window.size(0) != length) {
    op.Fail("a window of {} for frames of {}", window.size(0), length);
  }
  const Dim signal = x.shape()[1];
  if (signal.known() && signal.value() < length) {
    op.Fail("a signal of {} is shorter than a frame of {}", signal.value(), length);
  }
  const Val room = SizeOf(x, 1) - static_cast<double>(length);
  const Val starts = Positions(room / static_cast<double>(step) + 1.0) * static_cast<double>(step);
  const Val positions = Unsqueeze(starts, {1}) + Positions(b.Ints({length}));
  Val frames = Gather(x, positions, 1);
  // Halves stay wide until the end.
  frames = Widen(frames);
  if (window) frames = frames * Reshape(Widen(window), std::vector<int64_t>{length, 1});
  return Cast(Dft(frames, -2, length, false, op.Int("onesided", 1) != 0), x.dtype());
}

}  // namespace ops
}  // namespace sardonyx
