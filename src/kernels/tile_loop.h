#pragma once
// For loops over tiles whose output is either apart from an operand or the very same memory, so
// that no iteration reads what another writes. GCC vectorises them in functions at -O3 alone, and
// selections between floats and square roots if neither flags nor errno are looked at.
#if defined(__clang__)
// Some of the functions (division, those of libm) have no vector form, which is no fault.
#pragma clang diagnostic ignored "-Wpass-failed"
#define SARDONYX_TILE_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define SARDONYX_TILE_LOOP _Pragma("GCC ivdep")
#pragma GCC optimize("O3", "no-trapping-math", "no-math-errno")
#endif
