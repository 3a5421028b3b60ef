#include "kernels/elementwise.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <vector>

#include "base/dtype.h"
#include "kernels/slices.h"
#include "kernels/tile_ops.h"
#include "kernels/tile_runner.h"

namespace sardonyx {
namespace {

// Rows of at least this many elements are worth running alone rather than copied together.
constexpr int64_t kLongRow = 128;
// So many bytes of a row are worth it even if the copy is made once, for all tiles: it is read
// along with the other operands, which leave no place for it in the L1 cache.
constexpr int64_t kLongRowBytes = 8 << 10;
// Elements of a tile if nothing is kept between operations; else the L1 cache bounds it.
constexpr int64_t kBareTile = 8192;
constexpr int kMostRank = 40;
// A tile of an output whose rows lie apart is made here, then copied row by row.
constexpr int64_t kStagingBytes = 8 << 10;

int64_t Product(const std::vector<int64_t>& values, size_t from) {
  int64_t product = 1;
  for (size_t i = from; i < values.size(); ++i) product *= values[i];
  return product;
}

}  // namespace

// The output's dimensions are cut into outer ones, one that tiles take `rows` indices of, and inner
// ones that lie within a tile; a tile is dense in the output, but
// for rows that lie apart there.
struct ElementwiseKernel::Impl {
  struct Operand {
    int64_t element_bytes;
    bool expanded = false;
    bool streams = false;               // each tile reads other elements, one after another
    int64_t block_bytes;                // from one tile to the next along the cut dimension
    std::vector<int64_t> outer_bytes;   // strides of the outer dimensions
    std::vector<int64_t> tile_strides;  // of the cut and the inner dimensions, in elements
  };

  std::shared_ptr<const TileProgram> program;
  int64_t elements = 0;
  int64_t out_bytes = 0;  // of an element
  // Of a row of the output and from one to the next, if they lie apart; else 0.
  int64_t row_bytes = 0, row_step_bytes = 0;
  std::vector<int64_t> outer;
  int64_t cut = 1;    // size of the cut dimension
  int64_t rows = 1;   // indices of it in a full tile
  int64_t inner = 1;  // elements of an index of it
  std::vector<int64_t> inner_dims;
  int64_t blocks = 1;  // tiles along the cut dimension
  // A block of all outer indices comes before the next: what these share is copied once for it.
  bool by_block = false;
  int64_t tiles = 0;
  double us = 0;  // about, of one thread
  int64_t most_tasks = 1;
  std::vector<Operand> operands;

