# Toolchain: Debian's cross compiler for AArch64. Libraries come from SARDONYX_SYSROOT, a folder into
# which Debian's packages of the architecture arm64 were unpacked (./dev aarch64 does it); tests run
# under qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc-12)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++-12)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)

list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SARDONYX_SYSROOT)
set(CMAKE_FIND_ROOT_PATH ${SARDONYX_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${SARDONYX_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${SARDONYX_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${SARDONYX_SYSROOT}/usr/share/pkgconfig)
# The compiler brings its own C library; these are the others, and those that they need.
set(libraries ${SARDONYX_SYSROOT}/usr/lib/aarch64-linux-gnu)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-L${libraries} -Wl,-rpath-link,${libraries}")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-L${libraries} -Wl,-rpath-link,${libraries}")
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static;-L;/usr/aarch64-linux-gnu;-E;LD_LIBRARY_PATH=${libraries})
