#include "kernels/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/dtype.h"
#include "random_data.h"

namespace sardonyx {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

enum class MaskKind { kNone, kTerms, kRowTerms, kBytes, kPerBatch };

struct Case {
  AttentionShape shape;
  MaskKind mask_kind = MaskKind::kNone;
  int64_t hidden = 0;  // a key of the mask in so many is hidden; 0: none
  float hidden_term = -kInfinity;
  bool behind = false;   // keys are hidden behind some that are seen as they are
  bool counted = false;  // those before a number are seen, of each item and query
  bool begun = false;    // and those from another on
  bool sunk = false;     // beside a further key, of each head
};

AttentionShape Shape(int64_t batch, int64_t heads, int64_t group, int64_t queries, int64_t keys,
                     int64_t size, int64_t width) {
  AttentionShape s;
  s.batch = batch;
  s.heads = heads;
  s.group = group;
  s.queries = queries;
  s.keys = keys;
  s.size = size;
  s.width = width;
  s.scale = 0.7f / std::sqrt(static_cast<float>(size));
  // Queries and results in rows of all heads, keys and values head by head.
  const int64_t shared = heads / group;
  const auto set = [](int64_t(&stride)[3], int64_t a, int64_t b, int64_t c) {
    stride[0] = a;
    stride[1] = b;
    stride[2] = c;
  };
  set(s.q_stride, queries * heads * size, size, heads * size);
  set(s.k_stride, shared * keys * size, keys * size, size);
  set(s.v_stride, shared * keys * width, keys * width, width);
  set(s.y_stride, queries * heads * width, width, heads * width);
  return s;
}

struct Operands {
  std::vector<float> q, k, v, terms;
  std::vector<uint8_t> seen;
  std::vector<int64_t> counts, firsts;
  std::vector<float> sinks;
  AttentionMask mask;
};

Operands Make(const Case& c) {
  const AttentionShape& s = c.shape;
  Operands o;
  o.q = test::RandomFloats(s.batch * s.queries * s.heads * s.size, 1, -3, 3);
  o.k = test::RandomFloats(s.batch * s.heads / s.group * s.keys * s.size, 2, -3, 3);
  o.v = test::RandomFloats(s.batch * s.heads / s.group * s.keys * s.width, 3);
  if (c.counted) {
    std::mt19937 random(6);
    for (int64_t i = 0; i < s.batch * s.queries; ++i) {
      o.counts.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(s.keys + 4)) - 1);
    }
    o.mask.counts = o.counts.data();
    o.mask.count_stride[0] = s.queries;
    o.mask.count_stride[2] = 1;
  }
  if (c.begun) {
    std::mt19937 random(7);
    for (int64_t i = 0; i < s.batch * s.queries; ++i) {
      o.firsts.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(s.keys + 4)) - 3);
    }
    o.mask.firsts = o.firsts.data();
    o.mask.first_stride[0] = s.queries;
    o.mask.first_stride[2] = 1;
  }
  if (c.sunk) {
    o.sinks = test::RandomFloats(s.heads, 8, -2, 2);
    o.mask.sinks = o.sinks.data();
    o.mask.sink_stride[1] = 1;
  }
  if (c.mask_kind == MaskKind::kNone) return o;
  const bool per_batch = c.mask_kind == MaskKind::kPerBatch;
  const bool rows_alone = c.mask_kind == MaskKind::kRowTerms;
  const int64_t count = rows_alone ? s.queries : per_batch ? s.batch * s.keys : s.queries * s.keys;
  o.terms = test::RandomFloats(count, 4, -1, 1);
  std::mt19937 generator(5);
  for (float& term : o.terms) {
    if (c.hidden > 0 && generator() % c.hidden == 0) term = c.hidden_term;
  }
  for (int64_t row = 0; c.behind && row < count; row += s.keys) {
    const int64_t seen = generator() % (s.keys + 1);
    std::fill_n(o.terms.begin() + row, seen, 0.0f);
    std::fill_n(o.terms.begin() + row + seen, s.keys - seen, c.hidden_term);
  }
  if (rows_alone) {
    o.mask.stride[2] = 1;
  } else if (per_batch) {
    o.mask.stride[0] = s.keys;
    o.mask.stride[3] = 1;
  } else {
    o.mask.stride[2] = s.keys;
    o.mask.stride[3] = 1;
  }
  if (c.mask_kind == MaskKind::kBytes || per_batch) {
    for (float term : o.terms) o.seen.push_back(term != c.hidden_term);
    o.mask.seen = o.seen.data();
  } else {
    o.mask.terms = o.terms.data();
  }
  return o;
}

