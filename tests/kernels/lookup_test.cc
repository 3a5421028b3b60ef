#include "kernels/lookup.h"

#include <algorithm>
#include <limits>
#include <string>

#include "each_target.h"

namespace sardonyx {
namespace {

template <typename T>
void Check(const std::vector<T>& keys, const std::vector<T>& x,
           const std::vector<int64_t>& expected) {
  const auto count = static_cast<int64_t>(keys.size());
  std::vector<int64_t> table(KeyTableBytes<T>(count) / 8);
  FillKeyTable(keys.data(), count, table.data());
  for (const Parallel& par : {OneThread(), TwoThreads()}) {
    std::vector<int64_t> y(x.size());
    LookUp(x.data(), static_cast<int64_t>(x.size()), keys.data(), table.data(), count, y.data(),
           par);
    EXPECT_EQ(y, expected);
  }
}

TEST(Lookup, Numbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Check<float>({1.5f, 0.0f, nan, -2.0f}, {-0.0f, nan, -2.0f, 3.0f, 1.5f, -nan}, {1, 2, 3, 4, 0, 2});
  Check<int16_t>({-1, 7}, {7, -1, 0, 7}, {1, 0, 2, 1});
  Check<int64_t>({}, {3, 4}, {0, 0});
  std::vector<int32_t> keys(1000), x(20'000);
  std::vector<int64_t> expected(x.size());
  for (int32_t i = 0; i < 1000; ++i) keys[i] = i * i - 5000;
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<int32_t>(i * 37 % 60'000) - 5000;
    expected[i] = std::find(keys.begin(), keys.end(), x[i]) - keys.begin();
  }
  Check(keys, x, expected);
}

TEST(Lookup, Strings) {
  Check<std::string>({"one", "", "a longer text than fits in place"},
                     {"", "two", "a longer text than fits in place", "one"}, {1, 3, 2, 0});
}

}  // namespace
}  // namespace sardonyx
