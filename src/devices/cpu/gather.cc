#include "kernels/gather.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/mapped_file.h"
#include "devices/cpu/families.h"
#include "devices/cpu/index_lattice.h"
#include "kernels/slices.h"
#include "kernels/strided_copy.h"

namespace sardonyx::cpu {
namespace {

int64_t AxisOf(const BindRequest& request) {
  const int64_t axis = request.node.attributes.Int("axis");
  return axis < 0 ? axis + request.inputs[0].rank() : axis;
}

bool IsIndex(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kInt64; }

// `bad` is the position of the first index out of range, -1 if there is none.
template <typename Index>
void Check(const Index* indices, int64_t bad) {
  if (bad >= 0) {
    Fail(ErrorCode::kInvalidArgument, "index {} (element {} of the indices) is outside of its axis",
         indices[bad], bad);
  }
}

// Calls body with the indices as int32 or int64.
template <typename Body>
auto WithIndices(DType dtype, const void* indices, Body&& body) {
  return dtype == DType::kInt32 ? body(static_cast<const int32_t*>(indices))
                                : body(static_cast<const int64_t*>(indices));
}

// Rows of a large table in a mapped file are read from the file, where those that are wanted are
// few: touched, each would map up to 2 MiB around it. A read takes as long as copying ten rows or
// more, so that once as much was read as the table has, it is worth its memory.
constexpr int64_t kLargeTable = 4 << 20;

struct FileTable {
  std::shared_ptr<const MappedFile> file;
  Tensor table;
  int64_t size, row_bytes, count;
  std::shared_ptr<std::atomic<int64_t>> bytes_read;

