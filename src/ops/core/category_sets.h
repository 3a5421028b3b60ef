#pragma once
// Sets of whole numbers from 0 on, as trees ask whether a feature is in one: a bit for each number
// up to a set's greatest, in words. Behind these stands a word of zeros, where one looks for what
// is greater.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace sardonyx::core {

class CategorySets {
 public:
  static constexpr int64_t kEnd = 4096;  // of what a set may have
  static constexpr int64_t kWordBits = 64;

  struct Place {
    uint32_t first, words;
  };

  // Where the set lies, which may be that of another; none if it has other numbers than such. A NaN
  // is in no set.
  std::optional<Place> Add(std::span<const double> members) {
    std::vector<uint64_t> words(1, 0);
    for (const double member : members) {
      if (std::isnan(member)) continue;
      if (!(member >= 0 && member < double{kEnd} && member == std::floor(member))) return {};
      const auto number = static_cast<size_t>(member);
      words.resize(std::max(words.size(), number / kWordBits + 1));
      words[number / kWordBits] |= uint64_t{1} << (number % kWordBits);
    }
    const auto [found, is_new] = places_.try_emplace(
        words, Place{static_cast<uint32_t>(words_.size()), static_cast<uint32_t>(words.size())});
    if (is_new) {
      words_.insert(words_.end(), words.begin(), words.end());
      words_.push_back(0);
    }
    return found->second;
  }

  const std::vector<uint64_t>& words() const { return words_; }

 private:
  std::vector<uint64_t> words_;
  std::map<std::vector<uint64_t>, Place> places_;
};

}  // namespace sardonyx::core
