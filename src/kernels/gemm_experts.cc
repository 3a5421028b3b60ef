#include "kernels/gemm_experts.h"

#include <algorithm>

#include "base/round.h"
#include "kernels/gemm.h"
#include "kernels/gemv.h"
#include "kernels/scratch_slots.h"

namespace sardonyx {
namespace {

// Rows of one expert that are gathered at a time: enough for its matrix to come at no cost.
constexpr int64_t kMostRows = 256;

// Rows of one expert: places [begin, begin + count) of the order.
struct Group {
  int64_t expert, begin, count;
};

GemmShape ShapeOf(const ExpertMatrices& b, int64_t rows, int64_t lda) {
  GemmShape shape;
  shape.m = rows;
  shape.n = b.n;
  shape.k = b.k;
  shape.lda = lda;
  shape.ldb = b.k_first ? b.n : b.k;
  shape.ldc = b.n;
  shape.b_transposed = !b.k_first;
  return shape;
}

// Where things lie in scratch.
struct Layout {
  int64_t places;     // rows * slots
  int64_t most_rows;  // of a group
  int64_t most_groups;
  int64_t lda;                    // of gathered rows: no page apart
  int64_t counts, order, groups;  // bytes ahead
  int64_t x_bytes, y_bytes;       // of gathered rows, and of their results

  Layout(const ExpertMatrices& b, bool packed, int64_t rows, int64_t slots)
      : places(rows * slots), most_rows(std::min(places, kMostRows)), lda(RoundUp(b.k, 16) + 16) {
    // Matrices as they lie are best read by few rows.
    if (!packed && rows <= kGemvRows) most_rows = std::min(most_rows, kGemvRows);
    most_groups = std::min(places, b.experts) + places / std::max<int64_t>(most_rows, 1);
    counts = AlignBytes((b.experts + 1) * int64_t{8});
    order = AlignBytes(places * int64_t{8});
    groups = AlignBytes(most_groups * static_cast<int64_t>(sizeof(Group)));
    x_bytes = AlignBytes(most_rows * lda * 4);
    y_bytes = AlignBytes(most_rows * b.n * 4);
  }
  int64_t Ahead() const { return counts + order + groups; }

