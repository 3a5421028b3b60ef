// non_max_suppression.

#include "kernels/non_max_suppression.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "devices/cpu/families.h"

namespace sardonyx::cpu {
namespace {

enum Input : size_t { kBoxes, kScores, kMost, kOverlap, kLeastScore };

// Absent or empty, an input of one element is its default.
bool IsGiven(const BindRequest& request, size_t i) {
  return request.has(i) && request.inputs[i].size() > 0;
}

BindResult BindNonMaxSuppression(const BindRequest& request) {
  for (const size_t i : {kMost, kOverlap, kLeastScore}) {
    if (IsGiven(request, i) && request.inputs[i].constant == nullptr) {
      return Refuse("input {} is not known", size_t{i});
    }
  }
  const std::vector<int64_t>& scores = request.inputs[kScores].dims;
  NonMaxSuppressionShape shape{.batch = scores[0], .classes = scores[1], .count = scores[2]};
  if (shape.rows() == 0 || shape.count == 0) return Refuse("no scores");
  if (shape.count > std::numeric_limits<int32_t>::max()) return Refuse("{} boxes", shape.count);
  shape.center = request.node.attributes.Int("center_point_box") != 0;
  const auto number = [&](size_t i) {
    return static_cast<float>(ToDoubles(*request.inputs[i].constant)[0]);
  };
  if (IsGiven(request, kMost)) {
    shape.most = std::max<int64_t>(ToInts(*request.inputs[kMost].constant)[0], 0);
  }
  if (IsGiven(request, kOverlap)) shape.overlap = number(kOverlap);
  if (!(shape.overlap >= 0 && shape.overlap <= 1)) {
    return Refuse("iou_threshold {} is outside [0,1]", shape.overlap);
  }
  shape.has_least_score = IsGiven(request, kLeastScore);
  if (shape.has_least_score) shape.least_score = number(kLeastScore);
  const int64_t kernel_bytes = NonMaxSuppressionScratchBytes(shape, request.threads);
  Bound bound;
  bound.scratch_bytes = kernel_bytes + shape.rows() * (8 + shape.places() * 4);
  bound.run = [=](const StepArgs& args) {
    auto* const found = reinterpret_cast<int64_t*>(static_cast<char*>(args.scratch) + kernel_bytes);
    auto* const chosen = reinterpret_cast<int32_t*>(found + shape.rows());
    NonMaxSuppression(shape, static_cast<const float*>(args.in[kBoxes]),
                      static_cast<const float*>(args.in[kScores]), chosen, found, args.scratch,
                      args.parallel);
    int64_t count = 0;
    for (int64_t row = 0; row < shape.rows(); ++row) count += found[row];
    auto* y = static_cast<int64_t*>((*args.place)(0, {count, 3}));
    for (int64_t row = 0; row < shape.rows(); ++row) {
      for (int64_t i = 0; i < found[row]; ++i, y += 3) {
        y[0] = row / shape.classes;
        y[1] = row % shape.classes;
        y[2] = chosen[row * shape.places() + i];
      }
    }
  };
  return bound;
}

constexpr Implementation kNonMaxSuppression[] = {{"rows", BindNonMaxSuppression, true}};

}  // namespace

std::span<const Implementation> NonMaxSuppressionList() { return kNonMaxSuppression; }

}  // namespace sardonyx::cpu
