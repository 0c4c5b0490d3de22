# SPDX-License-Identifier: Apache-2.0
# llamalloc_layer(NAME DEPENDS layer...): one room of src/ as one static library, with the
# *_test.cc twins beside its sources as one GoogleTest executable NAME_test. Each *_bench.cc
# is an executable built when asked for by name. Each X_fuzz.cc is fuzz/X_fuzz, which as a test runs
# the inputs of tests/corpora/X once; with LLAMALLOC_BUILD_FUZZERS (clang) it is a libFuzzer.

set(LLAMALLOC_FLAGS
  -Wall -Wextra -Wundef -Wshadow -Wnon-virtual-dtor -fno-exceptions -fno-rtti
  -fvisibility=hidden -ftls-model=initial-exec -ffunction-sections -fdata-sections
  # The allocator must not be turned into calls of itself (mimalloc issue 785).
  -fno-builtin-malloc -fno-builtin-calloc -fno-builtin-realloc -fno-builtin-free
  # Function-local statics are constant-initialised or forbidden: no guard, no libstdc++.
  -fno-threadsafe-statics)
# Symbols that are unique in the process could not be made local in the static library.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-fno-gnu-unique LLAMALLOC_HAS_NO_GNU_UNIQUE)
if(LLAMALLOC_HAS_NO_GNU_UNIQUE)
  list(APPEND LLAMALLOC_FLAGS -fno-gnu-unique)
endif()
if(LLAMALLOC_WERROR)
  list(APPEND LLAMALLOC_FLAGS -Werror)
endif()
if(LLAMALLOC_SANITIZE)
  add_compile_options(-fsanitize=${LLAMALLOC_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${LLAMALLOC_SANITIZE})
  # The rooms have no RTTI, which the check of virtual calls would need.
  if(LLAMALLOC_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize=vptr)
  endif()
endif()
option(LLAMALLOC_BUILD_FUZZERS "Link the fuzzers' twins with libFuzzer (clang)" OFF)
if(LLAMALLOC_BUILD_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# llamalloc_fuzzer(SOURCE library...): the twin as an executable; target fuzzers: all of them.
add_custom_target(fuzzers)
function(llamalloc_fuzzer source)
  get_filename_component(executable ${source} NAME_WE)
  string(REGEX REPLACE "_fuzz$" "" target ${executable})
  add_executable(${executable} ${source})
  target_link_libraries(${executable} PRIVATE ${ARGN})
  target_compile_options(${executable} PRIVATE -Wall -Wextra -Werror)
  set_target_properties(${executable} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/fuzz)
  if(LLAMALLOC_BUILD_FUZZERS)
    target_link_options(${executable} PRIVATE -fsanitize=fuzzer)
  else()
    target_sources(${executable} PRIVATE ${PROJECT_SOURCE_DIR}/tests/corpus_main.cc)
  endif()
  add_dependencies(fuzzers ${executable})
  add_test(NAME ${executable}
    COMMAND ${executable} -runs=0 ${PROJECT_SOURCE_DIR}/tests/corpora/${target})
endfunction()

# Sources that only look at a process, now and then, or whose time is that of the system: small
# matters more than fast.
function(llamalloc_small)
  set_source_files_properties(${ARGN} PROPERTIES
    COMPILE_OPTIONS $<$<NOT:$<CONFIG:Debug>>:-Os>)
endfunction()

function(llamalloc_benches layer)
  foreach(source ${ARGN})
    get_filename_component(executable ${source} NAME_WE)
    add_executable(${executable} EXCLUDE_FROM_ALL ${source})
    target_link_libraries(${executable} PRIVATE llamalloc_${layer})
    target_compile_options(${executable} PRIVATE -Wall -Wextra -Werror)
  endforeach()
endfunction()

# GoogleTest's header costs a third of the time of a test: the first one compiles it for all. GCC 12
# then no longer takes std::string for a system header, and sees errors in it (its bug 105329).
function(llamalloc_precompile_gtest target)
  target_compile_options(${target} PRIVATE
    "$<$<CXX_COMPILER_ID:GNU>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow>")
  get_property(first GLOBAL PROPERTY LLAMALLOC_FIRST_TEST)
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    set_property(GLOBAL PROPERTY LLAMALLOC_FIRST_TEST ${target})
    target_precompile_headers(${target} PRIVATE <gtest/gtest.h>)
  endif()
endfunction()

function(llamalloc_layer name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cc)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(benches ${sources})
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  set(fuzzers ${sources})
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz|bench)\\.cc$")
  if(sources)
    add_library(llamalloc_${name} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(llamalloc_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(llamalloc_${name} ${scope}
    ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR})
  if(sources)
    target_compile_options(llamalloc_${name} PRIVATE ${LLAMALLOC_FLAGS})
  endif()
  foreach(dep ${ARG_DEPENDS})
    target_link_libraries(llamalloc_${name} ${scope} llamalloc_${dep})
  endforeach()
  llamalloc_benches(${name} ${benches})
  if(LLAMALLOC_BUILD_TESTS)
    foreach(source ${fuzzers})
      llamalloc_fuzzer(${source} llamalloc_${name})
    endforeach()
  endif()
  if(LLAMALLOC_BUILD_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE llamalloc_${name} GTest::gtest_main)
    # A test runs once or twice for each time that it is compiled: not optimised in Debug.
    target_compile_options(${name}_test PRIVATE -Wall -Wextra -Werror $<$<CONFIG:Debug>:-O0>)
    target_compile_definitions(${name}_test PRIVATE
      LLAMALLOC_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    llamalloc_precompile_gtest(${name}_test)
    add_test(NAME ${name} COMMAND ${name}_test)
  endif()
endfunction()
