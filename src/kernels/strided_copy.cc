#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/strided_copy.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "base/round.h"
#include "kernels/slices.h"
#include "kernels/strided_copy.h"
#include "kernels/transpose.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// `count` copies of an element of 1, 2, 4 or 8 bytes, of any alignment.
void FillRow(void* out, int64_t count, const void* value, int element_bytes) {
  const auto fill = [&]<typename T>(T one) HWY_ATTR {
    std::memcpy(&one, value, sizeof(T));
    const hn::ScalableTag<T> d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto all = hn::Set(d, one);
    char* to = static_cast<char*>(out);
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      hn::StoreU(all, d, reinterpret_cast<T*>(to + i * static_cast<int64_t>(sizeof(T))));
    }
    for (; i < count; ++i) std::memcpy(to + i * static_cast<int64_t>(sizeof(T)), &one, sizeof(T));
  };
  switch (element_bytes) {
    case 1: return fill(uint8_t{});
    case 2: return fill(uint16_t{});
    case 4: return fill(uint32_t{});
    default: return fill(uint64_t{});
  }
}

// `count` copies of each of `rows` elements, one behind the other, by whole vectors: what they have
// too many is written over by the next ones.
void SpreadRows(const void* in, int64_t in_step, void* out, int64_t count, int64_t rows,
                int element_bytes) {
  const auto spread = [&]<typename T>(T one) HWY_ATTR {
    const hn::ScalableTag<T> d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const char* from = static_cast<const char*>(in);
    T* to = static_cast<T*>(out);
    for (int64_t left = count * rows; left > 0; left -= count, to += count) {
      std::memcpy(&one, from, sizeof(T));
      from += in_step * static_cast<int64_t>(sizeof(T));
      if (left < count + lanes) {
        for (int64_t i = 0; i < count; ++i) std::memcpy(to + i, &one, sizeof(T));
        continue;
      }
      const auto all = hn::Set(d, one);
      for (int64_t i = 0; i < count; i += lanes) hn::StoreU(all, d, to + i);
    }
  };
  switch (element_bytes) {
    case 1: return spread(uint8_t{});
    case 2: return spread(uint16_t{});
    case 4: return spread(uint32_t{});
    default: return spread(uint64_t{});
  }
}

// Copies `rows` rows of so many bytes that lie `in_step` and `out_step` apart. A call of memcpy
// costs more than a short row itself: these are copied by vectors, the last of which may begin
// before the end of the one before it.
HWY_INLINE void CopyRowsHere(const void* in, int64_t in_step, void* out, int64_t out_step,
                             int64_t bytes, int64_t rows) {
  const auto copy = [=](auto d) HWY_ATTR {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const uint8_t* from = static_cast<const uint8_t*>(in);
    uint8_t* to = static_cast<uint8_t*>(out);
    for (int64_t row = 0; row < rows; ++row, from += in_step, to += out_step) {
      for (int64_t i = 0; i + lanes < bytes; i += lanes) {
        hn::StoreU(hn::LoadU(d, from + i), d, to + i);
      }
      hn::StoreU(hn::LoadU(d, from + bytes - lanes), d, to + bytes - lanes);
    }
  };
  // Of less than a vector, two words, which may overlap.
  const auto copy_words = [=]<typename Word>(Word) HWY_ATTR {
    const uint8_t* from = static_cast<const uint8_t*>(in);
    uint8_t* to = static_cast<uint8_t*>(out);
    const int64_t second = bytes - static_cast<int64_t>(sizeof(Word));
    for (int64_t row = 0; row < rows; ++row, from += in_step, to += out_step) {
      Word begin, end;
      std::memcpy(&begin, from, sizeof(Word));
      std::memcpy(&end, from + second, sizeof(Word));
      std::memcpy(to, &begin, sizeof(Word));
      std::memcpy(to + second, &end, sizeof(Word));
    }
  };
  constexpr int64_t kShortRow = 512;  // in bytes
  const hn::CappedTag<uint8_t, 16> short_vector;
  const hn::CappedTag<uint8_t, 32> vector;
  if (bytes == 0) return;
  if (bytes < static_cast<int64_t>(hn::Lanes(short_vector))) {
    if (bytes >= 8) return copy_words(uint64_t{});
    if (bytes >= 4) return copy_words(uint32_t{});
    return bytes >= 2 ? copy_words(uint16_t{}) : copy_words(uint8_t{});
  }
  if (bytes > kShortRow) {
    const char* from = static_cast<const char*>(in);
    char* to = static_cast<char*>(out);
    for (int64_t row = 0; row < rows; ++row, from += in_step, to += out_step) {
      std::memcpy(to, from, static_cast<size_t>(bytes));
    }
  } else if (bytes < static_cast<int64_t>(hn::Lanes(vector))) {
    copy(short_vector);
  } else {
    copy(vector);
  }
}

