#include <limits>

#include "ops/lowering.h"

namespace sardonyx::ops::contrib {
namespace {

// An attribute that says a size once more.
void CheckSize(const Lowering& op, std::string_view attribute, Val x, int axis) {
  const int64_t given = op.Int(attribute, -1);
  const Dim size = x.shape()[axis];
  if (given != -1 && size.known() && size.value() != given) {
    op.Fail("attribute {} is {}, but the weights have {}", attribute, given, size.value());
  }
}

// The sums of windows of characters, [windows, filters]. Those of an alphabet are added up from
// what each character gives at each place of the window, which is known before.
Val SumsOf(Val ids, Val w, Val table) {
  constexpr int64_t kAlphabet = 1024;
  const bool is_known = w.is_constant() && table.is_constant();
  if (!is_known || table.size(0) > kAlphabet) {
    return MatMul(Flatten(Gather(table, ids, 0), 1), Flatten(w, 1), false, true);
  }
  const int64_t window = w.size(2);
  const Val taps = Flatten(Transpose(Squeeze(w, {1}), {1, 0, 2}), 2);  // [window * filters, size]
  const Val each = Reshape(MatMul(table, taps, false, true), std::vector<int64_t>{-1, w.size(0)});
  const Val places = Cast(ids, DType::kInt64) * static_cast<double>(window) +
                     Positions(ids.builder->Ints({window}));
  return Reduce("sum", Gather(each, places, 0), {1}, false);
}

}  // namespace

// For each word, whose characters are numbers above 0 and which ends with the first 0, the largest
// value of tanh(conv + bias) over its windows of characters; one window at least. Words without
// characters give zeros. Inputs: words [count, characters], weights [filters, 1, window, size],
// bias [filters], embeddings of the characters [number, size].
Outputs LowerWordConvEmbedding(Lowering& op) {
  Val words = op.in(0);
  const Val w = op.in(1), bias = op.in(2), table = op.in(3);
  if (words.rank() != 2 || w.rank() != 4 || table.rank() != 2) {
    op.Fail("Sequence, W and C have ranks {}, {} and {}, not 2, 4 and 2", words.rank(), w.rank(),
            table.rank());
  }
  CheckSize(op, "embedding_size", w, 0);
  CheckSize(op, "conv_window_size", w, 2);
  CheckSize(op, "char_embedding_size", table, 1);
  if (w.size(1) != 1) op.Fail("W has {} channels, not 1", w.size(1));
  const int64_t window = w.size(2);
  if (window < 1) op.Fail("W has a window of {} characters", window);

  Builder& b = op.builder();
  const Dim given = words.shape()[1];
  if (!given.known() || given.value() < window) {  // padded up to a window
    const Val missing = Max(b.Ints({window}) - SizeOf(words, 1), 0.0);
    words =
        b.Make(core::pad,
               {words, Concat({b.Ints({0}), missing}, 0), b.Scalar(words.dtype(), 0), b.Ints({1})},
               {{"mode", std::string("constant")}});
  }
  const Val is_letter = Greater(words, 0.0);
  const Val counts = Reduce("sum", Cast(is_letter, DType::kInt64), {1}, true);
  const Val begins = Slice(is_letter, {0}, {1}, {1});  // [count, 1]
  const Val windows = Max(counts - static_cast<double>(window - 1), 1.0);
  const Val length = SizeOf(words, 1);
  const Val exists =
      And(begins, Less(Positions(length - static_cast<double>(window - 1)), windows));
  // Most characters of most words are padding: the windows that there are, [2, windows].
  const std::vector<Val> places = Split(b.Make(core::nonzero, {exists}), {1, 1}, 0);
  const Val word = Transpose(places[0], {1, 0}), first = Transpose(places[1], {1, 0});
  const Val letters = word * length + first + Positions(b.Ints({window}));
  const Val ids = Gather(Reshape(words, std::vector<int64_t>{-1}), letters, 0);
  const Val sums = SumsOf(ids, w, table);
  // tanh rises, so that the largest of its values is that of the largest sum.
  const DType type = sums.dtype();
  const double lowest = -std::numeric_limits<double>::infinity();
  const Val none =
      Filled(Concat({SizeOf(words, 0), SizeOf(w, 0)}, 0), MakeFilled(type, {1}, lowest));
  const Val largest =
      b.Make(core::scatter_nd, {none, word, sums}, {{"reduction", std::string("max")}});
  return Where(begins, Tanh(largest + bias), b.Scalar(type, 0));
}

}  // namespace sardonyx::ops::contrib
