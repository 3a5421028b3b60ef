#include "base/expression.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"

namespace sardonyx {
namespace {

TEST(Expression, PrintsAndParses) {
  const std::string text = "(float, float; 2:float) mul(0,2):float add(3,1):float";
  const Expression parsed = Expression::Parse(text);
  EXPECT_EQ(parsed.inputs.size(), 2u);
  EXPECT_EQ(parsed.constants.size(), 1u);
  ASSERT_EQ(parsed.code.size(), 2u);
  EXPECT_EQ(parsed.code[1].fn, Fn::kAdd);
  EXPECT_EQ(parsed.code[1].args[0], 3);
  EXPECT_EQ(parsed.Print(), text);
  EXPECT_EQ(Expression::Parse(parsed.Print()), parsed);
}

TEST(Expression, ConstantsComeBackExactly) {
  Expression expression;
  for (const double value : {0.1, -0.0, 1e-310, 1.0 / 3, std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity(), 9007199254740991.0}) {
    expression.constants.push_back({DType::kFloat64, value});
  }
  expression.code.push_back({Fn::kAdd, DType::kFloat64, {0, 1, 0}});
  const Expression again = Expression::Parse(expression.Print());
  EXPECT_EQ(again, expression);
  EXPECT_TRUE(std::signbit(again.constants[1].value));
  expression.constants[0].value = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(Expression::Parse(expression.Print()).constants[0].value));
}

TEST(Expression, TypesOfRegisters) {
  const Expression e =
      Expression::Parse("(int64; 0:float) cast(0):float lt(2,1):bool where(3,1,2):float");
  EXPECT_EQ(e.registers(), 5);
  EXPECT_EQ(e.RegisterType(0), DType::kInt64);
  EXPECT_EQ(e.RegisterType(1), DType::kFloat32);
  EXPECT_EQ(e.RegisterType(3), DType::kBool);
  EXPECT_EQ(e.ResultType(), DType::kFloat32);
  EXPECT_EQ(Expression::Parse("(int8)").ResultType(), DType::kInt8);
}

TEST(Expression, FunctionsHaveNames) {
  for (int i = 0; i < kFnCount; ++i) {
    Fn fn{};
    ASSERT_TRUE(FnFromName(Name(static_cast<Fn>(i)), &fn));
    EXPECT_EQ(fn, static_cast<Fn>(i));
    EXPECT_GE(Arity(fn), 1);
    EXPECT_LE(Arity(fn), 3);
  }
  Fn fn{};
  EXPECT_FALSE(FnFromName("frobnicate", &fn));
  EXPECT_TRUE(ReturnsBool(Fn::kLess));
  EXPECT_FALSE(ReturnsBool(Fn::kAdd));
}

TEST(Expression, RejectsMalformedText) {
  for (const char* text :
       {"", "(", "()", "(float", "(flaot) abs(0):float", "(float) abs(1):float", "(float) abs(0)",
        "(float) frob(0):float", "(float) add(0):float", "(float; x:float) abs(0):float",
        "(float) abs(-1):float", "(float) abs(0):float x"}) {
    EXPECT_THROW(Expression::Parse(text), Error) << text;
  }
  std::string many = "(float)";
  for (int i = 0; i < 254; ++i) many += " abs(0):float";
  EXPECT_EQ(Expression::Parse(many).registers(), 255);
  EXPECT_THROW(Expression::Parse(many + " abs(0):float"), Error);
}

}  // namespace
}  // namespace sardonyx