  template <typename Index>
  void Gather(const Index* indices, void* out, const Parallel& par) const {
    if (bytes_read->load(std::memory_order_relaxed) >= table.bytes()) {
      Check(indices, GatherRows(table.raw(), indices, out, 1, size, row_bytes, count, par));
      return;
    }
    Check(indices, FirstBadIndex(indices, count, size));
    bytes_read->fetch_add(count * row_bytes, std::memory_order_relaxed);
    const auto* const bytes = static_cast<const char*>(table.raw());
    const Slices slices = Slice(count, row_bytes / 4 + 1000);
    par.For(slices.tasks, [&](int64_t task) {
      for (int64_t i = slices.Begin(task); i < slices.End(task, count); ++i) {
        const int64_t at = indices[i] + (indices[i] < 0 ? size : 0);
        file->Read(bytes + at * row_bytes, row_bytes, static_cast<char*>(out) + i * row_bytes);
      }
    });
  }
};

// Null where the table does not lie in a file, or many of its rows are read.
std::shared_ptr<const MappedFile> FileToReadFrom(const BindRequest& request, int64_t gathered) {
  const Tensor* const table = request.inputs[0].constant;
  if (table == nullptr || table->raw() == nullptr || table->bytes() < kLargeTable) return nullptr;
  return gathered <= table->bytes() / 4 ? request.packs.FileOf(*table) : nullptr;
}

// What a lattice over `line` names, for each of its outer positions, one behind the other.
Bound ReadLattice(const IndexLattice& lattice, std::span<const int64_t> dims, const Line& line,
                  int width) {
  std::vector<int64_t> sizes{line.outer}, from{line.size * line.inner};
  for (size_t d = 0; d < dims.size(); ++d) {
    sizes.push_back(dims[d]);
    from.push_back(lattice.strides[d] * line.inner);
  }
  sizes.push_back(line.inner);
  from.push_back(1);
  Bound bound;
  bound.packed = 1U << 1;
  bound.unaligned = 1U << 0;
  bound.run = [plan = PrepareStridedCopy(sizes, from, RowMajorStrides(sizes), width),
               first = lattice.first * line.inner * width](const StepArgs& args) {
    StridedCopy(plan, static_cast<const char*>(args.in[0]) + first, args.out[0], args.parallel);
  };
  return bound;
}

BindResult NoLattice() { return Refuse("indices are not constant, or not in even steps"); }

BindResult BindGatherLattice(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const Operand& indices = request.inputs[1];
  const int width = Width(x.dtype);
  if (width == 0) return NoWidth(x.dtype);
  const Line line = Around(x, AxisOf(request));
  const int64_t gathered = ByteSize(x.dtype, line.inner) * indices.size();
  if (line.outer == 1 && FileToReadFrom(request, gathered) != nullptr) {
    return Refuse("few rows of a large table are read from its file");
  }
  const auto lattice = LatticeOf(request, indices, {&line.size, 1}, false);
  if (!lattice) return NoLattice();
  return ReadLattice(*lattice, indices.dims, line, width);
}

BindResult BindGather(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const Operand& indices = request.inputs[1];
  if (!IsIndex(indices.dtype)) return Refuse("indices are {}", Name(indices.dtype));
  const int64_t axis = AxisOf(request);
  const Line line = Around(x, axis);
  // Rows that begin within a byte have no address.
  if (IsPacked(x.dtype) && ByteSize(x.dtype, 8 * line.inner) % 8 != 0) return NoWidth(x.dtype);
  Bound bound;
  bound.unaligned = 1u << 0;
  const int64_t row_bytes = ByteSize(x.dtype, line.inner);
  const auto file = line.outer == 1 ? FileToReadFrom(request, row_bytes * indices.size()) : nullptr;
  if (file != nullptr) {
    const FileTable table{file,      *x.constant,    x.dims[axis],
                          row_bytes, indices.size(), std::make_shared<std::atomic<int64_t>>(0)};
    bound.run = [table, type = indices.dtype](const StepArgs& args) {
      WithIndices(type, args.in[1],
                  [&](const auto* at) { table.Gather(at, args.out[0], args.parallel); });
    };
    return bound;
  }
  bound.run = [=, bytes = row_bytes, count = indices.size(),
               type = indices.dtype](const StepArgs& args) {
    WithIndices(type, args.in[1], [&](const auto* at) {
      Check(at, GatherRows(args.in[0], at, args.out[0], line.outer, line.size, bytes, count,
                           args.parallel));
    });
  };
  return bound;
}

BindResult BindGatherElements(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const Operand& indices = request.inputs[1];
  const int width = Width(x.dtype);
  if (width == 0) return NoWidth(x.dtype);
  if (!IsIndex(indices.dtype)) return Refuse("indices are {}", Name(indices.dtype));
  Bound bound;
  bound.run = [=, dims = x.dims, index_dims = indices.dims, axis = AxisOf(request),
               type = indices.dtype](const StepArgs& args) {
    WithIndices(type, args.in[1], [&](const auto* at) {
      Check(at, GatherElements(args.in[0], at, args.out[0], dims, index_dims, axis, width,
                               args.parallel));
    });
  };
  return bound;
}

// The axes that index vectors without batches go into, and the elements of what each names.
std::pair<std::span<const int64_t>, int64_t> AxesAndSlice(const Operand& x,
                                                          const Operand& indices) {
  const std::span<const int64_t> dims = x.dims;
  const auto depth = static_cast<size_t>(indices.dims.back());
  int64_t slice = 1;
  for (const int64_t size : dims.subspan(depth)) slice *= size;
  return {dims.first(depth), slice};
}

BindResult BindGatherNd(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const Operand& indices = request.inputs[1];
  if (IsPacked(x.dtype)) return NoWidth(x.dtype);
  if (indices.dtype != DType::kInt64) return Refuse("indices are {}", Name(indices.dtype));
  const int64_t batch_dims = request.node.attributes.Int("batch_dims");
  const int64_t depth = indices.dims.back();
  int64_t batch = 1, count = 1, slice = 1;
  for (int64_t i = 0; i < batch_dims; ++i) batch *= x.dims[i];
  for (int64_t i = batch_dims; i + 1 < indices.rank(); ++i) count *= indices.dims[i];
  for (int64_t i = batch_dims + depth; i < x.rank(); ++i) slice *= x.dims[i];
  const std::vector<int64_t> dims(x.dims.begin() + batch_dims, x.dims.begin() + batch_dims + depth);
  Bound bound;
  bound.run = [=, bytes = ByteSize(x.dtype, slice)](const StepArgs& args) {
    const auto* at = static_cast<const int64_t*>(args.in[1]);
    Check(at, GatherNd(args.in[0], at, args.out[0], batch, dims, count, bytes, args.parallel));
  };
  return bound;
}

BindResult BindGatherNdLattice(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const Operand& indices = request.inputs[1];
  const int width = Width(x.dtype);
  if (width == 0) return NoWidth(x.dtype);
  if (request.node.attributes.Int("batch_dims") != 0) return Refuse("there are batches");
  const auto [axes, slice] = AxesAndSlice(x, indices);
  const auto lattice = LatticeOf(request, indices, axes, true);
  if (!lattice) return NoLattice();
  const std::span<const int64_t> dims = std::span(indices.dims).first(indices.dims.size() - 1);
  return ReadLattice(*lattice, dims, {1, 1, slice}, width);
}

bool ReductionOf(const BindRequest& request, ScatterReduction* reduction) {
  const std::string_view name = request.node.attributes.String("reduction", "none");
  constexpr std::pair<std::string_view, ScatterReduction> kNames[] = {
      {"none", ScatterReduction::kNone},
      {"add", ScatterReduction::kAdd},
      {"mul", ScatterReduction::kMul},
      {"min", ScatterReduction::kMin},
      {"max", ScatterReduction::kMax}};
  for (const auto& [text, value] : kNames) {
    if (text == name) {
      *reduction = value;
      return true;
    }
  }
  return false;
}

// Calls body with a tag of the type to scatter as: the type itself, or without a reduction the
// unsigned integer of its width. False for types that have none.
template <typename Body>
bool WithScatterType(DType dtype, ScatterReduction reduction, Body&& body) {
  if (reduction == ScatterReduction::kNone) {
    switch (IsPacked(dtype) ? 0 : BitWidth(dtype)) {
      case 8: body(TypeTag<uint8_t>{}); return true;
      case 16: body(TypeTag<uint16_t>{}); return true;
      case 32: body(TypeTag<uint32_t>{}); return true;
      case 64: body(TypeTag<uint64_t>{}); return true;
      default: return false;
    }
  }
  switch (dtype) {
    case DType::kFloat32: body(TypeTag<float>{}); return true;
    case DType::kFloat64: body(TypeTag<double>{}); return true;
    case DType::kInt32: body(TypeTag<int32_t>{}); return true;
    case DType::kInt64: body(TypeTag<int64_t>{}); return true;
    default: return false;
  }
}

// The data that updates are scattered over, into the output. Zeros are not read.
class Canvas {
 public:
  explicit Canvas(const Operand& x) : bytes_(ByteSize(x.dtype, x.size())) {
    const int64_t stride = 1;
    copy_ = PrepareStridedCopy({&bytes_, 1}, {&stride, 1}, {&stride, 1}, 1);
    if (x.constant == nullptr || x.constant->raw() == nullptr || bytes_ == 0) return;
    const auto* data = static_cast<const char*>(x.constant->raw());
    is_zero_ = data[0] == 0 && std::memcmp(data, data + 1, static_cast<size_t>(bytes_) - 1) == 0;
  }
  void Fill(void* out, const void* in, const Parallel& parallel) const {
    constexpr int64_t kPart = int64_t{1} << 20;
    if (is_zero_) {  // the library's way takes no old contents into the cache
      parallel.For((bytes_ + kPart - 1) / kPart, [&](int64_t part) {
        const int64_t begin = part * kPart, size = std::min(kPart, bytes_ - begin);
        std::memset(static_cast<char*>(out) + begin, 0, static_cast<size_t>(size));
      });
    } else if (out != in) {
      StridedCopy(copy_, in, out, parallel);
    }
  }

