#include "kernels/unique.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <numeric>

namespace sardonyx {
namespace {

// Few different elements are found by hashing, each task with a table that stays in its cache; more
// with one large table. Where they are to be in order and are many, all are sorted instead, by 11
// bits of their keys at a time, the lowest first, so that equal ones keep their order (radix sort:
// Knuth, volume 3, section 5.2.5); digits that all keys share cost nothing. Very few are sorted by
// comparison.
constexpr int64_t kMostSlots = 1 << 14;
constexpr int kDigitBits = 11;
constexpr int64_t kDigits = 1 << kDigitBits;
constexpr int64_t kFew = 1024;
constexpr int64_t kMostTasks = 8;
constexpr int64_t kTaskElements = 8192;  // and more

// Of an element: its key and where it lies. Of a table: a key and its group, 0 where it is free.
template <typename K>
struct Entry {
  K key;
  uint32_t place;
};

// Boundaries of tasks that depend on the number of elements alone.
struct Cut {
  int64_t count, tasks;

  Cut(int64_t count, int64_t tasks) : count(count), tasks(tasks) {}
  explicit Cut(int64_t count)
      : Cut(count, std::clamp<int64_t>(count / kTaskElements, 1, kMostTasks)) {}
  int64_t Begin(int64_t task) const { return count * task / tasks; }

  // Calls body(task, i) for all.
  template <typename Body>
  void ForEach(const Parallel& par, Body&& body) const {
    par.For(tasks, [&](int64_t task) {
      const int64_t end = Begin(task + 1);
      for (int64_t i = Begin(task); i < end; ++i) body(task, i);
    });
  }
};

// Results, and below them what finds them. Groups are of equal elements, in order of the output
// when FindUnique is done.
struct Groups {
  uint32_t* of;              // the group of each element
  uint32_t *first, *counts;  // of each group

  Groups(int64_t count, void* scratch)
      : of(static_cast<uint32_t*>(scratch)), first(of + count), counts(first + count) {}
};

// Slots of a table for all elements, of which a quarter to a half is taken at most.
int64_t LargeTable(const UniqueShape& shape) {
  return static_cast<int64_t>(std::bit_ceil(2 * static_cast<uint64_t>(shape.count)));
}

template <typename K>
struct Memory : Groups {
  uint32_t* places;             // of a group among others
  uint32_t (*digits)[kDigits];  // of each task: how many there are of each, then where they go
  Entry<K>*entries, *other;     // tables, or what is sorted; a second place for the latter

  Memory(const UniqueShape& shape, void* scratch)
      : Groups(shape.count, scratch), places(counts + shape.count) {
    // Aligned to 8 bytes: four numbers an element lie before.
    digits = reinterpret_cast<uint32_t(*)[kDigits]>(places + shape.count);
    entries = reinterpret_cast<Entry<K>*>(digits + kMostTasks);
    other = entries + shape.count;
  }
  static int64_t Bytes(const UniqueShape& shape) {
    const int64_t entries = shape.sorted ? 2 * shape.count : LargeTable(shape);
    return shape.count * 16 + kMostTasks * kDigits * 4 +
           entries * static_cast<int64_t>(sizeof(Entry<K>));
  }
  uint32_t* spare() const { return reinterpret_cast<uint32_t*>(other); }
};

template <typename K>
class Table {
 public:
  Table(Entry<K>* slots, int64_t size)
      : slots_(slots),
        mask_(size - 1),
        shift_(64 - std::countr_zero(static_cast<uint64_t>(size))) {}

  // Slots of a small one for each task: all together no more than twice the elements.
  static int64_t Slots(const Cut& cut) {
    const auto most = static_cast<uint64_t>(2 * cut.count / cut.tasks);
    return std::min(kMostSlots, static_cast<int64_t>(std::bit_floor(most)));
  }
  void Clear() { std::fill_n(slots_, mask_ + 1, Entry<K>{0, 0}); }
  void Prefetch(K key) const { __builtin_prefetch(&slots_[At(key)], 1); }
  // The slot of a key, or the free one where it belongs.
  Entry<K>& Find(K key) const {
    uint64_t at = At(key);
    while (slots_[at].place != 0 && slots_[at].key != key) at = (at + 1) & mask_;
    return slots_[at];
  }

 private:
  // The golden ratio's multiple: Knuth, volume 3, section 6.4.
  uint64_t At(K key) const { return key * uint64_t{0x9E3779B97F4A7C15U} >> shift_; }

