// OpenSSL as this program sets it up. Inner to what uses it; includes no OpenSSL.
#pragma once

#include <memory>
#include <string>

namespace gpuyard::http {

// Called before the first use, any number of times. Thread: any. It reads no configuration of the
// machine, which may name modules that a static library cannot load. It cleans nothing up at exit,
// where a thread that was left behind may still be inside OpenSSL.
bool start_openssl();
// Why the last call on this thread failed, in OpenSSL's words.
std::string openssl_reason();

// Deletes an object of OpenSSL's with the function that frees it.
template <auto free>
struct OpensslDeleter {
  template <class T>
  void operator()(T* one) const {
    free(one);
  }
};
template <class T, auto free>
using OpensslPtr = std::unique_ptr<T, OpensslDeleter<free>>;

// A callback for OpenSSL, which would otherwise ask for a passphrase at the terminal.
int refuse_passphrase(char*, int, int, void*);

}  // namespace gpuyard::http
