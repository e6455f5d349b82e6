# An include names the room, wherever its wing stands: "lease/leases.h".
set(gpuyard_includes ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
foreach(wing IN ITEMS gpu core io faces)
  list(APPEND gpuyard_includes ${PROJECT_SOURCE_DIR}/src/${wing})
endforeach()

# A room is one folder of a wing, or a wing that is one room: its sources make a static library `gpuyard_<room>`, its
# `*_test.cpp` files one test program `<room>_test`. Both are listed by name, never globbed.
#
#   gpuyard_room(device SOURCES catalog.cpp ... TESTS catalog_test.cpp ... LINKS gpuyard_base
#                TEST_LINKS gpuyard_x WITH base THREADS)
#
# THREADS labels the tests `threads`: ThreadSanitizer runs those. WITH names an earlier room: a unity
# build compiles a small room together with that one, because most of its own batch would be the
# same headers again.
function(gpuyard_room room)
  cmake_parse_arguments(ARG "THREADS" "WITH" "SOURCES;TESTS;LINKS;TEST_LINKS" ${ARGN})
  if(ARG_WITH AND CMAKE_UNITY_BUILD)
    set(library gpuyard_${ARG_WITH})
    list(REMOVE_ITEM ARG_LINKS ${library})
    target_sources(${library} PRIVATE ${ARG_SOURCES})
    add_library(gpuyard_${room} INTERFACE)
    target_link_libraries(gpuyard_${room} INTERFACE ${library})
  else()
    set(library gpuyard_${room})
    add_library(${library} STATIC ${ARG_SOURCES})
    target_include_directories(${library} PUBLIC ${gpuyard_includes} ${PROJECT_SOURCE_DIR}/simulator)
  endif()
  target_link_libraries(${library} PUBLIC gpuyard_flags ${ARG_LINKS})
  if(ARG_TESTS)
    gpuyard_test(${room}_test SOURCES ${ARG_TESTS} LINKS gpuyard_${room} gpuyard_for_tests ${ARG_TEST_LINKS})
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
  target_compile_options(${name} PRIVATE -O0)
  add_test(NAME ${name} COMMAND ${name} --gtest_output=xml:${CMAKE_BINARY_DIR}/reports/${name}.xml)
  set_tests_properties(${name} PROPERTIES TIMEOUT 300)
endfunction()