  Entry<K>* slots_;
  uint64_t mask_;
  int shift_;
};

// Groups in the order of their first elements, if they fill no more than half of the slots that a
// task has; else -1.
template <typename K, typename Key>
int64_t FindByTables(const Cut& cut, int64_t slots, Memory<K> memory, Key&& key,
                     const Parallel& par) {
  constexpr int64_t kAhead = 8;  // slots are asked for before they are needed
  std::array<int64_t, kMostTasks> found = {};
  std::atomic<bool> too_many{false};
  par.For(cut.tasks, [&](int64_t task) {
    Table<K> table(memory.entries + task * slots, slots);
    table.Clear();
    const int64_t begin = cut.Begin(task), end = cut.Begin(task + 1);
    uint32_t *const first = memory.first + begin, *const counts = memory.counts + begin;
    int64_t groups = 0;
    for (int64_t i = begin; i < end; ++i) {
      const K bits = key(i);
      if (i + kAhead < end) table.Prefetch(key(i + kAhead));
      Entry<K>& slot = table.Find(bits);
      if (slot.place == 0) {
        if (groups == slots / 2 || too_many.load(std::memory_order_relaxed)) {
          too_many.store(true, std::memory_order_relaxed);
          return;
        }
        first[groups] = static_cast<uint32_t>(i);
        counts[groups] = 0;
        slot = {bits, static_cast<uint32_t>(++groups)};
      }
      ++counts[slot.place - 1];
      memory.of[i] = slot.place - 1;
    }
    found[task] = groups;
  });
  if (too_many) return -1;
  // The first table learns what the others found. Lists of groups move to the front meanwhile.
  const Table<K> all(memory.entries, slots);
  int64_t groups = found[0];
  for (int64_t task = 1; task < cut.tasks; ++task) {
    for (int64_t i = cut.Begin(task); i < cut.Begin(task) + found[task]; ++i) {
      const K bits = key(memory.first[i]);
      Entry<K>& slot = all.Find(bits);
      if (slot.place == 0) {
        if (groups == slots / 2) return -1;
        memory.first[groups] = memory.first[i];
        memory.counts[groups] = memory.counts[i];
        slot = {bits, static_cast<uint32_t>(++groups)};
      } else {
        memory.counts[slot.place - 1] += memory.counts[i];
      }
      memory.places[i] = slot.place - 1;
    }
  }
  cut.ForEach(par, [&](int64_t task, int64_t i) {
    if (task > 0) memory.of[i] = memory.places[cut.Begin(task) + memory.of[i]];
  });
  return groups;
}

template <typename K>
void SortBy(int shift, const Cut& cut, Memory<K>* memory, const Parallel& par) {
  const Entry<K>* const from = memory->entries;
  const auto digit = [shift](const Entry<K>& entry) { return entry.key >> shift & (kDigits - 1); };
  par.For(cut.tasks, [&](int64_t task) {
    uint32_t* const count = memory->digits[task];
    std::fill_n(count, kDigits, 0);
    const int64_t end = cut.Begin(task + 1);
    for (int64_t i = cut.Begin(task); i < end; ++i) ++count[digit(from[i])];
  });
  uint32_t sum = 0;
  for (int64_t d = 0; d < kDigits; ++d) {
    for (int64_t task = 0; task < cut.tasks; ++task) {
      const uint32_t count = memory->digits[task][d];
      memory->digits[task][d] = sum;
      sum += count;
    }
  }
  par.For(cut.tasks, [&](int64_t task) {
    uint32_t* const next = memory->digits[task];
    const int64_t end = cut.Begin(task + 1);
    for (int64_t i = cut.Begin(task); i < end; ++i) {
      memory->other[next[digit(from[i])]++] = from[i];
    }
  });
  std::swap(memory->entries, memory->other);
}

// Sorts by those bits of the keys that `differ` somewhere.
template <typename K>
void Sort(K differ, const Cut& cut, Memory<K>* memory, const Parallel& par) {
  if (cut.count <= kFew) {
    std::sort(memory->entries, memory->entries + cut.count,
              [](const Entry<K>& a, const Entry<K>& b) {
                return a.key != b.key ? a.key < b.key : a.place < b.place;
              });
    return;
  }
  for (int shift = 0; shift < static_cast<int>(std::bit_width(differ)); shift += kDigitBits) {
    if ((differ >> shift & (kDigits - 1)) != 0) SortBy(shift, cut, memory, par);
  }
}

// Sorts elements (or some of them: key(i) and place(i) for i below the count) by their keys.
template <typename K, typename Key, typename Place>
void SortKeys(const Cut& cut, Memory<K>* memory, Key&& key, Place&& place, const Parallel& par) {
  std::array<K, kMostTasks> differ = {};
  const K first = key(0);
  par.For(cut.tasks, [&](int64_t task) {
    K bits = 0;
    const int64_t end = cut.Begin(task + 1);
    for (int64_t i = cut.Begin(task); i < end; ++i) {
      const K own = key(i);
      bits |= own ^ first;
      memory->entries[i] = {own, place(i)};
    }
    differ[task] = bits;
  });
  K all = 0;
  for (const K bits : differ) all |= bits;
  Sort(all, cut, memory, par);
}

// Groups in the order of their keys.
template <typename K, typename Key>
int64_t FindBySorting(const Cut& cut, Memory<K>* memory, Key&& key, const Parallel& par) {
  SortKeys(cut, memory, key, [](int64_t i) { return static_cast<uint32_t>(i); }, par);
  const Entry<K>* const sorted = memory->entries;
  const auto starts = [&](int64_t i) { return i == 0 || sorted[i].key != sorted[i - 1].key; };
  std::array<int64_t, kMostTasks + 1> before = {};
  par.For(cut.tasks, [&](int64_t task) {
    int64_t count = 0;
    for (int64_t i = cut.Begin(task); i < cut.Begin(task + 1); ++i) count += starts(i) ? 1 : 0;
    before[task + 1] = count;
  });
  for (int64_t task = 0; task < cut.tasks; ++task) before[task + 1] += before[task];
  uint32_t* const begin = memory->places;
  par.For(cut.tasks, [&](int64_t task) {
    int64_t group = before[task] - 1;
    for (int64_t i = cut.Begin(task); i < cut.Begin(task + 1); ++i) {
      if (starts(i)) {
        begin[++group] = static_cast<uint32_t>(i);
        memory->first[group] = sorted[i].place;
      }
      memory->of[sorted[i].place] = static_cast<uint32_t>(group);
    }
  });
  const int64_t groups = before[cut.tasks];
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t end = g + 1 < groups ? begin[g + 1] : cut.count;
    memory->counts[g] = static_cast<uint32_t>(end) - begin[g];
  }
  return groups;
}

// Where groups go in the order of their keys.
template <typename K, typename Key>
void PlaceByKeys(int64_t groups, Memory<K>* memory, Key&& key, const Parallel& par) {
  const auto key_of = [&](int64_t g) { return key(memory->first[g]); };
  SortKeys(Cut(groups), memory, key_of, [](int64_t g) { return static_cast<uint32_t>(g); }, par);
  for (int64_t i = 0; i < groups; ++i) {
    memory->places[memory->entries[i].place] = static_cast<uint32_t>(i);
  }
}

template <typename K, typename Key>
int64_t FindGroups(const UniqueShape& shape, void* scratch, Key&& key, const Parallel& par) {
  Memory<K> memory(shape, scratch);
  const Cut cut(shape.count);
  int64_t groups = FindByTables(cut, Table<K>::Slots(cut), memory, key, par);
  if (!shape.sorted) {
    const Cut whole(shape.count, 1);
    return groups >= 0 ? groups : FindByTables(whole, LargeTable(shape), memory, key, par);
  }
  if (groups < 0) return FindBySorting(cut, &memory, key, par);
  PlaceByKeys(groups, &memory, key, par);
  for (uint32_t* list : {memory.first, memory.counts}) {
    uint32_t* const moved = memory.spare();
    for (int64_t g = 0; g < groups; ++g) moved[memory.places[g]] = list[g];
    std::copy_n(moved, groups, list);
  }
  cut.ForEach(par, [&](int64_t, int64_t i) { memory.of[i] = memory.places[memory.of[i]]; });
  return groups;
}

// Calls body with a type of the elements' size and one of their keys.
template <typename Body>
auto WithTypes(int element_bytes, Body&& body) {
  switch (element_bytes) {
    case 1: return body(uint8_t{}, uint32_t{});
    case 2: return body(uint16_t{}, uint32_t{});
    case 4: return body(uint32_t{}, uint32_t{});
    default: return body(uint64_t{}, uint64_t{});
  }
}

}  // namespace

