# An include names wing and room: "core/lease/lease_manager.h".
set(gpuyard_includes ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)

# A room is one folder of a wing, or a wing that is one room: its sources make a static library `gpuyard_<room>`, its
# `*_test.cpp` files one test program `<room>_test` or a part of a shared one. Both are listed by name, never globbed.
#
#   gpuyard_room(device SOURCES catalog.cpp ... TESTS catalog_test.cpp ... LINKS gpuyard_base
#                TEST_LINKS gpuyard_x WITH base PROGRAM gpu_test)
#
# WITH names an earlier room: a unity build compiles a small room together with that one, because most of its own batch
# would be the same headers again. PROGRAM names a shared test program (below), for the same reason.
function(gpuyard_room room)
  cmake_parse_arguments(ARG "" "WITH;PROGRAM" "SOURCES;TESTS;LINKS;TEST_LINKS" ${ARGN})
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
  if(NOT ARG_TESTS)
    return()
  endif()
  if(NOT ARG_PROGRAM)
    gpuyard_test(${room}_test)
    set(ARG_PROGRAM ${room}_test)
  endif()
  target_sources(${ARG_PROGRAM} PRIVATE ${ARG_TESTS})
  target_link_libraries(${ARG_PROGRAM} PRIVATE gpuyard_${room} gpuyard_for_tests ${ARG_TEST_LINKS})
endfunction()

# For rooms whose code runs once in a verb, or once a second: fewer pages of it save more than a faster loop would.
function(gpuyard_optimize_for_size)
  foreach(room IN LISTS ARGN)
    target_compile_options(gpuyard_${room} PRIVATE "$<$<CONFIG:Release>:-Os>")
  endforeach()
endfunction()

# One GoogleTest program is one CTest entry; its XML report is what the contract check reads.
function(gpuyard_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS} GTest::gmock GTest::gtest_main)
  # A test runs once for each time it is compiled: optimising it costs more than it saves.
  target_compile_options(${name} PRIVATE -O0)
  # As many sources at once as a compile step has memory for (mib_per_job in tools/yard/common.sh).
  set_target_properties(${name} PROPERTIES UNITY_BUILD_BATCH_SIZE 32)
  add_test(NAME ${name} COMMAND ${name} --gtest_output=xml:${CMAKE_BINARY_DIR}/reports/${name}.xml)
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 PROCESSORS 2) # of slots: tests/CMakeLists.txt
  # http_test is the proof that g++ compiles the coroutines of src/io/http right, and store_test looks
  # at fewer crash images under the sanitizers.
  if(GPUYARD_CHECKED AND NOT name MATCHES "^(http|store)_test$")
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    set_property(TEST ${name} APPEND PROPERTY LABELS checked)
  endif()
endfunction()

# The test programs that several rooms share: with a program for each room GoogleTest and the headers
# are compiled again for each, and the rooms linked again. The rooms add their tests and what these
# need. ThreadSanitizer runs what is labelled `threads`: rooms with threads share a program of their own.
foreach(program IN ITEMS threads_test gpu_test core_test faces_test daemon_test)
  gpuyard_test(${program})
endforeach()
set_property(TEST threads_test APPEND PROPERTY LABELS threads)
# Its sources include RapidCheck, and take more memory.
set_target_properties(core_test PROPERTIES UNITY_BUILD_BATCH_SIZE 28)