void CopyRows(const void* in, int64_t in_step, void* out, int64_t out_step, int64_t bytes,
              int64_t rows) {
  CopyRowsHere(in, in_step, out, out_step, bytes, rows);
}

// each(part, first row, where the part begins in a row of the whole, bytes of that row, rows), for
// rows [begin, end): of short ones a few at a time, so that the whole is written or read onwards.
template <typename Each>
HWY_INLINE void EachBlockOfParts(std::span<const int64_t> bytes, int64_t begin, int64_t end,
                                 const Each& each) {
  constexpr int64_t kBlockBytes = 512;
  const int64_t whole = std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
  const int64_t block = std::max<int64_t>(1, kBlockBytes / std::max<int64_t>(whole, 1));
  for (int64_t row = begin; row < end; row += block) {
    const int64_t count = std::min(block, end - row);
    int64_t at = 0;
    for (size_t part = 0; part < bytes.size(); at += bytes[part++]) {
      each(part, row, at, whole, count);
    }
  }
}

void JoinRange(std::span<const int64_t> bytes, int64_t begin, int64_t end, const void* const* parts,
               void* whole) {
  EachBlockOfParts(bytes, begin, end,
                   [&](size_t part, int64_t row, int64_t at, int64_t step, int64_t count) HWY_ATTR {
                     const int64_t size = bytes[part];
                     CopyRowsHere(static_cast<const char*>(parts[part]) + row * size, size,
                                  static_cast<char*>(whole) + row * step + at, step, size, count);
                   });
}

void SplitRange(std::span<const int64_t> bytes, int64_t begin, int64_t end, const void* whole,
                void* const* parts) {
  EachBlockOfParts(bytes, begin, end,
                   [&](size_t part, int64_t row, int64_t at, int64_t step, int64_t count) HWY_ATTR {
                     const int64_t size = bytes[part];
                     CopyRowsHere(static_cast<const char*>(whole) + row * step + at, step,
                                  static_cast<char*>(parts[part]) + row * size, size, size, count);
                   });
}

}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {
namespace {

HWY_EXPORT(FillRow);
HWY_EXPORT(SpreadRows);
HWY_EXPORT(CopyRows);
HWY_EXPORT(JoinRange);
HWY_EXPORT(SplitRange);

// An element of any alignment and origin: short rows that are copied as one element are aligned
// only to what they consist of.
template <typename T>
struct __attribute__((packed, may_alias)) Element {
  T value;
};
struct Pair {
  uint64_t low, high;
};

// Calls body with an element of that width.
template <typename Body>
void WithElement(int element_bytes, Body&& body) {
  switch (element_bytes) {
    case 1: return body(Element<uint8_t>{});
    case 2: return body(Element<uint16_t>{});
    case 4: return body(Element<uint32_t>{});
    case 8: return body(Element<uint64_t>{});
    default: return body(Element<Pair>{});
  }
}

// A call costs more than so many bytes of one element.
constexpr int64_t kShortSpread = 256;
constexpr int64_t kChunkBytes = int64_t{64} << 10;

int64_t TasksForBytes(int64_t bytes) { return TaskCount(5e-5 * static_cast<double>(bytes)); }

template <typename T>
void TransposeElements(const T* in, int64_t in_stride, T* out, int64_t out_stride, int64_t rows,
                       int64_t cols) {
  constexpr int64_t kTile = 16;
  for (int64_t j0 = 0; j0 < cols; j0 += kTile) {
    const int64_t j1 = std::min(cols, j0 + kTile);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = j0; j < j1; ++j) out[i * out_stride + j] = in[j * in_stride + i];
    }
  }
}