  void Advance(int64_t& block, int64_t* index, const std::byte** from) const;
  void RunTiles(int64_t begin, int64_t end, const void* const* in, std::byte* out) const;
  void RunRange(int64_t block, int64_t outer_index, int64_t count, const void* const* in,
                std::byte* out) const;
  void StoreRows(const std::byte* from, int64_t at, int64_t bytes, std::byte* out) const;
};

namespace {

using Impl = ElementwiseKernel::Impl;

void Prefetch(const std::byte* from, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(from + i, 0, 2);
}

// Drops dimensions of size 1 and merges neighbours that every operand walks as one.
void Collapse(std::vector<int64_t>& dims, std::vector<std::vector<int64_t>>& strides) {
  size_t kept = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    const bool merges = kept > 0 && std::all_of(strides.begin(), strides.end(), [&](auto& s) {
                          return s[kept - 1] == s[d] * dims[d];
                        });
    if (!merges) ++kept;
    dims[kept - 1] = merges ? dims[kept - 1] * dims[d] : dims[d];
    for (auto& s : strides) s[kept - 1] = s[d];
  }
  if (kept == 0) {
    dims.assign(1, 1);
    for (auto& s : strides) s.assign(1, 0);
    return;
  }
  dims.resize(kept);
  for (auto& s : strides) s.resize(kept);
}

TileInput Classify(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides,
                   size_t cut, int64_t rows, bool one_block) {
  bool uniform = true;
  bool contiguous = true;
  bool invariant = strides[cut] == 0 || one_block;
  for (size_t d = 0; d < cut; ++d) invariant &= strides[d] == 0;
  int64_t natural = 1;
  for (size_t d = dims.size(); d-- > cut;) {
    if (d == cut && rows == 1) continue;
    uniform &= strides[d] == 0;
    contiguous &= strides[d] == natural;
    natural *= dims[d];
  }
  const TileAccess access = uniform      ? TileAccess::kUniform
                            : contiguous ? TileAccess::kContiguous
                                         : TileAccess::kExpanded;
  return {access, invariant};
}

// Whether an operand that has to be copied is the same for all outer indices, but in each block.
bool SharesBlocks(const std::vector<int64_t>& dims,
                  const std::vector<std::vector<int64_t>>& strides, size_t cut, int64_t rows) {
  int64_t outer = 1;
  for (size_t d = 0; d < cut; ++d) outer *= dims[d];
  return rows < dims[cut] && outer >= 4 &&
         std::ranges::any_of(
             strides,
             [&](const auto& s) {
               const TileInput input = Classify(dims, s, cut, rows, true);
               return input.access == TileAccess::kExpanded && input.invariant && s[cut] != 0;
             });
}

// Chooses the dimension to cut and how many indices of it a tile of `most` elements, of up to
// `widest` bytes, takes.
void ChooseCut(const std::vector<int64_t>& dims, const std::vector<std::vector<int64_t>>& strides,
               int64_t most, int64_t widest, size_t* cut, int64_t* rows) {
  size_t d = dims.size() - 1;
  int64_t inner = 1;
  while (d > 0 && inner * dims[d] <= most) inner *= dims[d--];
  *cut = d;
  *rows = std::clamp<int64_t>(most / inner, 1, dims[d]);
  // Long rows need no copies if each operand is contiguous or uniform along them, unless the copies
  // are made once.
  if (inner < kLongRow || *rows == 1) return;
  const size_t last = dims.size() - 1;
  if (d + 1 != last) return;
  bool simple_rows = true;
  bool free_together = true;
  const bool may_copy = inner * widest < kLongRowBytes;
  for (const auto& s : strides) {
    simple_rows &= s[last] == 0 || s[last] == 1;
    const TileInput together = Classify(dims, s, d, *rows, *rows >= dims[d]);
    free_together &= together.access != TileAccess::kExpanded || (together.invariant && may_copy);
  }
  if (simple_rows && !free_together) *rows = 1;
}

}  // namespace