int64_t UniqueScratchBytes(const UniqueShape& shape) {
  return shape.element_bytes == 8 ? Memory<uint64_t>::Bytes(shape) : Memory<uint32_t>::Bytes(shape);
}

int64_t FindUnique(const UniqueShape& shape, const void* x, void* scratch, const Parallel& par) {
  return WithTypes(shape.element_bytes, [&](auto element, auto key) {
    using T = decltype(element);
    using K = decltype(key);
    int64_t groups = 0;
    WithOrder<T>(shape.order, [&](auto ordered) {
      const auto key_of = [=, elements = static_cast<const T*>(x)](int64_t i) -> K {
        return ordered(elements[i]);
      };
      groups = FindGroups<K>(shape, scratch, key_of, par);
    });
    return groups;
  });
}

void WriteUnique(const UniqueShape& shape, const void* x, int64_t different, void* scratch,
                 const UniqueOutputs& outputs, const Parallel& par) {
  const Groups groups(shape.count, scratch);
  WithTypes(shape.element_bytes, [&](auto element, auto) {
    using T = decltype(element);
    Cut(different).ForEach(par, [&](int64_t, int64_t g) {
      static_cast<T*>(outputs.values)[g] = static_cast<const T*>(x)[groups.first[g]];
    });
  });
  const auto write = [&](int64_t count, const uint32_t* from, int64_t* to) {
    if (to == nullptr) return;
    Cut(count).ForEach(par, [&](int64_t, int64_t i) { to[i] = from[i]; });
  };
  write(different, groups.first, outputs.first);
  write(different, groups.counts, outputs.counts);
  write(shape.count, groups.of, outputs.inverse);
}

}  // namespace sardonyx
