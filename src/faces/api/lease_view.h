// Leases as the API shows them, and who gets to see what of them. Who has a GPU is everybody's
// business; what he runs there is his own.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/principal.h"
#include "base/result.h"
#include "lease/leases.h"
#include "protocol/leases.h"

namespace gpuyard::api {

struct Asked;
struct Context;

// For whom something is shown. By default for anybody, as over TCP.
struct Viewer {
  std::optional<uid_t> uid = {};  // as the kernel says
  bool admin = false;

  bool owns(uid_t owner) const { return uid && (admin || *uid == owner); }
  bool local() const { return uid.has_value(); }  // process numbers mean something to him
};

Viewer viewer_of(const Principal&);
lease::Caller caller_of(const Asked&);

// "alice", or "uid 1000" where the name is not known.
std::string person(const Context&, std::uint32_t uid);

// Without its place, which is of the moment: see lease_reasons.h.
protocol::Lease view_of(const Context&, const lease::Lease&, const Viewer& = {});
protocol::LeaseAnswer answer_of(const Context&, protocol::Lease);

// Null: the GPU is not known now.
const DeviceInfo* info_of(const Context&, const DeviceId&);
// Why a GPU is not handed out now; nothing if it is.
std::optional<protocol::Withheld> withheld_of(const Context&, const DeviceId&);
// Of several, by index.
std::vector<protocol::Withheld> withheld_among(const Context&, const std::vector<DeviceId>&);
protocol::Squatter squatter_of(const Context&, const DeviceId&, const lease::Seen&,
                               const Viewer& = {});
// The command that makes a lease of what this process uses.
std::string resolving(const Context&, const lease::Seen&, const Viewer&);

protocol::Load load_of(const lease::Leases&);

// The lease that somebody means by its id or the beginning of it.

inline constexpr std::size_t kShortestLeaseId = 4;

// One whose id begins so, if no other does; where several do, the only one that is not over.
// Errors: not_found, conflict, which names them.
Result<std::string> lease_named(const lease::Leases&, std::string_view name);

}  // namespace gpuyard::api
