#include "kernels/gather.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/number_types.h"
#include "kernels/slices.h"
#include "kernels/tile_ops.h"

namespace sardonyx {
namespace {

// The index within [0, axis), or -1.
inline int64_t Wrap(int64_t index, int64_t axis) {
  if (index < 0) index += axis;
  return index >= 0 && index < axis ? index : -1;
}

template <typename Index>
struct Extremes {
  Index least = 0, most = 0;

  Extremes(const Index* indices, int64_t count, Index first = 0) : least(first), most(first) {
    for (int64_t i = 0; i < count; ++i) {
      least = std::min(least, indices[i]);
      most = std::max(most, indices[i]);
    }
  }
};

}  // namespace

template <typename Index>
int64_t FirstBadIndex(const Index* indices, int64_t count, int64_t axis) {
  // Blocks are checked as a whole, which vectorises.
  constexpr int64_t kBlock = 256;
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(count, begin + kBlock);
    const Extremes block(indices + begin, end - begin);
    if (block.least >= -axis && block.most < axis) continue;
    for (int64_t i = begin; i < end; ++i) {
      if (Wrap(indices[i], axis) < 0) return i;
    }
  }
  return -1;
}

namespace {

// The first of `count` tuples' indices that is outside of its dimension, or -1.
int64_t FirstBadOf(const int64_t* indices, int64_t count, std::span<const int64_t> dims) {
  int64_t place = 0;
  for (int64_t i = 0; i < count; ++i) {
    for (const int64_t size : dims) {
      if (Wrap(indices[place], size) < 0) return place;
      ++place;
    }
  }
  return -1;
}

// Whether no index is negative and each slice's are below those of the next: so do indices go up
// that a pool has found, plane after plane.
template <typename Index>
bool AreApart(const Index* indices, int64_t count, const Slices& slices, const Parallel& par) {
  constexpr int64_t kMost = 32;
  std::array<Index, kMost> least, most;
  if (slices.tasks < 2 || slices.tasks > kMost) return false;
  par.For(slices.tasks, [&](int64_t task) {
    const int64_t begin = slices.Begin(task);
    const Extremes slice(indices + begin, slices.End(task, count) - begin, indices[begin]);
    least[task] = slice.least;
    most[task] = slice.most;
  });
  if (least[0] < 0) return false;
  for (int64_t task = 1; task < slices.tasks; ++task) {
    if (least[task] <= most[task - 1]) return false;
  }
  return true;
}

constexpr int64_t kFewIndices = 256;
constexpr int64_t kShortLine = 1024;  // bytes

// Asks for what lies `bytes` behind a place, which may be anywhere.
void Prefetch(const void* from, uint64_t bytes) {
  __builtin_prefetch(reinterpret_cast<const void*>(  // NOLINT: no object may be there
      reinterpret_cast<uintptr_t>(from) + bytes));
}

// The least place of an index that is out of bounds, as tasks report it.
class BadPlace {
 public:
  void Report(int64_t place) {
    int64_t known = place_.load(std::memory_order_relaxed);
    while (place < known && !place_.compare_exchange_weak(known, place)) {
    }
  }
  int64_t OrNone() const { return place_ == kNone ? -1 : place_.load(); }

 private:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> place_{kNone};
};

// Calls body with the width, as a constant if it is that of an element.
template <typename Body>
void WithWidth(int64_t bytes, Body&& body) {
  switch (bytes) {
    case 1: return body(std::integral_constant<int64_t, 1>{});
    case 2: return body(std::integral_constant<int64_t, 2>{});
    case 4: return body(std::integral_constant<int64_t, 4>{});
    case 8: return body(std::integral_constant<int64_t, 8>{});
    case 16: return body(std::integral_constant<int64_t, 16>{});
    default: return body(bytes);
  }
}

// Rows along the last axis of an index tensor, and where they lie in the data.
class IndexRows {
 public:
  IndexRows(std::span<const int64_t> data_dims, std::span<const int64_t> index_dims, int64_t axis)
      : data_dims_(data_dims), index_dims_(index_dims), axis_(axis) {
    const int64_t rank = static_cast<int64_t>(index_dims.size());
    length = index_dims[rank - 1];
    for (int64_t i = 0; i + 1 < rank; ++i) count *= index_dims[i];
    for (int64_t i = axis + 1; i < rank; ++i) axis_stride *= data_dims[i];
    // Along a row the data advances by 1 unless the index alone says where to go.
    element_step = axis == rank - 1 ? 0 : 1;
    if (rank > 1) run_ = index_dims[rank - 2];
    if (rank > 1 && axis != rank - 2) run_step_ = data_dims[rank - 1];
  }

