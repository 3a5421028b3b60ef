// NonMaxSuppression: of boxes that overlap, the one with the best score.

#include <algorithm>
#include <cmath>
#include <tuple>

#include "ops/core/reference.h"
#include "ops/lowering.h"

namespace sardonyx {
namespace core {
namespace {

enum Input : size_t { kBoxes, kScores, kMost, kOverlap, kLeastScore };

void InferNonMaxSuppression(InferContext& context) {
  for (size_t i : {kBoxes, kScores}) {
    if (context.dtype(i) != DType::kFloat32) {
      context.Fail("boxes and scores are float, not {}", Name(context.dtype(i)));
    }
    if (context.ranked(i) && context.rank(i) != 3) {
      context.Fail("boxes and scores have rank 3, not {}", context.Print(context.shape(i)));
    }
  }
  if (context.ranked(kBoxes)) {
    const Dims& boxes = context.shape(kBoxes);
    bool fits = !boxes[2].known() || boxes[2] == Dim(4);
    if (context.ranked(kScores)) {
      const Dims& scores = context.shape(kScores);
      const auto same = [](Dim a, Dim b) { return !a.known() || !b.known() || a == b; };
      fits = fits && same(boxes[0], scores[0]) && same(boxes[1], scores[2]);
      if (!fits) {
        context.Fail("boxes {} do not fit scores {}", context.Print(boxes), context.Print(scores));
      }
    }
    if (!fits) context.Fail("boxes are [batch,count,4], not {}", context.Print(boxes));
  }
  context.Set(0, DType::kInt64, Dims{context.symbols().Fresh(), Dim(3)});
}

struct Box {
  float left, top, right, bottom;

  Box(const float* box, bool center) {
    if (center) {
      left = box[0] - box[2] / 2, right = box[0] + box[2] / 2;
      top = box[1] - box[3] / 2, bottom = box[1] + box[3] / 2;
    } else {
      std::tie(left, right) = std::minmax(box[1], box[3]);
      std::tie(top, bottom) = std::minmax(box[0], box[2]);
    }
  }
  float area() const { return (right - left) * (bottom - top); }
};

bool Overlap(const Box& a, const Box& b, float threshold) {
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  if (!(width > 0 && height > 0 && a.area() > 0 && b.area() > 0)) return false;
  const float common = width * height;
  return common / (a.area() + b.area() - common) > threshold;
}

// The one element of an optional input; null where it is absent or empty.
const Tensor* Given(const ComputeContext& context, size_t i) {
  if (!context.has(i) || context.input(i).size() == 0) return nullptr;
  return &context.input(i);
}

void ComputeNonMaxSuppression(ComputeContext& context) {
  const Tensor &boxes = context.input(kBoxes), &scores = context.input(kScores);
  const bool center = context.attributes().Int("center_point_box") != 0;
  const Tensor *most = Given(context, kMost), *overlap = Given(context, kOverlap);
  const Tensor* least = Given(context, kLeastScore);
  const int64_t limit = most != nullptr ? ToInts(*most)[0] : 0;
  const float threshold = overlap != nullptr ? static_cast<float>(ToDoubles(*overlap)[0]) : 0;
  if (!(threshold >= 0 && threshold <= 1)) {
    Fail(ErrorCode::kInvalidArgument, "iou_threshold {} is outside [0,1]", threshold);
  }
  const double least_score = least != nullptr ? ToDoubles(*least)[0] : 0;
  const int64_t count = boxes.dims()[1], classes = scores.dims()[1];
  std::vector<int64_t> selected;
  std::vector<std::pair<float, int64_t>> waiting(count);  // score and box
  // Equal scores in the order of their boxes; a NaN is the least score.
  const auto later = [](const auto& a, const auto& b) {
    if (a.first > b.first || a.first < b.first) return a.first < b.first;
    if (std::isnan(a.first) != std::isnan(b.first)) return std::isnan(a.first);
    return a.second > b.second;
  };
  std::vector<Box> chosen;
  for (int64_t row = 0; limit > 0 && row < scores.dims()[0] * classes; ++row) {
    const int64_t batch = row / classes;
    const float* score = scores.data<float>() + row * count;
    int64_t size = 0;
    for (int64_t i = 0; i < count; ++i) {
      waiting[size] = {score[i], i};
      size += least == nullptr || score[i] > least_score;
    }
    const auto first = waiting.begin();
    std::make_heap(first, first + size, later);
    chosen.clear();
    for (; size > 0 && std::ssize(chosen) < limit; --size) {
      std::pop_heap(first, first + size, later);
      const int64_t i = waiting[size - 1].second;
      const Box box(boxes.data<float>() + (batch * count + i) * 4, center);
      const auto overlaps = [&](const Box& other) { return Overlap(box, other, threshold); };
      if (std::any_of(chosen.begin(), chosen.end(), overlaps)) continue;
      chosen.push_back(box);
      selected.insert(selected.end(), {batch, row % classes, i});
    }
  }
  Tensor& y = context.Allocate(0, DType::kInt64, {static_cast<int64_t>(selected.size()) / 3, 3});
  std::copy(selected.begin(), selected.end(), y.data<int64_t>());
}

}  // namespace

const CoreOp non_max_suppression = {.name = "non_max_suppression",
                                    .inputs = "ttt?t?t?",
                                    .infer = InferNonMaxSuppression,
                                    .reference = ComputeNonMaxSuppression};

}  // namespace core

namespace ops {

Outputs LowerNonMaxSuppression(Lowering& op) {
  return op.builder().Make(core::non_max_suppression,
                           {op.in(0), op.in(1), op.in(2), op.in(3), op.in(4)},
                           {{"center_point_box", op.Int("center_point_box")}});
}

}  // namespace ops
}  // namespace sardonyx
