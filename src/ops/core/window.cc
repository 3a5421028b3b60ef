#include "ops/core/window.h"

#include <algorithm>

#include "ir/tensor.h"

namespace sardonyx::core {
namespace {

template <typename... Args>
[[noreturn]] void Invalid(fmt::format_string<Args...> text, Args&&... args) {
  Fail(ErrorCode::kInvalidModel, text, std::forward<Args>(args)...);
}

enum class AutoPad { kNone, kSameUpper, kSameLower, kValid };

AutoPad AutoPadOf(const Attributes& attributes) {
  const std::string_view name = attributes.String("auto_pad", "NOTSET");
  if (name == "NOTSET") return AutoPad::kNone;
  if (name == "SAME_UPPER") return AutoPad::kSameUpper;
  if (name == "SAME_LOWER") return AutoPad::kSameLower;
  if (name == "VALID") return AutoPad::kValid;
  Invalid("auto_pad '{}' is none of NOTSET, SAME_UPPER, SAME_LOWER, VALID", name);
}

bool IsSame(AutoPad auto_pad) {
  return auto_pad == AutoPad::kSameUpper || auto_pad == AutoPad::kSameLower;
}

// An attribute with one number an axis, or the default for all.
std::vector<int64_t> PerAxis(const Attributes& attributes, std::string_view name, size_t count,
                             int64_t otherwise, int64_t least, int64_t most) {
  std::vector<int64_t> values = attributes.Ints(name);
  if (values.empty()) values.assign(count, otherwise);
  if (values.size() != count) {
    Invalid("attribute {} has {} numbers, but {} are needed", name, values.size(), count);
  }
  for (int64_t value : values) {
    if (value < least || value > most) {
      Invalid("attribute {} {}: {} is outside [{},{}]", name, PrintDims(values), value, least,
              most);
    }
  }
  return values;
}

// Bounds that keep all arithmetic on sizes far from overflow.
constexpr int64_t kMost = int64_t{1} << 31;

// All but what depends on the input's size; pads as given.
Window ReadAttributes(const Attributes& attributes, std::span<const int64_t> kernel) {
  Window window;
  const size_t count = kernel.size();
  window.kernel.assign(kernel.begin(), kernel.end());
  for (int64_t size : kernel) {
    if (size < 1 || size > kMost)
      Invalid("a kernel {} has a size outside [1,2^31]", PrintDims(window.kernel));
  }
  window.strides = PerAxis(attributes, "strides", count, 1, 1, kMost);
  window.dilations = PerAxis(attributes, "dilations", count, 1, 1, kMost);
  const bool explicit_pads = AutoPadOf(attributes) == AutoPad::kNone;
  const std::vector<int64_t> pads = explicit_pads
                                        ? PerAxis(attributes, "pads", 2 * count, 0, -kMost, kMost)
                                        : std::vector<int64_t>(2 * count, 0);
  window.pads_begin.assign(pads.begin(), pads.begin() + count);
  window.pads_end.assign(pads.begin() + count, pads.end());
  return window;
}

int64_t Extent(const Window& window, size_t axis) {
  return (window.kernel[axis] - 1) * window.dilations[axis] + 1;
}

// Splits padding between the sides; an odd one more goes where auto_pad says.
void SplitPadding(AutoPad auto_pad, int64_t total, int64_t* begin, int64_t* end) {
  const int64_t less = total / 2, more = total - less;
  *begin = auto_pad == AutoPad::kSameUpper ? less : more;
  *end = total - *begin;
}

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

Window ResolveWindow(const Attributes& attributes, std::span<const int64_t> spatial,
                     std::span<const int64_t> kernel) {
  Window window = ReadAttributes(attributes, kernel);
  const AutoPad auto_pad = AutoPadOf(attributes);
  const bool ceil = attributes.Int("ceil_mode") != 0;
  for (size_t i = 0; i < window.rank(); ++i) {
    const int64_t in = spatial[i], stride = window.strides[i], extent = Extent(window, i);
    if (IsSame(auto_pad)) {
      const int64_t out = CeilDivide(in, stride);
      const int64_t total = std::max<int64_t>((out - 1) * stride + extent - in, 0);
      SplitPadding(auto_pad, total, &window.pads_begin[i], &window.pads_end[i]);
      window.out.push_back(out);
      continue;
    }
    const int64_t room = in + window.pads_begin[i] + window.pads_end[i] - extent;
    // A batch of no pixels stays one; any other window must fit once, in ceil mode in part.
    if (room < 0 && !(ceil && room > -stride)) {
      if (in == 0) {
        window.out.push_back(0);
        continue;
      }
      Invalid("a window of {} (kernel {}, dilation {}) does not fit into {} padded by {} and {}",
              extent, window.kernel[i], window.dilations[i], in, window.pads_begin[i],
              window.pads_end[i]);
    }
    int64_t out = (ceil ? CeilDivide(room, stride) : room / stride) + 1;
    // A window that starts in the padding after the input is dropped.
    if (ceil && (out - 1) * stride >= in + window.pads_begin[i]) --out;
    window.out.push_back(out);
  }
  return window;
}

Window ResolveTransposedWindow(const Attributes& attributes, std::span<const int64_t> spatial,
                               std::span<const int64_t> kernel) {
  Window window = ReadAttributes(attributes, kernel);
  const size_t count = window.rank();
  const AutoPad auto_pad = AutoPadOf(attributes);
  const std::vector<int64_t> extra = PerAxis(attributes, "output_padding", count, 0, 0, kMost);
  std::vector<int64_t> asked = attributes.Ints("output_shape");
  // Exporters write all dimensions at times; the spatial ones are the last.
  if (asked.size() == count + 2) asked.erase(asked.begin(), asked.begin() + 2);
  if (!asked.empty() && asked.size() != count) {
    Invalid("output_shape {} has {} numbers, but {} are needed", PrintDims(asked), asked.size(),
            count);
  }
  for (size_t i = 0; i < count; ++i) {
    const int64_t full = window.strides[i] * (spatial[i] - 1) + extra[i] + Extent(window, i);
    if (asked.empty() && !IsSame(auto_pad)) {
      const int64_t out = full - window.pads_begin[i] - window.pads_end[i];
      if (out < 0) {
        Invalid("pads {} and {} take more than the {} outputs of a transposed window",
                window.pads_begin[i], window.pads_end[i], full);
      }
      window.out.push_back(out);
      continue;
    }
    const int64_t out = asked.empty() ? spatial[i] * window.strides[i] : asked[i];
    if (out < 0) Invalid("output_shape {} has a negative size", PrintDims(asked));
    // The standard's formula: padding is what the full output has too much.
    SplitPadding(auto_pad, std::max<int64_t>(full - out, 0), &window.pads_begin[i],
                 &window.pads_end[i]);
    window.out.push_back(out);
  }
  return window;
}

Dims InferWindow(InferContext& context, const Dims& spatial, std::span<const int64_t> kernel) {
  const Attributes& attributes = context.attributes();
  SymbolTable& symbols = context.symbols();
  if (spatial.size() != kernel.size()) {
    context.Fail("a kernel of {} spatial dimensions over an input of {}", kernel.size(),
                 spatial.size());
  }
  std::vector<int64_t> sizes;
  for (Dim dim : spatial) sizes.push_back(dim.known() ? dim.value() : 0);
  // Unknown sizes stand as 0, which fits always; their outputs are replaced.
  const Window window = ResolveWindow(attributes, sizes, kernel);
  const AutoPad auto_pad = AutoPadOf(attributes);
  const bool ceil = attributes.Int("ceil_mode") != 0;
  Dims out;
  for (size_t i = 0; i < kernel.size(); ++i) {
    const Dim in = spatial[i], stride = window.strides[i];
    if (in.known()) {
      out.push_back(window.out[i]);
    } else if (IsSame(auto_pad)) {
      out.push_back(symbols.CeilDiv(in, stride));
    } else {
      const int64_t pads = window.pads_begin[i] + window.pads_end[i] - Extent(window, i);
      const Dim room = symbols.Add(in, Dim(pads));
      if (!ceil) {
        // floor(room / s) + 1 = floor((room + s) / s), which keeps strides of exact multiples
        // short.
        out.push_back(symbols.FloorDiv(symbols.Add(room, stride), stride));
        continue;
      }
      // Windows that start before in + pad_begin, at most.
      const Dim starts = symbols.CeilDiv(symbols.Add(in, Dim(window.pads_begin[i])), stride);
      out.push_back(symbols.Min(symbols.Add(symbols.CeilDiv(room, stride), Dim(1)), starts));
    }
  }
  return out;
}

Dims InferTransposedWindow(InferContext& context, const Dims& spatial,
                           std::span<const int64_t> kernel) {
  const Attributes& attributes = context.attributes();
  SymbolTable& symbols = context.symbols();
  if (spatial.size() != kernel.size()) {
    context.Fail("a kernel of {} spatial dimensions over an input of {}", kernel.size(),
                 spatial.size());
  }
  std::vector<int64_t> sizes;
  // An unknown size stands as one for which no check can fail.
  for (Dim dim : spatial) sizes.push_back(dim.known() ? dim.value() : kMost);
  const Window window = ResolveTransposedWindow(attributes, sizes, kernel);
  const std::vector<int64_t> extra =
      PerAxis(attributes, "output_padding", kernel.size(), 0, 0, kMost);
  Dims out;
  for (size_t i = 0; i < kernel.size(); ++i) {
    const Dim scaled = symbols.Mul(spatial[i], Dim(window.strides[i]));
    if (spatial[i].known() || !attributes.Ints("output_shape").empty()) {
      out.push_back(window.out[i]);
    } else if (IsSame(AutoPadOf(attributes))) {
      out.push_back(scaled);
    } else {
      out.push_back(symbols.Add(scaled, Dim(extra[i] + Extent(window, i) - window.strides[i] -
                                            window.pads_begin[i] - window.pads_end[i])));
    }
  }
  return out;
}

}  // namespace sardonyx::core