  // Calls body(row, Base(row)) for rows [begin, end) until it answers false.
  template <typename Body>
  void ForEach(int64_t begin, int64_t end, Body&& body) const {
    while (begin < end) {
      const int64_t last = std::min(end, (begin / run_ + 1) * run_);
      for (int64_t base = Base(begin); begin < last; ++begin, base += run_step_) {
        if (!body(begin, base)) return;
      }
    }
  }

  int64_t length = 0, count = 1, axis_stride = 1, element_step = 0;

 private:
  // Offset in the data of row `row`'s first element, index 0 on the axis.
  int64_t Base(int64_t row) const {
    int64_t base = 0, stride = data_dims_[data_dims_.size() - 1];
    for (int64_t i = static_cast<int64_t>(index_dims_.size()) - 2; i >= 0; --i) {
      if (i != axis_) base += row % index_dims_[i] * stride;
      row /= index_dims_[i];
      stride *= data_dims_[i];
    }
    return base;
  }

  std::span<const int64_t> data_dims_, index_dims_;
  int64_t axis_;
  // The rows along the last axis but one: their number, and how far apart they lie in the data.
  int64_t run_ = 1, run_step_ = 0;
};

template <typename T>
T Combine(ScatterReduction reduction, T old, T update) {
  switch (reduction) {
    case ScatterReduction::kNone: return update;
    // Through 64 bits, unsigned: integers wrap.
    case ScatterReduction::kAdd:
      if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<uint64_t>(old) + static_cast<uint64_t>(update));
      } else {
        return old + update;
      }
    case ScatterReduction::kMul:
      if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<uint64_t>(old) * static_cast<uint64_t>(update));
      } else {
        return old * update;
      }
    // An instruction each, and a branch that guesses well: that an update is a number.
    case ScatterReduction::kMin: {
      const T least = update < old ? update : old;
      return update == update ? least : update;
    }
    case ScatterReduction::kMax: {
      const T most = update > old ? update : old;
      return update == update ? most : update;
    }
  }
  return update;
}

// Calls body with the reduction as a constant.
template <typename Body>
void WithReduction(ScatterReduction reduction, Body&& body) {
  using R = ScatterReduction;
  switch (reduction) {
    case R::kNone: return body(std::integral_constant<R, R::kNone>{});
    case R::kAdd: return body(std::integral_constant<R, R::kAdd>{});
    case R::kMul: return body(std::integral_constant<R, R::kMul>{});
    case R::kMin: return body(std::integral_constant<R, R::kMin>{});
    case R::kMax: return body(std::integral_constant<R, R::kMax>{});
  }
}

}  // namespace

