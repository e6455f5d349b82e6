# Every third-party library, once. docs/dependencies.md says why each is here.
set(Boost_USE_STATIC_LIBS ON)
set(Boost_NO_WARN_NEW_VERSIONS ON)
find_package(Boost 1.81 REQUIRED COMPONENTS json)
find_package(Threads REQUIRED)
find_package(GTest REQUIRED)

# fmt, spdlog, toml++ and CLI11 ship as headers; each is compiled once, in src/base/third_party or
# in the one file that uses it, so that the program links statically and including them stays cheap.
foreach(header IN ITEMS fmt/format.h spdlog/spdlog.h toml++/toml.h CLI/CLI.hpp)
  string(MAKE_C_IDENTIFIER "GPUYARD_HEADER_${header}" cache_name)
  find_path(${cache_name} ${header} REQUIRED)
  mark_as_advanced(${cache_name})
endforeach()
