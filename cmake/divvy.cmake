# How a floor of the house is declared: one static library, linked to just the floors below that it may use, so that a
# wrong arrow does not link; and one test program from the *_test.cc files beside the sources.

find_package(Threads REQUIRED)

add_library(divvy_flags INTERFACE)
target_compile_options(divvy_flags INTERFACE
  -Wall -Wextra -Werror -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual
  # g++ 12 sees ghosts in std::optional and std::variant at -O2 (bug 80635).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  -Wno-missing-field-initializers
  # Decisions are the same bytes on every machine: none fuses a multiplication with an addition.
  -ffp-contract=off)
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

# divvy_floor(NAME USES floor... [LINKS library...]): every .cc in the folder but the tests.
function(divvy_floor name)
  cmake_parse_arguments(ARG "" "" "USES;LINKS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc)
  list(REMOVE_ITEM sources ${tests} "")
  list(TRANSFORM ARG_USES PREPEND divvy_)
  if(sources)
    add_library(divvy_${name} STATIC ${sources})
    target_link_libraries(divvy_${name} PUBLIC divvy_flags ${ARG_USES} ${ARG_LINKS})
  else()
    add_library(divvy_${name} INTERFACE)
    target_link_libraries(divvy_${name} INTERFACE divvy_flags ${ARG_USES} ${ARG_LINKS})
  endif()
  if(DIVVY_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE divvy_${name} GTest::gtest_main)
    # What a test checks is optimised; the test itself only costs build time.
    target_compile_options(${name}_test PRIVATE -O0)
    target_compile_definitions(${name}_test PRIVATE DIVVY_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    gtest_discover_tests(${name}_test DISCOVERY_TIMEOUT 60 DISCOVERY_MODE PRE_TEST)
  endif()
endfunction()

# divvy_old_glibc(TARGET): a library for other people's programs, in containers of old images too (platform/old_glibc.h).
function(divvy_old_glibc target)
  target_compile_options(${target} PRIVATE
    "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-include ${PROJECT_SOURCE_DIR}/src/platform/old_glibc.h>")
  # Where glibc is old, threads and dlopen are in these two; --as-needed would leave them out, for here they are empty.
  target_link_options(${target} PRIVATE -Wl,--push-state,--no-as-needed,-l:libpthread.so.0,-l:libdl.so.2,--pop-state)
endfunction()
