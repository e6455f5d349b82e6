# A room is one folder of the house: its sources make a static library `gpuyard_<room>`, its
# `*_test.cpp` files one test program `<room>_test`. Both are listed by name, never globbed.
#
#   gpuyard_room(device SOURCES catalog.cpp ... TESTS catalog_test.cpp ... LINKS gpuyard_base
#                TEST_LINKS gpuyard_x THREADS)
#
# THREADS labels the tests `threads`: ThreadSanitizer runs those.
function(gpuyard_room room)
  cmake_parse_arguments(ARG "THREADS" "" "SOURCES;TESTS;LINKS;TEST_LINKS" ${ARGN})
  add_library(gpuyard_${room} STATIC ${ARG_SOURCES})
  target_include_directories(gpuyard_${room} PUBLIC ${PROJECT_SOURCE_DIR}/include
    ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/simulator)
  target_link_libraries(gpuyard_${room} PUBLIC gpuyard_flags ${ARG_LINKS})
  if(ARG_TESTS)
    gpuyard_test(${room}_test SOURCES ${ARG_TESTS} LINKS gpuyard_${room} ${ARG_TEST_LINKS})
    if(ARG_THREADS)
      set_property(TEST ${room}_test APPEND PROPERTY LABELS threads)
    endif()
  endif()
endfunction()

# One GoogleTest program is one CTest entry; its XML report is what the contract check reads.
function(gpuyard_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} GTest::gmock GTest::gtest_main)
  # A test runs once for each time it is compiled: optimising it costs more than it saves.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O0>)
  add_test(NAME ${name} COMMAND ${name} --gtest_output=xml:${CMAKE_BINARY_DIR}/reports/${name}.xml)
  set_tests_properties(${name} PROPERTIES TIMEOUT 300)
endfunction()
