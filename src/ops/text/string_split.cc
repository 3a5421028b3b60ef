#include <utf8proc.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "ops/core/reference.h"
#include "ops/lowering.h"
#include "ops/text/text.h"

namespace sardonyx {
namespace core {
namespace {

constexpr size_t kNone = std::string_view::npos;

void InferStringSplit(InferContext& context) {
  text::ExpectStrings(context, 0);
  if (!context.ranked(0)) {
    context.Set(0, DType::kString, {});
    if (context.output_count() > 1) context.Set(1, DType::kInt64, {});
    return;
  }
  Dims shape = context.shape(0);
  if (context.output_count() > 1) context.Set(1, DType::kInt64, shape);
  shape.push_back(context.symbols().Fresh());
  context.Set(0, DType::kString, std::move(shape));
}

// Where the next run of whitespace at or behind `from` begins and ends; {npos, npos} if none.
std::pair<size_t, size_t> FindSpaces(std::string_view text, size_t from) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  size_t begin = kNone;
  while (from < text.size()) {
    int32_t c = bytes[from];
    const auto length =
        c < 0x80
            ? 1
            : utf8proc_iterate(bytes + from, static_cast<utf8proc_ssize_t>(text.size() - from), &c);
    // A byte that belongs to no character is part of a word.
    const bool space = length > 0 && text::IsSpace(c);
    if (space && begin == kNone) begin = from;
    if (!space && begin != kNone) break;
    from += length > 0 ? static_cast<size_t>(length) : 1;
  }
  return {begin, begin == kNone ? kNone : from};
}

// Words of all texts, one text behind the other.
using Words = std::vector<std::string_view>;

void SplitAtSpaces(std::string_view text, size_t most, Words& words) {
  size_t at = 0, count = 0;
  auto gap = FindSpaces(text, 0);
  if (gap.first == 0) {
    at = gap.second;
    gap = FindSpaces(text, at);
  }
  for (; at < text.size() && gap.first != kNone && count < most; ++count) {
    words.push_back(text.substr(at, gap.first - at));
    at = gap.second;
    gap = FindSpaces(text, at);
  }
  if (at < text.size()) words.push_back(text.substr(at));
}

void SplitAtDelimiter(std::string_view text, std::string_view delimiter, size_t most,
                      Words& words) {
  size_t at = 0, end;
  for (size_t count = 0; count < most && (end = text.find(delimiter, at)) != kNone; ++count) {
    words.push_back(text.substr(at, end - at));
    at = end + delimiter.size();
  }
  words.push_back(text.substr(at));
}

void ComputeStringSplit(ComputeContext& context) {
  const Tensor& x = context.input(0);
  const std::string_view delimiter = context.attributes().String("delimiter");
  // As in Python, a negative count bounds nothing.
  const int64_t maxsplit = context.attributes().Int("maxsplit", -1);
  const size_t most =
      maxsplit < 0 ? std::numeric_limits<size_t>::max() : static_cast<size_t>(maxsplit);
  Words words;
  std::vector<int64_t> counts(x.size());
  for (int64_t i = 0; i < x.size(); ++i) {
    const std::string& text = x.data<std::string>()[i];
    const size_t before = words.size();
    if (delimiter.empty()) {
      SplitAtSpaces(text, most, words);
    } else {
      SplitAtDelimiter(text, delimiter, most, words);
    }
    counts[i] = static_cast<int64_t>(words.size() - before);
  }
  const int64_t widest = counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
  std::vector<int64_t> dims = x.dims();
  dims.push_back(widest);
  std::string* y = context.Allocate(0, DType::kString, dims).data<std::string>();
  auto word = words.begin();
  for (const int64_t count : counts) {
    std::copy(word, word + count, y);
    word += count;
    y += widest;
  }
  if (context.output_count() < 2) return;
  std::copy(counts.begin(), counts.end(),
            context.Allocate(1, DType::kInt64, x.dims()).data<int64_t>());
}

}  // namespace

const CoreOp string_split = {.name = "string_split",
                             .inputs = "t",
                             .outputs = {1, 2},
                             .infer = InferStringSplit,
                             .reference = ComputeStringSplit};

}  // namespace core

namespace ops {

Outputs LowerStringSplit(Lowering& op) {
  return op.builder().MakeMany(
      core::string_split, {op.in(0)},
      {{"delimiter", op.String("delimiter")}, {"maxsplit", op.Int("maxsplit", -1)}},
      static_cast<int>(op.output_count()));
}

}  // namespace ops
}  // namespace sardonyx
