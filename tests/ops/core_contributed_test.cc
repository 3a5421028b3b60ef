// Core operations that contributed operators alone are made of: inference, what it refuses, and
// values computed by hand.

#include "core_node.h"

namespace sardonyx {
namespace {

using Strings = std::vector<std::string>;

const Attributes kCrop{{"height", int64_t{2}}, {"width", int64_t{3}}};

TEST(Contributed, Infer) {
  Facts f;
  Value* texts = f.Input(DType::kString, {"n", "3"});
  EXPECT_EQ(f.Error(core::tokenize, {f.Input({"3"})}),
            "input 0 of tokenize holds strings, not float");
  EXPECT_EQ(f.Error(core::tokenize, {texts}, {{"tokenexp", std::string("[")}}),
            "'[' is no regular expression of RE2: missing ]: [");
  EXPECT_EQ(f.Error(core::tokenize, {f.Input(DType::kString, {})}),
            "tokenize takes strings [C] or [N,C], not []");
  EXPECT_EQ(f.Infer(core::tokenize, {f.Input(DType::kString, {"n", "0"})}), "string[n,0]");
  EXPECT_EQ(f.Infer(core::murmur_hash, {texts}), "uint32[n,3]");
  EXPECT_EQ(f.Infer(core::murmur_hash, {texts}, {{"positive", int64_t{0}}}), "int32[n,3]");
  EXPECT_EQ(f.Error(core::murmur_hash, {f.Input(DType::kInt8, {"3"})}),
            "murmur_hash takes strings or elements of 32 or 64 bits, not int8");
  EXPECT_EQ(f.Error(core::dynamic_time_warping, {f.Input({"2", "m", "n"})}),
            "dynamic_time_warping takes costs [M,N] or [1,M,N], not [2,m,n]");
  EXPECT_EQ(f.Infer(core::dynamic_time_warping, {f.Input({"m", "0"})}), "int32[2,0]");
  Value *x = f.Input({"n", "c", "h", "w"}), *rois = f.Input({"r", "4"});
  Value* batch = f.Input(DType::kInt64, {"r"});
  EXPECT_EQ(f.Infer(core::crop_and_resize, {x, rois, batch}, kCrop), "float[r,c,2,3]");
  EXPECT_EQ(f.Error(core::crop_and_resize, {x, rois, batch}), "crops of 0 by 0 pixels");
  EXPECT_EQ(f.Error(core::crop_and_resize, {x, f.Input({"r", "5"}), batch}, kCrop),
            "rois are [count,4], not [r,5]");
  Value *tokens = f.Input(DType::kInt64, {"n"}), *one = f.Input(DType::kInt64, {"1"});
  EXPECT_EQ(f.Error(core::bifurcation, {tokens, tokens, tokens, rois}),
            "bifurcation takes tokens as int64, not float");
  EXPECT_EQ(f.Error(core::bifurcation, {tokens, tokens, one}, {{"min_ngram_size", int64_t{4}}}),
            "n-grams of 4 to 3 tokens");
}

TEST(Contributed, Tokenize) {
  const Tensor texts = MakeVector<std::string>({"one, two", "", "three"});
  const Tensor words = Compute(
      core::tokenize, {texts},
      {{"separators", Strings{", ?|e"}}, {"mark", int64_t{1}}, {"pad_value", std::string("#")}});
  EXPECT_EQ(words.dims(), (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(
      Strings(words.data<std::string>(), words.data<std::string>() + 12),
      (Strings{"\x02", "on", "two", "\x03", "\x02", "\x03", "#", "#", "\x02", "thr", "\x03", "#"}));
  const Tensor longest = Compute(core::tokenize, {texts}, {{"tokenexp", std::string("\\b\\w+,?")}});
  EXPECT_EQ(longest.data<std::string>()[0], "one,");
  EXPECT_THROW(Compute(core::tokenize, {MakeVector<std::string>({"\xff"})}), Error);
}

TEST(Contributed, MurmurHash) {
  // Of the C++ program by its author.
  const Tensor texts = MakeVector<std::string>({"", "test", "Hello, world!"});
  const Tensor hashes = Compute(core::murmur_hash, {texts});
  EXPECT_EQ(hashes.data<uint32_t>()[0], 0U);
  EXPECT_EQ(hashes.data<uint32_t>()[1], 0xba6bd213U);
  EXPECT_EQ(hashes.data<uint32_t>()[2], 0xc0363e43U);
  const Tensor number = MakeVector<int32_t>({0x74736574});  // "test"
  EXPECT_EQ(Compute(core::murmur_hash, {number}).data<uint32_t>()[0], 0xba6bd213U);
}

TEST(Contributed, DynamicTimeWarping) {
  const Tensor costs = Floats({3, 4}, {0, 9, 9, 9, 9, 0, 1, 9, 9, 9, 9, 0});
  const Tensor path = Compute(core::dynamic_time_warping, {costs});
  ExpectTensor(path, {2, 4}, {0, 1, 1, 2, 0, 1, 2, 3});
}

TEST(Contributed, CropAndResize) {
  const Tensor rois = Floats({2, 4}, {0, 0, 1, 1, 0.5f, 1, 2, 0});
  Attributes attributes = kCrop;
  attributes.Set("extrapolation_value", 7.0);
  const Tensor images = Counting({1, 1, 3, 3});
  ExpectTensor(Compute(core::crop_and_resize, {images, rois, Ints({0, -1})}, attributes),
               {2, 1, 2, 3}, {0, 1, 2, 6, 7, 8, 5, 4, 3, 7, 7, 7});
  EXPECT_THROW(Compute(core::crop_and_resize, {images, rois, Ints({0, 1})}, attributes), Error);
}

TEST(Contributed, Bifurcation) {
  const auto results = RunAll(
      core::bifurcation, {Ints({1, 5, 3, 4}), Ints({2}), Ints({1}), Ints({5, 4, 9, 9})}, {}, 2);
  ExpectTensor(*results[0].tensor(), {3}, {2, 5, 4});
  ExpectTensor(*results[1].tensor(), {1}, {4});
}

}  // namespace
}  // namespace sardonyx
