// Certificates: their contents, their pins and fingerprints. Knows no socket. Includes no OpenSSL,
// so that the wiring can include it.
#pragma once

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

}  // namespace gpuyard::http
