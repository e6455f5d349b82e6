// Leases as the API shows them to each viewer. Everybody may see who has a GPU; only the holder and
// administrators may see what runs there.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "core/lease/lease_manager.h"
#include "faces/api/principal.h"
#include "faces/protocol/leases.h"

namespace gpuyard::api {

struct LeaseFacts;
struct RouteCall;
struct Users;

// The user to whom a lease is shown. By default anybody, as over TCP.
struct Viewer {
  std::optional<uid_t> uid = {};  // from the kernel
  bool admin = false;

  bool is_owner_or_admin(uid_t owner) const { return uid && (admin || *uid == owner); }
  bool is_local() const { return uid.has_value(); }  // may see process numbers
};

Viewer viewer_of(const Principal&);
lease::Caller caller_of(const RouteCall&);

// Returns nothing if the name is not known; "(pods)" for the owner of pods' leases.
std::optional<std::string> user_name_of(const Users&, std::uint32_t uid);
// Returns "alice", or "uid 1000" if the name is not known.
std::string display_name(const Users&, std::uint32_t uid);

// Returns a lease without its queue position, which changes all the time: see view_with_position().
protocol::Lease view_of(const LeaseFacts&, const lease::Lease&, const Viewer& = {});
protocol::LeaseAnswer answer_of(const LeaseFacts&, protocol::Lease);

// Returns null if the GPU is not known now.
const DeviceInfo* info_of(const LeaseFacts&, const DeviceId&);
// Returns why a GPU is withheld now; nothing if it is not.
std::optional<protocol::WithheldGpu> withheld_gpu_of(const LeaseFacts&, const DeviceId&);
// The same for several GPUs, by index.
std::vector<protocol::WithheldGpu> withheld_gpus_of(const LeaseFacts&,
                                                    const std::vector<DeviceId>&);
protocol::UnleasedProcess unleased_process_of(const LeaseFacts&, const DeviceId&,
                                              const lease::ObservedProcess&, const Viewer& = {});
// Returns the command that makes a lease of the GPUs that this process uses.
std::string adopt_command(const Users&, const lease::ObservedProcess&, const Viewer&);

protocol::Load load_of(const lease::LeaseManager&);

inline constexpr std::size_t kMinLeaseIdPrefix = 4;

// Returns the ID equal to `name`, else the only one that begins with it, else the only one of those
// whose lease has not ended. Leases of `owner` come before those of other users, so that the IDs of
// other users do not interfere. Errors: not_found, conflict, which names them.
Result<std::string> resolve_lease_id(const lease::LeaseManager&, std::string_view name,
                                     std::optional<std::uint32_t> owner = std::nullopt);

}  // namespace gpuyard::api