double Bf16(double value) { return BFloat16(static_cast<float>(value)); }

std::vector<double> Expected(const AttentionShape& s, const Operands& o) {
  std::vector<double> y(s.batch * s.queries * s.heads * s.width);
  const bool rounds = s.rounding == DType::kBFloat16;
  const auto round = [&](double value) { return rounds ? Bf16(value) : value; };
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      for (int64_t i = 0; i < s.queries; ++i) {
        std::vector<double> row(s.keys);
        double max = -kInfinity, sum = 0;
        for (int64_t j = 0; j < s.keys; ++j) {
          double score = 0;
          for (int64_t d = 0; d < s.size; ++d) {
            const int64_t at = b * s.k_stride[0] + h / s.group * s.k_stride[1] +
                               (s.k_transposed ? d * s.k_stride[2] + j : j * s.k_stride[2] + d);
            score += static_cast<double>(
                         o.q[b * s.q_stride[0] + h * s.q_stride[1] + i * s.q_stride[2] + d]) *
                     o.k[at];
          }
          score = round(round(score) * s.scale);
          if (s.softcap > 0) score = std::tanh(score / s.softcap) * s.softcap;
          const int64_t at = b * o.mask.stride[0] + h * o.mask.stride[1] + i * o.mask.stride[2] +
                             j * o.mask.stride[3];
          if (o.mask.terms != nullptr) score = round(score + o.mask.terms[at]);
          if (o.mask.seen != nullptr && o.mask.seen[at] == 0) score = -kInfinity;
          if (s.causal && j > i + s.ahead) score = -kInfinity;
          if (!o.counts.empty() && j >= o.counts[b * s.queries + i]) score = -kInfinity;
          if (!o.firsts.empty() && j < o.firsts[b * s.queries + i]) score = -kInfinity;
          row[j] = score;
          max = std::max(max, score);
        }
        if (!o.sinks.empty()) max = std::max<double>(max, o.sinks[h]);
        for (double& score : row) sum += score = std::exp(score - max);
        if (!o.sinks.empty()) sum += std::exp(o.sinks[h] - max);
        for (double& score : row) score = rounds ? Bf16(score / sum) : score;
        const bool zero = (s.zero_blind && max == -kInfinity) || (s.zero_nan && std::isnan(sum));
        for (int64_t e = 0; e < s.width; ++e) {
          double total = 0;
          for (int64_t j = 0; j < s.keys; ++j) {
            total += row[j] *
                     o.v[b * s.v_stride[0] + h / s.group * s.v_stride[1] + j * s.v_stride[2] + e];
          }
          y[b * s.y_stride[0] + h * s.y_stride[1] + i * s.y_stride[2] + e] =
              zero ? 0 : round(rounds ? total : total / sum);
        }
      }
    }
  }
  return y;
}

std::vector<float> Result(const AttentionShape& s, const Operands& o, int threads, size_t size) {
  std::vector<float> y(size, 777.0f);
  const Floats scratch(static_cast<int64_t>(AttentionScratchBytes(s, threads)) / 4);
  Attention(s, o.q.data(), o.k.data(), o.v.data(), o.mask, y.data(), scratch.get(),
            test::Threads(threads));
  EXPECT_TRUE(scratch.Intact());
  return y;
}

void Check(const Case& c) {
  const AttentionShape& s = c.shape;
  SCOPED_TRACE(testing::Message() << s.batch << " x " << s.heads << "/" << s.group << " heads, "
                                  << s.queries << " queries, " << s.keys << " keys, " << s.size
                                  << " -> " << s.width);
  const Operands o = Make(c);
  const std::vector<double> expected = Expected(s, o);
  std::vector<float> first;
  for (int threads : {1, 2}) {
    const std::vector<float> y = Result(s, o, threads, expected.size());
    for (size_t i = 0; i < y.size(); ++i) {
      if (std::isnan(expected[i])) {
        ASSERT_TRUE(std::isnan(y[i])) << "at " << i;
      } else {
        ASSERT_NEAR(y[i], expected[i], 3e-6) << "at " << i;
      }
    }
    if (threads == 1) first = y;
    EXPECT_TRUE(test::SameBits(first, y));
  }
}

