#include "kernels/elementwise.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/cast.h"
#include "devices/cpu/families.h"
#include "kernels/byte_table.h"
#include "kernels/narrow.h"
#include "kernels/packed_cast.h"
#include "kernels/slices.h"

namespace sardonyx::cpu {
namespace {

BindResult BindTiles(const BindRequest& request) {
  std::vector<DType> types;
  for (const Operand& input : request.inputs) types.push_back(input.dtype);
  const Expression expression = request.node.op->expression(request.node, types);
  // A cast with a rounding of its own has no expression.
  if (expression.inputs.size() != request.inputs.size()) return Refuse("no expression says it");
  const Operand& output = request.outputs[0];
  std::vector<int64_t> strides;
  for (const Operand& input : request.inputs) {
    const std::vector<int64_t> own = BroadcastStrides(input, output.dims);
    strides.insert(strides.end(), own.begin(), own.end());
  }
  std::string why;
  const ElementwiseKernel kernel =
      PrepareElementwise(expression, output.dims, strides, &why, output.row_stride);
  if (!kernel) return why;
  Bound bound;
  bound.run = [kernel](const StepArgs& args) {
    RunElementwise(kernel, args.in, args.out[0], args.parallel);
  };
  for (size_t i = 0; i < request.inputs.size() && i < 32; ++i) {
    const Operand& input = request.inputs[i];
    if (input.dtype == output.dtype && input.size() == output.size()) bound.inplace |= 1u << i;
  }
  bound.apart = bound.apart_axes = ~0u;
  bound.apart_output = true;
  return bound;
}

// A function of one tensor of bytes and of scalars, with bytes as results: its 256 values first.
BindResult BindByteTable(const BindRequest& request) {
  constexpr int64_t kLeast = 2048;  // below, making the table does not pay
  const Operand& output = request.outputs[0];
  if (!IsByte(output.dtype)) return Refuse("results are not bytes");
  if (output.size() < kLeast) return Refuse("fewer elements than a table is worth");
  size_t at = request.inputs.size();
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const Operand& input = request.inputs[i];
    if (input.size() == 1) continue;
    if (at != request.inputs.size()) return Refuse("several inputs");
    if (!IsByte(input.dtype)) return Refuse("the input is not bytes");
    if (input.size() != output.size()) return Refuse("the input is broadcast");
    at = i;
  }
  if (at == request.inputs.size()) return Refuse("no input is as large as the output");
  std::vector<DType> types;
  for (const Operand& input : request.inputs) types.push_back(input.dtype);
  const Expression expression = request.node.op->expression(request.node, types);
  if (expression.inputs.size() != request.inputs.size()) return Refuse("no expression says it");
  const auto widens = [&](const Instruction& step) { return BitWidth(step.type) > 8; };
  if (std::none_of(expression.code.begin(), expression.code.end(), widens)) {
    return Refuse("tiles of bytes are as fast");
  }
  std::vector<int64_t> strides(request.inputs.size(), 0);
  strides[at] = 1;
  std::string why;
  const ElementwiseKernel kernel =
      PrepareElementwise(expression, std::array<int64_t, 1>{256}, strides, &why);
  if (!kernel) return why;
  Bound bound;
  bound.run = [kernel, at, inputs = request.inputs.size(),
               size = output.size()](const StepArgs& args) {
    std::array<uint8_t, 256> all, table;
    std::iota(all.begin(), all.end(), uint8_t{0});
    std::array<const void*, TileProgram::kMaxInputs> in;
    std::copy_n(args.in, inputs, in.begin());
    in[at] = all.data();
    RunElementwise(kernel, in.data(), table.data(), Parallel{});
    LookUpBytes(table.data(), static_cast<const uint8_t*>(args.in[at]), size,
                static_cast<uint8_t*>(args.out[0]), args.parallel);
  };
  bound.inplace = at < 32 ? 1u << at : 0;
  return bound;
}

// Why it is not a cast alone, of as many elements.
std::string NoConversion(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const Expression expression = request.node.op->expression(request.node, {&x.dtype, 1});
  if (request.inputs.size() != 1 || expression.inputs.size() != 1 || expression.code.size() != 1 ||
      expression.code[0].fn != Fn::kCast) {
    return "it does more than convert";
  }
  return x.size() == request.outputs[0].size() ? "" : "the input is broadcast";
}

// To or from numbers of 2 and 4 bits.
BindResult BindPackedCast(const BindRequest& request) {
  if (std::string why = NoConversion(request); !why.empty()) return why;
  const Operand& y = request.outputs[0];
  std::optional<PackedCast> cast = PreparePackedCast(request.inputs[0].dtype, y.dtype);
  if (!cast) return Refuse("the types have no such kernel");
  Bound bound;
  bound.run = [cast = *std::move(cast), count = y.size()](const StepArgs& args) {
    RunPackedCast(cast, args.in[0], args.out[0], count, args.parallel);
  };
  return bound;
}

// To or from other types that tiles do not have: strings and numbers of few bits.
BindResult BindConversion(const BindRequest& request) {
  constexpr int64_t kWholeBytes = 64;  // so many elements of any width end with a byte
  if (std::string why = NoConversion(request); !why.empty()) return why;
  const Operand &x = request.inputs[0], &y = request.outputs[0];
  const int64_t count = y.size();
  Bound bound;
  bound.run = [=, from = x.dtype, to = y.dtype,
               slices = Slice(count, 20, kWholeBytes)](const StepArgs& args) {
    args.parallel.For(slices.tasks, [&](int64_t task) {
      const int64_t begin = slices.Begin(task);
      ConvertElements(from, static_cast<const char*>(args.in[0]) + ByteSize(from, begin), to,
                      static_cast<char*>(args.out[0]) + ByteSize(to, begin),
                      slices.End(task, count) - begin, /*saturate=*/true);
    });
  };
  return bound;
}

constexpr Implementation kList[] = {{"byte table", BindByteTable},
                                    {"tiles", BindTiles},
                                    {"packed numbers", BindPackedCast},
                                    {"conversion", BindConversion}};

// Dense strides, but for those inside a row, as an operand whose rows lie apart has them.
void CountRows(const Operand& operand, std::vector<int64_t>* strides) {
  if (operand.row_stride == 0) return;
  const auto axes = static_cast<size_t>(operand.row_axes);
  const int64_t row = ElementCount(std::span(operand.dims).last(axes));
  for (size_t i = 0; i + axes < strides->size(); ++i) {
    (*strides)[i] = (*strides)[i] / row * operand.row_stride;
  }
}

}  // namespace

