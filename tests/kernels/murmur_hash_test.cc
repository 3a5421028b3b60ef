#include "kernels/murmur_hash.h"

#include <bit>

#include "each_target.h"

namespace sardonyx {
namespace {

// The published algorithm, a byte after the other.
uint32_t Plain(const unsigned char* bytes, size_t length, uint32_t hash) {
  for (size_t i = 0; i < length; i += 4) {
    uint32_t word = 0;
    const size_t count = std::min<size_t>(4, length - i);
    for (size_t k = 0; k < count; ++k) word |= static_cast<uint32_t>(bytes[i + k]) << (8 * k);
    hash ^= std::rotl(word * 0xcc9e2d51U, 15) * 0x1b873593U;
    if (count == 4) hash = std::rotl(hash, 13) * 5 + 0xe6546b64U;
  }
  hash ^= static_cast<uint32_t>(length);
  for (const auto& [shift, factor] : {std::pair{16, 0x85ebca6bU}, {13, 0xc2b2ae35U}, {16, 1U}}) {
    hash = (hash ^ (hash >> shift)) * factor;
  }
  return hash;
}

TEST(MurmurHash, Numbers) {
  for (const int words : {1, 2}) {
    for (const int64_t count : {0, 1, 7, 16, 45, 30000}) {
      std::mt19937 random(static_cast<uint32_t>(count));
      std::vector<uint32_t> x(count * words);
      for (uint32_t& word : x) word = static_cast<uint32_t>(random());
      ForEachTarget([&] {
        for (const Parallel& par : {OneThread(), TwoThreads()}) {
          std::vector<uint32_t> y(count + 1, 77);
          MurmurHash(x.data(), count, words, 123, y.data(), par);
          for (int64_t i = 0; i < count; ++i) {
            const auto* bytes = reinterpret_cast<const unsigned char*>(x.data() + i * words);
            ASSERT_EQ(y[i], Plain(bytes, 4 * words, 123)) << i << " of " << count;
          }
          ASSERT_EQ(y[count], 77U);
        }
      });
    }
  }
}

TEST(MurmurHash, Texts) {
  std::vector<std::string> x;
  for (size_t i = 0; i < 3000; ++i) x.emplace_back(i % 41, static_cast<char>(i * 7));
  std::vector<uint32_t> y(x.size());
  MurmurHash(x.data(), static_cast<int64_t>(x.size()), 5, y.data(), TwoThreads());
  for (size_t i = 0; i < x.size(); ++i) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(x[i].data());
    ASSERT_EQ(y[i], Plain(bytes, x[i].size(), 5)) << i;
  }
}

}  // namespace
}  // namespace sardonyx