template <typename Index>
int64_t GatherRows(const void* data, const Index* indices, void* out, int64_t outer, int64_t axis,
                   int64_t row_bytes, int64_t count, const Parallel& par) {
  const int64_t bad = FirstBadIndex(indices, count, axis);
  if (bad >= 0) return bad;
  const char* from = static_cast<const char*>(data);
  char* to = static_cast<char*>(out);
  if (count <= kFewIndices && count > 0 && outer > 1) {
    int64_t places[kFewIndices];  // bytes from the beginning of an `axis`
    for (int64_t i = 0; i < count; ++i) places[i] = Wrap(indices[i], axis) * row_bytes;
    const Slices slices = Slice(outer, count * (row_bytes / 16 + 1));
    par.For(slices.tasks, [&](int64_t task) {
      WithWidth(row_bytes, [&](auto width) {
        // Copies of what bytes that are written might otherwise change.
        const int64_t size = count, end = slices.End(task, outer), *const at = places;
        const char* line = from + slices.Begin(task) * axis * width;
        char* copy = to + slices.Begin(task) * size * width;
        const int64_t step = axis * width;
        for (int64_t o = slices.Begin(task); o < end; ++o, line += step, copy += size * width) {
#pragma GCC unroll 8
          for (int64_t i = 0; i < size; ++i) {
            std::memcpy(copy + i * width, line + at[i], static_cast<size_t>(width));
          }
        }
      });
    });
    return -1;
  }
  const Slices slices = Slice(outer * count, row_bytes / 16 + 2);
  par.For(slices.tasks, [&](int64_t task) {
    WithWidth(row_bytes, [&](auto width) {
      const int64_t begin = slices.Begin(task), end = slices.End(task, outer * count);
      int64_t o = begin / count, i = begin % count;
      for (int64_t row = begin; row < end; i = 0, ++o) {
        const char* line = from + o * axis * width;
        for (const int64_t last = std::min(count, i + end - row); i < last; ++i, ++row) {
          const int64_t at = indices[i] + (indices[i] < 0 ? axis : 0);  // checked above
          std::memcpy(to + row * width, line + at * width, static_cast<size_t>(width));
        }
      }
    });
  });
  return -1;
}

template <typename Index>
int64_t GatherElements(const void* data, const Index* indices, void* out,
                       std::span<const int64_t> data_dims, std::span<const int64_t> index_dims,
                       int64_t axis, int element_bytes, const Parallel& par) {
  for (int64_t size : index_dims) {
    if (size == 0) return -1;
  }
  const IndexRows rows(data_dims, index_dims, axis);
  BadPlace bad;
  const Slices slices = Slice(rows.count, rows.length * 2);
  const int64_t size = data_dims[axis];
  par.For(slices.tasks, [&](int64_t task) {
    WithWidth(element_bytes, [&](auto width) {
      const int64_t length = rows.length, stride = rows.axis_stride;
      const auto gather = [=, &rows, &bad](auto along_rows) {
        const auto line = [=, &bad](int64_t row, int64_t base) {
          const char* from = static_cast<const char*>(data) + base * width;
          char* to = static_cast<char*>(out) + row * length * width;
          const Index* index = indices + row * length;
          // The processor cannot guess the order within a short line, but lines follow each other.
          if (along_rows && size * width <= kShortLine) {
            for (int64_t b = 0; b < size * width; b += 64) {
              Prefetch(from, static_cast<uint64_t>(4 * size * width + b));
            }
          }
          for (int64_t i = 0; i < length; ++i) {
            const int64_t at = index[i] + (index[i] < 0 ? size : 0);
            if (static_cast<uint64_t>(at) >= static_cast<uint64_t>(size)) [[unlikely]] {
              bad.Report(row * length + i);
              return false;
            }
            std::memcpy(to + i * width, from + (along_rows ? at : at * stride + i) * width,
                        static_cast<size_t>(width));
          }
          return true;
        };
        rows.ForEach(slices.Begin(task), slices.End(task, rows.count), line);
      };
      rows.element_step == 0 ? gather(std::true_type{}) : gather(std::false_type{});
    });
  });
  return bad.OrNone();
}

int64_t GatherNd(const void* data, const int64_t* indices, void* out, int64_t batch,
                 std::span<const int64_t> dims, int64_t count, int64_t slice_bytes,
                 const Parallel& par) {
  const int64_t depth = static_cast<int64_t>(dims.size());
  const int64_t bad = FirstBadOf(indices, batch * count, dims);
  if (bad >= 0) return bad;
  const Slices slices = Slice(batch * count, slice_bytes / 16 + 2 * depth + 2);
  par.For(slices.tasks, [&](int64_t task) {
    WithWidth(slice_bytes, [&](auto width) {
      const int64_t end = slices.End(task, batch * count);
      constexpr int64_t kBlock = 64;  // slices are asked for a block ahead of their copies
      int64_t places[kBlock];
      for (int64_t begin = slices.Begin(task); begin < end; begin += kBlock) {
        const int64_t size = std::min(kBlock, end - begin);
        for (int64_t i = 0; i < size; ++i) {
          const int64_t* index = indices + (begin + i) * depth;
          int64_t at = batch == 1 ? 0 : (begin + i) / count;
          for (int64_t k = 0; k < depth; ++k) at = at * dims[k] + Wrap(index[k], dims[k]);
          places[i] = at * width;
          Prefetch(data, static_cast<uint64_t>(places[i]));
        }
        for (int64_t i = 0; i < size; ++i) {
          std::memcpy(static_cast<char*>(out) + (begin + i) * width,
                      static_cast<const char*>(data) + places[i], static_cast<size_t>(width));
        }
      }
    });
  });
  return -1;
}

