// What is asked of a daemon about leases, from what the user said, and what to say where there is
// no daemon to ask.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/client/source.h"
#include "cli/verbs.h"
#include "protocol/leases.h"

namespace gpuyard::cli {

// Without its binding. Errc::invalid says which flag is wrong, and what would be right.
Result<protocol::LeaseWish> wish_of(const LeaseFilters&);

// As much of it as a note may have, in whole characters; a byte that is none becomes U+FFFD.
std::string note_of(std::string_view text);

// "30m" as seconds. Errors name the flag.
Result<double> seconds_of(const std::string& text, std::string_view flag);

// The lease that is meant, and its fence where it is the one that this process runs under.
struct NamedLease {
  std::string id;
  std::optional<std::uint64_t> fence;
};
Result<NamedLease> named_lease(const std::string& id);

Result<http::Endpoint> lease_daemon(const std::string& socket);

// Complains of what `daemon` answered, or that it did not, with what to do next; returns the exit
// code.
int complain_about_leasing(const Error&);

}  // namespace gpuyard::cli