ElementwiseKernel PrepareElementwise(const Expression& expression, std::span<const int64_t> dims_in,
                                     std::span<const int64_t> strides_in, std::string* why,
                                     int64_t out_row_stride) {
  const size_t inputs = expression.inputs.size();
  const size_t rank = dims_in.size();
  assert(strides_in.size() == inputs * rank);
  std::vector<int64_t> dims(dims_in.begin(), dims_in.end());
  std::vector<std::vector<int64_t>> strides(inputs);
  for (size_t i = 0; i < inputs; ++i) {
    const auto first = strides_in.begin() + static_cast<int64_t>(i * rank);
    strides[i].assign(first, first + static_cast<int64_t>(rank));
  }
  auto impl = std::make_shared<Impl>();
  impl->elements = Product(dims, 0);
  if (impl->elements != 0) Collapse(dims, strides);
  if (impl->elements == 0) {  // still refused if the expression cannot run
    dims.assign(1, 1);
    for (auto& s : strides) s.assign(1, 0);
  }

  int64_t widest = 1;
  for (const DType type : expression.inputs) widest = std::max<int64_t>(widest, BitWidth(type) / 8);
  std::vector<TileInput> tile_inputs(inputs);
  size_t cut = 0;
  impl->out_bytes = BitWidth(expression.ResultType()) / 8;
  const bool is_apart = out_row_stride > 0 && out_row_stride != dims_in.back();
  if (is_apart) {
    impl->row_bytes = dims_in.back() * impl->out_bytes;
    impl->row_step_bytes = out_row_stride * impl->out_bytes;
  }
  for (int64_t most = is_apart ? kStagingBytes / impl->out_bytes : kBareTile;;) {
    ChooseCut(dims, strides, most, widest, &cut, &impl->rows);
    impl->blocks = (dims[cut] + impl->rows - 1) / impl->rows;
    impl->by_block = SharesBlocks(dims, strides, cut, impl->rows);
    for (size_t i = 0; i < inputs; ++i) {
      tile_inputs[i] =
          Classify(dims, strides[i], cut, impl->rows, impl->by_block || impl->blocks == 1);
    }
    std::string_view refusal;
    impl->program = TileProgramOf(expression, tile_inputs, &refusal);
    if (impl->program == nullptr) {
      if (why != nullptr) *why = refusal;
      return {};
    }
    const int64_t fits = impl->program->slots == 0 ? kBareTile : impl->program->TileElements();
    if (impl->rows * Product(dims, cut + 1) <= fits) break;
    most = std::min(most - 16, fits);
  }

  impl->cut = dims[cut];
  impl->outer.assign(dims.begin(), dims.begin() + static_cast<int64_t>(cut));
  impl->inner_dims.assign(dims.begin() + static_cast<int64_t>(cut) + 1, dims.end());
  impl->inner = Product(dims, cut + 1);
  impl->tiles = Product(impl->outer, 0) * impl->blocks;
  impl->operands.resize(inputs);
  float bytes = static_cast<float>(impl->out_bytes), cost = impl->program->cost;
  for (size_t i = 0; i < inputs; ++i) {
    Impl::Operand& operand = impl->operands[i];
    operand.element_bytes = BitWidth(expression.inputs[i]) / 8;
    operand.expanded = tile_inputs[i].access == TileAccess::kExpanded;
    operand.streams = tile_inputs[i].access == TileAccess::kContiguous && !tile_inputs[i].invariant;
    operand.block_bytes = strides[i][cut] * impl->rows * operand.element_bytes;
    for (size_t d = 0; d < cut; ++d) {
      operand.outer_bytes.push_back(strides[i][d] * operand.element_bytes);
    }
    operand.tile_strides.assign(strides[i].begin() + static_cast<int64_t>(cut), strides[i].end());
    bytes += static_cast<float>(operand.element_bytes);
    if (operand.expanded && !tile_inputs[i].invariant) cost += 0.5f;
  }
  // About 10 bytes a ns stream from and to memory.
  const float ns = static_cast<float>(impl->elements) * (cost + 0.1f * bytes);
  // Each task writes out anew what is the same in all tiles.
  const bool repeats = std::ranges::any_of(
      impl->program->expansions, [](const auto& expansion) { return expansion.invariant; });
  impl->us = 1e-3 * ns;
  impl->most_tasks =
      repeats ? std::min(std::max<int64_t>(impl->tiles / 4, 2), impl->tiles) : impl->tiles;
  return ElementwiseKernel(std::move(impl));
}

// On to the next tile: its block, the outer index and where each operand lies.
void ElementwiseKernel::Impl::Advance(int64_t& block, int64_t* index,
                                      const std::byte** from) const {
  const size_t count = operands.size();
  if (!by_block) {
    for (size_t i = 0; i < count; ++i) from[i] += operands[i].block_bytes;
    if (++block < blocks) return;
    block = 0;
    for (size_t i = 0; i < count; ++i) from[i] -= blocks * operands[i].block_bytes;
  }
  for (size_t d = outer.size(); d-- > 0;) {
    for (size_t i = 0; i < count; ++i) from[i] += operands[i].outer_bytes[d];
    if (++index[d] < outer[d]) return;
    index[d] = 0;
    for (size_t i = 0; i < count; ++i) from[i] -= outer[d] * operands[i].outer_bytes[d];
  }
}

void ElementwiseKernel::Impl::RunTiles(int64_t begin, int64_t end, const void* const* in,
                                       std::byte* out) const {
  if (!by_block) return RunRange(begin % blocks, begin / blocks, end - begin, in, out);
  const int64_t outers = tiles / blocks;
  for (int64_t tile = begin, count; tile < end; tile += count) {
    count = std::min(end - tile, outers - tile % outers);
    RunRange(tile / outers, tile % outers, count, in, out);
  }
}

