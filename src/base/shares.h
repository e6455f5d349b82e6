// What strangers on one machine may have at most, each: the numbers of docs/fairness.md. The
// configuration may say others.
#pragma once

#include <cstdint>

namespace gpuyard {

// Of one user - the one behind his subordinate uids - or of one address on TCP. Administrators have
// no such share.
struct Shares {
  std::int64_t connections = 512;       // at a time
  std::int64_t streams = 256;           // of them, responses that have no end
  std::int64_t waiting_claims = 200;    // at a time
  std::int64_t claims_a_minute = 600;   // new ones
  std::int64_t changes_a_minute = 240;  // of settings, with a lease or without
};

}  // namespace gpuyard
