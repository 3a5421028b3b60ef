#include "devices/cpu/index_lattice.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace sardonyx::cpu {
namespace {

// As it is kept in the cache, so that indices need not stay: whether it is one, `first`, strides.
constexpr int64_t kHeader = 2;

// The place that vector `i` of `depth` indices names, or -1 if one is outside of its axis.
template <typename Index>
int64_t PlaceOf(const Index* vectors, int64_t i, std::span<const int64_t> axes) {
  int64_t place = 0;
  for (size_t k = 0; k < axes.size(); ++k) {
    int64_t index = vectors[i * static_cast<int64_t>(axes.size()) + static_cast<int64_t>(k)];
    if (index < 0) index += axes[k];
    if (index < 0 || index >= axes[k]) return -1;
    place = place * axes[k] + index;
  }
  return place;
}

// Fills `strides` of `dims`, all of which are positive; false if places are no lattice.
template <typename Index>
bool Find(const Index* vectors, std::span<const int64_t> axes, std::span<const int64_t> dims,
          int64_t* first, int64_t* strides) {
  *first = PlaceOf(vectors, 0, axes);
  int64_t count = 1;
  for (size_t d = dims.size(); d-- > 0; count *= dims[d]) {
    strides[d] = dims[d] > 1 ? PlaceOf(vectors, count, axes) - *first : 0;
  }
  std::vector<int64_t> at(dims.size(), 0);
  int64_t expected = *first;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t place = PlaceOf(vectors, i, axes);
    if (place < 0 || place != expected) return false;
    for (size_t d = dims.size(); d-- > 0;) {
      expected += strides[d];
      if (++at[d] < dims[d]) break;
      expected -= dims[d] * strides[d];
      at[d] = 0;
    }
  }
  return true;
}

}  // namespace

bool IndexLattice::IsApart(std::span<const int64_t> dims) const {
  std::vector<std::pair<int64_t, int64_t>> steps;  // stride, size
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] > 1) steps.emplace_back(std::abs(strides[d]), dims[d]);
  }
  std::sort(steps.begin(), steps.end());
  int64_t reach = 0;  // of all smaller steps together
  for (const auto& [stride, size] : steps) {
    if (stride <= reach) return false;
    reach += stride * (size - 1);
  }
  return true;
}

std::optional<IndexLattice> LatticeOf(const BindRequest& request, const Operand& indices,
                                      std::span<const int64_t> axes, bool are_vectors) {
  const bool is_wide = indices.dtype == DType::kInt64;
  if (indices.constant == nullptr || (!is_wide && indices.dtype != DType::kInt32)) return {};
  if (indices.size() == 0) return {};
  std::span<const int64_t> dims = indices.dims;
  if (are_vectors) dims = dims.first(dims.size() - 1);
  const int64_t bytes = (kHeader + static_cast<int64_t>(dims.size())) * int64_t{sizeof(int64_t)};
  const std::string layout = fmt::format("lattice of [{}]", fmt::join(axes, ","));
  const auto pack = [&](const Tensor& source, void* to) {
    auto* const words = static_cast<int64_t*>(to);
    std::fill_n(words, kHeader + static_cast<int64_t>(dims.size()), 0);
    words[0] = is_wide ? Find(source.data<int64_t>(), axes, dims, &words[1], words + kHeader)
                       : Find(source.data<int32_t>(), axes, dims, &words[1], words + kHeader);
  };
  const auto packed = request.packs.Get(*indices.constant, indices.id, layout, bytes, pack);
  const auto* const words = static_cast<const int64_t*>(packed.get());
  if (words[0] == 0) return {};
  return IndexLattice{words[1], {words + kHeader, words + kHeader + dims.size()}};
}

}  // namespace sardonyx::cpu
