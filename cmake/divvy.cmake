# Declares the layers ("floors") of the source tree. Each is one static library, linked only to the lower layers that it
# may use, so that a forbidden dependency does not link. Each has one test program, built from the *_test.cc files next
# to the sources.

find_package(Threads REQUIRED)

add_library(divvy_flags INTERFACE)
target_compile_options(divvy_flags INTERFACE
  -Wall -Wextra -Werror -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual
  # g++ 12 reports false positives in std::optional and std::variant at -O2 (bug 80635).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  -Wno-missing-field-initializers
  # clang, which builds the fuzzers, reports more conversions and more shadowing.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion> $<$<CXX_COMPILER_ID:Clang>:-Wno-shadow>
  # Decisions must be identical on every machine, so no compiler may fuse a multiplication with an addition.
  -ffp-contract=off
  # ccache requires this option when g++ uses precompiled headers.
  $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>
  # g++ then collects garbage only after 1 GB, which most files never reach. This saves a tenth of the compile time.
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

# divvy_fast_build(TARGET PREFIX [PRECOMPILE header...]): compiles several files of the target together (a unity build),
# with the precompiled header PREFIX: program, optimized or test. Most of the time for a single file is spent on the
# same standard headers, inline functions and templates. Batches are small, so that a change in one file builds within
# seconds. Files of one batch share their anonymous namespaces; rename one of two names that clash.
set(DIVVY_BATCH 8 CACHE STRING "Source files that are compiled at once; 1: each by itself")
function(divvy_fast_build target prefix)
  cmake_parse_arguments(ARG "" "" "PRECOMPILE" ${ARGN})
  if(DIVVY_BATCH GREATER 1)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${DIVVY_BATCH})
    # g++ treats a .cc file inside a batch as a header and warns about its anonymous types.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
  if(ARG_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/precompiled.h ${ARG_PRECOMPILE})
  else()
    target_precompile_headers(${target} REUSE_FROM divvy_${prefix}_headers)
  endif()
endfunction()

# The precompiled headers, one for each optimisation level: a compiler rejects a header compiled with other options.
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

# divvy_test_program(NAME LINKS library... SOURCES file...): the tested code is optimised, the tests are not: they would
# only take longer to build.
function(divvy_test_program name)
  cmake_parse_arguments(ARG "" "" "LINKS;SOURCES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} GTest::gtest_main)
  target_compile_options(${name} PRIVATE -O0 -U_FORTIFY_SOURCE)
  target_compile_definitions(${name} PRIVATE DIVVY_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  divvy_fast_build(${name} test)
endfunction()

# divvy_floor(NAME [ROOMS folder...] USES floor... [LINKS library...] [FAST | WAITS] [PRECOMPILE header...]): a library from
# every .cc file in the folder and its sub-folders, except tests. ROOMS: the sub-folders in layer order; "." is the
# folder itself. A file includes nothing from a later sub-folder (scripts/check-floors). FAST: users wait for this code,
# so it is optimised further. WAITS: this code waits for sockets, disks and processes; -Og compiles a fifth faster, and
# no command or job is measurably slower. PRECOMPILE: headers that most files of this layer include, precompiled together with
# cmake/precompiled.h.
function(divvy_floor name)
  cmake_parse_arguments(ARG "FAST;WAITS" "" "ROOMS;USES;LINKS;PRECOMPILE" ${ARGN})
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
      if(ARG_WAITS)
        target_compile_options(divvy_${name} PRIVATE $<$<CONFIG:Release>:-Og>)
      endif()
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

# divvy_old_glibc(TARGET): a library that is loaded into users' programs, also in containers with old images
# (platform/os/old_glibc.h).
function(divvy_old_glibc target)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include ${PROJECT_SOURCE_DIR}/src/platform/os/old_glibc.h>")
  # In old versions of glibc, these two libraries hold threads and dlopen. Here they are empty, so --as-needed would
  # drop them.
  target_link_options(${target} PRIVATE -Wl,--push-state,--no-as-needed,-l:libpthread.so.0,-l:libdl.so.2,--pop-state)
endfunction()