  // Of a product with any number of rows that a group has.
  int64_t ProductBytes(const ExpertMatrices& b, bool packed, int threads) const {
    size_t most = 0;
    for (int64_t m = 1; m <= most_rows; ++m) {
      most = std::max(most, b.is_narrow ? GemmNarrowScratchBytes(b.narrow, m, lda, threads)
                                        : GemmScratchBytes(ShapeOf(b, m, lda), packed, threads));
    }
    return AlignBytes(static_cast<int64_t>(most));
  }
};

struct Context {
  const ExpertMatrices& b;
  const Layout& layout;
  int64_t places_of_row;  // of x
  const float* x;
  const float* bias;
  float* y;
  const int64_t* order;
};

// Gathers the rows of a group, multiplies them and puts the results where they belong.
void RunGroup(const Context& at, const Group& group, float* buffer, const Parallel& par) {
  const ExpertMatrices& b = at.b;
  const int64_t m = group.count, parts = CeilDiv(m, 16);
  const int64_t* order = at.order + group.begin;
  const auto rows_of = [&](int64_t part, const auto& body) {
    for (int64_t i = part * 16; i < std::min(m, part * 16 + 16); ++i) body(i);
  };
  // One row is read and written where it lies.
  const bool is_one = m == 1;
  const float* from = is_one ? at.x + order[0] / at.places_of_row * b.k : buffer;
  float* const results = buffer + at.layout.x_bytes / 4;
  float* to = is_one ? at.y + order[0] * b.n : results;
  void* const scratch = results + at.layout.y_bytes / 4;
  if (!is_one) {
    par.For(parts, [&](int64_t part) {
      rows_of(part, [&](int64_t i) {
        std::copy_n(at.x + order[i] / at.places_of_row * b.k, b.k, buffer + i * at.layout.lda);
      });
    });
  }
  const int64_t lda = at.layout.lda;
  const auto* packed = static_cast<const std::byte*>(b.packed);
  if (packed != nullptr) packed += group.expert * b.PackedBytes();
  if (b.is_narrow) {
    GemmNarrow(b.narrow, packed, m, from, lda, to, b.n, {}, scratch, par);
  } else {
    const float* plain = packed == nullptr ? b.plain + group.expert * b.n * b.k : nullptr;
    Gemm(ShapeOf(b, m, lda), from, plain, reinterpret_cast<const float*>(packed), to, {}, scratch,
         par);
  }
  const float* bias = at.bias == nullptr ? nullptr : at.bias + group.expert * b.n;
  if (is_one && bias == nullptr) return;
  par.For(parts, [&](int64_t part) {
    rows_of(part, [&](int64_t i) {
      float* row = at.y + order[i] * b.n;
      const float* result = to + i * b.n;
      if (bias == nullptr) {
        std::copy_n(result, b.n, row);
      } else {
        for (int64_t j = 0; j < b.n; ++j) row[j] = result[j] + bias[j];
      }
    });
  });
}

}  // namespace

int64_t ExpertMatrices::PackedBytes() const {
  return AlignBytes(
      static_cast<int64_t>(is_narrow ? NarrowPackedBytes(narrow) : GemmPackedBytes(k, n)));
}

ExpertScratch GemmExpertsScratch(const ExpertMatrices& b, bool packed, int64_t rows, int64_t slots,
                                 int threads) {
  const Layout layout(b, packed, rows, slots);
  const int64_t own = layout.x_bytes + layout.y_bytes;
  const int64_t each = own + layout.ProductBytes(b, packed, 1);
  const int64_t together = own + layout.ProductBytes(b, packed, threads);
  return {layout.Ahead() + std::max(each * ScratchSlots::CountFor(threads), together), each};
}

void GemmExperts(const ExpertMatrices& b, ExpertRows rows, int64_t slots, const float* x,
                 const int64_t* experts, const float* bias, float* y, const ExpertScratch& sizes,
                 void* scratch, const Parallel& par) {
  const bool packed = b.packed != nullptr;
  const Layout layout(b, packed, rows.Count(), slots);
  if (layout.places == 0 || b.n == 0) return;
  auto* bytes = static_cast<std::byte*>(scratch);
  auto* const begins = reinterpret_cast<int64_t*>(bytes);
  auto* const order = reinterpret_cast<int64_t*>(bytes + layout.counts);
  auto* const groups = reinterpret_cast<Group*>(bytes + layout.counts + layout.order);
  bytes += layout.Ahead();

  // Places in the order of their experts.
  std::fill_n(begins, b.experts + 1, 0);
  const int64_t chosen = rows.chosen * slots;
  const auto expert_of = [&](int64_t i) {
    const int64_t expert = experts[i % chosen];
    return expert < 0 ? expert + b.experts : expert;
  };
  for (int64_t i = 0; i < layout.places; ++i) ++begins[expert_of(i) + 1];
  for (int64_t e = 0; e < b.experts; ++e) begins[e + 1] += begins[e];
  for (int64_t i = 0; i < layout.places; ++i) order[begins[expert_of(i)]++] = i;
  int64_t count = 0;
  for (int64_t e = 0, begin = 0; e < b.experts; begin = begins[e++]) {
    for (; begin < begins[e]; begin += groups[count++].count) {
      groups[count] = {e, begin, std::min(layout.most_rows, begins[e] - begin)};
    }
  }

  const Context at{b, layout, rows.x == 1 ? layout.places : slots, x, bias, y, order};
  // Threads take groups of their own where there are several for each, the largest first; else all
  // work on one.
  if (par.threads < 2 || count < 2 * par.threads) {
    for (int64_t i = 0; i < count; ++i) {
      RunGroup(at, groups[i], reinterpret_cast<float*>(bytes), par);
    }
    return;
  }
  std::sort(groups, groups + count, [](const Group& left, const Group& right) {
    return left.count != right.count ? left.count > right.count : left.begin < right.begin;
  });
  ScratchSlots pieces(bytes, static_cast<size_t>(sizes.each), ScratchSlots::CountFor(par.threads));
  par.For(count, [&](int64_t i) {
    const ScratchSlots::Lease lease(pieces);
    RunGroup(at, groups[i], lease.floats(), Parallel{nullptr, 1});
  });
}

}  // namespace sardonyx
