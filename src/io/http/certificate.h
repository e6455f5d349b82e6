// Certificates: their contents, their pins and fingerprints, and self-signed ones. Knows no socket.
// Includes no OpenSSL, so that the wiring can include it.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

using X509 = struct x509_st;

namespace gpuyard::http {

// The contents of a certificate, and the pin and the fingerprint that identify it.
struct CertificateFacts {
  WallTime not_before{};
  WallTime not_after{};
  // The subject alternative names in their order: "DNS:dgx1", "IP:10.0.0.5", "URI:spiffe://a/b".
  // The common name is not among them: anything may stand there.
  std::vector<std::string> names;
  // The public key's SHA-256 as curl writes it, "sha256//" and base64. A renewal with the same key
  // keeps it.
  std::string pin;
  std::string fingerprint;  // the whole certificate's SHA-256, in 64 small hexadecimal digits
};

// A callback for OpenSSL, which would otherwise ask for a passphrase at the terminal.
int refuse_passphrase(char*, int, int, void*);

CertificateFacts facts_of(const X509*);
// Reads the first certificate in a PEM text. Errc::invalid if there is none.
Result<CertificateFacts> parse_facts(std::string_view pem);

// The certificate of a server that nobody trusts yet.
struct PresentedCertificate {
  CertificateFacts facts;
  std::string distrust_reason;  // why fetch() would refuse it without a pin; "" if it would not
};

// A fingerprint as people write it, perhaps with colons and capitals, in the form of
// CertificateFacts. Errc::invalid if it is none.
Result<std::string> to_fingerprint(std::string_view text);

// Whether it is a pin in the form of CertificateFacts.
bool is_pin(std::string_view text);

// A certificate of our own making, and its key, in PEM.
struct SelfSignedCertificate {
  std::string certificate;
  std::string key;
};

// Browsers refuse certificates that are valid for longer.
inline constexpr std::chrono::days kCertificateLifetime{397};

// `names` are host names and literal addresses, at least one. `key` is PEM; without it a new P-256
// key is made. Errc::invalid for a name that no certificate can have, or an unusable key.
Result<SelfSignedCertificate> make_self_signed(const std::vector<std::string>& names, WallTime now,
                                               std::chrono::days validity = kCertificateLifetime,
                                               std::string_view key = {});

// OpenSSL as this program sets it up. Inner to what uses it.

// Called before the first use, on any thread, any number of times. It reads no configuration of the
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

}  // namespace gpuyard::http