// Operands of bfloat16, changed by `change`: nearly all results are the numbers that they should
// be, the rest close to them: a score at a tie may round either way.
template <typename Change>
void CheckRounded(Case c, const Change& change) {
  c.shape.rounding = DType::kBFloat16;
  const AttentionShape& s = c.shape;
  SCOPED_TRACE(testing::Message() << s.queries << " queries, " << s.keys << " keys, " << s.size
                                  << " -> " << s.width);
  Operands o = Make(c);
  for (std::vector<float>* values : {&o.q, &o.k, &o.v, &o.terms}) {
    for (float& value : *values) value = static_cast<float>(Bf16(value));
  }
  change(o);
  const std::vector<double> expected = Expected(s, o);
  std::vector<float> first;
  for (int threads : {1, 2}) {
    const std::vector<float> y = Result(s, o, threads, expected.size());
    size_t differ = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      if (std::isnan(expected[i])) {
        ASSERT_TRUE(std::isnan(y[i])) << "at " << i;
        continue;
      }
      ASSERT_EQ(y[i], Bf16(y[i]));
      ASSERT_NEAR(y[i], expected[i], 0.03) << "at " << i;
      differ += y[i] != expected[i];
    }
    EXPECT_LE(differ, 1 + y.size() / 50);
    if (threads == 1) first = y;
    EXPECT_TRUE(test::SameBits(first, y));
  }
}
void CheckRounded(const Case& c) {
  CheckRounded(c, [](const Operands&) {});
}

TEST(Attention, Bfloat16IsRounded) {
  test::ForEachTarget([] {
    for (const int64_t queries : {1, 5, 28, 61, 300}) {
      for (const int64_t keys : {1, 7, 33, 128, 600}) {
        CheckRounded({Shape(1, 2, 1, queries, keys, 16, 24)});
        CheckRounded({Shape(2, 4, 2, queries, keys, 7, 35), MaskKind::kTerms, 3});
      }
      CheckRounded({Shape(2, 2, 1, queries, 40, 64, 64), MaskKind::kPerBatch, 3});
      Case c{Shape(1, 2, 1, queries, 50, 16, 16), MaskKind::kBytes, 1};  // hides all
      c.shape.zero_nan = true;
      CheckRounded(c);
      c.shape.zero_nan = false;
      CheckRounded(c);
      Case causal{Shape(1, 2, 1, queries, 50, 12, 16)};
      causal.shape.causal = true;
      causal.shape.scale = 1;
      CheckRounded(causal);
      Case transposed{Shape(2, 2, 1, queries, 530, 8, 8)};
      transposed.shape.k_transposed = true;
      transposed.shape.k_stride[2] = 530;
      CheckRounded(transposed);
    }
  });
}

// Pairs of bfloat16 would take subnormal numbers as zeros.
TEST(Attention, SubnormalBfloat16Counts) {
  test::ForEachTarget([] {
    const Case c{Shape(1, 1, 1, 30, 40, 8, 9)};
    CheckRounded(c, [](Operands& o) {
      for (size_t i = 0; i < o.q.size(); i += 8) o.q[i] = 0x1p-130f;
      for (size_t i = 0; i < o.k.size(); i += 8) o.k[i] = i % 3 == 0 ? 0x1p+127f : -0x1p+127f;
    });
    CheckRounded(c, [](Operands& o) {
      for (size_t i = 0; i < o.v.size(); i += 9) o.v[i] = 0x1p-128f;
    });
    CheckRounded(c, [](Operands& o) {  // subnormal weights of large values
      for (size_t i = 0; i < o.k.size(); ++i) o.k[i] = i % 24 < 8 ? 1.0f : 0.0f;
      for (size_t i = 0; i < o.q.size(); ++i) o.q[i] = 45.0f;
    });
  });
}

TEST(Attention, AgreesWithDouble) {
  test::ForEachTarget([] {
    for (const int64_t queries : {1, 3, 5, 28, 61, 300}) {
      for (const int64_t keys : {1, 7, 33, 130, 600})
        Check({Shape(1, 2, 1, queries, keys, 16, 24)});
    }
    Check({Shape(2, 3, 1, 9, 11, 5, 3)});
    Check({Shape(3, 12, 1, 33, 33, 64, 64)});
    Check({Shape(1, 1, 1, 2100, 530, 8, 8)});  // several parts of the queries
    Check({Shape(2, 9, 1, 1100, 20, 4, 4)});
  });
}

TEST(Attention, Groups) {
  test::ForEachTarget([] {
    for (const int64_t queries : {1, 2, 20}) {
      Check({Shape(2, 6, 3, queries, 40, 8, 16)});
      Check({Shape(1, 8, 8, queries, 1100, 32, 32)});
      Case causal{Shape(2, 6, 2, queries, 40, 8, 16)};
      causal.shape.causal = true;
      causal.shape.ahead = 13;
      Check(causal);
    }
  });
}

