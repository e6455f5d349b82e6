#include "faces/api/lease_view.h"

#include <algorithm>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"
#include "faces/api/bound_route.h"
#include "faces/api/context.h"

namespace gpuyard::api {
namespace {

const DeviceState* state_of(const Snapshot& snapshot, const DeviceId& id) {
  const auto found = std::ranges::find(snapshot.devices, id,
                                       [](const DeviceState& device) { return device.info.id; });
  return found == snapshot.devices.end() ? nullptr : &*found;
}

std::optional<std::int64_t> number_of(const DeviceState& device, Metric metric) {
  if (device.condition != DeviceCondition::responsive) return std::nullopt;
  const auto readings = device.sample.all(metric);
  const std::int64_t* number = readings.empty() ? nullptr : readings.front().number();
  return number == nullptr ? std::nullopt : std::optional(*number);
}

protocol::LeasedGpu leased_gpu_of(const LeaseFacts& facts, const DeviceId& id) {
  protocol::LeasedGpu gpu;
  gpu.uuid = id;
  if (const DeviceInfo* info = info_of(facts, id)) {
    gpu.index = own_index(*info);
    gpu.uuid = info->uuid;
    gpu.pci_address = info->pci_address;
    gpu.name = info->name;
  }
  if (const DeviceState* device = state_of(*facts.telemetry.latest(), id)) {
    gpu.utilization_percent = number_of(*device, Metric::utilization_gpu);
    gpu.memory_used_bytes = number_of(*device, Metric::memory_used);
  }
  return gpu;
}

// Counts from the lease's grant, so that the time is the same at each request.
std::optional<WallTime> until_of(const lease::Lease& lease) {
  if (!lease.granted_wall) return std::nullopt;
  const auto wall_at = [&](Duration held) {
    return *lease.granted_wall + std::chrono::duration_cast<std::chrono::milliseconds>(held);
  };
  if (lease.expires_at) return wall_at(*lease.expires_at - lease.granted_at);
  return lease.spec.max_hold_time ? std::optional(wall_at(*lease.spec.max_hold_time))
                                  : std::nullopt;
}

// Returns "alice" for the stored "uid 1000".
std::string cordon_owner_name(const Users& users, const std::string& by) {
  constexpr std::string_view kUid = "uid ";
  if (!by.starts_with(kUid)) return by;
  const auto uid = parse_number<std::uint32_t>(std::string_view(by).substr(kUid.size()));
  return uid ? display_name(users, *uid) : by;
}

constexpr std::size_t kMaxLeasesNamed = 5;

Error ambiguous_id_error(std::string_view name, const std::vector<std::string>& found) {
  const auto named = std::span(found).first(std::min(found.size(), kMaxLeasesNamed));
  return {
      Errc::conflict,
      fmt::format("{} leases begin with \"{}\": {}{}; use a longer part of the ID", found.size(),
                  name, fmt::join(named, ", "), found.size() > kMaxLeasesNamed ? ", ..." : "")};
}

// The leases whose ids begin with the name, those that have not ended first.
std::vector<std::string> find_ids_by_prefix(const lease::LeaseManager& leases,
                                            std::string_view name,
                                            std::optional<std::uint32_t> owner) {
  std::vector<std::string> live;
  std::vector<std::string> over;
  const auto& all = leases.leases();
  for (auto one = all.lower_bound(name); one != all.end() && one->first.starts_with(name); ++one) {
    const auto& [id, lease] = *one;
    if (owner && lease.uid != *owner) continue;
    if (id == name) return {id};
    (lease.state == lease::LeaseState::ended ? over : live).push_back(id);
  }
  return live.empty() ? over : live;
}

}  // namespace

Viewer viewer_of(const Principal& principal) {
  return {principal.uid, principal.scope >= protocol::Scope::admin};
}

lease::Caller caller_of(const RouteCall& call) {
  // Routes that change leases have a scope above TCP's, so the kernel has given a uid.
  return {call.principal.uid.value_or(static_cast<uid_t>(-1)),
          call.principal.scope >= protocol::Scope::admin,
          // The pid of a process that is gone may be another process's by now.
          call.peer.process ? static_cast<std::uint32_t>(call.peer.pid) : 0, call.peer.process};
}

std::optional<std::string> user_name_of(const Users& users, std::uint32_t uid) {
  return uid == lease::kPodsUid ? protocol::kPodsUser : users.name_of(uid);
}

std::string display_name(const Users& users, std::uint32_t uid) {
  const auto name = user_name_of(users, uid);
  return name ? *name : fmt::format("UID {}", uid);
}

const DeviceInfo* info_of(const LeaseFacts& facts, const DeviceId& id) {
  const auto& known = facts.leases.gpus().gpus();
  if (const auto found = known.find(id); found != known.end()) return &found->second.info;
  const DeviceState* device = state_of(*facts.telemetry.latest(), id);
  return device == nullptr ? nullptr : &device->info;
}

protocol::Lease view_of(const LeaseFacts& facts, const lease::Lease& lease, const Viewer& viewer) {
  protocol::Lease view;
  static_cast<lease::LeaseStatus&>(view) = static_cast<const lease::LeaseStatus&>(lease);
  view.binding = lease.spec.binding;
  view.user = user_name_of(facts.users, lease.uid);
  if (viewer.is_local() && !lease.processes.empty()) view.pid = lease.processes.front().pid;
  if (viewer.is_owner_or_admin(lease.uid)) view.note = lease.spec.note;
  view.wanted_gpus = lease.spec.gpus;
  for (const DeviceId& gpu : lease.gpus) view.gpus.push_back(leased_gpu_of(facts, gpu));
  view.until = until_of(lease);
  view.use = facts.usage.usage_of(lease.id);
  return view;
}

protocol::LeaseAnswer answer_of(const LeaseFacts& facts, protocol::Lease lease) {
  return {{1, is_simulated(facts.telemetry)}, std::move(lease)};
}

std::optional<protocol::WithheldGpu> withheld_gpu_of(const LeaseFacts& facts, const DeviceId& id) {
  const lease::GpuPool& gpus = facts.leases.gpus();
  auto why = gpus.withheld_reason(id);
  if (!why) return std::nullopt;
  protocol::WithheldGpu view;
  if (const DeviceInfo* info = info_of(facts, id)) view.index = info->index;
  view.uuid = id;
  view.why = std::move(why->first);
  view.text = std::move(why->second);
  if (const auto cordon = gpus.cordon_of(id)) {
    view.by = cordon->by;
    view.text = fmt::format("cordoned by {}: {}", cordon_owner_name(facts.users, cordon->by),
                            cordon->reason);
    view.since = to_rfc3339(cordon->since);
  }
  return view;
}

std::vector<protocol::WithheldGpu> withheld_gpus_of(const LeaseFacts& facts,
                                                    const std::vector<DeviceId>& gpus) {
  std::vector<protocol::WithheldGpu> all;
  for (const DeviceId& gpu : gpus) {
    if (auto one = withheld_gpu_of(facts, gpu)) all.push_back(*std::move(one));
  }
  std::ranges::sort(all, {}, &protocol::WithheldGpu::index);
  return all;
}

std::string adopt_command(const Users& users, const lease::ObservedProcess& process,
                          const Viewer& viewer) {
  auto adopt = fmt::format("gpuyard lease adopt --pid {}", process.pid);
  if (viewer.uid == process.uid) return adopt;
  const auto name = users.name_of(process.uid);
  return name ? fmt::format("sudo -u {} {}", *name, adopt)
              : fmt::format("sudo -u '#{}' {}", process.uid, adopt);
}

// Returns the command that gives the process a lease or, where an allocator has the GPUs, ends it.
std::string resolve_command(const LeaseFacts& facts, const lease::ObservedProcess& process,
                            const Viewer& viewer) {
  const auto allocator = facts.leases.gpus().allocator();
  if (!allocator) return adopt_command(facts.users, process, viewer);
  std::string kill =
      fmt::format("{}kill {}", viewer.uid == process.uid ? "" : "sudo ", process.pid);
  switch (*allocator) {
    case lease::Allocator::slurm:
      return fmt::format("{}  # if `scontrol pidinfo {}` names no job", kill, process.pid);
    case lease::Allocator::kubernetes:
      return kill + "  # its work needs a pod that requests the GPU";
  }
  return kill;
}

protocol::UnleasedProcess unleased_process_of(const LeaseFacts& facts, const DeviceId& gpu,
                                              const lease::ObservedProcess& process,
                                              const Viewer& viewer) {
  protocol::UnleasedProcess view;
  view.pid = process.pid;
  if (const DeviceInfo* info = info_of(facts, gpu)) view.index = info->index;
  view.uuid = gpu;
  view.uid = process.uid;
  view.user = facts.users.name_of(process.uid);
  view.command = process.command;
  view.memory_bytes = process.memory_bytes;
  if (process.started) {
    const Duration age = facts.loop.now() - *process.started;
    view.age_s = std::chrono::duration<double>(std::max(age, Duration::zero())).count();
  }
  view.resolve = resolve_command(facts, process, viewer);
  return view;
}

protocol::Load load_of(const lease::LeaseManager& leases) {
  protocol::Load load;
  for (const auto& [id, gpu] : leases.gpus().gpus()) {
    load.gpu_pool.push_back({gpu.info.index, gpu.info.name, "NVIDIA", leases.is_leased(id)});
  }
  std::ranges::sort(load.gpu_pool, {}, &protocol::PooledGpu::index);
  load.pending_claimers = static_cast<std::int64_t>(leases.waiting_claim_count());
  load.capacity = static_cast<std::int64_t>(load.gpu_pool.size());
  return load;
}

Result<std::string> resolve_lease_id(const lease::LeaseManager& leases, std::string_view name,
                                     std::optional<std::uint32_t> owner) {
  std::vector<std::string> ids;
  if (name.size() >= kMinLeaseIdPrefix) {
    if (owner) ids = find_ids_by_prefix(leases, name, owner);
    if (ids.empty()) ids = find_ids_by_prefix(leases, name, std::nullopt);
  }
  if (ids.size() == 1) return ids.front();
  if (ids.size() > 1) return ambiguous_id_error(name, ids);
  // Its claim may not be on the disk yet.
  if (leases.find_latest(name) != nullptr) return std::string(name);
  return Error{Errc::not_found, fmt::format("lease \"{}\" not found", name),
               "ended leases are forgotten after a day", "gpuyard leases\ngpuyard queue"};
}

}  // namespace gpuyard::api
