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

constexpr int64_t kLeastByteRun = 512;  // shorter ones are not worth a table each

// Where the other operands of a function of bytes are the same for runs of elements: how long these
// are, and for each run, if that is enough, how far its operands lie behind the first ones.
struct ByteRuns {
  int64_t length = 1, count = 0;
  std::vector<int64_t> offsets;  // bytes, [run, input]
};

ByteRuns FindByteRuns(std::span<const Operand> inputs, size_t at, const Operand& output) {
  ByteRuns runs;
  std::vector<std::vector<int64_t>> strides;
  for (const Operand& input : inputs) strides.push_back(BroadcastStrides(input, output.dims));
  strides[at].assign(output.dims.size(), 0);
  size_t axes = output.dims.size();  // that tell runs apart
  const auto moves = [&](const std::vector<int64_t>& own) { return own[axes - 1] != 0; };
  while (axes > 0 &&
         (output.dims[axes - 1] == 1 || std::none_of(strides.begin(), strides.end(), moves))) {
    runs.length *= output.dims[--axes];
  }
  if (runs.length < kLeastByteRun) return runs;
  runs.count = output.size() / runs.length;
  for (int64_t run = 0; run < runs.count; ++run) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      int64_t offset = 0, rest = run;
      for (size_t axis = axes; axis-- > 0; rest /= output.dims[axis]) {
        offset += rest % output.dims[axis] * strides[i][axis];
      }
      runs.offsets.push_back(offset * BitWidth(inputs[i].dtype) / 8);
    }
  }
  return runs;
}

constexpr std::array<uint8_t, 256> kAllBytes = [] {
  std::array<uint8_t, 256> all{};
  std::iota(all.begin(), all.end(), uint8_t{0});
  return all;
}();

// A function of one tensor of bytes and of scalars, or of values that are the same for long runs,
// with bytes as results: its 256 values first, for each run anew.
BindResult BindByteTable(const BindRequest& request) {
  constexpr int64_t kLeast = 2048;  // below, making the table does not pay
  const Operand& output = request.outputs[0];
  if (!IsByte(output.dtype)) return Refuse("results are not bytes");
  if (output.size() < kLeast) return Refuse("fewer elements than a table is worth");
  size_t at = request.inputs.size();
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const Operand& input = request.inputs[i];
    if (input.size() != output.size()) {
      if (BitWidth(input.dtype) < 8) return Refuse("an input is packed");
      continue;
    }
    if (at != request.inputs.size()) return Refuse("several inputs are as large as the output");
    if (!IsByte(input.dtype)) return Refuse("the input is not bytes");
    at = i;
  }
  if (at == request.inputs.size()) return Refuse("no input is as large as the output");
  const ByteRuns runs = FindByteRuns(request.inputs, at, output);
  if (runs.count == 0) return Refuse("other inputs change too soon");
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
  bound.run = [kernel, at, runs, inputs = request.inputs.size(),
               slices = Slice(runs.count, 256 + runs.length / 4)](const StepArgs& args) {
    const auto look_up = [&](int64_t run, const Parallel& par) {
      std::array<uint8_t, 256> table;
      std::array<const void*, TileProgram::kMaxInputs> in;
      for (size_t i = 0; i < inputs; ++i) {
        in[i] = static_cast<const std::byte*>(args.in[i]) +
                runs.offsets[static_cast<size_t>(run) * inputs + i];
      }
      in[at] = kAllBytes.data();
      RunElementwise(kernel, in.data(), table.data(), Parallel{});
      LookUpBytes(table.data(), static_cast<const uint8_t*>(args.in[at]) + run * runs.length,
                  runs.length, static_cast<uint8_t*>(args.out[0]) + run * runs.length, par);
    };
    if (runs.count == 1) return look_up(0, args.parallel);
    args.parallel.For(slices.tasks, [&](int64_t task) {
      const int64_t end = slices.End(task, runs.count);
      for (int64_t run = slices.Begin(task); run < end; ++run) look_up(run, Parallel{});
    });
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
