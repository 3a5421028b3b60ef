#include "kernels/pad.h"

#include <array>
#include <cstring>

#include "kernels/slices.h"

namespace sardonyx {
namespace {

template <typename Bits>
void Each(const std::vector<int64_t>& sources, const Bits* from, Bits value, Bits* to) {
  for (size_t i = 0; i < sources.size(); ++i) to[i] = sources[i] < 0 ? value : from[sources[i]];
}

template <typename Bits>
void PadAs(const PadPlan& plan, const Bits* x, Bits value, Bits* y, const Parallel& par) {
  const size_t rank = plan.axes.size();
  const PadAxis& last = plan.axes.back();
  const int64_t width = last.size(), before = static_cast<int64_t>(last.before.size());
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < rank; ++d) rows *= plan.axes[d].size();
  const Slices slices = Slice(rows, width * static_cast<int64_t>(sizeof(Bits)) / 16 + 8);
  // All axes but the last two change once in `middle` rows.
  const int64_t middle = rank > 1 ? plan.axes[rank - 2].size() : 1;
  const auto plane = [&](int64_t index) {
    const Bits* from = x;
    for (size_t d = rank < 2 ? 0 : rank - 2; d-- > 0 && from != nullptr;) {
      const int64_t size = plan.axes[d].size();
      const int64_t source = plan.axes[d].At(index % size);
      from = source < 0 ? nullptr : from + source * plan.in_strides[d];
      index /= size;
    }
    return from;
  };
  par.For(slices.tasks, [&](int64_t task) {
    int64_t row = slices.Begin(task), line = row % middle;
    const Bits* within = plane(row / middle);
    for (; row < slices.End(task, rows); ++row, ++line) {
      if (line == middle) {
        line = 0;
        within = plane(row / middle);
      }
      Bits* to = y + row * width;
      const Bits* from = within;
      if (rank > 1 && from != nullptr) {
        const int64_t source = plan.axes[rank - 2].At(line);
        from = source < 0 ? nullptr : from + source * plan.in_strides[rank - 2];
      }
      if (from == nullptr) {
        for (int64_t i = 0; i < width; ++i) to[i] = value;
        continue;
      }
      Each(last.before, from, value, to);
      std::memcpy(to + before, from + last.first, last.count * sizeof(Bits));
      Each(last.after, from, value, to + before + last.count);
    }
  });
}

}  // namespace

void Pad(const PadPlan& plan, const void* x, const void* value, void* y, const Parallel& par) {
  const auto run = [&]<typename Bits>(Bits one) {
    std::memcpy(&one, value, sizeof(Bits));
    PadAs(plan, static_cast<const Bits*>(x), one, static_cast<Bits*>(y), par);
  };
  switch (plan.element_bytes) {
    case 1: return run(uint8_t{});
    case 2: return run(uint16_t{});
    case 4: return run(uint32_t{});
    case 8: return run(uint64_t{});
    default: return run(std::array<uint64_t, 2>{});
  }
}

}  // namespace sardonyx