// So many tiles from a block of an outer index on.
void ElementwiseKernel::Impl::RunRange(int64_t block, int64_t outer_index, int64_t count,
                                       const void* const* in, std::byte* out) const {
  const int64_t most_rows = by_block ? std::min(rows, cut - block * rows) : rows;
  TileRunner runner(*program, rows * inner);
  const int64_t full = most_rows * inner;
  const size_t rank = outer.size();
  int64_t tile_dims[kMostRank + 1];
  int64_t index[kMostRank];
  const std::byte* from[TileProgram::kMaxInputs];
  assert(rank + inner_dims.size() < kMostRank);
  std::copy(inner_dims.begin(), inner_dims.end(), tile_dims + 1);
  const int tile_rank = static_cast<int>(inner_dims.size()) + 1;
  for (size_t i = 0; i < operands.size(); ++i) {
    from[i] = static_cast<const std::byte*>(in[i]) + block * operands[i].block_bytes;
  }
  for (int64_t d = static_cast<int64_t>(rank) - 1, rest = outer_index; d >= 0; --d) {
    index[d] = rest % outer[d];
    rest /= outer[d];
    for (size_t i = 0; i < operands.size(); ++i) from[i] += index[d] * operands[i].outer_bytes[d];
  }
  int64_t at = (outer_index * cut + block * rows) * inner * out_bytes;  // as if out were dense
  const bool is_apart = row_bytes > 0;
  alignas(64) std::byte staging[kStagingBytes];
  for (int64_t tile = 0; tile < count; ++tile) {
    const int64_t tile_rows = std::min(rows, cut - block * rows);
    for (size_t i = 0; i < operands.size(); ++i) runner.SetInput(static_cast<int>(i), from[i]);
    for (const TileProgram::Expansion& expansion : program->expansions) {
      if (expansion.invariant && !runner.first()) continue;
      tile_dims[0] = expansion.invariant ? most_rows : tile_rows;
      ExpandTile(runner.PlacePointer(1 + expansion.input), tile_dims,
                 operands[expansion.input].tile_strides.data(), tile_rank, expansion.element_bytes,
                 runner.PlacePointer(expansion.place));
    }
    runner.SetOutput(is_apart ? staging : out + at);
    Advance(block, index, from);
    // Between the operations of a chain memory would rest.
    if (program->ops.size() > 1 && tile + 1 < count) {
      for (size_t i = 0; i < operands.size(); ++i) {
        if (operands[i].streams) Prefetch(from[i], full * operands[i].element_bytes);
      }
    }
    runner.Run(tile_rows * inner, full);
    if (is_apart) StoreRows(staging, at, tile_rows * inner * out_bytes, out);
    at += (by_block ? cut : tile_rows) * inner * out_bytes;
  }
}

// `at` and `bytes` are as if the output were dense.
void ElementwiseKernel::Impl::StoreRows(const std::byte* from, int64_t at, int64_t bytes,
                                        std::byte* out) const {
  int64_t column = at % row_bytes;
  out += at / row_bytes * row_step_bytes;
  for (const std::byte* const end = from + bytes; from < end; out += row_step_bytes) {
    const int64_t count = std::min<int64_t>(row_bytes - column, end - from);
    std::memcpy(out + column, from, static_cast<size_t>(count));
    from += count;
    column = 0;
  }
}

void RunElementwise(const ElementwiseKernel& kernel, const void* const* in, void* out,
                    const Parallel& par) {
  const Impl& impl = kernel.impl();
  if (impl.elements == 0) return;
  std::byte* const bytes = static_cast<std::byte*>(out);
  if (par.threads <= 1) return impl.RunTiles(0, impl.tiles, in, bytes);
  const int64_t tasks = std::min(TaskCount(impl.us), impl.most_tasks);
  par.For(tasks, [&](int64_t task) {
    impl.RunTiles(impl.tiles * task / tasks, impl.tiles * (task + 1) / tasks, in, bytes);
  });
}

}  // namespace sardonyx