using Dim = StridedCopyPlan::Dim;
using Method = StridedCopyPlan::Method;

template <typename T>
void FillElements(T* out, int64_t count, T element) {
  if constexpr (sizeof(T) <= 8) {
    HWY_DYNAMIC_DISPATCH(FillRow)(out, count, &element, sizeof(T));
  } else {
    std::fill_n(out, count, element);
  }
}

template <typename T>
void CopyUnit(Method method, const T* in, T* out, Dim rows, Dim cols) {
  constexpr int64_t kWidth = sizeof(T);
  switch (method) {
    case Method::kNothing: return;
    case Method::kRows:
      return HWY_DYNAMIC_DISPATCH(CopyRows)(in, rows.in_stride * kWidth, out,
                                            rows.out_stride * kWidth, cols.size * kWidth,
                                            rows.size);
    case Method::kSpread:
      if (rows.out_stride == cols.size && cols.size * kWidth <= kShortSpread && kWidth <= 8) {
        return HWY_DYNAMIC_DISPATCH(SpreadRows)(in, rows.in_stride, out, cols.size, rows.size,
                                                kWidth);
      }
      for (int64_t i = 0; i < rows.size; ++i) {
        FillElements(out + i * rows.out_stride, cols.size, in[i * rows.in_stride]);
      }
      return;
    case Method::kTranspose:
      if constexpr (sizeof(T) <= 8) {
        TransposeMatrix(in, cols.in_stride, out, rows.out_stride, rows.size, cols.size, sizeof(T));
      } else {
        TransposeElements(in, cols.in_stride, out, rows.out_stride, rows.size, cols.size);
      }
      return;
    case Method::kElements: break;
  }
  for (int64_t i = 0; i < rows.size; ++i) {
    const T* from = in + i * rows.in_stride;
    T* to = out + i * rows.out_stride;
#pragma GCC unroll 4
    for (int64_t j = 0; j < cols.size; ++j) to[j * cols.out_stride] = from[j * cols.in_stride];
  }
}

// Drops dimensions of size 1, makes output strides positive, orders by them and merges neighbours.
void Collapse(StridedCopyPlan& plan) {
  int rank = plan.rank;
  auto& dims = plan.dims;
  for (int i = 0; i < rank; ++i) {
    if (dims[i].out_stride >= 0) continue;
    plan.in_offset += (dims[i].size - 1) * dims[i].in_stride * plan.element_bytes;
    plan.out_offset += (dims[i].size - 1) * dims[i].out_stride * plan.element_bytes;
    dims[i].in_stride = -dims[i].in_stride;
    dims[i].out_stride = -dims[i].out_stride;
  }
  std::sort(dims.begin(), dims.begin() + rank,
            [](const Dim& a, const Dim& b) { return a.out_stride > b.out_stride; });
  int merged = 0;
  for (int i = 1; i < rank; ++i) {
    Dim& outer = dims[merged];
    const Dim& inner = dims[i];
    if (outer.in_stride == inner.in_stride * inner.size &&
        outer.out_stride == inner.out_stride * inner.size) {
      outer = {outer.size * inner.size, inner.in_stride, inner.out_stride};
    } else {
      dims[++merged] = inner;
    }
  }
  plan.rank = rank = merged + 1;
  // A short contiguous row whose width is a power of two becomes one wider element.
  const Dim last = dims[rank - 1];
  const int64_t width = last.size * plan.element_bytes;
  if (rank > 1 && last.in_stride == 1 && last.out_stride == 1 &&
      (width == 2 || width == 4 || width == 8 || width == 16) &&
      std::all_of(dims.begin(), dims.begin() + rank - 1, [&](const Dim& dim) {
        return dim.in_stride % last.size == 0 && dim.out_stride % last.size == 0;
      })) {
    plan.rank = rank = rank - 1;
    plan.element_bytes = static_cast<int>(width);
    for (int i = 0; i < rank; ++i) {
      dims[i].in_stride /= last.size;
      dims[i].out_stride /= last.size;
    }
  }
}

