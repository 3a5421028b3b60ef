#pragma once
// SARDONYX_API marks what a shared libsardonyx exports; in a static one nothing is.

#if defined(SARDONYX_SHARED)
#define SARDONYX_API __attribute__((visibility("default")))
#else
#define SARDONYX_API
#endif
