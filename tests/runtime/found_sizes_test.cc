// Steps that find the sizes of their outputs: implementations of the CPU against the reference
// computes, over types, with one thread and two.

#include <gtest/gtest.h>

#include <cstring>

#include "run_graph.h"

namespace sardonyx {
namespace {

constexpr DType kTypes[] = {
    DType::kFloat32,        DType::kFloat64,      DType::kFloat16,    DType::kBFloat16,
    DType::kBool,           DType::kInt8,         DType::kUInt8,      DType::kInt16,
    DType::kUInt16,         DType::kInt32,        DType::kUInt32,     DType::kInt64,
    DType::kUInt64,         DType::kFloat8E4M3FN, DType::kFloat8E5M2, DType::kFloat8E4M3FNUZ,
    DType::kFloat8E5M2FNUZ, DType::kComplex64,    DType::kComplex128};

// Bytes of which most are zero, or any: negative zeros, NaNs and all else that a type has.
Tensor RandomBits(DType dtype, std::vector<int64_t> dims, std::mt19937& random) {
  Tensor tensor(dtype, std::move(dims));
  auto* const bytes = static_cast<uint8_t*>(tensor.raw());
  for (int64_t i = 0; i < tensor.bytes(); ++i) {
    const uint32_t r = random();
    bytes[i] = static_cast<uint8_t>(dtype == DType::kBool ? r >> 31 : r % 4 == 0 ? r >> 24 : 0);
    // Signs alone.
    if (r % 64 == 1) bytes[i] = dtype == DType::kBool ? 1 : 0x80;
  }
  return tensor;
}

// Runs with one thread and two, compares with the reference bit for bit; `implementation` is what
// the last step is to run on.
void Check(const std::string& text, const std::vector<Datum>& inputs,
           std::string_view implementation) {
  SCOPED_TRACE(text);
  for (const int threads : {1, 2}) {
    const auto program = MakeProgram(text, threads);
    Profiler profiler;
    const std::vector<Datum> actual = program->Run(inputs, {.profiler = &profiler});
    EXPECT_EQ(profiler.events().back().implementation, implementation);
    const std::vector<Datum> expected = Evaluate(program->graph(), inputs);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      const Tensor &a = *actual[i].tensor(), &b = *expected[i].tensor();
      ASSERT_EQ(a.dtype(), b.dtype());
      ASSERT_EQ(a.dims(), b.dims()) << "output " << i;
      ASSERT_TRUE(a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0)
          << "output " << i;
    }
  }
}

std::string Input(DType dtype, const std::string& dims) {
  return "graph g\ninput x: " + std::string(Name(dtype)) + "[" + dims + "]\n";
}

TEST(FoundSizes, Nonzero) {
  std::mt19937 random(1);
  for (const DType dtype : kTypes) {
    if (IsFloat(dtype) && BitWidth(dtype) == 8) continue;  // not in the standard
    const bool known = dtype != DType::kComplex128;
    const std::string text = Input(dtype, "a,b,c") + "y = nonzero(x)\noutput y\n";
    for (const std::vector<int64_t>& dims :
         {std::vector<int64_t>{3, 5, 7}, {1, 1, 1}, {2, 0, 3}, {20, 31, 80}}) {
      Check(text, {RandomBits(dtype, dims, random)}, known ? "marks" : "reference");
    }
    Check(Input(dtype, "") + "y = nonzero(x)\noutput y\n", {RandomBits(dtype, {}, random)},
          known ? "marks" : "reference");
  }
}

TEST(FoundSizes, Compress) {
  std::mt19937 random(2);
  for (const DType dtype : kTypes) {
    const std::string inputs = Input(dtype, "a,b,c") + "input keep: bool[n]\n";
    const Tensor x = RandomBits(dtype, {5, 31, 37}, random);
    for (const int axis : {0, 1, -1}) {
      const std::string text =
          inputs + "y = compress(x, keep) {axis=" + std::to_string(axis) + "}\noutput y\n";
      for (const int64_t n : {0, 3, 5}) {
        Check(text, {x, RandomBits(DType::kBool, {n}, random)}, "marks");
      }
      if (axis == 0) continue;
      Check(text, {x, RandomBits(DType::kBool, {31}, random)}, "marks");
    }
    const std::string flat = inputs + "y = compress(x, keep)\noutput y\n";
    for (const int64_t n : {0, 64, 1000, 5 * 31 * 37}) {
      Check(flat, {x, RandomBits(DType::kBool, {n}, random)}, "marks");
    }
    Tensor longer = RandomBits(DType::kBool, {6000}, random);
    std::fill(longer.data<bool>() + 5 * 31 * 37, longer.data<bool>() + 6000, false);
    Check(flat, {x, longer}, "marks");
  }
}

TEST(FoundSizes, ConditionBeyondTheAxis) {
  for (const std::string attributes : {"", " {axis=1}"}) {
    const auto program =
        MakeProgram("graph g\ninput x: float[2,2]\ninput keep: bool[n]\ny = compress(x, keep)" +
                    attributes + "\noutput y\n");
    const std::vector<Datum> inputs = {MakeFilled(DType::kFloat32, {2, 2}, 1),
                                       MakeFilled(DType::kBool, {5}, 1)};
    try {
      program->Run(inputs);
      FAIL() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("the condition has 5 elements"), std::string::npos)
          << error.what();
    }
  }
}

