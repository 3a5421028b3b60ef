// BifurcationDetector of com.microsoft: how far a guess at the next tokens holds, and where in the
// source the text that it gives goes on.

#include <algorithm>

#include "ops/core/reference.h"
#include "ops/lowering.h"

namespace sardonyx {
namespace core {
namespace {

enum Input : size_t { kSource, kCurrent, kPrevious, kPredicted };

void InferBifurcation(InferContext& context) {
  for (size_t i = 0; i < context.input_count(); ++i) {
    if (!context.has(i)) continue;
    if (context.dtype(i) != DType::kInt64) {
      context.Fail("bifurcation takes tokens as int64, not {}", Name(context.dtype(i)));
    }
    if (i != kPrevious && context.ranked(i) && context.rank(i) != 1) {
      context.Fail("bifurcation takes tokens as vectors, not {}", context.Print(context.shape(i)));
    }
  }
  const int64_t shortest = context.attributes().Int("min_ngram_size", 1);
  const int64_t longest = context.attributes().Int("max_ngram_size", 3);
  if (shortest < 1 || longest < shortest) {
    context.Fail("n-grams of {} to {} tokens", shortest, longest);
  }
  if (context.ranked(kPrevious)) {
    const Dims& shape = context.shape(kPrevious);
    const bool one = std::all_of(shape.begin(), shape.end(),
                                 [](Dim dim) { return !dim.known() || dim.value() == 1; });
    if (!one) context.Fail("prev_suffix_match_idx is one number, not {}", context.Print(shape));
  }
  context.Set(0, DType::kInt64,
              context.has(kPredicted) || !context.ranked(kCurrent) ? Dims{context.symbols().Fresh()}
                                                                   : context.shape(kCurrent));
  context.Set(1, DType::kInt64, context.input(kPrevious).shape);
}

// Behind the only place of the source where the last tokens stand: as many of them as single out a
// place; -1 if none do.
int64_t SuffixMatch(std::span<const int64_t> source, std::span<const int64_t> tokens,
                    int64_t shortest, int64_t longest) {
  const auto most = std::min(longest, static_cast<int64_t>(tokens.size()));
  for (int64_t length = shortest; length <= most; ++length) {
    const auto suffix = tokens.last(length);
    const auto first = std::search(source.begin(), source.end(), suffix.begin(), suffix.end());
    if (first == source.end()) return -1;
    const auto next = std::search(first + 1, source.end(), suffix.begin(), suffix.end());
    if (next == source.end()) return first - source.begin() + length;
  }
  return -1;
}

void ComputeBifurcation(ComputeContext& context) {
  const auto tokens_of = [&](size_t i) {
    return std::span(context.input(i).data<int64_t>(), context.input(i).size());
  };
  const std::span<const int64_t> source = tokens_of(kSource), current = tokens_of(kCurrent);
  std::vector<int64_t> tokens(current.begin(), current.end());
  if (context.has(kPredicted)) {
    const std::span<const int64_t> predicted = tokens_of(kPredicted);
    const auto length = static_cast<int64_t>(source.size());
    const int64_t previous = context.input(kPrevious).data<int64_t>()[0];
    if (previous < 0 || previous > length) {
      Fail(ErrorCode::kInvalidArgument, "prev_suffix_match_idx is {}, of {} tokens", previous,
           length);
    }
    if (static_cast<int64_t>(predicted.size()) != length - previous + 1) {
      Fail(ErrorCode::kInvalidArgument, "{} predicted tokens, not {}", predicted.size(),
           length - previous + 1);
    }
    // The first that differs is the model's own and still right.
    const auto differ = std::mismatch(source.begin() + previous, source.end(), predicted.begin());
    tokens.insert(tokens.end(), predicted.begin(), differ.second + 1);
  }
  const auto count = static_cast<int64_t>(tokens.size());
  std::copy(tokens.begin(), tokens.end(),
            context.Allocate(0, DType::kInt64, {count}).data<int64_t>());
  context.Allocate(1).data<int64_t>()[0] =
      SuffixMatch(source, tokens, context.attributes().Int("min_ngram_size", 1),
                  context.attributes().Int("max_ngram_size", 3));
}

}  // namespace

const CoreOp bifurcation = {.name = "bifurcation",
                            .inputs = "tttt?",
                            .outputs = {2, 2},
                            .infer = InferBifurcation,
                            .reference = ComputeBifurcation};

}  // namespace core

namespace ops::contrib {

Outputs LowerBifurcationDetector(Lowering& op) {
  std::vector<Val> inputs = {op.in(0), op.in(1), op.in(2)};
  if (op.has(3)) inputs.push_back(op.in(3));
  return op.builder().MakeMany(core::bifurcation, inputs,
                               {{"min_ngram_size", op.Int("min_ngram_size", 1)},
                                {"max_ngram_size", op.Int("max_ngram_size", 3)}},
                               2);
}

}  // namespace ops::contrib
}  // namespace sardonyx
