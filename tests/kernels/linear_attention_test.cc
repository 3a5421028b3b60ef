#include "kernels/linear_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "each_target.h"

namespace sardonyx {
namespace {

using Decay = LinearAttentionShape::Decay;

struct Results {
  Floats y, present;
};

struct Operands {
  Floats q, k, v, past, decay, beta;

  LinearAttentionArgs Args(bool has_past, const Results& to, bool wants_present) const {
    return {.q = q.get(),
            .k = k.get(),
            .v = v.get(),
            .past = has_past ? past.get() : nullptr,
            .decay = decay.get(),
            .beta = beta.get(),
            .y = to.y.get(),
            .present = wants_present ? to.present.get() : nullptr};
  }
};

// Token by token, as the standard writes it down.
void Loop(const LinearAttentionShape& s, const Operands& x, bool has_past, std::vector<double>* y,
          std::vector<double>* states) {
  const int64_t state_size = s.keys * s.values;
  states->assign(x.past.get(), x.past.get() + x.past.size());
  if (!has_past) std::fill(states->begin(), states->end(), 0.0);
  y->assign(s.batch * s.tokens * s.y_stride, 0.0);
  for (int64_t n = 0; n < s.batch * s.heads; ++n) {
    const int64_t h = n % s.heads;
    double* const state = states->data() + n * state_size;
    for (int64_t t = n / s.heads * s.tokens; t < (n / s.heads + 1) * s.tokens; ++t) {
      const float* const key = x.k.get() + t * s.k_stride + h * s.keys;
      for (int64_t i = 0; i < state_size && s.decay != Decay::kNone; ++i) {
        const int64_t of = s.decay == Decay::kHead ? h : h * s.keys + i / s.values;
        state[i] *= std::exp(static_cast<double>(x.decay[t * s.decay_stride + of]));
      }
      for (int64_t j = 0; j < s.values; ++j) {
        double written = x.v[t * s.v_stride + h * s.values + j];
        if (s.has_beta) {
          for (int64_t i = 0; i < s.keys; ++i) written -= key[i] * state[i * s.values + j];
          written *= x.beta[t * s.beta_stride + (s.beta_per_head ? h : 0)];
        }
        for (int64_t i = 0; i < s.keys; ++i) state[i * s.values + j] += key[i] * written;
        for (int64_t g = h * s.group; g < (h + 1) * s.group; ++g) {
          double sum = 0;
          for (int64_t i = 0; i < s.keys; ++i) {
            sum += x.q[t * s.q_stride + g * s.keys + i] * state[i * s.values + j];
          }
          (*y)[t * s.y_stride + g * s.values + j] = sum * s.scale;
        }
      }
    }
  }
}

void Check(LinearAttentionShape s, bool has_past, bool wants_present, int64_t between) {
  SCOPED_TRACE(testing::Message() << "batch " << s.batch << " tokens " << s.tokens << " heads "
                                  << s.heads << " group " << s.group << " keys " << s.keys
                                  << " values " << s.values << " decay "
                                  << static_cast<int>(s.decay) << " beta " << s.has_beta
                                  << s.beta_per_head << " past " << has_past << " present "
                                  << wants_present << " between " << between);
  const int64_t shared_keys = s.heads * s.keys, shared_values = s.heads * s.values;
  s.q_stride = shared_keys * s.group + between;
  s.k_stride = shared_keys + between;
  s.v_stride = shared_values + between;
  s.y_stride = shared_values * s.group + between;
  s.decay_stride = s.Decays() + between;
  s.beta_stride = (s.beta_per_head ? s.heads : 1) + between;
  s.scale = 0.75f;
  const int64_t tokens = s.batch * s.tokens, states = s.batch * shared_keys * s.values;
  Operands x{Floats::Random(tokens * s.q_stride, 1),     Floats::Random(tokens * s.k_stride, 2),
             Floats::Random(tokens * s.v_stride, 3),     Floats::Random(states, 4),
             Floats::Random(tokens * s.decay_stride, 5), Floats::Random(tokens * s.beta_stride, 6)};
  // Keys of length 1 or less, so that states stay small; decays below 0, rates within 0 and 1.
  for (int64_t i = 0; i < x.k.size(); ++i) x.k[i] /= std::sqrt(static_cast<float>(s.keys));
  for (int64_t i = 0; i < x.decay.size(); ++i) x.decay[i] = -std::abs(x.decay[i]);
  for (int64_t i = 0; i < x.beta.size(); ++i) x.beta[i] = std::abs(x.beta[i]);
  std::vector<double> y, present;
  Loop(s, x, has_past, &y, &present);
  const auto results = [&] { return Results{Floats(tokens * s.y_stride), Floats(states)}; };
  const Results one = results(), two = results();
  const auto run = [&](const Results& to, const Parallel& par) {
    Floats scratch(static_cast<int64_t>(LinearAttentionScratchBytes(s, par.threads)) / 4);
    LinearAttention(s, x.Args(has_past, to, wants_present), scratch.get(), par);
    EXPECT_TRUE(scratch.Intact() && to.y.Intact() && to.present.Intact());
  };
  run(one, OneThread());
  run(two, TwoThreads());
  for (int64_t i = 0; i < one.y.size(); ++i) {
    if (i % s.y_stride >= s.y_stride - between) {
      ASSERT_TRUE(std::isnan(one.y[i])) << "written between rows";
      continue;
    }
    ASSERT_NEAR(one.y[i], y[i], 3e-5) << i;
    ASSERT_EQ(one.y[i], two.y[i]) << i;
  }
  for (int64_t i = 0; i < states; ++i) {
    if (!wants_present) {
      ASSERT_TRUE(std::isnan(one.present[i]));
      continue;
    }
    ASSERT_NEAR(one.present[i], present[i], 3e-5) << i;
    ASSERT_EQ(one.present[i], two.present[i]) << i;
  }
}

TEST(LinearAttention, AgreesWithDouble) {
  ForEachTarget([] {
    for (const Decay decay : {Decay::kNone, Decay::kHead, Decay::kKey}) {
      for (const int beta : {0, 1, 2}) {
        const LinearAttentionShape rule{
            .decay = decay, .has_beta = beta > 0, .beta_per_head = beta == 2};
        const auto check = [&](int64_t batch, int64_t tokens, int64_t heads, int64_t group,
                               int64_t keys, int64_t values, int64_t between) {
          LinearAttentionShape s = rule;
          s.batch = batch;
          s.tokens = tokens;
          s.heads = heads;
          s.group = group;
          s.keys = keys;
          s.values = values;
          for (const bool has_past : {false, true}) {
            for (const bool wants_present : {false, true}) {
              Check(s, has_past, wants_present, between);
            }
          }
        };
        check(2, 5, 3, 1, 16, 32, 0);
        check(1, 1, 2, 2, 19, 64, 3);
        check(2, 3, 2, 3, 5, 37, 1);
        check(1, 7, 1, 4, 33, 8, 0);
        check(1, 2, 2, 6, 1, 1, 2);
        check(2, 9, 2, 1, 64, 70, 5);
      }
    }
  });
}

// Many tokens through one state.
TEST(LinearAttention, LongSequences) {
  ForEachTarget([] {
    for (const Decay decay : {Decay::kHead, Decay::kKey}) {
      Check({.batch = 1,
             .tokens = 300,
             .heads = 2,
             .group = 2,
             .keys = 24,
             .values = 48,
             .decay = decay,
             .has_beta = true,
             .beta_per_head = true},
            true, true, 0);
    }
  });
}

// What decays to nothing, and what does not decay.
TEST(LinearAttention, EndsOfTheDecay) {
  ForEachTarget([] {
    LinearAttentionShape s{.tokens = 2, .keys = 3, .values = 5, .decay = Decay::kHead};
    s.q_stride = s.k_stride = 3;
    s.v_stride = s.y_stride = 5;
    s.decay_stride = 1;
    const Floats q = Floats::Random(6, 1), k = Floats::Random(6, 2), v = Floats::Random(10, 3);
    const Floats past = Floats::Random(15, 4), y(10), present(15);
    const float decay[] = {0, -std::numeric_limits<float>::infinity()};
    Floats scratch(static_cast<int64_t>(LinearAttentionScratchBytes(s, 1)) / 4);
    LinearAttention(s,
                    {.q = q.get(),
                     .k = k.get(),
                     .v = v.get(),
                     .past = past.get(),
                     .decay = decay,
                     .beta = nullptr,
                     .y = y.get(),
                     .present = present.get()},
                    scratch.get(), OneThread());
    for (int64_t i = 0; i < 15; ++i) ASSERT_EQ(present[i], k[3 + i / 5] * v[5 + i % 5]) << i;
  });
}

}  // namespace
}  // namespace sardonyx
