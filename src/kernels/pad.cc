#include "kernels/pad.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/slices.h"

namespace sardonyx {
namespace {

constexpr int64_t kShortRow = 128;  // bytes

template <typename Bits>
void EachPiece(const std::vector<PadPlan::Piece>& pieces, const Bits* from, Bits value, Bits* to) {
  for (const PadPlan::Piece& piece : pieces) {
    if (piece.first < 0) {
      Fill(to, piece.count, &value, sizeof(Bits), Parallel{});
    } else {
      std::memcpy(to, from + piece.first, piece.count * sizeof(Bits));
    }
    to += piece.count;
  }
}

template <typename Bits>
void Each(const std::vector<int64_t>& sources, const std::vector<PadPlan::Piece>& pieces,
          const Bits* from, Bits value, Bits* to) {
  if (!pieces.empty()) return EachPiece(pieces, from, value, to);
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
    const int64_t end = slices.End(task, rows);
    int64_t row = slices.Begin(task), line = row % middle;
    const Bits* within = plane(row / middle);
    const int64_t first_plane = (row + middle - 1) / middle;
    for (; row < end; ++row, ++line) {
      Bits* to = y + row * width;
      if (line == middle) {
        line = 0;
        const Bits* const before_it = within;
        within = plane(row / middle);
        // The edge repeats whole planes.
        if (within == before_it && within != nullptr && row / middle > first_plane &&
            end - row >= middle) {
          std::memcpy(to, to - middle * width, middle * width * sizeof(Bits));
          row += middle - 1;
          line = middle - 1;
          continue;
        }
      }
      if (within == nullptr) {
        const int64_t alike = std::min(middle - line, end - row);
        Fill(to, alike * width, &value, sizeof(Bits), Parallel{});
        row += alike - 1;
        line += alike - 1;
        continue;
      }
      const Bits* from = within;
      if (rank > 1) {
        const int64_t source = plan.axes[rank - 2].At(line);
        from = source < 0 ? nullptr : from + source * plan.in_strides[rank - 2];
      }
      if (from == nullptr) {
        Fill(to, width, &value, sizeof(Bits), Parallel{});
        continue;
      }
      Each(last.before, plan.before, from, value, to);
      std::memcpy(to + before, from + last.first, last.count * sizeof(Bits));
      Each(last.after, plan.after, from, value, to + before + last.count);
    }
  });
}

// Empty if they are short.
std::vector<PadPlan::Piece> PiecesOf(const std::vector<int64_t>& sources) {
  constexpr size_t kLeast = 8;  // elements of a piece, on average
  std::vector<PadPlan::Piece> pieces;
  for (const int64_t source : sources) {
    const bool follows =
        !pieces.empty() && (source < 0 ? pieces.back().first < 0
                                       : pieces.back().first >= 0 &&
                                             source == pieces.back().first + pieces.back().count);
    if (follows) {
      ++pieces.back().count;
    } else {
      pieces.push_back({source < 0 ? -1 : source, 1});
    }
  }
  if (pieces.size() * kLeast > sources.size()) pieces.clear();
  return pieces;
}

}  // namespace

void PreparePad(PadPlan* plan) {
  std::vector<int64_t> counts, to;
  int64_t all = 1;
  bool is_of_value = true;
  plan->inside_x = plan->inside_y = 0;
  for (const PadAxis& axis : plan->axes) {
    for (const std::vector<int64_t>* sources : {&axis.before, &axis.after}) {
      is_of_value = is_of_value && std::all_of(sources->begin(), sources->end(),
                                               [](int64_t source) { return source < 0; });
    }
    counts.push_back(axis.count);
  }
  for (size_t d = plan->axes.size(); d-- > 0; all *= plan->axes[d].size()) {
    to.insert(to.begin(), all);
    plan->inside_x += plan->axes[d].first * plan->in_strides[d];
    plan->inside_y += static_cast<int64_t>(plan->axes[d].before.size()) * all;
  }
  plan->before = PiecesOf(plan->axes.back().before);
  plan->after = PiecesOf(plan->axes.back().after);
  plan->fills_first =
      is_of_value && counts.size() > 1 && counts.back() * plan->element_bytes < kShortRow;
  if (plan->fills_first) {
    plan->inside = PrepareStridedCopy(counts, plan->in_strides, to, plan->element_bytes);
  }
}

void Pad(const PadPlan& plan, const void* x, const void* value, void* y, const Parallel& par) {
  if (plan.fills_first) {
    int64_t all = 1;
    for (const PadAxis& axis : plan.axes) all *= axis.size();
    Fill(y, all, value, plan.element_bytes, par);
    StridedCopy(plan.inside, static_cast<const char*>(x) + plan.inside_x * plan.element_bytes,
                static_cast<char*>(y) + plan.inside_y * plan.element_bytes, par);
    return;
  }
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
