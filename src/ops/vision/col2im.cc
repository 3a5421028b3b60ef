// Col2Im: columns of blocks summed where the blocks lay in the image.

#include "ops/core/reference.h"
#include "ops/core/window.h"
#include "ops/lowering.h"

namespace sardonyx {
namespace core {
namespace {

// The attributes as a window over the image, whose output sizes count the blocks.
Window BlocksOf(const Attributes& attributes) {
  const std::vector<int64_t>&image = attributes.Ints("image"), &block = attributes.Ints("block");
  if (image.empty() || image.size() != block.size()) {
    Fail(ErrorCode::kInvalidModel, "col2im: an image {} and blocks {} do not fit", PrintDims(image),
         PrintDims(block));
  }
  ElementCount(image);
  return ResolveWindow(attributes, image, block);
}

void InferCol2Im(InferContext& context) {
  const Window window = BlocksOf(context.attributes());
  const int64_t area = ElementCount(window.kernel), blocks = ElementCount(window.out);
  Dims shape{context.symbols().Fresh(), context.symbols().Fresh()};
  if (context.ranked(0)) {
    const Dims& x = context.shape(0);
    if (x.size() != 3 || (x[1].known() && x[1].value() % area != 0) ||
        (x[2].known() && x[2].value() != blocks)) {
      context.Fail("col2im takes [N,C*{},{}], not {}", area, blocks, context.Print(x));
    }
    shape = {x[0], context.symbols().FloorDiv(x[1], Dim(area))};
  }
  for (int64_t size : context.attributes().Ints("image")) shape.push_back(size);
  context.Set(0, context.dtype(0), std::move(shape));
}

// target[pixel] += source[element], `parts` numbers an element, for every image.
template <typename T>
void Accumulate(const Window& window, std::span<const int64_t> image, int64_t images, int64_t parts,
                const T* source, T* target) {
  const int64_t pixels = ElementCount(image);
  const std::vector<int64_t> strides = RowMajorStrides(image);
  for (int64_t i = 0; i < images; ++i, target += pixels * parts) {
    for (Walk t(window.kernel, {}); !t.done(); t.Next()) {
      for (Walk o(window.out, {}); !o.done(); o.Next(), source += parts) {
        int64_t pixel = 0;
        bool inside = true;
        for (size_t axis = 0; axis < image.size(); ++axis) {
          const int64_t at = o.index()[axis] * window.strides[axis] +
                             t.index()[axis] * window.dilations[axis] - window.pads_begin[axis];
          inside = inside && at >= 0 && at < image[axis];
          pixel += at * strides[axis];
        }
        for (int64_t part = 0; inside && part < parts; ++part) {
          target[pixel * parts + part] += source[part];
        }
      }
    }
  }
}

void ComputeCol2Im(ComputeContext& context) {
  const Tensor& x = context.input(0);
  Tensor& y = context.Allocate(0);
  const Window window = BlocksOf(context.attributes());
  const std::vector<int64_t>& image = context.attributes().Ints("image");
  const int64_t images = y.dims()[0] * y.dims()[1];
  const auto sum = [&]<typename T>(const T* source, T* target, int64_t parts) {
    Accumulate(window, image, images, parts, source, target);
  };
  switch (x.dtype()) {
    // Where blocks overlap, the sum of texts is one behind the other.
    case DType::kString: return sum(x.data<std::string>(), y.data<std::string>(), 1);
    case DType::kComplex64: Fill(y, nullptr); return sum(x.data<float>(), y.data<float>(), 2);
    case DType::kComplex128: Fill(y, nullptr); return sum(x.data<double>(), y.data<double>(), 2);
    default: break;
  }
  if (IsFloat(x.dtype())) {
    std::vector<double> result(y.size());
    sum(ToDoubles(x).data(), result.data(), 1);
    return ConvertElements(DType::kFloat64, result.data(), y.dtype(), y.raw(), y.size(), false);
  }
  std::vector<int64_t> result(y.size());
  sum(ToInts(x).data(), result.data(), 1);
  ConvertElements(DType::kInt64, result.data(), y.dtype(), y.raw(), y.size(), false);
}

}  // namespace

const CoreOp col2im = {
    .name = "col2im", .inputs = "t", .infer = InferCol2Im, .reference = ComputeCol2Im};

}  // namespace core

namespace ops {

Outputs LowerCol2Im(Lowering& op) {
  Attributes attributes{{"image", op.in(1).ints()}, {"block", op.in(2).ints()}};
  for (const char* name : {"strides", "pads", "dilations"}) {
    if (op.HasAttribute(name)) attributes.Set(name, op.Ints(name));
  }
  return op.builder().Make(core::col2im, {op.in(0)}, attributes);
}

}  // namespace ops
}  // namespace sardonyx
