// The routes of GPUs: the fresh list of the REST contract, and the full state from the newest
// snapshot.
#include "faces/api/devices.h"

#include <algorithm>

#include "base/json_writer.h"
#include "base/log.h"
#include "faces/api/context.h"
#include "faces/api/router.h"
#include "gpu/device/gpu_snapshot.h"

namespace gpuyard::api {
namespace {

void get_gpu_devices(Context& context, const RouteCall& call, const NoParams&,
                     const Responder<protocol::GPUDevicesResponse>& respond) {
  const auto send_devices = [caller = call.principal,
                             respond](const telemetry::SnapshotPtr& snapshot) {
    protocol::GPUDevicesResponse response;
    for (const DeviceState& device : snapshot->devices) {
      if (!caller.can_see(device.info.id)) continue;
      response.devices.push_back(gpu_device_of(device));
    }
    response.count = response.devices.size();
    if (!snapshot->driver.initialised && response.devices.empty()) {
      log::debug("NVML not initialized, returning empty device list");
    }
    respond(std::move(response));
  };
  context.telemetry.read_fresh(kGpuDeviceProbes, send_devices);
}

Result<const DeviceState*> find_device_by_name(const Snapshot& snapshot, const std::string& name) {
  if (!snapshot.driver.initialised && snapshot.devices.empty()) {
    return Error{Errc::unavailable, snapshot.driver.why};
  }
  return find_device(snapshot, name);
}

void get_device(Context& context, const RouteCall& call, const protocol::DeviceName& name,
                const Responder<protocol::Device>& respond) {
  const auto visible = visible_snapshot(context, call.principal);
  const Snapshot& snapshot = *visible;
  const auto device = find_device_by_name(snapshot, name.id);
  if (!device) return respond(device.error());
  respond(protocol::device_of(**device, snapshot.taken, &context.processes));
}

void get_device_processes(Context& context, const RouteCall& call, const protocol::DeviceName& name,
                          const Responder<protocol::DeviceProcesses>& respond) {
  const auto visible = visible_snapshot(context, call.principal);
  const Snapshot& snapshot = *visible;
  const auto device = find_device_by_name(snapshot, name.id);
  if (!device) return respond(device.error());
  const auto can_see = [&](const ProcessMetadata& facts) {
    return can_see_arguments(call.principal, facts);
  };
  respond(protocol::device_processes_of(**device, snapshot.taken, &context.processes, can_see));
}

void get_snapshot(Context& context, const RouteCall& call, const protocol::SnapshotQuery& query,
                  const Responder<protocol::Snapshot>& respond) {
  if (query.at) return respond_with_past_snapshot(context, call, *query.at, respond);
  const auto visible = visible_snapshot(context, call.principal);
  const Snapshot& snapshot = *visible;
  if (!call.principal.gpus.empty()) {
    return respond(protocol::snapshot_of(snapshot, &context.processes));
  }
  // Both numbers only grow, so their sum changes with either.
  const std::uint64_t process_revision = context.processes.revision();
  respond.send_rendered(context.snapshot.get(snapshot.generation + process_revision, [&] {
    return json::to_json(protocol::snapshot_of(snapshot, &context.processes));
  }));
}

}  // namespace

std::vector<BoundRoute> device_routes() {
  return {
      bind(protocol::kGpuDevices, &get_gpu_devices),
      bind(protocol::kDevice, &get_device),
      bind(protocol::kDeviceProcesses, &get_device_processes),
  };
}

std::vector<BoundRoute> snapshot_routes() {
  return {bind(protocol::kSnapshot, &get_snapshot)};
}

// The first cause of a GPU is not published: the first resync has it.
void BottleneckPublisher::on_snapshot(const Snapshot& snapshot) {
  std::map<DeviceId, LastPublished> published;
  for (const DeviceState& device : snapshot.devices) {
    if (!device.bottleneck) continue;
    const LastPublished now{device.bottleneck->cause, snapshot.taken};
    const auto before = last_published_.find(device.info.id);
    const bool first = before == last_published_.end();
    const bool same = !first && before->second.cause == now.cause;
    const bool too_soon = !first && now.at - before->second.at < kMinPublishInterval;
    published[device.info.id] = first || (!same && !too_soon) ? now : before->second;
    if (first || same || too_soon) continue;
    const protocol::BottleneckChange change{to_rfc3339(snapshot.wall), device.info.id,
                                            device.info.index, *device.bottleneck};
    events_.publish(protocol::kBottleneckEvent, json::to_json(change), device.info.id);
  }
  last_published_ = std::move(published);
}

telemetry::SnapshotPtr visible_snapshot(const Context& context, const Principal& principal) {
  auto latest = context.telemetry.latest();
  if (principal.gpus.empty()) return latest;
  auto visible = std::make_shared<Snapshot>(*latest);
  std::erase_if(visible->devices,
                [&](const DeviceState& device) { return !principal.can_see(device.info.id); });
  return visible;
}

Result<std::vector<DeviceInfo>> resolve_gpus(const Snapshot& snapshot, std::string_view names) {
  if (!snapshot.driver.initialised) return Error{Errc::unavailable, snapshot.driver.why};
  std::vector<DeviceInfo> gpus;
  if (names.empty()) {
    for (const DeviceState& device : snapshot.devices) gpus.push_back(device.info);
  }
  for (bool more = !names.empty(); more;) {
    const std::size_t comma = names.find(',');
    const std::string_view name = names.substr(0, comma);
    more = comma != names.npos;
    if (more) names.remove_prefix(comma + 1);
    if (name.empty()) return Error{Errc::invalid, "the list of GPUs contains an empty name"};
    auto found = find_device(snapshot, name);
    if (!found) return std::move(found).error();
    const DeviceInfo& info = (*found)->info;
    const bool known =
        std::ranges::any_of(gpus, [&](const DeviceInfo& gpu) { return gpu.id == info.id; });
    if (!known) gpus.push_back(info);
  }
  return gpus;
}

Result<std::vector<DeviceId>> resolve_gpu_ids(const Snapshot& snapshot, std::string_view names) {
  const auto gpus = resolve_gpus(snapshot, names == "all" ? "" : names);
  if (!gpus) return gpus.error();
  std::vector<DeviceId> ids;
  for (const DeviceInfo& gpu : *gpus) ids.push_back(gpu.id);
  return ids;
}

}  // namespace gpuyard::api
