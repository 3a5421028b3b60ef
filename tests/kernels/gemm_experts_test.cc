#include "kernels/gemm_experts.h"

#include <cmath>

#include "each_target.h"
#include "kernels/gemm.h"

namespace sardonyx {
namespace {

enum class Form { kPlain, kPacked, kHalves };
enum class Shared { kNothing, kRow, kChoice };  // of which there is one for all

// Rows that choose at random, some of them one expert twice, and experts that nobody chooses.
void Check(Form form, int64_t rows, int64_t slots, int64_t count, int64_t n, int64_t k,
           bool k_first = false, Shared shared = Shared::kNothing) {
  SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(slots) + " experts of " +
               std::to_string(count) + ", " + std::to_string(n) + "x" + std::to_string(k));
  Floats x = Floats::Random(rows * k, 1), w = Floats::Random(count * n * k, 2);
  const Floats bias = Floats::Random(count * n, 3);
  std::vector<uint16_t> halves;
  ExpertMatrices b;
  b.experts = count;
  b.k = k;
  b.n = n;
  b.k_first = k_first;
  const int64_t ld = k_first ? n : k;
  b.is_narrow = form == Form::kHalves;
  if (b.is_narrow) {
    b.narrow = {DType::kFloat16, k, n, 0};
    for (int64_t i = 0; i < count * n * k; ++i) {
      halves.push_back(FloatToHalf(w[i]));
      w[i] = HalfToFloat(halves.back());
    }
  }
  Floats packed(form == Form::kPlain ? 16 : b.PackedBytes() / 4 * count);
  for (int64_t e = 0; e < count && form != Form::kPlain; ++e) {
    float* to = packed.get() + e * b.PackedBytes() / 4;
    if (b.is_narrow) {
      PackNarrowHalves(b.narrow, halves.data() + e * n * k, ld, !k_first, to, TwoThreads());
    } else {
      GemmPackB(k, n, w.get() + e * n * k, ld, !k_first, to, TwoThreads());
    }
  }
  if (form == Form::kPlain) {
    b.plain = w.get();
  } else {
    b.packed = packed.get();
  }
  std::mt19937 random(5);
  std::vector<int64_t> experts, given;  // counted from the begin, and from either end
  for (int64_t i = 0; i < rows * slots; ++i) {
    const bool repeats = shared == Shared::kChoice && i >= slots;
    experts.push_back(repeats ? experts[i - slots]
                              : static_cast<int64_t>(random()) % std::max<int64_t>(1, count - 1));
    if (!repeats) given.push_back(experts.back() - (random() % 3 == 0 ? count : 0));
  }
  const ExpertRows both{shared == Shared::kRow ? 1 : rows, shared == Shared::kChoice ? 1 : rows};
  Floats one(rows * slots * n), two(rows * slots * n);
  for (Floats* y : {&one, &two}) {
    const Parallel par = y == &one ? OneThread() : TwoThreads();
    const ExpertScratch sizes =
        GemmExpertsScratch(b, b.packed != nullptr, rows, slots, par.threads);
    Floats scratch(sizes.all / 4);
    GemmExperts(b, both, slots, x.get(), given.data(), bias.get(), y->get(), sizes, scratch.get(),
                par);
    EXPECT_TRUE(scratch.Intact());
    EXPECT_TRUE(y->Intact());
  }
  EXPECT_TRUE(one.SameBits(two));
  for (int64_t i = 0; i < rows * slots; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = bias[experts[i] * n + j], size = std::abs(sum);
      for (int64_t p = 0; p < k; ++p) {
        const int64_t in_matrix = k_first ? p * n + j : j * k + p;
        const double product =
            static_cast<double>(x[(shared == Shared::kRow ? 0 : i / slots) * k + p]) *
            static_cast<double>(w[experts[i] * n * k + in_matrix]);
        sum += product;
        size += std::abs(product);
      }
      ASSERT_NEAR(one[i * n + j], sum, 1e-6 * size) << i << ", " << j;
    }
  }
}

TEST(GemmExpertsTest, RowsOfEach) {
  ForEachTarget([] {
    for (const Form form : {Form::kPlain, Form::kPacked, Form::kHalves}) {
      for (const int64_t rows : {1, 3, 5, 40}) {
        Check(form, rows, 1, 1, 7, 5);
        Check(form, rows, 2, 5, 33, 20);
        Check(form, rows, 3, 16, 70, 48);
      }
      for (const bool k_first : {false, true}) {
        for (const Shared shared : {Shared::kNothing, Shared::kRow, Shared::kChoice}) {
          for (const int64_t rows : {1, 4, 30}) Check(form, rows, 3, 7, 37, 24, k_first, shared);
        }
      }
      Check(form, 300, 2, 2, 35, 64);  // more rows of one than are gathered at a time
    }
  });
}

}  // namespace
}  // namespace sardonyx
