# Every third-party library, once. docs/dependencies.md says why each is here.
set(Boost_NO_WARN_NEW_VERSIONS ON)
find_package(Boost 1.81 REQUIRED)
find_package(Threads REQUIRED)
find_package(GTest REQUIRED)
find_package(rapidcheck REQUIRED)

# The archives, so that the program needs none of these libraries at run time.
find_path(GPUYARD_ZLIB_INCLUDE zlib.h REQUIRED)
find_library(GPUYARD_ZLIB_ARCHIVE NAMES libz.a REQUIRED)
mark_as_advanced(GPUYARD_ZLIB_INCLUDE GPUYARD_ZLIB_ARCHIVE)
add_library(gpuyard_zlib STATIC IMPORTED)
set_target_properties(gpuyard_zlib PROPERTIES IMPORTED_LOCATION ${GPUYARD_ZLIB_ARCHIVE}
  INTERFACE_INCLUDE_DIRECTORIES ${GPUYARD_ZLIB_INCLUDE})

find_path(GPUYARD_SQLITE_INCLUDE sqlite3.h REQUIRED)
find_library(GPUYARD_SQLITE_ARCHIVE NAMES libsqlite3.a REQUIRED)
mark_as_advanced(GPUYARD_SQLITE_INCLUDE GPUYARD_SQLITE_ARCHIVE)
add_library(gpuyard_sqlite STATIC IMPORTED)
set_target_properties(gpuyard_sqlite PROPERTIES IMPORTED_LOCATION ${GPUYARD_SQLITE_ARCHIVE}
  INTERFACE_INCLUDE_DIRECTORIES ${GPUYARD_SQLITE_INCLUDE}
  INTERFACE_LINK_LIBRARIES "Threads::Threads;m;${CMAKE_DL_LIBS}")

# TLS of what we ask others over the network, and signatures.
find_path(GPUYARD_OPENSSL_INCLUDE openssl/ssl.h REQUIRED)
find_library(GPUYARD_SSL_ARCHIVE NAMES libssl.a REQUIRED)
find_library(GPUYARD_CRYPTO_ARCHIVE NAMES libcrypto.a REQUIRED)
# Since OpenSSL 3.2 it can compress certificates, and in Debian 13 it is built so.
find_library(GPUYARD_ZSTD_ARCHIVE NAMES libzstd.a)
mark_as_advanced(GPUYARD_OPENSSL_INCLUDE GPUYARD_SSL_ARCHIVE GPUYARD_CRYPTO_ARCHIVE GPUYARD_ZSTD_ARCHIVE)
add_library(gpuyard_crypto STATIC IMPORTED)
set_target_properties(gpuyard_crypto PROPERTIES IMPORTED_LOCATION ${GPUYARD_CRYPTO_ARCHIVE}
  INTERFACE_LINK_LIBRARIES "gpuyard_zlib;$<$<BOOL:${GPUYARD_ZSTD_ARCHIVE}>:${GPUYARD_ZSTD_ARCHIVE}>")
add_library(gpuyard_openssl STATIC IMPORTED)
set_target_properties(gpuyard_openssl PROPERTIES IMPORTED_LOCATION ${GPUYARD_SSL_ARCHIVE}
  INTERFACE_INCLUDE_DIRECTORIES ${GPUYARD_OPENSSL_INCLUDE}
  INTERFACE_LINK_LIBRARIES "gpuyard_crypto;Threads::Threads;${CMAKE_DL_LIBS}")

# Frames of HTTP/2 and their packed headers, for the kubelet's gRPC.
find_path(GPUYARD_NGHTTP2_INCLUDE nghttp2/nghttp2.h REQUIRED)
find_library(GPUYARD_NGHTTP2_ARCHIVE NAMES libnghttp2.a REQUIRED)
mark_as_advanced(GPUYARD_NGHTTP2_INCLUDE GPUYARD_NGHTTP2_ARCHIVE)
add_library(gpuyard_nghttp2 STATIC IMPORTED)
set_target_properties(gpuyard_nghttp2 PROPERTIES IMPORTED_LOCATION ${GPUYARD_NGHTTP2_ARCHIVE}
  INTERFACE_INCLUDE_DIRECTORIES ${GPUYARD_NGHTTP2_INCLUDE})

# Boost.JSON, fmt, spdlog, toml++ and CLI11 ship as headers; each is compiled once, in
# src/base/third_party or in the one file that uses it, so that the program links statically and including them stays cheap.
foreach(header IN ITEMS fmt/format.h spdlog/spdlog.h toml++/toml.h CLI/CLI.hpp)
  string(MAKE_C_IDENTIFIER "GPUYARD_HEADER_${header}" cache_name)
  find_path(${cache_name} ${header} REQUIRED)
  mark_as_advanced(${cache_name})
endforeach()
