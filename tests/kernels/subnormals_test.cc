#include "kernels/subnormals.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "random_data.h"

namespace sardonyx {
namespace {

constexpr float kNormal = std::numeric_limits<float>::min();

TEST(ZeroSubnormals, ChangesThoseAlone) {
  test::ForEachTarget([] {
    for (const size_t count : {1, 2, 15, 16, 17, 63, 100}) {
      for (size_t at = 0; at < count; ++at) {
        std::vector<float> weights = test::RandomFloats(count, 7, 0.5f, 1.0f);
        weights[at] = count % 2 == 0 ? -kNormal / 2 : std::numeric_limits<float>::denorm_min();
        weights[(at + 1) % count] = -kNormal;
        std::vector<float> expected = weights;
        if (count > 2) expected[at] = 0.0f;  // else nothing large is beside it
        ZeroSubnormals(weights.data(), static_cast<int64_t>(count));
        EXPECT_TRUE(test::SameBits(weights, expected)) << at << " of " << count;
      }
    }
  });
}

TEST(ZeroSubnormals, KeepsWhatIsSmallAsAWhole) {
  test::ForEachTarget([] {
    std::vector<float> weights(40, kNormal / 4);
    weights[39] = 0x1p-61f;
    const std::vector<float> before = weights;
    ZeroSubnormals(weights.data(), 40);
    EXPECT_TRUE(test::SameBits(weights, before));
  });
}

TEST(ZeroSubnormals, KeepsInfinitiesAndNaNs) {
  test::ForEachTarget([] {
    std::vector<float> weights(33, 1.0f);
    weights[3] = std::numeric_limits<float>::quiet_NaN();
    weights[20] = -std::numeric_limits<float>::infinity();
    weights[32] = -0.0f;
    const std::vector<float> before = weights;
    ZeroSubnormals(weights.data(), 33);
    EXPECT_TRUE(test::SameBits(weights, before));
  });
}

}  // namespace
}  // namespace sardonyx
