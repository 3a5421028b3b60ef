// Unique: equal elements found by hashing keys, equal slices by sorting them.

#include <algorithm>
#include <bit>
#include <complex>
#include <limits>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "ops/core/reference.h"
#include "ops/lowering.h"

namespace sardonyx {
namespace core {
namespace {

constexpr uint64_t kSign = uint64_t{1} << 63;

// Keys order as the numbers do: -0 is 0, and every NaN is the one greatest.
uint64_t KeyOf(double value) {
  if (std::isnan(value)) return ~uint64_t{0};
  const auto bits = std::bit_cast<uint64_t>(value + 0.0);
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

// numpy sorts complex numbers by real, then imaginary part, those with a NaN behind all others.
template <typename Real>
void AppendComplexKeys(const Tensor& x, std::vector<uint64_t>* keys) {
  for (int64_t i = 0; i < x.size(); ++i) {
    const std::complex<Real> value = x.data<std::complex<Real>>()[i];
    const bool real_nan = std::isnan(value.real()), imaginary_nan = std::isnan(value.imag());
    keys->push_back(static_cast<uint64_t>(real_nan) * 2 + static_cast<uint64_t>(imaginary_nan));
    keys->push_back(KeyOf(value.real()));
    keys->push_back(KeyOf(value.imag()));
  }
}

// Keys of all elements, `width` each.
struct Keys {
  std::vector<uint64_t> values;
  int64_t width = 1;
  bool float_like = false;  // there may be NaNs
};

Keys KeysOf(const Tensor& x) {
  Keys keys;
  const size_t size = x.size();
  if (x.dtype() == DType::kString) {
    // A string's key is its rank among all.
    std::unordered_map<std::string_view, uint64_t> ranks;
    const std::string* text = x.data<std::string>();
    for (size_t i = 0; i < size; ++i) ranks.try_emplace(text[i], 0);
    std::vector<std::string_view> sorted;
    for (const auto& [known, rank] : ranks) sorted.push_back(known);
    std::sort(sorted.begin(), sorted.end());
    for (size_t i = 0; i < sorted.size(); ++i) ranks[sorted[i]] = i;
    for (size_t i = 0; i < size; ++i) keys.values.push_back(ranks[text[i]]);
  } else if (x.dtype() == DType::kComplex64 || x.dtype() == DType::kComplex128) {
    keys.width = 3;
    keys.float_like = true;
    if (x.dtype() == DType::kComplex64) AppendComplexKeys<float>(x, &keys.values);
    if (x.dtype() == DType::kComplex128) AppendComplexKeys<double>(x, &keys.values);
  } else if (IsFloat(x.dtype())) {
    keys.float_like = true;
    std::vector<double> values(size);
    ConvertElements(x.dtype(), x.raw(), DType::kFloat64, values.data(), x.size(), false);
    keys.values.resize(size);
    std::transform(values.begin(), values.end(), keys.values.begin(), KeyOf);
  } else {
    const bool is_signed = IsSigned(x.dtype());
    keys.values.resize(size);
    ConvertElements(x.dtype(), x.raw(), is_signed ? DType::kInt64 : DType::kUInt64,
                    keys.values.data(), x.size(), false);
    if (is_signed) {
      for (uint64_t& key : keys.values) key ^= kSign;
    }
  }
  return keys;
}

// The slices [outer, size, inner] -> [size, outer * inner], keys and all.
std::vector<uint64_t> SliceKeys(const Keys& keys, const AxisSplit& split) {
  if (split.outer == 1) return keys.values;
  std::vector<uint64_t> result(keys.values.size());
  const int64_t row = split.inner * keys.width;
  for (int64_t outer = 0; outer < split.outer; ++outer) {
    for (int64_t i = 0; i < split.size; ++i) {
      std::copy_n(keys.values.begin() + (outer * split.size + i) * row, row,
                  result.begin() + (i * split.outer + outer) * row);
    }
  }
  return result;
}

// Slices that are equal: the first of each, how many, and which group a slice belongs to.
struct Groups {
  std::vector<int64_t> first, count, inverse;
};

// Slices of one key, by open addressing.
Groups GroupKeys(const std::vector<uint64_t>& keys, bool sorted) {
  constexpr uint64_t kGolden = 0x9E3779B97F4A7C15U;  // Knuth, volume 3, section 6.4
  constexpr size_t kAhead = 8;                       // slots are asked for before they are needed
  const int log = std::bit_width(keys.size()) + 1;
  struct Slot {
    uint32_t tag;    // bits of the hash behind those that say where it begins
    uint32_t group;  // and 1; 0: free
  };
  std::vector<Slot> table(size_t{1} << log, Slot{0, 0});
  Groups groups;
  groups.inverse.resize(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint64_t hash = keys[i] * kGolden;
    if (i + kAhead < keys.size()) {
      __builtin_prefetch(&table[keys[i + kAhead] * kGolden >> (64 - log)], 1);
    }
    const auto tag = static_cast<uint32_t>(hash << log >> 32);
    size_t at = hash >> (64 - log);
    while (table[at].group > 0 &&
           (table[at].tag != tag || keys[groups.first[table[at].group - 1]] != keys[i])) {
      at = (at + 1) & (table.size() - 1);
    }
    if (table[at].group == 0) {
      groups.first.push_back(static_cast<int64_t>(i));
      groups.count.push_back(0);
      table[at] = {tag, static_cast<uint32_t>(groups.first.size())};
    }
    const uint32_t group = table[at].group - 1;
    ++groups.count[group];
    groups.inverse[i] = group;
  }
  if (!sorted) return groups;
  std::vector<std::pair<uint64_t, int64_t>> order(groups.first.size());
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = {keys[groups.first[i]], static_cast<int64_t>(i)};
  }
  std::sort(order.begin(), order.end());
  Groups result;
  std::vector<int64_t> place(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t group = order[i].second;
    result.first.push_back(groups.first[group]);
    result.count.push_back(groups.count[group]);
    place[group] = static_cast<int64_t>(i);
  }
  for (const int64_t group : groups.inverse) result.inverse.push_back(place[group]);
  return result;
}

// `nan_equal`: numpy finds NaNs equal among elements, not among the slices of a matrix.
Groups GroupSlices(const Keys& keys, const AxisSplit& split, bool nan_equal, bool sorted) {
  const std::vector<uint64_t> rows = SliceKeys(keys, split);
  const int64_t width = split.outer * split.inner * keys.width;
  constexpr size_t kMost = std::numeric_limits<uint32_t>::max();  // groups that GroupKeys counts
  if (width == 1 && (nan_equal || !keys.float_like) && rows.size() < kMost) {
    return GroupKeys(rows, sorted);
  }
  const auto row = [&](int64_t i) { return std::span(rows).subspan(i * width, width); };
  const auto has_nan = [&](int64_t i) {
    if (!keys.float_like) return false;
    const auto values = row(i);
    for (size_t k = 0; k < values.size(); k += static_cast<size_t>(keys.width)) {
      if (keys.width == 1 ? values[k] == ~uint64_t{0} : values[k] != 0) return true;
    }
    return false;
  };
  // The first key travels with the slice's number: most comparisons end there.
  std::vector<std::pair<uint64_t, int64_t>> order(split.size);
  for (int64_t i = 0; i < split.size; ++i) order[i] = {width > 0 ? rows[i * width] : 0, i};
  if (width <= 1) {
    std::sort(order.begin(), order.end());
  } else {
    std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
      if (a.first != b.first) return a.first < b.first;
      const auto p = row(a.second), q = row(b.second);
      const auto [at, other] = std::mismatch(p.begin(), p.end(), q.begin());
      return at == p.end() ? a.second < b.second : *at < *other;
    });
  }
  Groups groups;
  groups.inverse.resize(split.size);
  for (int64_t i = 0; i < split.size; ++i) {
    const int64_t slice = order[i].second;
    bool same = i > 0;
    if (same) {
      const auto p = row(slice), q = row(order[i - 1].second);
      const bool nan = has_nan(slice);
      same = nan ? nan_equal && has_nan(order[i - 1].second)
                 : std::equal(p.begin(), p.end(), q.begin());
    }
    if (!same) {
      groups.first.push_back(slice);
      groups.count.push_back(0);
    }
    ++groups.count.back();
    groups.inverse[slice] = static_cast<int64_t>(groups.first.size()) - 1;
  }
  if (sorted) return groups;
  // By first occurrence.
  std::vector<int64_t> by_first(groups.first.size()), place(groups.first.size());
  std::iota(by_first.begin(), by_first.end(), int64_t{0});
  std::sort(by_first.begin(), by_first.end(),
            [&](int64_t a, int64_t b) { return groups.first[a] < groups.first[b]; });
  Groups result;
  for (size_t i = 0; i < by_first.size(); ++i) {
    result.first.push_back(groups.first[by_first[i]]);
    result.count.push_back(groups.count[by_first[i]]);
    place[by_first[i]] = static_cast<int64_t>(i);
  }
  for (const int64_t group : groups.inverse) result.inverse.push_back(place[group]);
  return result;
}

void InferUnique(InferContext& context) {
  SymbolTable& symbols = context.symbols();
  const Dim count = symbols.Fresh();
  std::optional<Dims> values;
  Dim length = symbols.Fresh();
  if (context.attributes().Find("axis") == nullptr) {
    values = Dims{count};
    if (context.ranked(0)) length = symbols.Product(context.shape(0));
  } else if (context.ranked(0)) {
    const int axis = context.Axis(context.attributes().Int("axis"), context.rank(0));
    values = context.shape(0);
    length = (*values)[axis];
    (*values)[axis] = count;
  }
  context.Set(0, context.dtype(0), std::move(values));
  const Dim sizes[] = {count, length, count};
  for (size_t i = 1; i < context.output_count(); ++i) {
    context.Set(i, DType::kInt64, Dims{sizes[i - 1]});
  }
}

void ComputeUnique(ComputeContext& context) {
  const bool flat = context.attributes().Find("axis") == nullptr;
  const Tensor x = flat ? context.input(0).Reshaped({context.input(0).size()}) : context.input(0);
  const int64_t given = flat ? 0 : context.attributes().Int("axis");
  const int axis = static_cast<int>(given < 0 ? given + x.rank() : given);
  const AxisSplit split = SplitAt(x.dims(), axis);
  const Groups groups =
      GroupSlices(KeysOf(x), split, x.rank() == 1, context.attributes().Int("sorted", 1) != 0);
  std::vector<int64_t> dims = x.dims();
  dims[axis] = static_cast<int64_t>(groups.first.size());
  Tensor& y = context.Allocate(0, x.dtype(), dims);
  const int64_t row = dims[axis] * split.inner;
  if (x.rank() == 1) {
    CopyElements(x, y, y.size(), [&](int64_t i) { return std::pair(groups.first[i], i); });
  } else {
    CopyElements(x, y, y.size(), [&](int64_t i) {
      const int64_t slice = groups.first[i % row / split.inner];
      return std::pair((i / row * split.size + slice) * split.inner + i % split.inner, i);
    });
  }
  const std::vector<int64_t>* lists[] = {&groups.first, &groups.inverse, &groups.count};
  for (size_t i = 1; i < context.output_count(); ++i) context.Set(i, MakeVector(*lists[i - 1]));
}

}  // namespace

const CoreOp unique = {.name = "unique",
                       .inputs = "t",
                       .outputs = {1, 4},
                       .infer = InferUnique,
                       .reference = ComputeUnique};

}  // namespace core

namespace ops {

Outputs LowerUnique(Lowering& op) {
  Attributes attributes{{"sorted", op.Int("sorted", 1)}};
  if (op.HasAttribute("axis")) attributes.Set("axis", op.Int("axis"));
  return op.builder().MakeMany(core::unique, {op.in(0)}, std::move(attributes),
                               static_cast<int>(op.output_count()));
}

}  // namespace ops
}  // namespace sardonyx
