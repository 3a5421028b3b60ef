#include "kernels/targets.h"

#include <cstdlib>

#include "base/error.h"
#include "hwy/highway.h"

namespace sardonyx {

namespace {

#if HWY_ARCH_X86
constexpr int64_t kAvx512 = HWY_AVX3 | HWY_AVX3_DL;
#endif

void ReadEnvironment() {
  const char* value = std::getenv("SARDONYX_TARGET");
  const std::string_view name = value == nullptr ? "" : value;
  if (name.empty()) return;
#if HWY_ARCH_X86
  int64_t needed = 0, disabled = 0;
  if (name == "baseline") {
    disabled = kAvx512 | HWY_AVX2;
  } else if (name == "avx2") {
    needed = HWY_AVX2;
    disabled = kAvx512;
  } else if (name == "avx512") {
    needed = HWY_AVX3;
  } else {
    Fail(ErrorCode::kInvalidArgument,
         "SARDONYX_TARGET is '{}'; known are baseline, avx2 and avx512", name);
  }
  if ((hwy::SupportedTargets() & needed) != needed) {
    Fail(ErrorCode::kInvalidArgument, "SARDONYX_TARGET is '{}', which this processor does not have",
         name);
  }
  hwy::DisableTargets(disabled);
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

std::string_view TargetName() {
#if HWY_ARCH_X86
  const int64_t targets = hwy::SupportedTargets();
  if ((targets & HWY_AVX3) != 0) return "avx512";
  if ((targets & HWY_AVX2) != 0) return "avx2";
  return "baseline";
#else
  return "neon";
#endif
}

std::string MachineName() {
  ApplyTargetFromEnvironment();
#if HWY_ARCH_X86
  std::string name = "x86-64 " + std::string(TargetName());
  if (__builtin_cpu_supports("avx512vnni")) name += " vnni";
  if (__builtin_cpu_supports("avx512bf16")) name += " bf16";
  return name;
#else
  return "aarch64 " + std::string(TargetName());
#endif
}

}  // namespace sardonyx
