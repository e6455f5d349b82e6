#include "io/http/openssl.h"

#include <openssl/crypto.h>
#include <openssl/err.h>

namespace gpuyard::http {

bool start_openssl() {
  return ::OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr) == 1;
}

std::string openssl_reason() {
  const char* reason = ::ERR_reason_error_string(::ERR_peek_last_error());
  return reason != nullptr ? reason : "unknown reason";
}

int refuse_passphrase(char*, int, int, void*) {
  return -1;
}

}  // namespace gpuyard::http
