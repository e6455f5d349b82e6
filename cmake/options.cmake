# The options of a preset. All else is decided in the rooms.
option(GPUYARD_WARNINGS_AS_ERRORS "Treat compiler warnings as errors" OFF)
option(GPUYARD_CHECKED "Another preset has run the C++ tests: build only those that prove more in this one" OFF)
option(GPUYARD_STATIC_RUNTIME "Link libstdc++ and libgcc statically into the program" OFF)
set(GPUYARD_SANITIZE "" CACHE STRING "'address' (with undefined), 'fuzz' (the same, and libFuzzer), 'thread', or empty")

# Compile and link flags of every target but the simulated NVML that foreign programs load.
add_library(gpuyard_flags INTERFACE)
target_compile_options(gpuyard_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion
  $<$<BOOL:${GPUYARD_WARNINGS_AS_ERRORS}>:-Werror>
  $<$<CXX_COMPILER_ID:Clang>:-Werror=thread-safety> # see base/mutex.h
  # __FILE__, which every test contains, is relative: the compiler cache is for all clones.
  -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=
  -ffunction-sections -fdata-sections)

# A unity build takes every source for a header, in which an anonymous namespace would be a mistake.
# g++ 12 then also inlines so much that it takes moved std::variants for uninitialised; clang-tidy and
# the presets that clang compiles still look for those.
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(gpuyard_flags INTERFACE -Wno-subobject-linkage -Wno-maybe-uninitialized)
endif()

if(GPUYARD_SANITIZE MATCHES "^(address|fuzz)$")
  # Trimmed: the checks left out triple the compile time and have libstdc++'s own false alarms.
  set(sanitizers -fsanitize=address,undefined -fno-sanitize=null,alignment,vptr,object-size
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  if(GPUYARD_SANITIZE STREQUAL "fuzz")
    list(APPEND sanitizers -fsanitize=fuzzer-no-link) # what the fuzzer learns from
  endif()
elseif(GPUYARD_SANITIZE STREQUAL "thread")
  set(sanitizers -fsanitize=thread -fno-omit-frame-pointer)
elseif(NOT GPUYARD_SANITIZE STREQUAL "")
  message(FATAL_ERROR "GPUYARD_SANITIZE is '${GPUYARD_SANITIZE}'; it may be 'address', 'fuzz', 'thread' or empty")
endif()
if(sanitizers)
  target_compile_options(gpuyard_flags INTERFACE ${sanitizers})
  target_link_options(gpuyard_flags INTERFACE ${sanitizers})
endif()

find_program(GPUYARD_CCACHE ccache)
if(GPUYARD_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${GPUYARD_CCACHE})
endif()
