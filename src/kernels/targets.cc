#include "kernels/targets.h"

#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#endif

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "kernels/gemm_amx_cut.h"
#include "kernels/slices.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/targets.cc"
#include "hwy/foreach_target.h"  // before highway.h

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace sardonyx::HWY_NAMESPACE {
namespace {

std::string_view NameOfThis() {
#if HWY_TARGET == HWY_NEON
  return "neon";
#elif HWY_TARGET == HWY_AVX3
  return "avx512";
#elif HWY_TARGET == HWY_AVX2
  return "avx2";
#else
  return "baseline";
#endif
}

}  // namespace
}  // namespace sardonyx::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sardonyx {

HWY_EXPORT(NameOfThis);

namespace {

std::optional<bool> told_shares_wide_units;
bool allows_matrix_tiles = true, allows_avx_vnni = true;

#if HWY_ARCH_X86
constexpr int64_t kAvx512 = HWY_AVX3 | HWY_AVX3_DL;

// Numbers of Intel's manual (CPUID, leaf 7) and of arch/x86/include/uapi/asm/prctl.h of Linux.
bool FindMatrixTiles() {
  constexpr unsigned kBf16Bit = 1u << 22, kTileBit = 1u << 24, kBytesBit = 1u << 25;
  constexpr unsigned kAll = kBf16Bit | kTileBit | kBytesBit;
  constexpr int kAskForFeature = 0x1023, kTileData = 18;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & kAll) != kAll) return false;
  return syscall(SYS_arch_prctl, kAskForFeature, kTileData) == 0;
}

// Bit 4 of eax of leaf 7.1.
bool FindAvxVnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & 1u << 4) != 0;
}
#else
bool FindMatrixTiles() { return false; }
bool FindAvxVnni() { return false; }
#endif

void ReadEnvironment() {
  const char* value = std::getenv("SARDONYX_TARGET");
  const std::string_view name = value == nullptr ? "" : value;
  if (name.empty()) return;
#if HWY_ARCH_X86
  int64_t needed = 0, disabled = 0;
  if (name == "baseline") {
    disabled = kAvx512 | HWY_AVX2;
  } else if (name == "avx2" || name == "avx2_vnni") {
    needed = HWY_AVX2;
    disabled = kAvx512;
    allows_avx_vnni = name == "avx2_vnni";
  } else if (name == "avx512") {
    needed = HWY_AVX3;
    allows_matrix_tiles = false;
  } else {
    Fail(ErrorCode::kInvalidArgument,
         "SARDONYX_TARGET is '{}'; known are baseline, avx2, avx2_vnni and avx512", name);
  }
  if ((hwy::SupportedTargets() & needed) != needed || (name == "avx2_vnni" && !FindAvxVnni())) {
    Fail(ErrorCode::kInvalidArgument, "SARDONYX_TARGET is '{}', which this processor does not have",
         name);
  }
  hwy::DisableTargets(disabled);
  // Whoever asks Highway for the targets makes it choose among all of them again, the disabled ones
  // included; so it is told here, and nobody asks later.
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
#else
  if (name != "baseline") {
    Fail(ErrorCode::kInvalidArgument,
         "SARDONYX_TARGET is '{}'; this architecture has baseline alone", name);
  }
#endif
}

}  // namespace

void ApplyTargetFromEnvironment() {
  // A throwing initialiser is run again by the next call, so a wrong word fails every time.
  static const bool done = (ReadEnvironment(), true);
  (void)done;
}

std::string_view TargetName() { return HWY_DYNAMIC_DISPATCH(NameOfThis)(); }

void SetSharesWideUnitsForTest(std::optional<bool> answer) { told_shares_wide_units = answer; }

bool SharesWideUnits() {
#if HWY_ARCH_X86
  if (told_shares_wide_units) return *told_shares_wide_units;
  return __builtin_cpu_is("intel") != 0;
#else
  return false;
#endif
}

bool MultipliesBf16Pairs() {
#if HWY_ARCH_X86
  return __builtin_cpu_supports("avx512bf16") && !SharesWideUnits();
#else
  return false;
#endif
}

void AllowAvxVnniForTest(bool allowed) { allows_avx_vnni = allowed; }

bool HasAvxVnni() {
  static const bool has = FindAvxVnni();
  return has && allows_avx_vnni && TargetName() == "avx2";
}

void AllowMatrixTilesForTest(bool allowed) { allows_matrix_tiles = allowed; }

bool HasMatrixTiles() {
  static const bool has = FindMatrixTiles();
  return has && allows_matrix_tiles && TargetName() == "avx512";
}

int64_t SecondLevelCacheBytes() {
  static const int64_t bytes = [] {
    const int64_t said = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return said > 0 ? std::clamp<int64_t>(said, 256 << 10, 4 << 20) : 512 << 10;
  }();
  return bytes;
}

std::string MachineName() {
  ApplyTargetFromEnvironment();
  std::string name(HWY_ARCH_X86 ? "x86-64 " : "aarch64 ");
  name += TargetName();
#if HWY_ARCH_X86
  const bool is_avx512 = TargetName() == "avx512";
  if (is_avx512 && SharesWideUnits()) name += " intel";
  if (is_avx512 ? __builtin_cpu_supports("avx512vnni") != 0 : HasAvxVnni()) name += " vnni";
  if (MultipliesBf16Pairs()) name += " bf16";
  if (HasMatrixTiles()) name += " amx";
#endif
  if (HasManyProcessors()) {
    name += fmt::format(", more than {} processors", kFewProcessors);
  } else if (HasMatrixTiles() && TaskProcessors() > kMostTileProcessors) {
    name += fmt::format(", more than {} processors", kMostTileProcessors);
  }
  return name;
}

}  // namespace sardonyx
#endif  // HWY_ONCE
