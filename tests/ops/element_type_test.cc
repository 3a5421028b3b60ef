#include <gtest/gtest.h>

#include <cstdint>

#include "core_node.h"
#include "ops/core/core.h"
#include "sardonyx/error.hpp"

namespace sardonyx {
namespace {

// 257 is float, cut to a byte.
TEST(ElementType, NumbersOfNoneAreRefused) {
  for (const int64_t number : {int64_t{-1}, int64_t{0}, int64_t{29}, int64_t{257}, INT64_MAX}) {
    const Attributes to{{"to", number}}, dtype{{"dtype", number}};
    const Tensor x = MakeFilled(DType::kFloat32, {1, 2}, 3);
    EXPECT_THROW(Compute(core::layer_norm, {x}, to), Error) << number;
    EXPECT_THROW(Compute(core::Elementwise(Fn::kCast), {x}, to), Error) << number;
    EXPECT_THROW(Compute(core::eye_like, {x}, dtype), Error) << number;
    EXPECT_THROW(RunAll(core::sequence, {}, dtype), Error) << number;
  }
}

}  // namespace
}  // namespace sardonyx
