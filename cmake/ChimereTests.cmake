# Tests. All tests are added with chimere_add_test(), which gives each one labels and a timeout.
#
# Labels: fast (`make check`, under 3 minutes in all once built), full (the rest of `make test` and .ci/run), nightly
# (only `make nightly`), gpu (skipped without a GPU). tests/repository checks that each test has one.
#
# Timeouts end tests that hang; a test's result must not depend on them. A timeout is a number of seconds that is ample
# on an ordinary machine, multiplied by one factor: in ctest and, as TEST_TIMEOUT_FACTOR, for waits within the tests
# (tests/support/limits.py). `make test TIMEOUT_FACTOR=20` sets the factor.
set(CHIMERE_TEST_TIMEOUT_FACTOR 5 CACHE STRING "Factor for the timeouts of all tests: a whole number")
if(NOT CHIMERE_TEST_TIMEOUT_FACTOR MATCHES "^[1-9][0-9]*$")
  message(FATAL_ERROR "CHIMERE_TEST_TIMEOUT_FACTOR=${CHIMERE_TEST_TIMEOUT_FACTOR}: give a whole number above 0.")
endif()
set(chimere_timeout_factor ${CHIMERE_TEST_TIMEOUT_FACTOR})
if(CHIMERE_SANITIZE)
  math(EXPR chimere_timeout_factor "5 * ${chimere_timeout_factor}")
endif()

# chimere_add_test(NAME LABELS label ... [TIMEOUT seconds: 120] [PROPERTIES name value ...] COMMAND ...)
function(chimere_add_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LABELS;PROPERTIES;COMMAND" ${ARGN})
  if(NOT ARG_LABELS)
    message(FATAL_ERROR "The test ${name} has no label: give it LABELS fast, full, nightly or gpu.")
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  math(EXPR limit "${chimere_timeout_factor} * ${ARG_TIMEOUT}")
  add_test(NAME ${name} COMMAND ${ARG_COMMAND})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${limit}
    ENVIRONMENT TEST_TIMEOUT_FACTOR=${chimere_timeout_factor} ${ARG_PROPERTIES})
endfunction()

# chimere_test(NAME SOURCES a_test.cc ... DEPS module ... [LIBRARIES target ...] [LABELS full] [TIMEOUT seconds])
# A GoogleTest program. Without a label it is in the fast tier.
function(chimere_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LIBRARIES;LABELS" ${ARGN})
  if(NOT CHIMERE_TESTS)
    return()
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS fast)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  chimere_precompiled(${name} chimere_test_headers)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  # Tests compile sooner with it.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)  # false alarms of g++ 12 for std::string(300, 'a') + "b"
    target_compile_options(${name} PRIVATE -Wno-array-bounds -Wno-stringop-overflow)
  endif()
  list(TRANSFORM ARG_DEPS PREPEND chimere_)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} ${ARG_LIBRARIES} GTest::gtest GTest::gmock GTest::gtest_main)
  chimere_add_test(${name} LABELS ${ARG_LABELS} TIMEOUT "${ARG_TIMEOUT}" COMMAND ${name})
endfunction()
