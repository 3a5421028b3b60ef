#include "kernels/elementwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "each_target.h"
#include "expression_interpreter.h"

namespace sardonyx {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                            DType::kInt8,    DType::kInt16,   DType::kInt32,   DType::kInt64,
                            DType::kUInt8,   DType::kUInt16,  DType::kUInt32,  DType::kUInt64,
                            DType::kBool};

// An operand: memory of `type` and strides over the output's index space.
struct Operand {
  DType type;
  std::vector<int64_t> strides;
  std::vector<uint8_t> bytes;
  int64_t origin = 0;  // element of output index 0
  const void* data() const { return bytes.data() + origin * (BitWidth(type) / 8); }
};

int64_t Count(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

// Strides of a broadcast (each dimension kept with probability 2/3), permuted or reversed tensor.
std::vector<int64_t> RandomStrides(const std::vector<int64_t>& dims, std::mt19937& rng,
                                   int64_t* size, int64_t* origin) {
  std::vector<int64_t> strides(dims.size(), 0);
  std::vector<size_t> order(dims.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
  const bool dense = rng() % 3 == 0;
  if (rng() % 6 == 0) std::shuffle(order.begin(), order.end(), rng);
  int64_t stride = rng() % 8 == 0 ? 2 : 1;
  *origin = 0;
  for (const size_t d : order) {
    if (!dense && rng() % 3 == 0) continue;
    strides[d] = stride;
    if (rng() % 12 == 0) {
      strides[d] = -stride;
      *origin += stride * (dims[d] - 1);
    }
    stride *= dims[d];
  }
  *size = std::max<int64_t>(stride, 1) * 2;
  return strides;
}

Exact RandomValue(DType type, std::mt19937& rng) {
  if (type == DType::kBool) return rng() % 2;
  if (IsFloat(type)) return (static_cast<int>(rng() % 65) - 32) / 4.0;
  switch (rng() % 6) {
    case 0: return IsSigned(type) ? std::ldexp(Exact{-1}, BitWidth(type) - 1) : 0;
    case 1: return std::ldexp(Exact{1}, BitWidth(type) - (IsSigned(type) ? 1 : 0)) - 1;
    case 2: return IsSigned(type) ? -1 : 1;
    case 3: return 0;
    default:
      return IsSigned(type) ? static_cast<int>(rng() % 101) - 50 : static_cast<int>(rng() % 101);
  }
}

Operand RandomOperand(DType type, const std::vector<int64_t>& dims, std::mt19937& rng) {
  Operand operand{type, {}, {}};
  int64_t size = 0;
  operand.strides = RandomStrides(dims, rng, &size, &operand.origin);
  operand.bytes.resize(static_cast<size_t>(size * BitWidth(type) / 8));
  for (int64_t i = 0; i < size; ++i) {
    WriteElement(type, operand.bytes.data(), i, RandomValue(type, rng));
  }
  return operand;
}

// Runs the expression into rows that lie apart and compares them with those of the dense result.
void CheckApart(const Expression& expression, const std::vector<int64_t>& dims,
                const std::vector<int64_t>& strides, const std::vector<const void*>& in,
                const std::vector<uint8_t>& dense) {
  if (dims.empty()) return;
  const int64_t width = BitWidth(expression.ResultType()) / 8;
  const int64_t rows = Count(dims) / dims.back(), row = dims.back() * width;
  const int64_t step = row + 3 * width;
  const ElementwiseKernel kernel =
      PrepareElementwise(expression, dims, strides, nullptr, dims.back() + 3);
  ASSERT_TRUE(kernel);
  for (const int threads : {1, 2}) {
    std::vector<uint8_t> out(static_cast<size_t>(rows * step), 0xab);
    RunElementwise(kernel, in.data(), out.data(), Parallel{&ThreadPool::Process(), threads});
    for (int64_t r = 0; r < rows; ++r) {
      ASSERT_EQ(std::memcmp(&out[r * step], &dense[r * row], row), 0) << "row " << r;
      for (int64_t i = row; i < step; ++i) {
        ASSERT_EQ(out[r * step + i], 0xab) << "wrote beyond row " << r;
      }
    }
  }
}

// Runs the expression and compares each element with the interpreter's; float results whose way was
// not exact in float32 only have to be near.
void Check(const Expression& expression, const std::vector<int64_t>& dims,
           const std::vector<Operand>& operands) {
  SCOPED_TRACE(expression.Print());
  std::vector<int64_t> strides;
  std::vector<const void*> in;
  for (const Operand& operand : operands) {
    strides.insert(strides.end(), operand.strides.begin(), operand.strides.end());
    in.push_back(operand.data());
  }
  std::string why;
  const ElementwiseKernel kernel = PrepareElementwise(expression, dims, strides, &why);
  ASSERT_TRUE(kernel) << why;
  const DType type = expression.ResultType();
  const size_t width = static_cast<size_t>(BitWidth(type) / 8);
  const int64_t count = Count(dims);
  std::vector<uint8_t> out(static_cast<size_t>(count) * width + 64, 0xab);
  RunElementwise(kernel, in.data(), out.data(), Parallel{});
  for (size_t i = 0; i < 64; ++i)
    ASSERT_EQ(out[out.size() - 64 + i], 0xab) << "wrote beyond the end";
  std::vector<uint8_t> again(out.size(), 0xab);
  RunElementwise(kernel, in.data(), again.data(), Parallel{&ThreadPool::Process(), 2});
  ASSERT_EQ(out, again) << "depends on the number of threads";
  ASSERT_NO_FATAL_FAILURE(CheckApart(expression, dims, strides, in, out));

  std::vector<int64_t> index(dims.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    std::vector<Exact> values;
    for (const Operand& operand : operands) {
      int64_t at = 0;
      for (size_t d = 0; d < dims.size(); ++d) at += index[d] * operand.strides[d];
      values.push_back(ReadElement(operand.type, operand.bytes.data(), operand.origin + at));
    }
    bool rounds = false;
    const Exact wanted = Interpret(expression, values, &rounds);
    const Exact got = ReadElement(type, out.data(), i);
    if (!IsFloat(type)) {
      if (!rounds) {
        ASSERT_EQ(got, wanted) << "element " << i;
      }
    } else if (!rounds && (type == DType::kFloat32 || type == DType::kFloat64)) {
      ASSERT_TRUE(got == wanted || (std::isnan(got) && std::isnan(wanted)))
          << "element " << i << ": " << got << ", not " << wanted;
    } else if (!rounds) {
      ASSERT_TRUE(got == RoundTo(type, wanted) || (std::isnan(got) && std::isnan(wanted)))
          << "element " << i << ": " << got << ", not " << wanted;
    }
    for (size_t d = dims.size(); d-- > 0 && ++index[d] == dims[d];) index[d] = 0;
  }
}

std::vector<int64_t> RandomDims(std::mt19937& rng) {
  std::vector<int64_t> dims(rng() % 6);
  const int64_t most[] = {5000, 5000, 150, 30, 11, 6};
  for (int64_t& dim : dims) {
    dim = 1 + static_cast<int64_t>(rng()) % most[dims.size()];
    if (rng() % 5 == 0) dim = 1;
  }
  return dims;
}

constexpr Fn kFloatFns[] = {Fn::kAbs,  Fn::kNeg, Fn::kSign, Fn::kFloor, Fn::kCeil, Fn::kRound,
                            Fn::kRelu, Fn::kAdd, Fn::kSub,  Fn::kMul,   Fn::kMin,  Fn::kMax,
                            Fn::kDiv,  Fn::kMod, Fn::kFMod, Fn::kAdd,   Fn::kMul,  Fn::kSqrt};
constexpr Fn kIntegerFns[] = {Fn::kAbs,    Fn::kNeg,   Fn::kSign,      Fn::kRelu,      Fn::kBitNot,
                              Fn::kAdd,    Fn::kSub,   Fn::kMul,       Fn::kDiv,       Fn::kMod,
                              Fn::kFMod,   Fn::kMin,   Fn::kMax,       Fn::kBitAnd,    Fn::kBitOr,
                              Fn::kBitXor, Fn::kFloor, Fn::kShiftLeft, Fn::kShiftRight};
constexpr Fn kBoolFns[] = {Fn::kNot, Fn::kAnd, Fn::kOr, Fn::kXor};
constexpr Fn kComparisons[] = {Fn::kEqual, Fn::kLess, Fn::kLessEqual, Fn::kGreater,
                               Fn::kGreaterEqual};

// A random well-typed program over a few types, with casts, comparisons and selections.
Expression RandomExpression(std::mt19937& rng) {
  Expression e;
  DType types[3];
  for (DType& type : types) type = kTypes[rng() % std::size(kTypes)];
  if (rng() % 3 == 0) types[0] = types[1] = types[2] = DType::kFloat32;
  const size_t inputs = 1 + rng() % 4;
  for (size_t i = 0; i < inputs; ++i) e.inputs.push_back(types[rng() % 3]);
  for (size_t i = rng() % 3; i > 0; --i) {
    const DType type = types[rng() % 3];
    e.constants.push_back({type, type == DType::kBool ? 1.0
                                 : IsFloat(type)      ? (static_cast<int>(rng() % 33) - 16) / 4.0
                                                      : static_cast<double>(rng() % 20)});
  }
  const auto pick = [&](DType type, uint8_t* reg) {
    std::vector<uint8_t> found;
    for (int i = 0; i < e.registers(); ++i) {
      if (e.RegisterType(i) == type) found.push_back(static_cast<uint8_t>(i));
    }
    if (found.empty()) return false;
    *reg = found[found.size() - 1 - std::min<size_t>(rng() % found.size(), rng() % found.size())];
    return true;
  };
  for (int tries = 0; tries < 12; ++tries) {
    Instruction instruction{};
    const int kind = static_cast<int>(rng() % 10);
    const DType type = e.RegisterType(static_cast<int>(rng() % e.registers()));
    instruction.type = type;
    bool ok = true;
    if (kind == 0) {
      ok = pick(type, &instruction.args[0]);
      instruction.fn = Fn::kCast;
      instruction.type = types[rng() % 3];
      // Unsigned from a negative float is not defined.
      if (IsFloat(type) && !IsFloat(instruction.type) && instruction.type != DType::kBool)
        ok = false;
    } else if (kind == 1) {
      instruction.fn = kComparisons[rng() % std::size(kComparisons)];
      ok = pick(type, &instruction.args[0]) && pick(type, &instruction.args[1]);
      instruction.type = DType::kBool;
    } else if (kind == 2) {
      instruction.fn = Fn::kWhere;
      ok = pick(DType::kBool, &instruction.args[0]) && pick(type, &instruction.args[1]) &&
           pick(type, &instruction.args[2]);
    } else {
      instruction.fn = type == DType::kBool ? kBoolFns[rng() % std::size(kBoolFns)]
                       : IsFloat(type)      ? kFloatFns[rng() % std::size(kFloatFns)]
                                            : kIntegerFns[rng() % std::size(kIntegerFns)];
      ok = pick(type, &instruction.args[0]);
      if (Arity(instruction.fn) == 2) ok = pick(type, &instruction.args[1]) && ok;
    }
    if (ok) e.code.push_back(instruction);
  }
  return e;
}

TEST(Elementwise, RandomPrograms) {
  ForEachTarget([] {
    for (uint32_t seed = 0; seed < 1500; ++seed) {
      std::mt19937 rng(seed);
      const Expression expression = RandomExpression(rng);
      const std::vector<int64_t> dims = RandomDims(rng);
      std::vector<Operand> operands;
      for (const DType type : expression.inputs) operands.push_back(RandomOperand(type, dims, rng));
      SCOPED_TRACE("seed " + std::to_string(seed));
      Check(expression, dims, operands);
      if (testing::Test::HasFatalFailure()) return;
    }
  });
}

TEST(Elementwise, OperandsThatImagesShare) {
  const Expression expression =
      Expression::Parse("(float, float, int32) mul(0,1):float cast(2):float add(3,4):float");
  const auto operand = [](DType type, std::vector<int64_t> strides, int64_t size) {
    std::mt19937 rng(3);
    Operand made{type, {}, {}};
    made.strides = std::move(strides);
    made.bytes.resize(static_cast<size_t>(size * 4));
    for (int64_t i = 0; i < size; ++i) {
      WriteElement(type, made.bytes.data(), i, static_cast<int>(rng() % 65) - 32);
    }
    return made;
  };
  const auto f = DType::kFloat32, whole = DType::kInt32;
  ForEachTarget([&] {
    const Operand x = operand(f, {14749, 49, 1}, 7 * 14749);
    const Operand channels = operand(f, {0, 1, 0}, 301);
    Check(expression, {7, 301, 49}, {x, channels, operand(whole, {0, 1, 0}, 301)});
    Check(expression, {7, 301, 49}, {x, channels, operand(whole, {301, 1, 0}, 7 * 301)});
    Check(expression, {7, 301, 49}, {x, channels, operand(whole, {0, 49, 1}, 14749)});
    Check(expression, {2, 3, 301, 9},
          {operand(f, {8127, 2709, 9, 1}, 16254), operand(f, {0, 0, 1, 0}, 301),
           operand(whole, {602, 0, 2, 0}, 1204)});
  });
}

TEST(Elementwise, EveryFunctionOfEveryIntegerType) {
  std::mt19937 rng(7);
  for (const DType type : kTypes) {
    if (IsFloat(type)) continue;
    for (const Fn fn : kIntegerFns) {
      if (type == DType::kBool) continue;
      Expression e;
      e.inputs.assign(static_cast<size_t>(Arity(fn)), type);
      e.code.push_back({fn, type, {0, 1, 0}});
      std::vector<Operand> operands;
      for (size_t i = 0; i < e.inputs.size(); ++i) {
        operands.push_back(RandomOperand(type, {301}, rng));
      }
      ForEachTarget([&] { Check(e, {301}, operands); });
    }
  }
}

TEST(Elementwise, DivisionAndClampOfEveryType) {
  std::mt19937 rng(11);
  for (const DType type : kTypes) {
    if (type == DType::kBool) continue;
    Expression divide, clamp;
    divide.inputs.assign(2, type);
    divide.code = {{Fn::kDiv, type, {0, 1, 0}}};
    clamp.inputs.assign(3, type);
    clamp.code = {{Fn::kMax, type, {0, 1, 0}}, {Fn::kMin, type, {3, 2, 0}}};
    for (int round = 0; round < 20; ++round) {
      std::vector<Operand> operands;
      for (int i = 0; i < 3; ++i) operands.push_back(RandomOperand(type, {1003}, rng));
      ForEachTarget([&] {
        Check(clamp, {1003}, operands);
        Check(divide, {1003}, {operands[0], operands[1]});
        operands[1].strides = {0};  // one divisor
        Check(divide, {1003}, {operands[0], operands[1]});
      });
    }
  }
}

// A line between constant bounds is one operation, unless it has other users; NaN passes.
TEST(Elementwise, HardSigmoids) {
  std::mt19937 rng(12);
  for (const char* text :
       {"(float; 0.25:float, 0.5:float, 0:float, 1:float) mul(0,1):float add(5,2):float "
        "max(6,3):float min(7,4):float",
        "(float; -3:float, 0.5:float, 0:float, inf:float) mul(1,0):float add(2,5):float "
        "max(6,3):float min(7,4):float",
        "(float; 0.25:float, 0.5:float, 0:float, 1:float) mul(0,1):float add(5,2):float "
        "max(6,3):float min(7,4):float sub(8,6):float"}) {
    for (const int64_t count : {1, 7, 64, 1003}) {
      const Operand x = RandomOperand(DType::kFloat32, {count}, rng);
      ForEachTarget([&] { Check(Expression::Parse(text), {count}, {x}); });
    }
  }
}

TEST(Elementwise, RemaindersOfWideNumbers) {
  // Around the bounds within which float64 tells the quotient, and those of the type.
  std::vector<int64_t> numbers = {INT64_MIN, INT64_MIN + 1, INT64_MAX, INT64_MAX - 1};
  for (const int bit : {0, 1, 4, 12, 31, 50, 51, 52, 53, 61, 62}) {
    for (const int64_t near : {-1, 0, 1}) {
      numbers.push_back((int64_t{1} << bit) + near);
      numbers.push_back(-(int64_t{1} << bit) - near);
    }
  }
  std::mt19937_64 rng(5);
  std::vector<int64_t> x, y;
  for (const int64_t a : numbers) {
    for (const int64_t b : numbers) {
      x.push_back(a);
      y.push_back(b);
      x.push_back(static_cast<int64_t>(rng()) >> rng() % 64);
      y.push_back(static_cast<int64_t>(rng()) >> rng() % 64);
    }
  }
  const int64_t count = static_cast<int64_t>(x.size());
  ForEachTarget([&] {
    const int64_t dims[] = {count}, strides[] = {1, 1};
    const ElementwiseKernel kernel =
        PrepareElementwise(Expression::Parse("(int64, int64) mod(0,1):int64"), dims, strides);
    const void* const in[] = {x.data(), y.data()};
    std::vector<int64_t> got(x.size());
    RunElementwise(kernel, in, got.data(), Parallel{});
    for (size_t i = 0; i < x.size(); ++i) {
      if (y[i] == 0) continue;
      const __int128 n = x[i], divisor = y[i];
      const __int128 rest = n % divisor;
      const bool turns = rest != 0 && (rest < 0) != (divisor < 0);
      ASSERT_EQ(got[i], static_cast<int64_t>(turns ? rest + divisor : rest))
          << x[i] << " mod " << y[i];
    }
  });
}

TEST(Elementwise, CastsBetweenAllTypes) {
  std::mt19937 rng(8);
  for (const DType from : kTypes) {
    for (const DType to : kTypes) {
      Expression e;
      e.inputs = {from};
      e.code.push_back({Fn::kCast, to, {0, 0, 0}});
      Operand operand{from, {1}, std::vector<uint8_t>(100 * 8)};
      for (int i = 0; i < 100; ++i) {
        const int least = IsSigned(to) && IsSigned(from) ? -50 : 0;
        WriteElement(from, operand.bytes.data(), i,
                     from == DType::kBool ? i % 2 : least + i + (IsFloat(from) ? 0.75 : 0));
      }
      ForEachTarget([&] { Check(e, {100}, {operand}); });
    }
  }
}

TEST(Elementwise, FloatBeyondIntegerRangeSaturates) {
  const float in[] = {1e30f, -1e30f, std::nanf(""), INFINITY, -INFINITY, 2147483648.0f};
  ForEachTarget([&] {
    const auto run = [&]<typename T>(const char* text, std::array<T, 6> wanted) {
      const int64_t dims[] = {6}, strides[] = {1};
      const ElementwiseKernel kernel = PrepareElementwise(Expression::Parse(text), dims, strides);
      const void* const data[] = {in};
      T out[6];
      RunElementwise(kernel, data, out, Parallel{});
      for (int i = 0; i < 6; ++i) EXPECT_EQ(out[i], wanted[static_cast<size_t>(i)]) << text << i;
    };
    constexpr auto k32 = std::numeric_limits<int32_t>::max();
    constexpr auto k64 = std::numeric_limits<int64_t>::max();
    run("(float) cast(0):int32", std::array<int32_t, 6>{k32, -k32 - 1, 0, k32, -k32 - 1, k32});
    run("(float) cast(0):int64",
        std::array<int64_t, 6>{k64, -k64 - 1, 0, k64, -k64 - 1, int64_t{1} << 31});
    run("(float) cast(0):uint8", std::array<uint8_t, 6>{255, 0, 0, 255, 0, 255});
    run("(float) cast(0):int16", std::array<int16_t, 6>{32767, -32768, 0, 32767, -32768, 32767});
    run("(float) cast(0):uint32", std::array<uint32_t, 6>{~0u, 0, 0, ~0u, 0, 1u << 31});
    run("(float) cast(0):uint64",
        std::array<uint64_t, 6>{~uint64_t{0}, 0, 0, ~uint64_t{0}, 0, uint64_t{1} << 31});
  });
}

// Runs a cast of `in` and compares each element with the language's.
template <typename From, typename To>
void CheckCast(const char* text, const std::vector<From>& in) {
  SCOPED_TRACE(text);
  const int64_t dims[] = {static_cast<int64_t>(in.size())}, strides[] = {1};
  const ElementwiseKernel kernel = PrepareElementwise(Expression::Parse(text), dims, strides);
  const void* const data[] = {in.data()};
  std::vector<To> out(in.size());
  RunElementwise(kernel, data, out.data(), Parallel{});
  for (size_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], static_cast<To>(in[i])) << i;
}

TEST(Elementwise, CastsOfWideNumbersAmongNarrowOnes) {
  // Vectors of numbers that fit into 32 bits go a way of their own.
  const int64_t wide[] = {int64_t{1} << 31, -(int64_t{1} << 31) - 1, (int64_t{1} << 53) + 1,
                          -(int64_t{1} << 40) - 3};
  for (const int64_t value : wide) {
    for (size_t at = 0; at < 19; ++at) {
      std::vector<int64_t> integers;
      for (int64_t i = 0; i < 19; ++i)
        integers.push_back(i % 2 == 0 ? 2147483647 - i : -2147483648);
      integers[at] = value;
      const std::vector<double> doubles(integers.begin(), integers.end());
      std::vector<double> positive(doubles);
      for (double& number : positive) number = std::abs(number);
      const std::vector<float> floats(integers.begin(), integers.end());
      const std::vector<float> positive_floats(positive.begin(), positive.end());
      ForEachTarget([&] {
        CheckCast<int64_t, float>("(int64) cast(0):float", integers);
        CheckCast<int64_t, double>("(int64) cast(0):double", integers);
        CheckCast<double, int64_t>("(double) cast(0):int64", doubles);
        CheckCast<double, uint64_t>("(double) cast(0):uint64", positive);
        CheckCast<float, int64_t>("(float) cast(0):int64", floats);
        CheckCast<float, uint64_t>("(float) cast(0):uint64", positive_floats);
      });
    }
  }
}

TEST(Elementwise, NaNPassesThrough) {
  for (const char* text :
       {"(float) relu(0):float", "(float; 0:float) max(0,1):float",
        "(float; 0:float) min(1,0):float", "(float, float) max(0,1):float",
        "(float, float) max(1,0):float", "(float, float) min(0,1):float",
        "(float, float) min(1,0):float", "(float, float) add(0,1):float relu(2):float",
        "(float) sigmoid(0):float", "(float) sign(0):float", "(double, double) max(1,0):double",
        "(double; 1:double, 2:double) max(0,1):double min(3,2):double",
        "(float16) relu(0):float16"}) {
    const Expression e = Expression::Parse(text);
    std::vector<Operand> operands;
    for (size_t i = 0; i < e.inputs.size(); ++i) {
      Operand operand{e.inputs[i], {1}, std::vector<uint8_t>(40 * 8)};
      for (int k = 0; k < 40; ++k) {
        const bool nan = (k / (i == 0 ? 1 : 2)) % 3 == 0;
        WriteElement(operand.type, operand.bytes.data(), k, nan ? std::nanf("") : k - 20);
      }
      operands.push_back(operand);
    }
    ForEachTarget([&] { Check(e, {40}, operands); });
  }
}

TEST(Elementwise, InPlace) {
  ForEachTarget([] {
    const Expression e = Expression::Parse("(float, float; 2:float) mul(0,2):float add(3,1):float");
    std::vector<float> x(10000), y(100);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
    for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(i) / 4;
    const int64_t dims[] = {100, 100}, strides[] = {100, 1, 0, 1};
    const void* const in[] = {x.data(), y.data()};
    RunElementwise(PrepareElementwise(e, dims, strides), in, x.data(), Parallel{});
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(x[i], 2 * static_cast<float>(i) + y[i % 100]);
    }
  });
}

