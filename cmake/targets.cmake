# Functions that make the targets out of the folders, so that a new file needs no entry anywhere.

include(CheckLinkerFlag)

add_library(sardonyx_flags INTERFACE)
target_compile_options(sardonyx_flags INTERFACE -Wall -Wextra)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # A loop that stays scalar is no mistake; and std::stable_sort of libstdc++ 12 uses a function that
  # the library itself calls deprecated.
  target_compile_options(sardonyx_flags INTERFACE -Wno-pass-failed -Wno-deprecated-declarations)
endif()

add_library(sardonyx_version INTERFACE)
target_compile_definitions(sardonyx_version INTERFACE SARDONYX_VERSION="${PROJECT_VERSION}")

if(BUILD_SHARED_LIBS)
  add_compile_definitions(SARDONYX_SHARED)
endif()

# sardonyx_folder(<folder of src/> DEPENDS <libraries>): the static library sardonyx_<last part of
# the folder's path> of all its sources. A folder without sources only passes on its dependencies.
function(sardonyx_folder folder)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "DEPENDS")
  get_filename_component(name ${folder} NAME)
  set(target sardonyx_${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cc)
  if(NOT sources)
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${ARG_DEPENDS})
    return()
  endif()
  add_library(${target} STATIC ${sources})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(${target} PUBLIC ${ARG_DEPENDS} PRIVATE sardonyx_flags nlohmann_json::nlohmann_json)
  target_include_directories(${target} SYSTEM PRIVATE ${PROTOZERO_INCLUDE_DIR})
  target_compile_options(${target} PRIVATE -ffunction-sections)  # sardonyx_function_order
  set(SARDONYX_FOLDERS ${SARDONYX_FOLDERS} ${target} PARENT_SCOPE)
endfunction()

