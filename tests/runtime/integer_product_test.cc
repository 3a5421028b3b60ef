// Products of bytes on the CPU against the reference computes: epilogues that the kernel reads, and
// those that it cannot. Scales are powers of two, so that no tie depends on the order of rounding.

#include <gtest/gtest.h>

#include "run_graph.h"

namespace sardonyx {
namespace {

std::string Bytes(const std::string& name, const std::string& type, std::vector<int64_t> dims) {
  const int low = type == "int8" ? -128 : 0;
  int64_t count = 1;
  std::string sizes, values;
  for (const int64_t dim : dims) {
    count *= dim;
    sizes += (sizes.empty() ? "" : ",") + std::to_string(dim);
  }
  for (int64_t i = 0; i < count; ++i) {
    values += (i == 0 ? "" : ", ") + std::to_string(low + (i * 89 + 17) % 256);
  }
  return "const " + name + ": " + type + "[" + sizes + "] = {" + values + "}\n";
}

// Inputs of bytes are random over their whole range.
void Check(const std::string& text) {
  SCOPED_TRACE(text);
  const std::shared_ptr<Graph> graph = Parse(text);
  std::mt19937 random(5);
  std::vector<Datum> inputs = RandomInputs(*graph, random);
  for (Datum& input : inputs) {
    const DType type = input.tensor()->dtype();
    if (type != DType::kUInt8 && type != DType::kInt8) continue;
    Tensor bytes(type, input.tensor()->dims());
    for (int64_t i = 0; i < bytes.size(); ++i) {
      static_cast<uint8_t*>(bytes.raw())[i] = static_cast<uint8_t>(random());
    }
    input = bytes;
  }
  const auto program = MakeProgram(graph, 2);
  ExpectRuns(*program, inputs);
  const std::string plan = Explain(*program->PlanFor(DimsOf(inputs)));
  EXPECT_EQ(plan.find("reference"), std::string::npos) << plan;
}

const char kQuantise[] =
    "round(8):float max(9,4):float min(10,5):float add(11,6):float cast(12):uint8";

TEST(IntegerProduct, SumsAlone) {
  for (const std::string x : {"uint8", "int8"}) {
    for (const std::string w : {"uint8", "int8"}) {
      Check("graph g\ninput x: " + x + "[5,19]\n" + Bytes("w", w, {19, 37}) + Bytes("a", x, {}) +
            Bytes("b", w, {37}) + "y = integer_matmul(x, w, a, b)\noutput y\n");
      Check("graph g\ninput x: " + x + "[2,6,7,3]\n" + Bytes("w", w, {5, 3, 3, 3}) +
            Bytes("a", x, {}) + Bytes("b", w, {5, 1, 1, 1}) +
            "y = integer_conv(x, w, a, b) {pads=[1,1,1,1], strides=[2,1]}\noutput y\n");
    }
  }
}

TEST(IntegerProduct, OperandsOfARun) {
  Check(
      "graph g\ninput x: uint8[2,3,5,8]\ninput w: int8[3,8,6]\ninput a: uint8[]\ninput b: int8[6]\n"
      "y = integer_matmul(x, w, a, b)\noutput y\n");
  Check(
      "graph g\ninput x: uint8[7,8]\ninput w: int8[6,8]\ninput b: int8[6,1]\n"
      "y = integer_matmul(x, w, _, b) {trans_b=1}\noutput y\n");
  Check("graph g\ninput x: uint8[2,3,5,8]\ninput s: float[]\n" + Bytes("w", "int8", {8, 6}) +
        "y = integer_matmul(x, w, _, _, s) "
        "{epilogue=<(int32, float) cast(0):float mul(2,1):float>}\noutput y\n");
}

TEST(IntegerProduct, EpilogueOfOneRounding) {
  const std::string operands = "const s: float[33] = {" + [] {
    std::string values;
    for (int i = 0; i < 33; ++i)
      values += (i ? ", " : "") + std::string(i % 2 ? "0.125" : "0.0625");
    return values;
  }() + "}\n";
  for (const char* low : {"0", "-3"}) {
    Check("graph g\ninput x: uint8[9,20]\n" + Bytes("w", "int8", {20, 33}) + operands +
          "y = integer_matmul(x, w, _, _, s) {epilogue=<(int32, float; 0.5:float, 7:float, " +
          std::string(low) + ":float, 252:float, 3:float) cast(0):float mul(7,1):float " +
          kQuantise + ">}\noutput y\n");
  }
}

// Behind the rounding by more than the words of the kernel hold.
TEST(IntegerProduct, LongShiftsAreNoRescaling) {
  Check("graph g\ninput x: uint8[9,20]\n" + Bytes("w", "int8", {20, 33}) +
        "y = integer_matmul(x, w) {epilogue=<(int32; 0.0009765625:float, -39900:float, "
        "40000:float, 0:float, 255:float) cast(0):float mul(6,1):float add(7,2):float "
        "round(8):float add(9,3):float max(10,4):float min(11,5):float cast(12):uint8>}\n"
        "output y\n");
}

// What a block of a residual network ends with: quantised, added to what passed by, quantised.
TEST(IntegerProduct, EpilogueOfTwoRoundings) {
  const std::string code =
      "cast(0):float mul(9,2):float round(10):float add(11,3):float max(12,4):float "
      "min(13,5):float cast(14):uint8 cast(15):int32 sub(16,6):int32 cast(17):float "
      "mul(18,7):float cast(1):float mul(20,8):float add(19,21):float relu(22):float "
      "round(23):float max(24,4):float min(25,5):float cast(26):uint8";
  Check("graph g\ninput x: uint8[2,5,5,16]\ninput r: uint8[2,5,5,40]\n" +
        Bytes("w", "int8", {40, 16, 1, 1}) +
        "y = integer_conv(x, w, _, _, r) {epilogue=<(int32, uint8; 0.03125:float, 128:float, "
        "0:float, 255:float, 128:int32, 0.5:float, 0.25:float) " +
        code + ">}\noutput y\n");
}

TEST(IntegerProduct, FloatResidual) {
  Check("graph g\ninput x: int8[6,12]\ninput r: float[6,34]\n" + Bytes("w", "uint8", {12, 34}) +
        "y = integer_matmul(x, w, _, _, r) {epilogue=<(int32, float; 0.25:float) cast(0):float "
        "mul(3,2):float add(4,1):float relu(5):float>}\noutput y\n");
}

TEST(IntegerProduct, EpilogueOfAnotherKindIsASweep) {
  Check("graph g\ninput x: uint8[6,12]\ninput r: float[6,1]\n" + Bytes("w", "int8", {12, 34}) +
        "y = integer_matmul(x, w, _, _, r) {epilogue=<(int32, float; 0.001:float) cast(0):float "
        "mul(3,2):float add(4,1):float sigmoid(5):float>}\noutput y\n");
}

// A sweep wants memory for the sums.
TEST(IntegerProduct, LongEpiloguesAreNoSweep) {
  const auto arena = [](int factors) {
    std::string code = "cast(0):float";
    for (int i = 0; i < factors; ++i) code += " mul(" + std::to_string(i + 2) + ",1):float";
    const std::string text = "graph g\ninput x: uint8[64,12]\n" + Bytes("w", "int8", {12, 34}) +
                             "y = integer_matmul(x, w) {epilogue=<(int32; 1:float) " + code +
                             " cast(" + std::to_string(factors + 2) + "):float>}\noutput y\n";
    Check(text);
    const auto program = MakeProgram(std::shared_ptr<Graph>(Parse(text)));
    return program->PlanFor({{64, 12}})->arena_bytes;
  };
  EXPECT_EQ(arena(200), arena(1));
}

TEST(IntegerProduct, Depthwise) {
  Check("graph g\ninput x: uint8[2,7,6,70]\n" + Bytes("w", "int8", {70, 1, 3, 3}) +
        Bytes("a", "uint8", {}) + Bytes("b", "int8", {}) +
        "y = integer_conv(x, w, a, b) {pads=[1,1,1,1], group=70, epilogue=<(int32; 0.0625:float, "
        "-40:float, 90:float) cast(0):float mul(4,1):float max(5,2):float min(6,3):float>}\n"
        "output y\n");
}

// Rows of inputs, residuals and results lie apart, as parts of others: no split, no concat.
TEST(IntegerProduct, RowsApart) {
  const std::string bytes =
      "epilogue=<(int32; 0.0078125:float, 0:float, 255:float, 9:float) cast(0):float "
      "mul(5,1):float round(6):float add(7,4):float max(8,2):float min(9,3):float "
      "cast(10):uint8>}\n";
  const std::string added =
      "epilogue=<(int32, uint8; 0.0078125:float, 0:float, 255:float, 9:int32, 0.25:float) "
      "cast(0):float mul(7,2):float cast(1):int32 sub(9,5):int32 cast(10):float mul(11,6):float "
      "add(8,12):float relu(13):float round(14):float max(15,3):float min(16,4):float "
      "cast(17):uint8>}\n";
  const std::string sweep =
      "epilogue=<(int32, uint8; 0.001:float) cast(0):float mul(3,2):float cast(1):float "
      "add(4,5):float sigmoid(6):float>}\n";
  const std::string text =
      "graph g\ninput x: uint8[2,6,7,3]\n" + Bytes("w", "int8", {24, 3, 3, 3}) +
      Bytes("v", "int8", {8, 16, 3, 3}) + Bytes("d", "int8", {16, 1, 3, 3}) +
      Bytes("u", "int8", {8, 8, 1, 1}) + Bytes("m", "int8", {8, 5}) + Bytes("a", "uint8", {}) +
      "const sizes: int64[2] = {16, 8}\n"
      "y = integer_conv(x, w, a) {pads=[1,1,1,1], " +
      bytes +
      "p, q = split(y, sizes) {axis=3}\n"
      "c = integer_conv(p, v, a) {pads=[1,1,1,1], " +
      bytes + "e = integer_conv(p, d, a) {pads=[1,1,1,1], group=16, " + bytes +
      "f = integer_conv(q, u, a, _, c) {" + added + "g = integer_conv(c, u, a, _, q) {" + sweep +
      "h = integer_matmul(q, m, a)\n"
      "k = integer_matmul(c, m, a)\n"
      "s = neg(g)\n"
      "j = concat(c, e, f) {axis=3}\n"
      "i = concat(h, k) {axis=3}\n"
      "t = concat(s, g) {axis=3}\n"
      "output j\noutput i\noutput t\n";
  Check(text);
  const auto program = MakeProgram(std::shared_ptr<Graph>(Parse(text)));
  for (const Step& step : program->PlanFor({{2, 6, 7, 3}})->steps) {
    EXPECT_NE(step.node->op, &core::concat);
    EXPECT_NE(step.node->op, &core::split);
  }
}

}  // namespace
}  // namespace sardonyx