std::span<const Implementation> ElementwiseList() { return kList; }

Tensor WidenedHalves(const Tensor& tensor) {
  if (!IsHalf(tensor.dtype())) return tensor;
  Tensor wide(DType::kFloat32, tensor.dims());
  WidenHalves(tensor.dtype(), tensor.raw(), tensor.size(), wide.data<float>(), Parallel{});
  return wide;
}

std::vector<int64_t> Strides(const Operand& operand) {
  std::vector<int64_t> strides = RowMajorStrides(operand.dims);
  CountRows(operand, &strides);
  return strides;
}

std::vector<int64_t> BroadcastStrides(const std::vector<int64_t>& operand,
                                      std::span<const int64_t> dims) {
  std::vector<int64_t> strides(dims.size(), 0);
  int64_t stride = 1;
  for (size_t i = 0; i < operand.size(); ++i) {
    const size_t from_end = operand.size() - 1 - i;
    if (operand[from_end] != 1) strides[dims.size() - 1 - i] = stride;
    stride *= operand[from_end];
  }
  return strides;
}

std::vector<int64_t> BroadcastStrides(const Operand& operand, std::span<const int64_t> dims) {
  std::vector<int64_t> strides = BroadcastStrides(operand.dims, dims);
  CountRows(operand, &strides);
  return strides;
}

}  // namespace sardonyx::cpu