Method ChooseMethod(StridedCopyPlan& plan) {
  auto& dims = plan.dims;
  const Dim last = dims[plan.rank - 1];
  if (last.out_stride != 1) return Method::kElements;
  if (last.in_stride == 1) return Method::kRows;
  if (last.in_stride == 0) return Method::kSpread;
  for (int i = 0; i + 1 < plan.rank; ++i) {
    if (dims[i].in_stride != 1) continue;
    std::rotate(dims.begin() + i, dims.begin() + i + 1, dims.begin() + plan.rank - 1);
    return Method::kTranspose;
  }
  return Method::kElements;
}

// A unit, the rows of one dimension, costs as much as some of them: where that is shorter than the
// next one (tiles of small planes), the two change places, if what both span stays in the cache; or
// a part of the next one's that divides it.
void LengthenUnits(StridedCopyPlan& plan) {
  constexpr int64_t kCacheBytes = 1 << 14;
  if (plan.rank < 3 || plan.rank == StridedCopyPlan::kMaxRank) return;
  const Dim rows = plan.dims[plan.rank - 2], next = plan.dims[plan.rank - 3];
  const int64_t most = kCacheBytes / (next.out_stride * plan.element_bytes);
  int64_t part = std::min(most, next.size);
  while (part > rows.size && next.size % part != 0) --part;
  if (part <= rows.size) return;
  Dim* at = &plan.dims[plan.rank - 3];
  if (part < next.size) {
    plan.dims[plan.rank] = plan.dims[plan.rank - 1];
    *at++ = {next.size / part, next.in_stride * part, next.out_stride * part};
    ++plan.rank;
  }
  *at++ = rows;
  *at = {part, next.in_stride, next.out_stride};
}

}  // namespace

StridedCopyPlan PrepareStridedCopy(std::span<const int64_t> dims,
                                   std::span<const int64_t> in_strides,
                                   std::span<const int64_t> out_strides, int element_bytes) {
  StridedCopyPlan plan;
  plan.element_bytes = element_bytes;
  int64_t elements = 1;
  for (int64_t size : dims) {
    if (size == 0) return plan;
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    elements *= dims[i];
    plan.dims[plan.rank++] = {dims[i], in_strides[i], out_strides[i]};
  }
  if (plan.rank == 0) plan.dims[plan.rank++] = {1, 1, 1};
  const int64_t bytes = elements * element_bytes;
  Collapse(plan);
  plan.method = ChooseMethod(plan);
  if (plan.method == Method::kRows) LengthenUnits(plan);

  const int64_t row_bytes =
      (plan.rank == 1 ? 1 : plan.dims[plan.rank - 1].size) * plan.element_bytes;
  const int64_t size = plan.dims[std::max(0, plan.rank - 2)].size;
  plan.chunk = std::clamp<int64_t>(kChunkBytes / row_bytes, 1, size);
  if (plan.method == Method::kTranspose) {
    const int64_t most = row_bytes <= 32 ? 256 : 64;
    plan.chunk = CeilDiv(size, CeilDiv(size, most));
  }
  const int64_t tasks = TasksForBytes(bytes);
  int64_t outer = 1;
  for (int i = 0; i + 2 < plan.rank; ++i) outer *= plan.dims[i].size;
  const auto chunks = [&] { return (size + plan.chunk - 1) / plan.chunk; };
  // Few planes of few rows: narrower ones, for more tasks, but as many as 16 bytes have.
  const int64_t least = std::max<int64_t>(8, 16 / plan.element_bytes);
  while (plan.method == Method::kTranspose && plan.chunk >= 2 * least && outer * chunks() < tasks) {
    plan.chunk = (plan.chunk + 1) / 2;
  }
  plan.chunks = chunks();
  plan.units = outer * plan.chunks;
  plan.units_per_task = (plan.units + tasks - 1) / tasks;
  return plan;
}

