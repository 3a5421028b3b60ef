#include "kernels/targets.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/gemm_int8.h"
#include "kernels/slices.h"
#include "sardonyx/error.hpp"

namespace sardonyx {
namespace {

TEST(TargetsDeathTest, UnknownNameIsAnErrorEveryTime) {
  // In a process of its own, since the variable is read once; it leaves without tidying up.
  const auto Try = [] {
    setenv("SARDONYX_TARGET", "avx9", 1);
    int failures = 0;
    for (int i = 0; i < 2; ++i) {
      try {
        ApplyTargetFromEnvironment();
      } catch (const Error& error) {
        failures += error.code() == ErrorCode::kInvalidArgument;
      }
    }
    std::_Exit(failures == 2 ? 0 : 1);
  };
  EXPECT_EXIT(Try(), testing::ExitedWithCode(0), "");
}

TEST(TargetsDeathTest, EnvironmentForcesOne) {
  const auto Try = [] {
    setenv("SARDONYX_TARGET", "baseline", 1);
    ApplyTargetFromEnvironment();
    std::_Exit(TargetName() == "baseline" || TargetName() == "neon" ? 0 : 1);
  };
  EXPECT_EXIT(Try(), testing::ExitedWithCode(0), "");
}

TEST(TargetsDeathTest, Avx512IsWithoutMatrixTiles) {
#if defined(HWY_COMPILE_ONLY_STATIC)
  GTEST_SKIP() << "one target alone is built";
#endif
  const auto Try = [] {
    setenv("SARDONYX_TARGET", "avx512", 1);
    try {
      ApplyTargetFromEnvironment();
    } catch (const Error&) {
      std::_Exit(TargetName() == "avx512" ? 1 : 0);  // the machine has less
    }
    const bool says_so = MachineName().find("amx") != std::string::npos;
    std::_Exit(TargetName() == "avx512" && !HasMatrixTiles() && !says_so ? 0 : 1);
  };
  EXPECT_EXIT(Try(), testing::ExitedWithCode(0), "");
}

TEST(TargetsDeathTest, Avx2IsWithoutVnniUnlessNamed) {
#if defined(HWY_COMPILE_ONLY_STATIC)
  GTEST_SKIP() << "one target alone is built";
#endif
  const auto Try = [](const char* name, bool has_vnni) {
    setenv("SARDONYX_TARGET", name, 1);
    try {
      ApplyTargetFromEnvironment();
    } catch (const Error&) {
      std::_Exit(HasAvxVnni() ? 1 : 0);  // the machine has less
    }
    const bool says_so = MachineName().find("vnni") != std::string::npos;
    std::_Exit(TargetName() == "avx2" && HasAvxVnni() == has_vnni && says_so == has_vnni ? 0 : 1);
  };
  EXPECT_EXIT(Try("avx2", false), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(Try("avx2_vnni", true), testing::ExitedWithCode(0), "");
}

TEST(TargetsDeathTest, StaysTheSame) {
  // Asking for it once made kernels run on another: packed weights did not fit any more.
  const auto Try = [] {
    setenv("SARDONYX_TARGET", "baseline", 1);
    ApplyTargetFromEnvironment();
    const int64_t width = Int8PanelWidth();
    bool same = true;
    for (int i = 0; i < 3; ++i) {
      same = same && MachineName().find(TargetName()) != std::string::npos;
      same = same && Int8PanelWidth() == width;
    }
    std::_Exit(same ? 0 : 1);
  };
  EXPECT_EXIT(Try(), testing::ExitedWithCode(0), "");
}

// Engine files of a machine that packs weights otherwise are refused by its name.
TEST(MachineName, TellsManyProcessors) {
  const bool may_use_tiles = HasMatrixTiles();
  SetTaskProcessorsForTest(2);
  EXPECT_EQ(MachineName().find("processors"), std::string::npos);
  SetTaskProcessorsForTest(4);
  EXPECT_EQ(MachineName().find("more than 2 processors") != std::string::npos, may_use_tiles);
  SetTaskProcessorsForTest(5);
  EXPECT_NE(MachineName().find("more than 4 processors"), std::string::npos);
  SetTaskProcessorsForTest(0);
}

}  // namespace
}  // namespace sardonyx
