// Certificates of our own making.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace gpuyard::http {

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

}  // namespace gpuyard::http