void StridedCopy(const StridedCopyPlan& plan, const void* in, void* out, const Parallel& par) {
  if (plan.method == Method::kNothing) return;
  const int outer_rank = std::max(0, plan.rank - 2);
  const Dim rows = plan.dims[outer_rank];
  const Dim cols = plan.rank == 1 ? Dim{1, 1, 1} : plan.dims[plan.rank - 1];
  const int64_t tasks = (plan.units + plan.units_per_task - 1) / plan.units_per_task;
  par.For(tasks, [&](int64_t task) {
    const int64_t begin = task * plan.units_per_task;
    const int64_t end = std::min(plan.units, begin + plan.units_per_task);
    std::array<int64_t, StridedCopyPlan::kMaxRank> index;
    int64_t chunk = begin % plan.chunks;
    int64_t in_at = 0, out_at = 0;
    for (int64_t i = outer_rank - 1, rest = begin / plan.chunks; i >= 0; --i) {
      index[i] = rest % plan.dims[i].size;
      rest /= plan.dims[i].size;
      in_at += index[i] * plan.dims[i].in_stride;
      out_at += index[i] * plan.dims[i].out_stride;
    }
    WithElement(plan.element_bytes, [&]<typename T>(T) {
      const T* from = reinterpret_cast<const T*>(static_cast<const char*>(in) + plan.in_offset);
      T* to = reinterpret_cast<T*>(static_cast<char*>(out) + plan.out_offset);
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t first = chunk * plan.chunk;
        const int64_t count = std::min(plan.chunk, rows.size - first);
        const T* unit_in = from + in_at + first * rows.in_stride;
        T* unit_out = to + out_at + first * rows.out_stride;
        if (plan.rank == 1) {
          CopyUnit(plan.method, unit_in, unit_out, Dim{1, 0, 0},
                   Dim{count, rows.in_stride, rows.out_stride});
        } else {
          CopyUnit(plan.method, unit_in, unit_out, Dim{count, rows.in_stride, rows.out_stride},
                   cols);
        }
        if (++chunk < plan.chunks) continue;
        chunk = 0;
        for (int i = outer_rank - 1; i >= 0; --i) {
          in_at += plan.dims[i].in_stride;
          out_at += plan.dims[i].out_stride;
          if (++index[i] < plan.dims[i].size) break;
          in_at -= plan.dims[i].size * plan.dims[i].in_stride;
          out_at -= plan.dims[i].size * plan.dims[i].out_stride;
          index[i] = 0;
        }
      }
    });
  });
}

namespace {

// each(begin, end), the rows of a task.
template <typename Each>
void ForRowsOfParts(std::span<const int64_t> bytes, int64_t rows, const Parallel& par,
                    const Each& each) {
  const int64_t whole = std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
  const int64_t tasks = std::min(rows, TasksForBytes(rows * whole));
  par.For(tasks, [&](int64_t task) { each(rows * task / tasks, rows * (task + 1) / tasks); });
}

}  // namespace

void JoinRows(std::span<const int64_t> bytes, int64_t rows, const void* const* parts, void* whole,
              const Parallel& par) {
  ForRowsOfParts(bytes, rows, par, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(JoinRange)(bytes, begin, end, parts, whole);
  });
}

void SplitRows(std::span<const int64_t> bytes, int64_t rows, const void* whole, void* const* parts,
               const Parallel& par) {
  ForRowsOfParts(bytes, rows, par, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(SplitRange)(bytes, begin, end, whole, parts);
  });
}

void Fill(void* out, int64_t count, const void* value, int element_bytes, const Parallel& par) {
  const int64_t tasks = TasksForBytes(count * element_bytes);
  const int64_t step = (count + tasks - 1) / tasks;
  par.For(tasks, [&](int64_t task) {
    const int64_t begin = std::min(count, task * step);
    WithElement(element_bytes, [&]<typename T>(T element) {
      std::memcpy(&element, value, sizeof(T));
      FillElements(static_cast<T*>(out) + begin, std::min(step, count - begin), element);
    });
  });
}

}  // namespace sardonyx
#endif  // HWY_ONCE