 private:
  int64_t bytes_;
  StridedCopyPlan copy_;
  bool is_zero_ = false;
};

BindResult BindScatterElements(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const Operand& indices = request.inputs[1];
  ScatterReduction reduction;
  if (!ReductionOf(request, &reduction)) return Refuse("reduction is unknown");
  Bound bound;
  bound.inplace = 1;
  const bool known = WithScatterType(x.dtype, reduction, [&](auto tag) {
    using T = typename decltype(tag)::type;
    bound.run = [=, dims = x.dims, index_dims = indices.dims, axis = AxisOf(request),
                 type = indices.dtype, canvas = Canvas(x)](const StepArgs& args) {
      canvas.Fill(args.out[0], args.in[0], args.parallel);
      WithIndices(type, args.in[1], [&](const auto* at) {
        Check(at,
              ScatterElements(static_cast<T*>(args.out[0]), at, static_cast<const T*>(args.in[2]),
                              dims, index_dims, axis, reduction, args.parallel));
      });
    };
  });
  if (!known || !IsIndex(indices.dtype)) return Refuse("element type is {}", Name(x.dtype));
  return bound;
}

// Updates that stay where they are put, and of which none meets another.
BindResult BindScatterNdLattice(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const Operand& indices = request.inputs[1];
  const int width = Width(x.dtype);
  if (width == 0) return NoWidth(x.dtype);
  ScatterReduction reduction;
  if (!ReductionOf(request, &reduction) || reduction != ScatterReduction::kNone) {
    return Refuse("updates are reduced");
  }
  const auto [axes, slice] = AxesAndSlice(x, indices);
  const auto lattice = LatticeOf(request, indices, axes, true);
  std::vector<int64_t> dims(indices.dims.begin(), indices.dims.end() - 1);
  if (!lattice || !lattice->IsApart(dims)) return NoLattice();
  std::vector<int64_t> to;
  for (const int64_t stride : lattice->strides) to.push_back(stride * slice);
  dims.push_back(slice);
  to.push_back(1);
  Bound bound;
  bound.inplace = 1;
  bound.packed = 1U << 1;
  bound.run = [plan = PrepareStridedCopy(dims, RowMajorStrides(dims), to, width),
               canvas = Canvas(x), first = lattice->first * slice * width](const StepArgs& args) {
    canvas.Fill(args.out[0], args.in[0], args.parallel);
    StridedCopy(plan, args.in[2], static_cast<char*>(args.out[0]) + first, args.parallel);
  };
  return bound;
}

BindResult BindScatterNd(const BindRequest& request) {
  const Operand& x = request.inputs[0];
  const Operand& indices = request.inputs[1];
  ScatterReduction reduction;
  if (!ReductionOf(request, &reduction)) return Refuse("reduction is unknown");
  const int64_t depth = indices.dims.back();
  if (depth == 0) return Refuse("indices are empty");
  const auto [axes, slice] = AxesAndSlice(x, indices);
  const std::vector<int64_t> dims(axes.begin(), axes.end());
  Bound bound;
  bound.inplace = 1;
  const bool known = WithScatterType(x.dtype, reduction, [&](auto tag) {
    using T = typename decltype(tag)::type;
    bound.run = [=, count = indices.size() / depth, canvas = Canvas(x)](const StepArgs& args) {
      canvas.Fill(args.out[0], args.in[0], args.parallel);
      const auto* at = static_cast<const int64_t*>(args.in[1]);
      Check(at, ScatterNd(static_cast<T*>(args.out[0]), at, static_cast<const T*>(args.in[2]), dims,
                          count, slice, reduction, args.parallel));
    };
  });
  if (!known) return Refuse("element type is {}", Name(x.dtype));
  return bound;
}

constexpr Implementation kGather[] = {{"strides", BindGatherLattice}, {"rows", BindGather}};
constexpr Implementation kGatherElements[] = {{"elements", BindGatherElements}};
constexpr Implementation kGatherNd[] = {{"strides", BindGatherNdLattice}, {"slices", BindGatherNd}};
constexpr Implementation kScatterElements[] = {{"elements", BindScatterElements}};
constexpr Implementation kScatterNd[] = {{"strides", BindScatterNdLattice},
                                         {"slices", BindScatterNd}};

}  // namespace

std::span<const Implementation> GatherList() { return kGather; }
std::span<const Implementation> GatherElementsList() { return kGatherElements; }
std::span<const Implementation> GatherNdList() { return kGatherNd; }
std::span<const Implementation> ScatterElementsList() { return kScatterElements; }
std::span<const Implementation> ScatterNdList() { return kScatterNd; }

}  // namespace sardonyx::cpu
