#include "kernels/write_rows.h"

#include <gtest/gtest.h>

#include <vector>

#include "random_data.h"

namespace sardonyx {
namespace {

// In single bytes; a row of x is numbered from 1 on, one of `rows` from 101.
void Check(const WriteRowsShape& s, const std::vector<int64_t>& first, bool in_place) {
  SCOPED_TRACE(testing::Message() << s.items << " x " << s.lines << " lines of " << s.own << " in "
                                  << s.length << " rows, " << s.count << " from " << first[0]);
  const auto numbered = [&](int64_t count, int64_t from) {
    std::vector<uint8_t> bytes(s.items * s.lines * count * s.row_bytes);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(from + i % 97);
    return bytes;
  };
  std::vector<uint8_t> x = numbered(s.own, 1), rows = numbered(s.count, 101);
  std::vector<uint8_t> expected(s.items * s.lines * s.length * s.row_bytes);
  for (int64_t line = 0; line < s.items * s.lines; ++line) {
    for (int64_t row = 0; row < s.length; ++row) {
      for (int64_t i = 0; i < s.row_bytes; ++i) {
        const int64_t behind = (row - first[line / s.lines] + s.length) % s.length;
        expected[(line * s.length + row) * s.row_bytes + i] =
            behind < s.count ? rows[(line * s.count + behind) * s.row_bytes + i]
            : row < s.own    ? x[(line * s.own + row) * s.row_bytes + i]
                             : 0;
      }
    }
  }
  for (const int threads : {1, 3}) {
    std::vector<uint8_t> y = in_place ? x : std::vector<uint8_t>(expected.size(), 77);
    WriteRows(s, in_place ? y.data() : x.data(), rows.data(), first.data(), y.data(),
              test::Threads(threads));
    ASSERT_EQ(y, expected);
  }
}

TEST(WriteRows, AnyPlace) {
  for (const int64_t length : {1, 2, 7, 40}) {
    for (const int64_t own : {length, length - 1, length / 2}) {
      for (const int64_t count : {int64_t{0}, int64_t{1}, length / 2, length}) {
        for (int64_t from = 0; from < length; from += 1 + length / 8) {
          WriteRowsShape shape{2, 3, own, length, count, 5};
          Check(shape, {from, length - 1 - from}, false);
          if (own == length) Check(shape, {from, length - 1 - from}, true);
        }
      }
    }
  }
}

TEST(WriteRows, ByManyTasks) {
  Check({1, 4, 3000, 3001, 1, 256}, {3000}, false);
  Check({3, 2, 2000, 2000, 900, 128}, {0, 1500, 1999}, false);
  Check({3, 2, 2000, 2000, 900, 128}, {0, 1500, 1999}, true);
}

}  // namespace
}  // namespace sardonyx