TEST(Elementwise, NothingToDo) {
  const Expression e = Expression::Parse("(float) exp(0):float");
  const int64_t dims[] = {3, 0, 2}, strides[] = {0, 2, 1};
  const ElementwiseKernel kernel = PrepareElementwise(e, dims, strides);
  ASSERT_TRUE(kernel);
  const void* const in[] = {nullptr};
  RunElementwise(kernel, in, nullptr, Parallel{});
}

TEST(Elementwise, RefusesWithReason) {
  const int64_t dims[] = {3}, strides[] = {1};
  for (const char* text :
       {"(string) cast(0):float", "(complex64) neg(0):complex64", "(int64) cast(0):float8e8m0",
        "(float) cast(0):float4e2m1", "(int32) exp(0):int32"}) {
    std::string why;
    EXPECT_FALSE(PrepareElementwise(Expression::Parse(text), dims, strides, &why)) << text;
    EXPECT_FALSE(why.empty()) << text;
  }
}

TEST(Elementwise, LongExpression) {
  // Many values alive at once need small tiles or are refused, but never overrun the scratch.
  for (const int count : {20, 60, 120}) {
    Expression e;
    e.inputs = {DType::kFloat64};
    for (int i = 0; i < count; ++i) {
      e.code.push_back({Fn::kAdd, DType::kFloat64, {static_cast<uint8_t>(i), 0, 0}});
    }
    for (int i = 0; i < count; ++i) {
      const uint8_t previous = static_cast<uint8_t>(e.registers() - 1);
      e.code.push_back({Fn::kMax, DType::kFloat64, {previous, static_cast<uint8_t>(1 + i), 0}});
    }
    std::mt19937 rng(3);
    std::vector<Operand> operands = {RandomOperand(DType::kFloat64, {777}, rng)};
    Check(e, {777}, operands);
  }
}

}  // namespace
}  // namespace sardonyx