# src/images -> libsardonyx_images, which sardonyx_ops opens by its name at the first image.
function(sardonyx_images)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/images/*.cc)
  add_library(sardonyx_images MODULE ${sources})
  set_target_properties(sardonyx_images PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  target_link_libraries(sardonyx_images PRIVATE sardonyx_base sardonyx_flags ${SARDONYX_IMAGE_LIBRARIES})
  # So that its path holds for the libraries of libtiff as well, which a wheel carries beside it.
  target_link_options(sardonyx_images PRIVATE LINKER:--disable-new-dtags)
  add_dependencies(sardonyx_ops sardonyx_images)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/src/ops/image/image_decoder.cc PROPERTIES
    COMPILE_DEFINITIONS SARDONYX_IMAGES="$<TARGET_FILE_NAME:sardonyx_images>")
endfunction()

# What engine files name the build by: the version, and a digest of the sources, which is made again
# when one of them changes.
function(sardonyx_engine_build_name)
  set(header ${PROJECT_BINARY_DIR}/generated/source_digest.h)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.cc ${PROJECT_SOURCE_DIR}/src/*.h
       ${PROJECT_SOURCE_DIR}/src/*.inc)
  list(FILTER sources EXCLUDE REGEX "/src/api/")
  add_custom_command(OUTPUT ${header} DEPENDS ${sources} ${PROJECT_SOURCE_DIR}/cmake/source_digest.cmake
    COMMAND ${CMAKE_COMMAND} -D SOURCE=${PROJECT_SOURCE_DIR}/src -D OUTPUT=${header}
            -P ${PROJECT_SOURCE_DIR}/cmake/source_digest.cmake)
  target_sources(sardonyx_engine PRIVATE ${header})
  target_include_directories(sardonyx_engine PRIVATE ${PROJECT_BINARY_DIR}/generated)
  target_include_directories(sardonyx_engine SYSTEM PRIVATE ${XXHASH_INCLUDE_DIR})
  target_link_libraries(sardonyx_engine PRIVATE sardonyx_version)
endfunction()

# Links the functions that models call side by side, as tools/write_function_order.py found them: a
# process then maps 1 to 3 MiB less code.
function(sardonyx_function_order target)
  set(order ${PROJECT_SOURCE_DIR}/cmake/function_order.ld)
  check_linker_flag(CXX LINKER:-T,${order} has_function_order)
  if(has_function_order)
    target_compile_options(${target} PRIVATE -ffunction-sections)
    target_link_options(${target} PRIVATE LINKER:-T,${order})
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${order})
  endif()
endfunction()

# tools/cli/*.cc -> the executable `sardonyx`.
function(sardonyx_cli)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/cli/*.cc)
  if(NOT sources OR NOT TARGET sardonyx)
    return()
  endif()
  add_executable(sardonyx_cli ${sources})
  sardonyx_function_order(sardonyx_cli)
  set_target_properties(sardonyx_cli PROPERTIES OUTPUT_NAME sardonyx)
  target_link_libraries(sardonyx_cli PRIVATE sardonyx sardonyx_flags sardonyx_version CLI11::CLI11 ZLIB::ZLIB fmt::fmt
                                             nlohmann_json::nlohmann_json)
endfunction()

# python/src/*.cc -> the module `_sardonyx` in <build>/python.
function(sardonyx_python)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/src/*.cc)
  if(NOT sources OR NOT TARGET sardonyx)
    return()
  endif()
  nanobind_add_module(_sardonyx NB_STATIC NOMINSIZE ${sources})
  sardonyx_function_order(_sardonyx)
  set_target_properties(_sardonyx PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/python)
  target_link_libraries(_sardonyx PRIVATE sardonyx sardonyx_flags sardonyx_version)
  # A table of 8 KiB instead of 250 KiB to be read at each import.
  check_linker_flag(CXX LINKER:-z,pack-relative-relocs has_packed_relocations)
  if(has_packed_relocations)
    target_link_options(_sardonyx PRIVATE LINKER:-z,pack-relative-relocs)
  endif()
endfunction()

# tests/<folder>/*.cc -> the executable <folder>_test, one entry of ctest, run from the project's root.
# The tests of these folders link their own library alone, which keeps them quick to rebuild.
set(SARDONYX_UNIT_FOLDERS base kernels ir onnx passes)
# Parts of the longest, entries of their own: under an emulator each takes as long as all others together.
set(SARDONYX_kernels_PARTS 4)
function(sardonyx_tests)
  file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests/*/*.cc)
  foreach(source IN LISTS sources)
    get_filename_component(folder ${source} DIRECTORY)
    get_filename_component(name ${folder} NAME)
    if(NOT TARGET ${name}_test)
      add_executable(${name}_test)
      set(tested sardonyx_api)
      if(name IN_LIST SARDONYX_UNIT_FOLDERS)
        set(tested sardonyx_${name})
      endif()
      target_link_libraries(${name}_test PRIVATE ${tested} sardonyx_flags GTest::gtest GTest::gtest_main)
      target_compile_definitions(${name}_test PRIVATE SARDONYX_TESTS_DIR="${PROJECT_SOURCE_DIR}/tests")
      set(parts 1)
      if(DEFINED SARDONYX_${name}_PARTS)
        set(parts ${SARDONYX_${name}_PARTS})
      endif()
      foreach(part RANGE 1 ${parts})
        math(EXPR index "${part} - 1")
        set(test ${name}_test)
        if(parts GREATER 1)
          string(APPEND test _${part}_of_${parts})
        endif()
        add_test(NAME ${test} COMMAND ${name}_test WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
        set_tests_properties(${test} PROPERTIES TIMEOUT 1200
          ENVIRONMENT "GTEST_TOTAL_SHARDS=${parts};GTEST_SHARD_INDEX=${index}")
      endforeach()
    endif()
    target_sources(${name}_test PRIVATE ${source})
  endforeach()
  # tests/<folder>/tool/*.cc -> the executable <folder>_test_tool, which pytest drives where the Python
  # module is not enough. It links the library of that folder of src/, or libsardonyx.
  file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests/*/tool/*.cc)
  foreach(source IN LISTS sources)
    string(REGEX REPLACE "^tests/([^/]+)/tool/.*" "\\1" name ${source})
    if(NOT TARGET ${name}_test_tool)
      add_executable(${name}_test_tool)
      if(TARGET sardonyx_${name})
        target_link_libraries(${name}_test_tool PRIVATE sardonyx_${name} sardonyx_flags)
      else()
        target_link_libraries(${name}_test_tool PRIVATE sardonyx sardonyx_flags)
      endif()
    endif()
    target_sources(${name}_test_tool PRIVATE ${source})
  endforeach()
endfunction()

# bench/<name>_bench.cc -> the executable <name>_bench.
function(sardonyx_benchmarks)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/bench/*_bench.cc)
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source} ${PROJECT_SOURCE_DIR}/bench/peak.cc)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${name} PRIVATE sardonyx_api sardonyx_flags benchmark::benchmark_main)
  endforeach()
endfunction()

# What the wheel holds: the module, the command line, and the shared libraries that both need, since
# the machine that installs a wheel has none of ours.
function(sardonyx_wheel)
  set(site lib/python${Python_VERSION_MAJOR}.${Python_VERSION_MINOR})
  set_target_properties(_sardonyx PROPERTIES INSTALL_RPATH "$ORIGIN/lib")
  install(TARGETS sardonyx_images RUNTIME_DEPENDENCY_SET bundled DESTINATION sardonyx/lib COMPONENT wheel)
  set_target_properties(sardonyx_cli PROPERTIES INSTALL_RPATH
    "$ORIGIN/../${site}/site-packages/sardonyx/lib:$ORIGIN/../${site}/dist-packages/sardonyx/lib")
  install(TARGETS _sardonyx RUNTIME_DEPENDENCY_SET bundled DESTINATION sardonyx COMPONENT wheel)
  install(TARGETS sardonyx_cli RUNTIME_DEPENDENCY_SET bundled
          DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT wheel)
  install(RUNTIME_DEPENDENCY_SET bundled DESTINATION sardonyx/lib COMPONENT wheel
          PRE_INCLUDE_REGEXES "lib(fmt|hwy|re2|utf8proc|absl)"
                              "lib(jpeg|png|tiff|webp|sharpyuv|openjp2|zstd|lzma|Lerc|jbig|deflate)"
          PRE_EXCLUDE_REGEXES ".*")
endfunction()
