# cmake --install: headers, libsardonyx and the CMake package sardonyx.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sardonyx)

install(TARGETS sardonyx EXPORT sardonyxTargets)
install(TARGETS sardonyx_images DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/sardonyx DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT sardonyxTargets NAMESPACE sardonyx:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/sardonyxConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/sardonyxConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sardonyxConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/sardonyxConfig.cmake ${PROJECT_BINARY_DIR}/sardonyxConfigVersion.cmake
        DESTINATION ${package_dir})
if(TARGET sardonyx_cli)
  install(TARGETS sardonyx_cli)
endif()
