#include <algorithm>
#include <numeric>

#include "ops/lowering.h"

namespace sardonyx::ops {

namespace {

// Absent inputs are often given as empty tensors.
Val Present(Val x) {
  if (!x || (x.rank() == 1 && x.shape()[0] == 0)) return Val{};
  return x;
}

// True if batch and channels keep their size, so that the image may be resized channels-last.
bool KeepsBatchAndChannels(Val x, Val scales, Val sizes) {
  if (x.rank() < 3) return false;
  if (sizes) {
    const std::optional<Dims>& to = sizes.fact().elements;
    return to && to->size() == x.shape().size() && (*to)[0] == x.shape()[0] &&
           (*to)[1] == x.shape()[1];
  }
  if (!scales.is_constant()) return false;
  const std::vector<double> factors = scales.doubles();
  return static_cast<int>(factors.size()) == x.rank() && factors[0] == 1 && factors[1] == 1;
}

std::vector<float> Limited(const std::vector<double>& factors, double low, double high) {
  std::vector<float> result;
  for (double factor : factors) result.push_back(static_cast<float>(std::clamp(factor, low, high)));
  return result;
}

}  // namespace

Outputs LowerResize(Lowering& op) {
  Val x = op.in(0);
  const std::string coordinates = op.String("coordinate_transformation_mode", "half_pixel");
  const bool crops = coordinates == "tf_crop_and_resize";
  const Val roi = crops ? Present(op.in(1)) : Val{};
  Val sizes = Present(op.in(3));
  Val scales = sizes ? Val{} : Present(op.in(2));
  if (!sizes && !scales) op.Fail("has neither scales nor sizes");

  Attributes attributes;
  attributes.Set("mode", op.String("mode", "nearest"));
  attributes.Set("coordinate_transformation_mode", coordinates);
  attributes.Set("nearest_mode", op.String("nearest_mode", "round_prefer_floor"));
  attributes.Set("cubic_coeff_a", op.Float("cubic_coeff_a", -0.75));
  attributes.Set("exclude_outside", op.Int("exclude_outside"));
  attributes.Set("extrapolation_value", op.Float("extrapolation_value"));
  attributes.Set("antialias", op.Int("antialias"));
  attributes.Set("keep_aspect_ratio_policy", op.String("keep_aspect_ratio_policy", "stretch"));
  const bool has_axes = op.HasAttribute("axes");
  if (has_axes) attributes.Set("axes", op.Ints("axes"));

  const bool channels_last = !crops && !has_axes && KeepsBatchAndChannels(x, scales, sizes);
  if (channels_last) {
    std::vector<int64_t> order(x.rank());
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
    const Val permutation = op.builder().Ints(order);
    if (scales) scales = Gather(scales, permutation, 0);
    if (sizes) sizes = Gather(sizes, permutation, 0);
    x = ToChannelsLast(x);
  }
  const Val y = op.builder().Make(core::resize, {x, roi, scales, sizes}, attributes);
  return channels_last ? ToChannelsFirst(y) : y;
}

// Resize-10 and Upsample map coordinates by the factor alone; the nearest pixel is the one before
// where an axis grows, and the one after where it shrinks.
void AdaptResize(Lowering& op) {
  if (op.version() >= 11) return;
  const Val scales = op.in(1);
  const std::vector<double> factors = scales.doubles();
  if (factors.empty()) op.Fail("scales are empty");
  op.inputs = {op.in(0), Val{}, scales};
  op.attributes.Set("coordinate_transformation_mode", std::string("asymmetric"));
  if (op.String("mode") == "bilinear") op.attributes.Set("mode", std::string("linear"));
  op.attributes.Set("nearest_mode", std::string("floor"));
  const auto [least, most] = std::minmax_element(factors.begin(), factors.end());
  if (op.String("mode", "nearest") != "nearest" || *least >= 1) return;
  if (*most > 1) {
    op.inputs[2] = op.builder().Constant(MakeVector(Limited(factors, 1, HUGE_VAL)));
    op.inputs[0] = LowerResize(op).values[0];
    op.inputs[2] = op.builder().Constant(MakeVector(Limited(factors, 0, 1)));
  }
  op.attributes.Set("nearest_mode", std::string("ceil"));
}

Outputs LowerUpsample(Lowering& op) { return LowerResize(op); }

// Upsample-1 has two factors as attributes, 7 a list, 9 an input.
void AdaptUpsample(Lowering& op) {
  std::vector<float> factors;
  if (op.HasAttribute("height_scale")) {
    factors = {1, 1, static_cast<float>(op.Float("height_scale")),
               static_cast<float>(op.Float("width_scale"))};
  } else if (op.HasAttribute("scales")) {
    for (double factor : op.attributes.Floats("scales")) {
      factors.push_back(static_cast<float>(factor));
    }
  }
  if (!factors.empty()) op.SetInput(1, op.builder().Constant(MakeVector(factors)));
  AdaptResize(op);
}

}  // namespace sardonyx::ops
