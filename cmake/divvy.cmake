# How a floor of the house is declared: one static library, linked to just the floors below that it may use, so that a
# wrong arrow does not link; and one test program from the *_test.cc files beside the sources.

find_package(Threads REQUIRED)

add_library(divvy_flags INTERFACE)
target_compile_options(divvy_flags INTERFACE
  -Wall -Wextra -Werror -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual
  # g++ 12 sees ghosts in std::optional and std::variant at -O2 (bug 80635).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  -Wno-missing-field-initializers
  # clang, which builds the fuzzers, counts more as conversions and as shadows.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion> $<$<CXX_COMPILER_ID:Clang>:-Wno-shadow>
  # Decisions are the same bytes on every machine: none fuses a multiplication with an addition.
  -ffp-contract=off
  # What ccache asks of g++ where headers are precompiled.
  $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>
  # g++ collects its garbage after a gigabyte, which most files never reach: a tenth of the time.
  $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1000000>)
target_include_directories(divvy_flags INTERFACE ${PROJECT_SOURCE_DIR}/src)
if(DIVVY_SANITIZE)
  target_compile_options(divvy_flags INTERFACE -fsanitize=${DIVVY_SANITIZE} -fno-omit-frame-pointer -g1
    $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  target_link_options(divvy_flags INTERFACE -fsanitize=${DIVVY_SANITIZE})
endif()

if(DIVVY_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

# divvy_fast_build(TARGET PREFIX [PRECOMPILE header...]): compiles several files of the target at once (a unity build), on top of the
# precompiled header PREFIX: program, optimized or test. Most of the time of a single file goes into the same standard
# headers, and into the same inline functions and templates, again and again. A batch is small enough that a change of one
# file is ready within seconds. Files of one batch share their anonymous namespaces: two names that clash get better names.
set(DIVVY_BATCH 8 CACHE STRING "Source files that are compiled at once; 1: each by itself")
function(divvy_fast_build target prefix)
  cmake_parse_arguments(ARG "" "" "PRECOMPILE" ${ARGN})
  if(DIVVY_BATCH GREATER 1)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${DIVVY_BATCH})
    # g++ takes a .cc file inside a batch for a header, and warns of anonymous types in it.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
  if(ARG_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/precompiled.h ${ARG_PRECOMPILE})
  else()
    target_precompile_headers(${target} REUSE_FROM divvy_${prefix}_headers)
  endif()
endfunction()

# The headers themselves, for each level of optimisation once: a compiler reads no header that was compiled otherwise.
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled.cc CONTENT "")
foreach(prefix program optimized)
  add_library(divvy_${prefix}_headers OBJECT ${CMAKE_BINARY_DIR}/precompiled.cc)
  target_link_libraries(divvy_${prefix}_headers PRIVATE divvy_flags)
  target_precompile_headers(divvy_${prefix}_headers PRIVATE ${PROJECT_SOURCE_DIR}/cmake/precompiled.h)
endforeach()
target_compile_options(divvy_optimized_headers PRIVATE -O2)
if(DIVVY_TESTS)
  add_library(divvy_test_headers OBJECT ${CMAKE_BINARY_DIR}/precompiled.cc)
  target_link_libraries(divvy_test_headers PRIVATE divvy_flags GTest::gtest)
  target_compile_options(divvy_test_headers PRIVATE -O0 -U_FORTIFY_SOURCE)
  target_precompile_headers(divvy_test_headers PRIVATE ${PROJECT_SOURCE_DIR}/cmake/precompiled.h <gtest/gtest.h>)
endif()

# divvy_test_program(NAME LINKS library... SOURCES file...): what a test checks is optimised; the test itself only costs build time.
function(divvy_test_program name)
  cmake_parse_arguments(ARG "" "" "LINKS;SOURCES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} GTest::gtest_main)
  target_compile_options(${name} PRIVATE -O0 -U_FORTIFY_SOURCE)
  target_compile_definitions(${name} PRIVATE DIVVY_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  divvy_fast_build(${name} test)
endfunction()

# divvy_floor(NAME [ROOMS folder...] USES floor... [LINKS library...] [FAST] [PRECOMPILE header...]): every .cc in the folder and its rooms but
# the tests. ROOMS: its folders in reading order; "." is the floor's own. A file includes nothing of a later one (scripts/check-floors).
# FAST: the time that this code needs is what its users wait for, so it is optimised further. PRECOMPILE: headers that
# most files of this floor include, precompiled for it on top of cmake/precompiled.h.
function(divvy_floor name)
  cmake_parse_arguments(ARG "FAST" "" "ROOMS;USES;LINKS;PRECOMPILE" ${ARGN})
  list(REMOVE_ITEM ARG_ROOMS "." "")
  set(folders ${CMAKE_CURRENT_SOURCE_DIR})
  foreach(room ${ARG_ROOMS})
    list(APPEND folders ${CMAKE_CURRENT_SOURCE_DIR}/${room})
  endforeach()
  list(TRANSFORM folders APPEND /*.cc OUTPUT_VARIABLE sources)
  list(TRANSFORM folders APPEND /*_test.cc OUTPUT_VARIABLE tests)
  file(GLOB sources CONFIGURE_DEPENDS ${sources})
  file(GLOB tests CONFIGURE_DEPENDS ${tests})
  list(REMOVE_ITEM sources ${tests} "")
  list(TRANSFORM ARG_USES PREPEND divvy_)
  if(sources)
    add_library(divvy_${name} STATIC ${sources})
    target_link_libraries(divvy_${name} PUBLIC divvy_flags ${ARG_USES} ${ARG_LINKS})
    if(ARG_FAST AND CMAKE_BUILD_TYPE STREQUAL Release)
      target_compile_options(divvy_${name} PRIVATE -O2)
      divvy_fast_build(divvy_${name} optimized PRECOMPILE ${ARG_PRECOMPILE})
    else()
      divvy_fast_build(divvy_${name} program PRECOMPILE ${ARG_PRECOMPILE})
    endif()
  else()
    add_library(divvy_${name} INTERFACE)
    target_link_libraries(divvy_${name} INTERFACE divvy_flags ${ARG_USES} ${ARG_LINKS})
  endif()
  if(DIVVY_TESTS AND tests)
    divvy_test_program(${name}_test SOURCES ${tests} LINKS divvy_${name})
    gtest_discover_tests(${name}_test DISCOVERY_TIMEOUT 60 DISCOVERY_MODE PRE_TEST)
  endif()
endfunction()

# divvy_old_glibc(TARGET): a library for other people's programs, in containers of old images too (platform/os/old_glibc.h).
function(divvy_old_glibc target)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include ${PROJECT_SOURCE_DIR}/src/platform/os/old_glibc.h>")
  # Where glibc is old, threads and dlopen are in these two; --as-needed would leave them out, for here they are empty.
  target_link_options(${target} PRIVATE -Wl,--push-state,--no-as-needed,-l:libpthread.so.0,-l:libdl.so.2,--pop-state)
endfunction()
