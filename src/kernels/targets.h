#pragma once
// Which SIMD targets the kernels are compiled for, and which one runs. A kernel's .cc includes this
// before anything of Highway.
//
// Three on x86-64: SSE4.2 (x86-64-v2, with AES: processors since 2011), AVX2 with FMA, AVX-512;
// NEON on AArch64. The targets between them would cost build time and gain little. Without the
// second line the baseline would be scalar code.
#if defined(__x86_64__)
#define HWY_DISABLED_TARGETS (HWY_SCALAR | HWY_EMU128 | HWY_SSSE3)
#define HWY_BASELINE_TARGETS HWY_SSE4
#elif defined(__aarch64__)
// Vectors of unknown length cannot be members or stand in arrays, which the register tiles need.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sardonyx/export.hpp"

namespace sardonyx {

// Reads SARDONYX_TARGET (baseline, avx2, avx2_vnni or avx512) once a process and keeps better
// targets from being used; unset or empty means the best of the machine. Throws kInvalidArgument
// for any other word, and for a target that the machine lacks. To be called before the first kernel
// runs.
void ApplyTargetFromEnvironment();

// The target that runs: "baseline", "avx2", "avx512" or "neon".
SARDONYX_API std::string_view TargetName();

// Whether the two units that multiply vectors of 512 bits are all there are for such, as Intel's
// are: a product that waits for sums, rounding or packing is lost, and vectors of 256 bits do half
// as much in the same time. AMD's Zen 4 multiplies one such vector in a cycle, or two halves, and
// has other units for the rest.
bool SharesWideUnits();
// Answers so until told nullopt, whatever the processor: for tests of both kinds on either.
void SetSharesWideUnitsForTest(std::optional<bool> answer);

// Whether products of pairs of bfloat16 are the faster ones: the processor has the instruction, and
// begins one in each cycle. AMD's do (Zen 4: twice the arithmetic of float32); those that share
// wide units take two cycles for one (Emerald Rapids: half of it, 85 of 172 GFLOP/s). Tiles are
// faster yet (HasMatrixTiles).
bool MultipliesBf16Pairs();

// Whether the AVX2 target multiplies groups of bytes, and pairs of int16, in one instruction
// (AVX-VNNI: Intel's processors since Alder Lake). AVX-512 has such instructions of its own.
// SARDONYX_TARGET=avx2 is without, avx2_vnni with.
bool HasAvxVnni();
// While not allowed it answers no: for tests of both ways.
void AllowAvxVnniForTest(bool allowed);

// Whether the processor multiplies tiles of bytes and of bfloat16 (Intel's AMX: 16 rows of 64 bytes
// at a time, eight times what VNNI does) and the system lets this process use them, for which it is
// asked once. SARDONYX_TARGET=avx512 is without.
bool HasMatrixTiles();
// While not allowed it answers no: for tests of both ways.
void AllowMatrixTilesForTest(bool allowed);

// Of a core, in bytes; 512 KiB where the system does not say. For the order of work alone: results
// are the same with any.
int64_t SecondLevelCacheBytes();

// All of this machine that the layout of packed operands and the choice of kernels may depend on:
// "x86-64 avx512 vnni bf16".
std::string MachineName();

}  // namespace sardonyx
