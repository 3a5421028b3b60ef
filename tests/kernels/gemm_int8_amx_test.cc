// Blocks of byte products by the processor's tiles: what vectors make of them, bit for bit. Those
// are compared with plain loops by conv_int8_test.cc.
#include "kernels/gemm_int8_amx.h"

#include <numeric>

#include "base/round.h"
#include "each_target.h"
#include "kernels/int8_panel.h"

namespace sardonyx {
namespace {

enum class Result : uint8_t { kSums, kFloats, kBare, kInt8, kAdded, kAddedInPlace, kWithRowSums };

// A block of random sizes and data, and memory for its results.
class Block {
 public:
  explicit Block(uint32_t seed) : random_(seed) {
    result_ = static_cast<Result>(Below(7));
    Sizes();
    const int64_t width = Int8PanelWidth(), panels = CeilDiv(args_.n1, width);
    const int64_t all = (args_.lines - 1) * args_.line_bytes + (args_.rows - 1) * args_.a_bytes +
                        (args_.segments - 1) * args_.segment_bytes + args_.groups * 4;
    a_ = Bytes(all);
    b_ = Bytes(panels * width * args_.segments * args_.groups * 4 + 64);
    args_.a = a_.data();
    const auto* const b = b_.data() + (64 - reinterpret_cast<uintptr_t>(b_.data()) % 64) % 64;
    args_.b = b;
    const int64_t columns = panels * width + kInt8ColumnSlack;
    init_.resize(static_cast<size_t>(columns));
    for (int32_t& value : init_) value = static_cast<int32_t>(random_());
    args_.init = init_.data();
    column_sums_.resize(static_cast<size_t>(columns));
    const int64_t groups = args_.segments * args_.groups;
    for (int64_t p = 0; p < panels; ++p) {
      Int8SumColumns(b + p * width * groups * 4, groups, column_sums_.data() + p * width);
    }
    args_.column_sums = column_sums_.data();
    row_sums_.resize(static_cast<size_t>(args_.rows * args_.lines));
    std::iota(row_sums_.begin(), row_sums_.end(), -7);
    if (result_ == Result::kWithRowSums) {
      args_.row_sums = row_sums_.data();
      args_.row_factor = init_.data();
    }
    Store(columns);
  }

  const Int8BlockArgs& args() const { return args_; }

  std::vector<uint8_t> Run(bool by_tiles) {
    const auto y = y_;
    AllowMatrixTilesForTest(by_tiles);
    EXPECT_EQ(Int8AmxTakes(args_), by_tiles);
    Int8Block(args_);
    std::vector<uint8_t> made = y_;
    y_ = y;
    args_.store.y = y_.data() + kBefore;
    if (result_ == Result::kAddedInPlace) args_.store.residual = args_.store.y;
    return made;
  }

 private:
  static constexpr int64_t kBefore = 64;  // bytes, and behind

  int64_t Below(int64_t end) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(end));
  }

  std::vector<uint8_t> Bytes(int64_t count) {
    std::vector<uint8_t> bytes(static_cast<size_t>(count));
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random_());
    return bytes;
  }

  void Sizes() {
    args_.groups = 1 + Below(Below(2) == 0 ? 20 : 80);
    args_.segments = Below(2) == 0 ? 1 : 1 + Below(9);
    args_.rows = 4 + Below(60);
    args_.a_bytes = args_.groups * 4 + 4 * Below(5);
    args_.segment_bytes = 4 * Below(200);
    if (result_ == Result::kWithRowSums) args_.segments = 1;
    args_.flip = Below(4) == 0;
    if (Below(3) == 0 && !args_.flip && result_ != Result::kWithRowSums) {
      args_.rows = 4 + Below(30);
      args_.lines = 2 + Below(6);
      args_.line_bytes = (args_.rows + Below(4)) * args_.a_bytes + (Below(3) == 0 ? 4 : 0);
    }
    args_.n0 = Below(2) * Int8PanelWidth();
    args_.n1 = args_.n0 + 1 + Below(3 * Int8PanelWidth());
  }

  void Store(int64_t columns) {
    const auto reals = [&](float low, float high) {
      std::vector<float> values(static_cast<size_t>(columns));
      std::uniform_real_distribution<float> uniform(low, high);
      for (float& value : values) value = uniform(random_);
      return values;
    };
    scale_ = reals(1e-9f, 2e-7f);  // of sums that fill int32
    offset_ = reals(-20, 20);
    rescale_.scale = scale_.data();
    rescale_.offset = offset_.data();
    rescale_.type = DType::kUInt8;
    rescale_.clamps = true;
    rescale_.high = 255;
    const bool adds = result_ == Result::kAdded || result_ == Result::kAddedInPlace;
    switch (result_) {
      case Result::kFloats: rescale_ = {.scale = scale_.data(), .offset = offset_.data()}; break;
      case Result::kInt8:
        rescale_.type = DType::kInt8;
        rescale_.zero_point = -3;
        rescale_.low = -40;
        rescale_.high = 60;
        break;
      case Result::kAdded:
      case Result::kAddedInPlace:
        rescale_.rounds = rescale_.has_residual = true;
        rescale_.round_low = -100;
        rescale_.round_high = 120;
        rescale_.again = 0.7f;
        rescale_.again_offset = 11;
        rescale_.residual_scale = 0.3f;
        break;
      default: break;
    }
    const bool is_sums = result_ == Result::kSums || result_ == Result::kWithRowSums;
    args_.store.rescale = is_sums ? nullptr : &rescale_;
    args_.store.y_stride = args_.n1 + Below(40);
    const int64_t elements = args_.rows * args_.lines * args_.store.y_stride;
    y_ = Bytes(2 * kBefore + elements * args_.store.YBytes());
    args_.store.y = y_.data() + kBefore;
    if (!adds) return;
    residual_ = Bytes(elements);
    args_.store.residual_stride = args_.store.y_stride;
    args_.store.residual = result_ == Result::kAdded ? residual_.data() : args_.store.y;
  }

  std::mt19937 random_;
  Result result_;
  Int8BlockArgs args_{};
  Int8Rescale rescale_;
  std::vector<uint8_t> a_, b_, y_, residual_;
  std::vector<int32_t> init_, column_sums_, row_sums_;
  std::vector<float> scale_, offset_;
};

TEST(Int8Amx, MakesWhatVectorsMake) {
  if (!HasMatrixTiles()) GTEST_SKIP() << "the processor has no tiles of bytes";
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    Block block(seed);
    const Int8BlockArgs& args = block.args();
    ASSERT_EQ(block.Run(true), block.Run(false))
        << "seed " << seed << ": " << args.rows << " rows, " << args.lines << " lines, "
        << args.groups << " groups, " << args.segments << " segments, columns " << args.n0 << " to "
        << args.n1;
  }
  AllowMatrixTilesForTest(true);
}

TEST(Int8Amx, LeavesWhatItIsNotFor) {
  Int8BlockArgs few{};
  few.rows = 3;
  few.groups = 16;
  EXPECT_FALSE(Int8AmxTakes(few));
  few.rows = 4;
  EXPECT_EQ(Int8AmxTakes(few), HasMatrixTiles());
  few.flip = true;  // without the sums of columns
  EXPECT_FALSE(Int8AmxTakes(few));
  AllowMatrixTilesForTest(false);
  few.flip = false;
  EXPECT_FALSE(Int8AmxTakes(few));
  AllowMatrixTilesForTest(true);
}

}  // namespace
}  // namespace sardonyx