template <typename T, typename Index>
int64_t ScatterElements(T* out, const Index* indices, const T* updates,
                        std::span<const int64_t> data_dims, std::span<const int64_t> index_dims,
                        int64_t axis, ScatterReduction reduction, const Parallel& par) {
  for (int64_t size : index_dims) {
    if (size == 0) return -1;
  }
  const IndexRows rows(data_dims, index_dims, axis);
  const int64_t size = data_dims[axis];
  BadPlace bad;
  const bool by_rows = rows.element_step == 0;
  const auto scatter = [&](int64_t first_row, int64_t last_row, int64_t first, int64_t last) {
    const auto with = [&](auto fixed, auto along_rows) {
      // Copies of what elements that are written might otherwise change.
      const int64_t length = rows.length, stride = rows.axis_stride;
      rows.ForEach(first_row, last_row, [=, &bad](int64_t row, int64_t base) {
        const Index* index = indices + row * length;
        const T* update = updates + row * length;
        for (int64_t i = first; i < last; ++i) {
          auto at = static_cast<uint64_t>(index[i]);
          if (at >= static_cast<uint64_t>(size)) [[unlikely]] {  // is it negative?
            at += static_cast<uint64_t>(size);
            if (at >= static_cast<uint64_t>(size)) {
              bad.Report(row * length + i);
              return false;
            }
          }
          const auto place = static_cast<int64_t>(at);
          T& target = out[base + (along_rows ? place : place * stride + i)];
          target = Combine(fixed.value, target, update[i]);
        }
        return true;
      });
    };
    WithReduction(reduction, [&](auto fixed) {
      by_rows ? with(fixed, std::true_type{}) : with(fixed, std::false_type{});
    });
  };
  // Updates along the axis may meet: a task takes whole rows, or some columns of all of them.
  const Slices parts = Slice(rows.length, 2);
  if (par.threads > 1 && rows.count == 1 && by_rows && AreApart(indices, rows.length, parts, par)) {
    par.For(parts.tasks,
            [&](int64_t task) { scatter(0, 1, parts.Begin(task), parts.End(task, rows.length)); });
    return bad.OrNone();
  }
  const int64_t lines = by_rows ? rows.count : rows.length;
  const Slices slices =
      par.threads <= 1 ? Slices{1, lines}
                       : Slice(lines, 2 * (by_rows ? rows.length : rows.count), by_rows ? 1 : 64);
  par.For(slices.tasks, [&](int64_t task) {
    const int64_t begin = slices.Begin(task), end = slices.End(task, lines);
    by_rows ? scatter(begin, end, 0, rows.length) : scatter(0, rows.count, begin, end);
  });
  return bad.OrNone();
}

// ScatterNd of slices of one number. Places are found a block at a time, so that those far apart
// come from memory together.
template <ScatterReduction kReduction, typename T>
int64_t ScatterNumbers(T* out, const int64_t* indices, const T* updates,
                       std::span<const int64_t> dims, int64_t count) {
  constexpr int64_t kBlock = 128;
  const int64_t depth = static_cast<int64_t>(dims.size());
  int64_t places[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = std::min(kBlock, count - begin);
    const int64_t* block = indices + begin * depth;
    bool bad = false;
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t axis = dims[k];
      for (int64_t i = 0; i < size; ++i) {
        const int64_t at = Wrap(block[i * depth + k], axis);
        bad |= at < 0;
        places[i] = (k == 0 ? 0 : places[i] * axis) + at;
      }
    }
    if (bad) return begin * depth + FirstBadOf(block, size, dims);
    for (int64_t i = 0; i < size; ++i) __builtin_prefetch(out + places[i], 1);
    for (int64_t i = 0; i < size; ++i) {
      T& target = out[places[i]];
      target = Combine(kReduction, target, updates[begin + i]);
    }
  }
  return -1;
}

