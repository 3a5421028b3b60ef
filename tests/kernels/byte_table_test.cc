#define HWY_WANT_AVX3_DL

#include "kernels/byte_table.h"

#include "each_target.h"

namespace sardonyx {
namespace {

TEST(ByteTable, LooksUpEveryByte) {
  std::mt19937 generator(3);
  std::vector<uint8_t> table(256);
  for (uint8_t& entry : table) entry = static_cast<uint8_t>(generator());
  for (const int64_t count : {0, 1, 63, 64, 300, 700001}) {
    std::vector<uint8_t> in(static_cast<size_t>(count));
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint8_t>(i < 256 ? i : generator());
    std::vector<uint8_t> expected;
    for (const uint8_t byte : in) expected.push_back(table[byte]);
    ForEachTarget([&] {
      for (const Parallel& par : {OneThread(), TwoThreads()}) {
        std::vector<uint8_t> out(in.size(), 77);
        LookUpBytes(table.data(), in.data(), count, out.data(), par);
        EXPECT_EQ(out, expected);
        std::vector<uint8_t> same = in;
        LookUpBytes(table.data(), same.data(), count, same.data(), par);
        EXPECT_EQ(same, expected);
      }
    });
  }
}

}  // namespace
}  // namespace sardonyx
