#include <algorithm>
#include <array>
#include <utility>

#include "base/round.h"
#include "devices/cpu/epilogue_binding.h"
#include "devices/cpu/families.h"
#include "kernels/gemm.h"
#include "kernels/gemm_bf16.h"
#include "kernels/gemm_narrow.h"
#include "kernels/gemm_typed.h"
#include "kernels/gemv.h"
#include "kernels/narrow.h"
#include "kernels/strided_copy.h"

namespace sardonyx::cpu {
namespace {

// One batch dimension: its size, its range of output dimensions, and the strides along it.
struct BatchDim {
  int64_t size;
  std::pair<int, int> range;
  int64_t a, b, c;
};

// Strides of an operand seen through a permutation (empty: as it is).
std::vector<int64_t> PermutedStrides(const Operand& operand, const std::vector<int64_t>& perm) {
  const std::vector<int64_t> own = Strides(operand);
  if (perm.empty()) return own;
  std::vector<int64_t> strides;
  for (int64_t axis : perm) strides.push_back(own[axis]);
  return strides;
}

std::vector<int64_t> Permuted(const std::vector<int64_t>& dims, const std::vector<int64_t>& perm) {
  if (perm.empty()) return dims;
  std::vector<int64_t> result;
  for (int64_t axis : perm) result.push_back(dims[axis]);
  return result;
}

// The product seen as dimensions with strides for each operand.
struct Problem {
  GemmShape shape;
  std::vector<BatchDim> batch;
  std::pair<int, int> rows, columns;  // of the output
  // A is input 0 and B input 1, or the other way, see TurnColumn.
  size_t a = 0, b = 1;
};

std::string Analyse(const BindRequest& request, Problem* problem) {
  const Attributes& attributes = request.node.attributes;
  const auto& perm_a = attributes.Ints("perm_a");
  const auto& perm_b = attributes.Ints("perm_b");
  std::vector<int64_t> a = Permuted(request.inputs[0].dims, perm_a);
  std::vector<int64_t> b = Permuted(request.inputs[1].dims, perm_b);
  std::vector<int64_t> a_strides = PermutedStrides(request.inputs[0], perm_a);
  std::vector<int64_t> b_strides = PermutedStrides(request.inputs[1], perm_b);
  if (attributes.Int("trans_a") != 0) {
    std::swap(a.end()[-1], a.end()[-2]);
    std::swap(a_strides.end()[-1], a_strides.end()[-2]);
  }
  if (attributes.Int("trans_b") != 0) {
    std::swap(b.end()[-1], b.end()[-2]);
    std::swap(b_strides.end()[-1], b_strides.end()[-2]);
  }
  GemmShape& shape = problem->shape;
  shape.m = a.end()[-2];
  shape.k = a.end()[-1];
  shape.n = b.end()[-1];
  auto leading = [](int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride,
                    int64_t* ld, bool* transposed) {
    *transposed = false;
    if (columns == 1 || column_stride == 1) {
      *ld = rows == 1 ? columns : row_stride;
      return columns == 1 ? (column_stride == 1 || rows == 1 || row_stride >= 1) : true;
    }
    if (rows == 1 || row_stride == 1) {
      *transposed = true;
      *ld = column_stride;
      return true;
    }
    return false;
  };
  if (!leading(shape.m, shape.k, a_strides.end()[-2], a_strides.end()[-1], &shape.lda,
               &shape.a_transposed)) {
    return "no dimension of A's matrices is contiguous";
  }
  if (!leading(shape.k, shape.n, b_strides.end()[-2], b_strides.end()[-1], &shape.ldb,
               &shape.b_transposed)) {
    return "no dimension of B's matrices is contiguous";
  }
  // The output in the order of the product, with strides of where it goes.
  const std::vector<int64_t>& y = request.outputs[0].dims;
  const int rank = static_cast<int>(y.size());
  const auto& perm_y = attributes.Ints("perm_y");
  std::vector<int64_t> c(rank), c_strides(rank), position(rank);
  const std::vector<int64_t> y_strides = Strides(request.outputs[0]);
  for (int i = 0; i < rank; ++i) {
    const int from = perm_y.empty() ? i : static_cast<int>(perm_y[i]);
    c[from] = y[i];
    c_strides[from] = y_strides[i];
    position[from] = i;
  }
  if (shape.n > 1 && c_strides.back() != 1) return "the rows of the result are not contiguous";
  shape.ldc = rank >= 2 && shape.m > 1 ? c_strides[rank - 2] : shape.n;
  if (shape.ldc < shape.n) return "the rows of the result overlap";
  // Batch dimensions, outermost first.
  for (int i = 0; i < rank - 2; ++i) {
    if (c[i] == 1) continue;
    auto stride = [&](const std::vector<int64_t>& dims, const std::vector<int64_t>& strides) {
      const int at = i - (rank - static_cast<int>(dims.size()));
      return at < 0 || dims[at] == 1 ? int64_t{0} : strides[at];
    };
    const int at = static_cast<int>(position[i]);
    problem->batch.push_back(
        {c[i], {at, at + 1}, stride(a, a_strides), stride(b, b_strides), c_strides[i]});
  }
  const auto one = [&](int64_t axis) {
    return std::pair{static_cast<int>(axis), static_cast<int>(axis) + 1};
  };
  problem->rows = one(position[rank - 2]);
  problem->columns = one(position[rank - 1]);
  return "";
}

// Whether epilogue operands step evenly when output dimensions [outer, inner) count as one.
bool OperandsMerge(const BindRequest& request, std::pair<int, int> outer,
                   std::pair<int, int> inner) {
  if (outer.second != inner.first) return false;
  const std::vector<int64_t>& dims = request.outputs[0].dims;
  int64_t inner_size = 1;
  for (int i = inner.first; i < inner.second; ++i) inner_size *= dims[i];
  for (size_t o = 2; o < request.inputs.size(); ++o) {
    const std::vector<int64_t> strides = BroadcastStrides(request.inputs[o], dims);
    if (inner_size > 1 && strides[outer.second - 1] != strides[inner.second - 1] * inner_size) {
      return false;
    }
  }
  return true;
}

// Joins batch dimensions with the rows and with each other where strides allow.
void Merge(const BindRequest& request, Problem* problem) {
  GemmShape& shape = problem->shape;
  auto& batch = problem->batch;
  while (!batch.empty() && !shape.a_transposed) {
    const BatchDim& last = batch.back();
    const bool rows_continue =
        last.b == 0 &&
        (shape.m == 1 || (last.a == shape.m * shape.lda && last.c == shape.m * shape.ldc));
    if (!rows_continue || !OperandsMerge(request, last.range, problem->rows)) break;
    if (shape.m == 1) {
      shape.lda = last.a;
      shape.ldc = last.c;
      if (shape.lda < shape.k || shape.ldc < shape.n) {
        shape.lda = shape.k;
        shape.ldc = shape.n;
        break;
      }
    }
    shape.m *= last.size;
    problem->rows.first = last.range.first;
    batch.pop_back();
  }
  for (size_t i = batch.size(); i-- > 1;) {
    BatchDim& outer = batch[i - 1];
    const BatchDim& inner = batch[i];
    if (outer.a == inner.a * inner.size && outer.b == inner.b * inner.size &&
        outer.c == inner.c * inner.size && OperandsMerge(request, outer.range, inner.range)) {
      outer = {outer.size * inner.size,
               {outer.range.first, inner.range.second},
               inner.a,
               inner.b,
               inner.c};
      batch.erase(batch.begin() + static_cast<int64_t>(i));
    }
  }
}

// A single column as the row of the product turned round, y^T = b^T a^T: kernels of a row read a
// matrix once, at the speed of memory, where those of columns would leave most lanes empty. (Zen 4,
// 1,000 x 1,000: 0.34 of the time; 20,000 rows of 30 alone 1.3, whose sums are too short.)
void TurnColumn(Problem* problem) {
  constexpr int64_t kLeastDepth = 48;
  GemmShape& shape = problem->shape;
  const bool is_row = shape.k == 1 || (shape.ldb == 1 && !shape.b_transposed);
  if (shape.n != 1 || shape.m == 1 || shape.ldc != 1 || !is_row) return;
  if (shape.k < kLeastDepth && problem->batch.empty()) return;
  shape.n = shape.ldc = std::exchange(shape.m, 1);
  shape.ldb = std::exchange(shape.lda, shape.k);
  shape.b_transposed = !std::exchange(shape.a_transposed, false);
  std::swap(problem->a, problem->b);
  for (BatchDim& dim : problem->batch) std::swap(dim.a, dim.b);
  problem->columns = problem->rows;
  problem->rows = {problem->columns.first, problem->columns.first};  // of one, wherever that stands
}

// A and what the epilogue reads may lie apart, the result where no sweep follows, and B, input `b`,
// where it is multiplied as it lies.
void TakeApart(const EpilogueBinding& epilogue, size_t b, bool reads_b, Bound* bound) {
  bound->apart = reads_b ? ~0u : ~(1u << b);
  bound->apart_output = epilogue.fused();
}

// A few rows read the weights once, at the speed of memory: packing would only take a second copy.
bool ReadsOnce(const GemmShape& shape, const Tensor& b) {
  constexpr int64_t kLeastBytes = 1 << 20;
  return shape.m <= kGemvRows && shape.batch[0] * shape.batch[1] == 1 && shape.b_transposed &&
         b.bytes() >= kLeastBytes && b.raw() != nullptr && IsAligned(b);
}

// Few rows are bound by reading the weights: constant float16 stays so, half of it to read.
Bound BindHalves(const BindRequest& request, const GemmShape& shape,
                 const EpilogueBinding::Layout& layout) {
  const Operand& weights = request.inputs[1];
  const NarrowMatrix b{weights.dtype, shape.k, shape.n, 0};
  const Parallel par{&ThreadPool::Process(), request.threads};
  const auto packed = request.packs.Get(
      *weights.constant, weights.id,
      fmt::format("halves {}x{} ld{}{}", shape.k, shape.n, shape.ldb,
                  shape.b_transposed ? "t" : ""),
      static_cast<int64_t>(NarrowPackedBytes(b)), [&](const Tensor& matrix, void* to) {
        PackNarrowHalves(b, static_cast<const uint16_t*>(matrix.raw()), shape.ldb,
                         shape.b_transposed, to, par);
      });
  Bound bound;
  bound.packed = 1u << 1;
  bound.scratch_bytes =
      static_cast<int64_t>(GemmNarrowScratchBytes(b, shape.m, shape.lda, request.threads));
  auto epilogue = std::make_shared<const EpilogueBinding>(request, 2, layout);
  TakeApart(*epilogue, 1, false, &bound);
  bound.run = [=](const StepArgs& args) {
    epilogue->With(args, [&](const Epilogue& fused) {
      GemmNarrow(b, packed.get(), shape.m, static_cast<const float*>(args.in[0]), shape.lda,
                 static_cast<float*>(args.out[0]), shape.ldc, fused, args.scratch, args.parallel);
    });
    epilogue->Finish(args);
  };
  return bound;
}

// Constant bfloat16 stays so where that is faster.
Bound BindBf16(const BindRequest& request, const GemmShape& shape,
               const EpilogueBinding::Layout& layout) {
  const Operand& weights = request.inputs[1];
  const Bf16Gemm product{shape.m, shape.n, shape.k, shape.lda, shape.ldc};
  const auto packed = request.packs.Get(
      *weights.constant, weights.id,
      fmt::format("bf16 {}x{} ld{}{}", shape.k, shape.n, shape.ldb, shape.b_transposed ? "t" : ""),
      static_cast<int64_t>(GemmBf16PackedBytes(shape.k, shape.n)),
      [&](const Tensor& matrix, void* to) {
        GemmBf16Pack(shape.k, shape.n, static_cast<const uint16_t*>(matrix.raw()), shape.ldb,
                     shape.b_transposed, to, Parallel{&ThreadPool::Process(), request.threads});
      });
  Bound bound;
  bound.packed = 1u << 1;
  bound.scratch_bytes = static_cast<int64_t>(GemmBf16ScratchBytes(product));
  auto epilogue = std::make_shared<const EpilogueBinding>(request, 2, layout);
  TakeApart(*epilogue, 1, false, &bound);
  bound.run = [=](const StepArgs& args) {
    epilogue->With(args, [&](const Epilogue& fused) {
      GemmBf16(product, static_cast<const float*>(args.in[0]), packed.get(),
               static_cast<float*>(args.out[0]), fused, args.scratch, args.parallel);
    });
    epilogue->Finish(args);
  };
  return bound;
}

// What every implementation needs: the product as the kernels see it, or why they do not.
std::string Prepare(const BindRequest& request, bool turns, Problem* problem,
                    EpilogueBinding::Layout* layout) {
  if (std::string why = Analyse(request, problem); !why.empty()) return why;
  if (request.outputs[0].size() == 0) return "no elements";
  Merge(request, problem);
  if (turns) {
    TurnColumn(problem);
    Merge(request, problem);
  }
  GemmShape& shape = problem->shape;
  if (problem->batch.size() > 2) {
    return fmt::format("{} batch dimensions that do not merge", problem->batch.size());
  }
  for (size_t i = 0; i < problem->batch.size(); ++i) {
    const size_t to = 2 - problem->batch.size() + i;
    const BatchDim& dim = problem->batch[i];
    shape.batch[to] = dim.size;
    shape.a_stride[to] = dim.a;
    shape.b_stride[to] = dim.b;
    shape.c_stride[to] = dim.c;
    layout->batch[to] = dim.range;
  }
  layout->rows = problem->rows;
  layout->columns = problem->columns;
  return "";
}

BindResult BindGemm(const BindRequest& request) {
  if (request.inputs[0].dtype != DType::kFloat32 || request.outputs[0].dtype != DType::kFloat32) {
    return Refuse("element type is {}, not float", Name(request.inputs[0].dtype));
  }
  Problem problem;
  EpilogueBinding::Layout layout;
  const DType b_type = request.inputs[1].dtype;
  const bool turns = b_type == DType::kFloat32;
  if (std::string why = Prepare(request, turns, &problem, &layout); !why.empty()) return why;
  GemmShape& shape = problem.shape;
  std::shared_ptr<const void> packed;
  const size_t a_input = problem.a, b_input = problem.b;
  const Tensor* b = request.inputs[b_input].constant;
  if (b != nullptr && problem.batch.empty() && !shape.a_transposed && shape.k > 0) {
    if (b_type == DType::kBFloat16 && GemmBf16Pays(shape.m))
      return BindBf16(request, shape, layout);
    if (b_type == DType::kFloat16 && shape.m <= kNarrowRows) {
      return BindHalves(request, shape, layout);
    }
  }
  if (b != nullptr && (b_type != DType::kFloat32 || !ReadsOnce(shape, *b))) {
    const int64_t bytes = static_cast<int64_t>(GemmPackedBytes(shape.k, shape.n));
    // Every distinct matrix of the batch is packed behind the other.
    const bool each[2] = {shape.b_stride[0] != 0, shape.b_stride[1] != 0};
    const int64_t counts[2] = {each[0] ? shape.batch[0] : 1, each[1] ? shape.batch[1] : 1};
    const std::string name = fmt::format("gemm {}x{} ld{}{} batch {}x{} {},{}", shape.k, shape.n,
                                         shape.ldb, shape.b_transposed ? "t" : "", counts[0],
                                         counts[1], shape.b_stride[0], shape.b_stride[1]);
    // One matrix is packed some columns or rows at a time, those that lie one behind the other.
    const int64_t lines = shape.b_transposed ? shape.n : shape.k,
                  length = shape.k + shape.n - lines;
    const bool by_lines =
        b->dims() == std::vector<int64_t>{lines, length} && shape.ldb == length && lines > 0;
    const int64_t step = std::max<int64_t>((int64_t{2} << 20) / (length * 4 + 1) / 64 * 64, 64);
    packed = request.packs.GetByRows(
        *b, request.inputs[b_input].id, name, bytes * counts[0] * counts[1],
        by_lines ? step : b->dims()[0], [&](const Tensor& given, int64_t first, void* to) {
          const Tensor matrix = WidenedHalves(given);
          const Parallel par{&ThreadPool::Process(), request.threads};
          if (by_lines && shape.b_transposed) {
            return GemmPackB(shape.k, matrix.dims()[0], matrix.data<float>(), shape.ldb, true,
                             static_cast<float*>(to) + first * shape.k, par);
          }
          if (by_lines) {
            return GemmPackRows(shape.k, shape.n, first, matrix.dims()[0], matrix.data<float>(),
                                shape.ldb, static_cast<float*>(to), par);
          }
          for (int64_t p = 0; p < counts[0]; ++p) {
            for (int64_t q = 0; q < counts[1]; ++q) {
              GemmPackB(
                  shape.k, shape.n,
                  matrix.data<float>() + p * shape.b_stride[0] + q * shape.b_stride[1], shape.ldb,
                  shape.b_transposed,
                  reinterpret_cast<float*>(static_cast<char*>(to) + (p * counts[1] + q) * bytes),
                  par);
            }
          }
        });
    const int64_t floats = bytes / static_cast<int64_t>(sizeof(float));
    shape.b_stride[1] = each[1] ? floats : 0;
    shape.b_stride[0] = each[0] ? floats * counts[1] : 0;
  }
  Bound bound;
  if (packed != nullptr) bound.packed = 1u << b_input;
  bound.scratch_bytes =
      static_cast<int64_t>(GemmScratchBytes(shape, packed != nullptr, request.threads));
  auto epilogue = std::make_shared<const EpilogueBinding>(request, 2, layout);
  // Halves that are not constant are widened ahead of the product.
  const bool widens = packed == nullptr && b_type != DType::kFloat32;
  const int64_t own = AlignBytes(bound.scratch_bytes), b_size = request.inputs[1].size();
  if (widens) bound.scratch_bytes = own + b_size * static_cast<int64_t>(sizeof(float));
  TakeApart(*epilogue, b_input, packed == nullptr && !widens, &bound);
  if (!shape.a_transposed && BetterApart(shape.lda, shape.m)) bound.collide = 1u << a_input;
  bound.run = [=](const StepArgs& args) {
    const float* matrix = static_cast<const float*>(args.in[b_input]);
    if (widens) {
      auto* wide = reinterpret_cast<float*>(static_cast<char*>(args.scratch) + own);
      WidenHalves(b_type, args.in[1], b_size, wide, args.parallel);
      matrix = wide;
    }
    epilogue->With(args, [&](const Epilogue& fused) {
      Gemm(shape, static_cast<const float*>(args.in[a_input]), matrix,
           static_cast<const float*>(packed.get()), static_cast<float*>(args.out[0]), fused,
           args.scratch, args.parallel);
    });
    epilogue->Finish(args);
  };
  return bound;
}

BindResult BindTyped(const BindRequest& request) {
  const DType type = request.inputs[0].dtype;
  if (!IsGemmType(type) || request.outputs[0].dtype != type || request.inputs[1].dtype != type) {
    return Refuse("element type is {}", Name(type));
  }
  if (type != DType::kFloat64 && request.node.attributes.Expr("epilogue") != nullptr) {
    return Refuse("it has an epilogue");
  }
  Problem problem;
  EpilogueBinding::Layout layout;
  if (std::string why = Prepare(request, false, &problem, &layout); !why.empty()) return why;
  const GemmShape shape = problem.shape;
  std::shared_ptr<const void> packed;
  const Operand& b = request.inputs[1];
  if (b.constant != nullptr && shape.b_stride[0] == 0 && shape.b_stride[1] == 0) {
    packed = request.packs.Get(*b.constant, b.id,
                               fmt::format("typed {}x{} ld{}{}", shape.k, shape.n, shape.ldb,
                                           shape.b_transposed ? "t" : ""),
                               static_cast<int64_t>(GemmTypedPackedBytes(type, shape.k, shape.n)),
                               [&](const Tensor& matrix, void* to) {
                                 GemmTypedPack(type, shape, matrix.raw(), to,
                                               Parallel{&ThreadPool::Process(), request.threads});
                               });
  }
  Bound bound;
  if (packed != nullptr) bound.packed = 1u << 1;
  bound.scratch_bytes = static_cast<int64_t>(GemmTypedScratchBytes(type, shape, packed != nullptr));
  auto epilogue = std::make_shared<const EpilogueBinding>(request, 2, layout);
  bound.run = [=](const StepArgs& args) {
    epilogue->With(args, [&](const Epilogue& fused) {
      GemmTyped(type, shape, args.in[0], args.in[1], packed.get(), args.out[0], fused, args.scratch,
                args.parallel);
    });
    epilogue->Finish(args);
  };
  return bound;
}

BindResult BindProduct(const BindRequest& request) {
  BindResult result = BindGemm(request);
  return std::holds_alternative<Bound>(result) ? result : BindTyped(request);
}

// Of products that are bound again, in another form.
constexpr size_t kMostInputs = 18;

// A batch that lies in more pieces than kernels take, whose outermost items are large enough to be
// products of their own, one after the other.
BindResult BindItems(const BindRequest& request) {
  constexpr int64_t kLeastProducts = 1 << 20;  // take some 20 microseconds
  const Attributes& attributes = request.node.attributes;
  for (const char* name : {"perm_a", "perm_b", "perm_y"}) {
    if (attributes.Find(name) != nullptr) return Refuse("an operand is transposed");
  }
  if (request.inputs.size() > kMostInputs) return Refuse("it has many operands");
  const std::vector<int64_t>& y = request.outputs[0].dims;
  const auto outer = std::find_if(y.begin(), y.end(), [](int64_t dim) { return dim > 1; });
  if (y.end() - outer < 4) return Refuse("it has few batch dimensions");
  const std::vector<int64_t>& a = request.inputs[0].dims;
  const int64_t depth = a.end()[attributes.Int("trans_a") != 0 ? -2 : -1];
  if (request.outputs[0].size() / *outer * depth < kLeastProducts) return Refuse("items are small");

  // An operand's own part of an item, and bytes to the next item's.
  std::array<int64_t, kMostInputs> steps = {};
  const auto cut = [&](const Operand& operand, int64_t* step) {
    const int64_t axis = (outer - y.begin()) - (static_cast<int64_t>(y.size()) - operand.rank());
    Operand item{operand.dtype, operand.dims};
    *step = 0;
    if (axis < 0) return item;
    item.dims.erase(item.dims.begin(), item.dims.begin() + axis + 1);
    if (operand.dims[axis] > 1) *step = ByteSize(operand.dtype, item.size());
    return item;
  };
  std::vector<Operand> inputs;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    inputs.push_back(cut(request.inputs[i], &steps[i]));
  }
  int64_t y_step;
  const Operand output = cut(request.outputs[0], &y_step);
  const BindRequest item{request.node, inputs, {&output, 1}, request.packs, request.threads};
  BindResult result = BindProduct(item);
  const auto* const bound = std::get_if<Bound>(&result);
  if (bound == nullptr) return result;
  Bound all;
  all.scratch_bytes = bound->scratch_bytes;
  all.run = [count = inputs.size(), items = *outer, steps, y_step,
             run = bound->run](const StepArgs& args) {
    std::array<const void*, kMostInputs> in;
    for (int64_t i = 0; i < items; ++i) {
      for (size_t k = 0; k < count; ++k) {
        in[k] = static_cast<const char*>(args.in[k]) + i * steps[k];
      }
      void* const out[] = {static_cast<char*>(args.out[0]) + i * y_step};
      StepArgs part = args;
      part.in = in.data();
      part.out = out;
      run(part);
    }
  };
  return all;
}

// A batch that lies in more pieces than kernels take (of operands that are each repeated along
// other dimensions, or transposed): they are copied to lie as the result does, which is bound
// again.
BindResult BindCopies(const BindRequest& request) {
  const std::vector<int64_t>& y = request.outputs[0].dims;
  if (request.node.attributes.Find("perm_y") != nullptr) return Refuse("its result is transposed");
  if (request.inputs.size() > kMostInputs) return Refuse("it has many operands");
  struct Copy {
    size_t input;
    StridedCopyPlan plan;
    int64_t at;  // in scratch
  };
  std::vector<Copy> copies;
  auto node = std::make_shared<Node>();
  node->op = request.node.op;
  node->attributes = request.node.attributes;
  std::vector<Operand> inputs(request.inputs.begin(), request.inputs.end());
  int64_t bytes = 0;
  for (const size_t i : {0, 1}) {
    const char* const name = i == 0 ? "perm_a" : "perm_b";
    const Operand& operand = request.inputs[i];
    const std::vector<int64_t>& perm = request.node.attributes.Ints(name);
    const std::vector<int64_t> dims = Permuted(operand.dims, perm);
    const bool is_matrix =
        std::all_of(dims.begin(), dims.end() - 2, [](int64_t dim) { return dim == 1; });
    if (i == 1 && is_matrix) continue;  // packed once, or read as it is
    const int width = Width(operand.dtype);
    if (width == 0) return NoWidth(operand.dtype);
    std::vector<int64_t> whole(y.begin(), y.end() - 2);
    whole.insert(whole.end(), dims.end() - 2, dims.end());
    std::vector<int64_t> from(whole.size(), 0);
    const std::vector<int64_t> strides = PermutedStrides(operand, perm);
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d] > 1) from[whole.size() - dims.size() + d] = strides[d];
    }
    copies.push_back({i, PrepareStridedCopy(whole, from, RowMajorStrides(whole), width), bytes});
    inputs[i] = {operand.dtype, std::move(whole)};
    bytes += AlignBytes(ByteSize(operand.dtype, inputs[i].size()));
    node->attributes.Erase(name);
  }
  const BindRequest again{*node, inputs, request.outputs, request.packs, request.threads};
  BindResult result = BindProduct(again);
  auto* const bound = std::get_if<Bound>(&result);
  if (bound == nullptr) return result;
  for (const Copy& copy : copies) {
    for (uint32_t* set : {&bound->inplace, &bound->apart, &bound->unaligned, &bound->packed}) {
      *set &= ~(1u << copy.input);
    }
  }
  const int64_t own = AlignBytes(bound->scratch_bytes);
  bound->scratch_bytes = own + bytes;
  bound->run = [node, copies, own, count = inputs.size(),
                run = std::move(bound->run)](const StepArgs& args) {
    std::array<const void*, kMostInputs> in;
    std::copy_n(args.in, count, in.begin());
    for (const Copy& copy : copies) {
      void* const to = static_cast<char*>(args.scratch) + own + copy.at;
      StridedCopy(copy.plan, args.in[copy.input], to, args.parallel);
      in[copy.input] = to;
    }
    StepArgs inner = args;
    inner.in = in.data();
    run(inner);
  };
  return result;
}

constexpr Implementation kList[] = {{"gemm", BindGemm},
                                    {"gemm, typed", BindTyped},
                                    {"gemm of items", BindItems},
                                    {"gemm of copies", BindCopies}};

}  // namespace

std::span<const Implementation> MatMulList() { return kList; }

}  // namespace sardonyx::cpu
