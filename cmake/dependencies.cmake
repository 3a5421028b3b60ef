# Everything Sardonyx links. System packages first (./dev setup installs them on Debian); what is
# missing is built from a pinned release of its project.
include(FetchContent)
set(BUILD_TESTING OFF)  # theirs; ours is SARDONYX_BUILD_TESTS
set(BENCHMARK_ENABLE_TESTING OFF)
set(INSTALL_GTEST OFF)
set(RE2_BUILD_TESTING OFF)
set(CMAKE_POLICY_DEFAULT_CMP0077 NEW)  # lets the settings above reach projects of older CMake

find_package(Threads REQUIRED)
FetchContent_Declare(fmt GIT_REPOSITORY https://github.com/fmtlib/fmt.git
                     GIT_TAG 9.1.0 FIND_PACKAGE_ARGS)
FetchContent_Declare(hwy GIT_REPOSITORY https://github.com/google/highway.git
                     GIT_TAG 1.0.3 FIND_PACKAGE_ARGS)
FetchContent_Declare(nlohmann_json GIT_REPOSITORY https://github.com/nlohmann/json.git
                     GIT_TAG v3.11.2 FIND_PACKAGE_ARGS)
FetchContent_Declare(CLI11 GIT_REPOSITORY https://github.com/CLIUtils/CLI11.git
                     GIT_TAG v2.1.2 FIND_PACKAGE_ARGS)
FetchContent_Declare(GTest GIT_REPOSITORY https://github.com/google/googletest.git
                     GIT_TAG release-1.12.1 FIND_PACKAGE_ARGS)
FetchContent_Declare(benchmark GIT_REPOSITORY https://github.com/google/benchmark.git
                     GIT_TAG v1.7.1 FIND_PACKAGE_ARGS)
FetchContent_Declare(re2 GIT_REPOSITORY https://github.com/google/re2.git GIT_TAG 2022-06-01)
FetchContent_Declare(utf8proc GIT_REPOSITORY https://github.com/JuliaStrings/utf8proc.git
                     GIT_TAG v2.8.0)
FetchContent_Declare(protozero GIT_REPOSITORY https://github.com/mapbox/protozero.git
                     GIT_TAG v1.7.1 SOURCE_SUBDIR none)  # headers alone; its build is not wanted
FetchContent_Declare(xxhash GIT_REPOSITORY https://github.com/Cyan4973/xxHash.git
                     GIT_TAG v0.8.1 SOURCE_SUBDIR none)  # likewise

FetchContent_MakeAvailable(fmt hwy nlohmann_json)
if(NOT TARGET hwy::hwy)
  add_library(hwy::hwy ALIAS hwy)
endif()

# Debian 12 gives these two a pkg-config file but no CMake package.
find_package(PkgConfig)
foreach(name IN ITEMS re2 utf8proc)
  set(module_re2 re2)
  set(module_utf8proc libutf8proc)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(${name} IMPORTED_TARGET ${module_${name}})
  endif()
  if(NOT TARGET PkgConfig::${name})
    FetchContent_MakeAvailable(${name})
    add_library(PkgConfig::${name} ALIAS ${name})
  endif()
endforeach()

# Image formats. All are needed: a build that lacks one would refuse models that another runs.
set(SARDONYX_IMAGE_LIBRARIES)
foreach(module IN ITEMS libjpeg libpng libtiff-4>=4.5 libwebpdemux libopenjp2)
  string(REGEX MATCH "^[a-z0-9]+" name ${module})
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(${name} QUIET IMPORTED_TARGET ${module})
  endif()
  if(NOT TARGET PkgConfig::${name})
    message(FATAL_ERROR "pkg-config finds no ${module}, which ImageDecoder needs. On Debian and Ubuntu: apt-get "
                        "install pkg-config libjpeg62-turbo-dev (libjpeg-turbo8-dev) libpng-dev libtiff-dev "
                        "libwebp-dev libopenjp2-7-dev")
  endif()
  list(APPEND SARDONYX_IMAGE_LIBRARIES PkgConfig::${name})
endforeach()

find_path(PROTOZERO_INCLUDE_DIR protozero/pbf_reader.hpp)
if(NOT PROTOZERO_INCLUDE_DIR)
  FetchContent_MakeAvailable(protozero)
  set(PROTOZERO_INCLUDE_DIR ${protozero_SOURCE_DIR}/include)
endif()

find_path(XXHASH_INCLUDE_DIR xxhash.h)  # all of it is in the header
if(NOT XXHASH_INCLUDE_DIR)
  FetchContent_MakeAvailable(xxhash)
  set(XXHASH_INCLUDE_DIR ${xxhash_SOURCE_DIR})
endif()

if(SARDONYX_BUILD_CLI)
  FetchContent_MakeAvailable(CLI11)
  find_package(ZLIB REQUIRED)  # .npz files
endif()
if(SARDONYX_BUILD_TESTS)
  FetchContent_MakeAvailable(GTest)
endif()
if(SARDONYX_BUILD_BENCH)
  FetchContent_MakeAvailable(benchmark)
endif()
if(SARDONYX_BUILD_PYTHON)
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
                  OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE
                  COMMAND_ERROR_IS_FATAL ANY)
  find_package(nanobind CONFIG REQUIRED)
endif()

# A static libsardonyx that is installed needs its dependencies installed as well.
foreach(name IN ITEMS fmt hwy re2 utf8proc)
  if(${name}_SOURCE_DIR AND SARDONYX_INSTALL)
    message(STATUS "${name} is built from source: no rules to install the C++ package")
    set(SARDONYX_INSTALL OFF)
  endif()
endforeach()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
