// OpenSSL as this program wants it. Inner to what uses it.
#pragma once

#include <openssl/crypto.h>

namespace gpuyard::http {

// Before the first use, on any thread, as often as one likes. It reads no configuration of the
// machine's, which may name modules that a static library cannot load, and cleans nothing up at
// exit, where a thread that was left behind may still be inside.
inline bool start_openssl() {
  return ::OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr) == 1;
}

}  // namespace gpuyard::http