// The reduction on tiles, null without one.
template <typename T>
TileFn JoinOf(ScatterReduction reduction) {
  if (reduction == ScatterReduction::kNone) return nullptr;
  const TileOpcode op = reduction == ScatterReduction::kAdd   ? TileOpcode::kAdd
                        : reduction == ScatterReduction::kMul ? TileOpcode::kMul
                        : reduction == ScatterReduction::kMin ? TileOpcode::kMin
                                                              : TileOpcode::kMax;
  return std::is_same_v<T, float> ? FloatTileFn(op, 0) : TypedTileFn(op, DTypeOf<T>::value, 0);
}

template <typename T>
int64_t ScatterNd(T* out, const int64_t* indices, const T* updates, std::span<const int64_t> dims,
                  int64_t count, int64_t slice, ScatterReduction reduction, const Parallel& par) {
  if (slice == 1) {
    int64_t bad = -1;
    WithReduction(reduction, [&](auto fixed) {
      bad = ScatterNumbers<fixed.value>(out, indices, updates, dims, count);
    });
    return bad;
  }
  const int64_t depth = static_cast<int64_t>(dims.size());
  const int64_t bad = FirstBadOf(indices, count, dims);
  if (bad >= 0) return bad;
  const auto place = [=](int64_t i) {
    int64_t at = 0;
    for (int64_t k = 0; k < depth; ++k) at = at * dims[k] + Wrap(indices[i * depth + k], dims[k]);
    return at;
  };
  // Updates may meet, so each task looks for those that fall into its part of the output.
  constexpr int64_t kLongSlice = 256, kMostTasks = 8;
  int64_t rows = 1;
  for (const int64_t size : dims) rows *= size;
  const double us = 1e-4 * static_cast<double>(count) * static_cast<double>(slice);
  const int64_t tasks = par.threads <= 1 || slice < kLongSlice ? 1 : TaskCount(us, kMostTasks);
  const int64_t step = (rows + tasks - 1) / tasks;
  const TileFn join = JoinOf<T>(reduction);
  par.For(tasks, [&](int64_t task) {
    const int64_t begin = task * step, end = begin + step;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = place(i);
      if (row < begin || row >= end) continue;
      T* to = out + row * slice;
      const T* from = updates + i * slice;
      if (join == nullptr) {
        std::memcpy(to, from, static_cast<size_t>(slice) * sizeof(T));
      } else {
        join({.in = {to, from}, .out = to, .count = slice});
      }
    }
  });
  return -1;
}

#define SARDONYX_GATHER(Index)                                                                    \
  template int64_t FirstBadIndex<Index>(const Index*, int64_t, int64_t);                          \
  template int64_t GatherRows<Index>(const void*, const Index*, void*, int64_t, int64_t, int64_t, \
                                     int64_t, const Parallel&);                                   \
  template int64_t GatherElements<Index>(const void*, const Index*, void*,                        \
                                         std::span<const int64_t>, std::span<const int64_t>,      \
                                         int64_t, int, const Parallel&)
SARDONYX_GATHER(int32_t);
SARDONYX_GATHER(int64_t);
#undef SARDONYX_GATHER

#define SARDONYX_SCATTER(T)                                                                        \
  template int64_t ScatterElements<T, int32_t>(T*, const int32_t*, const T*,                       \
                                               std::span<const int64_t>, std::span<const int64_t>, \
                                               int64_t, ScatterReduction, const Parallel&);        \
  template int64_t ScatterElements<T, int64_t>(T*, const int64_t*, const T*,                       \
                                               std::span<const int64_t>, std::span<const int64_t>, \
                                               int64_t, ScatterReduction, const Parallel&);        \
  template int64_t ScatterNd<T>(T*, const int64_t*, const T*, std::span<const int64_t>, int64_t,   \
                                int64_t, ScatterReduction, const Parallel&);
SARDONYX_SCATTER(float)
SARDONYX_NUMBERS_BUT_FLOAT(SARDONYX_SCATTER)
#undef SARDONYX_SCATTER

}  // namespace sardonyx
