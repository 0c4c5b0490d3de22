# SPDX-License-Identifier: Apache-2.0
# cmake --install: two components, both installed unless one is named.
# runtime      the libraries to preload, and the tools that the command llamalloc calls
# development  static library, header, contracts, files of pkg-config and find_package(llamalloc)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS llamalloc llamalloc_trace_preload
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
install(TARGETS llamalloc-trace llamalloc-simulate llamalloc-replay llamalloc-generate
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)

set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)
install(FILES ${PROJECT_BINARY_DIR}/libllamalloc.a DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${PROJECT_SOURCE_DIR}/include/llamalloc/llamalloc.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/llamalloc)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/contracts
  DESTINATION ${CMAKE_INSTALL_DATADIR}/llamalloc FILES_MATCHING PATTERN *.def PATTERN *.md
  PATTERN golden EXCLUDE)

# From the folder of llamalloc.pc to the prefix: the tree may be moved as a whole.
file(RELATIVE_PATH PREFIX_FROM_PC /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(${PROJECT_SOURCE_DIR}/cmake/llamalloc.pc.in ${PROJECT_BINARY_DIR}/llamalloc.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/llamalloc.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/llamalloc)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/llamallocConfig.cmake.in
  ${PROJECT_BINARY_DIR}/llamallocConfig.cmake INSTALL_DESTINATION ${package}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/llamallocConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/llamallocConfig.cmake
  ${PROJECT_BINARY_DIR}/llamallocConfigVersion.cmake DESTINATION ${package})
