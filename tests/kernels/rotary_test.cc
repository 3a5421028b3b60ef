#include "kernels/rotary.h"

#include <gtest/gtest.h>

#include "each_target.h"

namespace sardonyx {
namespace {

TEST(Rotary, AgreesWithDouble) {
  ForEachTarget([] {
    for (const auto& [features, turned] :
         {std::pair<int64_t, int64_t>{8, 8}, {2, 2}, {64, 64}, {80, 34}, {21, 16}}) {
      for (bool interleaved : {false, true}) {
        for (bool per_row : {false, true}) {
          const int64_t pairs = turned / 2;
          // Tables of [2, 1, 5, pairs] or [1, 3, 1, pairs].
          RotaryShape shape{2, 3, 5, features, turned, interleaved, {0, pairs, 0}, {0, pairs, 0}};
          if (per_row) {
            for (int64_t* steps : {shape.cosine_steps, shape.sine_steps}) {
              steps[0] = 5 * pairs;
              steps[1] = 0;
              steps[2] = pairs;
            }
          }
          const Floats x = Floats::Random(30 * features, 1), cosine = Floats::Random(10 * pairs, 2);
          const Floats sine = Floats::Random(10 * pairs, 3);
          Floats y(x.size()), two(x.size()), in_place(x.size());
          std::copy(x.get(), x.get() + x.size(), in_place.get());
          Rotate(shape, x.get(), cosine.get(), sine.get(), y.get(), OneThread());
          Rotate(shape, x.get(), cosine.get(), sine.get(), two.get(), TwoThreads());
          Rotate(shape, in_place.get(), cosine.get(), sine.get(), in_place.get(), OneThread());
          ASSERT_TRUE(y.Intact() && y.SameBits(two) && y.SameBits(in_place));
          for (int64_t i = 0; i < x.size(); ++i) {
            const int64_t row = i / features, feature = i % features;
            const float* from = x.get() + row * features;
            if (feature >= turned) {
              ASSERT_EQ(y[i], x[i]);
              continue;
            }
            const bool second = interleaved ? feature % 2 == 1 : feature >= pairs;
            const int64_t pair = interleaved ? feature / 2 : feature % pairs;
            const double a = from[interleaved ? 2 * pair : pair];
            const double b = from[interleaved ? 2 * pair + 1 : pair + pairs];
            const int64_t table = per_row ? row / 15 * 5 + row % 5 : row / 5 % 3;
            const double c = cosine[table * pairs + pair], s = sine[table * pairs + pair];
            ASSERT_NEAR(y[i], second ? a * s + b * c : a * c - b * s, 1e-6) << i;
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace sardonyx
