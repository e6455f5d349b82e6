// What can go wrong, named by how a caller reacts. Knows no GPU.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <boost/describe/enum.hpp>

namespace gpuyard {

// One enumerator per distinct reaction of a caller, not per cause: the cause is the message.
enum class Errc {
  unsupported,  // this GPU, driver or platform cannot do it; asking again will not help
  not_found,    // the thing named is not there
  denied,       // a permission is missing; the message says which
  conflict,     // somebody else has it
  invalid,      // the request itself is wrong
  busy,         // a bounded queue is full; asking again later helps
  unavailable,  // no driver, no GPU, no daemon, or shutting down
  device_lost,  // the GPU no longer answers
  timed_out,    // the deadline passed first
  internal,     // none of the above
};

BOOST_DESCRIBE_ENUM(Errc, unsupported, not_found, denied, conflict, invalid, busy, unavailable,
                    device_lost, timed_out, internal)

std::string_view name_of(Errc);

// A code as another process told it, in the order above; a number that is none is `internal`.
Errc errc_from_number(std::uint32_t);

// The one table from Errc to the two places where it leaves the program.
int http_status_of(Errc);
int exit_code_of(Errc);

struct Error {
  Errc code = Errc::internal;
  std::string message;

  // Says where it happened: "reading power limits: <message>".
  Error in(std::string_view where) && {
    message.insert(0, std::string(where) + ": ");
    return std::move(*this);
  }

  friend bool operator==(const Error&, const Error&) = default;
};

}  // namespace gpuyard
