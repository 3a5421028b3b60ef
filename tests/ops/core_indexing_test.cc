// Reference computes of core operations that read and write by position, against values by hand.

#include <cmath>

#include "base/cast.h"
#include "core_node.h"

namespace sardonyx {
namespace {

TEST(Indexing, Gathers) {
  const Tensor x = Counting({2, 3});
  ExpectTensor(Compute(core::gather, {x, Ints({2, -3})}, {{"axis", int64_t{1}}}), {2, 2},
               {2, 0, 5, 3});
  ExpectTensor(Compute(core::gather_elements, {x, Make<int64_t>({1, 3}, {1, 0, -1})},
                       {{"axis", int64_t{0}}}),
               {1, 3}, {3, 1, 5});
  ExpectTensor(Compute(core::gather_nd, {x, Make<int64_t>({2, 2}, {0, 1, 1, -1})}), {2}, {1, 5});
  ExpectTensor(
      Compute(core::gather_nd, {x, Make<int64_t>({2, 1}, {1, 0})}, {{"batch_dims", int64_t{1}}}),
      {2}, {1, 3});
  try {
    Compute(core::gather, {x, Ints({3})}, {{"axis", int64_t{1}}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "gather: index 3 is outside [-3,2]");
  }
}

TEST(Indexing, Scatters) {
  const Tensor x = Counting({2, 2}), updates = Floats({1, 2}, {10, 20});
  ExpectTensor(Compute(core::scatter_elements, {x, Make<int64_t>({1, 2}, {1, 0}), updates},
                       {{"axis", int64_t{0}}}),
               {2, 2}, {0, 20, 10, 3});
  ExpectTensor(Compute(core::scatter_elements, {x, Make<int64_t>({1, 2}, {1, 1}), updates},
                       {{"axis", int64_t{1}}, {"reduction", std::string("add")}}),
               {2, 2}, {0, 31, 2, 3});
  ExpectTensor(
      Compute(core::scatter_nd, {x, Make<int64_t>({2, 1}, {1, 1}), Floats({2, 2}, {1, 5, 4, 2})},
              {{"reduction", std::string("max")}}),
      {2, 2}, {0, 1, 4, 5});
}

// Strings, and elements of half a byte, along each axis.
TEST(Indexing, SlicesOfWhatIsNoBytes) {
  const Tensor words = Make<std::string>({2, 2, 2}, {"a", "b", "c", "d", "e", "f", "g", "h"});
  const std::vector<std::vector<std::string>> expected = {
      {"e", "f", "g", "h"}, {"c", "d", "g", "h"}, {"b", "d", "f", "h"}};
  Tensor halves(DType::kUInt4, {2, 2, 2});
  for (int64_t i = 0; i < 8; ++i) WritePacked(halves.raw(), 4, i, static_cast<uint8_t>(i));
  for (int64_t axis = 0; axis < 3; ++axis) {
    const std::vector<Datum> where = {Ints({1}), Ints({2}), Ints({axis})};
    const Tensor some = Compute(core::slice, {words, where[0], where[1], where[2]});
    const Tensor half = Compute(core::slice, {halves, where[0], where[1], where[2]});
    for (int64_t i = 0; i < 4; ++i) {
      const std::string& word = expected[axis][i];
      EXPECT_EQ(some.data<std::string>()[i], word);
      EXPECT_EQ(ReadPacked(half.raw(), 4, i), word[0] - 'a');
    }
  }
}

TEST(Indexing, WriteRows) {
  const Tensor x = Counting({2, 3, 1}), rows = Floats({2, 2, 1}, {10, 11, 12, 13});
  const Attributes linear{{"axis", int64_t{1}}},
      circular{{"axis", int64_t{-2}}, {"circular", int64_t{1}}};
  const Tensor starts = Make<int64_t>({2}, {1, 2});
  ExpectTensor(Compute(core::write_rows, {x, rows, Ints({1})}, linear), {2, 3, 1},
               {0, 10, 11, 3, 12, 13});
  ExpectTensor(Compute(core::write_rows, {x, rows, starts}, circular), {2, 3, 1},
               {0, 10, 11, 13, 4, 12});
  ExpectTensor(Compute(core::write_rows, {x, rows, starts, Ints({4})}, linear), {2, 4, 1},
               {0, 10, 11, 0, 3, 4, 12, 13});
  ExpectTensor(Compute(core::write_rows, {x, rows, starts, Ints({5})}, linear), {2, 5, 1},
               {0, 10, 11, 0, 0, 3, 4, 12, 13, 0});
  for (const int64_t start : {-1, 2, 3}) {
    try {
      Compute(core::write_rows, {x, rows, Ints({start})}, linear);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()),
                "2 rows from " + std::to_string(start) + " on do not fit into 3");
    }
  }
  EXPECT_THROW(Compute(core::write_rows, {x, Floats({2, 4, 1}, {1, 2, 3, 4, 5, 6, 7, 8})}, linear),
               Error);
  EXPECT_THROW(Compute(core::write_rows, {x, rows, Ints({1, 1, 1})}, linear), Error);
}

TEST(Indexing, TopkAndArg) {
  const Tensor x = Floats({2, 4}, {1, 3, 3, 2, 0, NAN, -1, 5});
  const auto top = RunAll(core::topk, {x, Ints({2})}, {}, 2);
  ExpectTensor(*top[0].tensor(), {2, 2}, {3, 3, NAN, 5});
  ExpectTensor(*top[1].tensor(), {2, 2}, {1, 2, 1, 3});
  const auto low =
      RunAll(core::topk, {x, Ints({1})}, {{"axis", int64_t{0}}, {"largest", int64_t{0}}}, 2);
  ExpectTensor(*low[1].tensor(), {1, 4}, {1, 0, 1, 0});
  const Attributes last{{"kind", std::string("argmax")},
                        {"axis", int64_t{1}},
                        {"select_last_index", int64_t{1}},
                        {"keepdims", int64_t{0}}};
  ExpectTensor(Compute(core::arg_reduce, {Floats({1, 3}, {4, 4, 1})}, last), {1}, {1});
  ExpectTensor(
      Compute(core::arg_reduce, {x}, {{"kind", std::string("argmin")}, {"axis", int64_t{0}}}),
      {1, 4}, {1, 1, 1, 0});
}

TEST(Indexing, SelectByValue) {
  ExpectTensor(Compute(core::nonzero, {Floats({2, 2}, {0, 1, 2, 0})}), {2, 2}, {0, 1, 1, 0});
  ExpectTensor(Compute(core::nonzero, {MakeScalar(1.0f)}), {0, 1}, {});
  ExpectTensor(Compute(core::compress, {Counting({2, 3}), Make<bool>({3}, {false, true, true})},
                       {{"axis", int64_t{1}}}),
               {2, 2}, {1, 2, 4, 5});
  ExpectTensor(Compute(core::compress, {Counting({2, 3}), Make<bool>({2}, {true, true})}), {2},
               {0, 1});
  ExpectTensor(
      Compute(core::one_hot, {Ints({0, -1, 7}), MakeScalar<int64_t>(3), Floats({2}, {0, 5})}),
      {3, 3}, {5, 0, 0, 0, 0, 5, 0, 0, 0});
  ExpectTensor(Compute(core::trilu, {Counting({2, 3})}), {2, 3}, {0, 1, 2, 0, 4, 5});
  ExpectTensor(
      Compute(core::trilu, {Counting({2, 3}), MakeScalar<int64_t>(-1)}, {{"upper", int64_t{0}}}),
      {2, 3}, {0, 0, 0, 3, 0, 0});
}

}  // namespace
}  // namespace sardonyx