TEST(FoundSizes, Unique) {
  std::mt19937 random(3);
  for (const DType dtype : kTypes) {
    if (dtype == DType::kComplex64 || dtype == DType::kComplex128) continue;
    const bool known = BitWidth(dtype) > 8 || !IsFloat(dtype);
    for (const std::string attributes : {"sorted=1", "sorted=0", "sorted=1, axis=0"}) {
      const bool flat = attributes.size() == 8;
      const std::string call = " = unique(x) {" + attributes + "}\noutput y\n";
      const std::string lists = "output first\noutput inverse\noutput counts\n";
      const std::vector<int64_t> dims = {300, 11};
      const Tensor x = RandomBits(dtype, flat ? dims : std::vector<int64_t>{3300}, random);
      const std::string input = Input(dtype, flat ? "a,b" : "a");
      Check(input + "y, first, inverse, counts" + call + lists, {x}, known ? "sort" : "reference");
      Check(input + "y" + call, {x}, known ? "sort" : "reference");
    }
    Check(Input(dtype, "a,b") + "y = unique(x) {axis=1}\noutput y\n",
          {RandomBits(dtype, {4, 30}, random)}, "reference");
  }
}

TEST(FoundSizes, NonMaxSuppression) {
  std::mt19937 random(4);
  for (const std::string center : {"0", "1"}) {
    const std::string head = "graph g\ninput boxes: float[b,n,4]\ninput scores: float[b,c,n]\n";
    const std::string tail = ") {center_point_box=" + center + "}\noutput y\n";
    const std::string limits =
        "const m: int64[1] = {9}\nconst t: float[1] = {0.25}\n"
        "const s: float[1] = {0.4}\n";
    for (const int64_t n : {1, 40, 700}) {
      const std::vector<Datum> inputs = {RandomTensor(DType::kFloat32, {2, n, 4}, random),
                                         RandomTensor(DType::kFloat32, {2, 3, n}, random)};
      for (const std::string given : {"m, t, s", "m, _, s", "m, t, _", "_, t, _", "m, _, _"}) {
        Check(head + limits + "y = non_max_suppression(boxes, scores, " + given + tail, inputs,
              "rows");
      }
    }
    Check(head + limits + "y = non_max_suppression(boxes, scores, m, t, s" + tail,
          {RandomTensor(DType::kFloat32, {2, 0, 4}, random),
           RandomTensor(DType::kFloat32, {2, 3, 0}, random)},
          "reference");
  }
}

// Sizes that only the plan knows: an image that has its size already is copied, whatever the mode.
TEST(FoundSizes, ResizeThatChangesNothing) {
  std::mt19937 random(5);
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kUInt8}) {
      for (const std::vector<int64_t>& dims :
           {std::vector<int64_t>{1, 3, 5, 7}, {2, 3, 5, 7}, {1, 1, 1, 1}}) {
        const std::string text = fmt::format(
            "{}input sizes: int64[4]\ny = resize(x, _, _, sizes) {{mode=\"{}\"}}\noutput y\n",
            Input(dtype, "b,c,h,w"), mode);
        Tensor sizes(DType::kInt64, {4});
        std::copy(dims.begin(), dims.end(), sizes.data<int64_t>());
        Check(text, {RandomTensor(dtype, dims, random), sizes}, "separable");
      }
    }
  }
}

}  // namespace
}  // namespace sardonyx