TEST(Attention, Masks) {
  test::ForEachTarget([] {
    for (const MaskKind kind :
         {MaskKind::kTerms, MaskKind::kRowTerms, MaskKind::kBytes, MaskKind::kPerBatch}) {
      for (const int64_t queries : {1, 4, 45}) {
        for (const int64_t keys : {19, 64, 700}) {
          for (const float term : {-kInfinity, -3.4028235e38f}) {
            const AttentionShape shape = Shape(2, 2, 1, queries, keys, 16, 16);
            Check({shape, kind, 3, term});
            if (kind != MaskKind::kRowTerms) Check({shape, kind, 0, term, true});
          }
        }
      }
    }
  });
}

TEST(Attention, CausalWithCap) {
  test::ForEachTarget([] {
    for (const int64_t ahead : {0, 7, -4, 1000}) {
      for (const int64_t keys : {50, 900}) {
        Case c{Shape(1, 2, 1, 50, keys, 16, 16)};
        c.shape.causal = true;
        c.shape.ahead = ahead;
        c.shape.softcap = 2;
        c.shape.zero_blind = true;
        Check(c);
      }
    }
  });
}

TEST(Attention, QueriesThatSeeNothing) {
  test::ForEachTarget([] {
    for (const int64_t queries : {2, 40}) {
      for (const MaskKind kind : {MaskKind::kTerms, MaskKind::kBytes}) {
        for (const int zeros : {0, 1, 2}) {
          Case c{Shape(1, 1, 1, queries, 20, 8, 8), kind, 1};
          c.shape.zero_blind = zeros == 1;
          c.shape.zero_nan = zeros == 2;
          Check(c);
        }
      }
    }
  });
}

TEST(Attention, CountedKeys) {
  test::ForEachTarget([] {
    for (const int64_t queries : {1, 3, 45}) {
      for (const int64_t keys : {1, 19, 700}) {
        for (const MaskKind kind : {MaskKind::kNone, MaskKind::kTerms, MaskKind::kBytes}) {
          for (const int64_t group : {1, 2}) {
            Case c{Shape(3, 4, group, queries, keys, 16, 8), kind, 3};
            c.counted = true;
            Check(c);
            c.shape.causal = c.shape.zero_blind = true;
            c.shape.ahead = keys / 2;
            Check(c);
            c.begun = true;
            Check(c);
            c.sunk = true;
            Check(c);
            c.counted = c.shape.causal = false;
            Check(c);
            c.begun = false;
            Check(c);
          }
        }
      }
    }
  });
}

// Of a window that moves along, most keys are never read.
TEST(Attention, WindowsOfKeys) {
  test::ForEachTarget([] {
    for (const int64_t queries : {1, 2, 70, 400}) {
      for (const int64_t window : {1, 16, 40}) {
        Case c{Shape(1, 4, 2, queries, 1300, 16, 8)};
        Operands o = Make(c);
        for (int64_t i = 0; i < queries; ++i) {
          o.counts.push_back(1300 - queries + i + 1);
          o.firsts.push_back(o.counts.back() - window);
        }
        o.mask.counts = o.counts.data();
        o.mask.firsts = o.firsts.data();
        o.mask.count_stride[2] = o.mask.first_stride[2] = 1;
        const std::vector<double> expected = Expected(c.shape, o);
        const int64_t unseen = 1300 - queries + 1 - window;
        for (std::vector<float>* cache : {&o.k, &o.v}) {
          const int64_t width = cache == &o.k ? 16 : 8;
          for (int64_t head = 0; head < 2; ++head) {
            std::fill_n(cache->begin() + head * 1300 * width, unseen / 16 * 16 * width,
                        std::nanf(""));
          }
        }
        for (const int threads : {1, 2}) {
          const std::vector<float> y = Result(c.shape, o, threads, expected.size());
          for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], expected[i], 3e-6) << "at " << i;
        }
      }
    }
  });
}

TEST(Attention, TransposedKeys) {
  test::ForEachTarget([] {
    for (const int64_t queries : {1, 30}) {
      Case c{Shape(2, 2, 1, queries, 530, 8, 8)};
      c.shape.k_transposed = true;
      c.shape.k_stride[2] = 530;
      Check(c);
    }
  });
}

}  // namespace
}  // namespace sardonyx
